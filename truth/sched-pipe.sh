# SPDX-License-Identifier: GPL-2.0-or-later
# Two processes that hand a byte to and fro through pipes.

. "$(dirname "$0")/lib.sh"

names="sched-pipe"
check() { needs perf; }
run() { exec perf bench -f simple sched pipe -l 30000 > /dev/null; }

"$1"
