// SPDX-License-Identifier: GPL-2.0-or-later
//! A recording as text: the header, the events as `perf script` prints them, and a few lines that are known only then.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};

use wakelab_trace::{header, perf_line_time_ns};

use crate::cost::THREAD;
use crate::error::RecordError;
use crate::messages::Messages;
use crate::perf::Script;
use crate::probes::Probed;
use crate::session::Taken;
use crate::stop::Stop;

/// Events between two reports of progress.
const STEP: u64 = 10_000;

/// How far the lines of `perf script` are put in the order of time. perf orders what it has read from all CPUs at a
/// time; on a busy machine, one CPU's buffer may be read so late that its events come after later ones (0.7 ms was
/// seen).
const WINDOW_NS: u64 = 200_000_000;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Events in the recording.
    pub events: u64,
    /// Events of system calls for which there are no lines, or lines about messages instead.
    pub events_left_out: u64,
    /// Pipes and eventfds whose messages are missing, because the process that made them began unseen.
    pub unknown_channels: u64,
    /// Events that perf lost.
    pub lost: u64,
    /// The cost of one event, in ns of the CPU time of the task that caused it; `None` if it was not measured.
    pub event_cost_ns: Option<u64>,
}

impl Taken {
    /// Writes the recording to `out`, and tells `watch` the number of events now and then.
    ///
    /// # Errors
    /// `perf script` fails, `out` cannot be written, or a stop comes.
    pub fn write(
        self,
        out: &mut impl Write,
        stop: &Stop,
        watch: &mut dyn FnMut(u64),
    ) -> Result<Written, RecordError> {
        let stops = stop.stops();
        self.header
            .write(out)
            .and_then(|()| out.write_all(self.facts.as_bytes()))
            .map_err(RecordError::Write)?;
        let (script, events) = Script::start(&self.program, &self.data)?;
        let mut input = BufReader::with_capacity(1 << 18, events);
        let mut line = Vec::new();
        let mut lines = Lines::new(self.end_ns);
        let mut window = Window::default();
        let mut messages = Messages::new(self.calls);
        let mut probed = self.probed;
        lines.written.lost = probed.as_ref().map_or(0, |probed| probed.lost);
        loop {
            line.clear();
            let length = input.read_until(b'\n', &mut line).map_err(RecordError::Write)?;
            let time_ns = perf_line_time_ns(&String::from_utf8_lossy(&line));
            if let Some(probed) = &mut probed {
                let until_ns = if length == 0 { Some(u64::MAX) } else { time_ns };
                window.put_told(probed, until_ns).map_err(RecordError::Write)?;
            }
            if length > 0 {
                window.put(time_ns, &line);
            }
            while let Some(line) = window.next(length == 0) {
                if lines.keep(&String::from_utf8_lossy(&line)) {
                    messages.put(line);
                }
            }
            while let Some(line) = messages.next(length == 0) {
                lines.written_lines += 1;
                out.write_all(&line).map_err(RecordError::Write)?;
            }
            if length == 0 {
                break;
            }
            if lines.read.is_multiple_of(STEP) {
                if stop.stops() > stops {
                    return Err(RecordError::Interrupted);
                }
                watch(lines.written.events);
            }
        }
        script.end()?;
        let cost_ns = self.added.and_then(|added| added.event_cost_ns(lines.measuring));
        let written = lines.written(cost_ns, messages.unknown());
        out.write_all(footer(&written).as_bytes()).map_err(RecordError::Write)?;
        Ok(written)
    }
}

fn footer(written: &Written) -> String {
    let cost = written.event_cost_ns.map(|cost_ns| header::line("event-cost-ns", &cost_ns.to_string()));
    let how = match cost {
        Some(_) => "median of 9 pairs of 500 round trips over pipes on one CPU, without events and with them",
        None => "not measured",
    };
    let left_out = match written.events_left_out {
        0 => String::new(),
        count => header::line("events-left-out-of-calls", &count.to_string()),
    };
    let end = format!("{} events, {} lost", written.events, written.lost);
    left_out
        + &cost.unwrap_or_default()
        + &header::line("event-cost-measured", how)
        + &header::line("end", &end)
}

/// Puts lines in the order of time, within [`WINDOW_NS`]; lines of one time stay in their order.
#[derive(Default)]
struct Window {
    /// By time and number.
    lines: BTreeMap<(u64, u64), Vec<u8>>,
    /// The place of the last line. A line without a time goes on with the one before: a task's name may hold newlines.
    last: (u64, u64),
    newest_ns: u64,
}

impl Window {
    fn put(&mut self, time_ns: Option<u64>, line: &[u8]) {
        if let Some(time_ns) = time_ns {
            self.last = (time_ns, self.last.1 + 1);
            self.newest_ns = self.newest_ns.max(time_ns);
        }
        self.lines.entry(self.last).or_default().extend_from_slice(line);
    }

