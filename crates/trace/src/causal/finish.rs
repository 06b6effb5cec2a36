// SPDX-License-Identifier: GPL-2.0-or-later
//! The end of a recording: open bursts and waits are cut, flows are inferred, and the workload is written.

use std::num::NonZeroU32;

use wakelab_workload::TaskIndex;

use super::{Ids, Model, Position, State};
use crate::flows::{self, Flows};
use crate::joined::joined;
use crate::loops::Loops;
use crate::messages::turns;
use crate::program::workload;
use crate::rescale::UNITS;
use crate::{Observations, Options, Recording, TraceError};

impl Model {
    /// Cuts bursts and drops waits where the recording ends.
    pub(crate) fn end(&mut self) {
        for index in 0..self.tasks.len() as TaskIndex {
            let now_ns = self.now_ns;
            match self.tasks[index as usize].state {
                State::Running { .. } => self.stop(index, now_ns, State::Runnable),
                State::Blocked { .. } if self.tasks[index as usize].is_recorder => {}
                State::Blocked { .. } => self.explained.open_at_end += 1,
                State::Born { parent } => self.start_child(index, parent),
                State::Runnable | State::Exited => {}
            }
        }
        self.find_silent_cpus();
        self.explained.wakers_known = self.waking_seen;
        self.explained.foreign_ids = self.ids == Ids::Foreign;
        // With both events, a sched_wakeup may confirm a sched_waking that counts already.
        self.explained.redundant_wakes = self.wakes.saturating_sub(self.useful_wakes);
    }

    /// What was seen, once the end has come, without what the tasks did.
    pub(crate) fn seen(mut self, file: &str) -> Result<Observations, TraceError> {
        self.mark_service(file, &[])?;
        Ok(self.observations())
    }

    pub(super) fn recording(
        mut self,
        name: &str,
        file: &str,
        options: &Options,
    ) -> Result<Recording, TraceError> {
        let nr_cpus = self.highest_cpu + 1;
        let (busy_ns, recorder_ns) = self.cpu_ns();
        let clamped_units: u64 = self.tasks.iter().map(|task| task.clamped_units).sum();
        self.explained.overhead_clamped_ns = clamped_units / UNITS;
        self.learnt.between = self.take_pairs();
        self.learnt.beside = self.take_pieces();
        if let Some(header) = &self.header {
            self.learnt.measured = header.measured.clone();
            self.learnt.event_cost_ns = header.event_cost_ns.unwrap_or(0);
        }
        self.bind_stayers();
        let service = self.mark_service(file, &options.of)?;
        let observed = self.observations();
        self.settle_calls();
        let infers = !options.recorded_waits_only && !options.recorded_times;
        let flows = if infers { self.infer_flows() } else { Flows::default() };
        let mut loops = Loops::new(options);
        let (mut once, recorded) =
            workload(name, self.tasks, &self.told, nr_cpus, &mut loops, &mut self.explained);
        once.signals = self.signals;
        once.channels = flows.channels;
        once.barriers = flows.barriers;
        once.locks = flows.locks;
        self.explained.limited_groups = self.groups.limited;
        once.groups = self.groups.take();
        self.explained.flows = flows.counts;
        self.explained.loops = loops.done(file)?;
        let runs = options.repeat.map_or(1, NonZeroU32::get);
        let workload =
            joined(once, &recorded, self.now_ns, runs).map_err(|too_many| TraceError::TooManyRuns {
                file: file.to_owned(),
                runs,
                tasks: too_many.tasks,
                ops: too_many.ops,
                most: too_many.most,
            })?;
        Ok(Recording {
            workload,
            runs,
            nr_cpus,
            duration_ns: self.now_ns,
            events: self.events,
            busy_ns,
            explained: self.explained,
            observed,
            service,
            learnt: self.learnt,
            header: self.header,
            event_cost_ns: options.event_cost_ns,
            recorder_ns,
        })
    }

    /// Adds recorded messages, and dependencies that left no event.
    fn infer_flows(&mut self) -> Flows {
        // The wake-ups of a task that had not yet left its CPU are noted late.
        self.wakeups.sort_by_key(|wakeup| wakeup.at);
        let exact = std::mem::take(&mut self.messages).resolve(&mut self.tasks, &mut self.wakeups);
        let end = Position::after(self.now_ns);
        let mut flows = Flows { channels: exact.channels, counts: exact.counts, ..Flows::default() };
        let calls = std::mem::take(&mut self.futexes);
        flows::infer(&mut flows, &mut self.tasks, &mut self.wakeups, &calls, &mut self.signals, end);
        turns::take_off(&mut self.tasks, &exact.polled);
        flows
    }
}
