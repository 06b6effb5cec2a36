// SPDX-License-Identifier: GPL-2.0-or-later
//! Operations alone: no engine, no policy.

use smallvec::smallvec;
use wakelab_machine::{Costs, Distance, Distances};
use wakelab_policy::WAKE_SYNC;
use wakelab_workload::{Barrier, Channel, Lock, Op, Task, Workload};

use super::Programs;
use super::next::{Here, Next, SpinEnd, Wakee};
use crate::engine_tests::common::{child, compute, machine, recv, send, task, workload};
use crate::hardware::segment::{Segment, Stream};
use crate::ids::{NONE, UNITS};
use crate::time_use::TimeKind;

/// Four CPUs of one LLC; a transfer takes 100 ns, an atomic update 5, a futex 1,000, fork, exec and exit 10.
struct Lab {
    workload: Workload,
    costs: Costs,
    distances: Distances,
}

impl Lab {
    fn new(programs: Vec<Vec<Op>>) -> Lab {
        Lab::with(programs.into_iter().map(|program| task(0, program)).collect())
    }

    fn with(tasks: Vec<Task>) -> Lab {
        let mut workload = workload(tasks);
        workload.locks = vec![
            Lock { spin_ns: 0, handoff: false, ..Lock::default() },
            Lock { spin_ns: 700, handoff: false, ..Lock::default() },
        ];
        workload.barriers = vec![Barrier { parties: 2, spin_ns: 900, recorded: false }];
        workload.channels[1] = Channel { capacity_bytes: 1, sync: true, ..Channel::default() };
        let mut costs = Costs::free(1);
        costs.line_transfer_ps[Distance::Llc.index()] = 100_000;
        (costs.atomic_ps, costs.futex_ns) = (5_000, 1_000);
        (costs.fork_ns, costs.exec_ns, costs.exit_ns) = (10, 10, 10);
        Lab { workload, costs, distances: machine(1, 4, 1).topology.distances() }
    }

    fn programs(&self) -> Programs<'_> {
        Programs::new(&self.workload, &self.costs, &self.distances, vec![0; 4], 1)
    }
}

/// Steps a task at `now_ns`. Task T runs on CPU T.
fn step(programs: &mut Programs<'_>, task: u32, now_ns: u64) -> Next {
    programs.step(&Here { cpu: task, task, now_ns })
}

fn run(kind: TimeKind, ns: u64) -> Next {
    Next::Run(Segment::new(kind, ns))
}

fn wakes(task: u32, flags: u32) -> Next {
    Next::Wake(smallvec![Wakee { task, flags }])
}

#[test]
fn work_without_length_takes_no_segment() {
    let lab = Lab::new(vec![vec![compute(0), compute(7)]]);
    let mut programs = lab.programs();
    assert_eq!(step(&mut programs, 0, 0), Next::Continue);
    assert_eq!(step(&mut programs, 0, 0), run(TimeKind::Work, 7));
    assert_eq!(step(&mut programs, 0, 7), run(TimeKind::ForkExit, 10), "exit()");
    assert_eq!(step(&mut programs, 0, 17), Next::Exit(smallvec![]));
    assert_eq!(step(&mut programs, 0, 17), Next::Gone);
}

/// Channel 1 has room for one message of one byte. The reader waits, is woken with `sync`, and fetches the message; the
/// sender's second message waits until the reader has copied the first.
#[test]
fn a_full_channel_blocks_its_writer_until_a_reader_made_room() {
    let lab = Lab::new(vec![vec![send(1), send(1)], vec![recv(1)]]);
    let mut programs = lab.programs();
    assert_eq!(step(&mut programs, 1, 0), Next::Wait);
    assert_eq!(step(&mut programs, 0, 0), Next::Continue, "no work before the message");
    assert_eq!(step(&mut programs, 0, 0), wakes(1, WAKE_SYNC));
    assert_eq!(step(&mut programs, 0, 0), Next::Continue);
    assert_eq!(step(&mut programs, 0, 0), Next::Wait, "the channel is full");
    let copy = Segment::with_tail((TimeKind::Work, 0), (TimeKind::Data, 100));
    assert_eq!(step(&mut programs, 1, 0), Next::Run(copy));
    assert_eq!(step(&mut programs, 1, 0), wakes(0, WAKE_SYNC));
    assert_eq!(step(&mut programs, 0, 0), Next::Continue, "the message fits now");
}

