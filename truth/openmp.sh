# SPDX-License-Identifier: GPL-2.0-or-later
# Four threads that wait for each other at 2,000 barriers.

. "$(dirname "$0")/lib.sh"

names="wakelab-openmp"
program=/tmp/wakelab-openmp
check() {
    needs gcc
    echo "int main(void) { return 0; }" | gcc -fopenmp -x c -o "$program" - 2> /dev/null || {
        echo "needs gcc with OpenMP"
        exit 77
    }
    rm -f "$program"
}
prepare() { gcc -O1 -fopenmp -o "$program" "$(dirname "$0")/openmp.c"; }
run() { OMP_NUM_THREADS=4 exec "$program"; }
finish() { rm -f "$program"; }

"$1"
