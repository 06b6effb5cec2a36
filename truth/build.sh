# SPDX-License-Identifier: GPL-2.0-or-later
# Four compilers at a time.

. "$(dirname "$0")/lib.sh"

names="make gcc cc1 as"
check() { needs make gcc; }
prepare() {
    rm -rf /tmp/wakelab-truth-build
    mkdir /tmp/wakelab-truth-build
    for file in 0 1 2 3 4 5 6 7 8 9 10 11; do
        { echo "#include <stdio.h>"; for n in $(seq 60); do
            echo "int f${file}_$n(int a) { for (int i = 0; i < a; i++) a += printf(\"%d\", i * $n); return a; }"
        done; } > /tmp/wakelab-truth-build/f$file.c
    done
    printf "all: \$(patsubst %%.c,%%.o,\$(wildcard *.c))\n%%.o: %%.c\n\tgcc -O1 -c \$<\n" > /tmp/wakelab-truth-build/Makefile
}
run() { exec make -s -B -j 4 -C /tmp/wakelab-truth-build; }
finish() { rm -rf /tmp/wakelab-truth-build; }

"$1"
