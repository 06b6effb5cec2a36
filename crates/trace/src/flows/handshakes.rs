// SPDX-License-Identifier: GPL-2.0-or-later
//! Handshakes: a task wakes another in vain, again and again, until that waits (`stress-ng --futex`).
//!
//! A wake-up call on a futex where nobody waits is lost. A waker that must not lose it calls again until it has woken
//! its wakee, so it spins in the kernel. With recorded waits alone, each of its calls that woke somebody would be a
//! message that is there however late the wakee comes. Where the wakee has to wait for a CPU, messages would pile up,
//! and its waits vanish.
//!
//! The calls of futex(2) show it: only one task wakes at the futex, only one waits there, and the waker calls
//! [`VAIN_TIMES`] times as often or more. A wait and the next wake-up call after it are a *meeting*, also if the wakee
//! did not sleep because the waker was quick. The waker came to it with its first call after the meeting before. What
//! it did from there on was spinning, which is left out of its work: a replay spins. The two meet at a barrier at which
//! the wakee sleeps and the waker spins without end.
//!
//! Worked example: E waits at 100 and at 300. W calls at 40, 70, 110, 150, 200, 250 and 320. E's first wait ends with
//! the call at 110, to which W came at 40; the second one with that at 320, to which W came at 150.
//!
//! A wait that a timer ended is no meeting. Where the waker did something else between two calls (it woke a third
//! task), it came with the call that was heard. No deadlock: both come to each meeting once, and in the recording's
//! order before it ends. For that, nothing may be added to what the waker does while it spins: it would stand behind
//! its coming, and the wakee may need it before its own. So the waker takes part in no stream and asks and answers
//! nothing.
//!
//! Cost: time in proportion to the calls, times the logarithm of their number.

use std::collections::{BTreeMap, BTreeSet};

use wakelab_workload::{Barrier, Op, TaskIndex};

use super::locks::{Futex, last_before};
use super::{Called, FEWEST, FlowKind, Flows, Wakeup, drop_explained};
use crate::causal::Position;
use crate::event::FutexCall;
use crate::program::{Step, Tracked};

/// How many times as many calls that wake as waits show that the waker calls in vain.
const VAIN_TIMES: usize = 3;

/// The calls of one futex, in order.
#[derive(Default)]
struct Calls<'a> {
    wakes: Vec<&'a Called>,
    waits: Vec<&'a Called>,
}

/// A wait, the wake-up call that it waited for, and the waker's first call after the meeting before.
#[derive(Clone, Copy, Debug)]
struct Meeting<'a> {
    waits: &'a Called,
    comes: &'a Called,
    woke: &'a Called,
}

/// Makes barriers of the handshakes in `of_task`, each task's calls, and takes their wake-ups out of `wakeups`. Returns
/// the wakers.
pub(super) fn take_handshakes(
    flows: &mut Flows,
    tasks: &mut [Tracked],
    wakeups: &mut Vec<Wakeup>,
    of_task: &[Vec<Called>],
) -> BTreeSet<TaskIndex> {
    let mut explained: BTreeSet<u32> = BTreeSet::new();
    let mut wakers: BTreeSet<TaskIndex> = BTreeSet::new();
    for (waker, wakee, calls) in pairs(of_task) {
        let found = meetings(&calls, &acts(&tasks[waker as usize]), &sleeps(&tasks[wakee as usize]));
        if found.len() < FEWEST || found.len() * 2 < calls.waits.len() {
            continue;
        }
        let waits: BTreeSet<Position> = found.iter().map(|meeting| meeting.waits.position).collect();
        let before = explained.len();
        explained.extend(
            wakeups
                .iter()
                .filter(|wakeup| (wakeup.waker, wakeup.wakee) == (waker, wakee))
                .filter(|wakeup| {
                    last_before(&of_task[wakee as usize], wakeup.blocked)
                        .is_some_and(|call| waits.contains(&call.position))
                })
                .map(|wakeup| wakeup.signal),
        );
        let slept = explained.len() - before;
        let count = flows.counts.entry(FlowKind::Handshake).or_default();
        count.pairs += 1;
        count.wakeups += slept as u64;
        count.added += (found.len() - slept) as u64;
        let barrier = flows.barriers.len() as u32;
        flows.barriers.push(Barrier { parties: 2, spin_ns: u64::MAX, recorded: true });
        come(&mut tasks[waker as usize], &found, barrier);
        wakers.insert(waker);
        let steps = found.iter().map(|Meeting { waits, .. }| Step {
            position: waits.position,
            at_units: waits.units,
            op: Op::SleepAtBarrier { barrier },
        });
        tasks[wakee as usize].steps.extend(steps);
    }
    if !explained.is_empty() {
        drop_explained(tasks, wakeups, &explained);
    }
    wakers
}

