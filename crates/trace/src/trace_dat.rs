// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads trace-cmd's files (`trace.dat`), versions 6 and 7.
//!
//! A file begins with what it says about itself (crates/trace/src/trace_dat/head.rs): the layouts of all events, the
//! names of tasks, the clock, and where each CPU's events are. These are the pages of the kernel's ring buffer as they
//! were (crates/trace/src/trace_dat/pages.rs). The pages of a CPU are read one after the other, and the CPUs are merged
//! in the order of time, so that memory holds one page of each CPU.
//!
//! Every event has flags, so interrupts are told from tasks; the text of `trace-cmd report` leaves them out. Of a file
//! with several buffers only the main one is read.

pub(crate) mod head;
mod pages;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod written;

use crate::TraceError;
use crate::event::{EventSource, Item, Place};
use crate::raw::emitter::{Emitter, Found};
use crate::raw::merge::Merge;
use crate::raw::release::Release;
use crate::raw::store::Store;
use head::{Clock, Head};
use pages::Pages;

/// How trace-cmd's files begin.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The events of a trace-cmd file.
pub(crate) struct Reader {
    store: Store,
    clock: Clock,
    release: Release,
    emitter: Emitter,
    cpus: Vec<Pages>,
    merge: Merge,
    /// The CPU whose event was delivered last, and must be read on.
    delivered: Option<usize>,
}

impl Reader {
    pub(crate) fn new(store: Store) -> Result<Self, TraceError> {
        let Head { emitter, clock, release, cpus } = head::read(&store)?;
        let cpus: Vec<Pages> = cpus.into_iter().map(|(cpu, data)| Pages::new(cpu, data)).collect();
        let mut reader =
            Reader { store, clock, release, emitter, cpus, merge: Merge::default(), delivered: None };
        (0..reader.cpus.len()).try_for_each(|index| reader.advance(index))?;
        Ok(reader)
    }

    /// Reads a CPU's next event.
    fn advance(&mut self, index: usize) -> Result<(), TraceError> {
        let cpu = &mut self.cpus[index];
        if cpu.advance(&self.store)? {
            self.merge.add(self.clock.ns(cpu.time()), index);
        }
        Ok(())
    }
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
            return self.emitter.seen.check_end().map(|()| None);
        };
        let cpu = &mut self.cpus[index];
        let (time_ns, byte) = (self.clock.ns(cpu.time()), cpu.byte());
        if let Some(count) = cpu.take_lost() {
            self.merge.add(time_ns, index);
            return Ok(Some(Item::Lost { place: Place::Byte(byte), count }));
        }
        self.delivered = Some(index);
        let found = Found { byte, time_ns, cpu: cpu.cpu, process: None };
        self.emitter.event(found, cpu.event()).map(|event| Some(Item::Event(event)))
    }

    fn file(&self) -> &str {
        self.store.name()
    }
}
