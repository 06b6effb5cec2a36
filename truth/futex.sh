# SPDX-License-Identifier: GPL-2.0-or-later
# A process that waits for a futex, and one that wakes it in a loop without a wait.

. "$(dirname "$0")/stress.inc"

run() { stress futex 20000; }

"$1"
