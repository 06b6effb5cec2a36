// SPDX-License-Identifier: GPL-2.0-or-later
//! The packets of one stream file of a CTF trace, and the records in them.
//!
//! LTTng has a file for each CPU. A packet says how many bits of it are in use, when it begins, on which CPU, and how
//! many events had been left out until it ended, because the buffer was full.

use std::rc::Rc;

use crate::TraceError;
use crate::ctf::metadata::{Event, Metadata};
use crate::ctf::types::{Bits, Type, Value, Values};
use crate::raw::store::{Store, number};

/// How a packet begins.
const MAGIC: u64 = 0xc1fc_1fc1;

/// The most that the heads of a packet take.
const HEAD_BYTES_MAX: u64 = 4096;

/// A stream file.
pub(crate) struct Packets {
    pub(crate) store: Store,
    metadata: Rc<Metadata>,
    /// Where the next packet begins.
    next: u64,
    /// The packet, and its place in the file.
    data: Vec<u8>,
    pub(crate) byte: u64,
    /// The next bit of the packet, and the number of bits in use.
    at: u64,
    end: u64,
    clock: u64,
    stream: u64,
    pub(crate) cpu: u32,
    /// The number of events left out, by the last packet.
    left_out: Option<u64>,
    /// Events that were left out, and of which nobody knows yet.
    lost: u64,
    /// The current record: its id, what is before its fields, and its fields.
    id: u64,
    outer: Values,
    fields: Values,
}

impl Packets {
    pub(crate) fn new(store: Store, metadata: &Rc<Metadata>) -> Self {
        Packets {
            store,
            metadata: Rc::clone(metadata),
            next: 0,
            data: Vec::new(),
            byte: 0,
            at: 0,
            end: 0,
            clock: 0,
            stream: 0,
            cpu: 0,
            left_out: None,
            lost: 0,
            id: 0,
            outer: Values::new(),
            fields: Values::new(),
        }
    }

    /// Goes back to the beginning.
    pub(crate) fn rewind(self) -> Self {
        Packets::new(self.store, &self.metadata)
    }

