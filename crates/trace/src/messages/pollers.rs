// SPDX-License-Identifier: GPL-2.0-or-later
//! Tells tasks that take messages as they come (`poll()`, `epoll_wait()`) from those that know where the next one comes
//! from.
//!
//! No event shows the call that waits. But a task that asks one peer, and then another one, reads from the two in turn:
//! what it read last tells what it reads next. Where that is so for less than [`SURE_PERCENT`] of what a task reads,
//! from [`CHANNELS`] sockets, pipes or eventfds or more, the task polls.
//!
//! Worked example. A reads from 1, 2, 3, 1, 2, 3, 1: after 1 always comes 2, after 2 comes 3, after 3 comes 1, so A
//! does not poll. B reads from 1, 2, 3, 2, 1, 3, 1: after 1 come 2 and 3, after 2 come 3 and 1, after 3 come 2 and 1.
//! The most frequent successors are 3 of 6 cases: B polls.
//!
//! It fails for a server with two connections, and for one whose clients never overtake each other; for the latter it
//! makes no difference.

use std::collections::{BTreeMap, BTreeSet};

use wakelab_workload::TaskIndex;

use super::{Queue, Received};

/// The fewest sockets, pipes and eventfds that a task polls.
const CHANNELS: usize = 3;
/// The fewest reads that tell.
const FEWEST: u64 = 20;
/// If what was read last tells as much of what is read next, the task knows it, too.
const SURE_PERCENT: u64 = 80;

/// Returns the tasks that poll.
pub(super) fn pollers(received: &[Received]) -> BTreeSet<TaskIndex> {
    let mut last: BTreeMap<TaskIndex, Queue> = BTreeMap::new();
    // By task and what it read last: what it read next, and how often.
    let mut next: BTreeMap<TaskIndex, BTreeMap<Queue, BTreeMap<Queue, u64>>> = BTreeMap::new();
    for call in received.iter().filter(|call| call.bytes > 0) {
        if let Some(before) = last.insert(call.at.task, call.from) {
            let of_task = next.entry(call.at.task).or_default();
            *of_task.entry(before).or_default().entry(call.from).or_default() += 1;
        }
    }
    let polls = |of_task: &BTreeMap<Queue, BTreeMap<Queue, u64>>| {
        let reads: u64 = of_task.values().flat_map(BTreeMap::values).sum();
        let usual: u64 = of_task.values().filter_map(|successors| successors.values().max()).sum();
        of_task.len() >= CHANNELS && reads >= FEWEST && usual * 100 < reads * SURE_PERCENT
    };
    next.into_iter().filter(|(_, of_task)| polls(of_task)).map(|(task, _)| task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causal::Position;
    use crate::messages::At;

    fn polls(sockets: &[u64], times: usize) -> bool {
        let received: Vec<Received> = sockets
            .repeat(times)
            .iter()
            .map(|&socket| Received {
                at: At { task: 7, position: Position::default(), units: 0 },
                from: Queue::Socket(socket),
                bytes: 1,
            })
            .collect();
        let found = pollers(&received);
        assert!(found.iter().all(|&task| task == 7));
        !found.is_empty()
    }

    #[test]
    fn a_task_whose_next_peer_is_certain_does_not_poll() {
        assert!(!polls(&[1, 2, 3], 20));
        assert!(polls(&[1, 2, 3, 2, 1, 3], 20));
        assert!(!polls(&[1, 2, 3, 2, 1, 3], 3), "too few");
        assert!(!polls(&[1, 2, 1, 1, 2, 2], 20), "two peers");
        // Once in ten rounds in another order.
        assert!(!polls(&[[1, 2, 3].repeat(9), vec![1, 3, 2]].concat(), 3));
    }
}
