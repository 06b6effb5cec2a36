// SPDX-License-Identifier: GPL-2.0-or-later
//! A CPU's runqueue: the tasks that wait there, ordered by (key, arrival), and its lock. The policy makes the keys.
//!
//! The order is a ring: taking the head is O(1), and inserting moves the shorter side. Queues are short, and most tasks
//! join near the end.
//!
//! **The lock.** A CPU that queues a task on CPU x (the wake-up proper), picks what x runs next (schedule()), or pulls
//! from x holds x's lock for `runqueue_lock_ns`, from the moment at which it asks or, if the lock is held then, from
//! the moment at which it becomes free. The hold is part of work that is paid for anyway (`wakeup_ns`, `switch_*_ns`,
//! `balance_ns` contain it). The wait is not part of it: it is paid for in addition, as the time of a spinning CPU. The
//! lock's own line moves from CPU to CPU as well; that is the read or write of the runqueue's state that the policy
//! names (prices.rs), and is not paid for twice.
//!
//! A lock is a reservation: the time from which it is free. Requests come in the order of simulated time, so each waits
//! for exactly those before it, first come, first served, as at a queued spinlock. A CPU does not wait for itself,
//! because it released the lock before it asked again.
//!
//! Worked example with a hold of 100 ns: CPUs 0, 1 and 2 queue a task on CPU 9 at 1,000, 1,030 and 1,200 ns. CPU 0 gets
//! the lock at once and has it until 1,100; CPU 1 waits for 70 ns and has it until 1,200; CPU 2 finds it free.

use std::collections::VecDeque;

/// A runqueue's lock.
#[derive(Default)]
pub(crate) struct Lock {
    /// When it is free for the CPU that asks next.
    free_ns: u64,
    /// The CPU that holds it until then.
    cpu: u32,
}

impl Lock {
    /// `cpu` takes the lock at `now_ns` and holds it for `hold_ns`. Returns the nanoseconds that it waits.
    pub(crate) fn take(&mut self, cpu: u32, now_ns: u64, hold_ns: u64) -> u64 {
        let begin_ns = if self.cpu == cpu { now_ns } else { now_ns.max(self.free_ns) };
        self.free_ns = self.free_ns.max(begin_ns + hold_ns);
        self.cpu = cpu;
        begin_ns - now_ns
    }
}

/// A task that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) key: u64,
    pub(crate) task: u32,
}

#[derive(Default)]
#[repr(align(64))]
pub(crate) struct RunQueue {
    queued: VecDeque<Queued>,
    /// The number of them that may run anywhere; the others have an affinity mask.
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

    /// Adds a task after those of the same key. `limited`: it has an affinity mask.
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

    /// As [`RunQueue::get`], with the key.
    pub(crate) fn entry(&self, at: usize) -> Option<Queued> {
        self.queued.get(at).copied()
    }

    /// The position of a task.
    pub(crate) fn position(&self, task: u32) -> Option<usize> {
        self.iter().position(|other| other == task)
    }

    /// Takes out the task at this position; `limited`: it has an affinity mask.
    pub(crate) fn remove(&mut self, at: usize, limited: bool) {
        // Nearly always the first.
        let removed = if at == 0 { self.queued.pop_front() } else { self.queued.remove(at) };
        if removed.is_some() {
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

    /// The worked example above.
    #[test]
    fn a_lock_is_taken_in_turn() {
        let mut lock = Lock { cpu: 8, ..Lock::default() };
        assert_eq!(lock.take(0, 1_000, 100), 0);
        assert_eq!(lock.take(1, 1_030, 100), 70);
        assert_eq!(lock.take(2, 1_200, 100), 0);
        assert_eq!(lock.take(2, 1_210, 100), 0, "a CPU does not wait for itself");
    }

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
