// SPDX-License-Identifier: GPL-2.0-or-later
//! Holds of mutexes that left no call of futex(2), because nobody else wanted the mutex then.
//!
//! Replays on more CPUs need them: there, tasks that never met in the recording wait for each other. Three things tell
//! of them; the second and the third give a *period*, the work from one hold to the next, and holds are put at its
//! multiples between each two that were seen. Habit counts, because it is exact, unless its period is twice the other
//! one's or longer: then it may be a multiple of what it should be.
//!
//! - **Yields.** Where a task yields once in most of its holds, each of its other yields is inside a hold, too, of the
//!   mutex that it held nearest to that. Then nothing else is asked.
//! - **Habit.** Where a task often takes a mutex after the same work, that is the period.
//! - **Preemptions.** A task loses its CPU at a moment that has nothing to do with what it does, except right after it
//!   yielded, waited, or called futex(2), which let others run. So of the other moments, those in which it had the
//!   mutex are as many as the part of its work that it does with it. (If it had it, the others come and wait, and it
//!   gives it back marked: this is seen.) The holds of tasks that waited are seen whole, and tell the length. The
//!   period is the length divided by that part. On one CPU there is nothing else to go by: tasks meet only where one
//!   loses the CPU. Moments of all tasks of one name are counted together.
//!
//! Worked example: tasks called `work` lost their CPU 40 times, 10 of them in a hold; a hold is 7 us long. A quarter of
//! their work is done with the mutex, so they take it every 28 us. Two holds that were seen are 4 ms of work apart: 142
//! more are put between them.
//!
//! It fails where holds are of different lengths: a long one is seen more often than a short one. It fails where few
//! preemptions tell: of 60 in each of three recordings of truth/mutex.sh, 31 to 63 % hit a hold, and 50 are right. And
//! it fails where a task changes what it does, and if the others do not come for the mutex while it is off its CPU.
//!
//! Cost: time in proportion to the holds, steps and bursts of the tasks, times the mutexes of a task, and to the holds
//! that are added; these are at most the work of the tasks divided by the length of a hold.

use std::collections::{BTreeMap, BTreeSet};

use wakelab_workload::Op;

use super::FEWEST;
use super::locks::{Called, Futex, Hold, Point, point_of, points_of, waits_of};
use crate::causal::Position;
use crate::program::{Tracked, scaled};
use crate::quantile::quantile;

/// Which of the distances between a task's holds of a mutex is that from one to the next: of those that are seen, some
/// are a multiple of it.
const QUICK_PERCENT: usize = 25;

/// Adds to the holds of all tasks those that are not seen. `usual` has the length of a hold, by mutex.
pub(super) fn add(
    tasks: &[Tracked],
    of_task: &[Vec<Called>],
    holds: &mut [Vec<Hold>],
    usual: &BTreeMap<Futex, u64>,
) {
    let by_chance = by_chance_units(tasks, of_task, holds, usual);
    for (task, holds) in tasks.iter().zip(holds) {
        if add_yields(task, holds) {
            continue;
        }
        let mut added = Vec::new();
        for (futex, of) in by_futex(holds) {
            let by_chance_units = by_chance.get(&(futex, task.name.as_str())).copied();
            let Some(period_units) = period_units(habit_units(&of), by_chance_units) else { continue };
            let length_units = usual.get(&futex).map_or(0, |&units| units.min(period_units));
            fill(task, &of, period_units, length_units, &mut added);
        }
        holds.extend(added);
        holds.sort_by_key(|hold| hold.from.0);
    }
}

/// Returns a task's holds of each mutex, in order.
fn by_futex(holds: &[Hold]) -> BTreeMap<Futex, Vec<&Hold>> {
    let mut all: BTreeMap<Futex, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        all.entry(hold.futex).or_default().push(hold);
    }
    all
}

/// Returns the work from one hold to the next, of what habit and preemptions tell.
fn period_units(habit: Option<u64>, by_chance: Option<u64>) -> Option<u64> {
    let habit = habit.filter(|&units| by_chance.is_none_or(|by_chance| units < 2 * by_chance));
    habit.or(by_chance).filter(|&units| units > 0)
}

/// Returns the work after which a task takes a mutex again, if it is often the same.
fn habit_units(holds: &[&Hold]) -> Option<u64> {
    let gaps = || holds.windows(2).map(|pair| pair[1].taken_units().saturating_sub(pair[0].taken_units()));
    let period_units = quantile(gaps(), QUICK_PERCENT).filter(|&units| units > 0)?;
    let is_regular = |gap: &u64| gap.abs_diff(period_units) * 8 <= period_units;
    (gaps().filter(is_regular).count() >= FEWEST.max(holds.len() / 8)).then_some(period_units)
}

