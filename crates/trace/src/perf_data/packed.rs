// SPDX-License-Identifier: GPL-2.0-or-later
//! Records that `perf record -z` packed with zstd.
//!
//! perf packs what it takes from a buffer, and writes it into as many records of one kind as needed. All of them
//! together are one stream of zstd that never ends, and a record may begin in one of them and end in the next. Between
//! them stand records that are not packed, such as the end of a round. They must keep their place among the others.
//!
//! An unpacker holds back what it unpacked last, one window of it, because later data may repeat it. So a record that
//! is not packed waits until what was packed before it has been given out. Its place is the number of bytes unpacked
//! before it. The unpacker tells how much it holds beyond one window, but not how much it holds in the first window.
//! Therefore the stream begins with blocks of our own that fill the window; they are not given out.
//!
//! perf does not write what zstd still holds when the last record is full (perf 6.1, with large buffers). Then the
//! last block has no end, and events of the recording's end are lost; their number is unknown.

use std::collections::VecDeque;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::perf_data::records::{HEAD_BYTES, length_of};
use crate::raw::store::number;

/// The largest window: perf's levels, up to 22, need this much.
const WINDOW_BYTES_MAX: u64 = 128 << 20;

/// The length of a block that fills the window: the smallest window, because no block may be longer than the window.
const FILL_BYTES: u64 = 1 << 10;

/// The header of a block: whether it is the last one, its kind, and its length.
const BLOCK_HEAD_BYTES: usize = 3;

/// What ends a frame: an empty last block, and room for a checksum.
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// Something between the packed records.
struct Mark {
    /// The number of bytes unpacked before it.
    at: u64,
    /// Its place in the file.
    byte: u64,
    /// A record that is not packed. `None`: a packed one, of which the next bytes come.
    record: Option<Vec<u8>>,
}

/// Whether there is a next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is, and [`Packed::record`] returns it.
    Record,
    /// Not before more is unpacked.
    Nothing,
    /// It has this length, which is too short.
    Short(usize),
}

/// The packed records of a file.
#[derive(Default)]
pub(crate) struct Packed {
    stream: Stream,
    marks: VecDeque<Mark>,
    /// Records that were unpacked, up to the last byte that was given out.
    ready: Vec<u8>,
    /// Where the next record begins among them.
    next: usize,
    /// The bytes of all records given out before `ready`.
    forgotten: u64,
    /// The current record, if it is not packed.
    plain: Option<(u64, Vec<u8>)>,
    /// The length of the current record, if it was packed.
    length: usize,
    /// The place in the file of the packed record that the next bytes come from.
    pub(crate) byte: u64,
    pub(crate) any: bool,
}

impl Packed {
    /// Unpacks what a packed record holds, which stands at `byte`. The error says what is wrong.
    pub(crate) fn add(&mut self, byte: u64, data: &[u8]) -> Result<(), String> {
        self.any = true;
        self.marks.push_back(Mark { at: self.stream.unpacked, byte, record: None });
        self.forget();
        self.stream.add(data, &mut self.ready)
    }

    /// Notes a record that is not packed.
    pub(crate) fn add_plain(&mut self, byte: u64, record: &[u8]) {
        let record = Some(record.to_vec());
        self.marks.push_back(Mark { at: self.stream.unpacked, byte, record });
    }

    /// Gives out what was held back; returns false if nothing was. No more comes after it.
    pub(crate) fn end(&mut self) -> Result<bool, String> {
        self.forget();
        self.stream.end(&mut self.ready)
    }

    /// Whether the last packed block or the last record was cut off, at the end.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.next < self.ready.len() || !self.stream.packed.is_empty()
    }

    /// Makes room.
    fn forget(&mut self) {
        self.forgotten += self.next as u64;
        self.ready.drain(..std::mem::take(&mut self.next));
    }

    /// Returns the current record, and its place in the file, or that of the packed one in which it ends.
    pub(crate) fn record(&self) -> (u64, &[u8]) {
        match &self.plain {
            Some((byte, record)) => (*byte, record),
            None => (self.byte, &self.ready[self.next - self.length..self.next]),
        }
    }

    /// Goes to the next record.
    pub(crate) fn advance(&mut self) -> Next {
        self.plain = None;
        loop {
            let begin = self.forgotten + self.next as u64;
            let ready = &self.ready[self.next..];
            let length = if ready.len() < HEAD_BYTES { None } else { Some(length_of(ready)) };
            // A record has its head at least.
            let end = begin + length.unwrap_or(HEAD_BYTES) as u64;
            let is_due = self.marks.front().is_some_and(|mark| mark.at < end);
            if let Some(mark) = is_due.then(|| self.marks.pop_front()).flatten() {
                match mark.record {
                    None => self.byte = mark.byte,
                    Some(record) => {
                        self.plain = Some((mark.byte, record));
                        return Next::Record;
                    }
                }
                continue;
            }
            return match length {
                Some(length) if length < HEAD_BYTES => Next::Short(length),
                Some(length) if length <= ready.len() => {
                    self.next += length;
                    self.length = length;
                    Next::Record
                }
                _ => Next::Nothing,
            };
        }
    }
}

