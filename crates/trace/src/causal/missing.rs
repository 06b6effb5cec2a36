// SPDX-License-Identifier: GPL-2.0-or-later
//! What a recording lacks, by conservation: every CPU always runs something, a task's CPU time is what the scheduler
//! accounts to it, and a CPU that receives tasks has events.
//!
//! Worked example. A is switched in at 0 and accounted 10 at 10. At 110 it is accounted another 10, though 100 have
//! passed: either the clock has jumped by 90 or A was not running for 90. The model takes them for work of A, so 90
//! are unaccounted. If B is seen on A's CPU at 110 instead, and no event tells of the switch, 100 are unseen: the model
//! leaves the CPU without a task from 10 on.
//!
//! It fails where nothing is accounted: without sched_stat_runtime, and for tasks of real-time classes, a jump of the
//! clock is work. So is a jump between a task's last account and its switch-out. A hole in which all CPUs are idle, or
//! at whose ends the same tasks ran and were not accounted, is not seen either.

use wakelab_workload::TaskIndex;

use super::{Model, OnCpu, State};
use crate::event::{Event, TaskName, What};

/// What was seen of a CPU as the target of wake-ups.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Target {
    /// It has events.
    has_events: bool,
    /// Tasks that sched_wakeup and sched_wakeup_new queued there.
    queued: u64,
    /// Tasks whose sched_waking named it twice in succession. The first one tells only where the task ran before the
    /// recording; by the second the task has run there in between.
    ran: u64,
    /// Its idle task has events.
    idle_has_events: bool,
    /// Tasks that were switched in when it idled, without an event of the switch.
    left_idle: u64,
}

impl Model {
    /// Counts the CPU time of a running task that the scheduler has not accounted to it, although it accounts now.
    pub(super) fn note_account(&mut self, index: TaskIndex, ran_ns: u64) {
        let now_ns = self.now_ns;
        let task = self.task(index);
        let accounted_ns = task.accounted_ns.replace(now_ns);
        if let State::Running { .. } = task.state
            && task.unsure.is_none()
        {
            let since_ns = accounted_ns.map_or(task.burst_since_ns, |ns| ns.max(task.burst_since_ns));
            self.explained.unaccounted_ns += now_ns.saturating_sub(since_ns).saturating_sub(ran_ns);
        }
    }

    /// Counts the time of `cpu` from its last event until its current task was switched in, or until now if there is
    /// none: another task was there before, and it is not known when it left.
    pub(super) fn note_unseen(&mut self, cpu: u32) {
        let entry = *self.cpu(cpu);
        let until_ns = match entry.on {
            OnCpu::Task(index) => self.tasks[index as usize].burst_since_ns,
            OnCpu::Idle | OnCpu::Unknown => self.now_ns,
        };
        self.explained.unseen_ns += until_ns.saturating_sub(entry.last_ns);
    }

    pub(super) fn note_events_on(&mut self, event: &Event<'_>) {
        let prev_idles = matches!(event.what, What::Switch { prev, .. } if prev.tid == 0);
        let target = &mut self.cpu(event.cpu).target;
        target.has_events = true;
        target.idle_has_events |= prev_idles || event.current.tid == Some(0);
    }

    /// Notes that a task runs on `cpu`, which idled, and that the switch has no event.
    pub(super) fn note_left_idle(&mut self, cpu: u32) {
        self.cpu(cpu).target.left_idle += 1;
    }

    /// Notes that a task was queued on `cpu`.
    pub(super) fn note_queued(&mut self, cpu: u32) {
        self.cpu(cpu).target.queued += 1;
    }

    /// Notes that a task which ran on `cpu` last is woken.
    pub(super) fn note_ran_on(&mut self, name: &TaskName<'_>, cpu: u32) {
        let Some(&index) = self.by_tid.get(&name.tid) else { return };
        if self.task(index).woken_on.replace(cpu) == Some(cpu) {
            self.cpu(cpu).target.ran += 1;
        }
    }

    /// Finds the CPUs that received tasks and have no events, and those whose idle tasks have none.
    pub(super) fn find_silent_cpus(&mut self) {
        let cpus = self.cpus.iter().zip(0..);
        let silent = cpus.filter(|(cpu, _)| cpu.target.left_idle > 0 && !cpu.target.idle_has_events);
        self.explained.silent_idle = silent.map(|(cpu, number)| (number, cpu.target.left_idle)).collect();
        let silent = self.cpus.iter().zip(0..).filter(|(cpu, _)| !cpu.target.has_events);
        let tasks = silent.map(|(cpu, number)| (number, cpu.target.queued.max(cpu.target.ran)));
        self.explained.silent_cpus = tasks.filter(|&(_, tasks)| tasks > 0).collect();
        self.explained.wakeups = self.wakes;
    }
}
