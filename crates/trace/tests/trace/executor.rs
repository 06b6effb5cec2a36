// SPDX-License-Identifier: GPL-2.0-or-later
//! An abstract executor: runs a workload as if each task had its own CPU, and checks the workload's form.

use std::collections::{BTreeSet, VecDeque};

use wakelab_workload::{Op, TaskIndex, Workload};

/// Runs all programs. Returns the time at which each task ends, which is its critical path.
///
/// # Errors
/// The tasks that never end.
///
/// # Panics
/// If a signal is raised or waited for twice, or a task is not forked exactly once by its parent.
pub(crate) fn execute(workload: &Workload) -> Result<Vec<u64>, Vec<TaskIndex>> {
    let count = workload.tasks.len();
    let mut now_ns: Vec<Option<u64>> = vec![None; count];
    let mut next_op = vec![0; count];
    let mut raised_ns: Vec<Option<u64>> = vec![None; workload.signals as usize];
    let mut waiter: Vec<Option<TaskIndex>> = vec![None; workload.signals as usize];
    let mut opened_ns: Vec<Option<u64>> = vec![None; workload.gates as usize];
    let mut at_gate: Vec<Vec<TaskIndex>> = vec![Vec::new(); workload.gates as usize];
    let mut at_barrier: Vec<Vec<(u64, TaskIndex)>> = vec![Vec::new(); workload.barriers.len()];
    let mut locks: Vec<Mutex> = workload.locks.iter().map(|_| Mutex::default()).collect();
    let mut channels: Vec<(VecDeque<u64>, Option<TaskIndex>)> =
        vec![(VecDeque::new(), None); workload.channels.len()];
    // Tasks that can go on, by their clocks: the earliest executes one operation.
    let mut ready: BTreeSet<(u64, TaskIndex)> = BTreeSet::new();
    for (index, task) in workload.tasks.iter().enumerate() {
        if task.parent.is_none() {
            now_ns[index] = Some(task.start_ns);
            ready.insert((task.start_ns, index as TaskIndex));
        }
    }
    while let Some((ready_ns, index)) = ready.pop_first() {
        let at = index as usize;
        let mut clock_ns = ready_ns;
        now_ns[at] = Some(clock_ns);
        if let Some(op) = workload.tasks[at].program.get(next_op[at]) {
            match *op {
                Op::Compute { work_ns, spread_percent } => {
                    assert!(work_ns > 0 && spread_percent == 0, "{op:?}");
                    clock_ns += work_ns;
                }
                Op::Sleep { delay_ns, .. } => clock_ns += delay_ns,
                Op::SleepUntil { time_ns, .. } => clock_ns = clock_ns.max(time_ns),
                Op::Signal { signal, .. } => {
                    let raised = &mut raised_ns[signal as usize];
                    assert_eq!(*raised, None, "signal {signal} is raised twice");
                    *raised = Some(clock_ns);
                    ready.extend(waiter[signal as usize].map(|waiter| (clock_ns, waiter)));
                }
                Op::Wait { signal } => {
                    let Some(signal_ns) = raised_ns[signal as usize] else {
                        let other = waiter[signal as usize].replace(index);
                        assert_eq!(other, None, "two tasks wait for signal {signal}");
                        continue;
                    };
                    clock_ns = clock_ns.max(signal_ns);
                }
                // Only its consumer takes from a channel.
                Op::Send { channel, .. } => {
                    let channel = &mut channels[channel as usize];
                    channel.0.push_back(clock_ns);
                    ready.extend(channel.1.take().map(|reader| (clock_ns, reader)));
                }
                Op::Recv { channel, .. } => {
                    let channel = &mut channels[channel as usize];
                    let Some(sent_ns) = channel.0.pop_front() else {
                        let other = channel.1.replace(index);
                        assert_eq!(other, None, "two tasks take from a channel");
                        continue;
                    };
                    clock_ns = clock_ns.max(sent_ns);
                }
                Op::OpenGate { gate } => {
                    let opened = opened_ns[gate as usize].replace(clock_ns);
                    assert_eq!(opened, None, "gate {gate} is opened twice");
                    ready.extend(at_gate[gate as usize].drain(..).map(|task| (clock_ns, task)));
                }
                Op::WaitGate { gate } => {
                    let Some(gate_ns) = opened_ns[gate as usize] else {
                        at_gate[gate as usize].push(index);
                        continue;
                    };
                    clock_ns = clock_ns.max(gate_ns);
                }
                Op::Fork { task } => {
                    assert_eq!(workload.tasks[task as usize].parent, Some(index));
                    let begun = now_ns[task as usize].replace(clock_ns);
                    assert_eq!(begun, None, "task {task} is forked twice");
                    ready.insert((clock_ns, task));
                }
                Op::Barrier { barrier } | Op::SleepAtBarrier { barrier } => {
                    let arrived = &mut at_barrier[barrier as usize];
                    arrived.push((clock_ns, index));
                    if arrived.len() < workload.barriers[barrier as usize].parties as usize {
                        continue;
                    }
                    for (_, task) in arrived.drain(..).filter(|&(_, task)| task != index) {
                        next_op[task as usize] += 1;
                        now_ns[task as usize] = Some(clock_ns);
                        ready.insert((clock_ns, task));
                    }
                }
                Op::Lock { lock } => {
                    let lock = &mut locks[lock as usize];
                    if lock.owner.is_some() {
                        lock.sleepers.push_back(index);
                        continue;
                    }
                    lock.owner = Some(index);
                }
                Op::Unlock { lock } => {
                    let lock = &mut locks[lock as usize];
                    assert_eq!(lock.owner.take(), Some(index), "another one has the lock");
                    ready.extend(lock.sleepers.pop_front().map(|sleeper| (clock_ns, sleeper)));
                }
                Op::Exec | Op::BeginExit | Op::Yield => {}
                _ => panic!("not made of a recording: {op:?}"),
            }
            next_op[at] += 1;
            now_ns[at] = Some(clock_ns);
            ready.insert((clock_ns, index));
        }
    }
    let ended =
        |index: &usize| next_op[*index] == workload.tasks[*index].program.len() && now_ns[*index].is_some();
    let stuck: Vec<TaskIndex> =
        (0..count).filter(|index| !ended(index)).map(|index| index as TaskIndex).collect();
    if stuck.is_empty() { Ok(now_ns.into_iter().flatten().collect()) } else { Err(stuck) }
}

/// A lock.
#[derive(Default)]
struct Mutex {
    owner: Option<TaskIndex>,
    sleepers: VecDeque<TaskIndex>,
}

/// CPU time of each task.
pub(crate) fn work_ns(workload: &Workload) -> Vec<u64> {
    let work = |op: &Op| if let Op::Compute { work_ns, .. } = op { *work_ns } else { 0 };
    workload.tasks.iter().map(|task| task.program.iter().map(work).sum()).collect()
}
