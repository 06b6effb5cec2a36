// SPDX-License-Identifier: GPL-2.0-or-later
//! Operations: channels, signals, gates, fork and join, sleeps, loops, marks, spread.

use wakelab_sim::HostProfile;
use wakelab_workload::{Channel, End, Measure, Op, Source, Task};

use crate::common::{HOSTS, MS, bound, child, compute, machine, outcome, recv, scenario, send, sleep, task};

/// 10 bytes hold 10 messages: the writer of 25 blocks while the reader, who takes 100 ns a message, is slower.
#[test]
fn a_full_channel_blocks_its_writer() {
    for host in HOSTS {
        let rounds = |op: Op| vec![Op::LoopBegin { times: Some(25) }, op, Op::LoopEnd];
        let writer = bound(&[0], rounds(send(0)));
        let reader = bound(&[1], rounds(Op::Recv { channel: 0, work_ns: 100 }));
        let run = outcome(&scenario(machine(1, 2, 1), vec![writer, reader], host));
        assert_eq!(run.elapsed_ns, 25 * 100, "{host:?}");
        assert_eq!(run.time.work_ns, 25 * 100);
        // The writer is woken each time that a message has left: 15 times.
        assert!((15..=17).contains(&run.counts.wakeups), "{host:?}: {}", run.counts.wakeups);
    }
}

/// With a wake room of half the channel the writer is woken once for 5 messages.
#[test]
fn wake_room_lets_a_writer_sleep_longer() {
    for host in HOSTS {
        let rounds = |op: Op| vec![Op::LoopBegin { times: Some(25) }, op, Op::LoopEnd];
        let writer = bound(&[0], rounds(send(0)));
        let reader = bound(&[1], rounds(Op::Recv { channel: 0, work_ns: 100 }));
        let mut scenario = scenario(machine(1, 2, 1), vec![writer, reader], host);
        scenario.workload_mut().channels[0].wake_room_bytes = 5;
        let run = outcome(&scenario);
        assert_eq!(run.elapsed_ns, 25 * 100, "{host:?}");
        assert!((3..=5).contains(&run.counts.wakeups), "{host:?}: {}", run.counts.wakeups);
    }
}

/// One message bounces between two tasks: each wake-up is one of the 2 x 50.
#[test]
fn ping_pong() {
    for host in HOSTS {
        let player = |ops: [Op; 2]| {
            let mut program = vec![Op::LoopBegin { times: Some(50) }];
            program.extend(ops);
            program.push(Op::LoopEnd);
            program
        };
        let tasks = vec![task(0, player([send(0), recv(1)])), task(1, player([recv(0), send(1)]))];
        let mut scenario = scenario(machine(1, 2, 1), tasks, host);
        scenario.machine_mut().costs.wakeup_ns = 10;
        scenario.workload_mut().channels =
            vec![Channel { capacity_bytes: 1, sync: true, ..Channel::default() }; 2];
        let run = outcome(&scenario);
        // The first message may be there before its reader asks for it.
        assert!((99..=100).contains(&run.counts.wakeups), "{host:?}: {}", run.counts.wakeups);
        assert_eq!(run.time.wakeup_ns, run.counts.wakeups * 10);
        assert_eq!(run.wakeup_latency.count, run.counts.wakeups);
    }
}

/// Two senders, at 100 and 1,000 ns. A task that polls their channels is woken by each, once: it takes 10 ns, and 5 for
/// each message. If it comes at 2,000 ns, it waits for nothing, and finds both at once.
#[test]
fn a_poll_waits_for_any_of_its_channels() {
    for (start_ns, end_ns, wakeups) in [(0, 1015, 2), (2000, 2020, 0)] {
        for host in HOSTS {
            let mut poller =
                vec![compute(start_ns), Op::LoopBegin { times: Some(if wakeups > 0 { 2 } else { 1 }) }];
            poller.push(Op::Poll { first: 1, count: 2, work_ns: 10 });
            for channel in [1, 2] {
                poller.extend([Op::WhenReady { channel }, recv(channel), compute(5), Op::LoopEnd]);
            }
            poller.push(Op::LoopEnd);
            let sender = |cpu, channel, at_ns| bound(&[cpu], vec![compute(at_ns), send(channel)]);
            let tasks = vec![bound(&[0], poller), sender(1, 2, 100), sender(2, 1, 1000)];
            let run = outcome(&scenario(machine(1, 3, 1), tasks, host));
            assert_eq!((run.elapsed_ns, run.counts.wakeups), (end_ns, wakeups), "{host:?}");
        }
    }
}

