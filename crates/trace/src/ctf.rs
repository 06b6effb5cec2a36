// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads kernel traces of LTTng: a folder in the Common Trace Format 1.8, or a tar of it.
//!
//! The folder has a file `metadata` (crates/trace/src/ctf/metadata.rs), which describes all types, and a file of
//! packets for each CPU (crates/trace/src/ctf/packets.rs). The files are merged in the order of time, so that memory
//! holds one packet of each.
//!
//! LTTng names fields in its own way: what the kernel calls `pid` is `tid`, and priorities are 100 less. It does not
//! say which task was current at an event. Each switch tells it for the events after it; for those before a CPU's
//! first switch, that switch is looked up beforehand.

mod folder;
mod metadata;
mod packets;
#[cfg(test)]
mod tests;
mod tokens;
mod types;
#[cfg(test)]
mod written;

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::TraceError;
use crate::event::{EventSource, Item, Place, SwitchedOut, What};
use crate::raw::emitter::{Found, Said, Seen};
use crate::raw::merge::Merge;
use crate::raw::release::Release;
use crate::raw::store::Store;
use crate::what::{Fields, Key, of_other, state_of_bits, what};
use metadata::Metadata;
use packets::{Packets, metadata_text};

pub(crate) use folder::{metadata_folder, reader_of_folder, reader_of_tar};

/// Of the priorities, which LTTng counts from the first one that is no real-time priority (MAX_RT_PRIO).
const PRIO_OFFSET: i64 = 100;

/// The events of a trace.
pub(crate) struct Reader {
    files: Vec<Packets>,
    merge: Merge,
    /// The file whose event was delivered last.
    delivered: Option<usize>,
    /// The task that runs on each CPU.
    running: FxHashMap<u32, u32>,
    /// The process of each task.
    processes: FxHashMap<u32, u32>,
    release: Release,
    seen: Seen,
}

impl Reader {
    /// `files` are those with packets; errors call the trace `name`.
    pub(crate) fn new(metadata: &Store, files: Vec<Store>, name: &str) -> Result<Self, TraceError> {
        let bytes = metadata.part(0, metadata.bytes(), "metadata")?;
        let text = metadata_text(&bytes).map_err(|at| {
            metadata.error(at as u64, "metadata of the Common Trace Format 1.8", "something else")
        })?;
        let text = String::from_utf8_lossy(&text);
        let parsed = Metadata::parse(&text).map_err(|wrong| {
            let line = text[..wrong.at].matches('\n').count() + 1;
            TraceError::Line {
                file: metadata.name().to_owned(),
                line: line as u64,
                expected: wrong.expected,
                found: wrong.found,
            }
        })?;
        let parsed = Rc::new(parsed);
        let mut release = Release::default();
        release.note(&parsed.kernel_release);
        let mut seen = Seen::default();
        name.clone_into(&mut seen.file);
        let mut reader = Reader {
            files: files.into_iter().map(|file| Packets::new(file, &parsed)).collect(),
            merge: Merge::default(),
            delivered: None,
            release,
            running: FxHashMap::default(),
            processes: FxHashMap::default(),
            seen,
        };
        reader.look_up_first_tasks()?;
        (0..reader.files.len()).try_for_each(|index| reader.advance(index))?;
        Ok(reader)
    }

    /// Notes which task ran on each CPU before its first switch.
    fn look_up_first_tasks(&mut self) -> Result<(), TraceError> {
        let mut first = FxHashMap::<u32, (u64, u32)>::default();
        for file in std::mem::take(&mut self.files) {
            let mut file = file;
            while file.advance()? {
                if file.event().is_some_and(|event| event.name == "sched_switch") {
                    let at = (file.time_ns(), file.number("prev_tid").and_then(id).unwrap_or(0));
                    let known = first.entry(file.cpu).or_insert(at);
                    *known = (*known).min(at);
                    break;
                }
            }
            self.files.push(file.rewind());
        }
        self.running = first.into_iter().map(|(cpu, (_, tid))| (cpu, tid)).collect();
        Ok(())
    }

    /// Reads a file's next event.
    fn advance(&mut self, index: usize) -> Result<(), TraceError> {
        let file = &mut self.files[index];
        if file.advance()? {
            self.merge.add(file.time_ns(), index);
        }
        Ok(())
    }
}

fn id(number: i64) -> Option<u32> {
    u32::try_from(number).ok()
}

