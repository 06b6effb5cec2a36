// SPDX-License-Identifier: GPL-2.0-or-later
//! Barriers: tasks that wait for each other, again and again (OpenMP, MPI, phases of a computation).
//!
//! The last task that comes to a barrier waits for nobody, and wakes all the others at once. With recorded waits alone,
//! it would wait for nobody in a replay either, where another one may be the last: it runs ahead, the others' waits
//! vanish, and with them the barrier.
//!
//! A barrier shows itself by who wakes whom. A *release* is what one task wakes by one call of futex(2). Where no call
//! is recorded, it is what one task wakes without sleeping in between, of those that slept before it began. (One call
//! also wakes a member that went to sleep after its first wake-up.) Three tasks or more are a *team* if releases wake
//! all of the others, if several of them release, and if most of the wake-ups among them belong to releases. A pool of
//! workers that one master wakes is no team. Each release of a team becomes a round of one barrier; a quarter of them
//! or more must wake all the others, because in the rest some may have spun. A member arrives with its call of
//! futex(2), or where it goes to sleep or begins to wake the others. One that did not sleep (it spun, or it waited for
//! a CPU) arrives at the release.
//!
//! A member that comes early may spin for a while before it sleeps, and its spin looks like work. Who slept has worked
//! and spun since its arrival before, and the last one has only worked. So a barrier spins for as long as the 10th
//! percentile of the former exceeds that of the latter: where both had the least to do, only the spin differs. It is
//! left out of the work of those that slept, and the replay spins.
//!
//! Worked example: A, B and C work for 10, 20 and 30, A and B wait, and C wakes both. In the next phase they work for
//! 20, 30 and 10, and B wakes both. Each gets two arrivals: A after 10 and 30, B after 20 and 50, C after 30 and 40.
//!
//! No deadlock: a member arrives where it began to wait, or at the release while it could run. In the recording's
//! order, all arrivals of a round come before its release, and each member arrives once in each round. A round in which
//! a member waits for something else keeps its signals.
//!
//! Cost: time in proportion to the wake-ups times the logarithm of their number, and to the team's size for each round.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use wakelab_workload::{Barrier, Op, TaskIndex};

use super::locks::{Point, last_before};
use super::{Called, FEWEST, FlowKind, Flows, Wakeup, drop_explained};
use crate::causal::Position;
use crate::event::FutexCall;
use crate::program::{Step, Tracked};
use crate::quantile::quantile;
use crate::rescale::UNITS;

/// The fewest members: what two tasks do in turn may be anything.
const MEMBERS_MIN: usize = 3;

/// Less is chance, or what a call takes.
const SPIN_NS_MIN: u64 = 500;

/// What a task wakes without sleeping in between.
struct Release<'a> {
    waker: TaskIndex,
    at: Position,
    waker_units: u64,
    ended: Vec<&'a Wakeup>,
}

impl Release<'_> {
    /// The waker and those it woke, in order. One call of futex(2) can wake a task twice.
    fn tasks(&self) -> Vec<TaskIndex> {
        let mut tasks: Vec<TaskIndex> = self.ended.iter().map(|wakeup| wakeup.wakee).collect();
        tasks.push(self.waker);
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }

    /// Whether it woke all others of a team of this size, and each once. One that it woke twice slept in between, which
    /// members of a barrier hardly do.
    fn is_of(&self, team: usize) -> bool {
        self.ended.len() + 1 == team && self.tasks().len() == team
    }
}

