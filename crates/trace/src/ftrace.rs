// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads ftrace's text: the kernel's own `trace` file, what `trace-cmd report` writes, and our own exports.
//!
//! One event a line:
//! ```text
//!        hackbench-1915   ( 1915) [001] d.h2.  1860.214001234: sched_switch: prev_comm=hackbench prev_pid=1915 ...
//!        comm     -pid    (tgid)  [cpu] flags  seconds.fraction: event:      fields
//! ```
//! The process is there with the option `record-tgid`; flags are missing from `trace-cmd report` of old. The third flag
//! tells a hard interrupt (`h`, `H`, `z`, `Z`) or a soft one (`s`) from a task. Fractions have nine digits with
//! `trace-cmd report -t`. The comm may hold anything, so the line is read from the first place where `-pid`, `[cpu]`
//! and a time follow each other.
//!
//! Other lines: comments (`#`), what trace-cmd says about its file (`cpus=6`, `CPU 2 is empty`), lost events, stack
//! traces (` => schedule`, after an event), and functions of the function tracers, which have no colon and say nothing
//! about scheduling. What programs print (trace_marker) may go over several lines.

use std::io::Read;

use crate::TraceError;
use crate::event::{Current, EventSource, Item, Told};
use crate::lines::Lines;
use crate::scan::{Scan, trim_blanks_after, trim_blanks_before};
use crate::text::{Head, Order, Places, expected, head};

/// How our own exports begin what no event says; see `crates/trace/src/ftrace_write.rs`.
pub(crate) const TOLD: &str = "# wakelab-task:";

/// Reads ftrace text, line by line.
pub struct Reader<R> {
    lines: Lines<R>,
    order: Order,
    /// The event before was something that a program printed: what cannot be read belongs to it.
    printing: bool,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(lines: Lines<R>) -> Self {
        Reader { lines, order: Order::default(), printing: false }
    }
}

/// What a line comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Skip,
    Lost(u64),
    Told,
    Event { prints: bool, places: Places },
    Unknown,
}

impl<R: Read> EventSource for Reader<R> {
    fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError> {
        let kind = loop {
            if !self.lines.advance()? {
                self.order.check_end(&self.lines)?;
                return Ok(None);
            }
            match kind(self.lines.text(), self.order.any_event()) {
                Kind::Skip => {}
                Kind::Unknown if self.printing => {}
                kind => break kind,
            }
        };
        let line = self.lines.number();
        if let Kind::Lost(count) = kind {
            return Ok(Some(Item::Lost { line, count }));
        }
        let Kind::Event { prints, places } = kind else {
            if kind != Kind::Told {
                return Err(expected(&self.lines, "`comm-pid [cpu] flags time: event: fields`"));
            }
            let told = told(self.lines.text());
            let told = told.ok_or_else(|| expected(&self.lines, "pid=N cpus=LIST footprint_bytes=N"))?;
            return Ok(Some(Item::Told(told)));
        };
        self.printing = prints;
        let head = places.head(self.lines.text());
        self.order.event(&self.lines, &head).map(|event| Some(Item::Event(event)))
    }

    fn file(&self) -> &str {
        self.lines.file()
    }
}

fn kind(text: &str, any_event: bool) -> Kind {
    if let Some(head) = head_of(text) {
        let prints = matches!(head.name, "print" | "bprint" | "bputs" | "tracing_mark_write");
        return Kind::Event { prints, places: head.places(text) };
    }
    if text.starts_with(TOLD) {
        return Kind::Told;
    }
    if is_noise(text, any_event) {
        return Kind::Skip;
    }
    lost(text).map_or(Kind::Unknown, Kind::Lost)
}

/// A line that says nothing about scheduling.
fn is_noise(text: &str, any_event: bool) -> bool {
    if text.starts_with('#') || text.trim_start().is_empty() {
        return true;
    }
    if any_event {
        // `option stacktrace`, and the user's with `option userstacktrace`.
        return text.starts_with(" => ")
            || text.trim() == "<stack trace>"
            || text.trim() == "<user stack trace>";
    }
    is_preamble(text)
}

/// What trace-cmd writes before the first event.
pub(crate) fn is_preamble(text: &str) -> bool {
    let mut scan = Scan::new(text);
    if scan.eat("version = ") || scan.eat("cpus=") {
        return scan.digits().is_some() && scan.rest.is_empty();
    }
    scan.eat("CPU ") && scan.digits().is_some() && scan.rest == " is empty"
}

/// Takes an event's line apart.
pub(crate) fn head_of(line: &str) -> Option<Head<'_>> {
    head(line, current, after_cpu)
}

/// `comm-pid` or `comm-pid (tgid)`, with blanks around; the tgid may be unknown: `(-------)`.
fn current(before: &str) -> Option<Current<'_>> {
    let mut name = trim_blanks_after(before);
    if name.len() == before.len() {
        return None;
    }
    let mut process = None;
    if let Some(inside) = name.strip_suffix(')') {
        let open = memchr::memrchr(b'(', inside.as_bytes())?;
        let mut scan = Scan::new(trim_blanks_after(trim_blanks_before(&inside[open + 1..])));
        process = scan.id();
        scan.while_ascii(|byte| byte == b'-');
        if !scan.rest.is_empty() {
            return None;
        }
        name = trim_blanks_after(&inside[..open]);
    }
    let dash = memchr::memrchr(b'-', name.as_bytes())?;
    let mut scan = Scan::new(&name[dash + 1..]);
    let tid = scan.id()?;
    let comm = trim_blanks_before(&name[..dash]);
    let whole = scan.rest.is_empty() && !comm.is_empty();
    whole.then_some(Current { comm, tid: Some(tid), process })
}

