// SPDX-License-Identifier: GPL-2.0-or-later
//! The pages of the kernel's ring buffer, of one CPU, in the order of time.
//!
//! A page has a time, the number of bytes in use (`commit`), and events. Each event begins with 32 bits: 5 for its kind
//! or length, 27 for the time since the event before. Kinds that are no events carry the rest of a longer time, a whole
//! time, or nothing. Two bits of `commit` tell that events were lost before the page, and that their number stands
//! behind the page's last event. The kernel says the same in `events/header_event`.

use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::TraceError;
use crate::raw::store::{Store, number};
use crate::unpack::Packing;

/// The places in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) page_bytes: usize,
    pub(crate) time: usize,
    pub(crate) commit: usize,
    pub(crate) commit_bytes: usize,
    pub(crate) data: usize,
    pub(crate) is_big_endian: bool,
}

impl Shape {
    /// Whether the header comes before the data, and the data begin inside a page.
    pub(crate) fn is_possible(&self) -> bool {
        let header = |at: usize, bytes: usize| at.checked_add(bytes).is_some_and(|end| end <= self.data);
        header(self.time, 8)
            && header(self.commit, self.commit_bytes)
            && matches!(self.commit_bytes, 4 | 8)
            && self.data < self.page_bytes
    }
}

/// Where a CPU's pages come from.
pub(crate) enum Data {
    Plain { shape: Shape, at: u64, end: u64 },
    Packed { shape: Shape, chunks: Chunked },
}

/// Pages packed in chunks of several.
pub(crate) struct Chunked {
    packing: &'static str,
    /// Where the next chunk is.
    at: u64,
    /// Where the last one ends.
    end: u64,
    /// Chunks not read yet; `None` before their number was read.
    left: Option<u32>,
    chunk: Vec<u8>,
    /// Where the chunk was.
    chunk_at: u64,
    /// How much of it was read.
    used: usize,
}

/// The largest chunk, unpacked. trace-cmd packs ten pages at once.
const CHUNK_BYTES_MAX: u32 = 64 << 20;

impl Chunked {
    pub(crate) fn new(packing: &'static str, at: u64, end: u64) -> Self {
        Chunked { packing, at, end, left: None, chunk: Vec::new(), chunk_at: at, used: 0 }
    }

    /// Fills `page`; returns where it came from, `None` at the end.
    fn next_page(
        &mut self,
        store: &Store,
        shape: &Shape,
        page: &mut Vec<u8>,
    ) -> Result<Option<u64>, TraceError> {
        while self.used == self.chunk.len() {
            if !self.next_chunk(store, shape)? {
                return Ok(None);
            }
        }
        let length = shape.page_bytes.min(self.chunk.len() - self.used);
        page.clear();
        page.extend_from_slice(&self.chunk[self.used..self.used + length]);
        self.used += length;
        Ok(Some(self.chunk_at))
    }

    fn next_chunk(&mut self, store: &Store, shape: &Shape) -> Result<bool, TraceError> {
        let mut reading =
            crate::raw::store::Reading { store, at: self.at, is_big_endian: shape.is_big_endian };
        let left = match self.left {
            Some(left) => left,
            None => reading.u32("the number of packed chunks")?,
        };
        let Some(rest) = left.checked_sub(1) else { return Ok(false) };
        let chunk_at = reading.at;
        let packed = reading.u32("the packed length of a chunk")?;
        let unpacked = reading.u32("the length of a chunk")?;
        let data = reading.part(packed.into(), "a packed chunk")?;
        if reading.at > self.end {
            let expected = format!("a packed chunk that ends before byte {}", self.end);
            return Err(store.error(chunk_at, &expected, "a longer one"));
        }
        self.chunk = unpack(self.packing, &data, unpacked)
            .map_err(|found| store.error(chunk_at, "a packed chunk of pages", &found))?;
        (self.left, self.at, self.chunk_at, self.used) = (Some(rest), reading.at, chunk_at, 0);
        Ok(true)
    }
}

/// Unpacks data that must have `bytes` bytes then. The error says what they have instead.
pub(crate) fn unpack(packing: &str, data: &[u8], bytes: u32) -> Result<Vec<u8>, String> {
    if bytes > CHUNK_BYTES_MAX {
        return Err(format!("{bytes} bytes, and at most {CHUNK_BYTES_MAX} are unpacked at once"));
    }
    let mut unpacked = Vec::new();
    let limit = u64::from(bytes) + 1;
    let result = match packing {
        "zstd" => Packing::Zstd.unpack(data).take(limit).read_to_end(&mut unpacked),
        "zlib" => ZlibDecoder::new(data).take(limit).read_to_end(&mut unpacked),
        _ => return Err("no packing in the file's head".to_owned()),
    };
    match result {
        Err(error) => Err(error.to_string()),
        Ok(length) if length != bytes as usize => Err(format!("{length} bytes instead of {bytes}")),
        Ok(_) => Ok(unpacked),
    }
}

/// The events of one CPU.
pub(crate) struct Pages {
    pub(crate) cpu: u32,
    data: Data,
    page: Vec<u8>,
    /// Where the page is in the file.
    page_at: u64,
    /// Where the next event begins in the page.
    next: usize,
    /// Where the page's last event ends.
    end: usize,
    time: u64,
    event: (usize, usize),
    /// Events lost before the current one; the kernel does not always tell how many.
    lost: Option<u64>,
}

