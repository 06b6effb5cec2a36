#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Init of the smoke test's guest: runs each policy in /policies on this kernel and reports on the serial console (lib.sh).
# Its own reports:
#   @@ topology TEXT               once, what the loader detected
#   @@ policy SPEC                 before the steps of a policy
#
# Steps of a policy: load, hackbench, pinned (one task bound to each CPU counts while others compete), affinity (busy tasks are
# moved from CPU to CPU and reniced), unload; load and unload again with a log; kernel-log.

. /lib.sh

counts=3000           # of each pinned task
busy_counts=4000      # of each task that is moved about

# all_done N PATTERN: N lines in all files of that name. The pattern is looked up each time: a file appears when its task starts.
all_done() {
    [ "$(cat $2 2>/dev/null | wc -l)" -eq "$1" ]
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

echo "@@ ready $cpus $(uname -r)"
dmesg -c > /dev/null
told=
mkdir $present
# A line of /policies is a policy, and perhaps more arguments.
while read -r spec; do
    echo "@@ policy $spec"
    if load $spec; then
        if [ -z "$told" ]; then
            sed -n 's/^topology: /@@ topology /p' /tmp/loader.log
            sed 's/^/loader: /' /tmp/loader.log
            told=1
        fi
        note "$(grep '^verifier:' /tmp/loader.log)"
        run_hackbench
        run_pinned
        run_affinity
        unload
    fi
    # The scheduler that logs is another object: its stacks are deeper, and the verifier may refuse it alone.
    if load $spec --log /tmp/log; then
        unload
    fi
    rm -f /tmp/log
    check_log
done < /policies
echo "@@ end"
poweroff -f
