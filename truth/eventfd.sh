# SPDX-License-Identifier: GPL-2.0-or-later
# Two processes that give each other numbers through two eventfds.

. "$(dirname "$0")/lib.sh"

names="stress-ng*"
check() { needs stress-ng; }
run() { exec stress-ng --quiet --eventfd 1 --eventfd-ops 15000 > /dev/null; }

"$1"
