# SPDX-License-Identifier: GPL-2.0-or-later
# Steps of test.sh that take minutes to hours (. /long.sh), by what /bounds says: fuzz and stress-loads under stress-ng, and soak.

# stress SECONDS &: stress-ng changes affinities and scheduling classes of its tasks as fast as it can, forks and switches. Its end tells
# whether its workers ended as they should. Only one of them becomes a real-time task: more would leave nothing of two CPUs to the loader.
# In the shell's place, because a shell in the background ignores SIGINT and would not pass on any signal: then $! is stress-ng.
stress() {
    exec stress-ng --affinity 4 --affinity-rand --schedpolicy 1 --fork 2 --switch 2 --timeout "${1}s" --metrics-brief > /tmp/stress.out 2>&1
}

# What stress-ng says of each kind of worker: operations in seconds.
stressed() {
    awk '$5 ~ /^[0-9]+$/ && $6 ~ /^[0-9.]+$/ { printf "%s %d operations; ", $4, $5 }' /tmp/stress.out
}

run_fuzz() {
    begin fuzz
    if ! start_loader --policy "$policy" --perf on; then
        failed "$why"
        return
    fi
    stress "$fuzz_s" &
    stress=$!
    while kill -0 $stress 2> /dev/null; do
        sleep 5
        note "$(tenths) tenths of a second up, $(cat $state)"    # as at reload
        # Once it is ejected, the rest would test the kernel's own.
        [ "$(cat $state)" = enabled ] || kill -TERM $stress
    done
    wait $stress
    code=$?
    if [ "$code" -ne 0 ]; then
        failed "stress-ng: exit code $code: $(tail -n 20 /tmp/stress.out | tr '\n' ';')"
        stop_loader
    elif stop_loader; then
        note "$fuzz_s s: $(stressed)"
        note "$(grep '^performance:' /tmp/loader.log)"
        passed
    else
        failed "$why"
    fi
}

run_stress_loads() {
    begin stress-loads
    stress 86400 &
    stress=$!
    loads=0
    again=0
    right=yes
    while [ $loads -lt "$stress_loads" ] && [ $right = yes ]; do
        if start_loader --policy "$policy" && sleep 0.2 && stop_loader; then
            loads=$((loads + 1))
            again=$((again + $(tries)))
            note "$loads loads, $again tried again"    # as at reload
        else
            failed "after $loads loads of $stress_loads: $why"
            right=no
        fi
    done
    kill -TERM $stress
    wait $stress
    code=$?
    if [ $right != yes ]; then
        return
    elif [ "$code" -ne 0 ]; then
        failed "stress-ng: exit code $code: $(tail -n 20 /tmp/stress.out | tr '\n' ';')"
    else
        note "$loads loads, $again tried again; $(stressed)"
        passed
    fi
}

# Hours of a machine that has little to do: once a minute some work, whose results are checked.
run_soak() {
    begin soak
    if ! start_loader --policy "$policy"; then
        failed "$why"
        return
    fi
    minutes=0
    while [ $minutes -lt $((60 * soak_h)) ]; do
        sleep 60
        for piece in 'spin --threads 4 --ms 5' 'schbench --rounds 4 --workers 4' 'forks --rate 100 --ms 50 --at-least 0'; do
            if ! wakelab-guest $piece > /tmp/work.out 2>&1; then
                failed "after $minutes minutes, $piece: $(tr '\n' ';' < /tmp/work.out)"
                stop_loader
                return
            fi
        done
        minutes=$((minutes + 1))
        [ $((minutes % 10)) -ne 0 ] || note "$minutes minutes, $(cat $state)"    # as at reload
    done
    if stop_loader; then
        note "$minutes minutes"
        passed
    else
        failed "$why"
    fi
}
