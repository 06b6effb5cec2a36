#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Init of the live tests' guests: does the steps that /steps names, under the policy that /policy names, and reports on the serial
# console (lib.sh). Work is done by wakelab-guest, which checks the result of each of its tasks.
#
# Steps under one load of the scheduler: pinned, affinity, forks, cgroups, real-time, hotplug. Steps that load for themselves: reload,
# kill, gap, partial, waits, crowd, stats, first-cgroup, again, yield, stall, forbidden, fair, and those of long.sh and limits.sh. Bounds
# in time mean something in virtual time only; /bounds has what applies.

. /lib.sh
. /long.sh              # fuzz, stress-loads, soak
. /limits.sh            # limits
. /bounds               # within_ms, at_least, reloads, moments, fair_ms, fuzz_s, stress_loads, soak_h
policy=$(cat /policy)

wanted() {
    grep -qx "$1" /steps
}

# work STEP ARGUMENTS...: a step that is one run of wakelab-guest.
work() {
    begin "$1"
    shift
    if ! timeout 120 wakelab-guest "$@" > /tmp/work.out 2> /tmp/work.err; then
        failed "$(cat /tmp/work.out /tmp/work.err | tr '\n' ';')"
    elif [ "$(cat $state)" != enabled ]; then
        failed "$(cat /tmp/work.out); but the scheduler was ejected"
    else
        note "$(cat /tmp/work.out)"
        passed
    fi
}

# real_time FIFO_CPUS THREADS: threads that may run anywhere, and one bound to CPU 0, while real-time tasks take CPUs 0 to
# FIFO_CPUS - 1 for a second. The first must continue elsewhere, and the bound one when its CPU is given back. Sets $why.
# They come one after the other: at once, one may take an idle CPU that is just pulling what another pushed away, and the kernel keeps
# that (docs/guide/scheduler.md, limits).
real_time() {
    wakelab-guest spin --cpu 0 --ms 2000 > /tmp/bound.out 2>&1 &
    bound=$!
    timeout 120 wakelab-guest spin --threads "$2" --ms 2000 --within-ms "$within_ms" > /tmp/free.out 2>&1 &
    free=$!
    sleep 0.4
    taking=
    for cpu in $(seq 0 $(($1 - 1))); do
        as_class 1 10 wakelab-guest spin --cpu "$cpu" --ms 1000 > /tmp/fifo.out 2>&1 &
        taking="$taking $!"
        sleep 0.05
    done
    why=
    for pid in $taking; do
        wait "$pid" || why="a real-time task: $(cat /tmp/fifo.out)"
    done
    wait "$free" || why="$why with $1 real-time tasks, $2 that may run elsewhere: $(tr '\n' ';' < /tmp/free.out)"
    wait "$bound" || why="$why the one that may not: $(tr '\n' ';' < /tmp/bound.out)"
    note "$1 real-time tasks: $(head -n 1 /tmp/free.out)"
    [ -z "$why" ]
}

# under_loader CHECK FLAG...: the rest of a step that is one check, under a separate loader. CHECK sets $why if it fails.
under_loader() {
    check=$1
    shift
    if ! start_loader "$@"; then
        failed "$why"
    elif ! "$check"; then
        failed "$why"
        stop_loader
    elif stop_loader; then
        passed
    else
        failed "$why"
    fi
}

# With all CPUs busy (a task more than what is left), and with idle ones where the others may go.
real_times() {
    real_time 1 "$cpus" && real_time $((cpus - 1)) 2
}

# Not with exact groups, which owe CPU time for longer: who was served more than others, elsewhere or before, waits for up to a second.
# And not with linux-4.15, with which one of four on three CPUs waited for 131 ms in two runs of sixteen.
run_real_time() {
    begin real-time
    under_loader real_times --policy linux-6.12
}

# decisions WORK...: prints how many the scheduler took while that ran, by --monitor. The work's own words are in /tmp/work.out.
decisions() {
    scx_wakelab --monitor 1 --format json > /tmp/monitor.out 2>&1 &
    monitor=$!
    sleep 0.5
    "$@" > /tmp/work.out 2>&1
    worked=$?
    sleep 1.5
    kill $monitor
    sed -n 's/.*"decisions":\([0-9]*\),.*/\1/p' /tmp/monitor.out | awk '{ sum += $1 } END { print NR ? sum : "none" }'
    return $worked
}

