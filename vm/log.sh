#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Init of the log test's guest: runs hackbench, short-lived tasks and one that yields, under each policy in /policies while the loader
# logs, and puts the logs, named by the number of the policy, on the disk as a tar archive (lib.sh). Its own report:
#   @@ policy SPEC                 before the steps of a policy
#
# Steps of a policy: load, work, unload.

. /lib.sh

work() {
    begin work
    hackbench -g 1 -l 30 > /tmp/hackbench.log 2>&1 &
    pid=$!
    for round in 1 2 3 4 5 6 7 8; do
        taskset $(printf %x $((1 << (round % cpus)))) sh -c "renice $((round * 2)) \$\$ > /dev/null; sleep 0.01"
    done
    # A yield is an event, too.
    wakelab-guest spin --threads 2 --cpu 0 --ms 10 --yielding 1 > /tmp/spin.log 2>&1
    yielded=$?
    if ! wait $pid; then
        failed "$(tail -n 1 /tmp/hackbench.log)"
    elif [ $yielded -ne 0 ]; then
        failed "$(cat /tmp/spin.log)"
    else
        passed
    fi
}

echo "@@ ready $cpus $(uname -r)"
number=0
while read -r policy <&3; do
    echo "@@ policy $policy"
    # A policy may be followed by arguments.
    if load $policy --log /tmp/log.$number; then
        work
        unload
        grep '^log:' /tmp/loader.log
    fi
    number=$((number + 1))
done 3< /policies
cd /tmp && tar cf /dev/vda log.* && sync
echo "@@ end"
poweroff -f
