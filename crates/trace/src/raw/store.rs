// SPDX-License-Identifier: GPL-2.0-or-later
//! A recording in bytes, of which any part can be read. A file stays on its disk. What comes through a pipe, or was
//! packed, is kept in memory, up to a limit.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use crate::TraceError;

/// The most that is kept of a recording that is no plain file.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// The most that is read at once of what a file says about itself. The largest part is the kernel's symbols, which are
/// skipped; the formats of all events have some megabytes.
const PART_BYTES_MAX: u64 = 64 << 20;

/// The bytes of a recording.
pub(crate) struct Store {
    name: String,
    data: Data,
    bytes: u64,
    /// Where these bytes stood in the file, if they were packed there. Errors then name that place.
    packed_at: Option<u64>,
}

enum Data {
    File(File),
    Memory(Vec<u8>),
}

impl Store {
    /// A plain file.
    pub(crate) fn of_file(file: File, name: &str) -> Result<Self, TraceError> {
        let metadata = file.metadata().map_err(|source| TraceError::Io { file: name.to_owned(), source })?;
        Ok(Store { name: name.to_owned(), bytes: metadata.len(), data: Data::File(file), packed_at: None })
    }

    /// All of `input`, up to the limit.
    pub(crate) fn of_stream(input: impl Read, name: &str) -> Result<Self, TraceError> {
        let mut data = Vec::new();
        let read = input.take(MEMORY_BYTES_MAX + 1).read_to_end(&mut data);
        read.map_err(|source| TraceError::Io { file: name.to_owned(), source })?;
        let store = Store::of_memory(data, name, None);
        if store.bytes > MEMORY_BYTES_MAX {
            let limit = format!("at most {} MiB through a pipe or packed", MEMORY_BYTES_MAX >> 20);
            return Err(store.error(
                MEMORY_BYTES_MAX,
                &limit,
                "more; save it to a file, or unpack it, before",
            ));
        }
        Ok(store)
    }

    /// What was packed at `packed_at`, if it was.
    pub(crate) fn of_memory(data: Vec<u8>, name: &str, packed_at: Option<u64>) -> Self {
        Store { name: name.to_owned(), bytes: data.len() as u64, data: Data::Memory(data), packed_at }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The error that something else was `expected` at a byte than what was `found`.
    pub(crate) fn error(&self, byte: u64, expected: &str, found: &str) -> TraceError {
        TraceError::Bytes {
            file: self.name.clone(),
            byte: self.packed_at.unwrap_or(byte),
            expected: expected.to_owned(),
            found: found.to_owned(),
        }
    }

    /// Checks that all of a part is there.
    pub(crate) fn check(&self, at: u64, bytes: u64, expected: &str) -> Result<(), TraceError> {
        match at.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => {
                let found = format!("the end of the file at byte {}", self.bytes);
                Err(self.error(at, &format!("{bytes} bytes of {expected}"), &found))
            }
        }
    }

    /// Fills `into` with the bytes from `at` on.
    pub(crate) fn read(&self, at: u64, into: &mut [u8], expected: &str) -> Result<(), TraceError> {
        self.check(at, into.len() as u64, expected)?;
        match &self.data {
            Data::File(file) => file
                .read_exact_at(into, at)
                .map_err(|source| TraceError::Io { file: self.name.clone(), source }),
            Data::Memory(data) => {
                // It fits, because it was checked against the length of the memory.
                into.copy_from_slice(&data[at as usize..][..into.len()]);
                Ok(())
            }
        }
    }

    /// Returns some bytes from `at` on.
    pub(crate) fn part(&self, at: u64, bytes: u64, expected: &str) -> Result<Vec<u8>, TraceError> {
        self.check(at, bytes, expected)?;
        if bytes > PART_BYTES_MAX {
            let limit = format!("at most {} MiB of {expected}", PART_BYTES_MAX >> 20);
            return Err(self.error(at, &limit, &format!("{bytes} bytes")));
        }
        let mut part = vec![0; bytes as usize];
        self.read(at, &mut part, expected)?;
        Ok(part)
    }
}

/// Reads numbers and names from a [`Store`], one after the other.
pub(crate) struct Reading<'s> {
    pub(crate) store: &'s Store,
    pub(crate) at: u64,
    pub(crate) is_big_endian: bool,
}

impl Reading<'_> {
    fn number<const BYTES: usize>(&mut self, expected: &str) -> Result<u64, TraceError> {
        let mut bytes = [0; BYTES];
        self.store.read(self.at, &mut bytes, expected)?;
        self.at += BYTES as u64;
        Ok(number(&bytes, self.is_big_endian))
    }

    pub(crate) fn u8(&mut self, expected: &str) -> Result<u8, TraceError> {
        self.number::<1>(expected).map(|number| number as u8)
    }

    pub(crate) fn u16(&mut self, expected: &str) -> Result<u16, TraceError> {
        self.number::<2>(expected).map(|number| number as u16)
    }

    pub(crate) fn u32(&mut self, expected: &str) -> Result<u32, TraceError> {
        self.number::<4>(expected).map(|number| number as u32)
    }

    pub(crate) fn u64(&mut self, expected: &str) -> Result<u64, TraceError> {
        self.number::<8>(expected)
    }

    pub(crate) fn part(&mut self, bytes: u64, expected: &str) -> Result<Vec<u8>, TraceError> {
        let part = self.store.part(self.at, bytes, expected)?;
        self.at += bytes;
        Ok(part)
    }

    pub(crate) fn skip(&mut self, bytes: u64, expected: &str) -> Result<(), TraceError> {
        self.store.check(self.at, bytes, expected)?;
        self.at += bytes;
        Ok(())
    }

    /// Reads a name that a NUL byte ends.
    pub(crate) fn name(&mut self, expected: &str) -> Result<String, TraceError> {
        const NAME_BYTES_MAX: u64 = 256;
        let rest = self.store.bytes().saturating_sub(self.at).min(NAME_BYTES_MAX);
        let part = self.store.part(self.at, rest, expected)?;
        let Some(length) = memchr::memchr(0, &part) else {
            return Err(self.store.error(self.at, expected, "no end of it"));
        };
        self.at += length as u64 + 1;
        Ok(String::from_utf8_lossy(&part[..length]).into_owned())
    }
}

/// Returns a number of up to 8 bytes.
pub(crate) fn number(bytes: &[u8], is_big_endian: bool) -> u64 {
    let next = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
    match is_big_endian {
        true => bytes.iter().fold(0, next),
        false => bytes.iter().rev().fold(0, next),
    }
}
