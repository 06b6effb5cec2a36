#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Init of the guest of `cargo xtask vm truth`: records each program of /plan under each scheduler of /schedulers, as often as /repeats
# says, in turn, and puts the recordings on the disk as a tar archive (lib.sh). Its own report:
#   @@ recording PROGRAM SCHEDULER REPEAT TEXT     what `wakelab record` said
#
# A line of /plan is a program's name and its command, for sh. A line of /schedulers is `kernel` for the kernel's own, or a policy and
# arguments of the loader; its number, from 0 on, is in the names of recordings: PROGRAM.NUMBER.REPEAT.rec.gz.
#
# Steps: load, record, unload, kernel-log.

. /lib.sh
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug

folder=/tmp/recordings
groups=/sys/fs/cgroup

# record PROGRAM COMMAND: under the scheduler $number, the time $repeat
record() {
    begin record
    if ! wakelab record -o "$folder/$1.$number.$repeat.rec.gz" -- sh -c "$2" > /tmp/program.log 2> /tmp/record.log < /dev/null; then
        failed "$1: $(cat /tmp/record.log)"
        sed 's/^/program: /' /tmp/program.log
    else
        echo "@@ recording $1 $number $repeat $(head -n 1 /tmp/record.log)"
        passed
    fi
}

record_all() {
    while read -r name command <&4; do
        record "$name" "$command"
    done 4< /plan
}

echo "@@ ready $cpus $(uname -r)"
dmesg -c > /dev/null
mkdir -p $folder
# From the start on, so that the loader makes room for them once.
mkdir $groups/light $groups/heavy
echo 300 > $groups/heavy/cpu.weight
for repeat in $(seq 0 $(($(cat /repeats) - 1))); do
    number=0
    while read -r scheduler <&3; do
        echo "@@ section $scheduler, $((repeat + 1))"
        if [ "$scheduler" = kernel ]; then
            record_all
        elif load $scheduler; then
            record_all
            unload
        fi
        number=$((number + 1))
    done 3< /schedulers
done
check_log
cd $folder && tar cf /dev/vda ./* && sync
echo "@@ end"
poweroff -f
