# SPDX-License-Identifier: GPL-2.0-or-later
# Four threads that share one mutex.

. "$(dirname "$0")/lib.sh"

names="wakelab-mutex"
program=/tmp/wakelab-mutex
check() { needs gcc; }
prepare() { gcc -O1 -pthread -o "$program" "$(dirname "$0")/mutex.c"; }
run() { exec "$program" > /dev/null; }
finish() { rm -f "$program"; }

"$1"