/// Makes barriers of the teams in `wakeups`, which are in the order of the recording, and takes their wake-ups out.
pub(super) fn take_barriers(
    flows: &mut Flows,
    tasks: &mut [Tracked],
    wakeups: &mut Vec<Wakeup>,
    of_task: &[Vec<Called>],
) {
    let mut explained: BTreeSet<u32> = BTreeSet::new();
    let releases = releases(wakeups, of_task);
    let waits = Waits::new(tasks.len(), wakeups);
    for team in teams(&releases) {
        let rounds = rounds(&team, &releases, tasks, &waits);
        let (full, woken) = rounds.iter().fold((0, 0), |(full, woken), round| {
            (full + usize::from(round.is_of(team.len())), woken + round.ended.len())
        });
        let among =
            wakeups.iter().filter(|wakeup| team.contains(&wakeup.waker) && team.contains(&wakeup.wakee));
        if full < FEWEST || full * 4 < rounds.len() || woken * 2 < among.count() {
            continue;
        }
        let op = Op::Barrier { barrier: flows.barriers.len() as u32 };
        let count = flows.counts.entry(FlowKind::Barrier).or_default();
        count.pairs += 1;
        count.wakeups += woken as u64;
        let mut arrivals = Vec::with_capacity(team.len() * rounds.len());
        for round in &rounds {
            count.added += (team.len() - round.tasks().len()) as u64;
            for &member in &team {
                arrivals.push(arrival(round, member, tasks, &of_task[member as usize]));
            }
            explained.extend(round.ended.iter().map(|wakeup| wakeup.signal));
        }
        let spin_units = spin_units(&arrivals, team.len());
        flows.barriers.push(Barrier {
            parties: team.len() as u32,
            spin_ns: spin_units / UNITS,
            recorded: true,
        });
        for (index, &Arrival { member, how, at: (position, at_units) }) in arrivals.iter().enumerate() {
            let before = index.checked_sub(team.len()).map_or(at_units, |before| arrivals[before].at.1);
            let spun_units = if how == How::Slept { spin_units } else { 0 };
            let from_units = at_units - spun_units.min(at_units.saturating_sub(before));
            let task = &mut tasks[member as usize];
            task.steps.push(Step { position, at_units: from_units, op });
            if from_units < at_units {
                task.left_out.push((from_units, at_units));
            }
        }
    }
    if !explained.is_empty() {
        drop_explained(tasks, wakeups, &explained);
    }
}

/// How a member came through a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Slept,
    /// It was the last one.
    Last,
    /// It neither slept nor was the last one.
    Spun,
}

/// A member's arrival.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    member: TaskIndex,
    how: How,
    at: Point,
}

/// Returns when a member arrived for a round.
fn arrival(round: &Release<'_>, member: TaskIndex, tasks: &[Tracked], calls: &[Called]) -> Arrival {
    let wait = round.ended.iter().find(|wakeup| wakeup.wakee == member);
    let (how, at) = match wait {
        Some(wakeup) => (How::Slept, begin(calls, FutexCall::Wait, (wakeup.blocked, wakeup.wakee_units))),
        None if member == round.waker => {
            (How::Last, begin(calls, FutexCall::Wake, (round.at, round.waker_units)))
        }
        None => (How::Spun, (round.at, tasks[member as usize].work_at(round.at.time_ns))),
    };
    Arrival { member, how, at }
}

/// Returns for how long members spin before they sleep. Those that slept have worked and spun since their arrival
/// before, the last ones have only worked. Where both had the least to do, the difference is the spin.
fn spin_units(arrivals: &[Arrival], team: usize) -> u64 {
    let least = |how: How| {
        let since = arrivals.iter().zip(arrivals.iter().skip(team));
        let bursts = since.filter(|(_, arrival)| arrival.how == how);
        let bursts: Vec<u64> = bursts.map(|(before, now)| now.at.1.saturating_sub(before.at.1)).collect();
        if bursts.len() < FEWEST { None } else { quantile(bursts, 10) }
    };
    match (least(How::Slept), least(How::Last)) {
        (Some(slept), Some(last)) if slept.saturating_sub(last) >= SPIN_NS_MIN * UNITS => slept - last,
        _ => 0,
    }
}

/// Returns where a task entered the kernel for what it did at a point, or that point if no such call is recorded.
fn begin(calls: &[Called], kind: FutexCall, at: Point) -> Point {
    match last_before(calls, at.0) {
        Some(call) if call.call == kind => (call.position, call.units),
        _ => at,
    }
}

