// SPDX-License-Identifier: GPL-2.0-or-later
//! Bandwidth control (cpu.max) on the kernel's paths; bandwidth.rs has the books. It belongs to the host, as in Linux:
//! no policy is asked, and none sees more than that a task stops being runnable and becomes so again.
//!
//! - CPU time is charged at ticks and when a task stops. A task whose group is throttled gives way.
//! - A task of a throttled group is *parked* where it would run: when it is put back, when it would be queued, or when
//!   it is chosen from the queue (as since Linux 6.18, where each task is taken out when it would return to its
//!   program). The policy is told that it is not runnable.
//! - When the group is no longer throttled, the CPU of the period's timer queues its parked tasks again, in the order
//!   in which they were parked, as wake-ups on the CPU on which they were. A timer that releases nobody costs nothing
//!   here; in the kernel it is an interrupt.
//! - Balancing leaves tasks of throttled groups where they are.
//!
//! Under the profile `sched_ext` there is no bandwidth control: the kernel's own is that of the fair class, and a
//! scheduler of sched_ext limits groups only if it does so itself.
//!
//! Latencies and queue delays contain the time that a task was parked, because no recording tells it apart.
//!
//! Workloads without quotas pay for a look at `bandwidth` on each path, which is inlined; all else is kept out of line.

use wakelab_policy::EnqueueWhy;

