# SPDX-License-Identifier: GPL-2.0-or-later
# A process that sends POSIX messages to another one.

. "$(dirname "$0")/lib.sh"

names="stress-ng*"
check() { needs stress-ng; }
run() { exec stress-ng --quiet --mq 1 --mq-ops 60000 > /dev/null; }

"$1"
