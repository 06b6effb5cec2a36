// SPDX-License-Identifier: GPL-2.0-or-later
//! Lines of text, one at a time, with their number; refuses what is not text before anybody parses it.

use std::io::{BufRead, Read};

use crate::TraceError;
use crate::error::excerpt_of_end;

/// No line of a recording comes near this; binary junk without newlines does, and must not fill the memory.
const MAX_LINE_BYTES: u64 = 1 << 16;

/// How perf's own binary files begin.
const PERF_DATA_MAGIC: &[u8] = b"PERFILE2";

pub(crate) struct Lines<R> {
    input: R,
    file: String,
    buffer: Vec<u8>,
    /// Lines read so far: the number of the current one.
    number: u64,
    /// Offset of the byte after the current line.
    end_byte: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R, file: &str) -> Self {
        Lines { input, file: file.to_owned(), buffer: Vec::new(), number: 0, end_byte: 0 }
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The current line's number; after the end, how many there were.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next line; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, TraceError> {
        self.buffer.clear();
        let length = (&mut self.input)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|source| TraceError::Io { file: self.file.clone(), source })?;
        if length == 0 {
            return Ok(false);
        }
        self.number += 1;
        let begin_byte = self.end_byte;
        self.end_byte += length as u64;

        if self.number == 1 && self.buffer.starts_with(PERF_DATA_MAGIC) {
            let hint = "; make text of it: perf script -i perf.data > FILE";
            return Err(self.not_text(begin_byte, "perf's binary format".to_owned(), hint));
        }
        if let Some(at) = self.buffer.iter().position(|&byte| byte == 0) {
            return Err(self.not_text(begin_byte + at as u64, "a NUL byte".to_owned(), ""));
        }
        if let Err(error) = std::str::from_utf8(&self.buffer) {
            let at = error.valid_up_to();
            let found = format!("byte {:#04x}, which is not UTF-8", self.buffer[at]);
            // A cut in the middle of a character is not UTF-8 either.
            return Err(self.not_text(begin_byte + at as u64, found, ""));
        }
        if self.buffer.last() != Some(&b'\n') {
            if length as u64 == MAX_LINE_BYTES {
                let found = format!("a line of more than {MAX_LINE_BYTES} bytes");
                return Err(self.not_text(begin_byte, found, ""));
            }
            return Err(TraceError::Cut {
                file: self.file.clone(),
                line: self.number,
                found: excerpt_of_end(self.text()),
            });
        }
        Ok(true)
    }

    /// The current line, without its end.
    pub(crate) fn text(&self) -> &str {
        // advance() has checked it, and refused it if this is not so.
        std::str::from_utf8(&self.buffer).unwrap_or_default().trim_end_matches(['\n', '\r'])
    }

    fn not_text(&self, byte: u64, found: String, hint: &'static str) -> TraceError {
        TraceError::NotText { file: self.file.clone(), line: self.number, byte, found, hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_error(input: &[u8]) -> String {
        let mut lines = Lines::new(input, "f");
        loop {
            match lines.advance() {
                Ok(true) => {}
                Ok(false) => return "none".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    }

    #[test]
    fn junk_is_named_by_line_and_byte() {
        assert_eq!(first_error(b"a\nb\n"), "none");
        assert_eq!(first_error(b"ab\nc\0d\n"), "f:2: byte 4: expected text, found a NUL byte");
        assert_eq!(
            first_error(b"ab\nc\xffd\n"),
            "f:2: byte 4: expected text, found byte 0xff, which is not UTF-8"
        );
        assert_eq!(first_error(b"ab\ncd"), "f:2: the recording is cut off: expected a newline after `cd`");
        assert_eq!(
            first_error(b"PERFILE2\x68\0\0"),
            "f:1: byte 0: expected text, found perf's binary format; make text of it: perf script -i perf.data > FILE"
        );
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let endless = std::io::BufReader::new(std::io::repeat(b'x'));
        let error = Lines::new(endless, "f").advance().unwrap_err();
        assert_eq!(error.to_string(), "f:1: byte 0: expected text, found a line of more than 65536 bytes");
    }
}
