# SPDX-License-Identifier: GPL-2.0-or-later
# Four Python threads that share one lock, the interpreter.

. "$(dirname "$0")/lib.sh"

names="python3"
check() { needs python3; }
run() { exec python3 "$(dirname "$0")/threads.py"; }

"$1"
