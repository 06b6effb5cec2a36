# SPDX-License-Identifier: GPL-2.0-or-later
# Four clients that write, two threads.

. "$(dirname "$0")/pgbench.inc"

run() { transactions -c 4 -j 2 -t 100; }

"$1"