# With --partial the kernel's own scheduler keeps all but the tasks of the class SCHED_EXT. Sets $why.
partial() {
    ours=$(decisions as_class 7 0 hackbench -g 1 -l 20)
    code=$?
    others=$(decisions hackbench -g 1 -l 20)
    why="exit codes $code, $?; decisions for tasks of the class: $ours, for others: $others"
    note "$why"
    case $why in
    "exit codes 0, 0; decisions for tasks of the class: "[1-9][0-9][0-9]*", for others: 0") ;;
    *) return 1 ;;
    esac
    # Both kinds at once, from several starts: which task comes to which CPU first is chance, and a task that is just coming to a CPU
    # which one of the others takes must not be left behind there.
    for start in $(seq 0 5); do
        both "$start" || return 1
    done
}

# both START: those of the class get what the others leave. In even starts the others are first; in odd ones they come START hundredths
# of a second after those of the class. Sets $why.
both() {
    if [ $(($1 % 2)) -eq 0 ]; then
        others
        sleep "0.00$1"
        ours
    else
        ours
        sleep "0.0$1"
        others
    fi
    why=
    wait $ours || why="start $1: those of the class: $(tr '\n' ';' < /tmp/ours.out)"
    wait $others || why="$why start $1: the others: $(tr '\n' ';' < /tmp/others.out)"
    note "start $1: $(head -n 1 /tmp/ours.out)"
    [ -z "$why" ]
}

ours() {
    as_class 7 0 wakelab-guest spin --threads "$cpus" --ms 500 --within-ms "$within_ms" > /tmp/ours.out 2>&1 &
    ours=$!
}

others() {
    wakelab-guest spin --threads $((cpus / 2)) --ms 500 > /tmp/others.out 2>&1 &
    others=$!
}

run_partial() {
    begin partial
    under_loader partial --policy "$policy" --partial
}

# beside CPU HOGS HOGS_NICE COMMAND...: HOGS threads compute on CPU for longer than the watchdog waits, and one more as COMMAND starts it.
# That one must not wait for more than two seconds; by weights alone it would wait for longer, in the first two cases below for longer
# than the watchdog does.
beside() {
    beside_cpu=$1
    as_nice "$3" wakelab-guest spin --threads "$2" --cpu "$1" --ms 12000 > /tmp/hogs.out 2>&1 &
    shift 3
    "$@" wakelab-guest spin --cpu "$beside_cpu" --ms 12000 --within-ms 2000 > "/tmp/light$beside_cpu.out" 2>&1 &
    light="$light $!"
}

# The cases at the same time, each on a CPU; in the last one more tasks wait than a choice looks at first. Sets $why.
waits() {
    light=
    beside 0 1 -20 as_nice 19
    beside 1 40 0 as_class 5 0
    beside 2 8 0 as_class 5 0
    beside 3 100 0 as_class 5 0
    wrong=
    for pid in $light; do
        while ! is_gone "$pid"; do
            sleep 1
            echo "waits: $(cat $state)"     # the other side takes silence for a hang
        done
        wait "$pid" || wrong=yes
    done
    why=$(cat /tmp/light[0123].out | tr '\n' ';')
    note "$why"
    [ -z "$wrong" ] && [ "$(cat $state)" = enabled ]
}

# Under exact groups, and under queues of both kinds.
run_waits() {
    begin waits
    for waits_policy in wakelab linux-6.12 linux-4.15; do
        if ! start_loader --policy "$waits_policy"; then
            failed "$waits_policy: $why"
            return
        elif ! waits; then
            failed "$waits_policy: $why"
            stop_loader
            return
        elif ! stop_loader; then
            failed "$waits_policy: $why"
            return
        fi
    done
    passed
}

# On one CPU, cgroups of 100 tasks, 8 and one receive a third each: the choice sees all that wait.
crowd() {
    on_cpus 1 wakelab-guest shares --group hundred:100:100 --group eight:100:8 --group one:100:1 --settle-ms 4000 --ms 8000 --within 2 \
        > /tmp/work.out 2>&1 &
    crowd=$!
    while ! is_gone $crowd; do
        sleep 1
        echo "crowd: $(cat $state)"     # the other side takes silence for a hang
    done
    wait $crowd
    code=$?
    why=$(tr '\n' ';' < /tmp/work.out)
    note "$why"
    [ $code -eq 0 ]
}

