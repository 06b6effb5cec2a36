# SPDX-License-Identifier: GPL-2.0-or-later
# Four clients that read, two threads.

. "$(dirname "$0")/pgbench.inc"

run() { transactions -S -c 4 -j 2 -t 500; }

"$1"
