// SPDX-License-Identifier: GPL-2.0-or-later
//! Which reader a recording needs: the first line that says something tells.

use std::io::Read;

use crate::error::excerpt;
use crate::event::EventSource;
use crate::lines::Lines;
use crate::{TraceError, ftrace, perf_script};

/// How the kernel's `trace` file begins, and our exports.
const FTRACE_COMMENT: &str = "# tracer:";

/// The reader for `input`. Errors call it `file`.
///
/// # Errors
/// What is not text, without any event, or of no known format.
pub(crate) fn reader<'a>(input: impl Read + 'a, file: &str) -> Result<Box<dyn EventSource + 'a>, TraceError> {
    let mut lines = Lines::new(input, file);
    while lines.advance()? {
        let text = lines.text();
        if text.starts_with(FTRACE_COMMENT) || ftrace::is_preamble(text) {
            return Ok(Box::new(ftrace::Reader::new(lines)));
        }
        if text.starts_with('#') || text.trim_start().is_empty() {
            continue;
        }
        let (is_perf, is_ftrace) = (perf_script::head_of(text).is_some(), ftrace::head_of(text).is_some());
        let found = excerpt(text);
        lines.again();
        return match (is_perf, is_ftrace) {
            (true, _) => Ok(Box::new(perf_script::Reader::new(lines))),
            (_, true) => Ok(Box::new(ftrace::Reader::new(lines))),
            _ => Err(TraceError::UnknownFormat { file: file.to_owned(), line: lines.number(), found }),
        };
    }
    Err(TraceError::Empty { file: file.to_owned(), lines: lines.number() })
}
