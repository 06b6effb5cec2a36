// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the text that `perf script` makes of a recording by `perf sched record`.
//!
//! One event a line:
//! ```text
//!        hackbench  1915/1915  [001]  1860.214001234:       sched:sched_switch: prev_comm=hackbench prev_pid=1915 ...
//!        comm       pid/tid    [cpu]  seconds.fraction:     subsystem:event:    fields
//! ```
//! The process (`pid/`) is there with `-F +pid`, nine digits of fraction instead of six with `--ns`.
//!
//! Other lines: comments (`#`, from `--header` and from `wakelab record`), blank lines, call chains (from `record -g`:
//! an address, indented, after an event), and what `--show-task-events` and `--show-lost-events` add
//! (`PERF_RECORD_...`).

use crate::event::{Current, Told};
use crate::header::HeaderLine;
use crate::scan::{Scan, trim_blanks_after, trim_blanks_before};
use crate::text::{self, Format, Head, Line, head};

/// How records of perf itself begin, where an event's name would stand.
const PERF_RECORD: &str = "PERF_RECORD_";

/// Returns the time of an event's line; `None` if it is another kind of line.
pub fn time_ns(line: &str) -> Option<u64> {
    Text::head(line).and_then(|head| text::time_ns(head.seconds, head.fraction))
}

/// An event's line, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfLine<'a> {
    /// What stands before the event's name: the current task, the CPU and the time.
    pub before: &'a str,
    /// The id of the current task; `None` if it was exiting and had none any more.
    pub tid: Option<u32>,
    /// Its process, if the line tells it.
    pub process: Option<u32>,
    /// The event's subsystem, like `sched`; empty if the line does not tell it.
    pub subsystem: &'a str,
    /// The event's name.
    pub name: &'a str,
    /// What it says.
    pub fields: &'a str,
}

impl<'a> PerfLine<'a> {
    /// Takes a line apart, with or without its newline; returns `None` if it is another kind of line.
    pub fn parse(line: &'a str) -> Option<PerfLine<'a>> {
        let line = line.trim_end_matches('\n');
        let Head { current, subsystem, name, fields, .. } = Text::head(line)?;
        let first = if subsystem.is_empty() { name } else { subsystem };
        let before = &line[..first.as_ptr().addr() - line.as_ptr().addr()];
        Some(PerfLine { before, tid: current.tid, process: current.process, subsystem, name, fields })
    }
}

/// The format of `perf script`.
#[derive(Debug, Default)]
pub(crate) struct Text {
    /// The line before was an event or part of its call chain, so this one may be part of it, too.
    chain_possible: bool,
}

impl Format for Text {
    const EVENT: &'static str = "`comm pid [cpu] time: event: fields`";

    fn head(line: &str) -> Option<Head<'_>> {
        head(line, current, after_cpu)
    }

    fn line(&mut self, text: &str, _any_event: bool) -> Line {
        // perf writes a blank before every name, so these are no events of a task with such a name.
        if let Some(line) = HeaderLine::parse(text) {
            return if line.told().is_some() { Line::Told } else { Line::Header };
        }
        if let Some(head) = Text::head(text) {
            self.chain_possible = !head.name.starts_with(PERF_RECORD);
            if self.chain_possible {
                return Line::Event(head.places(text));
            }
            if head.name.starts_with("PERF_RECORD_LOST") {
                let count = head.fields.rsplit(' ').next().and_then(|count| count.parse().ok());
                return Line::Lost(count.unwrap_or(1));
            }
            return Line::Skip;
        }
        if text.trim_start().is_empty() || text.starts_with('#') {
            self.chain_possible = false;
            return Line::Skip;
        }
        if self.chain_possible && is_call_chain(text) {
            return Line::Skip;
        }
        lost(text).map_or(Line::Unknown, Line::Lost)
    }

    fn told(text: &str) -> Option<Told<'_>> {
        HeaderLine::parse(text).and_then(|line| line.told())
    }
}

