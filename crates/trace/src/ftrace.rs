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
//! `trace-cmd report -t`, and the CPU and the flags are one word with `-l` (`0d.h1.`).
//!
//! Other lines: comments (`#`), what trace-cmd says about its file (`cpus=6`, `CPU 2 is empty`), lost events, stack
//! traces (` => schedule`, after an event), and functions of the function tracers, which have no colon and say nothing
//! about scheduling. What programs print (trace_marker) may go over several lines. A comment says how many events the
//! kernel wrote and how many of them its buffer still holds; the others were overwritten and count as lost.

use crate::event::{Current, Told};
use crate::program::UNKNOWN_COMM;
use crate::scan::{Scan, trim_blanks_after, trim_blanks_before};
use crate::text::{Format, Head, Line, head};

/// How our own exports begin what no event says; see `crates/trace/src/ftrace_write.rs`.
pub(crate) const TOLD: &str = "# wakelab-task:";

/// The format of ftrace's text.
#[derive(Debug, Default)]
pub(crate) struct Text {
    /// The event before was something that a program printed: a line that cannot be read belongs to it.
    printing: bool,
}

impl Format for Text {
    const EVENT: &'static str = "`comm-pid [cpu] flags time: event: fields`";

    fn head(line: &str) -> Option<Head<'_>> {
        head(line, current, after_cpu).or_else(|| latency_head(line))
    }

    fn line(&mut self, text: &str, any_event: bool) -> Line {
        if let Some(head) = Text::head(text) {
            self.printing = matches!(head.name, "print" | "bprint" | "bputs" | "tracing_mark_write");
            return Line::Event(head.places(text));
        }
        if text.starts_with(TOLD) {
            return Line::Told;
        }
        if let Some(count) = lost(text).or_else(|| overwritten(text)) {
            return Line::Lost(count);
        }
        if self.printing || is_noise(text, any_event) { Line::Skip } else { Line::Unknown }
    }

    /// `# wakelab-task: pid=7 cpus=0-3 slice_ns=3000000 footprint_bytes=32768 judged=1 awaited=1`; without `cpus=` it
    /// may run everywhere, without `slice_ns=` it has asked for no slice, without `judged=1` it does not belong to the
    /// service, and without `awaited=1` the service may be done before it is.
    fn told(line: &str) -> Option<Told<'_>> {
        let mut scan = Scan::new(line);
        let tid = (scan.eat(TOLD) && scan.eat(" pid=")).then(|| scan.id()).flatten()?;
        let cpus = if scan.eat(" cpus=") {
            Some(scan.while_ascii(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b','))
        } else {
            None
        };
        let slice_ns = if scan.eat(" slice_ns=") { Some(scan.number()?.try_into().ok()?) } else { None };
        let footprint_bytes = scan.eat(" footprint_bytes=").then(|| scan.number()).flatten()?;
        let [judged, awaited] = [" judged=1", " awaited=1"].map(|text| scan.eat(text));
        scan.rest.is_empty().then_some(Told {
            cpus,
            slice_ns,
            footprint_bytes: Some(footprint_bytes),
            judged,
            awaited,
            ..Told::nothing(tid)
        })
    }
}

/// Whether a line that is no event says nothing about scheduling.
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

/// Whether the line is one that trace-cmd, or Perfetto's traceconv, writes before the first event.
pub(crate) fn is_preamble(text: &str) -> bool {
    let mut scan = Scan::new(text);
    if scan.eat("version = ") || scan.eat("cpus=") {
        return scan.digits().is_some() && scan.rest.is_empty();
    }
    text == "TRACE:" || scan.eat("CPU ") && scan.digits().is_some() && scan.rest == " is empty"
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
    scan.rest.is_empty().then_some(Current { comm, tid: Some(tid), process })
}

/// What comes after `[`.
fn after_cpu<'a>(mut scan: Scan<'a>, current: Current<'a>) -> Option<Head<'a>> {
    let cpu = scan.digits()?;
    if !scan.eat("]") || !scan.blanks() {
        return None;
    }
    let flags = flags(&mut scan);
    after_flags(scan, current, cpu, flags)
}

/// A line of `trace-cmd report -l`, where the CPU and the flags are one word, and the name is cut:
/// `sleep-2147    0d.h1.`.
fn latency_head(line: &str) -> Option<Head<'_>> {
    const COMM_BYTES: usize = 8;
    let (comm, rest) = line.split_at_checked(COMM_BYTES)?;
    let mut scan = Scan::new(rest);
    let tid = scan.eat("-").then(|| scan.id()).flatten()?;
    if !scan.blanks() {
        return None;
    }
    let cpu = scan.digits()?;
    // `-R` writes them as a number.
    let flags = flags(&mut scan).filter(|flags| !flags.starts_with('-'))?;
    let comm = trim_blanks_before(comm);
    // More may have been cut off, and the events say it all.
    let comm = if comm.len() == COMM_BYTES { UNKNOWN_COMM } else { comm };
    after_flags(scan, Current { comm, tid: Some(tid), process: None }, cpu, Some(flags))
}

