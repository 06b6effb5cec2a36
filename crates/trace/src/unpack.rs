// SPDX-License-Identifier: GPL-2.0-or-later
//! Unpacks what was packed with gzip, xz or zstd, block by block while it is read.
//!
//! Memory does not grow with the size of the input. A packer tells how much of what it unpacked an unpacker must keep
//! (the dictionary of xz, the window of zstd); what needs more than [`WINDOW_BYTES_MAX`] is refused before memory is
//! taken for it.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The largest dictionary or window: what `xz -9` needs twice over, and what `zstd --long` needs.
const WINDOW_BYTES_MAX: u64 = 128 << 20;
/// The same for xz, in KiB, with what its unpacker needs besides.
const XZ_KIB_MAX: u32 = (WINDOW_BYTES_MAX >> 10) as u32 + 1024;

/// A way to pack a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Xz,
    Zstd,
}

impl Packing {
    /// Returns how a file is packed that begins with `head`; `None` if it is not.
    pub(crate) fn of(head: &[u8]) -> Option<Packing> {
        [Packing::Gzip, Packing::Xz, Packing::Zstd]
            .into_iter()
            .find(|packing| head.starts_with(packing.magic()))
    }

    /// Returns how such files begin.
    pub(crate) const fn magic(self) -> &'static [u8] {
        match self {
            Packing::Gzip => b"\x1f\x8b",
            Packing::Xz => b"\xfd7zXZ\0",
            Packing::Zstd => b"\x28\xb5\x2f\xfd",
        }
    }

    /// Returns the command that unpacks such files.
    fn command(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Xz => "xz",
            Packing::Zstd => "zstd",
        }
    }

    /// Returns a reader of what `input` holds. Its errors say what is wrong, and before which byte of the packed input.
    pub(crate) fn unpack<'a>(self, input: impl Read + 'a) -> impl Read + 'a {
        let bytes_read = Rc::new(Cell::new(0));
        let input = BufReader::new(Counted { input, bytes: Rc::clone(&bytes_read) });
        let unpacker: Box<dyn Read + 'a> = match self {
            Packing::Gzip => Box::new(MultiGzDecoder::new(input)),
            Packing::Xz => Box::new(XzReader::new_mem_limit(input, true, XZ_KIB_MAX)),
            Packing::Zstd => Box::new(Zstd::new(input)),
        };
        Unpacked { unpacker, packing: self, bytes_read }
    }
}

/// Counts the bytes read.
struct Counted<R> {
    input: R,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let length = self.input.read(into)?;
        self.bytes.set(self.bytes.get() + length as u64);
        Ok(length)
    }
}

/// What a file holds, with errors that say where it is damaged.
struct Unpacked<'a> {
    unpacker: Box<dyn Read + 'a>,
    packing: Packing,
    /// How far the packed input was read.
    bytes_read: Rc<Cell<u64>>,
}

impl Read for Unpacked<'_> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let packing = self.packing.command();
        self.unpacker.read(into).map_err(|error| match error.kind() {
            ErrorKind::Interrupted => error,
            ErrorKind::OutOfMemory => Error::new(
                ErrorKind::OutOfMemory,
                format!(
                    "its {packing} data need a window of more than {} MiB, which is the most that is kept; unpack the \
                     file before: {packing} -dc",
                    WINDOW_BYTES_MAX >> 20
                ),
            ),
            kind => {
                let bytes = self.bytes_read.get();
                Error::new(kind, format!("damaged {packing} data before byte {bytes}: {error}"))
            }
        })
    }
}

/// Unpacks zstd's frames, one after the other.
struct Zstd<R> {
    input: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(input: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        Zstd { input, decoder, in_frame: false }
    }

