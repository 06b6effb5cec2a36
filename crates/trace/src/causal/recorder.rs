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

use std::collections::BTreeMap;

use wakelab_workload::TaskIndex;

use super::{Cost, Model, OnCpu, State};
use crate::TraceError;
use crate::event::{Event, What};
use crate::kernel::is_kernel_thread;
use crate::observed::{Observations, RECORDERS, SMALL_PER_MILLE, Service};
use crate::program::Tracked;

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

    /// Marks the tasks of the service: those called `names`, or in a control group of that path; if there are no names,
    /// those that the recording says are
    /// its service (the command and all that descend from it, tasks with the names of `record --of`, and what our own
    /// exports say); if it says nothing, those that [`Service::Unknown`] describes.
    ///
    /// # Errors
    /// One of `names` fits no task.
    pub(super) fn mark_service(&mut self, file: &str, names: &[String]) -> Result<Service, TraceError> {
        if let Some(unused) = names.iter().find(|name| !self.tasks.iter().any(|task| self.fits(task, name))) {
            return Err(TraceError::NoSuchTask { file: file.to_owned(), pattern: unused.clone() });
        }
        let of_header = self.header.as_ref().map(|header| header.service.clone()).unwrap_or_default();
        let command = self.command_seen && names.is_empty();
        let names = if names.is_empty() { of_header } else { names.to_vec() };
        for index in 0..self.tasks.len() {
            let task = &self.tasks[index];
            let judged = command && task.of_command
                || names.iter().any(|name| self.fits(task, name))
                || names.is_empty() && self.told.get(task.tid).is_some_and(|known| known.judged);
            let judged = judged && !task.is_recorder;
            let awaited = names.is_empty() && self.told.get(task.tid).is_some_and(|known| known.awaited);
            (self.tasks[index].judged, self.tasks[index].awaited) = (judged, awaited);
        }
        if self.command_seen {
            self.await_command();
        }
        if command || !names.is_empty() {
            return Ok(Service::Told { command, names });
        }
        if !self.tasks.iter().any(|task| task.judged) {
            self.judge_large();
        }
        Ok(Service::Unknown)
    }

    /// Marks the tasks that tell when the service is done, as [`Service::Told`] describes.
    fn await_command(&mut self) {
        let of_service = || self.tasks.iter().filter(|task| task.judged);
        let sum_ns: u64 = of_service().map(|task| task.cpu_ns).sum();
        let command_ns: u64 = of_service().filter(|task| task.of_command).map(|task| task.cpu_ns).sum();
        if command_ns > 0 && u128::from(command_ns) * 1000 >= u128::from(sum_ns) * SMALL_PER_MILLE {
            self.tasks.iter_mut().for_each(|task| task.awaited = task.judged && task.of_command);
        }
    }

    /// Whether a task has a name, or is in the control group of a path.
    fn fits(&self, task: &Tracked, name: &str) -> bool {
        task.is_called(name)
            || name.starts_with('/')
                && [task.first_group, task.group].iter().any(|group| self.groups.is_inside(*group, name))
    }

    /// Marks the tasks that [`Service::Unknown`] describes.
    fn judge_large(&mut self) {
        let knows_recorder = self.header.as_ref().is_some_and(|header| !header.recorder.is_empty());
        let is_user = |name: &str| !is_kernel_thread(name) && (knows_recorder || !RECORDERS.contains(&name));
        let mut cpu_ns: BTreeMap<&str, u64> = BTreeMap::new();
        for task in self.tasks.iter().filter(|task| !task.is_recorder && is_user(&task.name)) {
            *cpu_ns.entry(&task.name).or_default() += task.cpu_ns;
        }
        let sum_ns: u64 = cpu_ns.values().sum();
        cpu_ns.retain(|_, of_name_ns| u128::from(*of_name_ns) * 1000 >= u128::from(sum_ns) * SMALL_PER_MILLE);
        let large: Vec<String> = cpu_ns.into_keys().map(str::to_owned).collect();
        for task in self.tasks.iter_mut().filter(|task| !task.is_recorder) {
            task.judged = large.binary_search(&task.name).is_ok();
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

    /// Takes the cost of the current event off the work of the task that runs on `cpu`, and notes its time. To be
    /// called at the end of each event.
    pub(super) fn charge_recorder(&mut self, event: &Event<'_>) {
        if self.event_cost_ns == 0 {
            return;
        }
        let ns = match event.what {
            What::Writes { .. } | What::Read { .. } => self.message_cost_ns(),
            _ => self.event_cost_ns,
        };
        let cost = Cost { at_ns: self.now_ns, ns };
        let entry = self.cpu(event.cpu);
        entry.recent.rotate_right(1);
        entry.recent[0] = cost;
        if let OnCpu::Task(index) = entry.on {
            self.charge_kernel(index, ns);
        }
    }

    /// What a line about a message over a pipe cost. It is less than an event where BPF programs told it.
    fn message_cost_ns(&self) -> u64 {
        let told = self.header.as_ref().and_then(|header| header.message_cost_ns);
        told.unwrap_or(self.event_cost_ns)
    }

    /// Returns what was taken off for the events of `cpu` since `since_ns`, before the current one.
    pub(super) fn recorder_ns_since(&self, cpu: u32, since_ns: u64) -> u64 {
        let recent = self.cpus.get(cpu as usize).map_or(&[][..], |cpu| &cpu.recent);
        recent.iter().filter(|cost| cost.at_ns >= since_ns).map(|cost| cost.ns).sum()
    }

    /// Takes what was seen of all other tasks. The service is done after a time since the first of its tasks ran.
    pub(super) fn observations(&mut self) -> Observations {
        let mut observed = Observations::default();
        let judged = self.tasks.iter().filter(|task| task.judged && !task.is_recorder);
        let begun_ns = judged.filter_map(Tracked::begun_ns).min().unwrap_or(0);
        for task in self.tasks.iter_mut().filter(|task| !task.is_recorder) {
            let judged = task.judged;
            let (comm, of) = task.watched();
            observed.add(comm, of, judged);
        }
        for of in observed.judged.values_mut() {
            of.done_ns = of.done_ns.saturating_sub(begun_ns);
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
