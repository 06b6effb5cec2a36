// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that sleep and are still in a queue, under a policy that wants it (policy/queue_delayed.h).
//!
//! Such a task is not runnable. It leaves when the policy chooses it to run (schedule.rs asks again then), or when it
//! is woken: on its CPU, without a search, like ttwu_runnable() does. A wake-up takes time, in which the CPU may choose
//! the task; the wake-up then queues it on the same CPU as it would any other.

use crate::engine::Engine;
use crate::ids::NONE;
use crate::kernel::thread::{Life, Thread};
use crate::observer::Observer;

impl Thread {
    /// The CPU in whose queue the task sleeps.
    pub(crate) fn delayed_on(&self) -> Option<u32> {
        self.delayed.then_some(self.cpu)
    }
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// The current task waits for something. Returns whether the policy wants it to stay in the queue; if not, nothing
    /// but the policy's record has changed.
    pub(crate) fn sleep_queued(&mut self, cpu: u32) -> bool {
        let task = self.kernel.cpus[cpu as usize].curr;
        let now_ns = self.clock_ns(cpu);
        let (answer, writes_ns) = self.kernel.host.sleep(&mut self.kernel.records[task as usize], now_ns);
        let c = &mut self.kernel.cpus[cpu as usize];
        c.extra_switch_ns += writes_ns;
        if answer.stay == 0 {
            return false;
        }
        self.charge_quota(cpu);
        self.kernel.cpus[cpu as usize].curr = NONE;
        self.end_run(cpu, task);
        let t = &mut self.kernel.threads[task as usize];
        t.life = Life::Blocked;
        t.delayed = true;
        self.kernel.runqueues[cpu as usize].insert(answer.key, task, t.limited);
        self.ledger.checker.delay(task, cpu);
        self.check_place(task);
        true
    }

    /// The policy chose a task that sleeps, at this place of the queue: it leaves.
    pub(crate) fn dequeue_sleeper(&mut self, cpu: u32, at: usize, task: u32) {
        let t = &mut self.kernel.threads[task as usize];
        t.delayed = false;
        let (limited, woken) = (t.limited, t.life == Life::Runnable);
        self.kernel.runqueues[cpu as usize].remove(at, limited);
        let writes_ns =
            self.kernel.host.quiescent(&mut self.kernel.records[task as usize], self.hardware.now_ns);
        self.kernel.cpus[cpu as usize].extra_switch_ns += writes_ns;
        self.ledger.checker.leave(task, cpu, woken);
        if !woken {
            self.check_place(task);
        }
        self.leave_quota(cpu, task);
    }

    /// A wake-up is about to queue the task: takes it out of the queue in which it slept, if it still did.
    pub(crate) fn take_woken_sleeper(&mut self, task: u32) {
        let t = &mut self.kernel.threads[task as usize];
        let Some(cpu) = t.delayed_on() else { return };
        t.delayed = false;
        let queue = &mut self.kernel.runqueues[cpu as usize];
        if let Some(at) = queue.position(task) {
            queue.remove(at, t.limited);
        }
        self.ledger.checker.leave(task, cpu, true);
    }
}
