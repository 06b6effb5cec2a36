// SPDX-License-Identifier: GPL-2.0-or-later
//! Which reader a recording needs: its first bytes tell whether it is binary or text, and its first telling line, which
//! text.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::excerpt;
use crate::event::EventSource;
use crate::lines::Lines;
use crate::magic::{self, Binary, HEAD_BYTES, recognise};
use crate::raw::store::Store;
use crate::text::{Format, Reader, may_begin_name};
use crate::unpack::Packing;
use crate::{TraceError, ctf, ftrace, header, perf_data, perf_script, perfetto, trace_dat};

/// How the kernel's `trace` file begins, and our exports.
const FTRACE_COMMENT: &str = "# tracer:";

/// Returns the reader for a file. If it is binary and not packed, any part of it can be read, so memory does not grow
/// with its size. Errors call it `file`.
///
/// # Errors
/// Those of [`reader`].
pub(crate) fn reader_of_file(input: File, file: &str) -> Result<Box<dyn EventSource>, TraceError> {
    let io_error = |source| TraceError::Io { file: file.to_owned(), source };
    if !input.metadata().map_err(io_error)?.is_file() {
        return reader(input, file);
    }
    let mut head = [0; HEAD_BYTES];
    let length = input.read_at(&mut head, 0).map_err(io_error)?;
    match magic::binary(&head[..length]) {
        Some(format) => binary_reader(format, Store::of_file(input, file)?),
        None => reader(input, file),
    }
}

/// Returns the reader for `input`, which may be packed. Errors call it `file`.
///
/// # Errors
/// What is of no known format, without any event, or damaged where it begins.
pub(crate) fn reader<'a>(input: impl Read + 'a, file: &str) -> Result<Box<dyn EventSource + 'a>, TraceError> {
    let (head, input) = unpacked(input, file)?;
    if let Some(format) = magic::binary(&head) {
        return binary_reader(format, Store::of_stream(input, file)?);
    }
    if magic::is_tar(&head) {
        return Ok(Box::new(ctf::reader_of_tar(input, file)?));
    }
    match recognise(&head, file) {
        Some(refusal) => Err(refusal),
        None => text_reader(input, file),
    }
}

/// Returns the reader for a folder. Errors call it `file`.
///
/// # Errors
/// A folder without a trace in the Common Trace Format, or what [`reader`] refuses.
pub(crate) fn reader_of_folder(path: &Path, file: &str) -> Result<Box<dyn EventSource>, TraceError> {
    let folder = ctf::metadata_folder(path).ok_or_else(|| magic::folder(file))?;
    Ok(Box::new(ctf::reader_of_folder(&folder, file)?))
}

fn binary_reader(format: Binary, store: Store) -> Result<Box<dyn EventSource>, TraceError> {
    Ok(match format {
        Binary::TraceDat => Box::new(trace_dat::Reader::new(store)?),
        Binary::PerfData => Box::new(perf_data::Reader::new(store)?),
        Binary::Perfetto => Box::new(perfetto::Reader::new(store)?),
    })
}

fn text_reader<'a>(input: impl Read + 'a, file: &str) -> Result<Box<dyn EventSource + 'a>, TraceError> {
    let mut lines = Lines::new(input, file);
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

/// Returns the first bytes of `input` and all of it, unpacked if it is packed.
fn unpacked<'a>(input: impl Read + 'a, file: &str) -> Result<(Vec<u8>, Box<dyn Read + 'a>), TraceError> {
    let io_error = |source| TraceError::Io { file: file.to_owned(), source };
    let (head, input) = peek(input).map_err(io_error)?;
    let Some(packing) = Packing::of(&head) else { return Ok((head, Box::new(input))) };
    let (head, input) = peek(packing.unpack(input)).map_err(io_error)?;
    Ok((head, Box::new(input)))
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
        assert!(refusal(&packed(b"2ELIFREP\0")).contains("perf's binary format"));
        let cut = packed(LINE);
        assert!(refusal(&cut[..cut.len() - 12]).starts_with("f: cannot be read: "));
    }
}
