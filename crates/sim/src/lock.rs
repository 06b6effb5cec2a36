// SPDX-License-Identifier: GPL-2.0-or-later
//! Locks: an atomic while nobody else wants it, else a spin, then a futex. That a task gives back what it took, once,
//! is checked before a run (crates/workload).
//!
//! Taking a lock is an update of its line (line.rs), at the end of which the lock is found free or taken. Who finds it
//! taken spins for up to `spin_ns` of CPU time: it occupies its CPU, slows its SMT siblings down, and spins on after a
//! preemption. Then it enters the kernel (`futex_ns`), looks again, and sleeps.
//!
//! Unlocking updates the line. At its end, in this order:
//!
//! 1. With `handoff` and a sleeper, the lock is the first sleeper's from now on.
//! 2. Else, if tasks spin, it is his who has spun longest among those that execute their spin just now: he goes on
//!    after an update of the line.
//! 3. Else it is free. A spinner that was preempted or interrupted looks at it before it spins on.
//!
//! If tasks sleep, the unlocker enters the kernel (`futex_ns`) and wakes the first (not sync). Without `handoff` that
//! one tries again as if it came anew, but does not spin; if somebody else was faster it sleeps again, in front of the
//! others. A wake-up cannot be lost: who goes to sleep looks at the lock and joins the list at the same moment, and
//! each release looks at the list.
//!
//! Worked example, without spinning: `atomic_ps` 5,000, `futex_ns` 1,000, a transfer 100,000 ps. A on CPU 0 takes the
//! lock at 0 and has it at 5; works until 10,005. B on CPU 1 comes at 2,000, finds it taken at 2,105 and sleeps at
//! 3,105. A unlocks: the line is B's CPU's, so the lock is free at 10,110; at 11,110 A wakes B. Woken at t, B has it at
//! t + 105 (or at t, by hand-off), unless A took it again in between.

use std::collections::VecDeque;

use wakelab_workload::{Lock as Spec, TIME_NS_MAX};

use crate::cpu::{Doing, Kind, NONE, UNITS};
use crate::engine::Engine;
use crate::line::Line;
use crate::observer::Observer;
use crate::ops::Progress;
use crate::task::Stage;

pub(crate) struct Lock {
    spec: Spec,
    line: Line,
    /// The task that has it, or `NONE`.
    owner: u32,
    /// In the order in which they began, whether they execute or not.
    spinners: VecDeque<u32>,
    /// In the order in which they will be woken.
    sleepers: VecDeque<u32>,
}

impl Lock {
    pub(crate) fn new(spec: Spec) -> Lock {
        Lock { spec, line: Line::new(), owner: NONE, spinners: VecDeque::new(), sleepers: VecDeque::new() }
    }

    pub(crate) fn is_free(&self) -> bool {
        self.owner == NONE
    }
}