/// `comm pid` or `comm pid/tid`, with blanks around. An exiting task that has no id any more is `:-1 1979/-1` (the
/// pgbench fixture has one).
fn current(before: &str) -> Option<Current<'_>> {
    // perf 6.1 pads the task ids with blanks on either side.
    let ids_end = trim_blanks_after(before);
    if ids_end.len() == before.len() {
        return None;
    }
    let ids_begin = memchr::memrchr(b' ', ids_end.as_bytes())? + 1;
    let mut ids = Scan::new(&ids_end[ids_begin..]);
    let first_id = ids.signed()?;
    let (process, tid) =
        if ids.eat("/") { (u32::try_from(first_id).ok(), ids.signed()?) } else { (None, first_id) };
    let comm = trim_blanks_after(trim_blanks_before(&before[..ids_begin]));
    ids.rest.is_empty().then_some(Current { comm, tid: u32::try_from(tid).ok(), process })
}

/// What comes after `[`.
fn after_cpu<'a>(mut scan: Scan<'a>, current: Current<'a>) -> Option<Head<'a>> {
    let cpu = scan.digits()?;
    if !scan.eat("]") || !scan.blanks() {
        return None;
    }
    // -F +misc: the mode of the CPU as a letter or two.
    let misc = scan.while_ascii(|byte| byte.is_ascii_uppercase());
    if misc.len() > 4 || (!misc.is_empty() && !scan.blanks()) {
        return None;
    }
    let seconds = scan.digits()?;
    let fraction = scan.eat(".").then(|| scan.digits()).flatten()?;
    if !scan.eat(":") || !scan.blanks() {
        return None;
    }
    // -F +period.
    let after_time = scan;
    if scan.digits().is_some() && !scan.blanks() {
        scan = after_time;
    }
    if scan.rest.starts_with(PERF_RECORD) {
        let name = scan.while_ascii(|byte| byte.is_ascii_uppercase() || byte == b'_');
        return Some(Head {
            current,
            cpu,
            seconds,
            fraction,
            flags: None,
            subsystem: "",
            name,
            fields: scan.rest,
        });
    }
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let first = scan.while_ascii(is_word);
    if first.is_empty() || !scan.eat(":") {
        return None;
    }
    // Old perf wrote the event's name alone.
    let after_first = scan;
    let second = scan.while_ascii(is_word);
    let (subsystem, name) = if !second.is_empty() && scan.eat(":") {
        (first, second)
    } else {
        scan = after_first;
        ("", first)
    };
    scan.blanks();
    Some(Head { current, cpu, seconds, fraction, flags: None, subsystem, name, fields: scan.rest })
}

/// A line of a call chain: `ffffffff821f8298 __schedule+0x618 ([kernel.kallsyms])`, indented.
fn is_call_chain(line: &str) -> bool {
    let mut scan = Scan::new(line);
    scan.blanks() && !scan.while_ascii(|byte| byte.is_ascii_hexdigit()).is_empty() && scan.eat(" ")
}

/// Events were lost: `LOST 12 events`, with brackets and the CPU around it in ftrace's manner.
fn lost(line: &str) -> Option<u64> {
    let line = line.trim().to_ascii_lowercase();
    let mut scan = Scan::new(&line);
    if scan.eat("cpu:") {
        scan.digits()?;
        scan.blanks();
    }
    let bracket = scan.eat("[");
    if !scan.eat("lost") || !scan.blanks() {
        return None;
    }
    let count = scan.number()?;
    let whole = scan.blanks() && scan.eat("events") && (!bracket || scan.eat("]"));
    scan.eat("!");
    (whole && scan.rest.is_empty()).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let before = "     a [1] b 7/8 [001] 1.000000001:    ";
        let line = format!("{before}sched:sched_switch: x: y\n");
        let (subsystem, name, fields) = ("sched", "sched_switch", "x: y");
        let expected = PerfLine { before, tid: Some(8), process: Some(7), subsystem, name, fields };
        assert_eq!(PerfLine::parse(&line), Some(expected));
        let old = PerfLine::parse("a 8 [001] 1.000001: sched_switch: x").expect("an event");
        assert_eq!((old.before, old.process, old.subsystem), ("a 8 [001] 1.000001: ", None, ""));
        assert_eq!(PerfLine::parse("# wakelab-end: 5 events, 1 lost"), None);
    }
}
