// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads perf's files (`perf.data`), also as `perf record -o -` writes them to a pipe.
//!
//! A file has records (crates/trace/src/perf_data/records.rs). Which fields a sample has, the attributes of its event
//! tell (crates/trace/src/perf_data/attributes.rs); the layouts of the kernel's events come as in a trace-cmd file.
//!
//! perf empties the buffers of the CPUs in rounds, one buffer after the other, and writes a record at the end of each
//! round. An event can be at most one round late. So records wait until the round after theirs has ended, and are
//! delivered then in the order of time.
//!
//! Every event has flags, so interrupts are told from tasks; the text of `perf script` leaves them out. The id of the
//! current task is the one in the event, which also a task far into its exit has, and which is the machine's inside a
//! container. Records may be packed (crates/trace/src/perf_data/packed.rs).

mod attributes;
mod packed;
mod records;
#[cfg(test)]
mod tests;

use crate::TraceError;
use crate::event::{EventSource, Item, Place};
use crate::raw::emitter::{Emitter, Found};
use crate::raw::release::Release;
use crate::raw::store::{Store, number};
use crate::trace_dat::head::layouts;
use attributes::Attributes;
use records::{Kind, Record, Records, Says};

/// How perf's files begin.
pub(crate) const MAGIC: &[u8] = b"PERFILE2";

/// The most that may wait for the end of a round.
const WAITING_BYTES_MAX: usize = 1 << 30;

/// The number of the part that has the kernel's release (HEADER_OSRELEASE in tools/perf/util/header.h).
pub(crate) const RELEASE_PART: u64 = 4;

/// The length of the file's header, where it is not written to a pipe.
const HEADER_BYTES: u64 = 104;

/// The events of a perf file.
pub(crate) struct Reader {
    store: Store,
    records: Records,
    attributes: Attributes,
    release: Release,
    emitter: Emitter,
    /// The bytes of records that wait.
    data: Vec<u8>,
    /// Records that wait, the earliest first, up to `sorted`.
    waiting: Vec<Record>,
    /// How many of them are in order and late enough to be delivered.
    sorted: usize,
    /// How many of them were delivered.
    delivered: usize,
    latest_ns: u64,
    /// The latest time when the last round ended.
    round_ns: u64,
    ended: bool,
    /// Lost events that were delivered.
    lost: u64,
    /// Lost events by perf's count at the end. It includes those after which a buffer had room for nothing else, not
    /// even for the record that some were lost.
    lost_in_all: u64,
    /// perf left out the end, and events in it, of unknown number: 1 or none.
    lost_at_end: u64,
    /// perf runs in a container, and its ids and names are not those of the events.
    is_foreign: bool,
}

impl Reader {
    pub(crate) fn new(store: Store) -> Result<Self, TraceError> {
        let mut attributes = Attributes::default();
        let mut emitter = Emitter::default();
        store.name().clone_into(&mut emitter.seen.file);
        let word = |at: u64| -> Result<u64, TraceError> {
            let mut bytes = [0; 8];
            store.read(at, &mut bytes, "the head of a perf file").map(|()| number(&bytes, false))
        };
        let mut release = Release::default();
        let (mut begin, mut end) = (16, store.bytes());
        match word(8)? {
            // Written to a pipe: attributes and layouts are records.
            16 => {}
            HEADER_BYTES => {
                attributes.read_all(&store, word(24)?, word(32)?, word(16)?)?;
                (begin, end) = (word(40)?, word(48)?);
                store.check(begin, end, "records")?;
                end += begin;
                const LAYOUTS: u64 = 1 << 1;
                let parts = word(72)?;
                if parts & LAYOUTS == 0 {
                    return Err(no_layouts(&store, 72));
                }
                // The first part behind the records, because it has the lowest number.
                emitter = layouts(&store, word(end)?)?;
                if parts & 1 << RELEASE_PART != 0 {
                    let before = (parts & ((1 << RELEASE_PART) - 1)).count_ones();
                    let place = end + 16 * u64::from(before);
                    release.note(&text_of_part(&store.part(
                        word(place)?,
                        word(place + 8)?,
                        "the release",
                    )?));
                }
            }
            other => {
                let expected = format!("a header of {HEADER_BYTES} or 16 bytes");
                return Err(store.error(8, &expected, &other.to_string()));
            }
        }
        Ok(Reader {
            store,
            records: Records::new(begin, end),
            attributes,
            release,
            emitter,
            data: Vec::new(),
            waiting: Vec::new(),
            sorted: 0,
            delivered: 0,
            latest_ns: 0,
            round_ns: 0,
            ended: false,
            lost: 0,
            lost_in_all: 0,
            lost_at_end: 0,
            is_foreign: false,
        })
    }