use crate::engine::Engine;
use crate::hardware::cpu::Doing;
use crate::ids::UNITS;
use crate::kernel::bandwidth::Released;
use crate::observer::Observer;
use crate::time_use::TimeKind;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// Charges the current task's CPU time since the last call. Returns whether its group is throttled here now.
    #[inline(always)]
    pub(crate) fn charge_quota(&mut self, cpu: u32) -> bool {
        self.kernel.bandwidth.is_some() && self.charge_limited(cpu)
    }

    #[cold]
    #[inline(never)]
    fn charge_limited(&mut self, cpu: u32) -> bool {
        let (now_ns, clock_ns) = (self.hardware.now_ns, self.clock_ns(cpu));
        let Some(bandwidth) = &mut self.kernel.bandwidth else { return false };
        let curr = self.kernel.cpus[cpu as usize].curr;
        let thread = &mut self.kernel.threads[curr as usize];
        let ran_ns = clock_ns - std::mem::replace(&mut thread.charged_ns, clock_ns);
        let Some(group) = thread.group else { return false };
        let is_throttled = bandwidth.charge(group, cpu, ran_ns, now_ns);
        self.arm_quota_timer();
        is_throttled
    }

    /// Whether a task must be parked instead of waiting on `cpu`.
    #[inline(always)]
    pub(crate) fn quota_holds(&mut self, cpu: u32, task: u32) -> bool {
        self.kernel.bandwidth.is_some() && self.holds_limited(cpu, task)
    }

    #[cold]
    #[inline(never)]
    fn holds_limited(&mut self, cpu: u32, task: u32) -> bool {
        let Some(bandwidth) = &mut self.kernel.bandwidth else { return false };
        let Some(group) = self.kernel.threads[task as usize].group else { return false };
        let holds = !bandwidth.admit(group, cpu, self.hardware.now_ns);
        self.arm_quota_timer();
        holds
    }

    /// Whether balancing must leave a task on `from`.
    #[inline(always)]
    pub(crate) fn quota_keeps(&self, task: u32, from: u32, to: u32) -> bool {
        self.kernel.bandwidth.is_some() && self.keeps_limited(task, from, to)
    }

    #[cold]
    #[inline(never)]
    fn keeps_limited(&self, task: u32, from: u32, to: u32) -> bool {
        let Some(bandwidth) = &self.kernel.bandwidth else { return false };
        let group = self.kernel.threads[task as usize].group;
        group.is_some_and(|group| bandwidth.is_throttled(group, from) || bandwidth.is_throttled(group, to))
    }

    /// Parks a task that is in no queue of the host. Returns the nanoseconds that the policy's writes waited.
    #[cold]
    #[inline(never)]
    pub(crate) fn park(&mut self, cpu: u32, task: u32) -> u64 {
        let record = &mut self.kernel.records[task as usize];
        let writes_ns = self.kernel.host.quiescent(record, self.hardware.now_ns);
        self.kernel.cpus[cpu as usize].parked.push(task);
        self.ledger.checker.park(task);
        self.ledger.observer.park(self.hardware.now_ns, cpu, task);
        self.check_place(task);
        self.leave_quota(cpu, task);
        writes_ns
    }

    /// Parks a task of the queue of `cpu`, at this place.
    #[cold]
    #[inline(never)]
    pub(crate) fn park_queued(&mut self, cpu: u32, at: usize, task: u32) {
        self.dequeue(cpu, at, task);
        let writes_ns = self.park(cpu, task);
        self.kernel.cpus[cpu as usize].extra_switch_ns += writes_ns;
    }

    /// A task has left `cpu`: if it was the last of its group there, what the CPU has goes back to the pool.
    #[inline(always)]
    pub(crate) fn leave_quota(&mut self, cpu: u32, task: u32) {
        if self.kernel.bandwidth.is_some() {
            self.leave_limited(cpu, task);
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_limited(&mut self, cpu: u32, task: u32) {
        let Some(bandwidth) = &mut self.kernel.bandwidth else { return };
        let Some(group) = self.kernel.threads[task as usize].group else { return };
        let (threads, groups) = (&self.kernel.threads, &self.workload.groups);
        let queue = &self.kernel.runqueues[cpu as usize];
        let is_in = |task: u32, group: u32| {
            std::iter::successors(threads[task as usize].group, |&at| groups[at as usize].parent)
                .any(|at| at == group)
        };
        let is_empty = |group| !queue.iter().any(|task| is_in(task, group));
        bandwidth.leave(group, cpu, self.hardware.now_ns, is_empty);
        self.arm_quota_timer();
    }

    fn arm_quota_timer(&mut self) {
        let next_ns = self.kernel.bandwidth.as_ref().and_then(|bandwidth| bandwidth.next_ns());
        self.hardware.queue.set_quota_timer(next_ns);
    }

    /// The timer of a period, or of what was given back, fires.
    #[cold]
    #[inline(never)]
    pub(crate) fn raise_quota_timer(&mut self) {
        let Some(bandwidth) = &mut self.kernel.bandwidth else { return };
        for Released { cpu, by } in bandwidth.expire(self.hardware.now_ns) {
            self.kernel.cpus[by as usize].released.push(cpu);
        }
        self.arm_quota_timer();
        for cpu in 0..self.kernel.cpus.len() as u32 {
            if !self.kernel.cpus[cpu as usize].released.is_empty() {
                self.interrupt(cpu);
            }
        }
    }

    /// Begins to handle the timer's interrupt.
    #[cold]
    #[inline(never)]
    pub(crate) fn start_quota_interrupt(&mut self, cpu: u32) {
        let c = &mut self.hardware.cpus[cpu as usize];
        c.set(Doing::QuotaTimer, TimeKind::Interrupt, self.costs.interrupt_ns * UNITS);
    }

    /// The timer's interrupt has been handled: tasks that may run again are queued.
    #[cold]
    #[inline(never)]
    pub(crate) fn finish_quota_interrupt(&mut self, by: u32) {
        let mut transfers_ns = 0;
        for cpu in std::mem::take(&mut self.kernel.cpus[by as usize].released) {
            for task in std::mem::take(&mut self.kernel.cpus[cpu as usize].parked) {
                if self.quota_holds(cpu, task) {
                    self.kernel.cpus[cpu as usize].parked.push(task);
                    continue;
                }
                self.ledger.checker.wake(task);
                transfers_ns += self.join_queue(Some(by), task, cpu, EnqueueWhy::Wakeup).1;
            }
        }
        self.hardware.cpus[by as usize].set(Doing::Kernel, TimeKind::Wakeup, transfers_ns * UNITS);
    }
}