# The rules that give each cgroup its part of a CPU whatever its number of tasks.
run_crowd() {
    begin crowd
    for groups in exact queues; do
        if ! start_loader --policy "linux-6.12+queue=fair-2024+groups=$groups"; then
            failed "$groups: $why"
            return
        elif ! crowd; then
            failed "$groups: $why"
            stop_loader
            return
        elif ! stop_loader; then
            failed "$groups: $why"
            return
        fi
    done
    passed
}

# What --stats prints of two cgroups is what they were entitled to and what they received.
run_stats() {
    begin stats
    if ! start_loader --policy "$policy" --stats 1; then
        failed "$why"
        return
    fi
    wakelab-guest shares --group a:100:4 --group b:300:4 --ms 4000 > /tmp/work.out 2>&1
    if ! stop_loader; then
        failed "$why"
        return
    fi
    # An interval in which both computed all the time: `/a 1024 4.0 24.90 24.85 -0.05`.
    awk '/^cgroup/ { a = b = 0 }
        $1 ~ /\/a$/ { a = $4; x = $5 }
        $1 ~ /\/b$/ { if (a > 24 && a < 26 && $4 > 72 && $4 < 76 && x - a < 2 && a - x < 2 && $5 - $4 < 3 && $4 - $5 < 3) found++ }
        /^decisions [1-9].* mean [1-9]/ { decided++ }
        /^  remote reads [0-9]/ { read++ }
        END { exit !(found >= 2 && decided >= 2 && read >= 2) }' /tmp/loader.log
    if [ $? -ne 0 ]; then
        failed "no two tables with 25 and 75 percent: $(cat /tmp/work.out)"
    else
        note "$(grep '/a ' /tmp/loader.log | sed -n 3p)"
        note "$(grep '/b ' /tmp/loader.log | sed -n 3p)"
        passed
    fi
}

# While there is no cgroup, the policy knows of none; with the first one the loader starts again, and then weights count.
run_first_cgroup() {
    begin first-cgroup
    rmdir $present
    if ! start_loader --policy "$policy"; then
        failed "$why"
    elif ! has_room 0; then
        failed "expected no room for cgroups: $(grep '^groups:' /tmp/loader.log)"
    elif mkdir $present && ! await 120 has_room 1000; then
        failed "no room for cgroups after the first one"
    elif ! wakelab-guest shares --group a:100:4 --group b:300:4 --ms 1000 --settle-ms 500 --within 2 > /tmp/work.out 2>&1; then
        failed "$(tr '\n' ';' < /tmp/work.out)"
    elif stop_loader; then
        note "$(cat /tmp/work.out)"
        note "starts tried again: $(tries)"
        passed
    else
        failed "$why"
    fi
    mkdir -p $present
}

# Of three tasks on one CPU the first yields after each piece of work. A yield that only ended the slice would often leave the yielder
# the next one, up to its third of the CPU; it forfeits its slice instead, where groups do not decide.
run_yield() {
    begin yield
    yielding='wakelab-guest spin --threads 3 --cpu 1 --ms 1000 --yielding 1'
    note "the kernel's own scheduler: $($yielding)"
    if ! start_loader --policy "$policy" --cgroups 0; then
        failed "$why"
    elif ! $yielding --yielding-at-most 5 > /tmp/work.out 2>&1; then
        failed "$(tr '\n' ';' < /tmp/work.out)"
        stop_loader
    elif ! stop_loader; then
        failed "$why"
    else
        note "$policy: $(cat /tmp/work.out)"
        passed
    fi
}

# A start that finds no memory for a task's record is tried again, and not for ever. The loader's own fault makes it fail: what the
# kernel does so depends on when its worker is preempted.
run_again() {
    begin again
    export WAKELAB_ALLOW_BREAK=1
    if ! start_loader --policy "$policy" --break first-starts; then
        failed "$why"
    elif [ "$(tries)" -ne 2 ]; then
        failed "expected two more tries, found $(tries)"
        stop_loader
    elif ! wakelab-guest spin --threads $((2 * cpus)) --ms 100 > /tmp/work.out 2>&1; then
        failed "$(tr '\n' ';' < /tmp/work.out)"
        stop_loader
    elif ! stop_loader; then
        failed "$why"
    else
        scx_wakelab --policy "$policy" --break starts > /tmp/loader.log 2>&1
        code=$?
        if [ $code -ne 1 ] || [ "$(tries)" -ne 5 ]; then
            failed "expected exit code 1 after five more tries, found $code after $(tries)"
        elif ! is_disabled || ! tail -n 1 /tmp/loader.log | grep -q 'init_task() failed (-12)'; then
            failed "expected the loader to say why, and state disabled; state is $(cat $state)"
        else
            note "$(tail -n 1 /tmp/loader.log)"
            passed
        fi
    fi
    unset WAKELAB_ALLOW_BREAK
    dmesg -c > /dev/null     # it tells of each failure
}

