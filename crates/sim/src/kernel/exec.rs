// SPDX-License-Identifier: GPL-2.0-or-later
//! exec: the task starts a new program, of which no cache has anything yet, so moving it is cheapest now.
//!
//! Under `mainline` the kernel asks the policy where the task should continue (`WL_WAKE_EXEC`, as sched_exec() does).
//! If the policy names another CPU, the task is taken off this one (`push_ns`, the work of the stopper thread), queued
//! there, and that CPU is notified as for a wake-up. A CPU that was claimed for the task and is not used is given back.
//! Under `sched_ext` an exec never reaches select.
//!
//! Worked example: `exec_ns` 1,000, `select_ns` 100, `push_ns` 10,000, sending an interrupt 20, its flight 300,
//! handling 7, a switch 5. A task execs at 0 on CPU 0, and CPU 1 idles. It is queued there at 11,100; CPU 0 sends the
//! interrupt until 11,120 and switches to its idle task; on CPU 1 the interrupt is handled at 11,427 and the task
//! continues at 11,432.

use wakelab_policy::{EnqueueWhy, WAKE_EXEC};

use crate::engine::Engine;
use crate::hardware::cpu::Doing;
use crate::ids::{NONE, UNITS};
use crate::kernel::cpu::Todo;
use crate::observer::Observer;
use crate::time_use::TimeKind;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// Asks the policy where the current task, whose old program is gone, should continue.
    pub(crate) fn start_exec(&mut self, cpu: u32, task: u32) {
        let answer_ns = self.select(cpu, task, WAKE_EXEC, NONE);
        let decision = &self.kernel.cpus[cpu as usize].decision;
        self.ledger.tally.decision(decision, self.kernel.host.misses());
        let (chosen, claims) = (decision.cpu, decision.claimed != 0);
        self.kernel.cpus[cpu as usize].wakeup = self.accept_decision(task, WAKE_EXEC, chosen, claims);
        let cost_ns = self.costs.select_ns + answer_ns;
        self.hardware.cpus[cpu as usize].set(Doing::SelectExec, TimeKind::Select, cost_ns * UNITS);
    }

    /// The end of the decision: the task stays, or is taken off.
    pub(crate) fn finish_exec_select(&mut self, cpu: u32) {
        let wakeup = self.kernel.cpus[cpu as usize].wakeup;
        if wakeup.cpu == cpu {
            self.end_claim(&wakeup);
            self.run_pending(cpu);
        } else {
            let wait = self.lock_runqueue(cpu, wakeup.cpu);
            let c = &mut self.hardware.cpus[cpu as usize];
            c.set(Doing::Push, TimeKind::ForkExit, self.costs.push_ns * UNITS);
            c.add_tail(TimeKind::RunqueueLock, wait);
        }
    }

    /// The current task joins another CPU's queue. This CPU notifies that CPU, and needs another task.
    pub(crate) fn finish_exec_push(&mut self, cpu: u32) {
        let wakeup = self.kernel.cpus[cpu as usize].wakeup;
        let task = self.stop_current(cpu, true);
        let now_ns = self.hardware.now_ns;
        let t = &mut self.kernel.threads[task as usize];
        t.woken = false;
        t.waits_since_ns = now_ns;
        t.is_cold = true;
        self.ledger.observer.wait(now_ns, task);
        self.ledger.observer.migrate(now_ns, task, cpu, wakeup.cpu);
        let transfers_ns = self.enqueue(Some(cpu), task, wakeup.cpu, EnqueueWhy::Moved);
        self.end_claim(&wakeup);
        let c = &mut self.kernel.cpus[cpu as usize];
        c.reschedules();
        c.put_back = task;
        c.extra_switch_ns += transfers_ns;
        if let Some(Todo::Send(_)) = c.todo.front() {
            // Without a current task no interrupt is taken: run_pending() continues with the choice of a task.
            c.scheduling = true;
            self.run_pending(cpu);
        } else {
            self.start_pick(cpu);
        }
    }
}
