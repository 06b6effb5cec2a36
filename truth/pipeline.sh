# SPDX-License-Identifier: GPL-2.0-or-later
# Three programs in a pipe.

. "$(dirname "$0")/lib.sh"

names="seq gzip sha256sum"
check() { needs seq gzip sha256sum; }
run() { seq 1500000 | gzip -1 | sha256sum > /dev/null; }

"$1"
