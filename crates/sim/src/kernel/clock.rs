// SPDX-License-Identifier: GPL-2.0-or-later
//! The clock of a runqueue, by which schedule() charges tasks.
//!
//! Under `mainline`, schedule() does not read the clock again after a wake-up that made its CPU reschedule: the wake-up
//! has just read it (rq_clock_skip_update() in wakeup_preempt(), kernel/sched/core.c; check_preempt_curr() before Linux
//! 6.8). So from the wake-up on, the CPU's time is the next task's: also what the waker does until its system call
//! ends, and the interrupt's way to another CPU. sched_yield does the same. What reads the clock in between moves it:
//! another task that is queued there, a tick, a change of group; and an idle CPU that comes out of its idle state,
//! because it queues the task itself since Linux 5.8. (Before, that way out was the task's, too, if its waker shared an
//! LLC with the CPU; not here.)
//!
//! When a task goes to sleep, schedule() reads the clock and charges it. What follows, the way off the queue and the
//! look for another task (`dequeue_ns`), is the next task's, unless it comes from elsewhere.
//!
//! Worked example: A wakes B at 100, which shall preempt it. A's system call ends at 107; B is switched in then, and
//! sleeps at 120. A is charged until 100, and B for 20. The wake-up's rest (`wakeup_exit_ns`) is in the 7, too.
//!
//! Two tasks that send each other messages on one CPU share it by these charges. With those of the switches, replays of
//! truth/redis.sh took turns for each request, where the kernel often lets the client send all of its requests first,
//! because the server has been charged for more than its share.

use wakelab_policy::EnqueueWhy;

use crate::engine::Engine;
use crate::kernel::cpu::READ_AGAIN;
use crate::observer::Observer;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// Returns the time until which schedule() charges the current task of a CPU, and from which it charges the next.
    #[inline(always)]
    pub(crate) fn clock_ns(&self, cpu: u32) -> u64 {
        self.hardware.now_ns.min(self.kernel.cpus[cpu as usize].clock_ns)
    }

    /// The CPU's task was charged because it goes to sleep: the next one of its queue is charged from there.
    pub(crate) fn keep_clock(&mut self, cpu: u32) {
        let c = &mut self.kernel.cpus[cpu as usize];
        let has_next = !self.kernel.runqueues[cpu as usize].is_empty();
        if has_next && c.clock_ns == READ_AGAIN && self.kernel.profile.skips_clock() {
            c.clock_ns = self.hardware.now_ns;
        }
    }

    /// A task was queued on the CPU: if the CPU is to reschedule because of that, it does not read the clock again.
    #[inline(always)]
    pub(crate) fn skip_clock(&mut self, cpu: u32, why: EnqueueWhy) {
        let c = &mut self.kernel.cpus[cpu as usize];
        let is_arrival = why != EnqueueWhy::SliceEnd;
        if is_arrival && c.need_resched && self.kernel.profile.skips_clock() {
            c.clock_ns = self.hardware.now_ns;
        }
    }
}
