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
//! Other lines: comments (`#`, from `--header`), blank lines, call chains (from `record -g`: an address, indented, after
//! an event), and what `--show-task-events` and `--show-lost-events` add (`PERF_RECORD_...`).

use std::io::BufRead;

use winnow::ascii::{Caseless, digit1, hex_digit1, space0, space1};
use winnow::combinator::{alt, delimited, opt, preceded, terminated};
use winnow::token::{rest, take_while};
use winnow::{Parser, Result};

use crate::error::excerpt;
use crate::event::{Current, Event, EventSource, Item, What};
use crate::fields;
use crate::interrupts::Interrupts;
use crate::lines::Lines;
use crate::{MAX_CPUS, TraceError};

/// A comm is at most 15 bytes; perf prints up to this many for a kworker, whose name carries its work queue's.
const MAX_COMM_BYTES: usize = 80;

/// Longer than any recording of every context switch, and short enough that sums of CPU time over [`MAX_CPUS`] fit into
/// 64 bits: 13 days.
const MAX_DURATION_NS: u64 = 1 << 50;

/// Reads `perf script` text, line by line.
pub struct Reader<R> {
    lines: Lines<R>,
    interrupts: Interrupts,
    events: u64,
    switches: u64,
    first_ns: Option<u64>,
    previous_ns: u64,
    /// The line before was an event or part of its call chain, so this one may be, too.
    chain_possible: bool,
}

impl<R: BufRead> Reader<R> {
    /// Errors call the input `file`.
    pub fn new(input: R, file: &str) -> Self {
        Reader {
            lines: Lines::new(input, file),
            interrupts: Interrupts::default(),
            events: 0,
            switches: 0,
            first_ns: None,
            previous_ns: 0,
            chain_possible: false,
        }
    }

    /// Moves to the next line that says something; false at the end.
    fn advance(&mut self) -> std::result::Result<bool, TraceError> {
        while self.lines.advance()? {
            let text = self.lines.text();
            if text.trim_start().is_empty() {
                self.chain_possible = false;
                continue;
            }
            let skipped = text.starts_with('#') || (self.chain_possible && is_call_chain(text));
            if !skipped {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_end(&self) -> std::result::Result<(), TraceError> {
        let file = self.lines.file().to_owned();
        if self.events == 0 {
            return Err(TraceError::Empty { file, lines: self.lines.number() });
        }
        if self.switches == 0 {
            return Err(TraceError::NoSwitch { file, events: self.events });
        }
        Ok(())
    }

    fn expected(&self, expected: impl Into<String>) -> TraceError {
        TraceError::Line {
            file: self.lines.file().to_owned(),
            line: self.lines.number(),
            expected: expected.into(),
            found: excerpt(self.lines.text()),
        }
    }

    fn check_cpu(&self, cpu: u32) -> std::result::Result<u32, TraceError> {
        if cpu < MAX_CPUS {
            return Ok(cpu);
        }
        Err(TraceError::Cpu {
            file: self.lines.file().to_owned(),
            line: self.lines.number(),
            cpu: cpu.to_string(),
        })
    }
}

impl<R: BufRead> EventSource for Reader<R> {
    fn next_item(&mut self) -> std::result::Result<Option<Item<'_>>, TraceError> {
        loop {
            if !self.advance()? {
                self.check_end()?;
                return Ok(None);
            }
            match kind(self.lines.text()) {
                Kind::Lost { count } => return Ok(Some(Item::Lost { line: self.lines.number(), count })),
                Kind::OfPerf => self.chain_possible = false,
                Kind::Event => break,
            }
        }
        self.chain_possible = true;

        let text = self.lines.text();
        let Some(header) = header_of(text) else {
            if self.events > 0 {
                return Err(self.expected("`comm pid [cpu] time: event: fields`"));
            }
            return Err(TraceError::NotPerfScript {
                file: self.lines.file().to_owned(),
                line: self.lines.number(),
                found: excerpt(text),
            });
        };
        let cpu = header.cpu.parse().map_err(|_| TraceError::Cpu {
            file: self.lines.file().to_owned(),
            line: self.lines.number(),
            cpu: header.cpu.to_owned(),
        })?;
        self.check_cpu(cpu)?;
        let time_ns = time_ns(header.seconds, header.fraction).ok_or_else(|| {
            self.expected("a time in seconds below 2^64 ns, with 1 to 9 digits of fraction")
        })?;
        if time_ns < self.previous_ns {
            return Err(TraceError::TimeBackwards {
                file: self.lines.file().to_owned(),
                line: self.lines.number(),
                time_ns,
                previous_ns: self.previous_ns,
            });
        }
        let first_ns = self.first_ns.unwrap_or(time_ns);
        if time_ns - first_ns > MAX_DURATION_NS {
            return Err(self.expected("a time less than 13 days after the first event's"));
        }
        let (subsystem, name) = header.event.split_once(':').unwrap_or(("", header.event));
        let what = match subsystem {
            "sched" | "" => fields::parse(name, header.fields).map_err(|expected| self.expected(expected))?,
            _ => What::Other,
        };
        match what {
            What::Waking { last_cpu: cpu, .. } | What::Wakeup { cpu, .. } => {
                self.check_cpu(cpu)?;
            }
            What::Migrate { from_cpu, to_cpu, .. } => {
                self.check_cpu(from_cpu)?;
                self.check_cpu(to_cpu)?;
            }
            _ => {}
        }
        self.events += 1;
        self.first_ns = Some(first_ns);
        self.previous_ns = time_ns;
        self.switches += u64::from(matches!(what, What::Switch { .. }));
        self.interrupts.event(cpu, subsystem, name, header.fields);
        Ok(Some(Item::Event(Event {
            line: self.lines.number(),
            time_ns,
            cpu,
            current: header.current,
            context: self.interrupts.context(cpu),
            what,
        })))
    }

    fn file(&self) -> &str {
        self.lines.file()
    }
}

/// How records of perf itself begin, where an event would stand.
const PERF_RECORD: &str = "PERF_RECORD_";

#[derive(Debug)]
struct Header<'a> {
    current: Current<'a>,
    cpu: &'a str,
    seconds: &'a str,
    fraction: &'a str,
    /// `subsystem:event`, or `event` alone, as old perf wrote it.
    event: &'a str,
    fields: &'a str,
}

/// Splits an event's line. The comm comes first and may look like anything, so every end of a word is tried.
fn header_of(line: &str) -> Option<Header<'_>> {
    let line = line.trim_start();
    let mut comm_end = 0;
    while comm_end <= MAX_COMM_BYTES {
        comm_end += line[comm_end..].find(' ')?;
        let mut after = line[comm_end..].trim_start_matches(' ');
        if let Ok(mut header) = after_comm.parse_next(&mut after) {
            header.current.comm = &line[..comm_end];
            return Some(header);
        }
        comm_end = line.len() - line[comm_end..].trim_start_matches(' ').len();
    }
    None
}

