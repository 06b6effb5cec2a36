// SPDX-License-Identifier: GPL-2.0-or-later
//! What a recording of a simulated run would show, without a recording: the events go to the causal model as the reader
//! of crates/trace/src/ftrace_write.rs's text would deliver them. So a replay is seen through the same eyes as the
//! recording that it repeats, and nobody writes and reads 200 bytes of text for each of its events.

use wakelab_machine::cpu_list;
use wakelab_workload::{TaskIndex, Workload};

use crate::causal::Model;
use crate::event::{Current, Item, Place, SwitchedOut, TaskName, Told, What};
use crate::ftrace_write::{flags, name};
use crate::kernel_events::{At, KernelEvent, Left, Named, Sink};
use crate::order::{Happened, NOT_TOO_LATE, Order};
use crate::{Observations, TraceError};

/// The idle task's name in the fields of an event.
const IDLE: TaskName<'_> = TaskName { comm: "swapper", tid: 0, prio: Some(120) };

/// Watches a run. The first error is kept for the end.
pub struct Watch {
    /// What errors call the run.
    name: String,
    tasks: Vec<Named>,
    order: Order,
    model: Model,
    /// The number of events.
    events: u64,
    error: Option<TraceError>,
}

impl Watch {
    /// Watches a run of `workload`, which errors call `name`.
    pub fn new(workload: &Workload, name: &str) -> Watch {
        let mut model = Model::default();
        for (task, spec) in workload.tasks.iter().enumerate() {
            let cpus = spec.allowed.as_deref().map(cpu_list);
            model.item(&Item::Told(Told {
                cpus: cpus.as_deref(),
                slice_ns: spec.slice_ns,
                footprint_bytes: Some(spec.footprint_bytes),
                judged: spec.judged,
                awaited: spec.awaited,
                ..Told::nothing(task as u32 + 1)
            }));
        }
        Watch {
            name: name.to_owned(),
            tasks: Named::all(workload),
            order: Order::default(),
            model,
            events: 0,
            error: None,
        }
    }

    /// What was seen of the whole run.
    ///
    /// # Errors
    /// What readers refuse: times that go backwards or too far, a CPU that no machine has, and a run without a switch.
    pub fn observations(mut self) -> Result<Observations, TraceError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let empty = || TraceError::Empty { file: self.name.clone(), lines: 0 };
        self.order.check_end(&self.name, empty)?;
        self.model.end();
        self.model.seen(&self.name)
    }

    fn pass(&mut self, at: At, event: &KernelEvent<'_>, name: &str) -> Result<(), TraceError> {
        let At { time_ns, cpu, .. } = at;
        let place = Place::Line(self.events);
        self.order.check_time(&self.name, place, time_ns)?;
        if self.order.is_too_late(time_ns) {
            return Err(TraceError::Line {
                file: self.name.clone(),
                line: self.events,
                expected: NOT_TOO_LATE.to_owned(),
                found: format!("{time_ns} ns"),
            });
        }
        let current = match at.current {
            Some(task) => {
                let Named { comm, process, .. } = &self.tasks[task as usize];
                Current { comm, tid: Some(task + 1), process: Some(*process) }
            }
            None => Current { comm: "<idle>", tid: Some(0), process: Some(0) },
        };
        let what = what(&self.tasks, event);
        let flags = Some(flags(at, event));
        // Only soft interrupts tell anything in their fields, and a run has none.
        let happened =
            Happened { place, time_ns, cpu, current, flags, subsystem: "", name, fields: "", what };
        let event = self.order.event(&self.name, happened)?;
        self.model.item(&Item::Event(event));
        Ok(())
    }
}

impl Sink for Watch {
    type Out = Watch;

    fn event(&mut self, at: At, event: KernelEvent<'_>) {
        let Some(name) = name(&event).filter(|_| self.error.is_none()) else { return };
        self.events += 1;
        self.error = self.pass(at, &event, name).err();
    }

    fn finish(self) -> std::io::Result<Watch> {
        Ok(self)
    }
}

/// Returns what the text of an event says.
fn what<'a>(tasks: &'a [Named], event: &KernelEvent<'_>) -> What<'a> {
    let ranked = |task: TaskIndex| {
        let Named { comm, prio, .. } = &tasks[task as usize];
        TaskName { comm, tid: task + 1, prio: Some(*prio) }
    };
    let unranked = |task: TaskIndex| TaskName { prio: None, ..ranked(task) };
    match *event {
        KernelEvent::Switch { prev, next } => What::Switch {
            prev: prev.map_or(IDLE, |(prev, _)| ranked(prev)),
            why: match prev.map_or(Left::Runnable, |(_, left)| left) {
                Left::Runnable => SwitchedOut::Runnable,
                Left::Blocked => SwitchedOut::Blocked,
                Left::Exited => SwitchedOut::Exited,
            },
            next: next.map_or(IDLE, ranked),
        },
        KernelEvent::Waking { task, last_cpu, sync } => What::Waking { task: ranked(task), last_cpu, sync },
        KernelEvent::Wakeup { task, cpu, is_new: false } => What::Wakeup { task: ranked(task), cpu },
        KernelEvent::Wakeup { task, cpu, is_new: true } => What::WakeupNew { task: ranked(task), cpu },
        KernelEvent::Runtime { task, ran_ns } => What::Runtime { task: unranked(task), ran_ns },
        KernelEvent::Fork { parent, child } => {
            What::Fork { parent: unranked(parent), child: unranked(child) }
        }
        KernelEvent::Exec { task } => What::Exec { tid: task + 1 },
        KernelEvent::Exit { .. } => What::Exit,
        KernelEvent::Migrate { task, from, to } => {
            What::Migrate { task: ranked(task), from_cpu: from, to_cpu: to }
        }
        KernelEvent::Begin
        | KernelEvent::End
        | KernelEvent::Decision { .. }
        | KernelEvent::Interrupt { .. } => What::Other,
    }
}
