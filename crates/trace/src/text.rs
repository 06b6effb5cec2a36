// SPDX-License-Identifier: GPL-2.0-or-later
//! What the readers of text share: from a line that was taken apart to an [`Event`], with every check that does not
//! depend on the format.

use std::io::Read;

use memchr::memchr_iter;

use crate::error::excerpt;
use crate::event::{Current, Event, What};
use crate::interrupts::Interrupts;
use crate::lines::Lines;
use crate::scan::{Scan, number};
use crate::{MAX_CPUS, TraceError, fields};

/// Longer than any recording of every context switch, and short enough that sums of CPU time over [`MAX_CPUS`] fit into
/// 64 bits: 13 days.
const MAX_DURATION_NS: u64 = 1 << 50;

/// An event's line, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) current: Current<'a>,
    /// Decimal digits.
    pub(crate) cpu: &'a str,
    /// Decimal digits.
    pub(crate) seconds: &'a str,
    /// Decimal digits.
    pub(crate) fraction: &'a str,
    /// ftrace's letters (`d.h1.`), if there are any.
    pub(crate) flags: Option<&'a str>,
    /// Empty if the format does not say.
    pub(crate) subsystem: &'a str,
    pub(crate) name: &'a str,
    pub(crate) fields: &'a str,
}

/// Takes an event's line apart: `current` what is before the CPU's `[`, `after_cpu` the rest. The comm comes first and
/// may look like anything, so every bracket is tried.
#[inline(always)]
pub(crate) fn head<'a>(
    line: &'a str,
    current: impl Fn(&'a str) -> Option<Current<'a>>,
    after_cpu: impl Fn(Scan<'a>, Current<'a>) -> Option<Head<'a>>,
) -> Option<Head<'a>> {
    if line.starts_with('#') {
        return None;
    }
    memchr_iter(b'[', line.as_bytes()).find_map(|at| {
        let current = current(&line[..at])?;
        after_cpu(Scan::new(&line[at + 1..]), current)
    })
}

/// Where the parts of a [`Head`] stand in their line. A reader looks for an event in a loop, line by line, and cannot
/// borrow from any of them before it knows that this is the one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    comm: Place,
    tid: Option<u32>,
    process: Option<u32>,
    cpu: Place,
    seconds: Place,
    fraction: Place,
    flags: Option<Place>,
    subsystem: Place,
    name: Place,
    fields: Place,
}

/// First byte, and the one after the last.
type Place = (usize, usize);

impl Head<'_> {
    /// `line`: which was taken apart.
    pub(crate) fn places(&self, line: &str) -> Places {
        let place = |part: &str| {
            // Nothing may stand outside the line.
            let begin = if part.is_empty() { 0 } else { part.as_ptr().addr() - line.as_ptr().addr() };
            (begin, begin + part.len())
        };
        Places {
            comm: place(self.current.comm),
            tid: self.current.tid,
            process: self.current.process,
            cpu: place(self.cpu),
            seconds: place(self.seconds),
            fraction: place(self.fraction),
            flags: self.flags.map(place),
            subsystem: place(self.subsystem),
            name: place(self.name),
            fields: place(self.fields),
        }
    }
}

impl Places {
    /// The parts again. `line`: the same.
    pub(crate) fn head<'a>(&self, line: &'a str) -> Head<'a> {
        let part = |(begin, end): Place| &line[begin..end];
        Head {
            current: Current { comm: part(self.comm), tid: self.tid, process: self.process },
            cpu: part(self.cpu),
            seconds: part(self.seconds),
            fraction: part(self.fraction),
            flags: self.flags.map(part),
            subsystem: part(self.subsystem),
            name: part(self.name),
            fields: part(self.fields),
        }
    }
}

/// What came so far.
#[derive(Debug, Default)]
pub(crate) struct Order {
    interrupts: Interrupts,
    events: u64,
    switches: u64,
    first_ns: Option<u64>,
    previous_ns: u64,
}

