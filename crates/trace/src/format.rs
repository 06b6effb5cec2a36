// SPDX-License-Identifier: GPL-2.0-or-later
//! Which reader a recording needs: its first bytes tell whether it is text, and its first telling line, of which kind.

use std::io::{Cursor, ErrorKind, Read};

use crate::error::excerpt;
use crate::event::EventSource;
use crate::lines::Lines;
use crate::magic::{self, HEAD_BYTES, recognise};
use crate::text::{Format, Reader, may_begin_name};
use crate::unpack::Packing;
use crate::{TraceError, ftrace, header, perf_script};

/// How the kernel's `trace` file begins, and our exports.
const FTRACE_COMMENT: &str = "# tracer:";

/// Returns the reader for `input`, which may be packed. Errors call it `file`.
///
/// # Errors
/// What is not text, without any event, or of no known format.
pub(crate) fn reader<'a>(input: impl Read + 'a, file: &str) -> Result<Box<dyn EventSource + 'a>, TraceError> {
    let mut lines = Lines::new(text_of(input, file)?, file);
    while lines.advance()? {
        let text = lines.text();
        if text.starts_with(FTRACE_COMMENT) || ftrace::is_preamble(text) {
            return Ok(Box::new(Reader::<ftrace::Text>::new(lines)));
        }
        if header::is_first(text) {
            lines.repeat();
            return Ok(Box::new(Reader::<perf_script::Text>::new(lines)));
        }
        if text.starts_with('#') || text.trim_start().is_empty() {
            continue;
        }
        let found = excerpt(text);
        while !has_head(lines.text()) && may_begin_name(lines.text()) && lines.join()? {}
        let text = lines.text();
        let (is_perf, is_ftrace) =
            (perf_script::Text::head(text).is_some(), ftrace::Text::head(text).is_some());
        lines.repeat();
        return match (is_perf, is_ftrace) {
            (true, _) => Ok(Box::new(Reader::<perf_script::Text>::new(lines))),
            (_, true) => Ok(Box::new(Reader::<ftrace::Text>::new(lines))),
            _ => Err(TraceError::UnknownFormat {
                file: file.to_owned(),
                line: lines.number(),
                found,
                perf_output: magic::new_name("recording", "perf.txt"),
                ftrace_output: magic::new_name("recording", "ftrace.txt"),
            }),
        };
    }
    Err(TraceError::Empty { file: file.to_owned(), lines: lines.number() })
}

fn has_head(text: &str) -> bool {
    perf_script::Text::head(text).is_some() || ftrace::Text::head(text).is_some()
}

/// Returns `input`, unpacked if it is packed, unless it begins like something other than text.
fn text_of<'a>(input: impl Read + 'a, file: &str) -> Result<Box<dyn Read + 'a>, TraceError> {
    let io_error = |source| TraceError::Io { file: file.to_owned(), source };
    let (mut head, input) = peek(input).map_err(io_error)?;
    let mut input: Box<dyn Read + 'a> = Box::new(input);
    if let Some(packing) = Packing::of(&head) {
        let (unpacked_head, unpacked) = peek(packing.unpack(input)).map_err(io_error)?;
        (head, input) = (unpacked_head, Box::new(unpacked));
    }
    match recognise(&head, file) {
        Some(refusal) => Err(refusal),
        None => Ok(input),
    }
}

/// Returns the first bytes of `input`, and all of it.
fn peek<'a>(mut input: impl Read + 'a) -> std::io::Result<(Vec<u8>, impl Read + 'a)> {
    let mut head = vec![0; HEAD_BYTES];
    let mut length = 0;
    while length < HEAD_BYTES {
        match input.read(&mut head[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(length);
    Ok((head.clone(), Cursor::new(head).chain(input)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const LINE: &[u8] = b"a 1 [000] 1.000001: sched:sched_switch: x\n";

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(text).expect("vectors take everything");
        packer.finish().expect("vectors take everything")
    }

    fn refusal(input: &[u8]) -> String {
        reader(input, "f").err().expect("a refusal").to_string()
    }

    #[test]
    fn what_is_packed_is_unpacked_once() {
        let mut twice = packed(LINE);
        twice.extend(packed(LINE));
        for input in [LINE.to_vec(), packed(LINE), twice] {
            assert!(reader(&input[..], "f").is_ok());
        }
        assert!(refusal(&packed(&packed(LINE))).contains("found gzip data in packed data"));
        assert!(refusal(&packed(b"PERFILE2\0")).contains("perf's binary format"));
        let cut = packed(LINE);
        assert!(refusal(&cut[..cut.len() - 12]).starts_with("f: cannot be read: "));
    }
}