/// Returns all releases, in order.
fn releases<'a>(wakeups: &'a [Wakeup], of_task: &[Vec<Called>]) -> Vec<Release<'a>> {
    let mut releases: Vec<Release<'_>> = Vec::new();
    // By waker: its last release, and the call that made it.
    let mut open: BTreeMap<TaskIndex, (usize, Option<Position>)> = BTreeMap::new();
    for wakeup in wakeups {
        // It has slept since its last release.
        open.remove(&wakeup.wakee);
        let call = last_before(&of_task[wakeup.waker as usize], wakeup.at)
            .filter(|call| call.call == FutexCall::Wake)
            .map(|call| call.position);
        if let Some(&(index, of_call)) = open.get(&wakeup.waker) {
            let release = &mut releases[index];
            let is_same = if call.is_some() { call == of_call } else { wakeup.blocked < release.at };
            if is_same {
                release.ended.push(wakeup);
                continue;
            }
        }
        open.insert(wakeup.waker, (releases.len(), call));
        let Wakeup { waker, at, waker_units, .. } = *wakeup;
        releases.push(Release { waker, at, waker_units, ended: vec![wakeup] });
    }
    releases
}

/// Returns the members of each team, in order. No task is in two of them.
fn teams(releases: &[Release<'_>]) -> Vec<Vec<TaskIndex>> {
    let mut sets: BTreeMap<Vec<TaskIndex>, BTreeMap<TaskIndex, usize>> = BTreeMap::new();
    for release in releases {
        let members = release.tasks();
        if members.len() >= MEMBERS_MIN && release.is_of(members.len()) {
            *sets.entry(members).or_default().entry(release.waker).or_default() += 1;
        }
    }
    let mut found: Vec<(usize, Vec<TaskIndex>)> = Vec::new();
    for (members, wakers) in sets {
        let times: usize = wakers.values().sum();
        // A member's part is one in the size; a quarter of that is enough.
        let several = wakers.values().filter(|&&of_waker| of_waker * 4 * members.len() >= times).count() >= 2;
        if times >= FEWEST && several {
            found.push((times * members.len(), members));
        }
    }
    found.sort_by_key(|(arrivals, _)| Reverse(*arrivals));
    let mut taken = BTreeSet::new();
    found.retain(|(_, members)| {
        let is_free = members.iter().all(|member| !taken.contains(member));
        if is_free {
            taken.extend(members.iter().copied());
        }
        is_free
    });
    found.into_iter().map(|(_, members)| members).collect()
}

/// Returns the releases of a team by which all its members can have arrived.
fn rounds<'r, 'a>(
    team: &[TaskIndex],
    releases: &'r [Release<'a>],
    tasks: &[Tracked],
    waits: &Waits,
) -> Vec<&'r Release<'a>> {
    let of_team = |release: &&Release<'_>| {
        team.binary_search(&release.waker).is_ok()
            && release.ended.iter().all(|wakeup| team.binary_search(&wakeup.wakee).is_ok())
    };
    let can_arrive = |release: &&Release<'_>| {
        let there = release.tasks();
        team.iter().filter(|member| there.binary_search(member).is_err()).all(|&member| {
            tasks[member as usize].lives_at(release.at.time_ns) && !waits.at(member, release.at)
        })
    };
    releases.iter().filter(of_team).filter(can_arrive).collect()
}

/// When each task waited for another one: the begins and the ends, in order.
struct Waits(Vec<Vec<(Position, Position)>>);

impl Waits {
    fn new(tasks: usize, wakeups: &[Wakeup]) -> Waits {
        let mut waits = vec![Vec::new(); tasks];
        for wakeup in wakeups {
            waits[wakeup.wakee as usize].push((wakeup.blocked, wakeup.at));
        }
        Waits(waits)
    }

    /// Whether the task waited then.
    fn at(&self, task: TaskIndex, at: Position) -> bool {
        let waits = &self.0[task as usize];
        let next = waits.partition_point(|&(_, woken)| woken <= at);
        waits.get(next).is_some_and(|&(blocked, _)| blocked <= at)
    }
}