/// A reader that finds nothing pays 30 ns for going to sleep. What comes meanwhile it takes, without having slept.
#[test]
fn a_task_looks_again_before_it_sleeps() {
    let mut lab = Lab::new(vec![vec![send(1)], vec![recv(1), recv(1), Op::Wait { signal: 0 }]]);
    lab.costs.sleep_ns = 30;
    lab.workload.signals = 1;
    let copy = Segment::with_tail((TimeKind::Work, 0), (TimeKind::Data, 100));
    for comes_meanwhile in [false, true] {
        let mut programs = lab.programs();
        assert_eq!(step(&mut programs, 1, 0), run(TimeKind::Switch, 30));
        if !comes_meanwhile {
            assert_eq!(step(&mut programs, 1, 30), Next::Wait);
        }
        assert_eq!(step(&mut programs, 0, 30), Next::Continue, "no work before the message");
        let woken = if comes_meanwhile { Next::Continue } else { wakes(1, WAKE_SYNC) };
        assert_eq!(step(&mut programs, 0, 30), woken);
        assert_eq!(step(&mut programs, 1, 40), Next::Run(copy));
        assert_eq!(step(&mut programs, 1, 140), Next::Continue);
        for _ in 0..2 {
            assert_eq!(step(&mut programs, 1, 140), run(TimeKind::Switch, 30), "each sleep costs");
            assert_eq!(step(&mut programs, 1, 170), Next::Wait);
        }
    }
}

/// The worked example of lock.rs.
#[test]
fn a_lock_without_spinning_sleeps_in_the_kernel() {
    let taken = |work_ns| vec![Op::Lock { lock: 0 }, compute(work_ns), Op::Unlock { lock: 0 }];
    let lab = Lab::new(vec![taken(10_000), taken(0)]);
    let mut programs = lab.programs();
    assert_eq!(step(&mut programs, 0, 0), run(TimeKind::Atomic, 5));
    assert_eq!(step(&mut programs, 0, 5), Next::Continue, "A has it");
    assert_eq!(step(&mut programs, 0, 5), run(TimeKind::Work, 10_000));
    assert_eq!(step(&mut programs, 1, 2_000), run(TimeKind::Atomic, 105));
    assert_eq!(step(&mut programs, 1, 2_105), run(TimeKind::Futex, 1_000));
    assert_eq!(step(&mut programs, 1, 3_105), Next::Wait);
    assert_eq!(step(&mut programs, 0, 10_005), run(TimeKind::Atomic, 105));
    assert_eq!(step(&mut programs, 0, 10_110), Next::Continue, "the lock is free");
    assert_eq!(step(&mut programs, 0, 10_110), run(TimeKind::Futex, 1_000));
    assert_eq!(step(&mut programs, 0, 11_110), wakes(1, 0));
    assert_eq!(step(&mut programs, 1, 20_000), Next::Continue, "B tries again");
    assert_eq!(step(&mut programs, 1, 20_000), run(TimeKind::Atomic, 105));
    assert_eq!(step(&mut programs, 1, 20_105), Next::Continue, "B has it");
}

/// Tasks 1 and 2 spin at lock 1. Task 1 spins longer, but is preempted: task 2, which runs, gets the lock, for the
/// transfer of the line and the update.
#[test]
fn an_unlock_passes_the_lock_to_the_longest_spinner_that_runs() {
    let takes = || vec![Op::Lock { lock: 1 }, Op::Unlock { lock: 1 }];
    let lab = Lab::new(vec![takes(), takes(), takes()]);
    let mut programs = lab.programs();
    step(&mut programs, 0, 0);
    assert_eq!(step(&mut programs, 0, 5), Next::Continue);
    for task in [1, 2] {
        step(&mut programs, task, 1_000);
        assert_eq!(step(&mut programs, task, 2_000), run(TimeKind::Spin, 700));
        programs.set_spinning(task, task);
    }
    programs.set_spinning(1, NONE);
    assert_eq!(step(&mut programs, 0, 5_000), run(TimeKind::Atomic, 105));
    let end = SpinEnd { task: 2, cpu: 2, kind: TimeKind::Atomic, cost_ns: 105 };
    assert_eq!(step(&mut programs, 0, 5_105), Next::EndSpins(smallvec![end]));
    assert!(!programs.spin_is_over(1), "the lock is taken again");
    assert_eq!(step(&mut programs, 0, 5_105), Next::Continue, "no task sleeps");
    assert_eq!(step(&mut programs, 2, 5_210), Next::Continue, "task 2 has it");
}