    /// Goes to the next frame that holds something; returns false at the end.
    fn enter_frame(&mut self) -> Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    std::io::copy(&mut (&mut self.input).take(length.into()), &mut std::io::sink())?;
                }
                Err(error @ FrameDecoderError::WindowSizeTooBig { .. }) => {
                    return Err(Error::new(ErrorKind::OutOfMemory, error));
                }
                Err(error) => return Err(Error::new(ErrorKind::InvalidData, error)),
            }
        }
        Ok(false)
    }

    /// Checks at the end of a frame that what was unpacked is what had been packed.
    fn leave_frame(&mut self) -> Result<()> {
        self.in_frame = false;
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(expected), Some(found)) if expected != found => {
                Err(Error::new(ErrorKind::InvalidData, "the checksum is wrong"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        while !into.is_empty() {
            if !self.in_frame {
                self.in_frame = self.enter_frame()?;
                if !self.in_frame {
                    break;
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.input, one);
                decoded.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
            }
            let length = self.decoder.read(into)?;
            if length > 0 {
                return Ok(length);
            }
            self.leave_frame()?;
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use lzma_rust2::{XzOptions, XzWriter};
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    const ALL: [Packing; 3] = [Packing::Gzip, Packing::Xz, Packing::Zstd];

    /// What a packer makes of `data`; two parts, one behind the other, if `twice`.
    fn packed(packing: Packing, data: &[u8], twice: bool) -> Vec<u8> {
        let one = match packing {
            Packing::Gzip => {
                let mut packer = GzEncoder::new(Vec::new(), Compression::default());
                packer.write_all(data).and_then(|()| packer.finish()).expect("vectors take everything")
            }
            Packing::Xz => {
                let mut packer = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).expect("a preset");
                packer.write_all(data).and_then(|()| packer.finish()).expect("vectors take everything")
            }
            Packing::Zstd => compress_to_vec(data, CompressionLevel::Fastest),
        };
        if twice { [&one[..], &one[..]].concat() } else { one }
    }

    fn unpack(packing: Packing, data: &[u8]) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        packing.unpack(data).take(1 << 24).read_to_end(&mut all).map(|_| all)
    }

    #[test]
    fn what_was_packed_comes_back() {
        let data: Vec<u8> = (0..300_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for packing in ALL {
            let one = packed(packing, &data, false);
            assert!(one.len() < data.len() && Packing::of(&one) == Some(packing));
            assert!(unpack(packing, &one).expect("whole") == data);
            assert!(
                unpack(packing, &packed(packing, &data, true)).expect("two parts")
                    == [&data[..], &data].concat()
            );
        }
        let frame_to_skip = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
        let with_it = [&frame_to_skip[..], &packed(Packing::Zstd, b"text", false)].concat();
        assert_eq!(unpack(Packing::Zstd, &with_it).expect("skipped"), b"text");
    }

    #[test]
    fn what_is_cut_or_changed_is_refused() {
        let data = vec![7; 100_000];
        for packing in ALL {
            let whole = packed(packing, &data, false);
            let error = unpack(packing, &whole[..whole.len() - 3]).expect_err("cut").to_string();
            assert!(error.starts_with("damaged "), "{packing:?}: {error}");
        }
    }

    #[test]
    fn windows_beyond_the_limit_are_refused() {
        // zstd: a frame whose window descriptor says 2^41 bytes. xz: a block with a dictionary of 4 GiB - 1.
        let zstd =
            unpack(Packing::Zstd, b"\x28\xb5\x2f\xfd\x00\xf8\x01\0\0").expect_err("too large").to_string();
        assert!(zstd.contains("a window of more than 128 MiB") && zstd.ends_with("zstd -dc"), "{zstd}");
        let mut options = XzOptions::with_preset(0);
        options.lzma_options.dict_size = 1 << 16;
        let mut packer = XzWriter::new(Vec::new(), options).expect("options");
        packer.write_all(b"x").expect("vectors take everything");
        let mut xz = packer.finish().expect("vectors take everything");
        // The block's header: its size, flags, the filter's id, the size of its property, the property; a checksum.
        assert_eq!(xz[12..16], [2, 0, 0x21, 1]);
        xz[16] = 40;
        let header: [u8; 8] = xz[12..20].try_into().expect("8 bytes");
        xz[20..24].copy_from_slice(&crc32(&header).to_le_bytes());
        let xz = unpack(Packing::Xz, &xz).expect_err("too large").to_string();
        assert!(xz.contains("a window of more than 128 MiB") && xz.ends_with("xz -dc"), "{xz}");
    }

    fn crc32(data: &[u8]) -> u32 {
        let mut crc = flate2::Crc::new();
        crc.update(data);
        crc.sum()
    }

    proptest! {
        #[test]
        fn damage_neither_panics_nor_hangs(
            which in 0..3usize, at in any::<prop::sample::Index>(), bits in 1..=255u8, cut in any::<prop::sample::Index>(),
        ) {
            let data: Vec<u8> = (0..2_000u32).flat_map(|n| (n / 3).to_le_bytes()).collect();
            let mut bytes = packed(ALL[which], &data, true);
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
            let _ = unpack(ALL[which], &bytes);
            bytes.truncate(cut.index(bytes.len()));
            let _ = unpack(ALL[which], &bytes);
        }
    }
}
