# SPDX-License-Identifier: GPL-2.0-or-later
# What the scripts share: needs(), and verbs that do nothing unless a script defines its own. A script also sets $names, the
# names of its tasks.

# needs PROGRAM...: exit 77 and name the first that is missing
needs() {
    for program in "$@"; do
        command -v "$program" > /dev/null || {
            echo "needs $program"
            exit 77
        }
    done
}

names() { echo $names; }
check() { :; }
prepare() { :; }
finish() { :; }
