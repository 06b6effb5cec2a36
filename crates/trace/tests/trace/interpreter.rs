// SPDX-License-Identifier: GPL-2.0-or-later
//! Locks of interpreters (crates/trace/src/flows/interpreter.rs), and what is none.

use wakelab_trace::Recording;
use wakelab_trace::flows::FlowKind;
use wakelab_workload::Op;

use crate::executor::execute;
use crate::script::{Script, compute, program, signal};

const LOCK: Op = Op::Lock { lock: 0 };
const UNLOCK: Op = Op::Unlock { lock: 0 };

/// t1, t2 and t3 on CPUs 0, 1 and 2 run for 10 in turn, ten times. After 9 each wakes the next one, and after 10 it
/// sleeps until UNTIL at the latest (0: without a limit). The others stay for STAYS more.
fn turns(until: u64, stays: u64) -> Recording {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1);
    for turn in 0..30 {
        let (cpu, next, at) = ((turn % 3) as u32, ((turn + 1) % 3) as u32, 10 * turn);
        let futex = |script: &mut Script, time_ns: u64, op: u64, until: u64| {
            let fields = format!("uaddr: 0x1000, op: {op:#010x}, val: 0x00000001, utime: {until:#x}");
            script.event(cpu, time_ns, cpu + 1, "syscalls:sys_enter_futex", &fields);
        };
        futex(&mut script, at + 9, 1, 0);
        script.waking(cpu, at + 9, cpu + 1, next + 1);
        script.switch(next, at + 10, 0, "R", next + 1);
        futex(&mut script, at + 10 + stays, 9, until);
        script.switch(cpu, at + 10 + stays, cpu + 1, "S", 0);
    }
    script.switch(0, 310, 1, "X", 0);
    script.explained()
}

#[test]
fn threads_that_take_turns_have_a_lock() {
    let recording = turns(0x5000, 0);
    let flow = recording.explained.flows[&FlowKind::Mutex];
    // t2 and t3 have not slept for it before their first turns.
    assert_eq!((flow.pairs, flow.wakeups), (1, 28));
    let first = [compute(9), signal(0), compute(1)];
    let others = [LOCK, compute(9), UNLOCK, compute(1)].repeat(8);
    assert_eq!(program(&recording, "t1")[..35], [&first[..], &others].concat());
    execute(&recording.workload).expect("no task waits for ever");
}

#[test]
fn sleeps_without_a_limit_are_something_else() {
    assert!(turns(0, 0).workload.locks.is_empty());
}

#[test]
fn threads_that_run_at_the_same_time_have_none() {
    assert!(turns(0x5000, 8).workload.locks.is_empty());
}
