// SPDX-License-Identifier: GPL-2.0-or-later
//! The first reading of a Perfetto file: where its bundles of events are, when each begins, and what else the file says
//! about tasks.
//!
//! Packets may be packed, several in one. What was unpacked is kept, up to a limit.

use std::io::Read;

use flate2::read::ZlibDecoder;
use rustc_hash::FxHashMap;

use crate::TraceError;
use crate::perfetto::message::kind_of;
use crate::perfetto::wire::{Broken, Message, Span, Value};
use crate::raw::release::Release;
use crate::raw::store::{Reading, Store};

/// Fields of Trace, TracePacket, FtraceEventBundle, CompactSched and FtraceEvent.
const TRACE_PACKET: u64 = 1;
const PACKET_BUNDLE: u64 = 1;
const PACKET_PROCESS_TREE: u64 = 2;
const PACKET_SYSTEM: u64 = 45;
const PACKET_PACKED: u64 = 50;
const PACKET_MACHINE: u64 = 98;
pub(crate) const BUNDLE_EVENT: u64 = 2;
pub(crate) const BUNDLE_COMPACT: u64 = 4;
pub(crate) const COMPACT_SWITCH_TIME: u64 = 1;
pub(crate) const COMPACT_WAKING_TIME: u64 = 7;
pub(crate) const EVENT_TIME: u64 = 1;

/// The most that all packed packets may have when they are unpacked.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// The most bundles: with this many, the index has 2 GiB, and the file some hundred.
const BUNDLES_MAX: usize = 1 << 26;

/// Where a bundle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The time of its first event.
    pub(crate) first_ns: u64,
    /// Offset in the file of the bundle, or of the packed packet.
    pub(crate) at: u64,
    /// Its length there.
    pub(crate) bytes: u32,
    /// If it was packed: the number of the packet among those that were unpacked, and the place in it.
    pub(crate) inner: Option<(u32, u32, u32)>,
}

/// What the first reading tells.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The bundles, in the order in which they begin.
    pub(crate) bundles: Vec<Place>,
    /// What was packed.
    pub(crate) unpacked: Vec<Vec<u8>>,
    unpacked_bytes: u64,
    /// The process of each task.
    pub(crate) processes: FxHashMap<u32, u32>,
    /// The file has sched_process_fork, so task_newtask says nothing new.
    pub(crate) has_forks: bool,
    /// The file has events in the compact form.
    pub(crate) is_compact: bool,
    pub(crate) release: Release,
    /// The machine whose events were found; 0 is the one that recorded.
    machine: Option<u64>,
}

impl Index {
    pub(crate) fn read(store: &Store) -> Result<Self, TraceError> {
        let mut index = Index::default();
        let mut at = 0;
        while at < store.bytes() {
            let begin = at;
            let (body, bytes) = packet(store, begin)?;
            let data = store.part(body, bytes, "a packet")?;
            index.packet(store, body, &data, (0, data.len()), None)?;
            at = body + bytes;
        }
        index.bundles.sort_unstable();
        Ok(index)
    }

    /// Notes what a packet holds, which is a span of `data`. `at` is where the data are in the file. For a packet that
    /// was packed, it is where the packed packet is, and `packed_bytes` is its length.
    fn packet(
        &mut self,
        store: &Store,
        at: u64,
        data: &[u8],
        span: Span,
        packed_bytes: Option<u32>,
    ) -> Result<(), TraceError> {
        let broken = |Broken(byte)| {
            let inside = if packed_bytes.is_none() { byte as u64 } else { 0 };
            broken(store, at + inside)
        };
        let mut packet = Message::new(data, span);
        let (mut has_events, mut machine) = (false, 0);
        while let Some((field, value)) = packet.next().map_err(broken)? {
            let span = match value {
                Value::Bytes(span) => span,
                Value::Number(number) => {
                    machine = if field == PACKET_MACHINE { number } else { machine };
                    continue;
                }
            };
            has_events |= field == PACKET_BUNDLE;
            let (begin, length) = (at + span.0 as u64, (span.1 - span.0) as u64);
            match field {
                PACKET_BUNDLE => {
                    if let Some(first_ns) = self.bundle(data, span).map_err(broken)? {
                        let inner = (self.unpacked.len() as u32, span.0 as u32, span.1 as u32);
                        self.add(
                            store,
                            match packed_bytes {
                                None => Place { first_ns, at: begin, bytes: length as u32, inner: None },
                                Some(bytes) => Place { first_ns, at, bytes, inner: Some(inner) },
                            },
                        )?;
                    }
                }
                PACKET_PROCESS_TREE => self.process_tree(data, span).map_err(broken)?,
                PACKET_SYSTEM => self.system(data, span).map_err(broken)?,
                PACKET_PACKED if packed_bytes.is_none() => {
                    let data = self.unpack(store, begin, &data[span.0..span.1])?;
                    self.packed(store, begin, length as u32, &data)?;
                    self.unpacked.push(data);
                }
                _ => {}
            }
        }
        self.check_machine(store, at, has_events.then_some(machine))
    }

    /// Refuses the events of a second machine, because CPUs and tasks of different machines have the same numbers.
    fn check_machine(&mut self, store: &Store, at: u64, machine: Option<u64>) -> Result<(), TraceError> {
        let Some(machine) = machine else { return Ok(()) };
        match *self.machine.get_or_insert(machine) {
            first if first == machine => Ok(()),
            first => {
                let found = format!("those of the machines {first} and {machine}");
                Err(store.error(at, "events of one machine", &found))
            }
        }
    }

