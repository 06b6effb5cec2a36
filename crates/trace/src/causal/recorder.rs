// SPDX-License-Identifier: GPL-2.0-or-later
//! The tasks that recorded, which the header of `wakelab record` names. They take CPU time and wake others, but they
//! would not be there without the recording, so the model leaves them out: what they wake is woken from outside, what
//! they fork begins by itself, and what wakes them raises no signal.
//!
//! Each event costs the task that causes it time, after the moment that the event names. This stays in the task's work
//! if the replay is compared with a recording, which has a recorder, too; otherwise it is taken off there.
//!
//! It fails where the recorder delayed other tasks, because the recorded delays remain those of a machine with
//! recorder; and events differ in cost, which is measured for those of a wake-up and a switch together.

use wakelab_workload::TaskIndex;

use super::{Model, OnCpu, State};
use crate::observed::{Observations, Service};

impl Model {
    /// Whether the task of this id recorded. Ids of a container are not those of the events, so they say nothing.
    pub(super) fn is_recorder(&self, tid: u32) -> bool {
        self.ids != super::Ids::Foreign
            && self.header.as_ref().is_some_and(|header| header.recorder.contains(&tid))
    }

    /// Whether the recorded command began as the task of this id.
    pub(super) fn is_command(&self, tid: u32) -> bool {
        self.ids != super::Ids::Foreign
            && self.header.as_ref().is_some_and(|header| header.command_pid == Some(tid))
    }

    /// Notes which tasks the recording says are its service: the command and all that descend from it, tasks with the
    /// names of `--of`, and what our own exports say.
    pub(super) fn find_service(&mut self) {
        let names = self.header.as_ref().map_or(&[][..], |header| &header.service);
        for task in self.tasks.iter_mut().filter(|task| !task.is_recorder) {
            task.judged = task.of_command
                || names.iter().any(|name| task.is_called(name))
                || self.told.get(task.tid).is_some_and(|known| known.judged);
        }
    }

    pub(super) fn service(&self) -> Service {
        let names = self.header.as_ref().map(|header| header.service.clone()).unwrap_or_default();
        match (self.command_seen, names.is_empty()) {
            (false, true) => Service::Unknown,
            (command, _) => Service::Told { command, names },
        }
    }

    /// Ends the wait of a task that recorded, of which nothing else is kept; returns false for other tasks.
    pub(super) fn end_recorders_wait(&mut self, index: TaskIndex, at_ns: u64) -> bool {
        let task = self.task(index);
        if task.is_recorder {
            task.state = State::Runnable;
            task.ready_ns = task.ready_ns.max(at_ns);
        }
        task.is_recorder
    }

    /// Takes the cost of the current event off the work of the task that runs on `cpu`.
    pub(super) fn charge_recorder(&mut self, cpu: u32) {
        if let OnCpu::Task(index) = self.cpu(cpu).on
            && self.event_cost_ns > 0
        {
            let cost_ns = self.event_cost_ns;
            self.charge_kernel(index, cost_ns);
        }
    }

    /// Takes what was seen of all other tasks.
    pub(super) fn observations(&mut self) -> Observations {
        let mut observed = Observations::default();
        for task in self.tasks.iter_mut().filter(|task| !task.is_recorder) {
            let judged = task.judged;
            let (comm, of) = task.watched();
            observed.add(comm, &of, judged);
        }
        observed.sorted()
    }

    /// Returns the CPU time of all tasks but those that recorded, and the CPU time of these.
    pub(super) fn cpu_ns(&self) -> (u64, u64) {
        let sum = |recorders: bool| {
            self.tasks.iter().filter(|task| task.is_recorder == recorders).map(|task| task.cpu_ns).sum()
        };
        (sum(false), sum(true))
    }
}