# How often the loader tried to start again.
tries() {
    grep -c 'trying again' /tmp/loader.log
}

# has_room N: the loader schedules, with room for N cgroups.
has_room() {
    tail -n 1 /tmp/loader.log | grep -q '^scheduling by' && grep '^groups:' /tmp/loader.log | tail -n 1 | grep -q "^groups: $1,"
}

# Work in the background, until its end is asked for. Each piece says on a line that it was done and right.
begin_load() {
    rm -f /tmp/load.*
    touch /tmp/load.on
    for piece in 'spin --threads 4 --ms 300' 'schbench --rounds 40 --workers 4' 'forks --rate 100 --ms 300 --at-least 0'; do
        while [ -e /tmp/load.on ]; do
            wakelab-guest $piece >> /tmp/load.done 2>> /tmp/load.lost || echo "$piece" >> /tmp/load.lost
        done &
        load_pids="$load_pids $!"
    done
}

# Sets $why if work was lost.
end_load() {
    rm /tmp/load.on
    wait $load_pids
    load_pids=
    note "pieces of work done meanwhile: $(wc -l < /tmp/load.done)"
    why="lost work: $(cat /tmp/load.lost | tr '\n' ';')"
    [ -s /tmp/load.done ] && [ ! -s /tmp/load.lost ]
}

run_reload() {
    begin reload
    begin_load
    loads=0
    again=0
    right=yes
    while [ $loads -lt $reloads ] && [ $right = yes ]; do
        if start_loader --policy "$policy" && sleep 0.2 && stop_loader; then
            loads=$((loads + 1))
            again=$((again + $(tries)))
            note "$loads loads, $again tried again"      # emulation is slow: the other side takes silence for a hang
        else
            failed "after $loads loads of $reloads: $why"
            right=no
        fi
    done
    if ! end_load; then
        failed "$why"
    elif [ $right = yes ]; then
        note "$(grep '^verifier:' /tmp/loader.log)"
        passed
    fi
}

# The loader is killed while it loads, at moments spread over the time that one load takes, and once it schedules.
run_kill() {
    begin kill
    begin_load
    start=$(tenths)
    if ! start_loader --policy "$policy"; then
        failed "$why"
        end_load
        return
    fi
    takes=$(($(tenths) - start))
    lost=
    kill_loader || lost="$lost attached"
    for percent in $moments; do
        scx_wakelab --verbose --policy "$policy" > /tmp/loader.log 2>&1 &
        loader=$!
        sleep "$(awk "BEGIN { print $takes * $percent / 1000 }")"
        kill_loader || lost="$lost $percent"
        note "killed at $percent percent of a load"      # as at reload
    done
    end_load || lost="$lost work ($why)"
    if [ -n "$lost" ]; then
        failed "the kernel did not go back to its own scheduler at:$lost"
    elif ! start_loader --policy "$policy" || ! stop_loader; then
        failed "afterwards: $why"
    else
        note "a load took $takes tenths of a second"
        passed
    fi
}

# A loader that dies takes its scheduler with it.
kill_loader() {
    kill -KILL "$loader"
    wait "$loader" 2>/dev/null
    await 20 is_disabled
}

# The last CPU goes off and on again: the kernel detaches the scheduler each time, and the loader attaches it again.
run_hotplug() {
    begin hotplug
    begin_load
    last=/sys/devices/system/cpu/cpu$((cpus - 1))/online
    for online in 0 1; do
        echo $online > $last
        if ! await 120 is_attached $((cpus - 1 + online)); then
            failed "not attached again after $online to $last"
            end_load
            return
        fi
    done
    if end_load; then
        passed
    else
        failed "$why"
    fi
}