/// A task that polls is woken by one of two messages that come while it is on its way, and finds both.
#[test]
fn a_poll_is_woken_once() {
    for host in HOSTS {
        let poller = vec![Op::Poll { first: 0, count: 3, work_ns: 1 }, recv(0), recv(1)];
        let sender = |cpu, channel| bound(&[cpu], vec![compute(100), send(channel)]);
        let tasks = vec![bound(&[0], poller), sender(1, 0), sender(2, 1)];
        let mut scenario = scenario(machine(1, 3, 1), tasks, host);
        scenario.machine_mut().costs.wakeup_ns = 50;
        let run = outcome(&scenario);
        assert_eq!((run.elapsed_ns, run.counts.wakeups), (151, 1), "{host:?}");
    }
}

/// All tasks wait at the gate until task 0 opens it after 1,000 ns; tasks that come later pass.
#[test]
fn gates_hold_and_let_pass() {
    for host in HOSTS {
        let opener = bound(&[0], vec![compute(1000), Op::OpenGate { gate: 1 }]);
        let early = bound(&[1], vec![Op::WaitGate { gate: 1 }, compute(10)]);
        let late = bound(&[2], vec![compute(2000), Op::WaitGate { gate: 1 }, compute(10)]);
        let run = outcome(&scenario(machine(1, 3, 1), vec![opener, early, late], host));
        assert_eq!((run.elapsed_ns, run.counts.wakeups), (2010, 1), "{host:?}");
    }
}

#[test]
fn signals_are_remembered() {
    for host in HOSTS {
        let raise = |signal| Op::Signal { signal, sync: false };
        let raiser = bound(&[0], vec![raise(0), compute(1000), raise(1)]);
        let waiter = bound(&[1], vec![compute(500), Op::Wait { signal: 0 }, Op::Wait { signal: 1 }]);
        let run = outcome(&scenario(machine(1, 2, 1), vec![raiser, waiter], host));
        assert_eq!((run.elapsed_ns, run.counts.wakeups), (1000, 1), "{host:?}");
    }
}

/// The work of the exit, 100, comes before the signal, and not again at the end.
#[test]
fn an_exit_that_has_begun_costs_nothing_more() {
    for host in HOSTS {
        let mut machine = machine(1, 2, 1);
        machine.costs.exit_ns = 100;
        let raise = Op::Signal { signal: 0, sync: false };
        let raiser = bound(&[0], vec![compute(10), Op::BeginExit, raise, compute(5)]);
        let waiter = bound(&[1], vec![Op::Wait { signal: 0 }, compute(1000)]);
        let run = outcome(&scenario(machine, vec![raiser, waiter], host));
        assert_eq!((run.elapsed_ns, run.time.fork_exit_ns), (1210, 200), "{host:?}");
    }
}

/// On one CPU an exit of 100 and 5 wakes another task after 100. Where the kernel can be preempted, the wakee comes
/// first; elsewhere the task finishes its exit, although that takes longer than the end of a system call, 2.
#[test]
fn an_exit_that_has_begun_is_not_preempted_by_its_wakee() {
    for host in HOSTS {
        for (delay_ns, preemptions) in [(0, 1), (2, 0)] {
            let mut machine = machine(1, 1, 1);
            (machine.costs.exit_ns, machine.costs.preempt_delay_ns) = (100, delay_ns);
            let raise = Op::Signal { signal: 0, sync: false };
            let raiser = task(0, vec![compute(2 * MS), Op::BeginExit, raise, compute(5)]);
            let waiter = task(0, vec![Op::Wait { signal: 0 }, compute(1000)]);
            let run = outcome(&scenario(machine, vec![waiter, raiser], host));
            assert_eq!(run.counts.preemptions, preemptions, "{host:?} {delay_ns}");
        }
    }
}

