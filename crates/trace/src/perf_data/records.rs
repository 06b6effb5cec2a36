// SPDX-License-Identifier: GPL-2.0-or-later
//! The records of a perf file: each has its kind, some bits and its length, in 8 bytes, and what it says.

use crate::TraceError;
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

/// Reads the records one after the other.
pub(crate) struct Records {
    /// Offset in the file of the next byte that is not in the block.
    at: u64,
    end: u64,
    block: Vec<u8>,
    /// The current record in the block.
    record: (usize, usize),
}

impl Records {
    pub(crate) fn new(begin: u64, end: u64) -> Self {
        Records { at: begin, end, block: Vec::new(), record: (0, 0) }
    }

    /// Returns the current record.
    pub(crate) fn record(&self) -> &[u8] {
        &self.block[self.record.0..self.record.1]
    }

    /// Offset in the file of a place in the block.
    fn byte(&self, place: usize) -> u64 {
        self.at - (self.block.len() - place) as u64
    }

    /// Goes to the next record, and returns its place in the file; `None` at the end.
    pub(crate) fn next(&mut self, store: &Store) -> Result<Option<u64>, TraceError> {
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
        let length = number(&self.block[begin + 6..begin + 8], false) as usize;
        if length < HEAD_BYTES {
            return Err(store.error(byte, "a record of 8 bytes or more", &length.to_string()));
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