    /// Reads on until records can be delivered, or the file ends.
    fn fill(&mut self) -> Result<(), TraceError> {
        self.forget_delivered();
        while self.sorted == 0 && !self.ended {
            let Some(byte) = self.records.next(&self.store)? else {
                self.ended = true;
                self.lost_at_end = u64::from(self.records.is_cut_off());
                self.sort(u64::MAX);
                break;
            };
            let bytes = self.records.record();
            match self.attributes.record(&self.store, byte, bytes, &mut self.data)? {
                Kind::Ignored => {}
                Kind::Round => {
                    let until_ns = std::mem::replace(&mut self.round_ns, self.latest_ns);
                    self.sort(until_ns);
                }
                Kind::Waits(record) => {
                    self.latest_ns = self.latest_ns.max(record.time_ns);
                    self.waiting.push(record);
                }
                Kind::Layouts(length) => {
                    let at = self.records.skip(&self.store, length)?;
                    self.emitter = layouts(&self.store, at)?;
                }
                Kind::Release(text) => self.release.note(&text),
                Kind::Skip(length) => {
                    self.records.skip(&self.store, length)?;
                }
            }
            if self.data.len() + self.waiting.len() * size_of::<Record>() > WAITING_BYTES_MAX {
                let expected = format!("the end of a round within {} MiB", WAITING_BYTES_MAX >> 20);
                return Err(self.store.error(byte, &expected, "more"));
            }
        }
        Ok(())
    }

    /// Puts the waiting records in order, and lets those up to a time be delivered.
    fn sort(&mut self, until_ns: u64) {
        self.waiting.sort_by_key(|record| record.time_ns);
        self.sorted = self.waiting.partition_point(|record| record.time_ns <= until_ns);
    }

    /// Makes room for further records.
    fn forget_delivered(&mut self) {
        if self.delivered == 0 {
            return;
        }
        self.waiting.drain(..self.delivered);
        let mut data = Vec::with_capacity(self.data.len() / 2);
        for record in &mut self.waiting {
            let begin = data.len();
            data.extend_from_slice(&self.data[record.begin..record.end]);
            (record.begin, record.end) = (begin, data.len());
        }
        self.data = data;
        (self.delivered, self.sorted) = (0, 0);
    }

    /// Returns the next record that can be delivered; `None` at the end.
    fn next_record(&mut self) -> Option<Record> {
        let record = *self.waiting[..self.sorted].get(self.delivered)?;
        self.delivered += 1;
        Some(record)
    }

    /// Notes names, unless they are those of a container.
    fn note_name(&mut self, record: &Record, parent: Option<u32>) {
        if self.is_foreign {
            return;
        }
        let name = match parent {
            Some(parent) => self.emitter.seen.names.get(&parent).cloned(),
            None => {
                let comm = String::from_utf8_lossy(&self.data[record.begin..record.end]);
                Some(comm.trim_end_matches('\0').to_owned())
            }
        };
        name.into_iter().for_each(|name| drop(self.emitter.seen.names.insert(record.tid, name)));
    }
}

impl EventSource for Reader {
    fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError> {
        if self.delivered == self.sorted {
            self.fill()?;
        }
        if self.release.is_new() {
            return Ok(Some(self.release.deliver()));
        }
        let Some(record) = self.next_record() else {
            let at_end = std::mem::take(&mut self.lost_at_end);
            let count = self.lost_in_all.saturating_sub(self.lost).saturating_add(at_end);
            self.lost_in_all = 0;
            if count > 0 {
                return Ok(Some(Item::Lost { place: Place::Byte(self.store.bytes()), count }));
            }
            return self.emitter.seen.check_end().map(|()| None);
        };
        let byte = record.byte;
        let cpu = match record.says {
            Says::Event(cpu) => cpu,
            Says::Lost(count) => {
                self.lost = self.lost.saturating_add(count);
                return Ok(Some(Item::Lost { place: Place::Byte(byte), count }));
            }
            Says::LostInAll(count) => {
                self.lost_in_all = self.lost_in_all.saturating_add(count);
                return Ok(Some(Item::Unfinished));
            }
            Says::Name => {
                self.note_name(&record, None);
                return Ok(Some(Item::Unfinished));
            }
            Says::Fork(parent) => {
                self.note_name(&record, Some(parent));
                return Ok(Some(Item::Unfinished));
            }
        };
        if !self.emitter.has_layouts() {
            return Err(no_layouts(&self.store, byte));
        }
        let data = &mut self.data[record.begin..record.end];
        let tid = self.emitter.tid(data);
        let is_same = record.tid == tid.unwrap_or(u32::MAX);
        // A task far into its exit has no id that perf knows.
        let is_exiting = record.tid == u32::MAX;
        if !is_same && !is_exiting && !self.is_foreign {
            self.is_foreign = true;
            self.emitter.seen.names.clear();
        }
        let is_known = (is_same || is_exiting && !self.is_foreign) && record.process != u32::MAX;
        let process = is_known.then_some(record.process);
        let found = Found { byte, time_ns: record.time_ns, cpu, process };
        self.emitter.event(found, data).map(|event| Some(Item::Event(event)))
    }

    fn file(&self) -> &str {
        self.store.name()
    }
}

/// Returns the text of a part that has its length before it.
pub(crate) fn text_of_part(part: &[u8]) -> String {
    String::from_utf8_lossy(part.get(4..).unwrap_or_default()).into_owned()
}

fn no_layouts(store: &Store, byte: u64) -> TraceError {
    let expected = "the layouts of the kernel's events (record with: perf sched record COMMAND)";
    store.error(byte, expected, "none before this byte")
}
