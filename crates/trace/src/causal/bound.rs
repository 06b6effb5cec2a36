// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that may run on one CPU only (`taskset -c 0 COMMAND`), where a recording does not tell the CPUs of its tasks.
//!
//! A task that may run anywhere does not wait on its busy CPU for long while another one idles: its wake-up looks for
//! an idle CPU, and idle CPUs pull tasks that wait. So a task is bound to its last CPU if it became runnable there,
//! with another task on that CPU and an idle CPU elsewhere, and stayed: [`STAYED_MIN`] times since it came there, and
//! as often for each time that it moved before (`taskset` moves itself first). One such task alone, and one whose name
//! others have that ran elsewhere, may have stayed by chance. What a bound task forks is bound, too, unless it ran
//! elsewhere.
//!
//! Worked example: `taskset -c 0 perf bench sched pipe` on two CPUs. Each of its two tasks is woken 16,000 times on
//! CPU 0, where the other one runs, while CPU 1 idles. Both are bound to CPU 0.
//!
//! It fails where a kernel leaves wakees on their CPU (`sched_vcpu_pack`), or where the idle CPUs are far away: there
//! it binds what merely stayed. A replay on the same CPUs is as recorded then; `--cpus` lifts it for others.

use std::collections::{BTreeMap, BTreeSet};

use wakelab_workload::TaskIndex;

use super::{Model, OnCpu};
use crate::program::{RanOn, Tracked};

/// A task that stayed less often may have done so by chance.
const STAYED_MIN: u32 = 20;

impl Model {
    /// Notes that a task is woken whose CPU is this one.
    pub(super) fn note_woken_on(&mut self, cpu: u32, index: TaskIndex) {
        let is_busy = |on: OnCpu| matches!(on, OnCpu::Task(current) if current != index);
        if self.cpus.get(cpu as usize).is_some_and(|cpu| is_busy(cpu.on)) {
            self.note_waits(index);
        }
    }

    /// Notes that a task has to wait for its CPU, which has another one to run: whether another CPU idles.
    pub(super) fn note_waits(&mut self, index: TaskIndex) {
        // Where tasks may run is told elsewhere in those recordings, and a machine may have hundreds of CPUs.
        if !self.is_recorded() {
            self.task(index).beside_idle = self.cpus.iter().any(|cpu| cpu.on == OnCpu::Idle);
        }
    }

    /// Binds tasks to the CPU where they stayed, if the recording tells of no task where it may run.
    pub(super) fn bind_stayers(&mut self) {
        if self.told.any() || self.is_recorded() {
            return;
        }
        let stays: Vec<Option<u32>> = self.tasks.iter().map(Tracked::stays).collect();
        let ran_often = |task: &&Tracked| task.watched.observed.switches >= u64::from(STAYED_MIN);
        let free = self.tasks.iter().zip(&stays).filter(|(_, stays)| stays.is_none()).map(|(task, _)| task);
        let elsewhere: BTreeSet<String> = free.filter(ran_often).map(|task| task.name.clone()).collect();
        let stays = |index: usize, task: &Tracked| stays[index].filter(|_| !elsewhere.contains(&task.name));
        let mut on: BTreeMap<u32, u32> = BTreeMap::new();
        for cpu in self.tasks.iter().enumerate().filter_map(|(index, task)| stays(index, task)) {
            *on.entry(cpu).or_default() += 1;
        }
        // A parent comes before its children.
        for index in 0..self.tasks.len() {
            let task = &self.tasks[index];
            let of_parent = task.parent.and_then(|parent| self.tasks[parent as usize].stays_on);
            let of_parent = of_parent.filter(|&cpu| task.ran_on == RanOn::One(cpu));
            let own = stays(index, task).filter(|cpu| on[cpu] > 1);
            if let Some(cpu) = own.or(of_parent) {
                self.explained.bound_tasks += u64::from(!task.is_recorder);
                self.tasks[index].stays_on = Some(cpu);
            }
        }
    }
}

impl Tracked {
    /// The CPU where it stayed as often as a bound task does.
    fn stays(&self) -> Option<u32> {
        let moves = u32::try_from(self.watched.observed.migrations).unwrap_or(u32::MAX);
        self.runs_on.filter(|_| self.stayed >= STAYED_MIN.saturating_mul(moves.saturating_add(1)))
    }
}