/// The second of two parties lets the first one, which spins, continue after the line's transfer.
#[test]
fn the_last_at_a_barrier_ends_the_spins_of_the_others() {
    let lab = Lab::new(vec![vec![Op::Barrier { barrier: 0 }]; 2]);
    let mut programs = lab.programs();
    assert_eq!(step(&mut programs, 0, 0), run(TimeKind::Atomic, 5));
    assert_eq!(step(&mut programs, 0, 5), run(TimeKind::Spin, 900));
    programs.set_spinning(0, 0);
    assert_eq!(step(&mut programs, 1, 800), run(TimeKind::Atomic, 105));
    let end = SpinEnd { task: 0, cpu: 0, kind: TimeKind::Spin, cost_ns: 100 };
    assert_eq!(step(&mut programs, 1, 905), Next::EndSpins(smallvec![end]));
    assert_eq!(step(&mut programs, 1, 905), Next::Continue);
    assert_eq!(step(&mut programs, 0, 1_005), Next::Continue);
}

/// A parent joins two children: the second exit wakes it, and with `sync` only from another process.
#[test]
fn the_last_exit_wakes_a_parent_that_joins() {
    for (process, flags) in [(0, 0), (1, WAKE_SYNC)] {
        let parent = vec![Op::Fork { task: 1 }, Op::Fork { task: 2 }, Op::Join];
        let born = |_| Task { process, ..child(0, Vec::new()) };
        let lab = Lab::with([task(0, parent)].into_iter().chain((0..2).map(born)).collect());
        let mut programs = lab.programs();
        for child in [1, 2] {
            assert_eq!(step(&mut programs, 0, 0), run(TimeKind::ForkExit, 10));
            assert_eq!(step(&mut programs, 0, 10), Next::Fork { child });
        }
        assert_eq!(step(&mut programs, 0, 20), Next::Wait);
        for (child, wakees) in [(1, smallvec![]), (2, smallvec![Wakee { task: 0, flags }])] {
            assert_eq!(step(&mut programs, child, 30), run(TimeKind::ForkExit, 10));
            assert_eq!(step(&mut programs, child, 40), Next::Exit(wakees));
        }
        assert_eq!(step(&mut programs, 0, 50), Next::Continue, "no child is left");
    }
}

/// Loops of 2 x 3 rounds, one that is skipped, and one that never ends.
#[test]
fn loops_nest() {
    let begin = |times| Op::LoopBegin { times: Some(times) };
    let count = Op::Count { units: 1 };
    let nested = vec![begin(2), begin(3), count, Op::LoopEnd, begin(0), count, Op::LoopEnd, Op::LoopEnd];
    let lab = Lab::new(vec![nested, vec![Op::LoopBegin { times: None }, count, Op::LoopEnd]]);
    let mut programs = lab.programs();
    let mut units = 0;
    loop {
        match step(&mut programs, 0, 0) {
            Next::Continue => {}
            Next::Count { units: counted } => units += counted,
            other => break assert_eq!(other, run(TimeKind::ForkExit, 10)),
        }
    }
    assert_eq!(units, 6);
    let counted = (0..300).filter(|_| step(&mut programs, 1, 0) == Next::Count { units: 1 });
    assert_eq!(counted.count(), 150, "begin once, then count and end in turn");
}

/// Signals in a row are raised in one kernel path; a second waiter breaks the program.
#[test]
fn signals_wake_together_and_have_one_waiter() {
    let signal = |signal, sync| Op::Signal { signal, sync };
    let waits = |signal| vec![Op::Wait { signal }];
    let raises = vec![signal(0, false), signal(1, true), signal(2, false)];
    let lab = Lab::new(vec![raises, waits(0), waits(1), waits(0)]);
    let mut programs = lab.programs();
    assert_eq!(step(&mut programs, 1, 0), Next::Wait);
    assert_eq!(step(&mut programs, 2, 0), Next::Wait);
    assert!(matches!(step(&mut programs, 3, 0), Next::Broken(what) if what.contains("task 1 waits")));
    let wakees = smallvec![Wakee { task: 1, flags: 0 }, Wakee { task: 2, flags: WAKE_SYNC }];
    assert_eq!(step(&mut programs, 0, 0), Next::Wake(wakees));
    assert_eq!(step(&mut programs, 1, 0), Next::Continue);
}

