// SPDX-License-Identifier: GPL-2.0-or-later
//! Handshakes: a task that wakes another in vain until that waits.

use wakelab_trace::Recording;
use wakelab_trace::flows::{FlowCount, FlowKind};
use wakelab_workload::Op;

use crate::executor::execute;
use crate::script::{Script, compute, program};

/// The current task waits for the futex at 0x1000, or wakes who does.
fn futex(script: &mut Script, cpu: u32, time_ns: u64, current: u32, waits: bool) {
    let (op, value) = if waits { (0, 0) } else { (1, 1) };
    let fields = format!("uaddr: 0x1000, op: {op:#010x}, val: {value:#010x}, utime: 0x00000000");
    script.event(cpu, time_ns, current, "syscalls:sys_enter_futex", &fields);
}

/// They shake hands from the beginning.
fn rounds(rounds: u64, vain: u64) -> Recording {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2);
    shake(&mut script, 0, rounds, vain);
    script.explained()
}

/// ROUNDS times in 100 ns: t1 calls on CPU 0 at 10, in vain, and at 40, 60, 80 and 90. t2 on CPU 1 waits at 50; it
/// sleeps in even rounds, until it runs again at 62. In `vain` rounds of ten it does not wait at all.
fn shake(script: &mut Script, since_ns: u64, rounds: u64, vain: u64) {
    for round in 0..rounds {
        let at = |time_ns: u64| since_ns + 100 * round + time_ns;
        let (waits, sleeps) = (round % 10 >= vain, round % 2 == 0);
        for call_ns in [10, 40] {
            futex(script, 0, at(call_ns), 1, false);
        }
        if waits {
            futex(script, 1, at(50), 2, true);
        }
        if waits && sleeps {
            script.switch(1, at(50), 2, "S", 0);
        }
        futex(script, 0, at(60), 1, false);
        if waits && sleeps {
            script.waking(0, at(60), 1, 2).switch(1, at(62), 0, "R", 2);
        }
        for call_ns in [80, 90] {
            futex(script, 0, at(call_ns), 1, false);
        }
    }
    let end = since_ns + 100 * rounds;
    script.switch(0, end, 1, "X", 0).switch(1, end, 2, "X", 0);
}

/// t1 comes to the first meeting at 10, and to the others at 80 of the round before; it spins until 60.
#[test]
fn a_waker_in_vain_meets_its_wakee() {
    let recording = rounds(20, 0);
    let flow = recording.explained.flows[&FlowKind::Handshake];
    assert_eq!(flow, FlowCount { pairs: 1, wakeups: 10, added: 10 });
    let barrier = recording.workload.barriers[0];
    assert_eq!((barrier.parties, barrier.spin_ns, barrier.recorded), (2, u64::MAX, true));
    let (comes, waits) = (Op::Barrier { barrier: 0 }, Op::SleepAtBarrier { barrier: 0 });
    // 20 between the call that was heard and the next one; 40 at the end.
    let expected = [vec![compute(10)], [comes, compute(20)].repeat(19), vec![comes, compute(40)]].concat();
    assert_eq!(program(&recording, "t1"), expected);
    // It works for 88 after a sleep, and for 100 otherwise.
    let expected =
        [vec![compute(50)], [waits, compute(88), waits, compute(100)].repeat(9), vec![waits, compute(88)]];
    assert_eq!(program(&recording, "t2"), [expected.concat(), vec![waits, compute(50)]].concat());
    assert!(execute(&recording.workload).is_ok(), "no order of execution is stuck");
}

/// A waker whose calls are mostly heard sends messages.
#[test]
fn a_waker_that_is_heard_does_not_spin() {
    assert!(!rounds(7, 0).explained.flows.contains_key(&FlowKind::Handshake), "too few");
    assert!(rounds(20, 6).explained.flows.contains_key(&FlowKind::Handshake));
}

/// Before they shake hands, t1 feeds t2 ten times in 100 ns. As a stream, it would go on to feed t2 while it spins:
/// behind its coming, for which t2 would have to come first.
#[test]
fn a_waker_that_spins_feeds_nobody() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2);
    for round in 0..10 {
        let at = |time_ns: u64| 100 * round + time_ns;
        script.switch(1, at(20), 2, "S", 0).waking(0, at(30), 1, 2).switch(1, at(32), 0, "R", 2);
    }
    shake(&mut script, 1_000, 20, 0);
    let recording = script.explained();
    let flows = &recording.explained.flows;
    assert_eq!(flows[&FlowKind::Handshake].pairs, 1);
    assert_eq!((flows.get(&FlowKind::Stream), flows[&FlowKind::Signal].wakeups), (None, 10));
    assert!(execute(&recording.workload).is_ok(), "no order of execution is stuck");
}
