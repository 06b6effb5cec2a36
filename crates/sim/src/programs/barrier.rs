// SPDX-License-Identifier: GPL-2.0-or-later
//! Barriers: the last of `parties` tasks to arrive lets the others continue.
//!
//! Arriving is an update of the barrier's line (line.rs); when the update ends, the task counts as arrived. Unless it
//! is the last one, it spins for up to `spin_ns` of CPU time, then enters the kernel (`futex_ns`), looks again, and
//! sleeps. The last one begins the next round, and the barrier can be used again at once. A spinner that is running at
//! that moment continues after the line's transfer to its CPU; all of these read the line at the same time. A spinner
//! that was preempted or interrupted reads it, for the same price, when it runs again. If tasks sleep, the last one
//! enters the kernel (`futex_ns`) once and wakes them one by one, in the order in which they went to sleep.
//!
//! A barrier of a recording (`recorded`) costs no update and no `futex_ns`, because its tasks' work has both; a task
//! that sleeps there pays `sleep_ns`, and looks again after that.
//!
//! Worked example with two parties: `atomic_ps` 5,000, a transfer 100,000 ps, spinning without end. A on CPU 0 arrives
//! at 0 and counts at 5. B on CPU 1 arrives at 1,000 and counts at 1,105. B continues at once; A continues at 1,205,
//! after spinning for 1,200.

use crate::ids::NONE;
use crate::programs::Programs;
use crate::programs::next::{Here, Next, SpinEnd, Wakee};
use crate::programs::sync::leave;
use crate::programs::task::Stage;
use crate::time_use::TimeKind;

impl Programs<'_> {
    /// `spins`: the task spins as the barrier says; otherwise it sleeps at once.
    pub(super) fn barrier(&mut self, here: Here, barrier: u32, spins: bool) -> Next {
        let t = &mut self.tasks[here.task as usize];
        let b = &mut self.barriers[barrier as usize];
        match t.stage {
            Stage::Begin => {
                t.stage = Stage::Middle;
                if b.spec.recorded {
                    return Next::Continue;
                }
                let cost_ns = b.line.update_ns(here.cpu, here.now_ns, self.costs, self.distances);
                Next::run_ns(TimeKind::Atomic, cost_ns)
            }
            Stage::Middle => self.arrive(here.task, barrier, spins),
            Stage::Released if b.released.is_empty() => self.done(here.task),
            Stage::Released => {
                let recorded = b.spec.recorded;
                self.enter_futex(here.task, recorded, Stage::Wake)
            }
            Stage::Spin => {
                leave(&mut b.spinners, here.task);
                if !b.is_over(t.round) {
                    let recorded = b.spec.recorded;
                    return self.enter_futex(here.task, recorded, Stage::End);
                }
                t.stage = Stage::Taken;
                let cost_ns = b.line.read_ns(here.cpu, self.costs, self.distances);
                Next::run_ns(TimeKind::Spin, cost_ns)
            }
            Stage::End if !b.is_over(t.round) => {
                if b.spec.recorded
                    && let Some(leaving) = self.leave(here.task)
                {
                    return leaving;
                }
                self.barriers[barrier as usize].sleepers.push_back(here.task);
                self.tasks[here.task as usize].stage = Stage::Asleep;
                Next::Wait
            }
            Stage::Wake => {
                let wakees = b.released.drain(..).map(|task| Wakee::new(task, false)).collect();
                self.pass(here.task);
                Next::wake(wakees)
            }
            Stage::End | Stage::Taken | Stage::Asleep => self.done(here.task),
        }
    }

    fn arrive(&mut self, task: u32, barrier: u32, spins: bool) -> Next {
        let b = &mut self.barriers[barrier as usize];
        let t = &mut self.tasks[task as usize];
        t.round = b.round;
        b.arrived += 1;
        if b.arrived < b.spec.parties {
            if b.spec.spin_ns == 0 || !spins {
                let recorded = b.spec.recorded;
                return self.enter_futex(task, recorded, Stage::End);
            }
            b.spinners.push_back(task);
            let spin_ns = b.spec.spin_ns;
            return self.spin(task, spin_ns);
        }
        t.stage = Stage::Released;
        b.arrived = 0;
        b.taken = 0;
        b.round = b.round.wrapping_add(1);
        b.released.append(&mut b.sleepers);
        let mut ends = smallvec::SmallVec::new();
        for spinner in std::mem::take(&mut b.spinners) {
            let s = &mut self.tasks[spinner as usize];
            // A spinner that does not run reads it when it runs again.
            if s.spins_on != NONE {
                s.stage = Stage::Taken;
                let cpu = s.spins_on;
                let cost_ns = b.line.read_ns(cpu, self.costs, self.distances);
                ends.push(SpinEnd { task: spinner, cpu, kind: TimeKind::Spin, cost_ns });
            }
        }
        if ends.is_empty() { Next::Continue } else { Next::EndSpins(ends) }
    }

    /// Takes the next round of a shared loop: an update of its counter, whose end shows whether a round is left.
    pub(super) fn loop_shared(&mut self, here: Here, barrier: u32, times: u64) -> Next {
        let t = &mut self.tasks[here.task as usize];
        let b = &mut self.barriers[barrier as usize];
        if t.stage == Stage::Begin {
            t.stage = Stage::Middle;
            let cost_ns = b.shared_line.update_ns(here.cpu, here.now_ns, self.costs, self.distances);
            return Next::run_ns(TimeKind::Atomic, cost_ns);
        }
        let left = b.taken < times;
        b.taken += u64::from(left);
        t.stage = Stage::Begin;
        if left { self.begin_shared_round(here.task) } else { self.skip_loop(here.task) }
    }
}
