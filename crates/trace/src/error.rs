// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a recording is refused: file, line or byte, what was found and what was expected.

use crate::MAX_CPUS;
use crate::explained::Gap;

/// Why a recording is refused.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system says no.
    #[error("{file}: cannot be read: {source}")]
    Io {
        /// The recording.
        file: String,
        /// Its answer.
        source: std::io::Error,
    },
    /// Not text.
    #[error("{file}:{line}: byte {byte}: expected text, found {found}{hint}")]
    NotText {
        /// The recording.
        file: String,
        /// From 1.
        line: u64,
        /// Offset in the file, from 0.
        byte: u64,
        /// What is there.
        found: String,
        /// What to do about it, or empty.
        hint: &'static str,
    },
    /// Text, but its first line is not one of a format that is known.
    #[error(
        "{file}:{line}: no recording: expected a line of `perf script` (`comm pid [cpu] time: event: fields`) or of ftrace \
         (`comm-pid [cpu] flags time: event: fields`), found `{found}`; make it with: perf script -i perf.data > {file} \
         (without 2>&1: perf's own messages are not part of it), or: trace-cmd report -t trace.dat > {file}"
    )]
    UnknownFormat {
        /// The recording.
        file: String,
        /// From 1.
        line: u64,
        /// The line's beginning.
        found: String,
    },
    /// A line that cannot be understood.
    #[error("{file}:{line}: expected {expected}, found `{found}`")]
    Line {
        /// The recording.
        file: String,
        /// From 1.
        line: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The last line has no end.
    #[error("{file}:{line}: the recording is cut off: expected a newline after `{found}`")]
    Cut {
        /// The recording.
        file: String,
        /// From 1.
        line: u64,
        /// The line's last characters.
        found: String,
    },
    /// Events are not in the order of time.
    #[error(
        "{file}:{line}: time goes backwards: expected {previous_ns} ns or later, found {time_ns} ns \
         (recorders write events in the order of time: is the file shuffled, or two files joined?)"
    )]
    TimeBackwards {
        /// The recording.
        file: String,
        /// From 1.
        line: u64,
        /// The line's time.
        time_ns: u64,
        /// The time of the event before.
        previous_ns: u64,
    },
    /// More CPUs than any machine here.
    #[error("{file}:{line}: expected a CPU number below {MAX_CPUS}, found {cpu}")]
    Cpu {
        /// The recording.
        file: String,
        /// From 1.
        line: u64,
        /// As it is written there.
        cpu: String,
    },
    /// The machine that was recorded, they say, has fewer CPUs.
    #[error(
        "{file}:{line}: CPU {cpu}, but {machine}, on which this was recorded as you say, has {nr_cpus} CPUs"
    )]
    RecordedOn {
        /// The recording.
        file: String,
        /// From 1.
        line: u64,
        /// The CPU.
        cpu: u32,
        /// The machine's name.
        machine: String,
        /// How many it has.
        nr_cpus: u32,
    },
    /// No event at all.
    #[error(
        "{file}: the recording is empty: expected the text of `perf script` or of ftrace, found no event in {lines} lines"
    )]
    Empty {
        /// The recording.
        file: String,
        /// How many lines there are.
        lines: u64,
    },
    /// Events, but none that says who runs.
    #[error(
        "{file}: expected sched_switch events, found none among {events} events; record with: perf sched record COMMAND, \
         or: trace-cmd record -e sched COMMAND"
    )]
    NoSwitch {
        /// The recording.
        file: String,
        /// How many events there are.
        events: u64,
    },
    /// [`crate::Options::open`] and [`crate::Options::closed`] say the same.
    #[error("{file}: tasks called `{pattern}` cannot be both in an open and in a closed loop")]
    OpenAndClosed {
        /// The recording.
        file: String,
        /// The pattern that is in both.
        pattern: String,
    },
    /// A pattern of [`crate::Options::open`] or [`crate::Options::closed`] means nobody.
    #[error(
        "{file}: no task called `{pattern}` was woken from outside, so none is in an open or a closed loop; expected a \
         task's name, or its beginning and *"
    )]
    NoSuchSleeper {
        /// The recording.
        file: String,
        /// The pattern.
        pattern: String,
    },
    /// [`crate::Options::repeat`] is too much.
    #[error("{file}: {runs} runs of {tasks} tasks: expected fewer than 2^32 tasks and waits in all")]
    TooManyRuns {
        /// The recording.
        file: String,
        /// How many.
        runs: u32,
        /// How many tasks one has.
        tasks: usize,
    },
    /// [`crate::Options::strict`]: something that cannot be explained.
    #[error("{file}:{line}: cannot be explained: {gap}")]
    Unexplained {
        /// The recording.
        file: String,
        /// From 1.
        line: u64,
        /// What.
        gap: Gap,
    },
}

/// The beginning of a line, printable and short enough for an error.
pub(crate) fn excerpt(line: &str) -> String {
    const MAX_CHARS: usize = 100;
    let line = line.trim();
    let mut shown: String = line.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if line.chars().nth(MAX_CHARS).is_some() {
        shown.push_str("...");
    }
    shown
}

/// The end of a line that is cut off.
pub(crate) fn excerpt_of_end(line: &str) -> String {
    const MAX_CHARS: usize = 47;
    let skipped = line.chars().count().saturating_sub(MAX_CHARS);
    let shown: String = line.chars().skip(skipped).flat_map(char::escape_debug).collect();
    if skipped > 0 { format!("...{shown}") } else { shown }
}
