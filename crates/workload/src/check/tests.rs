// SPDX-License-Identifier: GPL-2.0-or-later
//! What [`Workload::check`] refuses, and what passes.

use super::*;
use crate::program::Measure;

fn task(parent: Option<u32>, program: Vec<Op>) -> Task {
    Task { parent, ..Task::new("t", 0, program) }
}

/// Ends after 1 s; one channel of 100 bytes, one signal, one gate.
fn workload(tasks: Vec<Task>) -> Workload {
    Workload {
        tasks,
        channels: vec![Channel { capacity_bytes: 100, ..Channel::default() }],
        signals: 1,
        gates: 1,
        end: End::After { duration_ns: 1_000_000_000 },
        ..Workload::empty("w", Measure::Rate)
    }
}

fn refused(tasks: Vec<Task>) -> String {
    workload(tasks).check().unwrap_err().to_string()
}

const BEGIN: Op = Op::LoopBegin { times: None };
const WORK: Op = Op::Compute { work_ns: 1, spread_percent: 0 };

#[test]
fn loops() {
    let program = |program: Vec<Op>| workload(vec![task(None, program)]).check();
    assert_eq!(program(vec![BEGIN, WORK, Op::LoopEnd]), Ok(()));
    assert_eq!(
        program(vec![BEGIN, Op::LoopBegin { times: Some(3) }, WORK, Op::LoopEnd, Op::LoopEnd]),
        Ok(())
    );
    for (ops, error) in [
        (vec![BEGIN], "operation 0: a loop that does not end"),
        (vec![WORK, Op::LoopEnd], "operation 1: the end of a loop that did not begin"),
        (vec![WORK, BEGIN, Op::Yield, Op::LoopEnd], "operation 1: an endless loop that takes no time"),
        (
            vec![BEGIN, Op::LoopBegin { times: Some(0) }, WORK, Op::LoopEnd, Op::LoopEnd],
            "operation 0: an endless loop that takes no time",
        ),
        (vec![BEGIN; LOOP_DEPTH_MAX + 1], "operation 64: more than 64 nested loops"),
    ] {
        assert_eq!(program(ops).unwrap_err().to_string(), format!("task 0 (t), {error}"));
    }
    let mut endless = workload(vec![task(None, vec![BEGIN, WORK, Op::LoopEnd])]);
    endless.end = End::AllExited;
    assert!(endless.check().unwrap_err().to_string().contains("an endless loop, but the run ends when"));
}

#[test]
fn indices_and_figures() {
    for (op, error) in [
        (Op::Send { channel: 1, bytes: 1, work_ns: 0 }, "channel 1; expected an index below 1"),
        (Op::Recv { channel: 7, work_ns: 0 }, "channel 7; expected an index below 1"),
        (Op::Poll { first: 0, count: 2, work_ns: 0 }, "channel 1; expected an index below 1"),
        (Op::Poll { first: 0, count: 0, work_ns: 0 }, "polls no channel; expected at least 1"),
        (Op::WhenReady { channel: 1 }, "channel 1; expected an index below 1"),
        (Op::Signal { signal: 1, sync: false }, "signal 1; expected an index below 1"),
        (Op::Wait { signal: 2 }, "signal 2; expected an index below 1"),
        (Op::OpenGate { gate: 1 }, "gate 1; expected an index below 1"),
        (Op::WaitGate { gate: 1 }, "gate 1; expected an index below 1"),
        (Op::Fork { task: 1 }, "forks task 1; expected an index below 1"),
        (
            Op::Send { channel: 0, bytes: 101, work_ns: 0 },
            "a message that takes 101 bytes never fits into channel 0 of 100 bytes",
        ),
        (Op::Compute { work_ns: 0, spread_percent: 101 }, "a spread of 101 percent; expected 0 to 100"),
        (
            Op::Compute { work_ns: TIME_NS_MAX + 1, spread_percent: 0 },
            "work of 1125899906842625 ns; expected at most 1125899906842624",
        ),
        (Op::Lock { lock: 0 }, "lock 0; expected an index below 0"),
        (Op::Barrier { barrier: 3 }, "barrier 3; expected an index below 0"),
        (
            Op::Memory {
                work_ns: 0,
                read_bytes: 0,
                write_bytes: MEMORY_BYTES_MAX + 1,
                home: crate::Home::FirstTouch,
                llc_percent: 0,
            },
            "more than 17592186044416 bytes in one operation",
        ),
        (
            Op::Memory {
                work_ns: 0,
                read_bytes: 1,
                write_bytes: 0,
                home: crate::Home::FirstTouch,
                llc_percent: 101,
            },
            "101 percent from the LLC; expected 0 to 100",
        ),
        (
            Op::Sleep { delay_ns: u64::MAX, source: crate::Source::Timer },
            "a sleep of 18446744073709551615 ns; expected at most 1125899906842624",
        ),
    ] {
        assert_eq!(refused(vec![task(None, vec![op])]), format!("task 0 (t), operation 0: {error}"));
    }
    let mut weightless = task(None, vec![]);
    weightless.weight = 0;
    assert_eq!(refused(vec![weightless]), "task 0 (t): weight 0; expected 1 to 262144");
    let mut unsorted = task(None, vec![]);
    unsorted.allowed = Some(vec![3, 3]);
    assert_eq!(refused(vec![unsorted]), "task 0 (t): the allowed CPUs are not in ascending order");
    assert_eq!(refused(vec![]), "it has no tasks");
    let mut zero = workload(vec![task(None, vec![])]);
    zero.end = End::After { duration_ns: 0 };
    assert_eq!(zero.check().unwrap_err().to_string(), "it ends after 0 ns; expected 1 to 1125899906842624");
}

