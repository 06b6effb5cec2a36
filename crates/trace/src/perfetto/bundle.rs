// SPDX-License-Identifier: GPL-2.0-or-later
//! A bundle of events of one CPU, in the order of time.
//!
//! Most events are messages. Switches and wake-ups may be in the compact form instead: a list for each field, times as
//! differences to the one before, names as numbers of a table. Compact switches do not tell the task that is switched
//! out, because it is the one that was switched in before, and no compact event tells its current task.

use crate::TraceError;
use crate::perfetto::index::{
    BUNDLE_COMPACT, BUNDLE_EVENT, COMPACT_SWITCH_TIME, COMPACT_WAKING_TIME, EVENT_TIME, Index, Place, broken,
};
use crate::perfetto::message::{Kind, OTHER, kind_of};
use crate::perfetto::wire::{Broken, Message, Span, Value};
use crate::raw::layout::mend_name;
use crate::raw::store::Store;

const BUNDLE_CPU: u64 = 1;
const BUNDLE_LOST: u64 = 3;
const EVENT_TID: u64 = 2;
const EVENT_FLAGS: u64 = 5;

/// An event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) time_ns: u64,
    /// Offset in the file.
    pub(crate) byte: u64,
    /// The current task; `None` if it is the one that was switched in last.
    pub(crate) tid: Option<u32>,
    pub(crate) flags: Option<u8>,
    pub(crate) saying: Saying,
}

/// Where an event's fields are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Saying {
    Message { kind: &'static Kind, begin: usize, end: usize },
    Switch { state: u64, tid: u32, prio: i32, comm: Span },
    Waking { tid: u32, cpu: u32, prio: i32, comm: Span },
}

/// A bundle that is being read.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) cpu: u32,
    /// Events before it were lost, and this was not said yet.
    pub(crate) lost: bool,
    data: Vec<u8>,
    entries: Vec<Entry>,
    next: usize,
}

impl Bundle {
    pub(crate) fn read(store: &Store, place: &Place, index: &Index) -> Result<Self, TraceError> {
        let data = match place.inner {
            None => store.part(place.at, place.bytes.into(), "a bundle of events")?,
            Some((packet, begin, end)) => {
                let packet = index.unpacked.get(packet as usize);
                let part = packet.and_then(|packet| packet.get(begin as usize..end as usize));
                part.ok_or_else(|| broken(store, place.at))?.to_vec()
            }
        };
        let mut bundle = Bundle { cpu: 0, lost: false, data, entries: Vec::new(), next: 0 };
        let is_packed = place.inner.is_some();
        let byte = |at: usize| if is_packed { place.at } else { place.at + at as u64 };
        bundle.fill(byte, index.has_forks).map_err(|Broken(at)| broken(store, byte(at)))?;
        bundle.entries.sort_by_key(|entry| entry.time_ns);
        Ok(bundle)
    }

    /// Reads all events.
    fn fill(&mut self, byte: impl Fn(usize) -> u64, has_forks: bool) -> Result<(), Broken> {
        let mut names = Vec::new();
        let mut fields = Message::new(&self.data, (0, self.data.len()));
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (BUNDLE_CPU, Value::Number(cpu)) => self.cpu = u32::try_from(cpu).unwrap_or(u32::MAX),
                (BUNDLE_LOST, Value::Number(lost)) => self.lost = lost != 0,
                (BUNDLE_EVENT, Value::Bytes(span)) => {
                    let entry = event(&self.data, span, byte(span.0), has_forks)?;
                    if let Saying::Message { kind, begin, end } = entry.saying {
                        kind.names(&self.data, (begin, end), |name| names.push(name));
                    }
                    self.entries.push(entry);
                }
                (BUNDLE_COMPACT, Value::Bytes(span)) => {
                    let compact = Compact::read(&self.data, span)?;
                    names.extend(&compact.names);
                    let ok = compact.entries(byte(span.0), &mut self.entries);
                    ok.ok_or(Broken(span.0))?;
                }
                _ => {}
            }
        }
        names.into_iter().for_each(|(begin, end)| mend_name(&mut self.data[begin..end]));
        Ok(())
    }

    /// Returns the memory that the bundle takes.
    pub(crate) fn bytes(&self) -> usize {
        self.data.len() + self.entries.len() * size_of::<Entry>()
    }

    /// Returns the time of the current event.
    pub(crate) fn time_ns(&self) -> Option<u64> {
        self.entries.get(self.next).map(|entry| entry.time_ns)
    }

    /// Goes to the next event, and returns its time.
    pub(crate) fn advance(&mut self) -> Option<u64> {
        self.next += 1;
        self.time_ns()
    }

    /// Returns the current event, which there is.
    pub(crate) fn entry(&self) -> &Entry {
        &self.entries[self.next]
    }

    pub(crate) fn part(&self, begin: usize, end: usize) -> &[u8] {
        &self.data[begin..end]
    }

    pub(crate) fn text(&self, (begin, end): Span) -> &str {
        std::str::from_utf8(&self.data[begin..end]).unwrap_or("?")
    }
}