/// A stream of zstd that comes in parts.
struct Stream {
    decoder: FrameDecoder,
    in_frame: bool,
    has_checksum: bool,
    /// What cannot be unpacked before more comes.
    packed: Vec<u8>,
    /// How many bytes of the blocks that fill the window have not been given out, and must not be.
    fill: u64,
    /// The bytes of those blocks that the decoder held back when it had them all.
    window: u64,
    /// The bytes given out, without those blocks.
    given: u64,
    /// The bytes unpacked, without those blocks.
    unpacked: u64,
}

impl Default for Stream {
    fn default() -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        Stream {
            decoder,
            in_frame: false,
            has_checksum: false,
            packed: Vec::new(),
            fill: 0,
            window: 0,
            given: 0,
            unpacked: 0,
        }
    }
}

impl Stream {
    /// Unpacks a part, and appends to `into` what the decoder does not hold back.
    fn add(&mut self, data: &[u8], into: &mut Vec<u8>) -> Result<(), String> {
        let mut packed = std::mem::take(&mut self.packed);
        packed.extend_from_slice(data);
        let mut rest = &packed[..];
        while self.in_frame || !rest.is_empty() {
            if !self.in_frame {
                self.enter(&mut rest)?;
            }
            let Some(length) = block_bytes(rest, self.has_checksum) else { break };
            let (mut block, behind) = rest.split_at(length);
            let one = BlockDecodingStrategy::UptoBlocks(1);
            let ended = self.decoder.decode_blocks(&mut block, one).map_err(|error| error.to_string())?;
            rest = behind;
            self.collect(into)?;
            self.in_frame = !ended;
        }
        let from = packed.len() - rest.len();
        packed.drain(..from);
        self.packed = packed;
        Ok(())
    }

    /// Begins a frame, and fills its window.
    fn enter(&mut self, rest: &mut &[u8]) -> Result<(), String> {
        const CHECKSUM: u8 = 1 << 2;
        self.has_checksum = rest.get(4).is_some_and(|descriptor| descriptor & CHECKSUM != 0);
        self.decoder.reset(rest).map_err(|error| error.to_string())?;
        self.in_frame = true;
        (self.fill, self.window) = (0, 0);
        let [low, middle, high, _] = ((FILL_BYTES << 3) as u32 | 1 << 1).to_le_bytes();
        while self.decoder.can_collect() == 0 {
            let block = [low, middle, high, 0];
            let one = BlockDecodingStrategy::UptoBlocks(1);
            self.decoder.decode_blocks(&block[..], one).map_err(|error| error.to_string())?;
            self.fill += FILL_BYTES;
        }
        self.window = self.fill - self.decoder.can_collect() as u64;
        Ok(())
    }

    /// Appends to `into` what the decoder does not hold back.
    fn collect(&mut self, into: &mut Vec<u8>) -> Result<(), String> {
        let can_collect = self.decoder.can_collect() as u64;
        let held_back = if self.decoder.is_finished() { 0 } else { self.window };
        self.unpacked = self.given + (can_collect + held_back).saturating_sub(self.fill);
        let begin = into.len();
        self.decoder.collect_to_writer(&mut *into).map_err(|error| error.to_string())?;
        let fill = self.fill.min((into.len() - begin) as u64);
        into.drain(begin..begin + fill as usize);
        self.fill -= fill;
        self.given += (into.len() - begin) as u64;
        Ok(())
    }

    /// Appends to `into` what the decoder holds back, if it does.
    fn end(&mut self, into: &mut Vec<u8>) -> Result<bool, String> {
        if !std::mem::take(&mut self.in_frame) {
            return Ok(false);
        }
        let one = BlockDecodingStrategy::UptoBlocks(1);
        self.decoder.decode_blocks(&LAST_BLOCK[..], one).map_err(|error| error.to_string())?;
        self.collect(into).map(|()| true)
    }
}