#[test]
fn barriers_and_locks() {
    let come = |barrier| Op::Barrier { barrier };
    let with = |barriers: Vec<Barrier>, tasks: Vec<Task>| {
        let found = Workload { barriers, ..workload(tasks) };
        found.check().map_err(|error| error.to_string())
    };
    let two = Barrier { parties: 2, spin_ns: 0, recorded: false };
    // A task that comes twice counts once. More tasks than parties are fine, and so are unused barriers.
    let (once, twice) = (task(None, vec![come(0)]), task(None, vec![come(0), come(0)]));
    assert_eq!(with(vec![two], vec![once.clone(), twice.clone(), once.clone()]), Ok(()));
    assert_eq!(with(vec![two, two], vec![once.clone(), twice.clone()]), Ok(()));
    let alone = "barrier 0: it has 2 parties; expected at most 1, the tasks that come to it".to_owned();
    assert_eq!(with(vec![two], vec![twice, task(None, vec![WORK])]), Err(alone));
    let nobody = Barrier { parties: 0, spin_ns: 0, recorded: false };
    let none = "barrier 0: it has 0 parties; expected at least 1".to_owned();
    assert_eq!(with(vec![nobody], vec![once.clone()]), Err(none));
    let long = Barrier { parties: 1, spin_ns: TIME_NS_MAX + 1, recorded: false };
    let error = with(vec![long], vec![once]).unwrap_err();
    assert!(error.starts_with("barrier 0: spins for 1125899906842625 ns"), "{error}");
    let mut spinlock = workload(vec![task(None, vec![Op::Lock { lock: 0 }, Op::Unlock { lock: 0 }])]);
    spinlock.locks = vec![Lock { spin_ns: u64::MAX, handoff: true, ..Lock::default() }];
    assert_eq!(spinlock.check(), Ok(()));
    spinlock.locks[0].spin_ns -= 1;
    assert!(spinlock.check().unwrap_err().to_string().starts_with("lock 0: spins for 18446744073709551614"));
    spinlock.locks[0].spin_ns = 0;
    spinlock.tasks[0].program.pop();
    assert_eq!(
        spinlock.check().unwrap_err().to_string(),
        "task 0 (t), operation 1: ends while it holds lock 0"
    );
}

#[test]
fn parents() {
    let fork = |child| Op::Fork { task: child };
    let family = vec![task(None, vec![fork(1)]), task(Some(0), vec![fork(2)]), task(Some(1), vec![])];
    assert_eq!(workload(family).check(), Ok(()));
    for (tasks, error) in [
        (vec![task(None, vec![]), task(Some(0), vec![])], "task 1 (t): its parent, task 0, never forks it"),
        (vec![task(Some(9), vec![])], "task 0 (t): its parent is task 9; expected an index below 1"),
        (
            vec![task(None, vec![fork(1), fork(1)]), task(Some(0), vec![])],
            "task 0 (t), operation 1: forks task 1 a second time",
        ),
        (
            vec![task(None, vec![fork(1)]), task(None, vec![])],
            "task 0 (t), operation 0: forks task 1, which has another parent",
        ),
        (
            vec![
                task(None, vec![Op::LoopBegin { times: Some(2) }, fork(1), Op::LoopEnd]),
                task(Some(0), vec![]),
            ],
            "task 0 (t), operation 1: forks task 1 inside a loop; a task is forked once",
        ),
        (
            vec![task(None, vec![]), task(Some(2), vec![fork(2)]), task(Some(1), vec![fork(1)])],
            "task 1 (t): it is its own ancestor",
        ),
    ] {
        assert_eq!(refused(tasks), error);
    }
}