fn event(data: &[u8], span: Span, byte: u64, has_forks: bool) -> Result<Entry, Broken> {
    let nothing = Saying::Message { kind: &OTHER, begin: 0, end: 0 };
    let mut entry = Entry { time_ns: 0, byte, tid: None, flags: None, saying: nothing };
    let mut event = Message::new(data, span);
    while let Some((field, value)) = event.next()? {
        match (field, value) {
            (EVENT_TIME, Value::Number(time_ns)) => entry.time_ns = time_ns,
            (EVENT_TID, Value::Number(tid)) => entry.tid = u32::try_from(tid).ok(),
            (EVENT_FLAGS, Value::Number(flags)) => entry.flags = u8::try_from(flags).ok(),
            (field, Value::Bytes((begin, end))) => {
                let kind = kind_of(field);
                if *kind != OTHER && !(has_forks && kind.is_new_task()) {
                    entry.saying = Saying::Message { kind, begin, end };
                }
            }
            _ => {}
        }
    }
    Ok(entry)
}

/// The lists of the compact form, by the numbers of their fields.
#[derive(Default)]
struct Compact {
    lists: [Vec<u64>; 13],
    names: Vec<Span>,
}

const SWITCH_STATE: u64 = 2;
const SWITCH_TID: u64 = 3;
const SWITCH_PRIO: u64 = 4;
const NAMES: u64 = 5;
const SWITCH_NAME: u64 = 6;
const WAKING_TID: u64 = 8;
const WAKING_CPU: u64 = 9;
const WAKING_PRIO: u64 = 10;
const WAKING_NAME: u64 = 11;
const WAKING_FLAGS: u64 = 12;

impl Compact {
    fn read(data: &[u8], span: Span) -> Result<Self, Broken> {
        let mut compact = Compact::default();
        let mut fields = Message::new(data, span);
        while let Some((field, value)) = fields.next()? {
            let Value::Bytes(span) = value else { continue };
            if field == NAMES {
                compact.names.push(span);
            } else if let Some(list) = usize::try_from(field).ok().and_then(|at| compact.lists.get_mut(at)) {
                let mut numbers = Message::new(data, span);
                while let Some(number) = numbers.packed()? {
                    list.push(number);
                }
            }
        }
        Ok(compact)
    }

    fn number(&self, field: u64, index: usize) -> Option<u64> {
        self.lists[field as usize].get(index).copied()
    }

    fn id(&self, field: u64, index: usize) -> Option<u32> {
        u32::try_from(self.number(field, index)?).ok()
    }

    fn prio(&self, field: u64, index: usize) -> Option<i32> {
        i32::try_from(self.number(field, index)? as i64).ok()
    }

    fn name(&self, field: u64, index: usize) -> Option<Span> {
        self.names.get(usize::try_from(self.number(field, index)?).ok()?).copied()
    }

    /// Appends all events; returns `None` if a list is too short, or a number too large.
    fn entries(&self, byte: u64, entries: &mut Vec<Entry>) -> Option<()> {
        let mut time_ns: u64 = 0;
        for (index, since) in self.lists[COMPACT_SWITCH_TIME as usize].iter().enumerate() {
            time_ns = time_ns.checked_add(*since)?;
            let saying = Saying::Switch {
                state: self.number(SWITCH_STATE, index)?,
                tid: self.id(SWITCH_TID, index)?,
                prio: self.prio(SWITCH_PRIO, index)?,
                comm: self.name(SWITCH_NAME, index)?,
            };
            entries.push(Entry { time_ns, byte, tid: None, flags: None, saying });
        }
        time_ns = 0;
        for (index, since) in self.lists[COMPACT_WAKING_TIME as usize].iter().enumerate() {
            time_ns = time_ns.checked_add(*since)?;
            let saying = Saying::Waking {
                tid: self.id(WAKING_TID, index)?,
                cpu: self.id(WAKING_CPU, index)?,
                prio: self.prio(WAKING_PRIO, index)?,
                comm: self.name(WAKING_NAME, index)?,
            };
            let flags = self.number(WAKING_FLAGS, index).and_then(|flags| u8::try_from(flags).ok());
            entries.push(Entry { time_ns, byte, tid: None, flags, saying });
        }
        Some(())
    }
}
