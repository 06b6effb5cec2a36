# SPDX-License-Identifier: GPL-2.0-or-later
# xz with two threads.

. "$(dirname "$0")/lib.sh"

names="xz"
check() { needs xz; }
prepare() { seq 1200000 > /tmp/wakelab-truth-xz; }
run() { exec xz -0 -T 2 --block-size=1MiB -c /tmp/wakelab-truth-xz > /dev/null; }
finish() { rm -f /tmp/wakelab-truth-xz; }

"$1"