/// The first touch decides on the node, once: task 0 streams on CPU 0 of node 0, and later on CPU 1 of node 1.
#[test]
fn a_stream_keeps_the_node_that_it_touched_first() {
    let op = Op::Memory {
        work_ns: 100,
        read_bytes: 2,
        write_bytes: 0,
        home: wakelab_workload::Home::FirstTouch,
        llc_percent: 10,
    };
    let lab = Lab::new(vec![vec![op, op]]);
    let mut programs = Programs::new(&lab.workload, &lab.costs, &lab.distances, vec![0, 1, 1, 1], 1);
    let work = 100 * UNITS;
    let stream = Stream { work, work_left: work, traffic: 2 * 64_000, home: 0, llc_percent: 10 };
    for cpu in [0, 1] {
        let here = Here { cpu, task: 0, now_ns: 0 };
        assert_eq!(programs.step(&here), Next::Stream(stream));
        assert_eq!(programs.step(&here), Next::Continue);
    }
    let mut unlimited = Programs::new(&lab.workload, &lab.costs, &lab.distances, Vec::new(), 1);
    assert_eq!(step(&mut unlimited, 0, 0), run(TimeKind::Work, 100), "a memory without limits");
}

/// Sleeps end by the clock; a sleep until a time that has passed is none.
#[test]
fn sleeps_have_an_end() {
    let source = wakelab_workload::Source::Timer;
    let until = |time_ns| Op::SleepUntil { time_ns, source };
    let lab = Lab::new(vec![vec![Op::Sleep { delay_ns: 5, source }, until(20), until(20)]]);
    let mut programs = lab.programs();
    assert_eq!(step(&mut programs, 0, 10), Next::Sleep { until_ns: 15 });
    assert_eq!(step(&mut programs, 0, 15), Next::Continue);
    assert_eq!(step(&mut programs, 0, 15), Next::Sleep { until_ns: 20 });
    assert_eq!(step(&mut programs, 0, 20), Next::Continue);
    assert_eq!(step(&mut programs, 0, 20), Next::Continue, "20 is over");
    assert_eq!(step(&mut programs, 0, 20), run(TimeKind::ForkExit, 10));
}

