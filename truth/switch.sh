# SPDX-License-Identifier: GPL-2.0-or-later
# Two processes that give each other a byte through a pipe as fast as they can.

. "$(dirname "$0")/stress.inc"

run() { stress switch 20000; }

"$1"
