# SPDX-License-Identifier: GPL-2.0-or-later
# What the guests' init scripts share (. /lib.sh): mounts, reports, loading and unloading the scheduler, the kernel's log.
#
# A line `@@ ...` on the serial console is for crates/xtask/src/vm_guest.rs, which counts; all else is for people:
#   @@ ready CPUS KERNEL           once
#   @@ section TEXT                before the steps that belong together
#   @@ ok STEP TENTHS_OF_A_SECOND  a step passed
#   @@ failed STEP TEXT            a step failed
#   @@ note TEXT                   what is worth printing of a step
#   @@ end                         last; without it the guest did not get to its end

busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev
busybox mkdir -p /tmp
busybox --install -s /bin

cpus=$(nproc)
state=/sys/kernel/sched_ext/state
ops=/sys/kernel/sched_ext/root/ops
hackbench_tasks=80     # 2 groups of 20 senders and 20 receivers

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

# all_done N PATTERN: N lines in all files of that name. The pattern is looked up each time: a file appears when its task starts.
all_done() {
    [ "$(cat $2 2>/dev/null | wc -l)" -eq "$1" ]
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
