// SPDX-License-Identifier: GPL-2.0-or-later
//! Retries: what a task does in vain that is woken for a mutex, finds it taken again, and goes back to sleep.
//!
//! It stands between two waits for the same mutex without a wake-up call. Which task has to retry, and how often,
//! depends on the order in which tasks run, so a replay has other retries than the recording. If the recorded ones
//! stayed in the work, they would be work with the mutex, because a task has it from its first wait on
//! (flows/locks.rs): holds of 2 us became holds of 4 us, and a replay of truth/mutex.sh on two CPUs had 2.9 times as
//! many wake-ups, and 1.9 times without. So they are left out of the work, and each retry of the replay costs what is
//! usual for that mutex.
//!
//! A retry takes the way out of the kernel, a look, and the way back. What takes longer than system calls do
//! ([`CALL_NS_MAX`]) is something else, such as the time after a wait with a time limit, and stays in the work.
//!
//! Worked example: a task waits after 90, 93, 96 and 300 us of its work. Retries usually take 3. It keeps 204 of the
//! 210.

use std::collections::{BTreeMap, BTreeSet};

use super::Called;
use super::locks::Futex;
use crate::event::FutexCall;
use crate::learnt::CALL_NS_MAX;
use crate::quantile::quantile;
use crate::rescale::UNITS;

/// The retries of all tasks.
pub(super) struct Retries {
    /// By task: from where to where of its work, in 1/1024 ns.
    pub(super) of_task: Vec<Vec<(u64, u64)>>,
    /// What they usually take, by mutex, in 1/1024 ns.
    pub(super) usual_units: BTreeMap<Futex, u64>,
}

impl Retries {
    /// Finds them in each task's calls, which are in order.
    pub(super) fn new(of_task: &[Vec<Called>], mutexes: &BTreeSet<Futex>) -> Retries {
        let mut found: Vec<(usize, Futex, u64, u64)> = Vec::new();
        for (task, calls) in of_task.iter().enumerate() {
            let mut waited: BTreeMap<Futex, u64> = BTreeMap::new();
            for call in calls.iter().filter(|call| mutexes.contains(&call.futex)) {
                if call.call != FutexCall::WaitForMutex {
                    waited.remove(&call.futex);
                } else if let Some(before_units) = waited.insert(call.futex, call.units) {
                    let (from, to) = (before_units, call.units.max(before_units));
                    if to - from <= CALL_NS_MAX * UNITS {
                        found.push((task, call.futex, from, to));
                    }
                }
            }
        }
        let mut lengths: BTreeMap<Futex, Vec<u64>> = BTreeMap::new();
        for &(_, futex, from, to) in &found {
            lengths.entry(futex).or_default().push(to - from);
        }
        let usual_units: BTreeMap<Futex, u64> =
            lengths.into_iter().filter_map(|(futex, all)| Some((futex, quantile(all, 50)?))).collect();
        let mut of_task = vec![Vec::new(); of_task.len()];
        for (task, _, from, to) in found {
            of_task[task].push((from, to));
        }
        Retries { of_task, usual_units }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causal::Position;

    /// The worked example above.
    #[test]
    fn what_takes_longer_stays() {
        let futex = (1, 0x1000);
        let waits = [90, 93, 96, 300].map(|us| us * 1_000 * UNITS).map(|units| Called {
            task: 0,
            position: Position::after(units),
            units,
            futex,
            call: FutexCall::WaitForMutex,
        });
        let retries = Retries::new(&[waits.to_vec()], &BTreeSet::from([futex]));
        let us = |of: (u64, u64)| (of.0 * 1_000 * UNITS, of.1 * 1_000 * UNITS);
        assert_eq!(retries.of_task, [[us((90, 93)), us((93, 96))]]);
        assert_eq!(retries.usual_units, BTreeMap::from([(futex, 3_000 * UNITS)]));
    }
}
