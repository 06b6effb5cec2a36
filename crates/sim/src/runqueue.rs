// SPDX-License-Identifier: GPL-2.0-or-later
//! A CPU's runqueue: the tasks that wait there, ordered by (key, arrival). The policy makes the keys.
//!
//! An ordered ring: taking the head is O(1), and inserting moves the shorter side. Queues are short, and most tasks
//! join near the end.

use std::collections::VecDeque;

use crate::runqueue_lock::Lock;

/// A task that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) key: u64,
    pub(crate) task: u32,
}

#[derive(Default)]
pub(crate) struct RunQueue {
    queued: VecDeque<Queued>,
    /// How many of them may run anywhere; the others have an affinity mask.
    pub(crate) unlimited: u32,
    pub(crate) lock: Lock,
}

impl RunQueue {
    pub(crate) fn len(&self) -> usize {
        self.queued.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// Behind those of the same key.
    pub(crate) fn insert(&mut self, key: u64, task: u32, limited: bool) {
        self.unlimited += u32::from(!limited);
        let entry = Queued { key, task };
        if self.queued.back().is_none_or(|last| last.key <= key) {
            self.queued.push_back(entry);
        } else {
            let at = self.queued.partition_point(|other| other.key <= key);
            self.queued.insert(at, entry);
        }
    }

    /// The task at this position of the order.
    pub(crate) fn get(&self, at: usize) -> Option<u32> {
        self.queued.get(at).map(|entry| entry.task)
    }

    /// Takes the task at this position out.
    pub(crate) fn remove(&mut self, at: usize, limited: bool) {
        if self.queued.remove(at).is_some() {
            self.unlimited -= u32::from(!limited);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.queued.iter().map(|entry| entry.task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_key_then_arrival() {
        let mut queue = RunQueue::default();
        for (key, task) in [(5, 0), (3, 1), (5, 2), (4, 3), (3, 4), (9, 5)] {
            queue.insert(key, task, task == 5);
        }
        assert_eq!(queue.iter().collect::<Vec<_>>(), [1, 4, 3, 0, 2, 5]);
        assert_eq!((queue.len(), queue.unlimited), (6, 5));
        queue.remove(1, false);
        queue.remove(4, true);
        assert_eq!(queue.iter().collect::<Vec<_>>(), [1, 3, 0, 2]);
        assert_eq!((queue.len(), queue.unlimited), (4, 4));
    }
}