    /// Puts the lines of what was told until then; without a time, none.
    fn put_told(&mut self, probed: &mut Probed, until_ns: Option<u64>) -> io::Result<()> {
        while let Some((time_ns, line)) = until_ns.map_or(Ok(None), |until_ns| probed.next(until_ns))? {
            self.put(Some(time_ns), line.as_bytes());
        }
        Ok(())
    }

    /// Takes the first line out, if none can come before it or the end is reached.
    fn next(&mut self, at_end: bool) -> Option<Vec<u8>> {
        let first = self.lines.first_entry()?;
        let is_sure = at_end || first.key().0 + WINDOW_NS < self.newest_ns;
        is_sure.then(|| first.remove())
    }
}

/// The lines of `perf script`, in the order of time: those of the recording, and then those that measure the
/// cost of an event.
struct Lines {
    end_ns: u64,
    is_over: bool,
    read: u64,
    /// Those that were kept, and those that were written of them.
    kept: u64,
    written_lines: u64,
    written: Written,
    /// Events of the threads that measure the cost.
    measuring: u64,
}

impl Lines {
    fn new(end_ns: u64) -> Lines {
        let written = Written::default();
        Lines { end_ns, is_over: false, read: 0, kept: 0, written_lines: 0, written, measuring: 0 }
    }

    /// What was written, at the end.
    fn written(&self, event_cost_ns: Option<u64>, unknown_channels: u64) -> Written {
        let events_left_out = self.kept.saturating_sub(self.written_lines);
        let events = self.written.events - events_left_out.min(self.written.events);
        Written { events, events_left_out, unknown_channels, event_cost_ns, ..self.written }
    }

    /// Counts a line. Returns whether it belongs to the recording.
    fn keep(&mut self, line: &str) -> bool {
        self.read += 1;
        self.is_over |= perf_line_time_ns(line).is_some_and(|time_ns| time_ns > self.end_ns);
        if self.is_over {
            self.measuring += u64::from(line.trim_start().starts_with(THREAD));
            return false;
        }
        self.kept += 1;
        match line.split_once("PERF_RECORD_LOST") {
            Some((_, fields)) => {
                self.written.lost +=
                    fields.trim().rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(1);
            }
            None => self.written.events += 1,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recording_ends_where_the_measurement_begins() {
        let mut lines = Lines::new(2_000_000_000);
        for (text, kept) in [
            ("a 7/7 [000] 1.000000000: sched:sched_switch: x\n", true),
            ("a 7/7 [000] 1.500000000: PERF_RECORD_LOST lost 12\n", true),
            ("a 7/7 [000] 2.000000000: sched:sched_switch: x\n", true),
            ("perf 8/8 [000] 2.000000001: sched:sched_switch: x\n", false),
            ("   wl-cost-a 9/10 [000] 2.000000002: sched:sched_switch: x\n", false),
        ] {
            assert_eq!(lines.keep(text), kept, "{text}");
        }
        assert_eq!((lines.written.events, lines.written.lost, lines.measuring), (2, 12, 1));
        // Of the three lines, a line about a message stands for two.
        lines.written_lines = 2;
        let written = lines.written(Some(310), 4);
        assert_eq!((written.events, written.events_left_out, written.unknown_channels), (1, 1, 4));
        assert_eq!((written.lost, written.event_cost_ns), (12, Some(310)));
    }

    #[test]
    fn late_lines_take_their_place() {
        let mut window = Window::default();
        let mut out = Vec::new();
        let second = 1_000_000_000;
        for (time_ns, line) in [
            (Some(second), "a"),
            (Some(second + 5), "c\n"),
            (None, "d"),
            (Some(second + 4), "b"),
            (Some(second + 5), "e"),
            (Some(2 * second), "f"),
        ] {
            window.put(time_ns, line.as_bytes());
            out.extend(std::iter::from_fn(|| window.next(false)));
        }
        assert_eq!(out.concat(), b"abc\nde", "those of the last 0.2 s are kept back");
        assert_eq!(window.next(true), Some(b"f".to_vec()));
    }

    #[test]
    fn the_end_tells_what_was_not_known_before() {
        let written = Written { events: 5, lost: 1, event_cost_ns: Some(310), ..Written::default() };
        assert!(footer(&written).starts_with("# wakelab-event-cost-ns: 310\n"));
        let text = footer(&Written { event_cost_ns: None, ..written });
        assert_eq!(text, "# wakelab-event-cost-measured: not measured\n# wakelab-end: 5 events, 1 lost\n");
        let text = footer(&Written { events_left_out: 7, ..written });
        assert!(text.starts_with("# wakelab-events-left-out-of-calls: 7\n"), "{text}");
    }
}
