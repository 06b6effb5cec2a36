#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Init of the guest of `cargo xtask vm ab`. With /arguments: runs `wakelab ab` with them and shows what it prints. Without: tests
# it against the real kernel and the real loader, and reports on the serial console (lib.sh). Its own report:
#   @@ out LINE                    a line of what `wakelab ab` printed
#
# Steps: refused (another scheduler is attached), table, ejected (the loader is killed during a run), failing (the command
# fails under a policy), interrupted (SIGINT during a run under a policy), kernel-log.

. /lib.sh
mount -t tracefs tracefs /sys/kernel/tracing

seq_file=/sys/kernel/sched_ext/enable_seq
first=linux-4.15+idle=smt-balance
second=wakelab

# ab ARGUMENTS...: its exit code in $code, what it printed in /tmp/out and /tmp/err
ab() {
    wakelab ab "$@" > /tmp/out 2> /tmp/err
    code=$?
}

# wrong TEXT: the step failed; what was printed goes to people
wrong() {
    failed "$* (exit code $code, state $(cat $state))"
    sed 's/^/out: /' /tmp/out
    sed 's/^/err: /' /tmp/err
}

run_refused() {
    load "$second" || return
    begin refused
    ab -- true
    if [ "$code" -ne 2 ] || ! grep -q 'already running: wakelab' /tmp/err || [ "$(cat $state)" != enabled ]; then
        wrong "a scheduler was attached"
    else
        passed
    fi
    unload
}

# Three sides, two blocks: four times a policy is attached, and each time the kernel's own scheduler comes back.
run_table() {
    begin table
    before=$(cat $seq_file)
    ab --policy kernel --policy $first --policy $second --runs 2 --until 0 --format json --metric 'Time: ([0-9.]+)' \
        -- hackbench -g 1 -l 5
    if [ "$code" -ne 0 ] || [ "$(cat $state)" != disabled ]; then
        wrong "no table"
    elif [ $(($(cat $seq_file) - before)) -ne 4 ]; then
        wrong "attached $(($(cat $seq_file) - before)) times, not 4"
    elif ! grep -q '"stopped_by": "runs"' /tmp/out || ! grep -q '"void": \[\]' /tmp/out; then
        wrong "void runs"
    else
        for name in metric wall_time_ns cpu_time_ns context_switches migrations wakeups runqueue_wait_ns; do
            if ! grep -q "\"name\": \"$name\"" /tmp/out; then
                wrong "no metric $name"
                return
            fi
        done
        passed
    fi
}

# The command itself kills the loader, once: its run is void, and the block is run again.
run_ejected() {
    begin ejected
    rm -f /tmp/killed
    echo 'if [ "$(cat '$state')" = enabled ] && [ ! -e /tmp/killed ]; then touch /tmp/killed; killall -KILL scx_wakelab; fi; sleep 0.2' \
        > /tmp/kill.sh
    ab --policy $first --runs 2 --until 0 --warmup 0 -- sh /tmp/kill.sh
    if [ "$code" -ne 0 ] || [ "$(cat $state)" != disabled ] || ! grep -q 'void, and run again: the loader ended with signal 9' /tmp/out; then
        wrong "a void run was not told"
    else
        passed
    fi
}

run_failing() {
    begin failing
    echo 'echo no luck; [ "$(cat '$state')" = disabled ]' > /tmp/fail.sh
    ab --policy $first --runs 2 -- sh /tmp/fail.sh
    if [ "$code" -ne 3 ] || [ "$(cat $state)" != disabled ] || [ -s /tmp/out ] || ! grep -q 'no luck' /tmp/err; then
        wrong "a command that failed was not told"
    else
        passed
    fi
}

run_interrupted() {
    begin interrupted
    wakelab ab --policy $first --warmup 0 -- sh -c '[ "$(cat '$state')" = disabled ] || sleep 1000' > /tmp/out 2> /tmp/err &
    running=$!
    code=none
    if ! await 180 pidof sleep > /dev/null; then
        wrong "the command did not begin"
        kill -KILL $running
        return
    fi
    kill -INT $running
    wait $running
    code=$?
    if [ "$code" -ne 130 ] || [ "$(cat $state)" != disabled ] || pidof sleep scx_wakelab > /dev/null; then
        wrong "something was left"
    else
        passed
    fi
}

echo "@@ ready $cpus $(uname -r)"
dmesg -c > /tmp/dmesg.boot
if [ -e /arguments ]; then
    begin ab
    eval "ab $(cat /arguments)"
    sed 's/^/@@ out /' /tmp/out
    if [ "$code" -eq 0 ]; then passed; else wrong "no table"; fi
else
    run_refused
    run_table
    run_ejected
    run_failing
    run_interrupted
fi
check_log
echo "@@ end"
poweroff -f
