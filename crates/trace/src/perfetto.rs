// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads Perfetto's protobuf, as far as it has ftrace's events.
//!
//! A file is a sequence of packets. Some hold a bundle of events of one CPU (crates/trace/src/perfetto/bundle.rs). The
//! packets are in no order of time: each CPU's are written when its buffer is read, and a ring buffer of packets begins
//! anywhere. So the file is read twice. The first time tells where each bundle is and when it begins
//! (crates/trace/src/perfetto/index.rs). The second time reads the bundles in the order in which they begin, and merges
//! those that overlap, so that memory holds a few dozen bytes of each bundle, and the bundles of one moment.

mod bundle;
mod index;
mod message;
#[cfg(test)]
mod tests;
mod wire;

use rustc_hash::FxHashMap;

use crate::TraceError;
use crate::event::{EventSource, Item, Place, TaskName, What};
use crate::raw::emitter::{Found, Said, Seen};
use crate::raw::merge::Merge;
use crate::raw::store::Store;
use crate::what::state_of_bits;
use bundle::{Bundle, Saying};
use index::Index;

/// The most that the bundles of one moment may take.
const OPEN_BYTES_MAX: usize = 1 << 30;

/// The events of a Perfetto file.
pub(crate) struct Reader {
    store: Store,
    index: Index,
    /// The next bundle of the index.
    next: usize,
    /// Bundles that have begun and not ended, by their number in the index.
    open: FxHashMap<usize, Bundle>,
    open_bytes: usize,
    merge: Merge,
    /// The bundle whose event was delivered last.
    delivered: Option<usize>,
    /// The task that runs on each CPU. Compact bundles tell only the task that is switched in.
    running: FxHashMap<u32, Running>,
    /// The task that was switched out last.
    left: Option<Running>,
    seen: Seen,
}

/// A task that runs on a CPU.
struct Running {
    tid: u32,
    comm: String,
    prio: i32,
}

impl Running {
    fn of(task: &TaskName<'_>) -> Self {
        Running { tid: task.tid, comm: task.comm.to_owned(), prio: task.prio.unwrap_or_default() }
    }
}

impl Reader {
    pub(crate) fn new(store: Store) -> Result<Self, TraceError> {
        let index = Index::read(&store)?;
        let mut seen = Seen::default();
        store.name().clone_into(&mut seen.file);
        Ok(Reader {
            store,
            index,
            next: 0,
            open: FxHashMap::default(),
            open_bytes: 0,
            merge: Merge::default(),
            delivered: None,
            running: FxHashMap::default(),
            left: None,
            seen,
        })
    }

    /// Goes on in the bundle whose event was delivered last, and opens those that begin before the next event.
    fn advance(&mut self) -> Result<(), TraceError> {
        if let Some(number) = self.delivered.take()
            && let Some(bundle) = self.open.get_mut(&number)
        {
            match bundle.advance() {
                Some(time_ns) => self.merge.add(time_ns, number),
                None => {
                    self.open_bytes -= bundle.bytes();
                    self.open.remove(&number);
                }
            }
        }
        while let Some(place) = self.index.bundles.get(self.next)
            && self.merge.first_ns().is_none_or(|first_ns| place.first_ns <= first_ns)
        {
            let bundle = Bundle::read(&self.store, place, &self.index)?;
            self.open_bytes += bundle.bytes();
            if self.open_bytes > OPEN_BYTES_MAX {
                let expected = format!("at most {} MiB of events of one moment", OPEN_BYTES_MAX >> 20);
                return Err(self.store.error(place.at, &expected, "more"));
            }
            if let Some(time_ns) = bundle.time_ns() {
                self.merge.add(time_ns, self.next);
                self.open.insert(self.next, bundle);
            } else {
                self.open_bytes -= bundle.bytes();
            }
            self.next += 1;
        }
        Ok(())
    }
}

impl EventSource for Reader {
    fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError> {
        self.advance()?;
        if self.index.release.is_new() {
            return Ok(Some(self.index.release.deliver()));
        }
        let Some(number) = self.merge.take() else { return self.seen.check_end().map(|()| None) };
        let Some(bundle) = self.open.get_mut(&number) else { return Ok(Some(Item::Unfinished)) };
        let (entry, cpu) = (*bundle.entry(), bundle.cpu);
        if std::mem::take(&mut bundle.lost) {
            self.merge.add(entry.time_ns, number);
            return Ok(Some(Item::Lost { place: Place::Byte(entry.byte), count: 1 }));
        }
        self.delivered = Some(number);
        let bundle = &*bundle;
        let tid = entry.tid.or_else(|| self.running.get(&cpu).map(|running| running.tid));
        let process = tid.and_then(|tid| self.index.processes.get(&tid)).copied();
        let found = Found { byte: entry.byte, time_ns: entry.time_ns, cpu, process };
        self.seen.check(&found)?;
        let (mut kind, mut vector) = (&message::OTHER, None);
        let what = match entry.saying {
            Saying::Message { kind: of_message, begin, end } => {
                kind = of_message;
                let record = message::Record::new(kind, bundle.part(begin, end));
                vector = record.vector();
                record.what(tid).map_err(|expected| {
                    let found = "a message that has something else".to_owned();
                    self.seen.error(entry.byte, &expected, found)
                })?
            }
            Saying::Waking { tid, prio, cpu, comm } => {
                let task = TaskName { comm: bundle.text(comm), tid, prio: Some(prio) };
                What::Waking { task, last_cpu: cpu, sync: false }
            }
            Saying::Switch { state, tid, prio, comm } => {
                let next = TaskName { comm: bundle.text(comm), tid, prio: Some(prio) };
                self.left = self.running.insert(cpu, Running::of(&next));
                // What ran before a CPU's first event is not known.
                self.left.as_ref().map_or(What::Other, |prev| What::Switch {
                    prev: TaskName { comm: &prev.comm, tid: prev.tid, prio: Some(prev.prio) },
                    why: state_of_bits(state, &prev.comm),
                    next,
                })
            }
        };
        if let (What::Switch { next, .. }, Saying::Message { .. }, true) =
            (&what, entry.saying, self.index.is_compact)
        {
            self.running.insert(cpu, Running::of(next));
        }
        let flags = entry.flags.map(i64::from);
        let said = Said { tid, flags, subsystem: kind.subsystem, name: kind.name, vector, what };
        self.seen.event(&found, said).map(|event| Some(Item::Event(event)))
    }

    fn file(&self) -> &str {
        self.store.name()
    }
}
