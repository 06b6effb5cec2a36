// SPDX-License-Identifier: GPL-2.0-or-later
//! Mutexes, from calls of futex(2): who holds which one, from where to where.
//!
//! A mutex of three values (U. Drepper, Futexes Are Tricky, 2011; glibc, Rust, Go) asks the kernel only if two tasks
//! want it at once. A task that finds it held marks it with 2 and sleeps; a task that gives back a marked one wakes a
//! sleeper, which tries again and may find it taken once more. With one signal for each recorded wait, a replay has
//! the waits of the recording, whatever task holds what: on fewer CPUs, where a holder loses its CPU, waits are
//! missing, and on more they are too many. So a mutex becomes a lock, and the recorded waits and their signals go.
//!
//! What is seen is the wait of a task that found the mutex held, and the wake-up by a task that gave it back marked.
//! - A task holds it from its first wait to its next wake-up call: what it takes marked, it gives back marked. A wait
//!   in which it does not sleep is one that came too late: the mutex had been given back meanwhile, and nobody else
//!   had it then.
//! - A task that makes a wake-up call without having waited took the mutex at once, and another one came later. It
//!   took it, as work goes, as long before as tasks that waited for it usually held it, counted from their last wait;
//!   but not before its last call and the end of its last wait, not before another task gave it back, and not after
//!   the first other one that slept waited.
//! - A task that neither waited nor woke leaves no trace; flows/unseen.rs infers its holds.
//!
//! Worked example: A calls wake at 100 (of its work and of the time), B waits at 90, is woken, runs from 102, and
//! calls wake at 110. B held the mutex from 90 to 110, which is 8 after its wait ended; so A took it at 92, but B
//! waited at 90 already: A took it at 90, just before.
//!
//! No deadlock. A hold ends before its task waits for another one, whatever the events say: a holder waits for
//! locks alone. Waits are inferred later, too, and a message that was there in the recording may not be in a
//! replay, so holds end before these as well. And the locks have an order: mutexes that tasks take in a circle, one
//! inside another, keep their signals.
//!
//! Where tasks wait for other things most of the time, their mutexes keep their signals, too. Python's threads wait
//! for queues and for the interpreter's lock (flows/interpreter.rs), which has a mutex inside: with that one as a lock,
//! replays of truth/threads.sh on one CPU had 72 % too few wake-ups, and 21 % with signals.
//!
//! What a task does from one wait to the next is not work with the mutex (flows/retries.rs).
//!
//! It fails for locks of other values (musl), and where waits end by a time limit.
//!
//! Cost: time in proportion to the calls times the logarithm of a task's steps.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};
use wakelab_workload::{Lock, Op, TaskIndex};

use super::retries::Retries;
use super::{FEWEST, FlowKind, Flows, INBOX, Wakeup, drop_explained, unseen};
use crate::causal::Position;
use crate::event::FutexCall;
use crate::program::{Step, Tracked};
use crate::quantile::quantile;
use crate::rescale::UNITS;

/// A call of futex(2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called {
    pub(crate) task: TaskIndex,
    pub(crate) position: Position,
    /// The task's work then, in 1/1024 ns.
    pub(crate) units: u64,
    pub(crate) futex: Futex,
    pub(crate) call: FutexCall,
}

/// A process, or 0 if several share it, and an address.
pub(crate) type Futex = (u32, u64);

/// A point of a task's work.
pub(super) type Point = (Position, u64);

/// A task has a mutex from one point of its work to another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) futex: Futex,
    pub(super) from: Point,
    pub(super) to: Point,
    /// It waited for it, the last time at this point of its work.
    pub(super) waited_units: Option<u64>,
    /// It slept in a wait for it that began here: another task had it.
    pub(super) slept: Option<Position>,
}

impl Hold {
    /// Returns the task's work when it had the mutex, after its last wait.
    pub(super) fn taken_units(&self) -> u64 {
        self.waited_units.unwrap_or(self.from.1)
    }
}

