// SPDX-License-Identifier: GPL-2.0-or-later
//! Locks: one atomic update while no other task wants the lock, otherwise a spin, then a futex. A check before the run
//! (crates/workload) makes sure that a task releases what it took, once.
//!
//! Taking a lock is an update of its line (line.rs); when the update ends, the lock is found free or taken. A task that
//! finds it taken spins for up to `spin_ns` of CPU time: it occupies its CPU, slows its SMT siblings down, and
//! continues to spin after a preemption. Then it enters the kernel (`futex_ns`), looks again, and sleeps.
//!
//! Unlocking updates the line. When that ends, in this order:
//!
//! 1. With `handoff` and a sleeper, the lock passes to the first sleeper.
//! 2. Otherwise, if tasks spin, the lock passes to the longest spinner that is running now, which continues after an
//!    update of the line.
//! 3. Otherwise the lock is free. A spinner that was preempted or interrupted looks at it before it spins on.
//!
//! If tasks sleep, the unlocker enters the kernel (`futex_ns`) and wakes the first one (not sync). Without `handoff`
//! that task tries again as if it had just come, but does not spin; if another task was faster it sleeps again, in
//! front of the others. No wake-up is lost, because a task that goes to sleep checks the lock and joins the list at the
//! same moment, and each release checks the list.
//!
//! A lock of a recording (`recorded`) costs no update and no `futex_ns`, because its tasks' work has both; a task
//! that sleeps there pays `sleep_ns`, as for a message, and one that was woken in vain the way out of the kernel and
//! back (`retry_ns`). It is a mutex of three values (U. Drepper, Futexes Are
//! Tricky, 2011): a task that finds it taken marks it before it sleeps, and so does one that takes it after a sleep;
//! only the unlocking of a marked one wakes a sleeper. So a task that takes it again before the sleeper it woke is
//! there wakes no further one, and none is forgotten, because the woken one marks it.
//!
//! Worked example without spinning: `atomic_ps` 5,000, `futex_ns` 1,000, a transfer 100,000 ps. A on CPU 0 takes the
//! lock at 0, has it at 5, and works until 10,005. B on CPU 1 comes at 2,000, finds it taken at 2,105 and sleeps at
//! 3,105. A unlocks: the line is in B's CPU, so the lock is free at 10,110; at 11,110 A wakes B. If B wakes at t, it
//! has the lock at t + 105 (or at t with hand-off), unless A took it again in between.

use smallvec::smallvec;
use wakelab_workload::TIME_NS_MAX;

use crate::ids::NONE;
use crate::programs::Programs;
use crate::programs::next::{Here, Next, SpinEnd, Wakee};
use crate::programs::sync::leave;
use crate::programs::task::Stage;
use crate::time_use::TimeKind;

