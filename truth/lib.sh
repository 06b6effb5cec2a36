# SPDX-License-Identifier: GPL-2.0-or-later
# What the scripts share (. lib.sh), after they have defined run(): needs(), and the verbs.

# needs PROGRAM...: exit 77 and name the first that is missing
needs() {
    for program in "$@"; do
        command -v "$program" > /dev/null || {
            echo "needs $program"
            exit 77
        }
    done
}

check() { :; }
prepare() { :; }
finish() { :; }
