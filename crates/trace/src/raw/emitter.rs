// SPDX-License-Identifier: GPL-2.0-or-later
//! Makes [`Event`]s of the kernel's records, with the layouts that the file gives.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::event::{Current, Event, Place, TaskName, What};
use crate::order::{Happened, NOT_TOO_LATE, Order, bad_cpu};
use crate::raw::layout::{Layout, Record};
use crate::what::what;
use crate::{MAX_CPUS, TraceError};

/// Names of the soft interrupts, by their number, as the kernel's text has them.
const SOFT_INTERRUPTS: [&str; 10] = [
    "[action=HI]",
    "[action=TIMER]",
    "[action=NET_TX]",
    "[action=NET_RX]",
    "[action=BLOCK]",
    "[action=IRQ_POLL]",
    "[action=TASKLET]",
    "[action=SCHED]",
    "[action=HRTIMER]",
    "[action=RCU]",
];

/// Returns a soft interrupt as the kernel's text has it.
pub(crate) fn soft_interrupt(vector: Option<i64>) -> &'static str {
    let vector = vector.and_then(|vector| usize::try_from(vector).ok());
    vector.and_then(|vector| SOFT_INTERRUPTS.get(vector)).copied().unwrap_or_default()
}

/// Returns the third letter of ftrace's flags, at its place, for the bits of `common_flags`
/// (include/linux/trace_events.h).
pub(crate) fn flags(bits: i64) -> &'static str {
    const IN_HARD_INTERRUPT: i64 = 0x08;
    const IN_SOFT_INTERRUPT: i64 = 0x10;
    const IN_NMI: i64 = 0x40;
    match bits {
        _ if bits & IN_NMI != 0 => "..z.",
        _ if bits & IN_HARD_INTERRUPT != 0 => "..h.",
        _ if bits & IN_SOFT_INTERRUPT != 0 => "..s.",
        _ => "....",
    }
}

/// Notes the names of tasks that have none yet, like trace-cmd.
fn learn_names(names: &mut FxHashMap<u32, String>, what: &What<'_>) {
    let mut learn = |task: &TaskName<'_>| {
        if let Entry::Vacant(unknown) = names.entry(task.tid) {
            unknown.insert(task.comm.to_owned());
        }
    };
    match what {
        What::Switch { prev, next, .. } => [prev, next].into_iter().for_each(learn),
        What::Waking { task, .. } | What::Wakeup { task, .. } | What::WakeupNew { task, .. } => learn(task),
        _ => {}
    }
}

/// A record and where it stood.
pub(crate) struct Found<'a> {
    /// Offset in the file.
    pub(crate) byte: u64,
    pub(crate) time_ns: u64,
    pub(crate) cpu: u32,
    /// The task's process, if the recording says.
    pub(crate) process: Option<u32>,
    pub(crate) data: &'a mut [u8],
}

/// The layouts of a recording, and what its reader has seen so far.
#[derive(Debug, Default)]
pub(crate) struct Emitter {
    pub(crate) file: String,
    pub(crate) is_big_endian: bool,
    layouts: FxHashMap<u32, Layout>,
    /// A layout whose common fields tell those of events that have none.
    any: Layout,
    /// The names of tasks, by their id.
    pub(crate) names: FxHashMap<u32, String>,
    pub(crate) order: Order,
}

impl Emitter {
    pub(crate) fn add(&mut self, layout: Layout) {
        if self.layouts.is_empty() {
            self.any = layout.clone();
        }
        self.layouts.insert(layout.id, layout);
    }

    pub(crate) fn has_layouts(&self) -> bool {
        !self.layouts.is_empty()
    }

    fn error(&self, byte: u64, expected: &str, found: String) -> TraceError {
        TraceError::Bytes { file: self.file.clone(), byte, expected: expected.to_owned(), found }
    }

    /// Returns the event of a record.
    pub(crate) fn event<'a>(&'a mut self, found: Found<'a>) -> Result<Event<'a>, TraceError> {
        let Found { byte, time_ns, cpu, process, data } = found;
        let (place, is_big_endian) = (Place::Byte(byte), self.is_big_endian);
        if cpu >= MAX_CPUS {
            return Err(bad_cpu(&self.file, place, &cpu.to_string()));
        }
        self.order.check_time(&self.file, place, time_ns)?;
        if self.order.is_too_late(time_ns) {
            return Err(self.error(byte, NOT_TOO_LATE, format!("{time_ns} ns")));
        }
        let id = self.any.number("common_type", data, is_big_endian).and_then(|id| u32::try_from(id).ok());
        let Some(id) = id else {
            return Err(self.error(byte, "an event with common_type", format!("{} bytes", data.len())));
        };
        let layout = self.layouts.get(&id).unwrap_or(&self.any);
        let is_known = layout.id == id;
        if is_known {
            layout.mend_names(data, is_big_endian);
        }
        let data: &'a [u8] = data;
        let number = |name| layout.number(name, data, is_big_endian);
        let (subsystem, name) =
            if is_known { (layout.subsystem.as_str(), layout.name.as_str()) } else { ("", "") };
        let what = match subsystem {
            "sched" | "sock" => {
                what(name, &mut Record { layout, data, is_big_endian }).map_err(|expected| {
                    let found = format!("a record of {} bytes that has something else", data.len());
                    self.error(byte, &format!("{name} with {expected}"), found)
                })?
            }
            "irq_vectors" if name == "local_timer_entry" => What::Tick,
            _ => What::Other,
        };
        learn_names(&mut self.names, &what);
        let tid = number("common_pid").and_then(|tid| u32::try_from(tid).ok());
        let comm = match tid {
            Some(0) => "<idle>",
            tid => tid.and_then(|tid| self.names.get(&tid)).map_or("<...>", String::as_str),
        };
        let happened = Happened {
            place,
            time_ns,
            cpu,
            current: Current { comm, tid, process },
            flags: number("common_flags").map(flags),
            subsystem,
            name,
            fields: if name == "softirq_entry" { soft_interrupt(number("vec")) } else { "" },
            what,
        };
        self.order.event(&self.file, happened)
    }

    /// Checks at the end that the recording has events and context switches.
    pub(crate) fn check_end(&self) -> Result<(), TraceError> {
        let empty = || self.error(0, "a recording with events", "none".to_owned());
        self.order.check_end(&self.file, empty)
    }
}