/// Makes locks of the mutexes in `of_task`, each task's calls, and takes the wake-ups by their holders out of
/// `wakeups`. Both are in the order of the recording.
pub(super) fn take_locks(
    flows: &mut Flows,
    tasks: &mut [Tracked],
    wakeups: &mut Vec<Wakeup>,
    of_task: &[Vec<Called>],
) {
    let slept: FxHashSet<(TaskIndex, Position)> = wakeups
        .iter()
        .filter_map(|wakeup| {
            Some((wakeup.wakee, last_before(&of_task[wakeup.wakee as usize], wakeup.blocked)?))
        })
        .map(|(task, call)| (task, call.position))
        .collect();
    let waits: Vec<(u32, Futex)> = waits_by(of_task, wakeups, FutexCall::WaitForMutex)
        .into_iter()
        .map(|(wakeup, futex)| (wakeup.signal, futex))
        .collect();
    let mut mutexes = mutexes(of_task, &waits);
    leave_lesser(&mut mutexes, &waits, wakeups, tasks.len());
    while !mutexes.is_empty() {
        let explained: BTreeSet<u32> =
            waits.iter().filter(|(_, futex)| mutexes.contains(futex)).map(|(signal, _)| *signal).collect();
        let mut holds: Vec<Vec<Hold>> =
            of_task.iter().map(|calls| seen_holds(calls, &mutexes, &slept)).collect();
        let usual = usual_units(&holds);
        let other_waits: Vec<Vec<Point>> = tasks.iter().map(|task| waits_of(task, &explained)).collect();
        begin_holds(&mut holds, tasks, of_task, &other_waits, &usual);
        unseen::add(tasks, of_task, &mut holds, &usual);
        for (holds, waits) in holds.iter_mut().zip(&other_waits) {
            drop_overlapping(holds);
            end_before_waits(waits, holds);
        }
        let in_circles = in_circles(&holds);
        if in_circles.is_empty() {
            let retries = Retries::new(of_task, &mutexes);
            for (task, in_vain) in tasks.iter_mut().zip(retries.of_task) {
                task.left_out.extend(in_vain);
            }
            write(flows, tasks, &retries.usual_units, &holds, &mutexes, explained.len());
            drop_explained(tasks, wakeups, &explained);
            return;
        }
        mutexes.retain(|futex| !in_circles.contains(futex));
    }
}

/// Returns the last of a task's calls before a position.
pub(super) fn last_before(calls: &[Called], position: Position) -> Option<&Called> {
    calls[..calls.partition_point(|call| call.position < position)].last()
}

/// Returns the waits that began with a call of this kind and were ended by a call to wake at the same futex, in order.
pub(super) fn waits_by<'a>(
    of_task: &[Vec<Called>],
    wakeups: &'a [Wakeup],
    kind: FutexCall,
) -> Vec<(&'a Wakeup, Futex)> {
    let mut woken_at: FxHashMap<TaskIndex, Position> = FxHashMap::default();
    let mut waits = Vec::new();
    for wakeup in wakeups {
        let woken_before = woken_at.insert(wakeup.wakee, wakeup.at);
        let wait = last_before(&of_task[wakeup.wakee as usize], wakeup.blocked)
            .filter(|call| call.call == kind && Some(call.position) > woken_before);
        let wake = last_before(&of_task[wakeup.waker as usize], wakeup.at)
            .filter(|call| call.call == FutexCall::Wake);
        if let (Some(wait), Some(wake)) = (wait, wake)
            && wait.futex == wake.futex
        {
            waits.push((wakeup, wait.futex));
        }
    }
    waits
}

/// Returns the futexes that are mutexes: those for which tasks waited often enough, and which most of them gave back.
fn mutexes(of_task: &[Vec<Called>], waits: &[(u32, Futex)]) -> BTreeSet<Futex> {
    let mut waited: BTreeMap<Futex, usize> = BTreeMap::new();
    for &(_, futex) in waits {
        *waited.entry(futex).or_default() += 1;
    }
    waited.retain(|_, times| *times >= FEWEST);
    let all: BTreeSet<Futex> = waited.into_keys().collect();
    // Times taken after a wait, and times given back after that.
    let mut counts: BTreeMap<Futex, (usize, usize)> = BTreeMap::new();
    for calls in of_task {
        let mut taken: BTreeSet<Futex> = BTreeSet::new();
        for call in calls.iter().filter(|call| all.contains(&call.futex)) {
            let (taken_times, given_times) = counts.entry(call.futex).or_default();
            match call.call {
                FutexCall::WaitForMutex => *taken_times += usize::from(taken.insert(call.futex)),
                FutexCall::Wake => *given_times += usize::from(taken.remove(&call.futex)),
                FutexCall::Wait | FutexCall::WaitUntil => {}
            }
        }
    }
    counts.into_iter().filter(|(_, (taken, given))| given * 2 >= *taken).map(|(futex, _)| futex).collect()
}

