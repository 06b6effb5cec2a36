// SPDX-License-Identifier: GPL-2.0-or-later
//! The attributes of the events that perf recorded (`struct perf_event_attr`, include/uapi/linux/perf_event.h), and
//! what a record says by them.

use rustc_hash::FxHashMap;

use crate::TraceError;
use crate::perf_data::records::{HEAD_BYTES, Kind, Record, Says};
use crate::perf_data::{RELEASE_PART, text_of_part};
use crate::raw::store::{Store, number};

/// Fields of a sample, in the order in which it has them, as far as the event's own bytes.
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;

/// The length of the first version of the attributes.
const ATTRIBUTE_BYTES_MIN: usize = 64;

/// The attributes of an event.
#[derive(Clone, Copy, Debug)]
struct Attribute {
    is_tracepoint: bool,
    sample_type: u64,
    read_format: u64,
    /// Records that are no samples end with some of the fields of a sample.
    ends_with_sample: bool,
}

/// The attributes of all events.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    all: Vec<Attribute>,
    /// Their places in `all`, by the ids in the samples.
    by_id: FxHashMap<u64, usize>,
}

/// The rest of a record, read from the left.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(number(self.bytes(4)?, false) as u32)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(number(self.bytes(8)?, false))
    }

    /// Goes past numbers of 8 bytes.
    fn skip(&mut self, numbers: u64) -> Option<()> {
        self.bytes(usize::try_from(numbers.checked_mul(8)?).ok()?).map(|_| ())
    }
}

impl Attributes {
    /// Reads the attributes of a file: `bytes` bytes from `at` on, each of `one_bytes`.
    pub(crate) fn read_all(
        &mut self,
        store: &Store,
        at: u64,
        bytes: u64,
        one_bytes: u64,
    ) -> Result<(), TraceError> {
        let section_bytes = 16;
        let length = one_bytes.saturating_sub(section_bytes);
        if length < ATTRIBUTE_BYTES_MIN as u64 {
            let expected =
                format!("attributes of {} bytes or more", ATTRIBUTE_BYTES_MIN as u64 + section_bytes);
            return Err(store.error(16, &expected, &one_bytes.to_string()));
        }
        let all = store.part(at, bytes, "attributes of events")?;
        for (index, one) in all.chunks_exact(one_bytes as usize).enumerate() {
            let (attribute, ids) = one.split_at(length as usize);
            let mut ids = Fields(ids);
            let (ids_at, ids_bytes) = (ids.u64().unwrap_or(0), ids.u64().unwrap_or(0));
            let ids = store.part(ids_at, ids_bytes, "ids of an event")?;
            self.add(store, at + index as u64 * one_bytes, attribute, &ids)?;
        }
        Ok(())
    }

    /// Adds the attributes of an event, at this byte of the file, with the ids of its samples.
    fn add(&mut self, store: &Store, byte: u64, bytes: &[u8], ids: &[u8]) -> Result<(), TraceError> {
        let word = |at: usize| number(bytes.get(at..at + 8).unwrap_or_default(), false);
        const TRACEPOINT: u64 = 2;
        const SAMPLE_ID_ALL: u64 = 1 << 18;
        let attribute = Attribute {
            is_tracepoint: word(0) & 0xffff_ffff == TRACEPOINT,
            sample_type: word(24),
            read_format: word(32),
            ends_with_sample: word(40) & SAMPLE_ID_ALL != 0,
        };
        let needed = TID | TIME | CPU | RAW;
        if attribute.is_tracepoint && attribute.sample_type & needed != needed {
            let expected = "samples with tid, time, cpu and raw (record with: perf sched record COMMAND)";
            return Err(store.error(byte, expected, &format!("sample_type {:#x}", attribute.sample_type)));
        }
        for id in ids.chunks_exact(8) {
            self.by_id.insert(number(id, false), self.all.len());
        }
        self.all.push(attribute);
        Ok(())
    }

    /// Returns the attributes of a record. If it has an id, that is at the beginning of a sample, or else at the end.
    fn of(&self, bytes: &[u8], is_sample: bool) -> Option<&Attribute> {
        let first = self.all.first()?;
        if self.all.len() == 1 || first.sample_type & IDENTIFIER == 0 {
            return Some(first);
        }
        let id = if is_sample { bytes.get(..8)? } else { bytes.get(bytes.len().checked_sub(8)?..)? };
        // Records that perf makes itself may have no id.
        let index = self.by_id.get(&number(id, false)).copied();
        if is_sample {
            self.all.get(index?)
        } else {
            Some(index.and_then(|index| self.all.get(index)).unwrap_or(first))
        }
    }

