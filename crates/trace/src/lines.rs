// SPDX-License-Identifier: GPL-2.0-or-later
//! Lines of text, one at a time, with their number; refuses what is not text before anybody parses it.
//!
//! Lines are found in blocks of the input. Each is checked once and copied to where its readers can have it as text.

use std::io::{ErrorKind, Read};

use memchr::memchr;

use crate::TraceError;
use crate::error::excerpt_of_end;

/// No line of a recording comes near this; binary junk without newlines does, and must not fill the memory.
const MAX_LINE_BYTES: usize = 1 << 16;
/// What is read at once.
const BLOCK_BYTES: usize = 1 << 18;

/// How binary recordings begin, what they are, and what to do about it.
const BINARY: [(&[u8], &str, &str); 2] = [
    (b"PERFILE2", "perf's binary format", "; make text of it: perf script -i perf.data > FILE"),
    (
        b"\x17\x08\x44tracing",
        "trace-cmd's binary format",
        "; make text of it: trace-cmd report -t trace.dat > FILE",
    ),
];

pub(crate) struct Lines<R> {
    input: R,
    file: String,
    buffer: Vec<u8>,
    /// The current line, with its newline.
    begin: usize,
    end: usize,
    /// Bytes of the buffer that were read.
    filled: usize,
    /// Offset in the file of the buffer's first byte.
    offset: u64,
    /// Lines read so far: the number of the current one.
    number: u64,
    /// The current line, without its end.
    text: String,
    /// The next line is the current one again.
    again: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R, file: &str) -> Self {
        Lines {
            input,
            file: file.to_owned(),
            buffer: vec![0; BLOCK_BYTES],
            begin: 0,
            end: 0,
            filled: 0,
            offset: 0,
            number: 0,
            text: String::new(),
            again: false,
        }
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The current line's number; after the end, how many there were.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// [`Lines::advance`] will deliver the current line once more.
    pub(crate) fn again(&mut self) {
        self.again = true;
    }

    /// Reads the next line; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, TraceError> {
        if std::mem::take(&mut self.again) {
            return Ok(true);
        }
        self.begin = self.end;
        let mut searched = self.begin;
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[searched..self.filled]) {
                self.end = searched + at + 1;
                break;
            }
            searched = self.filled;
            if searched - self.begin >= MAX_LINE_BYTES {
                self.end = self.begin + MAX_LINE_BYTES;
                break;
            }
            let moved = self.begin;
            if !self.fill()? {
                self.end = self.filled;
                break;
            }
            searched -= moved - self.begin;
        }
        if self.begin == self.end {
            return Ok(false);
        }
        self.number += 1;
        self.check().map(|()| true)
    }

    /// Reads another block behind the current line, which moves to the front; false at the end.
    fn fill(&mut self) -> Result<bool, TraceError> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.filled, 0);
            self.offset += self.begin as u64;
            self.filled -= self.begin;
            self.begin = 0;
        }
        loop {
            // There is room: a line is shorter than a block.
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(length) => {
                    self.filled += length;
                    return Ok(length > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(TraceError::Io { file: self.file.clone(), source }),
            }
        }
    }

    fn check(&mut self) -> Result<(), TraceError> {
        let line = &self.buffer[self.begin..self.end];
        if self.number == 1
            && let Some((_, what, hint)) = BINARY.iter().find(|(magic, ..)| line.starts_with(magic))
        {
            return Err(self.not_text(0, (*what).to_owned(), hint));
        }
        if let Some(at) = memchr(0, line) {
            return Err(self.not_text(at, "a NUL byte".to_owned(), ""));
        }
        let text = match std::str::from_utf8(line) {
            Ok(text) => text.trim_end_matches(['\n', '\r']),
            Err(error) => {
                let at = error.valid_up_to();
                let found = format!("byte {:#04x}, which is not UTF-8", line[at]);
                // A cut in the middle of a character is not UTF-8 either.
                return Err(self.not_text(at, found, ""));
            }
        };
        if line.last() != Some(&b'\n') {
            if line.len() == MAX_LINE_BYTES {
                let found = format!("a line of more than {MAX_LINE_BYTES} bytes");
                return Err(self.not_text(0, found, ""));
            }
            let found = excerpt_of_end(text);
            return Err(TraceError::Cut { file: self.file.clone(), line: self.number, found });
        }
        self.text.clear();
        self.text.push_str(text);
        Ok(())
    }

    /// The current line, without its end.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// `at`: offset in the line.
    fn not_text(&self, at: usize, found: String, hint: &'static str) -> TraceError {
        let byte = self.offset + (self.begin + at) as u64;
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
        assert_eq!(
            first_error(b"\x17\x08\x44tracing6\0"),
            "f:1: byte 0: expected text, found trace-cmd's binary format; make text of it: trace-cmd report -t trace.dat > FILE"
        );
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let error = Lines::new(std::io::repeat(b'x'), "f").advance().unwrap_err();
        assert_eq!(error.to_string(), "f:1: byte 0: expected text, found a line of more than 65536 bytes");
    }

    /// Delivers a few bytes at a time, as a pipe may.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let length = self.1.min(self.0.len()).min(into.len());
            into[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn lines_are_the_same_however_the_input_comes() {
        // Longer than a block, with lines of every length, so that blocks end everywhere in them.
        let expected: Vec<String> = (0..2500).map(|length| "é".repeat(length % 400)).collect();
        let text = expected.join("\n") + "\n";
        assert!(text.len() > 2 * BLOCK_BYTES);
        for at_once in [1, 7, 4096, usize::MAX] {
            let mut lines = Lines::new(Drip(text.as_bytes(), at_once), "f");
            for (number, line) in expected.iter().enumerate() {
                assert!(lines.advance().expect("text"));
                assert_eq!((lines.text(), lines.number()), (line.as_str(), number as u64 + 1));
            }
            assert!(!lines.advance().expect("the end"));
        }
    }

    #[test]
    fn a_line_may_be_read_again() {
        let mut lines = Lines::new(&b"a\nb\n"[..], "f");
        assert!(lines.advance().expect("a"));
        lines.again();
        assert!(lines.advance().expect("a again"));
        assert_eq!((lines.text(), lines.number()), ("a", 1));
        assert!(lines.advance().expect("b"));
        assert_eq!((lines.text(), lines.number()), ("b", 2));
    }
}
