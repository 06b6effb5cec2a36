// SPDX-License-Identifier: GPL-2.0-or-later
//! Wake-ups of one system call: all that wait in one place are woken at one point of the waker's work.
//!
//! The waker holds the lock of a wait queue while it wakes all that wait there, so none of them preempts it in between.
//! No event tells where a call ends. Two wake-ups may be of one call if nothing but the end of the first is between
//! them, and if the second begins within [`SAME_CALL_NS`] after it. But a task that writes into one pipe after the
//! other is nearly as fast. What tells the two apart is the fastest that a waker goes on from one wake-up to the next:
//! inside one call that is the step to the next entry of a queue, and otherwise the end of one system call and the
//! beginning of another. So a waker whose quickest gaps ([`QUICK_PERCENT`]) are longer than [`STEP_NS`] and one event
//! of the recorder makes each wake-up by a separate call.
//!
//! Worked example, as measured with an event's cost of 200 ns: a task that wakes 80 others from `poll()` has gaps of
//! 208 to 955 ns, a tenth of them below 260: that is one call, because 260 is at most 150 + 200. A task that writes
//! into 20 pipes in turn has gaps of 414 to 780 ns, a tenth below 440: those are 20 calls.
//!
//! It fails for a waker that does both: the quicker ones decide for all.

use rustc_hash::FxHashMap;
use wakelab_workload::{Op, TaskIndex};

use super::{Model, Position};
use crate::quantile::quantile;

/// The most time from the end of a wake-up to the next one of the same system call: with cold caches it takes up to
/// 2 us, the recorder's part included (`poll()` of 160 tasks by `hackbench`).
pub(super) const SAME_CALL_NS: u64 = 2_500;
/// The most time from one wake-up to the next in one call with warm caches, without the recorder's part: two to three
/// times what was measured (30 to 80 ns). System calls in a row take 200 ns and more.
const STEP_NS: u64 = 150;
/// How many of a waker's gaps are quick ones.
const QUICK_PERCENT: usize = 10;

/// A wake-up of a task by a task.
#[derive(Clone, Copy, Debug)]
struct Woke {
    at: Position,
    waker: TaskIndex,
    /// The waker's work until then, in 1/1024 ns.
    units: u64,
    /// The time since the end of the waker's last wake-up, if this one may be of the same call.
    gap_ns: Option<u64>,
}

/// The wake-ups of a recording, in its order.
#[derive(Debug, Default)]
pub(super) struct Calls {
    wakes: Vec<Woke>,
}

impl Calls {
    /// Notes a wake-up by `waker`, which has done work of `units` / 1024 ns until then.
    pub(super) fn woke(&mut self, at: Position, waker: TaskIndex, units: u64, gap_ns: Option<u64>) {
        self.wakes.push(Woke { at, waker, units, gap_ns });
    }

    /// Returns by how much work, in 1/1024 ns, a wake-up comes earlier than it was seen: back to the first one of its
    /// call. Wake-ups at their own place are left out. An event costs `event_cost_ns`.
    fn moved_back(mut self, event_cost_ns: u64) -> FxHashMap<Position, u64> {
        // A stable sort: each waker's wake-ups stay in the order of the recording.
        self.wakes.sort_by_key(|woke| woke.waker);
        let mut moved = FxHashMap::default();
        for wakes in self.wakes.chunk_by(|one, next| one.waker == next.waker) {
            let quick_ns = quantile(wakes.iter().filter_map(|woke| woke.gap_ns), QUICK_PERCENT);
            if quick_ns.is_none_or(|quick_ns| quick_ns > STEP_NS + event_cost_ns) {
                continue;
            }
            let mut first_units = 0;
            for woke in wakes {
                if woke.gap_ns.is_none() {
                    first_units = woke.units;
                } else if woke.units > first_units {
                    moved.insert(woke.at, woke.units - first_units);
                }
            }
        }
        moved
    }
}

impl Model {
    /// Moves the wake-ups of each system call to one point of the waker's work, and tells it to `wakeups`.
    pub(super) fn settle_calls(&mut self) {
        let event_cost_ns = self.header.as_ref().and_then(|header| header.event_cost_ns).unwrap_or(0);
        let moved = std::mem::take(&mut self.calls).moved_back(event_cost_ns);
        let mut signalled = vec![None; self.signals as usize];
        for step in self.tasks.iter_mut().flat_map(|task| &mut task.steps) {
            if let Op::Signal { signal, .. } = step.op {
                let back_units = moved.get(&step.position).copied().unwrap_or(0);
                step.at_units = step.at_units.saturating_sub(back_units);
                signalled[signal as usize] = Some(step.at_units);
            }
        }
        // Steps have been corrected where a switch-in was not seen.
        for wakeup in &mut self.wakeups {
            wakeup.waker_units = signalled[wakeup.signal as usize].unwrap_or(wakeup.waker_units);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By how much the wake-ups of tasks move, one each after 10 of work; the waker of each, and its gap.
    fn moved(wakes: &[(TaskIndex, Option<u64>)]) -> Vec<u64> {
        let mut calls = Calls::default();
        let at = |index: usize| Position { time_ns: index as u64, event: index as u64 };
        for (index, &(waker, gap_ns)) in wakes.iter().enumerate() {
            calls.woke(at(index), waker, 10 * index as u64, gap_ns);
        }
        let moved = calls.moved_back(200);
        (0..wakes.len()).map(|index| moved.get(&at(index)).copied().unwrap_or(0)).collect()
    }

    #[test]
    fn all_that_wait_in_one_place_are_woken_at_one_point() {
        // The first gap of 260 is the quickest of three; the last one is of cold caches.
        assert_eq!(moved(&[(1, None), (1, Some(260)), (1, Some(2_000)), (1, None)]), [0, 10, 20, 0]);
        // Wakers on several CPUs, whose wake-ups alternate.
        assert_eq!(moved(&[(1, None), (2, None), (1, Some(350)), (2, Some(350))]), [0, 0, 20, 20]);
    }

    #[test]
    fn a_waker_that_needs_longer_makes_each_wake_up_by_its_own_call() {
        assert_eq!(
            moved(&[(1, None), (1, Some(351)), (1, Some(440)), (2, None), (2, Some(349))])[..3],
            [0; 3]
        );
        // One quick gap of eleven is not enough, one of ten is.
        let mut wakes = vec![(1, Some(440)); 10];
        wakes.push((1, Some(300)));
        assert_eq!(moved(&wakes), [0; 11]);
        assert_eq!(moved(&wakes[1..])[9], 90);
    }
}
