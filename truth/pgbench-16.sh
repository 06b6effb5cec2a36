# SPDX-License-Identifier: GPL-2.0-or-later
# 16 clients that read, two threads.

. "$(dirname "$0")/pgbench.inc"

run() { transactions -S -c 16 -j 2 -t 150; }

"$1"
