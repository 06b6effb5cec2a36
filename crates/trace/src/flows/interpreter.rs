// SPDX-License-Identifier: GPL-2.0-or-later
//! The lock of an interpreter, which a thread has whenever it runs, from calls of futex(2): Python's and Ruby's.
//!
//! A thread gives it back before it waits for anything, and takes it when it goes on. If another one has it then, the
//! thread sleeps until a time at the latest (5 ms in CPython, Python/ceval_gil.h), so that it can ask for the lock; who
//! gives it back wakes one. On two CPUs a woken thread seldom finds it taken, because its waker has gone to sleep until
//! it is there; on one it preempts its waker, which has it still. So a replay on fewer CPUs needs the lock: with one
//! signal for each recorded wait, truth/threads.sh on one CPU had a third of its wake-ups too few.
//!
//! It is seen by threads of one process that sleep at the same address with a time limit and that wake one another
//! there: [`TEAM_MIN`] tasks or more do either. They hardly run at the same time. What sleeps without a limit, or in
//! one task only, is something else. A thread has the lock
//!
//! - from its call to sleep there, or from the end of another wait,
//! - to its call to wake there, or to its next wait, whatever comes first.
//!
//! A thread that wakes another twice without a wait in between had it again at once. Before its first call or wait and
//! after its last one nothing is known, and it has none.
//!
//! Worked example: A waits for messages after 10 and 40 of its work, and wakes B at the address after 30: it has the
//! lock from 10 to 30. B sleeps there after 5, and waits for a message after 25: it has it from 5 to 25.
//!
//! No deadlock: who has the lock waits for nothing.
//!
//! It fails for threads that give the lock back to compute something that needs no interpreter: they run at the same
//! time, and keep their signals.
//!
//! Cost: time in proportion to the calls and to a process's runs, times the logarithm of their number.

use std::collections::{BTreeMap, BTreeSet};

use wakelab_workload::{Lock, Op, TaskIndex};

use super::locks::{Futex, Point, points_of, waits, waits_by};
use super::{Called, FEWEST, FlowKind, Flows, Wakeup, drop_explained};
use crate::event::FutexCall;
use crate::program::{Step, Tracked};

/// The fewest tasks that wait at the address, and that wake.
const TEAM_MIN: usize = 3;
/// Of their time on CPUs, at most one part in OVERLAP_LEAST may be spent at the same time.
const OVERLAP_LEAST: u64 = 4;

/// Who waits at an address until a time at the latest, who wakes whom there, and the signals of these wake-ups.
#[derive(Default)]
struct Seen {
    waiters: BTreeSet<TaskIndex>,
    wakers: BTreeSet<TaskIndex>,
    signals: Vec<u32>,
}

/// An interpreter whose lock was found.
pub(super) struct Interpreter {
    /// Its threads, and their calls at the lock, in order.
    team: BTreeMap<TaskIndex, Vec<Called>>,
    /// The wake-ups of those that waited for it.
    wakeups: u64,
}

/// Finds interpreters, and takes the wake-ups of threads that waited for their locks out of `wakeups`.
pub(super) fn take_wakeups(
    tasks: &mut [Tracked],
    wakeups: &mut Vec<Wakeup>,
    of_task: &[Vec<Called>],
) -> Vec<Interpreter> {
    let mut seen: BTreeMap<Futex, Seen> = BTreeMap::new();
    for (wakeup, futex) in waits_by(of_task, wakeups, FutexCall::WaitUntil) {
        let seen = seen.entry(futex).or_default();
        seen.waiters.insert(wakeup.wakee);
        seen.wakers.insert(wakeup.waker);
        seen.signals.push(wakeup.signal);
    }
    seen.retain(|_, seen| seen.waiters.len() >= TEAM_MIN && seen.wakers.len() >= TEAM_MIN);
    // A condition variable has two addresses, in turn. Addresses that processes share stand alone.
    let mut together: BTreeMap<Futex, Vec<Futex>> = BTreeMap::new();
    for &(process, address) in seen.keys() {
        let key = (process, if process == 0 { address } else { 0 });
        together.entry(key).or_default().push((process, address));
    }
    let mut found = Vec::new();
    for futexes in together.into_values() {
        let all = || futexes.iter().map(|futex| &seen[futex]);
        let explained: BTreeSet<u32> = all().flat_map(|seen| seen.signals.iter().copied()).collect();
        let team: BTreeSet<TaskIndex> =
            all().flat_map(|seen| seen.waiters.union(&seen.wakers).copied()).collect();
        let has_locks = |task: &TaskIndex| {
            tasks[*task as usize].steps.iter().any(|step| matches!(step.op, Op::Lock { .. }))
        };
        if explained.len() < FEWEST || !takes_turns(tasks, &team) || team.iter().any(has_locks) {
            continue;
        }
        let calls = |task: TaskIndex| {
            of_task[task as usize].iter().filter(|call| futexes.contains(&call.futex)).copied().collect()
        };
        let team = team.into_iter().map(|task| (task, calls(task))).collect();
        found.push(Interpreter { team, wakeups: explained.len() as u64 });
        drop_explained(tasks, wakeups, &explained);
    }
    found
}