/// Returns the kernel's subsystem and name of an event, as other recorders have them.
fn kernel_name(name: &str) -> (&'static str, &str) {
    match name {
        "syscall_entry_sched_yield" => return ("syscalls", "sys_enter_sched_yield"),
        "syscall_entry_futex" => return ("syscalls", "sys_enter_futex"),
        _ => {}
    }
    const SUBSYSTEMS: [(&str, &str, &str); 6] = [
        ("sched_", "", "sched"),
        ("irq_softirq_", "irq_", "irq"),
        ("irq_handler_", "", "irq"),
        ("x86_irq_vectors_", "x86_irq_vectors_", "irq_vectors"),
        ("timer_hrtimer_", "timer_", "timer"),
        ("timer_expire_", "", "timer"),
    ];
    let found = SUBSYSTEMS.iter().find(|(beginning, ..)| name.starts_with(beginning));
    found.map_or(("", ""), |(_, extra, subsystem)| (*subsystem, name.strip_prefix(extra).unwrap_or(name)))
}

impl EventSource for Reader {
    fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError> {
        if let Some(index) = self.delivered.take() {
            self.advance(index)?;
        }
        if self.release.is_new() {
            return Ok(Some(self.release.deliver()));
        }
        let Some(index) = self.merge.take() else {
            // A file may end with a packet that has no events, but tells that some were left out.
            if let Some(file) = self.files.iter_mut().find(|file| file.has_lost())
                && let Some(count) = file.take_lost()
            {
                return Ok(Some(Item::Lost { place: Place::Byte(file.byte), count }));
            }
            return self.seen.check_end().map(|()| None);
        };
        let file = &mut self.files[index];
        if let Some(count) = file.take_lost() {
            self.merge.add(file.time_ns(), index);
            return Ok(Some(Item::Lost { place: Place::Byte(file.byte), count }));
        }
        self.delivered = Some(index);
        let (byte, time_ns, cpu) = (file.place(), file.time_ns(), file.cpu);
        file.mend_names();
        let file = &*file;
        let lttng_name = file.event().map_or("", |event| event.name.as_str());
        let (subsystem, name) = kernel_name(lttng_name);
        // Of a fork, and of each task that there was when the recording began.
        let (task, process) = match lttng_name {
            "sched_process_fork" => (file.number("child_tid"), file.number("child_pid")),
            "lttng_statedump_process_state" => (file.number("tid"), file.number("pid")),
            _ => (file.context_number("tid"), file.context_number("pid")),
        };
        if let (Some(task), Some(process)) = (task.and_then(id), process.and_then(id)) {
            self.processes.insert(task, process);
        }
        let tid = self.running.get(&cpu).copied();
        let process = tid.and_then(|tid| self.processes.get(&tid)).copied();
        let found = Found { byte, time_ns, cpu, process };
        self.seen.check(&found)?;
        let what = match subsystem {
            "sched" => what(name, &mut Record(file)).map_err(|expected| {
                file.store.error(byte, &format!("{name} with {expected}"), "a record that has something else")
            })?,
            _ => of_other(subsystem, name, &mut Record(file)),
        };
        if let What::Switch { next, .. } = what {
            self.running.insert(cpu, next.tid);
        }
        let vector = if name == "softirq_entry" { file.number("vec") } else { None };
        let said = Said { tid, flags: None, subsystem, name, vector, what };
        self.seen.event(&found, said).map(|event| Some(Item::Event(event)))
    }

    fn file(&self) -> &str {
        &self.seen.file
    }
}

/// The fields of a record, by the kernel's names.
struct Record<'a>(&'a Packets);

impl Record<'_> {
    /// Returns a number, in the kernel's terms.
    fn kernel_number(&self, key: Key) -> Option<i64> {
        if let Some(stem) = key.name.strip_suffix("pid") {
            return self.0.number(&format!("{stem}tid"));
        }
        let number = self.0.number(key.name)?;
        Some(if key.name.ends_with("prio") { number.saturating_add(PRIO_OFFSET) } else { number })
    }
}

impl<'a> Fields<'a> for Record<'a> {
    fn task(&mut self, comm: Key, tid: Key) -> Option<(&'a str, u32)> {
        Some((self.0.text(comm.name)?, self.kernel_number(tid).and_then(id)?))
    }

    fn number(&mut self, key: Key) -> Option<i64> {
        self.kernel_number(key)
    }

    fn number_if_any(&mut self, key: Key) -> Option<i64> {
        self.kernel_number(key)
    }

    fn number_after(&mut self, key: Key) -> Option<i64> {
        self.kernel_number(key)
    }

    fn address_after(&mut self, key: Key) -> Option<u64> {
        self.0.number(key.name).map(|number| number as u64)
    }

    fn state(&mut self, key: Key, comm: &str) -> Option<SwitchedOut> {
        Some(state_of_bits(self.0.number(key.name)? as u64, comm))
    }

    fn skip_text(&mut self, _key: Key, _next: Key) -> bool {
        true
    }

    fn skip_arrow(&mut self) {}

    fn at_end(&self) -> bool {
        true
    }
}
