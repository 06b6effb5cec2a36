# SPDX-License-Identifier: GPL-2.0-or-later
# One client that reads.

. "$(dirname "$0")/pgbench.inc"

run() { transactions -S -c 1 -t 2000; }

"$1"
