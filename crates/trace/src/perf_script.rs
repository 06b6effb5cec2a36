// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the text that `perf script` makes of a recording by `perf sched record`.
//!
//! One event a line:
//! ```text
//!        hackbench  1915/1915  [001]  1860.214001234:       sched:sched_switch: prev_comm=hackbench prev_pid=1915 ...
//!        comm       pid/tid    [cpu]  seconds.fraction:     subsystem:event:    fields
//! ```
//! The process (`pid/`) is there with `-F +pid`, nine digits of fraction instead of six with `--ns`. The comm may hold
//! anything, so the line is read from the first place where a task id and `[cpu]` and a time follow each other.
//!
//! Other lines: comments (`#`, from `--header`), blank lines, call chains (from `record -g`: an address, indented,
//! after an event), and what `--show-task-events` and `--show-lost-events` add (`PERF_RECORD_...`).

use std::io::Read;

use crate::TraceError;
use crate::event::{Current, EventSource, Item};
use crate::lines::Lines;
use crate::scan::{Scan, trim_blanks_after, trim_blanks_before};
use crate::text::{Head, Order, expected, head};

/// How records of perf itself begin, where an event would stand.
const PERF_RECORD: &str = "PERF_RECORD_";

/// Reads `perf script` text, line by line.
pub struct Reader<R> {
    lines: Lines<R>,
    order: Order,
    /// The line before was an event or part of its call chain, so this one may be, too.
    chain_possible: bool,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(lines: Lines<R>) -> Self {
        Reader { lines, order: Order::default(), chain_possible: false }
    }
}

/// What a line comes to.
enum Line<'a> {
    /// Nothing about scheduling.
    Skip,
    /// Part of a call chain.
    Chain,
    Lost(u64),
    Event(Head<'a>),
    Unknown,
}

impl<R: Read> EventSource for Reader<R> {
    fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError> {
        let places = loop {
            if !self.lines.advance()? {
                self.order.check_end(&self.lines)?;
                return Ok(None);
            }
            let text = self.lines.text();
            match line_of(text, self.chain_possible) {
                Line::Skip => self.chain_possible = false,
                Line::Chain => {}
                Line::Lost(count) => return Ok(Some(Item::Lost { line: self.lines.number(), count })),
                Line::Event(head) => break head.places(text),
                Line::Unknown => return Err(expected(&self.lines, "`comm pid [cpu] time: event: fields`")),
            }
        };
        let head = places.head(self.lines.text());
        self.chain_possible = true;
        self.order.event(&self.lines, &head).map(|event| Some(Item::Event(event)))
    }

    fn file(&self) -> &str {
        self.lines.file()
    }
}

fn line_of(text: &str, chain_possible: bool) -> Line<'_> {
    if let Some(head) = head_of(text) {
        if !head.name.starts_with(PERF_RECORD) {
            return Line::Event(head);
        }
        if head.name.starts_with("PERF_RECORD_LOST") {
            let count = head.fields.rsplit(' ').next().and_then(|count| count.parse().ok());
            return Line::Lost(count.unwrap_or(1));
        }
        return Line::Skip;
    }
    if text.trim_start().is_empty() || text.starts_with('#') {
        return Line::Skip;
    }
    if chain_possible && is_call_chain(text) {
        return Line::Chain;
    }
    lost(text).map_or(Line::Unknown, Line::Lost)
}

/// Takes an event's line apart.
pub(crate) fn head_of(line: &str) -> Option<Head<'_>> {
    head(line, current, after_cpu)
}

/// `comm pid` or `comm pid/tid`, with blanks around. A task whose exit has gone so far that it has no id any more is
/// `:-1 1979/-1` (the pgbench fixture has one).
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
    let whole = ids.rest.is_empty() && !comm.is_empty();
    whole.then_some(Current { comm, tid: u32::try_from(tid).ok(), process })
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
