#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The guest's only program besides busybox: runs each policy in /policies on this kernel and reports on the serial console.
#
# A line `@@ ...` is for crates/xtask/src/vm.rs, which counts; all else is for people:
#   @@ ready CPUS KERNEL           once
#   @@ topology TEXT               once, what the loader detected
#   @@ policy SPEC                 before the steps of a policy
#   @@ safety                      before the steps at the end
#   @@ ok STEP TENTHS_OF_A_SECOND  a step passed
#   @@ failed STEP TEXT            a step failed
#   @@ end                         last; without it the guest did not get to its end
#
# Steps of a policy: load, hackbench, pinned (one task bound to each CPU counts while others compete), affinity (busy tasks are
# moved from CPU to CPU and reniced), unload, kernel-log. At the end: hotplug, kill.

busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev
busybox mkdir -p /tmp
busybox --install -s /bin

hackbench_tasks=80     # 2 groups of 20 senders and 20 receivers
counts=3000           # of each pinned task
busy_counts=4000      # of each task that is moved about
cpus=$(nproc)
state=/sys/kernel/sched_ext/state
ops=/sys/kernel/sched_ext/root/ops

tenths() {
    awk '{ printf "%d", $1 * 10 }' /proc/uptime
}

begin() {
    step=$1
    step_start=$(tenths)
}

passed() {
    echo "@@ ok $step $(($(tenths) - step_start))"
}

failed() {
    echo "@@ failed $step $*"
}

# await SECONDS COMMAND...: until it succeeds
await() {
    limit=$(($(tenths) + $1 * 10))
    shift
    until "$@"; do
        [ "$(tenths)" -lt "$limit" ] || return 1
        sleep 0.1
    done
}

is_enabled() {
    # A loader that is gone will not attach any more.
    [ "$(cat $state)" = enabled ] || ! kill -0 "$loader" 2>/dev/null
}

is_disabled() {
    [ "$(cat $state)" = disabled ]
}

load() {
    begin load
    scx_wakelab --policy "$1" --verbose > /tmp/loader.log 2>&1 &
    loader=$!
    await 120 is_enabled
    if [ "$(cat $state)" != enabled ]; then
        failed "state is $(cat $state)"
        sed 's/^/loader: /' /tmp/loader.log
        kill -KILL "$loader" 2>/dev/null
        wait "$loader"
        return 1
    fi
    case $(cat $ops) in
    wakelab*) passed ;;
    *) failed "root/ops names $(cat $ops)" ;;
    esac
}

run_hackbench() {
    begin hackbench
    if ! timeout 90 hackbench -g 2 -l 20 > /tmp/hackbench.log 2>&1; then
        failed "exit code not 0: $(tail -n 1 /tmp/hackbench.log)"
    elif ! grep -q "== $hackbench_tasks tasks" /tmp/hackbench.log || ! grep -q '^Time: ' /tmp/hackbench.log; then
        failed "not all tasks ended: $(tail -n 1 /tmp/hackbench.log)"
    else
        passed
    fi
}

# For the background: becomes a task that counts to $1, then says so and on which CPU (field 39 of its stat).
count() {
    exec sh -c 'i=0; while [ $i -lt '"$1"' ]; do i=$((i + 1)); done; set -- $(cat /proc/self/stat); echo "$i ${39}"'
}

run_pinned() {
    begin pinned
    rm -f /tmp/pinned.*
    # Competition on every CPU: without it a pinned task would have the CPU for itself.
    for cpu in $(seq 0 $((cpus - 1))); do
        count $counts > /tmp/pinned.free.$cpu &
    done
    for cpu in $(seq 0 $((cpus - 1))); do
        taskset -p $(printf %x $((1 << cpu))) $$ > /dev/null
        count $counts > /tmp/pinned.$cpu &
    done
    taskset -p $(printf %x $(((1 << cpus) - 1))) $$ > /dev/null
    if ! await 90 all_done $((2 * cpus)) '/tmp/pinned.*'; then
        failed "$(cat /tmp/pinned.* | wc -l) of $((2 * cpus)) tasks ended"
        return
    fi
    for cpu in $(seq 0 $((cpus - 1))); do
        if [ "$(cat /tmp/pinned.$cpu)" != "$counts $cpu" ]; then
            failed "the task of CPU $cpu said '$(cat /tmp/pinned.$cpu)', not '$counts $cpu'"
            return
        fi
        if [ "$(cut -d' ' -f1 /tmp/pinned.free.$cpu)" != $counts ]; then
            failed "a free task said '$(cat /tmp/pinned.free.$cpu)'"
            return
        fi
    done
    passed
}

