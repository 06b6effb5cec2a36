// SPDX-License-Identifier: GPL-2.0-or-later
//! exec: a new program, of which nothing is in any cache yet, so that moving the task costs least now.
//!
//! Under `mainline` the policy is asked where the task should go on (`WL_WAKE_EXEC`, as sched_exec() does). If it names
//! another CPU, the task is taken off this one (`push_ns`, the work of the stopper thread), queued there, and that CPU
//! is notified as for a wake-up. A CPU that was claimed for it is given back if it is not used. Under `sched_ext` an
//! exec never reaches select.
//!
//! Worked example: `exec_ns` 1,000, `select_ns` 100, `push_ns` 10,000, sending an interrupt 20, its flight 300,
//! handling 7, a switch 5. A task execs at 0 on CPU 0, and CPU 1 idles. It is queued there at 11,100; CPU 0 sends the
//! interrupt until 11,120 and switches to its idle task; on CPU 1 the interrupt is handled at 11,427 and the task goes
//! on at 11,432.

use wakelab_policy::{EnqueueWhy, WAKE_EXEC};

use crate::cpu::{Doing, Kind, NONE, Todo, UNITS};
use crate::engine::Engine;
use crate::observer::Observer;
use crate::ops::Progress;
use crate::task::Stage;

impl<O: Observer + ?Sized> Engine<'_, O> {
    pub(crate) fn exec(&mut self, cpu: u32, task: u32) -> Progress {
        if self.tasks[task as usize].stage == Stage::Begin {
            self.tasks[task as usize].stage = Stage::Middle;
            return self.segment(cpu, task, Kind::ForkExit, self.costs.exec_ns);
        }
        self.done(task);
        if !self.host.places_exec() {
            return Progress::Continue;
        }
        let decision = self.decide(cpu, task, WAKE_EXEC, NONE);
        let wakeup = self.wakeup_to(task, WAKE_EXEC, &decision);
        let cost_ns = self.costs.select_ns + self.transfers_ns() + self.updates_ns(cpu);
        let c = &mut self.cpus[cpu as usize];
        c.wakeup = wakeup;
        c.set(Doing::SelectExec, Kind::Select, cost_ns * UNITS);
        Progress::Set
    }

    /// The end of the placement: the task stays, or is taken away.
    pub(crate) fn exec_placed(&mut self, cpu: u32) {
        let wakeup = self.cpus[cpu as usize].wakeup;
        if wakeup.cpu == cpu {
            self.end_claim(&wakeup);
            self.next(cpu);
        } else {
            let wait = self.lock_runqueue(cpu, wakeup.cpu);
            let c = &mut self.cpus[cpu as usize];
            c.set(Doing::Push, Kind::ForkExit, self.costs.push_ns * UNITS);
            c.add_tail(Kind::RunqueueLock, wait);
        }
    }

    /// The current task is queued elsewhere; this CPU notifies the other, and needs another task.
    pub(crate) fn pushed(&mut self, cpu: u32) {
        let wakeup = self.cpus[cpu as usize].wakeup;
        let task = self.stop_current(cpu, true);
        let t = &mut self.tasks[task as usize];
        t.woken = false;
        t.waits_since_ns = self.now_ns;
        t.is_cold = true;
        self.observer.migrate(self.now_ns, task, cpu, wakeup.cpu);
        let transfers_ns = self.enqueue(Some(cpu), task, wakeup.cpu, EnqueueWhy::Moved);
        self.end_claim(&wakeup);
        let c = &mut self.cpus[cpu as usize];
        c.need_resched = false;
        c.put_back = task;
        c.extra_switch_ns += transfers_ns;
        if let Some(Todo::Send(_)) = c.todo.front() {
            // With nothing current no interrupt is taken: next() goes on with choose().
            c.scheduling = true;
            self.next(cpu);
        } else {
            self.choose(cpu);
        }
    }
}