# CPU 1 is offline, so that the CPUs' numbers have a gap. A task that slept there meanwhile, and may run nowhere else, goes on elsewhere.
run_gap() {
    begin gap
    second=/sys/devices/system/cpu/cpu1/online
    if ! start_loader --policy "$policy"; then
        failed "$why"
        return
    fi
    taskset 2 sh -c 'sleep 6; exec wakelab-guest spin --threads 1 --ms 50' > /tmp/slept.out 2>&1 &
    slept=$!
    sleep 0.3
    echo 0 > $second
    if ! await 120 is_attached $((cpus - 1)); then
        failed "not attached on $((cpus - 1)) CPUs"
    elif ! timeout 120 wakelab-guest spin --threads $((2 * cpus)) --ms 1000 > /tmp/work.out 2>&1; then
        failed "$(tr '\n' ';' < /tmp/work.out)"
    elif ! wait $slept; then
        failed "what slept on CPU 1: $(cat /tmp/slept.out)"
    elif ! timeout 120 wakelab-guest forks --rate 500 --ms 500 --at-least 0 > /tmp/work.out 2>&1; then
        failed "$(tr '\n' ';' < /tmp/work.out)"
    elif stop_loader; then
        note "$(grep '^topology:' /tmp/loader.log | tail -n 1)"
        passed
    else
        failed "$why"
    fi
    echo 1 > $second
}

# The loader's last words are that it schedules, and on how many CPUs.
is_attached() {
    tail -n 1 /tmp/loader.log | grep -q '^scheduling by' && grep '^topology:' /tmp/loader.log | tail -n 1 | grep -qE ": $1 CPUs?,"
}

# A scheduler that loses a task: the kernel's watchdog ejects it, the loader says so, and the task goes on under the kernel's own.
run_stall() {
    begin stall
    if scx_wakelab --policy "$policy" --break stall > /tmp/loader.log 2>&1; then
        failed "--break was not refused without WAKELAB_ALLOW_BREAK"
        return
    fi
    export WAKELAB_ALLOW_BREAK=1
    if ! start_loader --policy "$policy" --break stall; then
        failed "$why"
        return
    fi
    unset WAKELAB_ALLOW_BREAK
    cp /bin/wakelab-guest /tmp/stall-victim
    /tmp/stall-victim spin --threads 1 --ms 50 > /tmp/victim.out 2>&1 &
    victim=$!
    if ! await 60 is_disabled; then
        failed "expected to be ejected within 60 s, state is $(cat $state)"
        return
    fi
    wait "$loader"
    code=$?
    await 10 is_gone "$victim" || kill -KILL "$victim"
    wait "$victim"
    victim_code=$?
    if [ $code -ne 1 ]; then
        failed "expected exit code 1 of the loader, found $code"
    elif ! grep -q '^scx_wakelab: .*stall-victim.*failed to run for' /tmp/loader.log; then
        failed "expected the loader to name the stalled task"
    elif [ $victim_code -ne 0 ]; then
        failed "the task did not go on: $(cat /tmp/victim.out)"
    elif ! dmesg | grep -q 'disabled (runnable task stall)'; then
        failed "expected the kernel's log to tell of the stall"
    else
        note "$(grep '^scx_wakelab: ' /tmp/loader.log | tail -n 1)"
        note "$(cat /tmp/victim.out)"
        passed
    fi
    dmesg -c > /dev/null
}

# Two LLCs of 4 CPUs, a spinner bound to each CPU, and 12 that may run on all CPUs but the first, which is the one that balances. They
# start while CPUs 1 to 3 are crowded, so all of them begin on the other LLC. Each of the 19 tasks on CPUs 1 to 7 is due 7 / 19 of a CPU.
# forbidden LEAST MOST: in percent of that. Sets $why.
forbidden() {
    rm -f /tmp/bound*.out /tmp/free.out
    pids=
    for cpu in 0 1 2 3 4 5 6 7; do
        wakelab-guest spin --cpu $cpu --ms 10000 > /tmp/bound$cpu.out 2>&1 &
        pids="$pids $!"
    done
    for cpu in 1 2 3; do
        wakelab-guest spin --threads 4 --cpu $cpu --ms 400 > /tmp/crowd.out 2>&1 &
    done
    sleep 0.2
    on_cpus 254 wakelab-guest spin --threads 12 --ms 10000 > /tmp/free.out 2>&1 &
    pids="$pids $!"
    for pid in $pids; do
        while ! is_gone "$pid"; do
            sleep 1
            echo "forbidden: $(cat $state)"     # the other side takes silence for a hang
        done
        wait "$pid" || return 1
    done
    why=$(cat /tmp/bound0.out /tmp/bound[1-7].out /tmp/free.out | tr '= ' '  ' | awk '{
            for (i = 1; i < NF; i++) { if ($i == "least_cpu_ns") least = $(i + 1); if ($i == "most_cpu_ns") most = $(i + 1) }
            if (NR == 1) { whole = least; next }
            if (NR == 2 || least < low) low = least
            if (most > high) high = most
        } END { printf "%.1f to %.1f percent of a CPU each, %.1f due", low * 100 / whole, high * 100 / whole, 700 / 19 }')
    note "$why"
    echo "$why" | awk '{ exit !($1 * 100 > $9 * '"$1"' && $3 * 100 < $9 * '"$2"') }'
}