/// A child of vfork() wakes its parent twice while it exits. The parent preempts it after the first wake-up, waits, and
/// is woken again, even if the exit has no work in between.
#[test]
fn an_exit_gives_way_between_two_wake_ups() {
    let mut machine = machine(1, 1, 1);
    (machine.costs.exit_ns, machine.costs.preempt_delay_ns) = (100, 2);
    let raise = |signal| Op::Signal { signal, sync: false };
    let child = task(0, vec![compute(20 * MS), Op::BeginExit, raise(0), raise(1)]);
    let parent = task(0, vec![Op::Wait { signal: 0 }, compute(1000), Op::Wait { signal: 1 }]);
    let run = outcome(&scenario(machine, vec![parent, child], HostProfile::Mainline));
    assert_eq!((run.counts.preemptions, run.counts.wakeups), (1, 2));
}

/// The parent joins two children; grandchildren are not its own. A second join is over at once.
#[test]
fn join_waits_for_all_children() {
    for host in HOSTS {
        let fork = |task| Op::Fork { task };
        let tasks = vec![
            task(0, vec![fork(1), fork(2), Op::Join, Op::MarkEnd, Op::Join, compute(5)]),
            child(0, vec![compute(1000)]),
            child(0, vec![fork(3), compute(700)]),
            child(2, vec![compute(5000)]),
        ];
        let run = outcome(&scenario(machine(1, 4, 1), tasks, host));
        assert_eq!((run.makespan_ns, run.elapsed_ns), (1000, 5000), "{host:?}");
        assert_eq!((run.counts.forks, run.counts.wakeups), (3, 1));
    }
}

/// 3 x (2 x 10 + 0 x 1000 + 5).
#[test]
fn loops_nest_and_may_have_no_rounds() {
    let begin = |times| Op::LoopBegin { times: Some(times) };
    let program = vec![
        begin(3),
        begin(2),
        compute(10),
        Op::LoopEnd,
        begin(0),
        begin(7),
        compute(1000),
        Op::LoopEnd,
        Op::LoopEnd,
        compute(5),
        Op::LoopEnd,
    ];
    for host in HOSTS {
        let run = outcome(&scenario(machine(1, 1, 1), vec![task(0, program.clone())], host));
        assert_eq!(run.elapsed_ns, 75, "{host:?}");
    }
}

/// Units count from the first MarkBegin to the last MarkEnd, as does the makespan.
#[test]
fn marks_delimit_what_is_measured() {
    for host in HOSTS {
        let count = Op::Count { units: 3 };
        let program = vec![
            count,
            compute(100),
            Op::MarkBegin,
            compute(1000),
            count,
            Op::MarkEnd,
            count,
            Op::MarkEnd,
            compute(7),
            count,
        ];
        let mut scenario = scenario(machine(1, 1, 1), vec![task(0, program)], host);
        scenario.workload_mut().measure = Measure::Rate;
        let run = outcome(&scenario);
        assert_eq!((run.units, run.makespan_ns, run.elapsed_ns), (6, 1000, 1107), "{host:?}");
    }
}

/// Wake-ups take 30 ns. Task 0 is judged: of its wake-ups at 100, 200 and 300 the last two are in the measured part.
/// Task 1 is not judged.
#[test]
fn judged_latencies_begin_with_the_mark() {
    for host in HOSTS {
        let mut machine = machine(1, 2, 1);
        machine.costs.wakeup_ns = 30;
        let until = |time_ns| Op::SleepUntil { time_ns, source: Source::Timer };
        let judged = vec![until(100), Op::MarkBegin, until(200), until(300)];
        let mut tasks = vec![bound(&[0], judged), bound(&[1], vec![until(250), compute(5)])];
        tasks[0].judged = true;
        let run = outcome(&scenario(machine, tasks, host));
        assert_eq!((run.judged_latency.count, run.judged_latency.sum_ns), (2, 60), "{host:?}");
        assert_eq!((run.wakeup_latency.count, run.wakeup_latency.sum_ns), (4, 120), "{host:?}");
    }
}