/// Takes a task out of a list that it is in, most likely in front.
pub(crate) fn leave(list: &mut VecDeque<u32>, task: u32) {
    if let Some(at) = list.iter().position(|&other| other == task) {
        list.remove(at);
    }
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    pub(crate) fn lock(&mut self, cpu: u32, task: u32, lock: u32) -> Progress {
        let index = lock as usize;
        match self.tasks[task as usize].stage {
            Stage::Begin => {
                self.tasks[task as usize].stage = Stage::Middle;
                let cost_ns = self.lock_line_ns(cpu, lock);
                self.segment(cpu, task, Kind::Atomic, cost_ns)
            }
            Stage::Middle if self.locks[index].is_free() => {
                self.locks[index].owner = task;
                self.locked(task)
            }
            Stage::Middle => {
                let spin_ns = self.locks[index].spec.spin_ns;
                if spin_ns == 0 || self.tasks[task as usize].retries {
                    return self.enter_futex(cpu, task, Stage::End);
                }
                self.locks[index].spinners.push_back(task);
                self.spin(cpu, task, spin_ns)
            }
            Stage::Spin => {
                leave(&mut self.locks[index].spinners, task);
                if !self.locks[index].is_free() {
                    return self.enter_futex(cpu, task, Stage::End);
                }
                self.locks[index].owner = task;
                self.tasks[task as usize].stage = Stage::Taken;
                let cost_ns = self.lock_line_ns(cpu, lock);
                self.segment(cpu, task, Kind::Atomic, cost_ns)
            }
            Stage::Taken => self.locked(task),
            Stage::End if self.locks[index].is_free() => {
                self.tasks[task as usize].stage = Stage::Begin;
                Progress::Continue
            }
            Stage::End => {
                let t = &mut self.tasks[task as usize];
                let sleepers = &mut self.locks[index].sleepers;
                if t.retries {
                    sleepers.push_front(task)
                } else {
                    sleepers.push_back(task)
                }
                t.stage = Stage::Asleep;
                self.wait(cpu)
            }
            _ if self.locks[index].owner == task => self.locked(task),
            _ => {
                let t = &mut self.tasks[task as usize];
                t.retries = true;
                t.stage = Stage::Begin;
                Progress::Continue
            }
        }
    }

    /// The task owns the lock that it asked for.
    fn locked(&mut self, task: u32) -> Progress {
        self.tasks[task as usize].retries = false;
        self.done(task)
    }

    pub(crate) fn unlock(&mut self, cpu: u32, task: u32, lock: u32) -> Progress {
        let index = lock as usize;
        match self.tasks[task as usize].stage {
            Stage::Begin => {
                self.tasks[task as usize].stage = Stage::Middle;
                let cost_ns = self.lock_line_ns(cpu, lock);
                self.segment(cpu, task, Kind::Atomic, cost_ns)
            }
            Stage::Middle => {
                self.release(lock);
                if self.locks[index].sleepers.is_empty() {
                    return self.done(task);
                }
                self.enter_futex(cpu, task, Stage::Wake)
            }
            _ => {
                let sleeper = self.locks[index].sleepers.pop_front();
                self.will_wake(cpu, sleeper, false);
                self.done_waking(cpu, task)
            }
        }
    }

    /// The lock changes hands, or is free.
    fn release(&mut self, lock: u32) {
        let l = &self.locks[lock as usize];
        let heir = match l.sleepers.front() {
            Some(&first) if l.spec.handoff => first,
            _ => l.spinners.iter().copied().find(|&task| self.is_spinning(task)).unwrap_or(NONE),
        };
        self.locks[lock as usize].owner = heir;
        if heir != NONE && self.tasks[heir as usize].stage == Stage::Spin {
            leave(&mut self.locks[lock as usize].spinners, heir);
            let cost_ns = self.lock_line_ns(self.tasks[heir as usize].cpu, lock);
            self.end_spin(heir, Kind::Atomic, cost_ns);
        }
    }

    fn lock_line_ns(&mut self, cpu: u32, lock: u32) -> u64 {
        self.locks[lock as usize].line.update_ns(cpu, self.now_ns, self.costs, &self.distances)
    }

    /// Spins for up to `spin_ns`.
    pub(crate) fn spin(&mut self, cpu: u32, task: u32, spin_ns: u64) -> Progress {
        self.tasks[task as usize].stage = Stage::Spin;
        self.segment(cpu, task, Kind::Spin, spin_ns.min(TIME_NS_MAX))
    }

    /// The system call that comes before sleeping or waking, which is the stage `then`.
    pub(crate) fn enter_futex(&mut self, cpu: u32, task: u32, then: Stage) -> Progress {
        self.tasks[task as usize].stage = then;
        self.segment(cpu, task, Kind::Futex, self.costs.futex_ns)
    }

    /// Whether the task, which waits in a list of spinners, executes its spin at this moment.
    pub(crate) fn is_spinning(&self, task: u32) -> bool {
        let c = &self.cpus[self.tasks[task as usize].cpu as usize];
        c.curr == task && c.doing == Doing::Task && c.kind == Kind::Spin
    }

    /// What a task that executes its spin waited for has come: it goes on after `cost_ns`.
    pub(crate) fn end_spin(&mut self, task: u32, kind: Kind, cost_ns: u64) {
        let cpu = self.tasks[task as usize].cpu;
        self.settle(cpu);
        let t = &mut self.tasks[task as usize];
        t.stage = Stage::Taken;
        t.kind = kind;
        t.remaining = cost_ns * UNITS;
        self.cpus[cpu as usize].set(Doing::Task, kind, cost_ns * UNITS);
        self.arm(cpu);
    }
}
