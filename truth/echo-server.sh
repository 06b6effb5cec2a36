# SPDX-License-Identifier: GPL-2.0-or-later
# A Python server and four clients over TCP, one question at a time each.

. "$(dirname "$0")/lib.sh"

names="python3"
check() { needs python3; }
run() { exec python3 "$(dirname "$0")/echo_server.py"; }

"$1"
