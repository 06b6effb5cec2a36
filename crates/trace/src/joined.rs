// SPDX-License-Identifier: GPL-2.0-or-later
//! Several runs of a recording, each of which begins when the run before it has ended.
//!
//! Each run has its own tasks. In a later run, tasks without a parent exist from the beginning and wait at the run's
//! gate. The task that ended last in the recording waits, at its end, for the ends of all others of its run and then
//! opens the next gate. A task that began at some time in the recording begins that long after its gate has opened.
//! Open loops (loops.rs) keep the clock instead: the times of run k are k times the recording's length later, whenever
//! its gate opens.
//!
//! Worked example. A computes 60, signals B and computes 40; B waits for that and computes 30; A ends last. Twice:
//! ```text
//!     A: compute 60, signal 0, compute 40, wait 1, open gate 0     B: wait 0, compute 30, signal 1
//!     A: wait gate 0, compute 60, signal 2, compute 40             B: wait gate 0, wait 2, compute 30
//! ```
//!
//! Joining causes no deadlock: the task that opens the gate waits only for ends, and no task of its run waits for its
//! end.
//!
//! Cost: tasks and operations grow with the number of runs. Each task of a later run starts at time 0 and is woken at
//! its gate, where the first run has only the start. Each task that ends later than the one that ended last in the
//! recording causes a wake-up.

use wakelab_workload::{Channel, Op, Source, TASKS_MAX, TIME_NS_MAX, Task, TaskIndex, Workload};

/// Facts about a recorded task that its workload does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// The time of its last event.
    pub(crate) ended_ns: u64,
    /// It is in an open loop.
    pub(crate) open: bool,
}

/// More runs than a workload may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyRuns {
    /// The tasks of one run.
    pub(crate) tasks: u64,
    /// The operations of one run, those that join it to the next one included.
    pub(crate) ops: u64,
    /// The largest number of runs that is possible.
    pub(crate) most: u64,
}

/// Operations that a run after the first has for each of its tasks beside its program: a gate, a sleep, a signal and
/// the wait for it.
const OPS_TO_JOIN: u64 = 4;

/// Most operations of all runs. The importer and each policy's simulation take some 100 bytes for one, so about 1 GB.
pub(crate) const JOINED_OPS_MAX: u64 = 1 << 23;

/// Joins `runs` runs of `once`. `recorded` has what the workload does not tell of each task; `duration_ns` is the
/// recording's length.
///
/// # Errors
/// More tasks, operations or time than a workload may have; nothing has been built then.
pub(crate) fn joined(
    once: Workload,
    recorded: &[Recorded],
    duration_ns: u64,
    runs: u32,
) -> Result<Workload, TooManyRuns> {
    if runs == 1 {
        return Ok(once);
    }
    let tasks = once.tasks.len() as u64;
    let ops = once.tasks.iter().map(|task| task.program.len() as u64).sum::<u64>() + OPS_TO_JOIN * tasks;
    // A signal belongs to an operation, so there are not more of them.
    let most =
        (TASKS_MAX / tasks.max(1)).min(JOINED_OPS_MAX / ops.max(1)).min(TIME_NS_MAX / duration_ns.max(1));
    if u64::from(runs) > most {
        return Err(TooManyRuns { tasks, ops, most });
    }
    let nr_tasks = tasks as u32;
    let mut last_first: Vec<TaskIndex> = (0..nr_tasks).collect();
    last_first.sort_by_key(|&task| std::cmp::Reverse((recorded[task as usize].ended_ns, task)));
    let Some((&last, others)) = last_first.split_first() else { return Ok(once) };

    let mut all = Workload {
        tasks: Vec::new(),
        channels: Vec::new(),
        barriers: Vec::new(),
        locks: Vec::new(),
        signals: 0,
        gates: runs - 1,
        ..once.clone()
    };
    for run in 0..runs {
        let channel = run * once.channels.len() as u32;
        let barrier = run * once.barriers.len() as u32;
        let lock = run * once.locks.len() as u32;
        let first = Numbers { task: run * nr_tasks, signal: all.signals, channel, barrier, lock };
        all.channels.extend(
            once.channels.iter().map(|of| Channel {
                answered_in: of.answered_in.map(|answer| first.channel + answer),
                ..*of
            }),
        );
        all.barriers.extend(&once.barriers);
        all.locks.extend(&once.locks);
        let begins_ns = u64::from(run) * duration_ns;
        for (task, of) in once.tasks.iter().zip(recorded) {
            all.tasks.push(task_of_run(task, of.open, run, begins_ns, &first));
        }
        all.signals += once.signals;
        if run + 1 == runs {
            break;
        }
        for &other in others {
            let signal = all.signals;
            all.signals += 1;
            all.tasks[(first.task + other) as usize].program.push(Op::Signal { signal, sync: false });
            all.tasks[(first.task + last) as usize].program.push(Op::Wait { signal });
        }
        all.tasks[(first.task + last) as usize].program.push(Op::OpenGate { gate: run });
    }
    Ok(all)
}