/// A task begins a batch at 1,000 and works for 100. Meanwhile a timer on its CPU wakes another task, which takes 30
/// and is not of the batch. So the task wakes a third one at 1,130, and a fourth when that is done, at 1,160. In its
/// next batch it wakes the third one at once.
#[test]
fn judged_latencies_count_from_the_batch() {
    for host in HOSTS {
        let mut machine = machine(1, 4, 1);
        machine.costs.wakeup_ns = 30;
        let raise = |signal| Op::Signal { signal, sync: false };
        let batches =
            [compute(1_000), Op::BeginBatch, compute(100), raise(0), raise(1), Op::BeginBatch, raise(2)];
        let judged = |cpu, ops: &[Op]| Task { judged: true, ..bound(&[cpu], ops.to_vec()) };
        let waits = |signal| Op::Wait { signal };
        let tasks = vec![
            judged(0, &[Op::SleepUntil { time_ns: 1_050, source: Source::Timer }]),
            bound(&[0], batches.to_vec()),
            judged(1, &[waits(0), waits(2)]),
            judged(2, &[waits(1)]),
        ];
        let mut scenario = scenario(machine, tasks, host);
        scenario.workload_mut().signals = 3;
        let run = outcome(&scenario);
        let (all, judged) = (&run.wakeup_latency, &run.judged_latency);
        assert_eq!((all.count, judged.count), (4, 4), "{host:?}");
        assert_eq!(judged.sum_ns - all.sum_ns, 130 + 160, "{host:?}");
    }
}

/// The first task ends at 100, the second at 700, and a task that the first forks at 0 ends at 300.
#[test]
fn a_makespan_ends_with_the_last_judged_task() {
    for host in HOSTS {
        let end_ns = |judged: [bool; 3], awaited: [bool; 3], mark: Option<Op>| {
            let mut second = vec![compute(200)];
            second.extend(mark);
            second.push(compute(500));
            let mut child = bound(&[2], vec![compute(300)]);
            child.parent = Some(0);
            let first = bound(&[0], vec![Op::Fork { task: 2 }, compute(100)]);
            let mut tasks = vec![first, bound(&[1], second), child];
            tasks.iter_mut().zip(judged).for_each(|(task, judged)| task.judged = judged);
            tasks.iter_mut().zip(awaited).for_each(|(task, awaited)| task.awaited = awaited);
            outcome(&scenario(machine(1, 3, 1), tasks, host)).makespan_ns
        };
        let makespan_ns = |judged, mark| end_ns(judged, [false; 3], mark);
        assert_eq!(makespan_ns([true, false, false], None), 100, "{host:?}");
        assert_eq!(makespan_ns([true, false, true], None), 300, "{host:?}");
        assert_eq!(makespan_ns([false; 3], None), 700, "{host:?}");
        assert_eq!(makespan_ns([true, false, false], Some(Op::MarkEnd)), 200, "a mark counts, {host:?}");
        let awaited = [true, false, true];
        assert_eq!(end_ns([true; 3], awaited, None), 300, "the second may go on, {host:?}");
        assert_eq!(end_ns([true, true, false], awaited, None), 100, "only what is judged counts, {host:?}");
        assert_eq!(
            end_ns([false, true, false], awaited, None),
            700,
            "none that is judged is awaited, {host:?}"
        );
    }
}

/// 1,000 pieces of 1,000 ns with a spread of 20 %: each between 800 and 1,200; their mean is near 1,000. Another seed
/// draws others.
#[test]
fn spread_is_drawn_from_the_seed() {
    let op = Op::Compute { work_ns: 1000, spread_percent: 20 };
    let program = vec![Op::LoopBegin { times: Some(1000) }, op, Op::LoopEnd];
    let scenario = scenario(machine(1, 1, 1), vec![task(0, program)], HOSTS[0]);
    let elapsed = |seed| wakelab_sim::run(&scenario, seed).unwrap().elapsed_ns;
    let all: Vec<u64> = (0..5).map(elapsed).collect();
    assert!(all.iter().all(|ns| (990_000..1_010_000).contains(ns)), "{all:?}");
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
    assert_eq!(all[0], elapsed(0));
}

/// Awake at 300 it sleeps until 1,000 and works 10; 500 is past. The source does not matter.
#[test]
fn sleep_until_a_time() {
    for host in HOSTS {
        for source in [Source::Timer, Source::Device, Source::Unknown] {
            let until = |time_ns| Op::SleepUntil { time_ns, source };
            let program =
                vec![compute(300), until(1_000), compute(10), until(500), until(1_010), compute(10)];
            let run = outcome(&scenario(machine(1, 1, 1), vec![task(0, program)], host));
            assert_eq!((run.elapsed_ns, run.counts.wakeups), (1_020, 1), "{host:?} {source:?}");
        }
    }
}

