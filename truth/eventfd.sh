# SPDX-License-Identifier: GPL-2.0-or-later
# Two processes that give each other numbers through two eventfds.

. "$(dirname "$0")/stress.inc"

run() { stress eventfd 15000; }

"$1"