# all_done N PATTERN: N lines in all files of that name. The pattern is looked up each time: a file appears when its task starts.
all_done() {
    [ "$(cat $2 2>/dev/null | wc -l)" -eq "$1" ]
}

run_affinity() {
    begin affinity
    rm -f /tmp/busy.*
    pids=
    for task in 0 1 2 3 4 5 6 7 8 9 10 11; do
        count $busy_counts > /tmp/busy.$task &
        pids="$pids $!"
    done
    for round in 0 1 2 3 4 5; do
        for pid in $pids; do
            taskset -p $(printf %x $((1 << ((pid + round * 3) % cpus)))) $pid > /dev/null 2>&1
            renice -n $((round * 3 - 8)) -p $pid > /dev/null 2>&1
        done
    done
    for pid in $pids; do
        taskset -p $(printf %x $(((1 << cpus) - 1))) $pid > /dev/null 2>&1
    done
    if await 90 all_done 12 '/tmp/busy.*'; then
        passed
    else
        failed "$(cat /tmp/busy.* | wc -l) of 12 tasks ended"
    fi
}

unload() {
    begin unload
    if [ "$(cat $state)" != enabled ]; then
        failed "the scheduler was ejected"
        sed 's/^/loader: /' /tmp/loader.log
        wait "$loader"
        return
    fi
    kill -INT "$loader"
    wait "$loader"
    code=$?
    await 20 is_disabled
    if [ "$code" -ne 0 ] || [ "$(cat $state)" != disabled ]; then
        failed "exit code $code, state $(cat $state)"
        sed 's/^/loader: /' /tmp/loader.log
    elif ! grep -q '^accounting: balanced' /tmp/loader.log; then
        failed "$(grep 'accounting:' /tmp/loader.log | head -n 1)"
        grep 'accounting:' /tmp/loader.log
    else
        passed
    fi
}

# The last CPU goes off and on again: the kernel detaches the scheduler each time, and the loader attaches it anew.
run_hotplug() {
    begin hotplug
    last=/sys/devices/system/cpu/cpu$((cpus - 1))/online
    for online in 0 1; do
        echo $online > $last
        if ! await 60 is_attached $((cpus - 1 + online)); then
            failed "not attached again after $online to $last"
            sed 's/^/loader: /' /tmp/loader.log
            return
        fi
    done
    passed
}

# The last thing that the loader said is that it schedules, on so many CPUs.
is_attached() {
    tail -n 1 /tmp/loader.log | grep -q '^scheduling by' && grep '^topology:' /tmp/loader.log | tail -n 1 | grep -q ": $1 CPUs"
}

# A loader that dies takes its scheduler with it.
kill_loader() {
    begin kill
    kill -KILL "$loader"
    wait "$loader" 2>/dev/null
    if await 20 is_disabled; then
        passed
    else
        failed "state is $(cat $state)"
    fi
}

check_log() {
    begin kernel-log
    dmesg -c > /tmp/dmesg
    if grep -E 'WARNING|BUG|Oops|stall|lockup|hung task|zero slice|disabled \(runtime error' /tmp/dmesg > /tmp/found; then
        failed "$(head -n 1 /tmp/found)"
        sed 's/^/kernel: /' /tmp/dmesg
    else
        passed
    fi
}

echo "@@ ready $cpus $(uname -r)"
dmesg -c > /tmp/dmesg.boot
told=
while read -r line; do
    spec=$line
    echo "@@ policy $spec"
    if load "$spec"; then
        if [ -z "$told" ]; then
            sed -n 's/^topology: /@@ topology /p' /tmp/loader.log
            sed 's/^/loader: /' /tmp/loader.log
            told=1
        fi
        run_hackbench
        run_pinned
        run_affinity
        unload
    fi
    check_log
done < /policies
echo "@@ safety"
if load "$spec"; then
    run_hotplug
    kill_loader
    run_hackbench
fi
check_log
echo "@@ end"
poweroff -f