impl Programs<'_> {
    pub(super) fn lock(&mut self, here: Here, lock: u32) -> Next {
        let t = &mut self.tasks[here.task as usize];
        let l = &mut self.locks[lock as usize];
        match t.stage {
            Stage::Begin => {
                t.stage = Stage::Middle;
                self.update_lock_line(here, lock)
            }
            Stage::Middle if l.is_free() => {
                l.owner = here.task;
                l.marked |= t.retries;
                self.locked(here.task)
            }
            Stage::Middle => {
                let spin_ns = l.spec.spin_ns;
                if spin_ns == 0 || t.retries {
                    let (recorded, retry_ns) = (l.spec.recorded, l.spec.retry_ns);
                    if t.retries && retry_ns > 0 {
                        t.stage = Stage::End;
                        return Next::run_ns(TimeKind::Futex, retry_ns);
                    }
                    return self.enter_futex(here.task, recorded, Stage::End);
                }
                l.spinners.push_back(here.task);
                self.spin(here.task, spin_ns)
            }
            Stage::Spin => {
                leave(&mut l.spinners, here.task);
                if !l.is_free() {
                    let recorded = l.spec.recorded;
                    return self.enter_futex(here.task, recorded, Stage::End);
                }
                l.owner = here.task;
                t.stage = Stage::Taken;
                self.update_lock_line(here, lock)
            }
            Stage::Taken => self.locked(here.task),
            Stage::End if l.is_free() => {
                l.marked = true;
                t.stage = Stage::Begin;
                Next::Continue
            }
            Stage::End => {
                if l.spec.recorded
                    && let Some(leaving) = self.leave(here.task)
                {
                    return leaving;
                }
                let (t, l) = (&self.tasks[here.task as usize], &mut self.locks[lock as usize]);
                l.marked = true;
                if t.retries {
                    l.sleepers.push_front(here.task)
                } else {
                    l.sleepers.push_back(here.task)
                }
                self.tasks[here.task as usize].stage = Stage::Asleep;
                Next::Wait
            }
            _ if l.owner == here.task => self.locked(here.task),
            _ => {
                t.retries = true;
                t.stage = Stage::Begin;
                Next::Continue
            }
        }
    }

    /// The task owns the lock that it asked for.
    fn locked(&mut self, task: u32) -> Next {
        self.tasks[task as usize].retries = false;
        self.done(task)
    }

    pub(super) fn unlock(&mut self, here: Here, lock: u32) -> Next {
        match self.tasks[here.task as usize].stage {
            Stage::Begin => {
                self.tasks[here.task as usize].stage = Stage::Middle;
                self.update_lock_line(here, lock)
            }
            Stage::Middle => {
                self.tasks[here.task as usize].stage = Stage::Released;
                match self.release(here, lock) {
                    Some(end) => Next::EndSpins(smallvec![end]),
                    None => Next::Continue,
                }
            }
            Stage::Released if !self.locks[lock as usize].wakes() => self.done(here.task),
            Stage::Released => {
                let recorded = self.locks[lock as usize].spec.recorded;
                self.enter_futex(here.task, recorded, Stage::Wake)
            }
            _ => {
                let sleeper = self.locks[lock as usize].sleepers.pop_front();
                self.pass(here.task);
                Next::wake(sleeper.into_iter().map(|task| Wakee::new(task, false)).collect())
            }
        }
    }

    /// Passes the lock on, or frees it. Returns the spinner that got it.
    fn release(&mut self, here: Here, lock: u32) -> Option<SpinEnd> {
        let l = &mut self.locks[lock as usize];
        let tasks = &self.tasks;
        let runs = |&task: &u32| tasks[task as usize].spins_on != NONE;
        match l.sleepers.front() {
            Some(&first) if l.spec.handoff => {
                l.owner = first;
                None
            }
            _ => {
                let heir = l.spinners.iter().copied().find(runs);
                l.owner = heir.unwrap_or(NONE);
                let task = heir?;
                leave(&mut l.spinners, task);
                let t = &mut self.tasks[task as usize];
                t.stage = Stage::Taken;
                let cpu = t.spins_on;
                let cost_ns = l.line.update_ns(cpu, here.now_ns, self.costs, self.distances);
                Some(SpinEnd { task, cpu, kind: TimeKind::Atomic, cost_ns })
            }
        }
    }

    fn update_lock_line(&mut self, here: Here, lock: u32) -> Next {
        let l = &mut self.locks[lock as usize];
        if l.spec.recorded {
            return Next::Continue;
        }
        let cost_ns = l.line.update_ns(here.cpu, here.now_ns, self.costs, self.distances);
        Next::run_ns(TimeKind::Atomic, cost_ns)
    }

    /// Spins for up to `spin_ns`.
    pub(super) fn spin(&mut self, task: u32, spin_ns: u64) -> Next {
        self.tasks[task as usize].stage = Stage::Spin;
        Next::run_ns(TimeKind::Spin, spin_ns.min(TIME_NS_MAX))
    }

    /// The system call before sleeping or waking, which a recorded task's work has already; the stage `then` follows.
    pub(super) fn enter_futex(&mut self, task: u32, recorded: bool, then: Stage) -> Next {
        self.tasks[task as usize].stage = then;
        if recorded { Next::Continue } else { Next::run_ns(TimeKind::Futex, self.costs.futex_ns) }
    }
}
