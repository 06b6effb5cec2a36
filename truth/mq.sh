# SPDX-License-Identifier: GPL-2.0-or-later
# A process that sends POSIX messages to another one.

. "$(dirname "$0")/stress.inc"

run() { stress mq 60000; }

"$1"