/// A sleeper that is woken by a timer runs at once: the busy task on its CPU has run for longer.
#[test]
fn a_sleeper_preempts() {
    for host in HOSTS {
        let sleeper = bound(&[0], vec![sleep(20 * MS), compute(MS)]);
        let worker = bound(&[0], vec![Op::LoopBegin { times: None }, compute(MS), Op::LoopEnd]);
        let mut scenario = scenario(machine(1, 1, 1), vec![sleeper, worker], host);
        scenario.workload_mut().end = End::After { duration_ns: 40 * MS };
        let run = outcome(&scenario);
        assert_eq!(run.wakeup_latency.count, 1, "{host:?}");
        assert_eq!(run.wakeup_latency.max_ns, 0, "{host:?}");
        assert_eq!(run.task_cpu_time_ns, [MS, 39 * MS], "{host:?}");
    }
}

/// Wake-ups take 30 ns. Tasks 0 and 1 have one name: they run 100 and 500 ns, and task 0 waits once. Task 2 has
/// another name, and task 3 is not judged.
#[test]
fn judged_tasks_by_name() {
    for host in HOSTS {
        let mut machine = machine(1, 4, 1);
        machine.costs.wakeup_ns = 30;
        let until = Op::SleepUntil { time_ns: 1000, source: Source::Timer };
        let programs =
            [vec![compute(60), until, compute(40)], vec![compute(500)], vec![compute(7)], vec![compute(9)]];
        let mut tasks: Vec<Task> =
            programs.into_iter().zip(0..).map(|(program, cpu)| bound(&[cpu], program)).collect();
        for (task, name) in tasks.iter_mut().zip(["a", "a", "b", "c"]) {
            (task.name, task.judged) = (name.to_owned(), name != "c");
        }
        let mut some_awaited = tasks.clone();
        some_awaited[1].awaited = true;
        let done_ns = outcome(&scenario(machine.clone(), some_awaited, host))
            .by_name
            .iter()
            .map(|of| of.done_ns)
            .collect::<Vec<_>>();
        let run = outcome(&scenario(machine, tasks, host));
        let names: Vec<(&str, u64, u64)> =
            run.by_name.iter().map(|of| (of.name.as_str(), of.tasks, of.wakeup_latency.count)).collect();
        assert_eq!(names, [("a", 2, 1), ("b", 1, 0)], "{host:?}");
        let [a, b] = [&run.by_name[0], &run.by_name[1]];
        assert_eq!((a.wakeup_latency.sum_ns, a.run_delay.count, b.run_delay.count), (30, 3, 1), "{host:?}");
        assert_eq!((a.cpu_time_ns, b.cpu_time_ns), (600, 7), "{host:?}");
        assert_eq!((a.done_ns, b.done_ns), (Some(1070), Some(7)), "{host:?}");
        assert_eq!(done_ns, [Some(500), Some(7)], "task 0 goes on, {host:?}");
    }
}

/// Task 0 computes 1 ms and sleeps for 9; task 1 has waited for 1 ms then, and computes 3. What lies between the
/// account of the sleeper and the switch, 2,000 ns, is the next task's under Linux, and no task's under sched_ext.
#[test]
fn the_way_off_the_queue_is_charged_to_the_next_task() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 1);
        machine.costs.dequeue_ns = 2_000;
        let sleeper = task(0, vec![compute(MS), sleep(9 * MS), compute(MS)]);
        let next = task(0, vec![compute(3 * MS), sleep(20 * MS)]);
        let outcome = outcome(&scenario(machine, vec![sleeper, next], host));
        let charged_ns = if host == HostProfile::Mainline { 2_000 } else { 0 };
        assert_eq!(outcome.task_cpu_time_ns, [2 * MS, 3 * MS + charged_ns], "{host:?}");
        assert_eq!(outcome.time.switch_ns, 2 * 2_000, "{host:?}: an exit has none");
        assert_eq!(outcome.elapsed_ns, 24 * MS + 2_000, "{host:?}");
    }
}