/// Returns the work from one hold to the next, as preemptions tell it, by mutex and name of the tasks.
fn by_chance_units<'a>(
    tasks: &'a [Tracked],
    of_task: &[Vec<Called>],
    holds: &[Vec<Hold>],
    usual: &BTreeMap<Futex, u64>,
) -> BTreeMap<(Futex, &'a str), u64> {
    // Preemptions in a hold, and all of them.
    let mut counts: BTreeMap<(Futex, &str), (usize, usize)> = BTreeMap::new();
    for ((task, calls), holds) in tasks.iter().zip(of_task).zip(holds) {
        if holds.is_empty() {
            continue;
        }
        let acts = acts_of(task, calls);
        for (futex, of) in by_futex(holds) {
            let length_units = usual.get(&futex).copied().unwrap_or(0);
            let (held, all) = counts.entry((futex, &task.name)).or_default();
            for (at, units) in task.leaves() {
                let last_units = acts[..acts.partition_point(|&(position, _)| position <= at)]
                    .last()
                    .map_or(0, |&(_, units)| units);
                if units.saturating_sub(last_units) < length_units {
                    continue;
                }
                *all += 1;
                let began = of.partition_point(|hold| hold.from.0 <= at);
                *held += usize::from(began > 0 && at < of[began - 1].to.0);
            }
        }
    }
    let known = counts.into_iter().filter(|(_, (held, _))| *held >= FEWEST);
    let period = |futex: &Futex, held: usize, all: usize| {
        usual.get(futex).map_or(0, |&units| scaled(units, all as u64, held as u64))
    };
    known.map(|(key, (held, all))| (key, period(&key.0, held, all))).collect()
}

/// Returns where a task let others run: its waits, sleeps, yields and calls of futex(2), in order.
fn acts_of(task: &Tracked, calls: &[Called]) -> Vec<Point> {
    let mut acts = waits_of(task, &BTreeSet::new());
    acts.extend(yields_of(task));
    acts.extend(calls.iter().map(|call| (call.position, call.units)));
    acts.sort_unstable();
    acts
}

/// Returns where a task yields, in order.
fn yields_of(task: &Tracked) -> Vec<Point> {
    points_of(task, |op| op == Op::Yield)
}

/// Puts holds between each two that were seen, a period apart.
fn fill(task: &Tracked, seen: &[&Hold], period_units: u64, length_units: u64, added: &mut Vec<Hold>) {
    for pair in seen.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let begin = before.taken_units();
        let gap = after.taken_units().saturating_sub(begin);
        let rounds = (gap + period_units / 2) / period_units;
        let mut earliest = before.to;
        for round in 1..rounds {
            let from_units = (begin + scaled(gap, round, rounds)).max(earliest.1);
            let to_units = (from_units + length_units).min(after.from.1);
            if from_units >= to_units {
                continue;
            }
            let from = (point_of(task, from_units, earliest.0, after.from.0), from_units);
            let to = (point_of(task, to_units, from.0, after.from.0), to_units);
            added.push(Hold { futex: before.futex, from, to, waited_units: None, slept: None });
            earliest = to;
        }
    }
}

/// Adds holds around yields, if the task yields once in most of its holds. Returns whether it does.
fn add_yields(task: &Tracked, holds: &mut Vec<Hold>) -> bool {
    let yields = yields_of(task);
    let within = |from: Position, to: Position| {
        let first = yields.partition_point(|&(position, _)| position <= from);
        first..yields.partition_point(|&(position, _)| position < to).max(first)
    };
    let with_one: Vec<(&Hold, Point)> = holds
        .iter()
        .filter_map(|hold| {
            let inside = within(hold.from.0, hold.to.0);
            (inside.len() == 1).then(|| (hold, yields[inside.start]))
        })
        .collect();
    if with_one.len() < FEWEST || with_one.len() * 4 < holds.len() * 3 {
        return false;
    }
    let half = |units: &dyn Fn(&Hold, Point) -> u64| {
        quantile(with_one.iter().map(|&(hold, at)| units(hold, at)), 50).unwrap_or(0)
    };
    let before_units = half(&|hold, at| at.1.saturating_sub(hold.taken_units()));
    let after_units = half(&|hold, at| hold.to.1.saturating_sub(at.1));
    let mut added = Vec::new();
    // Between two holds, the first half of the yields is inside holds of the earlier one's mutex.
    for next in 0..=holds.len() {
        let (before, after) = (next.checked_sub(1).map(|before| holds[before]), holds.get(next));
        let latest = after.map_or((Position::after(u64::MAX), u64::MAX), |after| after.from);
        let mut earliest = before.map_or(Point::default(), |before| before.to);
        let all = match before {
            Some(_) => within(earliest.0, latest.0),
            None => 0..within(earliest.0, latest.0).end,
        };
        let middle = all.start + all.len().div_ceil(2);
        for index in all {
            let (at, units) = yields[index];
            let of = if index < middle { before.as_ref().or(after) } else { after.or(before.as_ref()) };
            let Some(&Hold { futex, .. }) = of else { continue };
            let from_units = units.saturating_sub(before_units).max(earliest.1);
            let end = yields.get(index + 1).map_or(latest, |&next| next.min(latest));
            let to_units = (units + after_units).min(end.1).max(units);
            let from = (point_of(task, from_units, earliest.0, at), from_units);
            let to = (point_of(task, to_units, at, end.0), to_units);
            added.push(Hold { futex, from, to, waited_units: None, slept: None });
            earliest = to;
        }
    }
    holds.extend(added);
    holds.sort_by_key(|hold| hold.from.0);
    true
}
