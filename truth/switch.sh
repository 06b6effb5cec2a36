# SPDX-License-Identifier: GPL-2.0-or-later
# Two processes that give each other a byte through a pipe as fast as they can, as `stress-ng --switch` does.

. "$(dirname "$0")/lib.sh"

names="stress-ng*"
check() { needs stress-ng; }
run() { exec stress-ng --quiet --switch 1 --switch-ops 20000 > /dev/null; }

"$1"
