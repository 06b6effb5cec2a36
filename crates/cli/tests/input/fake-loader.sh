#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Stands in for scx_wakelab in tests/ab.rs: does with the tree $FAKE_SYSFS what the kernel does with /sys when a
# scheduler comes and goes. $FAKE_LOADER says how it goes wrong: refused (it does not attach), partial (only to tasks
# that ask for it), late (attached for half a second before the kernel counts it), ejected or again (detached, or
# detached and attached, during the run), outlived (ejected, and the loader ends half a second after the command),
# unclean (an error at its end); `once` behind it, as in ejected-once: only the first time.

[ "$1" = --version ] && exit 0
tree=$FAKE_SYSFS/kernel/sched_ext
echo "$*" >> "$FAKE_SYSFS/loaded"
echo $$ > "$FAKE_SYSFS/loader"
code=0

detach() {
    rm -rf "$tree/root"
    echo disabled > "$tree/state"
}

attach() {
    mkdir -p "$tree/root"
    echo wakelab_0.1.0_fake > "$tree/root/ops"
    if [ "$mode" = partial ]; then echo 0; else echo 1; fi > "$tree/switch_all"
    echo enabled > "$tree/state"
    # The kernel counts it after that.
    [ "$mode" != late ] || sleep 0.5
    echo $(($(cat "$tree/enable_seq") + 1)) > "$tree/enable_seq.new"
    mv "$tree/enable_seq.new" "$tree/enable_seq"
}

trap 'detach; exit $code' INT

mode=${FAKE_LOADER%-once}
if [ "$mode" != "$FAKE_LOADER" ]; then
    [ ! -e "$FAKE_SYSFS/once" ] || mode=
    touch "$FAKE_SYSFS/once"
fi
if [ "$mode" = refused ]; then
    echo "the verifier says no" >&2
    exit 1
fi
echo "topology: 8 CPUs"
rm -f "$FAKE_SYSFS/running" "$FAKE_SYSFS/go"
attach
# In tests of what goes wrong the command makes `running`, and goes on when `go` is there.
case $mode in
ejected | outlived)
    until [ -e "$FAKE_SYSFS/running" ]; do sleep 0.01; done
    detach
    if [ "$mode" = outlived ]; then
        touch "$FAKE_SYSFS/go"
        sleep 0.5
    fi
    echo "EXIT: runnable task stall (worker[42] failed to run for 10.001s)" >&2
    touch "$FAKE_SYSFS/go"
    exit 1
    ;;
again)
    until [ -e "$FAKE_SYSFS/running" ]; do sleep 0.01; done
    detach
    attach
    ;;
unclean)
    code=1
    echo "accounting: CPU 3 still counts 1 queued" >&2
    ;;
esac
touch "$FAKE_SYSFS/go"
while :; do sleep 0.02; done