/// What comes after `[`.
fn after_cpu<'a>(mut scan: Scan<'a>, current: Current<'a>) -> Option<Head<'a>> {
    let cpu = scan.digits()?;
    if !scan.eat("]") || !scan.blanks() {
        return None;
    }
    let flags = flags(&mut scan);
    let seconds = scan.digits()?;
    let fraction = scan.eat(".").then(|| scan.digits()).flatten()?;
    if !scan.eat(":") || !scan.blanks() {
        return None;
    }
    // An event's name ends with a colon. A function of a function tracer has none, and is of no interest.
    let name = scan.while_ascii(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let (name, fields) = if !name.is_empty() && scan.eat(":") {
        scan.blanks();
        (name, scan.rest)
    } else {
        ("", "")
    };
    Some(Head { current, cpu, seconds, fraction, flags, subsystem: "", name, fields })
}

/// Four or five letters, or more on kernels to come, and dots; not the time.
fn flags<'a>(scan: &mut Scan<'a>) -> Option<&'a str> {
    let mut after = *scan;
    let flags = after.while_ascii(|byte| byte != b' ');
    let is_time = flags.ends_with(':');
    if is_time || !(4..=8).contains(&flags.len()) || !after.blanks() {
        return None;
    }
    *scan = after;
    Some(flags)
}

/// `CPU:1 [LOST 3 EVENTS]`, as the kernel writes it, or `CPU:1 [3 EVENTS DROPPED]`, as trace-cmd does; trace-cmd may
/// not know how many, which counts as one.
fn lost(line: &str) -> Option<u64> {
    let mut scan = Scan::new(line.trim());
    if !scan.eat("CPU:") || scan.digits().is_none() || !scan.blanks() || !scan.eat("[") {
        return None;
    }
    let count = if scan.eat("LOST ") {
        let count = scan.number()?;
        scan.eat(" EVENTS").then_some(count)?
    } else if scan.eat("EVENTS DROPPED") {
        1
    } else {
        let count = scan.number()?;
        scan.eat(" EVENTS DROPPED").then_some(count)?
    };
    (scan.rest == "]").then_some(count)
}

/// `# wakelab-task: pid=7 cpus=0-3 footprint_bytes=32768`; without `cpus=` it may run everywhere.
fn told(line: &str) -> Option<Told<'_>> {
    let mut scan = Scan::new(line);
    let tid = (scan.eat(TOLD) && scan.eat(" pid=")).then(|| scan.id()).flatten()?;
    let cpus = if scan.eat(" cpus=") {
        Some(scan.while_ascii(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b','))
    } else {
        None
    };
    let footprint_bytes = scan.eat(" footprint_bytes=").then(|| scan.number()).flatten()?;
    scan.rest.is_empty().then_some(Told { tid, cpus, footprint_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_all_writers() {
        let fields = "comm=a pid=1 prio=120 target_cpu=001";
        for (line, comm, tid, process, flags) in [
            ("           <...>-1701  [001]    76.211513: sched_waking:         ", "<...>", 1701, None, None),
            (
                "  kworker/u12:1-46    [001] d..2.    76.211513: sched_waking: ",
                "kworker/u12:1",
                46,
                None,
                Some("d..2."),
            ),
            (
                "          <idle>-0       [001] dNh2    76.211513: sched_waking: ",
                "<idle>",
                0,
                None,
                Some("dNh2"),
            ),
            (
                "   my [0] ta-sk-7     (    5) [001] ....1  76.211513: sched_waking: ",
                "my [0] ta-sk",
                7,
                Some(5),
                Some("....1"),
            ),
            ("a-7     (-------) [001] ....  76.211513: sched_waking: ", "a", 7, None, Some("....")),
        ] {
            let line = format!("{line}{fields}");
            let head = head_of(&line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(head.current, Current { comm, tid: Some(tid), process }, "{line}");
            assert_eq!((head.cpu, head.seconds, head.fraction), ("001", "76", "211513"), "{line}");
            assert_eq!((head.flags, head.name, head.fields), (flags, "sched_waking", fields), "{line}");
        }
        let function = "            bash-1994  [000] ....  5281.568961: vfs_read <-ksys_read";
        assert_eq!(head_of(function).map(|head| head.name), Some(""));
        for other in
            ["# comment-7 [001] 1.000000: x: ", "cpus=6", "a 7 [001] 1.000000: x: ", "a-7 [001] 1: x: "]
        {
            assert!(head_of(other).is_none(), "{other}");
        }
    }

    #[test]
    fn lost_events_in_both_notations() {
        assert_eq!(lost("CPU:3 [LOST 204 EVENTS]"), Some(204));
        assert_eq!(lost("CPU:3 [204 EVENTS DROPPED]"), Some(204));
        assert_eq!(lost("CPU:3 [EVENTS DROPPED]"), Some(1));
        assert_eq!(lost("CPU:3 [204 EVENTS]"), None);
        assert_eq!(lost("LOST 204 EVENTS"), None);
    }

    #[test]
    fn what_our_exports_tell() {
        let with = Told { tid: 7, cpus: Some("0-3,8"), footprint_bytes: 9 };
        assert_eq!(told("# wakelab-task: pid=7 cpus=0-3,8 footprint_bytes=9"), Some(with));
        let without = Told { cpus: None, ..with };
        assert_eq!(told("# wakelab-task: pid=7 footprint_bytes=9"), Some(without));
        assert_eq!(told("# wakelab-task: pid=7"), None);
    }
}