/// Leaves out mutexes whose tasks wait for other things most of the time. Signals alone keep the order of those waits,
/// and a lock among them would break it: of two waits in a row, one would vanish without the other.
fn leave_lesser(mutexes: &mut BTreeSet<Futex>, waits: &[(u32, Futex)], wakeups: &[Wakeup], nr_tasks: usize) {
    let of_signal: FxHashMap<u32, Futex> =
        waits.iter().copied().filter(|(_, futex)| mutexes.contains(futex)).collect();
    // By task: its waits for mutexes, and all of its waits.
    let mut counts = vec![(0_u64, 0_u64); nr_tasks];
    let mut waiters: BTreeMap<Futex, BTreeSet<TaskIndex>> = BTreeMap::new();
    for wakeup in wakeups {
        let (for_mutexes, all) = &mut counts[wakeup.wakee as usize];
        *all += 1;
        if let Some(&futex) = of_signal.get(&wakeup.signal) {
            *for_mutexes += 1;
            waiters.entry(futex).or_default().insert(wakeup.wakee);
        }
    }
    mutexes.retain(|futex| {
        let of_waiters = waiters.get(futex).into_iter().flatten().map(|&task| counts[task as usize]);
        let (for_mutexes, all) = of_waiters.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        for_mutexes * 2 >= all
    });
}

/// Returns what the calls of one task tell. A hold that began without a wait has no length yet.
fn seen_holds(
    calls: &[Called],
    mutexes: &BTreeSet<Futex>,
    slept: &FxHashSet<(TaskIndex, Position)>,
) -> Vec<Hold> {
    let mut taken: BTreeMap<Futex, Hold> = BTreeMap::new();
    let mut holds = Vec::new();
    for call in calls.iter().filter(|call| mutexes.contains(&call.futex)) {
        let point = (call.position, call.units);
        let here = Hold { futex: call.futex, from: point, to: point, waited_units: None, slept: None };
        match call.call {
            FutexCall::WaitForMutex => {
                let hold = taken.entry(call.futex).or_insert(here);
                hold.waited_units = Some(call.units);
                if slept.contains(&(call.task, call.position)) {
                    hold.slept.get_or_insert(call.position);
                }
            }
            FutexCall::Wake => {
                holds.push(Hold { to: point, ..taken.remove(&call.futex).unwrap_or(here) });
            }
            FutexCall::Wait | FutexCall::WaitUntil => {}
        }
    }
    holds.extend(taken.into_values());
    holds.sort_by_key(|hold| hold.from.0);
    holds
}

/// Returns how long tasks that waited for a mutex usually held it, counted from their last wait, by mutex.
fn usual_units(holds: &[Vec<Hold>]) -> BTreeMap<Futex, u64> {
    let mut lengths: BTreeMap<Futex, Vec<u64>> = BTreeMap::new();
    for hold in holds.iter().flatten() {
        let Some(waited_units) = hold.waited_units else { continue };
        lengths.entry(hold.futex).or_default().push(hold.to.1.saturating_sub(waited_units));
    }
    lengths.into_iter().filter_map(|(futex, all)| Some((futex, quantile(all, 50)?))).collect()
}

/// Finds where the holds began whose task did not wait.
fn begin_holds(
    holds: &mut [Vec<Hold>],
    tasks: &[Tracked],
    of_task: &[Vec<Called>],
    other_waits: &[Vec<Point>],
    usual: &BTreeMap<Futex, u64>,
) {
    let (mut given, mut wanted) = (Times::new(), Times::new());
    for (task, holds) in (0..).zip(holds.iter()) {
        for hold in holds {
            given.entry(hold.futex).or_default().push((hold.to.0, task));
            if let Some(position) = hold.slept {
                wanted.entry(hold.futex).or_default().push((position, task));
            }
        }
    }
    given.values_mut().chain(wanted.values_mut()).for_each(|list| list.sort_unstable());
    for (index, holds) in (0..).zip(holds) {
        let (task, waits) = (&tasks[index as usize], &other_waits[index as usize]);
        for hold in holds.iter_mut().filter(|hold| hold.waited_units.is_none()) {
            let until = hold.to.0;
            let called = last_before(&of_task[index as usize], until).map(|call| (call.position, call.units));
            let awake = waits[..waits.partition_point(|&(position, _)| position < until)].last().copied();
            let (mut after, mut earliest_units) = called.into_iter().chain(awake).max().unwrap_or_default();
            if let Some(position) = by_others(&given, hold.futex, index, after, until).next_back() {
                after = position;
                earliest_units = earliest_units.max(task.work_at(position.time_ns));
            }
            let usual_units = usual.get(&hold.futex).copied().unwrap_or(u64::MAX);
            let mut units = hold.to.1.saturating_sub(usual_units);
            if let Some(position) = by_others(&wanted, hold.futex, index, after, until).next() {
                units = units.min(task.work_at(position.time_ns));
            }
            let units = units.max(earliest_units).min(hold.to.1);
            hold.from = (point_of(task, units, after, until), units);
        }
        holds.sort_by_key(|hold| hold.from.0);
    }
}