fn after_comm<'a>(input: &mut &'a str) -> Result<Header<'a>> {
    let (first_id, second_id) = (signed, opt(preceded('/', signed))).parse_next(input)?;
    // perf 6.1 pads the task ids with blanks on either side.
    let cpu = preceded((space1, '['), terminated(digit1, (']', space1))).parse_next(input)?;
    // -F +misc: the mode of the CPU as a letter or two.
    opt((take_while(1..=4, |c: char| c.is_ascii_uppercase()), space1)).parse_next(input)?;
    let (seconds, _, fraction, _, _) = (digit1, '.', digit1, ':', space1).parse_next(input)?;
    // -F +period.
    opt((digit1, space1)).parse_next(input)?;
    let event = alt((
        (PERF_RECORD, take_while(0.., |c: char| c.is_ascii_uppercase() || c == '_')).take(),
        terminated((word, opt((':', word))).take(), (':', space0)),
    ))
    .parse_next(input)?;
    let fields = rest.parse_next(input)?;
    let (process, tid) = match second_id {
        Some(tid) => (u32::try_from(first_id).ok(), tid),
        None => (None, first_id),
    };
    // A task whose exit has gone so far that it has no id any more is `:-1 1979/-1` (the pgbench fixture has one).
    let tid = u32::try_from(tid).ok();
    Ok(Header { current: Current { comm: "", tid, process }, cpu, seconds, fraction, event, fields })
}

fn signed(input: &mut &str) -> Result<i32> {
    (opt('-'), digit1).take().parse_to().parse_next(input)
}

fn word<'a>(input: &mut &'a str) -> Result<&'a str> {
    take_while(1.., |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-').parse_next(input)
}

/// 1 to 9 digits of fraction: perf writes 6, and 9 with `--ns`.
fn time_ns(seconds: &str, fraction: &str) -> Option<u64> {
    let scale = 10u64.pow(u32::try_from(9usize.checked_sub(fraction.len())?).ok()?);
    let fraction_ns = fraction.parse::<u64>().ok()? * scale;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

/// A line of a call chain: `ffffffff821f8298 __schedule+0x618 ([kernel.kallsyms])`, indented.
fn is_call_chain(line: &str) -> bool {
    call_chain.parse_next(&mut &*line).is_ok()
}

fn call_chain(input: &mut &str) -> Result<()> {
    (space1, hex_digit1, ' ').void().parse_next(input)
}

/// What a line is that is no comment and no call chain.
enum Kind {
    /// An event, or nothing that perf writes.
    Event,
    /// A record of perf itself. Those from before the recording have time 0.
    OfPerf,
    /// Events were lost: `PERF_RECORD_LOST lost 12` after the usual beginning (`perf script --show-lost-events`), or
    /// `LOST 12 events`, with brackets and the CPU around it in ftrace's manner.
    Lost { count: u64 },
}

fn kind(line: &str) -> Kind {
    if let Some(header) = header_of(line) {
        if header.event.starts_with("PERF_RECORD_LOST") {
            let count = header.fields.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(1);
            return Kind::Lost { count };
        }
        return if header.event.starts_with(PERF_RECORD) { Kind::OfPerf } else { Kind::Event };
    }
    match lost.parse(line.trim()) {
        Ok(count) => Kind::Lost { count },
        Err(_) => Kind::Event,
    }
}

fn lost(input: &mut &str) -> Result<u64> {
    let count = preceded((Caseless("lost"), space1), digit1.parse_to());
    let cpu = ("CPU:", digit1, space1);
    delimited((opt(cpu), opt('[')), count, (space1, Caseless("events"), opt(']'), opt('!'))).parse_next(input)
}