/// Puts the waker's steps, and leaves out its spins.
fn come(waker: &mut Tracked, found: &[Meeting<'_>], barrier: u32) {
    for Meeting { comes, woke, .. } in found {
        waker.steps.push(Step {
            position: comes.position,
            at_units: comes.units,
            op: Op::Barrier { barrier },
        });
        if comes.units < woke.units {
            waker.left_out.push((comes.units, woke.units));
        }
    }
}

/// Returns each waker and wakee that may shake hands, and their calls.
fn pairs(of_task: &[Vec<Called>]) -> Vec<(TaskIndex, TaskIndex, Calls<'_>)> {
    let mut by_futex: BTreeMap<Futex, Calls<'_>> = BTreeMap::new();
    for call in of_task.iter().flatten() {
        let of_futex = by_futex.entry(call.futex).or_default();
        match call.call {
            FutexCall::Wake => of_futex.wakes.push(call),
            FutexCall::Wait | FutexCall::WaitUntil | FutexCall::WaitForMutex => of_futex.waits.push(call),
        }
    }
    let only = |calls: &[&Called]| {
        let first = calls.first()?.task;
        calls.iter().all(|call| call.task == first).then_some(first)
    };
    let mut found = Vec::new();
    for calls in by_futex.into_values() {
        if let (Some(waker), Some(wakee)) = (only(&calls.wakes), only(&calls.waits))
            && waker != wakee
            && calls.waits.len() >= FEWEST
            && calls.wakes.len() >= VAIN_TIMES * calls.waits.len()
        {
            found.push((waker, wakee, calls));
        }
    }
    found
}

/// Returns where a task did something, in order.
fn acts(task: &Tracked) -> Vec<Position> {
    let mut acts: Vec<Position> = task.steps.iter().map(|step| step.position).collect();
    acts.sort_unstable();
    acts
}

/// Returns where a task began to sleep until a time or an event from outside, in order.
fn sleeps(task: &Tracked) -> Vec<Position> {
    let sleeps = task.steps.iter().filter(|step| matches!(step.op, Op::Sleep { .. }));
    let mut sleeps: Vec<Position> = sleeps.map(|step| step.position).collect();
    sleeps.sort_unstable();
    sleeps
}

/// Returns the meetings of a pair, in order. The waker `acts`, and the wakee `sleeps`, at these positions.
fn meetings<'a>(calls: &Calls<'a>, acts: &[Position], sleeps: &[Position]) -> Vec<Meeting<'a>> {
    let inside = |positions: &[Position], from: Position, to: Position| {
        positions.partition_point(|&position| position < to)
            > positions.partition_point(|&position| position <= from)
    };
    let mut found = Vec::with_capacity(calls.waits.len());
    let mut first = 0;
    for (at, waits) in calls.waits.iter().enumerate() {
        let heard = calls.wakes.partition_point(|call| call.position < waits.position).max(first);
        let Some(&woke) = calls.wakes.get(heard) else { break };
        let is_late = calls.waits.get(at + 1).is_some_and(|next| next.position < woke.position);
        if is_late || inside(sleeps, waits.position, woke.position) {
            continue;
        }
        let comes = calls.wakes[first];
        // The wake-up that was heard stands just behind its call.
        let comes = if inside(acts, comes.position, woke.position) { woke } else { comes };
        found.push(Meeting { waits, comes, woke });
        first = heard + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(task: TaskIndex, call: FutexCall, times: &[u64]) -> Vec<Called> {
        let called = |&time: &u64| Called {
            task,
            position: Position::after(time),
            units: time,
            futex: (1, 0x10),
            call,
        };
        times.iter().map(called).collect()
    }

    fn times(found: &[Meeting<'_>]) -> Vec<(u64, u64, u64)> {
        found.iter().map(|meeting| (meeting.waits.units, meeting.comes.units, meeting.woke.units)).collect()
    }

    /// The worked example above.
    #[test]
    fn a_waker_comes_with_its_first_call_and_is_heard_by_the_next_after_the_wait() {
        let wakes = calls(0, FutexCall::Wake, &[40, 70, 110, 150, 200, 250, 320]);
        let waits = calls(1, FutexCall::WaitUntil, &[100, 300]);
        let calls = Calls { wakes: wakes.iter().collect(), waits: waits.iter().collect() };
        assert_eq!(times(&meetings(&calls, &[], &[])), [(100, 40, 110), (300, 150, 320)]);
        let at = Position::after;
        assert_eq!(times(&meetings(&calls, &[at(60)], &[])), [(100, 110, 110), (300, 150, 320)], "it acts");
        assert_eq!(times(&meetings(&calls, &[], &[at(101)])), [(300, 40, 320)], "a timer ended the wait");
    }

    #[test]
    fn a_pair_shakes_hands_only_if_the_waker_often_calls_in_vain() {
        let shakes = |wakes: usize, wakers: u32| {
            let mut of_task = vec![Vec::new(); 3];
            let all: Vec<u64> = (0..wakes as u64).collect();
            for waker in 0..wakers {
                of_task[waker as usize * 2] = calls(waker * 2, FutexCall::Wake, &all);
            }
            of_task[1] = calls(1, FutexCall::Wait, &[0; 10]);
            pairs(&of_task).len()
        };
        assert_eq!((shakes(30, 1), shakes(29, 1), shakes(30, 2)), (1, 0, 0));
    }
}
