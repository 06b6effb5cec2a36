# SPDX-License-Identifier: GPL-2.0-or-later
# What the guests' init scripts share (. /lib.sh): mounts, reports, loading and unloading the scheduler, the kernel's log.
#
# A line `@@ ...` on the serial console is for crates/xtask/src/vm_guest.rs, which counts; all else is for people:
#   @@ ready CPUS KERNEL           once
#   @@ section TEXT                before the steps that belong together
#   @@ ok STEP TENTHS_OF_A_SECOND  a step passed
#   @@ failed STEP TEXT            a step failed; what the loader and the kernel said follows
#   @@ note TEXT                   what is worth printing of a step
#   @@ end                         last; without it the guest did not get to its end

busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev
busybox mkdir -p /tmp
busybox --install -s /bin
# Without favordynmods each move of a process waits for a grace period of RCU, a tenth of a second with all CPUs busy.
mount -t cgroup2 -o favordynmods cgroup2 /sys/fs/cgroup
echo +cpu > /sys/fs/cgroup/cgroup.subtree_control

present=/sys/fs/cgroup/present     # while there is a cgroup, the scheduler has room for cgroups from its start on
cpus=$(nproc)
state=/sys/kernel/sched_ext/state
ops=/sys/kernel/sched_ext/root/ops
hackbench_tasks=80     # 2 groups of 20 senders and 20 receivers
verified_most=250000   # instructions that the verifier may look at in one program

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
    sed 's/^/loader: /' /tmp/loader.log
    dmesg | sed 's/^/kernel: /'
}

note() {
    echo "@@ note $*"
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

# start_loader ARGUMENTS...: in the background. Returns 1 and sets $why if the scheduler is not attached as it should be; no loader is
# left then.
start_loader() {
    scx_wakelab --verbose "$@" > /tmp/loader.log 2>&1 &
    loader=$!
    # Before all others: under load, the verifier would take minutes of emulated time. Not afterwards: balancing would leave a CPU to it
    # alone, by its weight.
    renice -20 -p $loader > /dev/null
    await 120 is_enabled
    renice 0 -p $loader > /dev/null 2>&1
    if is_right; then
        return 0
    fi
    kill -KILL "$loader" 2>/dev/null
    wait "$loader"
    await 20 is_disabled
    return 1
}

# Whether the loader is a real-time task no more, as it is while it attaches: field 41 of its stat is the scheduling policy.
is_ordinary() {
    [ "$(cut -d ' ' -f 41 "/proc/$loader/stat")" = 0 ]
}

# Whether the loader has attached what it should. Sets $why if not.
is_right() {
    why="state is $(cat $state)"
    [ "$(cat $state)" = enabled ] || return 1
    case $(cat $ops) in
    wakelab*) ;;
    *)
        why="root/ops names $(cat $ops)"
        return 1
        ;;
    esac
    why="the loader is still a real-time task"
    await 20 is_ordinary || return 1
    why="no program's verified instructions are known, or more than $verified_most"
    verified=$(sed -n 's/^verifier: .* at most \([0-9]*\) .*/\1/p' /tmp/loader.log)
    [ -n "$verified" ] && [ "$verified" -le $verified_most ]
}

# Returns 1 and sets $why if the loader does not detach as it should, or if the policy's counts do not come back to nothing.
stop_loader() {
    if [ "$(cat $state)" != enabled ]; then
        why="the scheduler was ejected"
        wait "$loader"
        return 1
    fi
    kill -INT "$loader"
    wait "$loader"
    code=$?
    await 20 is_disabled
    why="exit code $code, state $(cat $state)"
    [ "$code" -eq 0 ] && [ "$(cat $state)" = disabled ] || return 1
    why="$(grep 'accounting:' /tmp/loader.log | head -n 1)"
    grep -q '^accounting: balanced' /tmp/loader.log
}

# load POLICY [ARGUMENT...]
load() {
    begin load
    if start_loader --policy "$@"; then
        passed
    else
        failed "$why"
        return 1
    fi
}

unload() {
    begin unload
    if stop_loader; then
        passed
    else
        failed "$why"
    fi
}

# as_class POLICY PRIORITY COMMAND...: under another scheduling policy, by its number: 1 SCHED_FIFO, 7 SCHED_EXT. busybox has no chrt,
# and Debian's knows no SCHED_EXT. 144 is sched_setscheduler.
as_class() {
    perl -e 'my ($policy, $priority) = splice(@ARGV, 0, 2);
        syscall(144, 0, $policy + 0, pack("i", $priority)) == 0 or die "sched_setscheduler: $!\n";
        exec @ARGV or die "$ARGV[0]: $!\n";' "$@"
}

# on_cpus MASK COMMAND...: allowed on the CPUs of this mask only. 203 is sched_setaffinity.
on_cpus() {
    perl -e 'syscall(203, 0, 8, pack("Q", shift(@ARGV) + 0)) >= 0 or die "sched_setaffinity: $!\n"; exec @ARGV or die "$ARGV[0]: $!\n";' \
        -- "$@"
}

# as_nice NICE COMMAND...: with this nice value. Debian's busybox has no nice.
as_nice() {
    perl -e 'setpriority(0, 0, shift(@ARGV)) or die "setpriority: $!\n"; exec @ARGV or die "$ARGV[0]: $!\n";' -- "$@"
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

check_log() {
    begin kernel-log
    if dmesg | grep -E 'WARNING|BUG|Oops|stall|lockup|hung task|zero slice|disabled \(runtime error' > /tmp/found; then
        failed "$(head -n 1 /tmp/found)"
    else
        passed
    fi
    dmesg -c > /dev/null
}
