# SPDX-License-Identifier: GPL-2.0-or-later
# Four groups of 20 senders and 20 receivers over Unix sockets.

. "$(dirname "$0")/lib.sh"

names="hackbench"
check() { needs hackbench; }
run() { exec hackbench -g 4 -l 100; }

"$1"