/// Kinds of entries that are no events. Others tell the event's length: their number of 4-byte words, or 0 if the
/// length comes next.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const TIME_BITS: u32 = 27;

impl Pages {
    pub(crate) fn new(cpu: u32, data: Data) -> Self {
        Pages { cpu, data, page: Vec::new(), page_at: 0, next: 0, end: 0, time: 0, event: (0, 0), lost: None }
    }

    /// Returns the time of the current event, by the recorder's clock.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// Returns where the current event is in the file.
    pub(crate) fn byte(&self) -> u64 {
        match self.data {
            Data::Plain { .. } => self.page_at + self.event.0 as u64,
            Data::Packed { .. } => self.page_at,
        }
    }

    /// Returns the current event.
    pub(crate) fn event(&mut self) -> &mut [u8] {
        &mut self.page[self.event.0..self.event.1]
    }

    /// Returns how many events were lost before the current one, once.
    pub(crate) fn take_lost(&mut self) -> Option<u64> {
        self.lost.take()
    }

    /// Goes to the next event; returns false at the end.
    pub(crate) fn advance(&mut self, store: &Store) -> Result<bool, TraceError> {
        loop {
            while self.next < self.end {
                if self.next_entry(store)? {
                    return Ok(true);
                }
            }
            if !self.next_page(store)? {
                return Ok(false);
            }
        }
    }

    /// Goes to the next page; returns false at the end.
    fn next_page(&mut self, store: &Store) -> Result<bool, TraceError> {
        let (shape, page_at) = match &mut self.data {
            Data::Plain { shape, at, end } => {
                let page_at = *at;
                let length = (*end - *at).min(shape.page_bytes as u64) as usize;
                self.page.resize(length, 0);
                store.read(page_at, &mut self.page, "a page of events")?;
                *at += length as u64;
                (*shape, (length > 0).then_some(page_at))
            }
            Data::Packed { shape, chunks } => (*shape, chunks.next_page(store, shape, &mut self.page)?),
        };
        let Some(page_at) = page_at else { return Ok(false) };
        self.page_at = page_at;
        if self.page.len() < shape.data {
            let found = format!("{} bytes", self.page.len());
            return Err(store.error(page_at, "a page with a header", &found));
        }
        let commit_bytes = &self.page[shape.commit..shape.commit + shape.commit_bytes];
        let commit = number(commit_bytes, shape.is_big_endian);
        let used = (commit & 0x07ff_ffff) as usize;
        self.time = number(&self.page[shape.time..shape.time + 8], shape.is_big_endian);
        (self.next, self.end) = (shape.data, shape.data.saturating_add(used));
        if self.end > self.page.len() {
            let expected = format!("a page with at most {} bytes of events", self.page.len() - shape.data);
            return Err(store.error(page_at, &expected, &used.to_string()));
        }
        self.note_lost(commit, &shape);
        Ok(true)
    }

    fn note_lost(&mut self, commit: u64, shape: &Shape) {
        const MISSED: u64 = 1 << 31;
        const COUNT_STORED: u64 = 1 << 30;
        if commit & MISSED != 0 {
            let stored = self.page.get(self.end..self.end + shape.commit_bytes);
            let count = stored.filter(|_| commit & COUNT_STORED != 0);
            let count = count.map_or(1, |count| number(count, shape.is_big_endian));
            self.lost = Some(self.lost.unwrap_or(0).saturating_add(count.max(1)));
        }
    }

    /// Reads an entry; returns whether it is an event.
    fn next_entry(&mut self, store: &Store) -> Result<bool, TraceError> {
        let is_big_endian = match &self.data {
            Data::Plain { shape, .. } | Data::Packed { shape, .. } => shape.is_big_endian,
        };
        let begin = self.next;
        let word = |at: usize| {
            let bytes = self.page[..self.end].get(at..at + 4)?;
            Some(number(bytes, is_big_endian) as u32)
        };
        let cut = |page_at: u64| store.error(page_at + begin as u64, "an event inside its page", "its end");
        let header = word(begin).ok_or_else(|| cut(self.page_at))?;
        let (kind, since) = match is_big_endian {
            true => (header >> TIME_BITS, header & ((1 << TIME_BITS) - 1)),
            false => (header & 31, header >> 5),
        };
        let after = begin + 4;
        let second = if matches!(kind, 0 | PADDING | TIME_EXTEND | TIME_STAMP) {
            word(after).ok_or_else(|| cut(self.page_at))?
        } else {
            0
        };
        let long = u64::from(second) << TIME_BITS | u64::from(since);
        let (time, data, length) = match kind {
            // Without a time it fills the rest of the page.
            PADDING if since == 0 => (self.time, self.end, 0),
            PADDING => (self.time.wrapping_add(since.into()), after, second as usize),
            TIME_EXTEND => (self.time.wrapping_add(long), after + 4, 0),
            // A whole time has 59 bits; the others are those of the page.
            TIME_STAMP => (long | self.time & 0xf8 << 56, after + 4, 0),
            0 => (self.time.wrapping_add(since.into()), after + 4, (second as usize).saturating_sub(4)),
            words => (self.time.wrapping_add(since.into()), after, words as usize * 4),
        };
        let next = data.saturating_add(length.saturating_add(3) & !3);
        if next > self.end {
            return Err(cut(self.page_at));
        }
        (self.time, self.next, self.event) = (time, next, (data, data + length));
        Ok(!matches!(kind, PADDING | TIME_EXTEND | TIME_STAMP))
    }
}