/// Writes the locks into the programs, after all waits of the tasks are known.
pub(super) fn write(flows: &mut Flows, tasks: &mut [Tracked], interpreters: &[Interpreter]) {
    for interpreter in interpreters {
        let lock = flows.locks.len() as u32;
        flows.locks.push(Lock { recorded: true, ..Lock::default() });
        let mut nr_holds = 0;
        for (&task, calls) in &interpreter.team {
            let task = &mut tasks[task as usize];
            let waits = points_of(task, |op| {
                matches!(op, Op::Sleep { .. } | Op::SleepUntil { .. }) || waits(flows, op)
            });
            for (from, to) in holds(calls, &waits) {
                let step = |(position, at_units), op| Step { position, at_units, op };
                task.steps.push(step(from, Op::Lock { lock }));
                task.steps.push(step(to, Op::Unlock { lock }));
                nr_holds += 1;
            }
        }
        let count = flows.counts.entry(FlowKind::Mutex).or_default();
        count.pairs += 1;
        count.wakeups += interpreter.wakeups;
        count.added += nr_holds - interpreter.wakeups.min(nr_holds);
    }
}

/// Whether these tasks hardly run at the same time.
fn takes_turns(tasks: &[Tracked], team: &BTreeSet<TaskIndex>) -> bool {
    let mut runs: Vec<(u64, u64)> = team.iter().flat_map(|&task| tasks[task as usize].on_cpu()).collect();
    runs.sort_unstable();
    let (mut busy_ns, mut at_once_ns, mut until_ns) = (0, 0, 0);
    for (from, until) in runs {
        busy_ns += until - from;
        at_once_ns += until_ns.min(until).saturating_sub(from);
        until_ns = until_ns.max(until);
    }
    at_once_ns * OVERLAP_LEAST <= busy_ns
}

/// What a thread does that tells of the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// It sleeps for the lock.
    Sleeps,
    /// It gives the lock back to one that sleeps.
    Wakes,
    /// It waits for something else.
    Waits,
}

/// Returns from where to where a thread has the lock, from its calls at the lock and its other waits.
fn holds(calls: &[Called], waits: &[Point]) -> Vec<(Point, Point)> {
    let mut all: Vec<(Point, Does)> = waits.iter().map(|&wait| (wait, Does::Waits)).collect();
    all.extend(calls.iter().filter_map(|call| {
        let does = match call.call {
            FutexCall::WaitUntil => Does::Sleeps,
            FutexCall::Wake => Does::Wakes,
            FutexCall::Wait | FutexCall::WaitForMutex => return None,
        };
        Some(((call.position, call.units), does))
    }));
    all.sort_by_key(|((position, _), _)| *position);
    let mut holds = Vec::new();
    let mut since: Option<Point> = None;
    for (index, &((position, units), does)) in all.iter().enumerate() {
        let before = (if does == Does::Wakes { position } else { position.previous() }, units);
        if let Some(from) = since.take().filter(|from| from.0 <= before.0) {
            holds.push((from, before));
        }
        let goes_on = all.get(index + 1).is_some_and(|(_, next)| *next == Does::Wakes);
        since = match does {
            Does::Sleeps => Some((position, units)),
            Does::Waits => Some((position.next(), units)),
            Does::Wakes => goes_on.then_some((position.next(), units)),
        };
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causal::Position;

    /// The worked example above.
    #[test]
    fn a_thread_has_it_while_it_runs() {
        let at = |units: u64| (Position::after(units), units);
        let call = |units: u64, call: FutexCall| Called {
            task: 0,
            position: Position::after(units),
            units,
            futex: (1, 0x1000),
            call,
        };
        let units = |holds: Vec<(Point, Point)>| -> Vec<(u64, u64)> {
            holds.into_iter().map(|(from, to)| (from.1, to.1)).collect()
        };
        assert_eq!(units(holds(&[call(30, FutexCall::Wake)], &[at(10), at(40)])), [(10, 30)]);
        assert_eq!(units(holds(&[call(5, FutexCall::WaitUntil)], &[at(25)])), [(5, 25)]);
        let wakes = [call(20, FutexCall::Wake), call(30, FutexCall::Wake)];
        assert_eq!(units(holds(&wakes, &[at(10), at(40)])), [(10, 20), (20, 30)]);
    }
}
