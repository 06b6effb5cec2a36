# SPDX-License-Identifier: GPL-2.0-or-later
# A Python process that gives small jobs to three others (multiprocessing.Pool).

. "$(dirname "$0")/lib.sh"

names="python3"
check() { needs python3; }
run() { exec python3 "$(dirname "$0")/pool.py"; }

"$1"