/// What comes after the flags.
fn after_flags<'a>(
    mut scan: Scan<'a>,
    current: Current<'a>,
    cpu: &'a str,
    flags: Option<&'a str>,
) -> Option<Head<'a>> {
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

/// `CPU:1 [LOST 3 EVENTS]`, as the kernel writes it, or `CPU:1 [3 EVENTS DROPPED]`, as trace-cmd does. An unknown
/// number (`CPU:1 [EVENTS DROPPED]`) counts as one.
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

/// `# entries-in-buffer/entries-written: 200/9000   #P:8`: 8,800 events were overwritten. `None`: none were.
fn overwritten(line: &str) -> Option<u64> {
    let mut scan = Scan::new(line);
    let in_buffer = scan.eat("# entries-in-buffer/entries-written: ").then(|| scan.number()).flatten()?;
    let written = scan.eat("/").then(|| scan.number()).flatten()?;
    written.checked_sub(in_buffer).filter(|&lost| lost > 0)
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
            let head = Text::head(&line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(head.current, Current { comm, tid: Some(tid), process }, "{line}");
            assert_eq!((head.cpu, head.seconds, head.fraction), ("001", "76", "211513"), "{line}");
            assert_eq!((head.flags, head.name, head.fields), (flags, "sched_waking", fields), "{line}");
        }
        let function = "            bash-1994  [000] ....  5281.568961: vfs_read <-ksys_read";
        assert_eq!(Text::head(function).map(|head| head.name), Some(""));
        for other in [
            "# a longer comment-7 [001] 1.000000: x: ",
            "cpus=6",
            "a 7 [001] 1.000000: x: ",
            "a-7 [001] 1: x: ",
        ] {
            assert!(Text::head(other).is_none(), "{other}");
        }
    }

    #[test]
    fn heads_with_the_cpu_beside_the_flags() {
        for (line, comm, tid, cpu, flags) in [
            ("   sleep-2147    0d.h1.   201.454723870: sched_waking: ", "sleep", 2147, "0", "d.h1."),
            ("  <idle>-0      63d.h2.   201.454724: sched_waking: ", "<idle>", 0, "63", "d.h2."),
            // It may be cut, here of `trace-cmd`.
            ("trace-cm-2146    3.....   201.453774: sched_waking: ", "<...>", 2146, "3", "....."),
            ("a -7 [0]-8       3.....   201.453774: sched_waking: ", "<...>", 8, "3", "....."),
        ] {
            let line = format!("{line}comm=a pid=1 prio=120 target_cpu=001");
            let head = Text::head(&line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(head.current, Current { comm, tid: Some(tid), process: None }, "{line}");
            assert_eq!((head.cpu, head.seconds, head.flags), (cpu, "201", Some(flags)), "{line}");
            assert_eq!((head.name, head.fields), ("sched_waking", "comm=a pid=1 prio=120 target_cpu=001"));
        }
        // -R writes the flags as a number.
        assert!(Text::head("trace-cm-2146    3-0x1   201.453778886: sched_switch: x").is_none());
    }

    #[test]
    fn lost_events_in_both_notations() {
        assert_eq!(lost("CPU:3 [LOST 204 EVENTS]"), Some(204));
        assert_eq!(lost("CPU:3 [204 EVENTS DROPPED]"), Some(204));
        assert_eq!(lost("CPU:3 [EVENTS DROPPED]"), Some(1));
        assert_eq!(lost("CPU:3 [204 EVENTS]"), None);
        assert_eq!(lost("LOST 204 EVENTS"), None);
        assert_eq!(overwritten("# entries-in-buffer/entries-written: 200/9000000   #P:2"), Some(8_999_800));
        assert_eq!(overwritten("# entries-in-buffer/entries-written: 200/200   #P:2"), None);
    }

    #[test]
    fn what_our_exports_tell() {
        let with = Told { cpus: Some("0-3,8"), footprint_bytes: Some(9), judged: true, ..Told::nothing(7) };
        assert_eq!(Text::told("# wakelab-task: pid=7 cpus=0-3,8 footprint_bytes=9 judged=1"), Some(with));
        let sliced = Told { slice_ns: Some(200_000), ..with };
        let text = "# wakelab-task: pid=7 cpus=0-3,8 slice_ns=200000 footprint_bytes=9 judged=1";
        assert_eq!(Text::told(text), Some(sliced));
        let awaited = Told { awaited: true, ..with };
        let text = "# wakelab-task: pid=7 cpus=0-3,8 footprint_bytes=9 judged=1 awaited=1";
        assert_eq!(Text::told(text), Some(awaited));
        let without = Told { cpus: None, judged: false, ..with };
        assert_eq!(Text::told("# wakelab-task: pid=7 footprint_bytes=9"), Some(without));
        assert_eq!(Text::told("# wakelab-task: pid=7"), None);
    }
}
