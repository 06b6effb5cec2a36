# SPDX-License-Identifier: GPL-2.0-or-later
# Eight threads that take one of four locks and give up the CPU, again and again.

. "$(dirname "$0")/lib.sh"

names="sysbench"
check() { needs sysbench; }
run() { exec sysbench threads --threads=8 --thread-yields=50 --thread-locks=4 --events=800 --time=0 run > /dev/null; }

"$1"
