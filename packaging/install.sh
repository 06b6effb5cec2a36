#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# install.sh ROOT PROGRAMS: installs wakelab and scx_wakelab, which are in the folder PROGRAMS, below ROOT: what both packages have
# (cargo xtask package), and for an installation by hand:
#
#   sudo sh packaging/install.sh / target/release
#
# Where a package is a distribution's own, DOC names the folder of its documentation.
set -eu
umask 022

[ $# -eq 2 ] || { echo 'usage: install.sh ROOT PROGRAMS' >&2; exit 2; }
root=${1%/}
programs=$2
source=$(cd "$(dirname "$0")/.." && pwd)
doc=${DOC:-/usr/share/doc/wakelab}

# put MODE FILE TO
put() {
    install -D -m "$1" "$2" "$root$3"
}

# made TO COMMAND...: a file that a command prints.
made() {
    to=$1
    shift
    "$@" > "$made"
    put 644 "$made" "$to"
}

made=$(mktemp)
trap 'rm -f "$made"' EXIT

put 755 "$programs/scx_wakelab" /usr/bin/scx_wakelab
put 755 "$programs/wakelab" /usr/bin/wakelab
put 644 "$source/crates/scx/service/scx_wakelab.service" /usr/lib/systemd/system/scx_wakelab.service
put 644 "$source/crates/scx/service/scx_wakelab.default" /etc/default/scx_wakelab
put 644 "$source/crates/scx/service/scx_loader.toml" "$doc/scx_loader.toml"
put 644 "$source/README.md" "$doc/README.md"
put 644 "$source/docs/guide/scheduler.md" "$doc/scheduler.md"
made /usr/share/man/man8/scx_wakelab.8 "$programs/scx_wakelab" --man
made /usr/share/man/man1/wakelab.1 "$programs/wakelab" man
for command in $("$programs/wakelab" --help | sed -n '/^Commands:/,/^$/ s/^  \([a-z][a-z-]*\) .*/\1/p'); do
    [ "$command" = help ] || made "/usr/share/man/man1/wakelab-$command.1" "$programs/wakelab" man "$command"
done
made /usr/share/bash-completion/completions/wakelab "$programs/wakelab" completions bash
made /usr/share/zsh/site-functions/_wakelab "$programs/wakelab" completions zsh
made /usr/share/fish/vendor_completions.d/wakelab.fish "$programs/wakelab" completions fish