    /// Returns what to do with a record. The bytes of those that wait are appended to `data`.
    pub(crate) fn record(
        &mut self,
        store: &Store,
        byte: u64,
        bytes: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<Kind, TraceError> {
        let (head, body) = bytes.split_at(HEAD_BYTES);
        let kind = number(&head[..4], false);
        let bits = number(&head[4..6], false);
        let read = match kind {
            2 | 3 | 4 | 7 | 13 => self.other(kind, bits, byte, body, data),
            9 => self.sample(byte, body, data),
            64 => return self.attribute_record(store, byte, body),
            66 => Fields(body).u32().map(|length| Kind::Layouts(u64::from(length).next_multiple_of(8))),
            68 => Some(Kind::Round),
            71 => Fields(body).u64().map(Kind::Skip),
            80 => match body.split_at_checked(8) {
                Some((part, text)) if number(part, false) == RELEASE_PART => {
                    Some(Kind::Release(text_of_part(text)))
                }
                _ => Some(Kind::Ignored),
            },
            _ => Some(Kind::Ignored),
        };
        read.ok_or_else(|| {
            let found = format!("one of {} bytes that has not", bytes.len());
            store.error(byte, &format!("a record of kind {kind} with all its fields"), &found)
        })
    }

    /// Attributes in a file that was written to a pipe.
    fn attribute_record(&mut self, store: &Store, byte: u64, body: &[u8]) -> Result<Kind, TraceError> {
        let length = body.get(4..8).map_or(0, |length| number(length, false) as usize);
        let length = if length == 0 { ATTRIBUTE_BYTES_MIN } else { length };
        match body.split_at_checked(length).filter(|(attribute, _)| attribute.len() >= ATTRIBUTE_BYTES_MIN) {
            Some((attribute, ids)) => self.add(store, byte, attribute, ids).map(|()| Kind::Ignored),
            None => Err(store.error(byte, "the attributes of an event", &format!("{} bytes", body.len()))),
        }
    }

    fn sample(&self, byte: u64, body: &[u8], data: &mut Vec<u8>) -> Option<Kind> {
        let Some(attribute) = self.of(body, true).filter(|attribute| attribute.is_tracepoint) else {
            return Some(Kind::Ignored);
        };
        let has = |field| attribute.sample_type & field != 0;
        let mut fields = Fields(body);
        fields.skip((attribute.sample_type & (IDENTIFIER | IP)).count_ones().into())?;
        let (process, tid) = (fields.u32()?, fields.u32()?);
        let time_ns = fields.u64()?;
        fields.skip((attribute.sample_type & (ADDR | ID | STREAM_ID)).count_ones().into())?;
        let cpu = fields.u32()?;
        fields.u32()?;
        fields.skip(u64::from(has(PERIOD)))?;
        if has(READ) {
            skip_read(&mut fields, attribute.read_format)?;
        }
        if has(CALLCHAIN) {
            let calls = fields.u64()?;
            fields.skip(calls)?;
        }
        let length = fields.u32()?;
        let begin = data.len();
        data.extend_from_slice(fields.bytes(usize::try_from(length).ok()?)?);
        let says = Says::Event(cpu);
        Some(Kind::Waits(Record { time_ns, byte, process, tid, says, begin, end: data.len() }))
    }

    /// A record about lost events, a task's name, its birth or its end.
    fn other(&self, kind: u64, bits: u64, byte: u64, body: &[u8], data: &mut Vec<u8>) -> Option<Kind> {
        /// Samples that a BPF program of the user left out.
        const LEFT_OUT: u64 = 1 << 15;
        let (time_ns, body) = self.end(body)?;
        let mut fields = Fields(body);
        let begin = data.len();
        let (process, tid, says) = match kind {
            2 => {
                fields.u64()?;
                (0, 0, Says::Lost(fields.u64()?))
            }
            13 if bits & LEFT_OUT != 0 => return Some(Kind::Ignored),
            13 if time_ns == 0 => (0, 0, Says::LostInAll(fields.u64()?)),
            13 => (0, 0, Says::Lost(fields.u64()?)),
            3 => {
                let (process, tid) = (fields.u32()?, fields.u32()?);
                data.extend_from_slice(fields.0);
                (process, tid, Says::Name)
            }
            7 => {
                let (process, _, tid) = (fields.u32()?, fields.u32()?, fields.u32()?);
                (process, tid, Says::Fork(fields.u32()?))
            }
            _ => return Some(Kind::Ignored),
        };
        Some(Kind::Waits(Record { time_ns, byte, process, tid, says, begin, end: data.len() }))
    }

    /// Returns the time at the end of a record that is no sample, and what is before; the time is 0 if there is none.
    fn end<'a>(&self, body: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let Some(attribute) = self.of(body, false).filter(|attribute| attribute.ends_with_sample) else {
            return Some((0, body));
        };
        let fields = attribute.sample_type & (TID | TIME | ID | STREAM_ID | CPU | IDENTIFIER);
        let (before, end) =
            body.split_at_checked(body.len().checked_sub(8 * fields.count_ones() as usize)?)?;
        let mut end = Fields(end);
        end.skip(u64::from(fields & TID != 0))?;
        let time_ns = if fields & TIME != 0 { end.u64()? } else { 0 };
        Some((if time_ns == u64::MAX { 0 } else { time_ns }, before))
    }
}

/// Goes past the values of counters.
fn skip_read(fields: &mut Fields<'_>, format: u64) -> Option<()> {
    const TIMES: u64 = 1 << 0 | 1 << 1;
    const ID: u64 = 1 << 2;
    const GROUP: u64 = 1 << 3;
    const LOST: u64 = 1 << 4;
    let times = u64::from((format & TIMES).count_ones());
    let each = 1 + u64::from((format & (ID | LOST)).count_ones());
    if format & GROUP == 0 {
        return fields.skip(times + each);
    }
    let counters = fields.u64()?;
    fields.skip(times.checked_add(counters.checked_mul(each)?)?)
}