/// What tasks did with each mutex, in order.
type Times = BTreeMap<Futex, Vec<(Position, TaskIndex)>>;

/// Returns when other tasks than `index` did that, between two positions.
fn by_others(
    times: &Times,
    futex: Futex,
    index: TaskIndex,
    after: Position,
    until: Position,
) -> impl DoubleEndedIterator<Item = Position> {
    let times = times.get(&futex).map_or(&[][..], Vec::as_slice);
    let first = times.partition_point(|&(position, _)| position <= after);
    let last = times.partition_point(|&(position, _)| position < until).max(first);
    times[first..last].iter().filter(move |(_, other)| *other != index).map(|&(position, _)| position)
}

/// Returns the position of a point of a task's work, between two positions.
pub(super) fn point_of(task: &Tracked, units: u64, after: Position, until: Position) -> Position {
    Position::after(task.time_of(units)).max(after.next()).min(until)
}

/// Returns where a task waits for something else than these mutexes, or sleeps, in order.
pub(super) fn waits_of(task: &Tracked, explained: &BTreeSet<u32>) -> Vec<Point> {
    points_of(task, |op| match op {
        Op::Wait { signal } => !explained.contains(&signal),
        Op::Recv { .. } | Op::Send { .. } | Op::Sleep { .. } | Op::SleepUntil { .. } => true,
        _ => false,
    })
}

/// Returns where a task does something of this kind, in order.
pub(super) fn points_of(task: &Tracked, is: impl Fn(Op) -> bool) -> Vec<Point> {
    let steps = task.steps.iter().filter(|step| is(step.op));
    let mut points: Vec<Point> = steps.map(|step| (step.position, step.at_units)).collect();
    points.sort_unstable();
    points
}

/// Drops holds of a mutex that the task holds already: what is inferred may lie where nothing else was known.
fn drop_overlapping(holds: &mut Vec<Hold>) {
    let mut free: BTreeMap<Futex, Position> = BTreeMap::new();
    holds.retain(|hold| {
        let free = free.entry(hold.futex).or_default();
        let fits = hold.from.0 >= *free && hold.to.0 >= hold.from.0;
        if fits {
            *free = hold.to.0;
        }
        fits
    });
}

/// Ends holds before the task waits for another one.
fn end_before_waits(waits: &[Point], holds: &mut [Hold]) {
    for hold in holds {
        let next = waits.partition_point(|&(position, _)| position <= hold.from.0);
        if let Some(&(position, units)) = waits.get(next).filter(|&&(position, _)| position < hold.to.0) {
            hold.to = (position.previous(), units);
        }
    }
}

/// Returns the mutexes that tasks take in a circle, one inside another.
fn in_circles(holds: &[Vec<Hold>]) -> BTreeSet<Futex> {
    let mut inner: BTreeMap<Futex, BTreeSet<Futex>> = BTreeMap::new();
    for holds in holds {
        let mut open: Vec<&Hold> = Vec::new();
        for hold in holds {
            open.retain(|outer| outer.to.0 > hold.from.0);
            for outer in open.iter().filter(|outer| outer.futex != hold.futex) {
                inner.entry(outer.futex).or_default().insert(hold.futex);
            }
            open.push(hold);
        }
    }
    // Those that are left when all without an inner one are taken away, again and again.
    loop {
        let left: BTreeSet<Futex> = inner.keys().copied().collect();
        inner.values_mut().for_each(|of| of.retain(|futex| left.contains(futex)));
        inner.retain(|_, of| !of.is_empty());
        if inner.len() == left.len() {
            return left;
        }
    }
}

