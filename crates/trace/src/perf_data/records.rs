// SPDX-License-Identifier: GPL-2.0-or-later
//! The records of a perf file: each has its kind, some bits and its length, in 8 bytes, and what it says.

use crate::TraceError;
use crate::perf_data::packed::{Next, Packed};
use crate::raw::store::{Store, number};

/// The bytes before what a record says.
pub(crate) const HEAD_BYTES: usize = 8;
/// The number of bytes that are read at once: more than any record, whose length has 16 bits.
const BLOCK_BYTES: usize = 1 << 18;

/// What to do with a record.
pub(crate) enum Kind {
    /// It says nothing about scheduling.
    Ignored,
    /// The end of a round.
    Round,
    Waits(Record),
    /// The layouts of events, of this length, come behind the record.
    Layouts(u64),
    /// The kernel has this release.
    Release(String),
    /// This number of bytes behind the record is none.
    Skip(u64),
}

/// A record that waits for the end of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// 0 if it has none.
    pub(crate) time_ns: u64,
    /// Offset in the file.
    pub(crate) byte: u64,
    pub(crate) process: u32,
    pub(crate) tid: u32,
    pub(crate) says: Says,
    /// Its bytes among those that wait.
    pub(crate) begin: usize,
    pub(crate) end: usize,
}

/// What a record says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Says {
    /// A kernel's event on this CPU.
    Event(u32),
    /// This number of events was lost.
    Lost(u64),
    /// This number of events of a kind was lost in the whole recording, as perf counts at its end.
    LostInAll(u64),
    /// A task has this name.
    Name,
    /// A task begins, and has the name of this one.
    Fork(u32),
}

/// Returns the length of the record at the beginning of `bytes`, with its head.
pub(crate) fn length_of(bytes: &[u8]) -> usize {
    number(&bytes[6..HEAD_BYTES], false) as usize
}

/// Reads the records one after the other, and unpacks those that are packed.
pub(crate) struct Records {
    /// Offset in the file of the next byte that is not in the block.
    at: u64,
    end: u64,
    block: Vec<u8>,
    /// The current record in the block.
    record: (usize, usize),
    packed: Packed,
    /// The current record is in the block.
    is_in_file: bool,
}

impl Records {
    pub(crate) fn new(begin: u64, end: u64) -> Self {
        Records {
            at: begin,
            end,
            block: Vec::new(),
            record: (0, 0),
            packed: Packed::default(),
            is_in_file: false,
        }
    }

    /// Returns the current record.
    pub(crate) fn record(&self) -> &[u8] {
        match self.is_in_file {
            true => &self.block[self.record.0..self.record.1],
            false => self.packed.record().1,
        }
    }

    /// Whether perf left out the end of what it packed, at the end.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.packed.is_cut_off()
    }

    /// Goes to the next record, and returns its place in the file, or that of the packed one in which it ends; `None`
    /// at the end.
    pub(crate) fn next(&mut self, store: &Store) -> Result<Option<u64>, TraceError> {
        const PACKED: u64 = 81;
        /// With the length of what it holds, because padding follows.
        const PACKED_AND_PADDED: u64 = 83;
        /// Attributes, layouts and what a processor wrote: other bytes may stand behind them.
        const AT_ONCE: [u64; 3] = [64, 66, 71];
        self.is_in_file = false;
        loop {
            match self.packed.advance() {
                Next::Record => return Ok(Some(self.packed.record().0)),
                Next::Short(length) => return Err(too_short(store, self.packed.byte, length)),
                Next::Nothing => {}
            }
            let Some(byte) = self.next_in_file(store)? else {
                if self.packed.end().map_err(|what| damaged(store, self.packed.byte, &what))? {
                    continue;
                }
                return Ok(None);
            };
            let record = &self.block[self.record.0..self.record.1];
            let (kind, body) = (number(&record[..4], false), &record[HEAD_BYTES..]);
            let data = match kind {
                PACKED => Some(body),
                PACKED_AND_PADDED => body
                    .split_at_checked(8)
                    .and_then(|(length, data)| data.get(..usize::try_from(number(length, false)).ok()?)),
                _ if self.packed.any && !AT_ONCE.contains(&kind) => {
                    self.packed.add_plain(byte, record);
                    continue;
                }
                _ => {
                    self.is_in_file = true;
                    return Ok(Some(byte));
                }
            };
            let data = data.ok_or_else(|| damaged(store, byte, "a length beyond the record"))?;
            self.packed.add(byte, data).map_err(|what| damaged(store, byte, &what))?;
        }
    }

    /// Offset in the file of a place in the block.
    fn byte(&self, place: usize) -> u64 {
        self.at - (self.block.len() - place) as u64
    }

    /// Goes to the next record of the file, and returns its place; `None` at the end.
    fn next_in_file(&mut self, store: &Store) -> Result<Option<u64>, TraceError> {
        let begin = self.record.1;
        if !self.has(store, HEAD_BYTES)? {
            let byte = self.byte(self.record.1);
            if byte == self.end {
                return Ok(None);
            }
            return Err(store.error(byte, "a record of 8 bytes or more", "the end of the records"));
        }
        // What is before the current record may be gone now.
        let begin = begin.min(self.record.1);
        let byte = self.byte(begin);
        let length = length_of(&self.block[begin..]);
        if length < HEAD_BYTES {
            return Err(too_short(store, byte, length));
        }
        if !self.has(store, length)? {
            return Err(store.error(byte, &format!("a record of {length} bytes"), "the end of the records"));
        }
        let begin = self.record.1;
        self.record = (begin, begin + length);
        Ok(Some(byte))
    }

    /// Whether that many bytes come behind the current record; reads them.
    fn has(&mut self, store: &Store, bytes: usize) -> Result<bool, TraceError> {
        if self.block.len() - self.record.1 >= bytes {
            return Ok(true);
        }
        self.block.drain(..self.record.1);
        self.record = (0, 0);
        let length = self.block.len();
        let more = (self.end - self.at).min(BLOCK_BYTES as u64) as usize;
        self.block.resize(length + more, 0);
        store.read(self.at, &mut self.block[length..], "records")?;
        self.at += more as u64;
        Ok(self.block.len() >= bytes)
    }

    /// Goes past bytes behind the current record, and returns their place in the file.
    pub(crate) fn skip(&mut self, store: &Store, bytes: u64) -> Result<u64, TraceError> {
        let byte = self.byte(self.record.1);
        let rest = self.end - byte;
        if bytes > rest {
            let expected = format!("{bytes} bytes behind a record");
            return Err(store.error(byte, &expected, "the end of the records"));
        }
        self.at = byte + bytes;
        self.block.clear();
        self.record = (0, 0);
        Ok(byte)
    }
}

fn too_short(store: &Store, byte: u64, length: usize) -> TraceError {
    store.error(byte, "a record of 8 bytes or more", &length.to_string())
}

fn damaged(store: &Store, byte: u64, found: &str) -> TraceError {
    store.error(byte, "records packed with zstd", found)
}
