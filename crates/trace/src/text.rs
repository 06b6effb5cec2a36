// SPDX-License-Identifier: GPL-2.0-or-later
//! What the text formats share: turns lines into [`Event`]s, with every check that does not depend on the format.
//!
//! An event's line begins with the name of the task that was current, and its fields may hold more names. A name may
//! hold anything but a NUL byte, so it may look like the rest of a line, and a newline in it breaks the line. Two
//! things still tell where it ends: the kernel cuts names to [`MAX_COMM_BYTES`], and what follows a name (ids, CPU,
//! time, or the next key) is longer than that. So of all places that look like the end of a name, the last one within
//! that length is the right one. A line that cannot be read is joined with those that follow, as long as a name may be
//! broken there.

use memchr::memchr_iter;

use crate::error::excerpt;
use crate::event::{Current, Event, EventSource, Item, Told};
use crate::header::HeaderLine;
use crate::lines::Lines;
use crate::order::{Happened, NOT_TOO_LATE, Order, bad_cpu};
use crate::program::UNKNOWN_COMM;
use crate::scan::{Scan, number};
use crate::{MAX_CPUS, TraceError, fields};

/// The longest name of a task in Linux (TASK_COMM_LEN without the NUL). Our own exports have longer ones.
pub(crate) const MAX_COMM_BYTES: usize = 15;

/// The most newlines in the names of one event.
const MAX_JOINED_LINES: usize = 2 * MAX_COMM_BYTES;

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

/// Takes an event's line apart: `current` parses what is before the CPU's `[`, `after_cpu` the rest.
#[inline(always)]
pub(crate) fn head<'a>(
    line: &'a str,
    current: impl Fn(&'a str) -> Option<Current<'a>>,
    after_cpu: impl Fn(Scan<'a>, Current<'a>) -> Option<Head<'a>>,
) -> Option<Head<'a>> {
    let mut heads = memchr_iter(b'[', line.as_bytes()).filter_map(|at| {
        let current = current(&line[..at])?;
        after_cpu(Scan::new(&line[at + 1..]), current)
    });
    let is_short = |head: &Head<'_>| head.current.comm.len() <= MAX_COMM_BYTES;
    let first = heads.next()?;
    let head = heads.filter(is_short).last().unwrap_or(first);
    // A name longer than the kernel's is never broken, and a comment has words before what looks like a CPU.
    (is_short(&head) || !line.contains('\n') && !line.starts_with('#')).then_some(head)
}

/// Whether `text`, which is no event, may be the beginning of one whose task has a newline in its name.
pub(crate) fn may_begin_name(text: &str) -> bool {
    text.trim().len() < MAX_COMM_BYTES
}

/// The places of the parts of a [`Head`] in their line. A reader looks for an event line by line, and cannot borrow
/// from a line before it knows that this is the one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// `None`: the line does not tell the name.
    comm: Option<Place>,
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

/// The offsets of the first byte and of the byte after the last one.
type Place = (usize, usize);

impl Head<'_> {
    /// Returns the places of the parts in `line`, which was taken apart.
    pub(crate) fn places(&self, line: &str) -> Places {
        let place = |part: &str| {
            // An empty part may stand outside of the line.
            let begin = if part.is_empty() { 0 } else { part.as_ptr().addr() - line.as_ptr().addr() };
            (begin, begin + part.len())
        };
        Places {
            comm: (self.current.comm != UNKNOWN_COMM).then(|| place(self.current.comm)),
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
    /// Returns the parts of `line`, which is the same or has been continued.
    pub(crate) fn head<'a>(&self, line: &'a str) -> Head<'a> {
        let part = |(begin, end): Place| &line[begin..end];
        let comm = self.comm.map_or(UNKNOWN_COMM, part);
        Head {
            current: Current { comm, tid: self.tid, process: self.process },
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

/// What a line of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It says nothing about scheduling.
    Skip,
    /// The recorder lost that many events.
    Lost(u64),
    /// A comment of our own recordings and exports about a task.
    Told,
    /// A comment of our own recordings about themselves.
    Header,
    /// An event.
    Event(Places),
    /// None of these.
    Unknown,
}

/// A format of text, with what its reader must remember from line to line.
pub(crate) trait Format: Default {
    /// How an event's line looks, for errors.
    const EVENT: &'static str;

    /// Takes an event's line apart; returns `None` if it is no event's.
    fn head(text: &str) -> Option<Head<'_>>;

    /// Classifies a line. `any_event`: an event came before it.
    fn line(&mut self, text: &str, any_event: bool) -> Line;

    /// Parses a line of [`Line::Told`].
    fn told(_text: &str) -> Option<Told<'_>> {
        None
    }
}

/// Reads a recording as text, line by line.
pub(crate) struct Reader<'a, F> {
    lines: Lines<'a>,
    order: Order,
    format: F,
    /// An event whose fields cannot be read yet.
    unfinished: Option<Unfinished>,
}

/// An event whose fields cannot be read, unless they go on in the next line.
struct Unfinished {
    places: Places,
    /// What is wrong with its first line.
    error: TraceError,
    joined_lines: usize,
}

impl<'a, F: Format> Reader<'a, F> {
    pub(crate) fn new(lines: Lines<'a>) -> Self {
        Reader { lines, order: Order::default(), format: F::default(), unfinished: None }
    }

