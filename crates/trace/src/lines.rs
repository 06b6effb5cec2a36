// SPDX-License-Identifier: GPL-2.0-or-later
//! Lines of text, one at a time, with their number.
//!
//! Lines are found in blocks of the input. Each is checked once and copied to where its reader can have it as text.
//! Bytes that are not UTF-8 become `?`, one for one, so that columns stay where they are: the kernel cuts the names of
//! tasks to 15 bytes, also in the middle of a character. A NUL byte is in no name, so a file with one is not text.

use std::io::{ErrorKind, Read};

use memchr::memchr;

use crate::TraceError;
use crate::error::excerpt_of_end;
use crate::event::Place;

/// Longest line. No recording comes near this, but binary junk without newlines does, and must not fill the memory.
const MAX_LINE_BYTES: usize = 1 << 16;
/// Number of bytes that are read at once.
const BLOCK_BYTES: usize = 1 << 18;

pub(crate) struct Lines<'a> {
    input: Box<dyn Read + 'a>,
    file: String,
    buffer: Vec<u8>,
    /// The line that was read last, with its newline.
    begin: usize,
    end: usize,
    /// Bytes of the buffer that were read.
    filled: usize,
    /// Offset in the file of the buffer's first byte.
    offset: u64,
    /// Lines read so far.
    lines_read: u64,
    /// Number of the current text's first line.
    number: u64,
    /// The current text, without its end: a line, or several that were joined.
    text: String,
    /// [`Lines::advance`] delivers the current text once more.
    repeat: bool,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(input: impl Read + 'a, file: &str) -> Self {
        Lines {
            input: Box::new(input),
            file: file.to_owned(),
            buffer: vec![0; BLOCK_BYTES],
            begin: 0,
            end: 0,
            filled: 0,
            offset: 0,
            lines_read: 0,
            number: 0,
            text: String::new(),
            repeat: false,
        }
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Returns the number of the current text's first line; after the end, the number of lines.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the place of the current text's first line.
    pub(crate) fn place(&self) -> Place {
        Place::Line(self.number)
    }

    /// Lets [`Lines::advance`] deliver the current text once more.
    pub(crate) fn repeat(&mut self) {
        self.repeat = true;
    }

    /// Reads the next line; returns false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, TraceError> {
        if std::mem::take(&mut self.repeat) {
            return Ok(true);
        }
        if !self.read_line()? {
            self.number = self.lines_read;
            return Ok(false);
        }
        self.text.clear();
        self.number = self.lines_read;
        self.append().map(|()| true)
    }

    /// Appends a newline and the next line to the current text; returns false at the end.
    pub(crate) fn join(&mut self) -> Result<bool, TraceError> {
        if !self.read_line()? {
            return Ok(false);
        }
        self.text.push('\n');
        self.append().map(|()| true)
    }

    /// Finds the next line in the input; returns false at the end.
    fn read_line(&mut self) -> Result<bool, TraceError> {
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
        self.lines_read += u64::from(self.begin < self.end);
        Ok(self.begin < self.end)
    }

    /// Reads another block behind the current line, which moves to the front; returns false at the end.
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

    /// Checks the line that was read last and appends it to the text.
    fn append(&mut self) -> Result<(), TraceError> {
        let line = &self.buffer[self.begin..self.end];
        if let Some(at) = memchr(0, line) {
            return Err(self.not_text(at, "a NUL byte".to_owned()));
        }
        let is_whole = line.last() == Some(&b'\n');
        if !is_whole && line.len() == MAX_LINE_BYTES {
            return Err(self.not_text(0, format!("a line of more than {MAX_LINE_BYTES} bytes")));
        }
        let begin = self.text.len();
        match std::str::from_utf8(line) {
            Ok(line) => self.text.push_str(line.trim_end_matches(['\n', '\r'])),
            Err(_) => {
                for chunk in line.utf8_chunks() {
                    self.text.push_str(chunk.valid());
                    self.text.extend(chunk.invalid().iter().map(|_| '?'));
                }
                self.text.truncate(begin + self.text[begin..].trim_end_matches(['\n', '\r']).len());
            }
        }
        if is_whole {
            return Ok(());
        }
        let found = excerpt_of_end(&self.text[begin..]);
        Err(TraceError::Cut { file: self.file.clone(), line: self.lines_read, found })
    }

    /// The current text, without its end.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// `at`: offset in the line.
    fn not_text(&self, at: usize, found: String) -> TraceError {
        let byte = self.offset + (self.begin + at) as u64;
        TraceError::NotText { file: self.file.clone(), line: self.lines_read, byte, found }
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
        assert_eq!(first_error(b"ab\ncd"), "f:2: the recording is cut off: expected a newline after `cd`");
    }

    #[test]
    fn a_character_that_was_cut_is_readable() {
        // The kernel cuts names to 15 bytes: here in the middle of a character of two.
        let cut = &"\u{41e}\u{431}\u{440}\u{430}\u{431}\u{43e}\u{442}\u{447}\u{438}\u{43a}".as_bytes()[..15];
        let mut input = cut.to_vec();
        input.extend(b" 7\xff\r\n");
        let mut lines = Lines::new(&input[..], "f");
        assert!(lines.advance().expect("text"));
        assert_eq!(lines.text(), "\u{41e}\u{431}\u{440}\u{430}\u{431}\u{43e}\u{442}? 7?");
        assert_eq!(lines.text().len(), 18);
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
    fn lines_are_repeated_and_joined() {
        let mut lines = Lines::new(&b"a\nb\nc\nd\n"[..], "f");
        assert!(lines.advance().expect("a"));
        lines.repeat();
        assert!(lines.advance().expect("a again"));
        assert_eq!((lines.text(), lines.number()), ("a", 1));
        assert!(lines.advance().expect("b"));
        assert!(lines.join().expect("c"));
        assert_eq!((lines.text(), lines.number()), ("b\nc", 2));
        assert!(lines.advance().expect("d"));
        assert_eq!((lines.text(), lines.number()), ("d", 4));
        assert!(!lines.join().expect("the end") && !lines.advance().expect("the end"));
        assert_eq!((lines.text(), lines.number()), ("d", 4));
    }
}
