# SPDX-License-Identifier: GPL-2.0-or-later
# What cgroups receive under cpu.max and cpu.idle (. /limits.sh in test.sh). CPU time is the kernel's account, cpu.stat.

# cgroup NAME [QUOTA PERIOD]: makes a cgroup in which there may be others, with cpu.max.
cgroup() {
    mkdir -p "/sys/fs/cgroup/$1"
    [ -z "$2" ] || echo "$2 $3" > "/sys/fs/cgroup/$1/cpu.max"
}

# used NAME: the CPU time that a cgroup has received, in us.
used() {
    sed -n 's/^usage_usec //p' "/sys/fs/cgroup/$1/cpu.stat"
}

# compute NAME MILLISECONDS THREADS: in that cgroup, in the background.
compute() {
    wakelab-guest spin --cgroup "/sys/fs/cgroup/$1" --ms "$2" --threads "$3" > "/tmp/limited.$(echo "$1" | tr / -)" 2>&1 &
    limited="$limited $!"
}

# Waits for all that compute. Sets $why if one failed or the scheduler was ejected.
computed() {
    for pid in $limited; do
        while ! is_gone "$pid"; do
            sleep 1
            echo "limits: $(cat $state)"     # the other side takes silence for a hang
        done
        wait "$pid" || why="$why a program failed: $(cat /tmp/limited.* | tr '\n' ';')"
    done
    limited=
    [ "$(cat $state)" = enabled ] || why="$why the scheduler was ejected"
}

# received NAME BEFORE LEAST MOST: adds to $why unless a cgroup has received from LEAST to MOST ms since it had BEFORE us.
received() {
    found=$((($(used "$1") - $2) / 1000))
    note "$1: $found ms, expected $3 to $4"
    [ "$found" -ge "$3" ] && [ "$found" -le "$4" ] || why="$why $1 received $found ms instead of $3 to $4;"
}

# Each figure is of 4 s on 4 CPUs. Bounds are 5 percent, and a tick for each CPU.
limits() {
    why=
    limited=
    # 40 ms in each 100: 1.6 s; and the others get the rest. A limit counts from the timer's next firing on.
    cgroup free
    sleep 0.5
    before=$(used capped)
    before_free=$(used free)
    compute capped 4000 4
    compute free 4000 4
    computed
    received capped "$before" 1504 1696
    received free "$before_free" 13664 14600
    # In a group with 80 ms one with 20 ms, beside one without a limit.
    cgroup outer 80000 100000
    echo +cpu > /sys/fs/cgroup/outer/cgroup.subtree_control
    cgroup outer/inner 20000 100000
    cgroup outer/rest
    sleep 5     # the loader looks at least every four seconds
    compute outer/inner 4000 4
    compute outer/rest 4000 4
    computed
    received outer/inner 0 744 856
    received outer 0 3024 3376
    # Idle: 3 shares of 1027, but each of its tasks runs once a second; at 1024 shares it would be 8 s.
    cgroup idle
    cgroup busy
    echo 1 > /sys/fs/cgroup/idle/cpu.idle
    sleep 5
    compute busy 4500 4
    sleep 0.3
    compute idle 4000 4
    computed
    received idle 0 0 640
    # Tasks that sleep and wake come to their end, too.
    hackbench_in capped || why="$why hackbench in capped: $(tail -n 1 /tmp/hackbench.log);"
    # Longer than the watchdog waits, with so little that a tick on each CPU is what 16 s of it repay.
    cgroup tiny 1000 1000000
    sleep 5
    compute tiny 14000 12
    computed
    note "tiny: $(($(used tiny) / 1000)) ms"
    # And without the limit.
    echo max > /sys/fs/cgroup/capped/cpu.max
    sleep 5
    before=$(used capped)
    compute capped 1000 4
    computed
    received capped "$before" 3700 4100
    [ -z "$why" ]
}

hackbench_in() {
    sh -c "echo \$\$ > /sys/fs/cgroup/$1/cgroup.procs; exec timeout 90 hackbench -g 1 -l 20" > /tmp/hackbench.log 2>&1
}

# The loader starts again when the first cgroup has a limit. Sets $why.
limits_from_the_first() {
    cgroup capped 40000 100000
    why="the loader did not start again with limits"
    await 120 has_limits && limits
}

run_limits() {
    begin limits
    under_loader limits_from_the_first --policy "$policy"
    for name in outer/inner outer/rest outer capped free idle busy tiny; do
        rmdir "/sys/fs/cgroup/$name" 2> /dev/null
    done
}

has_limits() {
    grep -q 'starting again, with limits' /tmp/loader.log && tail -n 1 /tmp/loader.log | grep -q '^scheduling by'
}