# wakelab is within a tenth. Where numbers of tasks are balanced, as in Linux, a CPU may keep 2 tasks and others 3, and the 2 get
# 50 percent of a CPU each, which also counts how they got there; a CPU that is left out would give its own task 100.
run_forbidden() {
    begin forbidden
    for rule in "$policy 90 110" 'linux-6.12 60 160'; do
        set -- $rule
        if ! start_loader --policy "$1"; then
            failed "$1: $why"
            return
        elif ! forbidden "$2" "$3"; then
            failed "$1: $why"
            stop_loader
            return
        elif ! stop_loader; then
            failed "$1: $why"
            return
        fi
    done
    passed
}

# shares NAME ARGUMENTS...: what cgroups receive. Their parts, without which nothing is to be seen of what is off, are always told.
shares() {
    name=$1
    shift
    wakelab-guest shares --settle-ms 1000 --ms "$fair_ms" "$@" > /tmp/fair.out 2> /tmp/fair.err &
    shares=$!
    while kill -0 $shares 2> /dev/null; do
        sleep 1
        echo "fair: $name"      # the other side takes silence for a hang
    done
    wait $shares || wrong="$wrong $name ($(tr '\n' ';' < /tmp/fair.err))"
    note "$name: $(cat /tmp/fair.out)"
}

# Three equal cgroups with 8, 4 and 3 spinners on 8 CPUs are due a third each. Then nested: of 8 CPUs x and y are due 4 each, x/a 1 and
# x/b 3; with y at 300 x is due 2, y 6 of them: x/a a half, x/b 1.5.
# `shares` and `task-weight` are of the kernels that had them. What was published of `shares`, 0.83 points, is of groups without children.
run_fair() {
    begin fair
    wrong=
    for rule in "exact --within 0.2 $policy 0.2" 'shares --within 0.83 linux-2.6.24 4' 'task-weight --beyond 10 linux-2.6.24'; do
        set -- $rule
        if ! start_loader --policy "$4" --groups "$1"; then
            failed "$1: $why"
            return
        fi
        shares "$1" --group a:100:8 --group b:100:4 --group c:100:3 "$2" "$3"
        if [ "$1" != task-weight ]; then
            shares "$1, nested" --group x:300:0 --group x/a:100:4 --group x/b:300:8 --group y:300:8 --reweight x:100 "$2" "$5"
        fi
        if ! stop_loader; then
            failed "$1: $why"
            return
        fi
    done
    if [ -n "$wrong" ]; then failed "parts are off:$wrong"; else passed; fi
}

is_gone() {
    ! kill -0 "$1" 2>/dev/null
}

echo "@@ ready $cpus $(uname -r)"
dmesg -c > /dev/null
mkdir $present
# What the same guest shows without us: emulated CPUs take turns, so that no scheduler's waits are as short as on a real machine.
wanted pinned && note "the kernel's own scheduler: $(wakelab-guest pinned --ms 1000 2> /dev/null)"
wanted affinity && note "the kernel's own scheduler: $(wakelab-guest affinity --ms 1000 2> /dev/null)"
if wanted real-time; then
    real_time 1 "$cpus" > /dev/null
    note "the kernel's own scheduler: $(head -n 1 /tmp/free.out)"
fi
if grep -qxE 'pinned|affinity|forks|cgroups|hotplug' /steps && load "$policy"; then
    note "$(grep '^topology:' /tmp/loader.log)"
    note "$(grep '^verifier:' /tmp/loader.log)"
    wanted pinned && work pinned pinned --ms 1500 --within-ms "$within_ms"
    wanted affinity && work affinity affinity --ms 1000 --within-ms "$within_ms"
    wanted forks && work forks forks --rate 1000 --ms 1000 --at-least "$at_least"
    wanted cgroups && work cgroups cgroups --count 200
    wanted hotplug && run_hotplug
    unload
    check_log
fi
for step in real-time reload kill gap partial waits crowd stats first-cgroup again yield stall limits forbidden fair fuzz stress-loads soak; do
    if wanted $step; then
        "run_$(echo $step | tr - _)"
        check_log
    fi
done
echo "@@ end"
poweroff -f