    /// Reads on to a line that says something; returns `None` at the end.
    fn next_line(&mut self) -> Result<Option<Line>, TraceError> {
        while self.lines.advance()? {
            let line = self.format.line(self.lines.text(), self.order.any_event());
            match line {
                Line::Skip => {}
                Line::Unknown => return self.join_head().map(Some),
                _ => return Ok(Some(line)),
            }
        }
        Ok(None)
    }

    /// The current line is unknown: it may begin with the first part of a name. Returns the event.
    fn join_head(&mut self) -> Result<Line, TraceError> {
        let error = expected(&self.lines, F::EVENT);
        while may_begin_name(self.lines.text()) && matches!(self.lines.join(), Ok(true)) {
            if let Some(head) = F::head(self.lines.text()) {
                return Ok(Line::Event(head.places(self.lines.text())));
            }
        }
        Err(error)
    }

    /// Appends the next line to an event whose fields cannot be read.
    fn join_fields(&mut self, mut event: Unfinished) -> Result<Unfinished, TraceError> {
        event.joined_lines += 1;
        if event.joined_lines > MAX_JOINED_LINES || !matches!(self.lines.join(), Ok(true)) {
            return Err(event.error);
        }
        event.places.fields.1 = self.lines.text().len();
        Ok(event)
    }
}

impl<F: Format> EventSource for Reader<'_, F> {
    fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError> {
        let unfinished = match self.unfinished.take() {
            Some(event) => Some(self.join_fields(event)?),
            None => None,
        };
        let line = match &unfinished {
            Some(event) => Some(Line::Event(event.places)),
            None => self.next_line()?,
        };
        let places = match line {
            None => {
                let (file, lines) = (self.lines.file(), self.lines.number());
                let empty = || TraceError::Empty { file: file.to_owned(), lines };
                return self.order.check_end(file, empty).map(|()| None);
            }
            Some(Line::Event(places)) => places,
            Some(Line::Lost(count)) => return Ok(Some(Item::Lost { place: self.lines.place(), count })),
            Some(Line::Header) => {
                let line = HeaderLine::parse(self.lines.text()).filter(HeaderLine::is_readable);
                let line = line.ok_or_else(|| {
                    expected(&self.lines, "a line of the header that `wakelab record` writes")
                });
                return line.map(|line| Some(Item::Header(line)));
            }
            Some(Line::Told | Line::Skip | Line::Unknown) => {
                let told = F::told(self.lines.text());
                let told = told.ok_or_else(|| expected(&self.lines, "pid=N cpus=LIST footprint_bytes=N"));
                return told.map(|told| Some(Item::Told(told)));
            }
        };
        let head = places.head(self.lines.text());
        match event(&mut self.order, &self.lines, &head) {
            Ok(event) => Ok(Some(Item::Event(event))),
            Err(error @ TraceError::Line { .. }) => {
                let first = Unfinished { places, error, joined_lines: 0 };
                self.unfinished = Some(unfinished.unwrap_or(first));
                Ok(Some(Item::Unfinished))
            }
            Err(error) => Err(error),
        }
    }

    fn file(&self) -> &str {
        self.lines.file()
    }
}

/// Checks and returns the event of the current line, which was taken apart into `head`.
fn event<'a>(order: &mut Order, lines: &Lines<'_>, head: &Head<'a>) -> Result<Event<'a>, TraceError> {
    let place = lines.place();
    let cpu = number(head.cpu).and_then(|cpu| u32::try_from(cpu).ok()).filter(|&cpu| cpu < MAX_CPUS);
    let cpu = cpu.ok_or_else(|| bad_cpu(lines.file(), place, head.cpu))?;
    let time_ns = time_ns(head.seconds, head.fraction)
        .ok_or_else(|| expected(lines, "a time in seconds below 2^64 ns, with 1 to 9 digits of fraction"))?;
    order.check_time(lines.file(), place, time_ns)?;
    if order.is_too_late(time_ns) {
        return Err(expected(lines, NOT_TOO_LATE));
    }
    let what = match head.subsystem {
        "sched" | "sock" | "wakelab" | "" => {
            fields::parse(head.name, head.fields).map_err(|what| expected(lines, &what))?
        }
        "cgroup" if head.name == "cgroup_attach_task" => fields::moved(head.fields)
            .ok_or_else(|| expected(lines, "cgroup_attach_task with dst_root= dst_path= pid="))?,
        subsystem => fields::of_other(subsystem, head.name, head.fields),
    };
    let Head { current, flags, subsystem, name, fields, .. } = *head;
    order.event(lines.file(), Happened { place, time_ns, cpu, current, flags, subsystem, name, fields, what })
}

/// Returns the error that the current line is not what was `expected`.
pub(crate) fn expected(lines: &Lines<'_>, expected: &str) -> TraceError {
    TraceError::Line {
        file: lines.file().to_owned(),
        line: lines.number(),
        expected: expected.to_owned(),
        found: excerpt(lines.text()),
    }
}

/// Returns a time in ns. The fraction has 1 to 9 digits: recorders write 6, or 9 for nanoseconds.
pub(crate) fn time_ns(seconds: &str, fraction: &str) -> Option<u64> {
    let scale = 10u64.pow(u32::try_from(9usize.checked_sub(fraction.len())?).ok()?);
    let fraction_ns = number(fraction)? * scale;
    number(seconds)?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}