/// The first numbers of a run.
struct Numbers {
    task: TaskIndex,
    signal: u32,
    channel: u32,
    barrier: u32,
    lock: u32,
}

/// Returns `task` for run `run`, which begins at `begins_ns` by the recording's clock.
fn task_of_run(task: &Task, open: bool, run: u32, begins_ns: u64, first: &Numbers) -> Task {
    let mut program = Vec::with_capacity(task.program.len() + 2);
    let is_root = task.parent.is_none();
    if let (Some(gate), true) = (run.checked_sub(1), is_root) {
        program.push(Op::WaitGate { gate });
        if task.start_ns > 0 {
            let (delay_ns, source) = (task.start_ns, Source::Unknown);
            program.push(if open {
                Op::SleepUntil { time_ns: begins_ns + delay_ns, source }
            } else {
                Op::Sleep { delay_ns, source }
            });
        }
    }
    program.extend(task.program.iter().map(|&op| match op {
        Op::Fork { task } => Op::Fork { task: first.task + task },
        Op::Signal { signal, sync } => Op::Signal { signal: first.signal + signal, sync },
        Op::Wait { signal } => Op::Wait { signal: first.signal + signal },
        Op::Send { channel, bytes, work_ns } => Op::Send { channel: first.channel + channel, bytes, work_ns },
        Op::Recv { channel, work_ns } => Op::Recv { channel: first.channel + channel, work_ns },
        Op::Barrier { barrier } => Op::Barrier { barrier: first.barrier + barrier },
        Op::SleepAtBarrier { barrier } => Op::SleepAtBarrier { barrier: first.barrier + barrier },
        Op::Lock { lock } => Op::Lock { lock: first.lock + lock },
        Op::Unlock { lock } => Op::Unlock { lock: first.lock + lock },
        Op::SleepUntil { time_ns, source } => Op::SleepUntil { time_ns: begins_ns + time_ns, source },
        op => op,
    }));
    Task {
        parent: task.parent.map(|parent| first.task + parent),
        start_ns: if run == 0 { task.start_ns } else { 0 },
        program,
        ..task.clone()
    }
}

#[cfg(test)]
mod tests {
    use wakelab_workload::{End, Measure};

    use super::*;

    fn compute(work_ns: u64) -> Op {
        Op::Compute { work_ns, spread_percent: 0 }
    }

    fn task(parent: Option<TaskIndex>, start_ns: u64, program: Vec<Op>) -> Task {
        Task {
            name: "t".to_owned(),
            parent,
            start_ns,
            process: 1,
            weight: 1024,
            slice_ns: None,
            allowed: None,
            last_cpu: None,
            footprint_bytes: 0,
            judged: false,
            awaited: false,
            cut_off: false,
            polls: false,
            after_sleep_ns: 0,
            group: None,
            program,
        }
    }

    fn workload(tasks: Vec<Task>, signals: u32) -> Workload {
        Workload {
            name: "w".to_owned(),
            tasks,
            channels: Vec::new(),
            signals,
            gates: 0,
            locks: Vec::new(),
            barriers: Vec::new(),
            groups: Vec::new(),
            end: End::AllExited,
            measure: Measure::Makespan,
        }
    }

