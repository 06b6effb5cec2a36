# SPDX-License-Identifier: GPL-2.0-or-later
# A process that waits for a futex, and one that wakes it in a loop without a wait.

. "$(dirname "$0")/lib.sh"

names="stress-ng*"
check() { needs stress-ng; }
run() { exec stress-ng --quiet --futex 1 --futex-ops 20000 > /dev/null; }

"$1"