impl Order {
    pub(crate) fn any_event(&self) -> bool {
        self.events > 0
    }

    /// The event of the current line.
    pub(crate) fn event<'a, R: Read>(
        &mut self,
        lines: &Lines<R>,
        head: &Head<'a>,
    ) -> Result<Event<'a>, TraceError> {
        let cpu = number(head.cpu).and_then(|cpu| u32::try_from(cpu).ok()).filter(|&cpu| cpu < MAX_CPUS);
        let cpu = cpu.ok_or_else(|| bad_cpu(lines, head.cpu))?;
        let time_ns = time_ns(head.seconds, head.fraction).ok_or_else(|| {
            expected(lines, "a time in seconds below 2^64 ns, with 1 to 9 digits of fraction")
        })?;
        if time_ns < self.previous_ns {
            return Err(TraceError::TimeBackwards {
                file: lines.file().to_owned(),
                line: lines.number(),
                time_ns,
                previous_ns: self.previous_ns,
            });
        }
        let first_ns = self.first_ns.unwrap_or(time_ns);
        if time_ns - first_ns > MAX_DURATION_NS {
            return Err(expected(lines, "a time less than 13 days after the first event's"));
        }
        let what = match head.subsystem {
            "sched" | "" => fields::parse(head.name, head.fields).map_err(|what| expected(lines, &what))?,
            "irq_vectors" if head.name == "local_timer_entry" => What::Tick,
            _ => What::Other,
        };
        let (one, other) = match what {
            What::Waking { last_cpu: cpu, .. } | What::Wakeup { cpu, .. } | What::WakeupNew { cpu, .. } => {
                (cpu, 0)
            }
            What::Migrate { from_cpu, to_cpu, .. } => (from_cpu, to_cpu),
            _ => (0, 0),
        };
        if one.max(other) >= MAX_CPUS {
            return Err(bad_cpu(lines, &one.max(other).to_string()));
        }
        self.events += 1;
        self.first_ns = Some(first_ns);
        self.previous_ns = time_ns;
        self.switches += u64::from(matches!(what, What::Switch { .. }));
        let interrupt_ended_ns = self.interrupts.event(cpu, time_ns, head.subsystem, head.name, head.fields);
        Ok(Event {
            line: lines.number(),
            time_ns,
            cpu,
            current: head.current,
            context: self.interrupts.context(cpu, head.flags),
            interrupt_since_ns: self.interrupts.since_ns(cpu),
            interrupt_ended_ns,
            what,
        })
    }

    /// What the recording must hold when it is over.
    pub(crate) fn check_end<R: Read>(&self, lines: &Lines<R>) -> Result<(), TraceError> {
        let file = lines.file().to_owned();
        if self.events == 0 {
            return Err(TraceError::Empty { file, lines: lines.number() });
        }
        if self.switches == 0 {
            return Err(TraceError::NoSwitch { file, events: self.events });
        }
        Ok(())
    }
}

/// The current line is not what was `expected`.
pub(crate) fn expected<R: Read>(lines: &Lines<R>, expected: &str) -> TraceError {
    TraceError::Line {
        file: lines.file().to_owned(),
        line: lines.number(),
        expected: expected.to_owned(),
        found: excerpt(lines.text()),
    }
}

fn bad_cpu<R: Read>(lines: &Lines<R>, cpu: &str) -> TraceError {
    TraceError::Cpu { file: lines.file().to_owned(), line: lines.number(), cpu: cpu.to_owned() }
}

/// 1 to 9 digits of fraction: recorders write 6, and 9 where they are asked for nanoseconds.
fn time_ns(seconds: &str, fraction: &str) -> Option<u64> {
    let scale = 10u64.pow(u32::try_from(9usize.checked_sub(fraction.len())?).ok()?);
    let fraction_ns = number(fraction)? * scale;
    number(seconds)?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}
