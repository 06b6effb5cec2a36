// SPDX-License-Identifier: GPL-2.0-or-later
//! Runqueue locks, and how long CPUs wait for each other at them.
//!
//! Whoever queues a task on CPU x (the wake-up proper), picks what x runs next (schedule()), or pulls from x holds x's
//! lock for `runqueue_lock_ns` from the moment at which it asks or, if the lock is held then, from when it is free. The
//! hold is part of work that is paid anyway (`wakeup_ns`, `switch_*_ns`, `balance_ns` contain it); the wait is not, and
//! is paid on top, as a spinning CPU's time. The lock's own line moves from CPU to CPU as well: that is the read or
//! write of the runqueue's state that the policy names (transfers.rs), and is not paid twice.
//!
//! A lock is a reservation: the time from which it is free. Requests come in the order of simulated time, so each waits
//! for exactly those before it, first come, first served, as at a queued spinlock. A CPU does not wait for itself: it
//! was done with the lock before it asked again.
//!
//! Worked example, 100 ns a hold: CPUs 0, 1 and 2 queue a task on CPU 9 at 1,000, 1,030 and 1,200 ns. CPU 0 has the
//! lock at once, until 1,100; CPU 1 waits 70 ns and has it until 1,200; CPU 2 finds it free.

use crate::engine::Engine;
use crate::observer::Observer;

/// A runqueue's lock.
#[derive(Default)]
pub(crate) struct Lock {
    /// When it is free for who asks next.
    free_ns: u64,
    /// Who has it until then.
    cpu: u32,
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// `cpu` takes the lock of `target`'s runqueue. Answers the work that the CPU spins away meanwhile, in 1/1024 ns.
    pub(crate) fn lock_runqueue(&mut self, cpu: u32, target: u32) -> u64 {
        let lock = &mut self.runqueues[target as usize].lock;
        let begin_ns = if lock.cpu == cpu { self.now_ns } else { self.now_ns.max(lock.free_ns) };
        lock.free_ns = lock.free_ns.max(begin_ns + self.costs.runqueue_lock_ns);
        lock.cpu = cpu;
        let wait_ns = begin_ns - self.now_ns;
        if wait_ns == 0 { 0 } else { wait_ns * u64::from(self.speed(cpu)) }
    }
}