/// Steps a task until it waits or is gone, and returns its work in nanoseconds.
fn work_until_it_waits(programs: &mut Programs<'_>, task: u32) -> Vec<u64> {
    let mut work_ns = Vec::new();
    loop {
        match step(programs, task, 0) {
            Next::Run(segment) if segment.kind == TimeKind::Work => work_ns.push(segment.units / UNITS),
            Next::Wait | Next::Gone => return work_ns,
            Next::Wake(_) | Next::Run(_) | Next::Continue | Next::Exit(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_task_that_polls_takes_messages_as_they_come() {
    let parts = vec![recv(0), compute(3), recv(1), compute(5), recv(0), compute(7), compute(9)];
    let sender = |channels: &[u32]| task(0, channels.iter().map(|&channel| send(channel)).collect());
    for polls in [true, false] {
        let reader = Task { polls, ..task(0, parts.clone()) };
        let mut lab = Lab::with(vec![reader, sender(&[1]), sender(&[0, 0])]);
        lab.costs.charge_data = false;
        let mut programs = lab.programs();
        assert_eq!(work_until_it_waits(&mut programs, 0), [0u64; 0]);
        // A message in channel 1 alone.
        assert_eq!(step(&mut programs, 1, 0), Next::Continue);
        let woken = step(&mut programs, 1, 0) == wakes(0, WAKE_SYNC);
        assert_eq!(woken, polls, "else it waits in channel 0 only");
        assert_eq!(work_until_it_waits(&mut programs, 0), if polls { vec![5] } else { vec![] });
        // Two in channel 0: the first wakes it, once.
        assert!(matches!(work_until_it_waits(&mut programs, 2)[..], []));
        let rest = if polls { vec![3, 7, 9] } else { vec![3, 5, 7, 9] };
        assert_eq!(work_until_it_waits(&mut programs, 0), rest);
    }
}

#[test]
fn messages_of_one_channel_keep_their_order_and_nothing_passes_a_sleep() {
    let sleep = Op::Sleep { delay_ns: 1, source: wakelab_workload::Source::Timer };
    let program = vec![recv(0), compute(3), recv(0), compute(4), sleep, recv(1), compute(5)];
    let reader = Task { polls: true, ..task(0, program) };
    let mut lab = Lab::with(vec![reader, task(0, vec![send(1)]), task(0, vec![send(0)])]);
    lab.costs.charge_data = false;
    let mut programs = lab.programs();
    assert_eq!(work_until_it_waits(&mut programs, 0), [0u64; 0]);
    work_until_it_waits(&mut programs, 1);
    assert_eq!(work_until_it_waits(&mut programs, 0), [0u64; 0], "channel 1 is behind the sleep");
    work_until_it_waits(&mut programs, 2);
    assert_eq!(work_until_it_waits(&mut programs, 0), [3]);
}

/// An event loop with two connections: 0 is answered in 2, and 1 in 3. Its program takes both messages first.
fn event_loop(after_sleep_ns: u64, program: Vec<Op>) -> Lab {
    let reader = Task { polls: true, after_sleep_ns, ..task(0, program) };
    let sender = |channels: &[u32]| task(0, channels.iter().map(|&channel| send(channel)).collect());
    let mut lab = Lab::with(vec![reader, sender(&[0, 0]), sender(&[1])]);
    lab.costs.charge_data = false;
    lab.workload.channels = vec![lab.workload.channels[0]; 4];
    for question in [0, 1] {
        lab.workload.channels[question].answered_in = Some(question as u32 + 2);
    }
    lab
}

/// The example of rounds.rs. With a message in 0 alone, the work before its answer, 4, comes before what 1 needs, 6.
#[test]
fn an_event_loop_answers_what_it_has_taken_before_it_waits() {
    let program = || vec![recv(0), recv(1), compute(4), send(2), compute(6), send(3), compute(9)];
    let lab = event_loop(0, program());
    let mut programs = lab.programs();
    assert_eq!(work_until_it_waits(&mut programs, 0), [0u64; 0]);
    step(&mut programs, 1, 0);
    step(&mut programs, 1, 0);
    assert_eq!(work_until_it_waits(&mut programs, 0), [4]);
    work_until_it_waits(&mut programs, 2);
    assert_eq!(work_until_it_waits(&mut programs, 0), [6, 9]);

    let lab = event_loop(0, program());
    let mut programs = lab.programs();
    work_until_it_waits(&mut programs, 1);
    work_until_it_waits(&mut programs, 2);
    assert_eq!(work_until_it_waits(&mut programs, 0), [4, 6, 9], "both are there");
}

/// A message in 1 alone: the part that it begins ends before the answer to 0, whose question has not come.
#[test]
fn no_answer_comes_before_its_question() {
    let lab = event_loop(0, vec![recv(0), recv(1), compute(4), send(2), compute(6), send(3)]);
    let mut programs = lab.programs();
    work_until_it_waits(&mut programs, 2);
    assert_eq!(work_until_it_waits(&mut programs, 0), [4, 6], "6 is the work before send 3");
    assert!(!programs.channels[2].is_ready() && programs.channels[3].is_ready());
}

/// A question of two messages is answered after the second.
#[test]
fn an_answer_waits_for_all_of_its_question() {
    let lab = event_loop(0, vec![recv(0), compute(1), recv(0), compute(2), send(2), recv(1), send(3)]);
    let mut programs = lab.programs();
    step(&mut programs, 1, 0);
    step(&mut programs, 1, 0);
    assert_eq!(work_until_it_waits(&mut programs, 0), [1]);
    assert!(!programs.channels[2].is_ready());
    work_until_it_waits(&mut programs, 1);
    assert_eq!(work_until_it_waits(&mut programs, 0), [2]);
    assert!(programs.channels[2].is_ready());
}

/// The loop's own work, 100, comes with the first message after each sleep.
#[test]
fn an_event_loop_works_after_each_sleep() {
    let lab = event_loop(100, vec![recv(0), send(2), recv(0), recv(1), send(2), send(3)]);
    let mut programs = lab.programs();
    work_until_it_waits(&mut programs, 0);
    work_until_it_waits(&mut programs, 1);
    work_until_it_waits(&mut programs, 2);
    let loop_ns: u64 = work_until_it_waits(&mut programs, 0).iter().sum();
    assert_eq!(loop_ns, 100, "once for three messages");

    // A task that polls has a loop whether or not it answers.
    let mut lab = event_loop(100, vec![recv(0), recv(1)]);
    lab.workload.channels.iter_mut().for_each(|channel| channel.answered_in = None);
    let mut programs = lab.programs();
    work_until_it_waits(&mut programs, 0);
    work_until_it_waits(&mut programs, 2);
    assert_eq!(work_until_it_waits(&mut programs, 0).iter().sum::<u64>(), 100);
}