    /// Returns what a packed packet holds.
    fn unpack(&mut self, store: &Store, at: u64, packed: &[u8]) -> Result<Vec<u8>, TraceError> {
        let left = UNPACKED_BYTES_MAX - self.unpacked_bytes;
        let mut data = Vec::new();
        let result = ZlibDecoder::new(packed).take(left + 1).read_to_end(&mut data);
        result.map_err(|error| store.error(at, "a packed packet", &error.to_string()))?;
        if data.len() as u64 > left {
            let limit = format!("at most {} MiB in packed packets", UNPACKED_BYTES_MAX >> 20);
            return Err(store.error(at, &limit, "more"));
        }
        self.unpacked_bytes += data.len() as u64;
        Ok(data)
    }

    /// Notes what the packets hold that were packed into one.
    fn packed(&mut self, store: &Store, at: u64, bytes: u32, data: &[u8]) -> Result<(), TraceError> {
        let broken = |Broken(_)| broken(store, at);
        let mut packets = Message::new(data, (0, data.len()));
        while let Some((field, value)) = packets.next().map_err(broken)? {
            let (TRACE_PACKET, Value::Bytes(span)) = (field, value) else { continue };
            self.packet(store, at, data, span, Some(bytes))?;
        }
        Ok(())
    }

    fn add(&mut self, store: &Store, place: Place) -> Result<(), TraceError> {
        if self.bundles.len() == BUNDLES_MAX {
            return Err(store.error(place.at, &format!("at most {BUNDLES_MAX} bundles of events"), "more"));
        }
        self.bundles.push(place);
        Ok(())
    }

    /// Returns the time of the earliest event of a bundle; `None` if it has none.
    fn bundle(&mut self, data: &[u8], span: Span) -> Result<Option<u64>, Broken> {
        let mut first_ns: Option<u64> = None;
        let mut note = |time_ns: u64| first_ns = Some(first_ns.map_or(time_ns, |first| first.min(time_ns)));
        let mut bundle = Message::new(data, span);
        while let Some((field, value)) = bundle.next()? {
            let Value::Bytes(span) = value else { continue };
            match field {
                BUNDLE_EVENT => {
                    let mut event = Message::new(data, span);
                    while let Some((field, value)) = event.next()? {
                        match value {
                            Value::Number(time_ns) if field == EVENT_TIME => note(time_ns),
                            Value::Bytes(_) => self.has_forks |= kind_of(field).is_fork(),
                            Value::Number(_) => {}
                        }
                    }
                }
                BUNDLE_COMPACT => {
                    self.is_compact = true;
                    let mut compact = Message::new(data, span);
                    while let Some((field, value)) = compact.next()? {
                        if let (COMPACT_SWITCH_TIME | COMPACT_WAKING_TIME, Value::Bytes(span)) =
                            (field, value)
                            && let Some(time_ns) = Message::new(data, span).packed()?
                        {
                            note(time_ns);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(first_ns)
    }

    /// Notes the kernel's release (SystemInfo, and Utsname in it).
    fn system(&mut self, data: &[u8], span: Span) -> Result<(), Broken> {
        const NAMES: u64 = 1;
        const RELEASE: u64 = 3;
        let mut system = Message::new(data, span);
        while let Some((field, value)) = system.next()? {
            let (NAMES, Value::Bytes(span)) = (field, value) else { continue };
            let mut names = Message::new(data, span);
            while let Some((field, value)) = names.next()? {
                if let (RELEASE, Value::Bytes((begin, end))) = (field, value) {
                    self.release.note(&String::from_utf8_lossy(&data[begin..end]));
                }
            }
        }
        Ok(())
    }

    /// Notes the process of each task that the system had.
    fn process_tree(&mut self, data: &[u8], span: Span) -> Result<(), Broken> {
        const PROCESS: u64 = 1;
        const THREAD: u64 = 2;
        let mut tree = Message::new(data, span);
        while let Some((field, value)) = tree.next()? {
            let Value::Bytes(span) = value else { continue };
            let (mut tid, mut process) = (None, None);
            let mut task = Message::new(data, span);
            while let Some((key, value)) = task.next()? {
                let Value::Number(number) = value else { continue };
                let id = u32::try_from(number).ok();
                match (field, key) {
                    (PROCESS, 1) => (tid, process) = (id, id),
                    (THREAD, 1) => tid = id,
                    (THREAD, 3) => process = id,
                    _ => {}
                }
            }
            if let (Some(tid), Some(process)) = (tid, process) {
                self.processes.insert(tid, process);
            }
        }
        Ok(())
    }
}

pub(crate) fn broken(store: &Store, byte: u64) -> TraceError {
    store.error(byte, "a field of a message", "other bytes, or the end of the message")
}

/// Returns where the packet that begins at a byte has its fields, and their length.
fn packet(store: &Store, begin: u64) -> Result<(u64, u64), TraceError> {
    let mut reading = Reading { store, at: begin, is_big_endian: false };
    let key = reading.u8("a packet")?;
    if u64::from(key) != TRACE_PACKET << 3 | 2 {
        return Err(store.error(begin, "a packet (the byte 0x0a)", &format!("{key:#04x}")));
    }
    let mut bytes = 0;
    for shift in (0..63).step_by(7) {
        let byte = reading.u8("the length of a packet")?;
        bytes |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            store.check(reading.at, bytes, "a packet")?;
            return Ok((reading.at, bytes));
        }
    }
    Err(store.error(begin, "the length of a packet", "a larger number"))
}
