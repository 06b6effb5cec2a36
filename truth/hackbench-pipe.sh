# SPDX-License-Identifier: GPL-2.0-or-later
# Two groups of 20 senders and 20 receivers over pipes.

. "$(dirname "$0")/lib.sh"

names="hackbench"
check() { needs hackbench; }
run() { exec hackbench -p -g 2 -l 300; }

"$1"