    fn recorded(ended_ns: u64, open: bool) -> Recorded {
        Recorded { ended_ns, open }
    }

    #[test]
    fn worked_example() {
        let signal = |signal| Op::Signal { signal, sync: false };
        let wait = |signal| Op::Wait { signal };
        let a = task(None, 0, vec![compute(60), signal(0), compute(40)]);
        let b = task(None, 0, vec![wait(0), compute(30)]);
        let twice = joined(workload(vec![a, b], 1), &[recorded(100, false), recorded(90, false)], 100, 2);
        let twice = twice.expect("two runs of two tasks");
        let programs: Vec<&[Op]> = twice.tasks.iter().map(|task| &task.program[..]).collect();
        let (open, gate) = (Op::OpenGate { gate: 0 }, Op::WaitGate { gate: 0 });
        assert_eq!(programs[0], [compute(60), signal(0), compute(40), wait(1), open]);
        assert_eq!(programs[1], [wait(0), compute(30), signal(1)]);
        assert_eq!(programs[2], [gate, compute(60), signal(2), compute(40)]);
        assert_eq!(programs[3], [gate, wait(2), compute(30)]);
        assert_eq!((twice.signals, twice.gates), (3, 1));
        assert_eq!(twice.check(), Ok(()));
    }

    #[test]
    fn children_and_clocks() {
        let sleep = |delay_ns| Op::Sleep { delay_ns, source: Source::Unknown };
        let until = |time_ns| Op::SleepUntil { time_ns, source: Source::Unknown };
        let tasks = vec![
            // In a closed loop from 10 on; in an open loop from 20 on; a child of the second.
            task(None, 10, vec![sleep(5)]),
            task(None, 20, vec![Op::Fork { task: 2 }, until(70)]),
            task(Some(1), 0, vec![compute(1)]),
        ];
        let of = [recorded(15, false), recorded(70, true), recorded(21, false)];
        let all = joined(workload(tasks, 0), &of, 1000, 3).expect("three runs of three tasks");
        assert_eq!(all.check(), Ok(()));
        let (wait, open) = (|signal| Op::Wait { signal }, |gate| Op::OpenGate { gate });
        let gate = |gate| Op::WaitGate { gate };
        // The second task ended last; before it the third, at 21, and the first, at 15.
        assert_eq!(all.tasks[1].program, [Op::Fork { task: 2 }, until(70), wait(0), wait(1), open(0)]);
        assert_eq!(
            all.tasks[3].program,
            [gate(0), sleep(10), sleep(5), Op::Signal { signal: 3, sync: false }]
        );
        assert_eq!(
            all.tasks[4].program,
            [gate(0), until(1020), Op::Fork { task: 5 }, until(1070), wait(2), wait(3), open(1)]
        );
        assert_eq!(all.tasks[7].program, [gate(1), until(2020), Op::Fork { task: 8 }, until(2070)]);
        assert_eq!((all.tasks[8].parent, &all.tasks[8].program[..]), (Some(7), &[compute(1)][..]));
        assert_eq!([0, 3, 6].map(|task| all.tasks[task].start_ns), [10, 0, 0]);
    }

    #[test]
    fn once_is_once() {
        let once = workload(vec![task(None, 3, vec![compute(1)])], 0);
        assert_eq!(joined(once.clone(), &[recorded(4, false)], 4, 1), Ok(once));
    }

    #[test]
    fn more_than_a_workload_may_have_is_refused_before_it_is_built() {
        let once =
            workload(vec![task(None, 0, vec![compute(1); 96]), task(None, 0, vec![compute(1); 96])], 0);
        let join = |runs, duration_ns| joined(once.clone(), &[recorded(0, false); 2], duration_ns, runs);
        let most = JOINED_OPS_MAX / 200;
        assert_eq!(join(u32::MAX, 0), Err(TooManyRuns { tasks: 2, ops: 200, most }));
        assert_eq!(join(5, TIME_NS_MAX / 4).map_err(|too_many| too_many.most), Err(4));
        assert!(join(4, TIME_NS_MAX / 4).is_ok());
    }
}