/// Writes the locks into the programs.
fn write(
    flows: &mut Flows,
    tasks: &mut [Tracked],
    retries: &BTreeMap<Futex, u64>,
    holds: &[Vec<Hold>],
    mutexes: &BTreeSet<Futex>,
    wakeups: usize,
) {
    let first = flows.locks.len() as u32;
    let number: BTreeMap<Futex, u32> = mutexes.iter().copied().zip(first..).collect();
    flows.locks.extend(mutexes.iter().map(|futex| {
        let retry_ns = retries.get(futex).copied().unwrap_or(0) / UNITS;
        Lock { recorded: true, retry_ns, ..Lock::default() }
    }));
    let count = flows.counts.entry(FlowKind::Mutex).or_default();
    count.pairs += mutexes.len() as u64;
    count.wakeups += wakeups as u64;
    for (task, holds) in tasks.iter_mut().zip(holds) {
        for hold in holds {
            let lock = number[&hold.futex];
            count.added += u64::from(hold.waited_units.is_none());
            let step = |(position, at_units), op| Step { position, at_units, op };
            task.steps.push(step(hold.from, Op::Lock { lock }));
            task.steps.push(step(hold.to, Op::Unlock { lock }));
        }
    }
}

/// Ends each hold where its task may wait for another one, after all that can wait is in the programs.
pub(super) fn end_all_before_waits(flows: &Flows, tasks: &mut [Tracked]) {
    for task in tasks {
        if task.steps.iter().any(|step| matches!(step.op, Op::Lock { .. })) {
            task.steps.sort_by_key(|step| step.position);
            task.steps = ended_before_waits(flows, &task.steps);
        }
    }
}

/// Returns the steps of a task, in order, with an end of each hold before the first wait in it.
fn ended_before_waits(flows: &Flows, steps: &[Step]) -> Vec<Step> {
    let mut held: Vec<u32> = Vec::new();
    let mut ended = Vec::with_capacity(steps.len());
    for &step in steps {
        match step.op {
            Op::Lock { lock } => held.push(lock),
            Op::Unlock { lock } => match held.iter().position(|&of| of == lock) {
                Some(at) => drop(held.remove(at)),
                // It has ended before a wait.
                None => continue,
            },
            op if waits(flows, op) => {
                ended.extend(held.drain(..).rev().map(|lock| Step { op: Op::Unlock { lock }, ..step }));
            }
            _ => {}
        }
        ended.push(step);
    }
    ended
}

/// Whether a task may wait there for another one, which is no holder of a lock.
pub(super) fn waits(flows: &Flows, op: Op) -> bool {
    match op {
        Op::Wait { .. } | Op::Recv { .. } | Op::Barrier { .. } | Op::SleepAtBarrier { .. } => true,
        // An inbox is never full.
        Op::Send { channel, .. } => flows.channels[channel as usize] != INBOX,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use wakelab_workload::Channel;

    use super::*;

    /// A task holds lock 1 inside lock 0, sends to an inbox and waits for a message; then it takes lock 0 again, and
    /// its message may wait for room.
    #[test]
    fn holds_end_before_what_may_wait() {
        let room = Channel { overhead_bytes: 1, ..INBOX };
        let flows = Flows { channels: vec![INBOX, room], ..Flows::default() };
        let lock = |lock| Op::Lock { lock };
        let unlock = |lock| Op::Unlock { lock };
        let send = |channel| Op::Send { channel, bytes: 0, work_ns: 0 };
        let receive = Op::Recv { channel: 0, work_ns: 0 };
        let steps = |ops: &[Op]| -> Vec<Step> {
            let step =
                |(at, &op): (usize, &Op)| Step { position: Position::after(at as u64), at_units: 0, op };
            ops.iter().enumerate().map(step).collect()
        };
        let before = [lock(0), lock(1), send(0), receive, unlock(1), unlock(0), lock(0), send(1), unlock(0)];
        let ops: Vec<Op> = ended_before_waits(&flows, &steps(&before)).iter().map(|step| step.op).collect();
        let first = [lock(0), lock(1), send(0), unlock(1), unlock(0), receive];
        assert_eq!(ops, [&first[..], &[lock(0), unlock(0), send(1)]].concat());
        let whole = [lock(0), send(0), unlock(0)];
        assert_eq!(ended_before_waits(&flows, &steps(&whole)).len(), 3);
    }
}
