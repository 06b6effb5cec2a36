# SPDX-License-Identifier: GPL-2.0-or-later
# 20 senders and 20 receivers over Unix sockets.

. "$(dirname "$0")/lib.sh"

names="hackbench"
check() { needs hackbench; }
run() { exec hackbench -g 1 -l 500; }

"$1"
