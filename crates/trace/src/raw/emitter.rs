// SPDX-License-Identifier: GPL-2.0-or-later
//! Makes [`Event`]s of the kernel's records, with the layouts that the file gives.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::event::{Current, Event, Place, TaskName, What};
use crate::order::{Happened, NOT_TOO_LATE, Order, bad_cpu};
use crate::raw::layout::{Layout, Record};
use crate::what::{of_other, what};
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
fn soft_interrupt(vector: Option<i64>) -> &'static str {
    let vector = vector.and_then(|vector| usize::try_from(vector).ok());
    vector.and_then(|vector| SOFT_INTERRUPTS.get(vector)).copied().unwrap_or_default()
}

/// Returns the third letter of ftrace's flags, at its place, for the bits of `common_flags`
/// (include/linux/trace_events.h).
fn flags(bits: i64) -> &'static str {
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

/// Where a record stood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Offset in the file.
    pub(crate) byte: u64,
    pub(crate) time_ns: u64,
    pub(crate) cpu: u32,
    /// The current task's process, if the recording says.
    pub(crate) process: Option<u32>,
}

/// What a record says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    /// The current task.
    pub(crate) tid: Option<u32>,
    /// The bits of `common_flags`.
    pub(crate) flags: Option<i64>,
    pub(crate) subsystem: &'a str,
    pub(crate) name: &'a str,
    /// The number of a soft interrupt.
    pub(crate) vector: Option<i64>,
    pub(crate) what: What<'a>,
}

/// What a reader has seen so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) file: String,
    /// The names of tasks, by their id.
    pub(crate) names: FxHashMap<u32, String>,
    order: Order,
}

impl Seen {
    pub(crate) fn error(&self, byte: u64, expected: &str, found: String) -> TraceError {
        TraceError::Bytes { file: self.file.clone(), byte, expected: expected.to_owned(), found }
    }

    /// Checks the CPU and the time of a record.
    pub(crate) fn check(&self, found: &Found) -> Result<(), TraceError> {
        let Found { byte, time_ns, cpu, .. } = *found;
        if cpu >= MAX_CPUS {
            return Err(bad_cpu(&self.file, Place::Byte(byte), &cpu.to_string()));
        }
        self.order.check_time(&self.file, Place::Byte(byte), time_ns)?;
        match self.order.is_too_late(time_ns) {
            true => Err(self.error(byte, NOT_TOO_LATE, format!("{time_ns} ns"))),
            false => Ok(()),
        }
    }

    /// Returns the event of a record that was checked.
    pub(crate) fn event<'a>(&'a mut self, found: &Found, said: Said<'a>) -> Result<Event<'a>, TraceError> {
        let Said { tid, flags, subsystem, name, vector, what } = said;
        learn_names(&mut self.names, &what);
        let comm = match tid {
            Some(0) => "<idle>",
            tid => tid.and_then(|tid| self.names.get(&tid)).map_or("<...>", String::as_str),
        };
        let happened = Happened {
            place: Place::Byte(found.byte),
            time_ns: found.time_ns,
            cpu: found.cpu,
            current: Current { comm, tid, process: found.process },
            flags: flags.map(self::flags),
            subsystem,
            name,
            fields: if name == "softirq_entry" { soft_interrupt(vector) } else { "" },
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

/// The layouts of a recording, and what its reader has seen so far.
#[derive(Debug, Default)]
pub(crate) struct Emitter {
    pub(crate) is_big_endian: bool,
    layouts: FxHashMap<u32, Layout>,
    /// A layout whose common fields tell those of events that have none.
    any: Layout,
    pub(crate) seen: Seen,
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

    /// Returns the id of the task that was current, by a record's bytes.
    pub(crate) fn tid(&self, data: &[u8]) -> Option<u32> {
        self.any.number("common_pid", data, self.is_big_endian).and_then(|tid| u32::try_from(tid).ok())
    }

    /// Returns the event of a record with these bytes.
    pub(crate) fn event<'a>(&'a mut self, found: Found, data: &'a mut [u8]) -> Result<Event<'a>, TraceError> {
        self.seen.check(&found)?;
        let is_big_endian = self.is_big_endian;
        let id = self.any.number("common_type", data, is_big_endian).and_then(|id| u32::try_from(id).ok());
        let Some(id) = id else {
            let length = format!("{} bytes", data.len());
            return Err(self.seen.error(found.byte, "an event with common_type", length));
        };
        let layout = self.layouts.get(&id).unwrap_or(&self.any);
        let is_known = layout.id == id;
        if is_known {
            layout.mend_names(data, is_big_endian);
        }
        let tid = self.tid(data);
        let data: &'a [u8] = data;
        let number = |name| layout.number(name, data, is_big_endian);
        let (subsystem, name) =
            if is_known { (layout.subsystem.as_str(), layout.name.as_str()) } else { ("", "") };
        let what = match subsystem {
            "sched" | "sock" => {
                what(name, &mut Record { layout, data, is_big_endian }).map_err(|expected| {
                    let length = format!("a record of {} bytes that has something else", data.len());
                    self.seen.error(found.byte, &format!("{name} with {expected}"), length)
                })?
            }
            _ => of_other(subsystem, name, &mut Record { layout, data, is_big_endian }),
        };
        let said = Said {
            tid,
            flags: number("common_flags"),
            subsystem,
            name,
            vector: if name == "softirq_entry" { number("vec") } else { None },
            what,
        };
        self.seen.event(&found, said)
    }
}
