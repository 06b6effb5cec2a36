# SPDX-License-Identifier: GPL-2.0-or-later
# Programs that compete for CPUs, for `cargo xtask truth-groups`.
#
#   python3 compete.py CPUS FOLDER PROGRAM...     with PROGRAM = NAME:GROUP:NICE:SLICE_US:WORK
#
# This process enters the control group FOLDER, takes the name `truth`, and may run on CPUS, as may its children: one for
# each PROGRAM, and `gate`. A child takes its name, its nice value, its slice (0: that of all tasks; Linux 6.12 and later)
# and the group GROUP below FOLDER, and waits. Once all wait, `gate` lets them begin together and ends, so that its end is when the others began.
#
# WORK is `spin=N`, N rounds of an empty loop, or `pulse=N/COUNT`: COUNT times N rounds and a pause of 4 ms.

import os
import sys

PAUSE_S = 0.004


def spin(rounds):
    for _ in range(rounds):
        pass


def work(text):
    kind, what = text.split("=")
    if kind == "spin":
        spin(int(what))
        return
    from time import sleep

    rounds, count = map(int, what.split("/"))
    for _ in range(count):
        spin(rounds)
        sleep(PAUSE_S)


def become(name, nice):
    with open("/proc/self/comm", "w") as comm:
        comm.write(name)
    os.nice(nice)


def ask_for_slice(slice_us):
    from ctypes import CDLL, create_string_buffer, get_errno
    from platform import machine
    from struct import calcsize, pack

    # struct sched_attr of include/uapi/linux/sched/types.h: size, policy, flags, nice, priority, runtime, deadline, period.
    layout = "IIQiIQQQ"
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attr = create_string_buffer(pack(layout, calcsize(layout), 0, 0, nice, 0, slice_us * 1000, 0, 0))
    sched_setattr = 314 if machine() == "x86_64" else 274
    if CDLL(None, use_errno=True).syscall(sched_setattr, 0, attr, 0) != 0:
        raise OSError(get_errno(), "sched_setattr")


def enter(folder):
    with open(folder + "/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))


def start(function, *args):
    if os.fork() == 0:
        function(*args)
        os._exit(0)


def compete(program, folder, ready, gate):
    name, group, nice, slice_us, what = program.split(":")
    enter(folder + group)
    become(name, int(nice))
    if int(slice_us) > 0:
        ask_for_slice(int(slice_us))
    os.write(ready, b"r")
    os.read(gate, 1)
    work(what)


def open_gate(count, are_ready, gate):
    # It must not wait for those that it lets begin.
    become("gate", -20)
    for _ in range(count):
        os.read(are_ready, 1)
    os.write(gate, b"g" * count)


def main():
    cpus, folder, *programs = sys.argv[1:]
    os.sched_setaffinity(0, map(int, cpus.split(",")))
    enter(folder)
    become("truth", 0)
    are_ready, ready = os.pipe()
    waits, gate = os.pipe()
    for program in programs:
        start(compete, program, folder, ready, waits)
    start(open_gate, len(programs), are_ready, gate)
    for _ in range(len(programs) + 1):
        if os.wait()[1] != 0:
            sys.exit("a program failed")


main()
