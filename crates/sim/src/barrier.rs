// SPDX-License-Identifier: GPL-2.0-or-later
//! Barriers: the last of `parties` tasks to arrive lets the others go on.
//!
//! Arriving is an update of the barrier's line (line.rs), at the end of which the task counts. If it is not the last it
//! spins for up to `spin_ns` of CPU time, then enters the kernel (`futex_ns`), looks again, and sleeps. The last one
//! begins the next round: the barrier can be used again at once. Who executes his spin at that moment goes on after the
//! line's transfer to his CPU, which all of them read at once; who was preempted or interrupted while spinning sees it,
//! for the same price, when he runs again. If tasks sleep, the last one enters the kernel (`futex_ns`) once and wakes
//! them one by one, in the order in which they went to sleep.
//!
//! Worked example, two parties: `atomic_ps` 5,000, a transfer 100,000 ps, spinning without end. A on CPU 0 arrives at 0
//! and counts at 5. B on CPU 1 arrives at 1,000 and counts at 1,105; it goes on at once, A at 1,205, having spun for
//! 1,200.

use std::collections::VecDeque;

use wakelab_workload::Barrier as Spec;

use crate::cpu::{Kind, Todo};
use crate::engine::Engine;
use crate::line::Line;
use crate::lock::leave;
use crate::observer::Observer;
use crate::ops::Progress;
use crate::task::Stage;

pub(crate) struct Barrier {
    spec: Spec,
    line: Line,
    arrived: u32,
    /// Rounds that are over, modulo 2^32.
    round: u32,
    spinners: VecDeque<u32>,
    sleepers: VecDeque<u32>,
    /// The line of the counter that [`wakelab_workload::Op::LoopShared`] takes rounds from, and how many were taken.
    shared_line: Line,
    taken: u64,
    /// Sleepers of rounds that are over, whom the last one of their round, still in the kernel, will wake.
    released: VecDeque<u32>,
}

impl Barrier {
    pub(crate) fn new(spec: Spec) -> Barrier {
        Barrier {
            spec,
            line: Line::new(),
            arrived: 0,
            round: 0,
            spinners: VecDeque::new(),
            sleepers: VecDeque::new(),
            shared_line: Line::new(),
            taken: 0,
            released: VecDeque::new(),
        }
    }

    /// Whether the round that a task arrived in is over.
    pub(crate) fn is_over(&self, round: u32) -> bool {
        self.round != round
    }
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    pub(crate) fn barrier(&mut self, cpu: u32, task: u32, barrier: u32) -> Progress {
        let index = barrier as usize;
        match self.tasks[task as usize].stage {
            Stage::Begin => {
                self.tasks[task as usize].stage = Stage::Middle;
                let line = &mut self.barriers[index].line;
                let cost_ns = line.update_ns(cpu, self.now_ns, self.costs, &self.distances);
                self.segment(cpu, task, Kind::Atomic, cost_ns)
            }
            Stage::Middle => self.arrive(cpu, task, barrier),
            Stage::Spin => {
                leave(&mut self.barriers[index].spinners, task);
                if !self.round_is_over(task, barrier) {
                    return self.enter_futex(cpu, task, Stage::End);
                }
                self.tasks[task as usize].stage = Stage::Taken;
                let cost_ns = self.barriers[index].line.read_ns(cpu, self.costs, &self.distances);
                self.segment(cpu, task, Kind::Spin, cost_ns)
            }
            Stage::End if !self.round_is_over(task, barrier) => {
                self.barriers[index].sleepers.push_back(task);
                self.tasks[task as usize].stage = Stage::Asleep;
                self.wait(cpu)
            }
            Stage::Wake => {
                let released = self.barriers[index].released.drain(..);
                self.cpus[cpu as usize].todo.extend(released.map(|wakee| Todo::Wake(wakee, 0)));
                self.done_waking(cpu, task)
            }
            Stage::End | Stage::Taken | Stage::Asleep => self.done(task),
        }
    }

    fn arrive(&mut self, cpu: u32, task: u32, barrier: u32) -> Progress {
        let b = &mut self.barriers[barrier as usize];
        self.tasks[task as usize].round = b.round;
        b.arrived += 1;
        if b.arrived < b.spec.parties {
            if b.spec.spin_ns == 0 {
                return self.enter_futex(cpu, task, Stage::End);
            }
            b.spinners.push_back(task);
            let spin_ns = b.spec.spin_ns;
            return self.spin(cpu, task, spin_ns);
        }
        b.arrived = 0;
        b.taken = 0;
        b.round = b.round.wrapping_add(1);
        b.released.append(&mut b.sleepers);
        let (spinners, wakes) = (std::mem::take(&mut b.spinners), !b.released.is_empty());
        for spinner in spinners {
            // The others see it when they run again.
            if self.is_spinning(spinner) {
                let to = self.tasks[spinner as usize].cpu;
                let cost_ns = self.barriers[barrier as usize].line.read_ns(to, self.costs, &self.distances);
                self.end_spin(spinner, Kind::Spin, cost_ns);
            }
        }
        if !wakes {
            return self.done(task);
        }
        self.enter_futex(cpu, task, Stage::Wake)
    }

    /// Takes the next round of a shared loop: an update of its counter, at the end of which it is seen whether there is
    /// one.
    pub(crate) fn loop_shared(&mut self, cpu: u32, task: u32, barrier: u32, times: u64) -> Progress {
        let b = &mut self.barriers[barrier as usize];
        if self.tasks[task as usize].stage == Stage::Begin {
            self.tasks[task as usize].stage = Stage::Middle;
            let cost_ns = b.shared_line.update_ns(cpu, self.now_ns, self.costs, &self.distances);
            return self.segment(cpu, task, Kind::Atomic, cost_ns);
        }
        let left = b.taken < times;
        b.taken += u64::from(left);
        self.tasks[task as usize].stage = Stage::Begin;
        if left { self.begin_shared_round(task) } else { self.skip_loop(task) }
    }

    fn round_is_over(&self, task: u32, barrier: u32) -> bool {
        self.barriers[barrier as usize].is_over(self.tasks[task as usize].round)
    }
}