    /// Returns the number of events that were left out since the last call; `None` for none.
    pub(crate) fn take_lost(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.lost)).filter(|&lost| lost > 0)
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Returns the time of the current record, in ns on the recorder's clock.
    pub(crate) fn time_ns(&self) -> u64 {
        match self.metadata.clock_hz {
            1_000_000_000 => self.clock,
            hz => u64::try_from(u128::from(self.clock) * 1_000_000_000 / u128::from(hz)).unwrap_or(u64::MAX),
        }
    }

    /// Returns the place in the file of the current record's end.
    pub(crate) fn place(&self) -> u64 {
        self.byte + self.at / 8
    }

    pub(crate) fn event(&self) -> Option<&Event> {
        self.metadata.events.get(&(self.stream, self.id))
    }

    /// Returns the number of this name among the fields; its context if they have none.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        match self.value(&self.fields, name)? {
            Value::Number(number) => Some(number),
            Value::Text(..) => None,
        }
    }

    /// Returns the text of this name among the fields.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.value(&self.fields, name)? {
            Value::Text(begin, end) => std::str::from_utf8(&self.data[begin..end]).ok(),
            Value::Number(_) => None,
        }
    }

    /// Returns a number of the record's context, which users may add.
    pub(crate) fn context_number(&self, name: &str) -> Option<i64> {
        match self.value(&self.outer, name)? {
            Value::Number(number) => Some(number),
            Value::Text(..) => None,
        }
    }

    fn value(&self, values: &Values, name: &str) -> Option<Value> {
        let name = self.metadata.name(name)?;
        values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Makes readable text of the names in the record, byte by byte: the kernel cuts them anywhere.
    pub(crate) fn mend_names(&mut self) {
        for (_, value) in &self.fields {
            if let Value::Text(begin, end) = *value {
                crate::raw::layout::mend_name(&mut self.data[begin..end]);
            }
        }
    }

    /// Goes to the next record; returns false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, TraceError> {
        while self.at >= self.end {
            if self.next == self.store.bytes() {
                return Ok(false);
            }
            self.packet()?;
        }
        let metadata = Rc::clone(&self.metadata);
        let stream = metadata.streams.get(&self.stream);
        let mut bits = Bits { data: &self.data, at: self.at, end: self.end, clock: self.clock };
        let (mut outer, mut fields) = (std::mem::take(&mut self.outer), std::mem::take(&mut self.fields));
        outer.clear();
        fields.clear();
        let none = Values::new();
        let mut read = |of: Option<&Rc<Type>>, before: &Values, values: &mut Values| {
            of.map_or(Ok(()), |of| bits.read(of, u32::MAX, before, values))
        };
        let mut id = None;
        let result = read(stream.and_then(|stream| stream.event_header.as_ref()), &none, &mut outer)
            .and_then(|()| {
                // The id is twice in the header if it does not fit into the first field.
                let of = metadata.name("id");
                let last = outer.iter().rev().find(|(name, _)| Some(*name) == of).map(|(_, value)| *value);
                id = Some(match last {
                    Some(Value::Number(id)) => id as u64,
                    _ => 0,
                });
                let event = id.and_then(|id| metadata.events.get(&(self.stream, id)));
                read(stream.and_then(|stream| stream.event_context.as_ref()), &none, &mut outer)?;
                read(event.and_then(|event| event.context.as_ref()), &none, &mut outer)?;
                read(event.and_then(|event| event.fields.as_ref()), &outer, &mut fields)
            });
        let begin = self.byte + self.at / 8;
        (self.at, self.clock) = (bits.at, bits.clock);
        (self.outer, self.fields) = (outer, fields);
        self.id = id.unwrap_or(0);
        match self.event() {
            Some(_) if result.is_ok() => Ok(true),
            None if id.is_some() => Err(self.store.error(
                begin,
                "an event that the metadata describe",
                &format!("id {}", self.id),
            )),
            _ => {
                Err(self.store.error(begin, "an event as the metadata describe it", "the end of the packet"))
            }
        }
    }

    /// Reads the next packet.
    fn packet(&mut self) -> Result<(), TraceError> {
        let (byte, metadata) = (self.next, Rc::clone(&self.metadata));
        let rest = self.store.bytes() - byte;
        let head = self.store.part(byte, rest.min(HEAD_BYTES_MAX), "the head of a packet")?;
        let mut bits = Bits { data: &head, at: 0, end: 8 * head.len() as u64, clock: 0 };
        let broken = |_| self.store.error(byte, "the head of a packet", "the end of the file");
        let (mut values, none) = (Values::new(), Values::new());
        if let Some(header) = &metadata.packet_header {
            bits.read(header, u32::MAX, &none, &mut values).map_err(broken)?;
        }
        let get = |values: &Values, name: &str| {
            let name = metadata.name(name)?;
            let value = values.iter().find(|(known, _)| *known == name)?.1;
            if let Value::Number(number) = value { Some(number as u64) } else { None }
        };
        if let Some(found) = get(&values, "magic").filter(|&found| found != MAGIC) {
            return Err(self.store.error(byte, "a packet of a CTF stream", &format!("{found:#x}")));
        }
        self.stream = get(&values, "stream_id").unwrap_or(0);
        let Some(context) = metadata.streams.get(&self.stream).map(|stream| &stream.packet_context) else {
            let found = format!("id {}", self.stream);
            return Err(self.store.error(byte, "a stream that the metadata describe", &found));
        };
        if let Some(context) = context {
            bits.read(context, u32::MAX, &none, &mut values).map_err(broken)?;
        }
        let all = 8 * rest;
        let packet_bits = get(&values, "packet_size").unwrap_or(all);
        self.end = get(&values, "content_size").unwrap_or(packet_bits);
        self.at = bits.at;
        if !packet_bits.is_multiple_of(8) || packet_bits > all || self.end > packet_bits || self.at > self.end
        {
            let found = format!("{} of {packet_bits} bits in use, and {all} left in the file", self.end);
            return Err(self.store.error(byte, "a packet inside the file", &found));
        }
        let cpu = get(&values, "cpu_id").and_then(|cpu| u32::try_from(cpu).ok());
        let Some(cpu) = cpu else {
            return Err(self.store.error(byte, "a packet that tells its CPU (cpu_id)", "none"));
        };
        self.cpu = cpu;
        self.clock = get(&values, "timestamp_begin").unwrap_or(self.clock);
        // The number may have 32 bits, and begin again.
        if let Some(left_out) = get(&values, "events_discarded") {
            let before = self.left_out.replace(left_out).unwrap_or(0);
            self.lost = self.lost.saturating_add(left_out.saturating_sub(before));
        }
        self.data = self.store.part(byte, packet_bits / 8, "a packet")?;
        (self.byte, self.next) = (byte, byte + packet_bits / 8);
        if packet_bits == 0 {
            return Err(self.store.error(byte, "a packet of some bytes", "one of none"));
        }
        Ok(())
    }
}

/// Takes the text of the metadata out of their packets; plain text stays as it is. The error is a byte.
pub(crate) fn metadata_text(bytes: &[u8]) -> Result<Vec<u8>, usize> {
    const MAGIC: u64 = 0x75d1_1d57;
    const HEAD_BYTES: usize = 37;
    let begins = |is_big_endian: bool| bytes.len() >= 4 && number(&bytes[..4], is_big_endian) == MAGIC;
    let is_big_endian = begins(true);
    if !is_big_endian && !begins(false) {
        return Ok(bytes.to_vec());
    }
    let (mut text, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let head = bytes.get(at..at + HEAD_BYTES).ok_or(at)?;
        let bits = |from: usize| (number(&head[from..from + 4], is_big_endian) / 8) as usize;
        let (content, packet) = (bits(24), bits(28));
        let is_plain = head[32] == 0 && head[33] == 0;
        if number(&head[..4], is_big_endian) != MAGIC || !is_plain || content < HEAD_BYTES || packet < content
        {
            return Err(at);
        }
        text.extend_from_slice(bytes.get(at + HEAD_BYTES..at + content).ok_or(at)?);
        at += packet;
    }
    Ok(text)
}
