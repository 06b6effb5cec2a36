#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The guest's init for `cargo xtask vm bench`: does each line of /plan, and reports what was measured (crates/xtask/src/vm_bench.rs).
#
# A line of /plan is `WHAT SPEC ARGUMENTS...`; SPEC is a policy, `eevdf` for the kernel's own scheduler, or `empty` for a sched_ext
# scheduler without hooks; `POLICY@cgroup` is a policy with room for cgroups, and its work is in one. Reports are `@@ result WHAT SPEC VALUES...`:
#   path SPEC LOOPS RUNS      RUNS hackbenches of LOOPS, LOOPS + 1, ... loops:  RUN NS MESSAGES SWITCHES
#   wake SPEC ROUNDS RUNS     as many schbenches:                               RUN NS WAKEUPS
#   time SPEC LOOPS RUNS      pairs of hackbenches, the first under eevdf:      RUN EEVDF OWN, each NS MESSAGES SWITCHES INTERRUPTS IDLE_MS
#   latency SPEC ROUNDS RUNS  pairs of schbenches:                              RUN EEVDF_P99_NS P99_NS
#   burst SPEC TASKS MS ROUNDS                                                  MAKESPAN_NS
#   shares SPEC MS                                                              what wakelab-guest shares prints
#   pods SPEC ROUNDS          what the pods of a large machine leave to others: KIND, and what wakelab-guest rounds and spin print
#   search SPEC               the loader's line, after work on all CPUs and on a few

. /lib.sh

group=/sys/fs/cgroup/work

# up SPEC [FLAG...]: that scheduler schedules from now on; 1 and $why if it does not
up() {
    spec=$1
    shift
    case $spec in
    eevdf | eevdf@cgroup) ;;
    empty) start_loader --bench empty || return 1 ;;
    *@cgroup) start_loader --policy "${spec%@cgroup}" --cgroups 1000 || return 1 ;;
    *) start_loader --policy "$spec" "$@" || return 1 ;;
    esac
    case $spec in
    *@cgroup) mkdir -p "$group" && echo 0 > "$group/cgroup.procs" ;;    # this shell, which may be a part of the first
    esac
}

# down: the kernel's own scheduler schedules again; 1 and $why if it did before
down() {
    echo 0 > /sys/fs/cgroup/cgroup.procs
    case $spec in
    eevdf | eevdf@cgroup) ;;
    *) stop_loader ;;
    esac
}

switches() {
    awk '$1 == "ctxt" { print $2 }' /proc/stat
}

# hackbench_ns LOOPS: a hackbench of 2 groups of 20 senders and 20 receivers; it tells milliseconds
hackbench_ns() {
    hackbench -g 2 -l "$1" | awk '$1 == "Time:" { printf "%.0f", $2 * 1000000000 }'
}

# counts: switches, interrupts and ms idled of all CPUs since boot
counts() {
    awk '$1 == "cpu" { idle = $5 * 10 } $1 == "intr" { interrupts = $2 } $1 == "ctxt" { switches = $2 }
        END { print switches, interrupts, idle }' /proc/stat
}

# counted_hackbench LOOPS: its NS MESSAGES SWITCHES INTERRUPTS IDLE_MS
counted_hackbench() {
    set -- "$1" $(counts)
    ns=$(hackbench_ns "$1")
    set -- "$@" $(counts)
    echo "$ns $((800 * $1)) $(($5 - $2)) $(($6 - $3)) $(($7 - $4))"
}

# value NAME, of a line NAME=VALUE ... on standard input
value() {
    tr ' ' '\n' | sed -n "s/^$1=//p"
}

run_path() {
    hackbench_ns 10 > /dev/null    # what happens once happens here
    for run in $(seq 0 $(($3 - 1))); do
        loops=$(($2 + run))
        before=$(switches)
        ns=$(hackbench_ns $loops)
        echo "@@ result path $1 $run $ns $((800 * loops)) $(($(switches) - before))"
    done
}

run_wake() {
    for run in $(seq 0 $(($3 - 1))); do
        line=$(wakelab-guest schbench --messages 2 --workers 8 --rounds $(($2 + run)) --compute-us 1) || failed wake "$1"
        echo "@@ result wake $1 $run $(echo "$line" | value wall_ns) $(echo "$line" | value wakeups)"
    done
}