/// Returns the length of the block at the beginning of `data`, with its head; `None` if more must come.
fn block_bytes(data: &[u8], has_checksum: bool) -> Option<usize> {
    const REPEATED_BYTE: u64 = 1;
    let head = number(data.get(..BLOCK_HEAD_BYTES)?, false);
    let content = if head >> 1 & 3 == REPEATED_BYTE { 1 } else { (head >> 3) as usize };
    let is_last = head & 1 == 1;
    let length = BLOCK_HEAD_BYTES + content + if is_last && has_checksum { 4 } else { 0 };
    (length <= data.len()).then_some(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// Records of several lengths, whose bodies are their numbers.
    fn records(count: u32) -> Vec<Vec<u8>> {
        let record = |number: u32| {
            let length = HEAD_BYTES + 8 * (number % 7) as usize;
            let mut record = vec![9, 0, 0, 0, 0, 0];
            record.extend((length as u16).to_le_bytes());
            record.extend(number.to_le_bytes().iter().cycle().take(length - HEAD_BYTES));
            record
        };
        (0..count).map(record).collect()
    }

    /// Packs `data` as perf does: a frame that has blocks, and no end. The window has 1 KiB, so it is passed.
    fn endless(data: &[u8]) -> Vec<u8> {
        let mut packed = b"\x28\xb5\x2f\xfd\0\0".to_vec();
        for part in data.chunks(600) {
            packed.extend(&(part.len() as u32 * 8).to_le_bytes()[..3]);
            packed.extend(part);
        }
        packed
    }

    /// What comes of packed parts with a plain record behind each, and at the end.
    fn all(parts: &[&[u8]]) -> Result<Vec<Vec<u8>>, String> {
        let mut packed = Packed::default();
        let mut all = Vec::new();
        let mut take = |packed: &mut Packed| {
            while packed.advance() == Next::Record {
                all.push(packed.record().1.to_vec());
            }
        };
        for (number, part) in parts.iter().enumerate() {
            packed.add(number as u64, part)?;
            take(&mut packed);
            packed.add_plain(number as u64, &plain(number));
            take(&mut packed);
        }
        packed.end()?;
        take(&mut packed);
        assert!(!packed.is_cut_off());
        Ok(all)
    }

    fn plain(number: usize) -> Vec<u8> {
        vec![68, 0, 0, 0, 0, number as u8, 8, 0]
    }

    #[test]
    fn what_is_not_packed_keeps_its_place() {
        // Three packed parts of 100 records each, and one part that ends in the middle of a record.
        let records = records(300);
        let bytes = |range: std::ops::Range<usize>| records[range].concat();
        let packed: Vec<Vec<u8>> = [0..100, 100..200, 200..300].map(|range| endless(&bytes(range))).into();
        let head = 6;
        let parts = [&packed[0][..], &packed[1][head..], &packed[2][head..packed[2].len()]];
        let expected: Vec<Vec<u8>> = (0..3)
            .flat_map(|part| {
                let of_part = records[part * 100..][..100].iter().cloned();
                of_part.chain([plain(part)])
            })
            .collect();
        assert!(all(&parts).expect("whole") == expected);
    }

    #[test]
    fn a_record_that_goes_on_comes_after_what_stands_in_between() {
        let records = records(3);
        let data = records.concat();
        // The third record begins in the first part, and ends in the second.
        let (one, two) = data.split_at(data.len() - 5);
        let (one, two) = (endless(one), endless(two));
        let expected = [&records[0], &records[1], &plain(0), &records[2], &plain(1)].map(Clone::clone);
        assert_eq!(all(&[&one, &two[6..]]).expect("whole"), expected);
    }

    #[test]
    fn what_is_cut_off_is_told() {
        let record = &records(9)[6];
        let whole = endless(record);
        for part in [&whole[..whole.len() - 1], &endless(&record[..20])] {
            let mut packed = Packed::default();
            packed.add(7, part).expect("blocks");
            assert_eq!(packed.end(), Ok(true));
            assert_eq!(packed.advance(), Next::Nothing);
            assert!(packed.is_cut_off() && packed.end() == Ok(false));
        }
        let mut packed = Packed::default();
        packed.add(7, &endless(&[9, 0, 0, 0, 0, 0, 3, 0])).expect("a block");
        packed.end().expect("the end of a frame");
        assert_eq!(packed.advance(), Next::Short(3));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn parts_may_end_anywhere(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6), twice: bool) {
            let records = records(500);
            let mut packed = compress_to_vec(&records.concat()[..], CompressionLevel::Fastest);
            if twice {
                packed = [&packed[..], &packed[..]].concat();
            }
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(packed.len())).collect();
            places.sort_unstable();
            // The header of a frame comes whole, because perf never cuts it.
            places.retain(|place| place % (packed.len() / if twice { 2 } else { 1 }) > 18);
            places.push(packed.len());
            let mut from = 0;
            let mut parts = Vec::new();
            for place in places {
                parts.push(&packed[from..place]);
                from = place;
            }
            let is_plain = |record: &Vec<u8>| record[0] == 68;
            let all = all(&parts).expect("whole");
            prop_assert_eq!(all.iter().filter(|record| is_plain(record)).count(), parts.len());
            let unpacked: Vec<Vec<u8>> = all.into_iter().filter(|record| !is_plain(record)).collect();
            let expected = if twice { [&records[..], &records[..]].concat() } else { records };
            prop_assert!(unpacked == expected);
        }

        #[test]
        fn damage_neither_panics_nor_hangs(at in any::<prop::sample::Index>(), bits in 1..=255u8) {
            let mut packed = compress_to_vec(&records(100).concat()[..], CompressionLevel::Fastest);
            let at = at.index(packed.len());
            packed[at] ^= bits;
            let mut all = Packed::default();
            let _ = all.add(0, &packed).and_then(|()| all.end());
            while all.advance() == Next::Record {}
        }
    }
}