# start_pods KIND: two tasks on CPU 1, in two pods
start_pods() {
    mkdir -p $pods/a $pods/b
    case $1 in
    compute)
        for pod in a b; do
            wakelab-guest spin --cpu 1 --ms 3600000 --cgroup $pods/$pod > /dev/null &
        done
        ;;
    pipe)
        rm -f /tmp/pipe
        mkfifo /tmp/pipe
        (
            echo 0 > $pods/a/cgroup.procs
            on_cpus 2 sh -c 'exec yes > /tmp/pipe'
        ) &
        (
            echo 0 > $pods/b/cgroup.procs
            on_cpus 2 sh -c 'exec cat < /tmp/pipe > /dev/null'
        ) &
        ;;
    esac
    sleep 1
}

stop_pods() {
    echo 1 > $pods/cgroup.kill
    await 20 rmdir $pods/a $pods/b 2> /dev/null
}

# A machine of 64 CPUs, whose pods are busy on one of them, as Kubernetes sets the weights: kubepods.slice has 2500, system.slice 100.
# Its kernel workers, and two services of system.slice, are bound to the CPU of the pods.
run_pods() {
    pods=/sys/fs/cgroup/kubepods
    services=/sys/fs/cgroup/system
    mkdir $pods $services
    echo 2500 > $pods/cpu.weight
    echo +cpu > $pods/cgroup.subtree_control
    for kind in compute pipe; do
        start_pods $kind
        line=$(as_class 1 10 wakelab-guest rounds workers --rounds "$2") || failed pods "$1"
        echo "@@ result pods $1 $kind $line"
        echo $$ > $services/cgroup.procs
        line=$(on_cpus 2 wakelab-guest rounds compute --rounds "$2") || failed pods "$1"
        echo "@@ result pods $1 $kind $line"
        line=$(wakelab-guest spin --cpu 1 --ms $((50 * $2))) || failed pods "$1"
        echo "@@ result pods $1 $kind $line"
        echo $$ > /sys/fs/cgroup/cgroup.procs
        stop_pods
    done
    rmdir $pods $services
}

# under SPEC COMMAND...: what the command prints while SPEC schedules
under() {
    up "$1" || echo "$why"
    shift
    "$@"
    down || echo "$why"
}

schbench_p99() {
    wakelab-guest schbench --messages 1 --workers 2 --rounds "$1" --compute-us 500 | value p99_ns
}

# pairs WHAT SPEC N RUNS COMMAND: in turn under eevdf and SPEC, the order of a pair changing
pairs() {
    for run in $(seq 0 $(($4 - 1))); do
        if [ $((run % 2)) = 0 ]; then
            base=$(under eevdf "$5" "$3")
            other=$(under "$2" "$5" "$3")
        else
            other=$(under "$2" "$5" "$3")
            base=$(under eevdf "$5" "$3")
        fi
        echo "@@ result $1 $2 $run $base $other"
    done
}

echo "@@ ready $cpus $(uname -r)"
dmesg -c > /dev/null
last=
while read -r what scheduler a b c; do
    begin "$what"
    case $what in
    time) pairs time "$scheduler" "$a" "$b" counted_hackbench; continue ;;
    latency) pairs latency "$scheduler" "$a" "$b" schbench_p99; continue ;;
    search) flags="--bench search" ;;
    shares | pods) flags="--cgroups 1000" ;;    # the groups come while the scheduler runs
    *) flags= ;;
    esac
    if ! up "$scheduler" $flags; then
        failed "$scheduler: $why"
        continue
    fi
    case $what in
    path) run_path "$scheduler" "$a" "$b" ;;
    wake) run_wake "$scheduler" "$a" "$b" ;;
    pods) run_pods "$scheduler" "$a" ;;
    burst)
        line=$(wakelab-guest burst --tasks "$a" --cpu-ms "$b" --rounds "$c") || failed "$scheduler"
        echo "@@ result burst $scheduler $a $b $(echo "$line" | value makespan_ns)"
        ;;
    shares)
        line=$(wakelab-guest shares --group eight:100:8 --group four:100:4 --group three:100:3 --ms "$a")
        echo "@@ result shares $scheduler $line"
        ;;
    search)
        hackbench_ns 20 > /dev/null
        wakelab-guest schbench --messages 1 --workers 3 --rounds 300 --compute-us 100 > /dev/null
        ;;
    esac
    down || failed "$scheduler: $why"
    if [ "$what" = search ]; then
        sed -n "s/^search: /@@ result search $scheduler /p" /tmp/loader.log
    fi
done < /plan
check_log
echo "@@ end"
poweroff -f
