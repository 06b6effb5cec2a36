// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a recording is refused: file, line or byte, what was found and what was expected.

use wakelab_machine::printable;
use wakelab_workload::TASKS_MAX;

use crate::MAX_CPUS;
use crate::event::Place;
use crate::explained::Gap;
use crate::joined::JOINED_OPS_MAX;
use crate::window::Span;

/// Why a recording is refused.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refuses to read the file, or it is packed and damaged.
    #[error("{file}: cannot be read: {source}")]
    Io {
        /// The recording.
        file: String,
        /// The reason.
        source: std::io::Error,
    },
    /// A known kind of file, but not text.
    #[error("{file}: expected a recording, found {found}; {advice}")]
    Foreign {
        /// The file.
        file: String,
        /// What it is.
        found: String,
        /// What to do with it.
        advice: String,
    },
    /// Not text.
    #[error("{file}:{line}: byte {byte}: expected text, found {found}")]
    NotText {
        /// The recording.
        file: String,
        /// From 1.
        line: u64,
        /// Offset in the file, from 0.
        byte: u64,
        /// What is there.
        found: String,
    },
    /// A binary file that cannot be read.
    #[error("{file}: byte {byte}: expected {expected}, found {found}")]
    Bytes {
        /// The recording.
        file: String,
        /// Offset in the file, from 0.
        byte: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Text, but its first line is not one of a known format.
    #[error(
        "{file}:{line}: not a recording: expected a line of `perf script` (`comm pid [cpu] time: event: fields`) or of \
         ftrace (`comm-pid [cpu] flags time: event: fields`), found `{found}`; make one with: perf script --ns -F +pid \
         --show-lost-events -i perf.data > {perf_output} (without 2>&1, because perf's messages are not part of it), \
         or: trace-cmd report -t trace.dat > {ftrace_output}"
    )]
    UnknownFormat {
        /// The file.
        file: String,
        /// From 1.
        line: u64,
        /// The line's beginning.
        found: String,
        /// Names of files that do not exist yet.
        perf_output: String,
        /// See `perf_output`.
        ftrace_output: String,
    },
    /// A line that cannot be read.
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
        "{file}{place}: time goes backwards: expected {previous_ns} ns or later, found {time_ns} ns \
         (recorders write events in the order of time; the file may be shuffled, or two files may be joined)"
    )]
    TimeBackwards {
        /// The recording.
        file: String,
        /// Where it stands.
        place: Place,
        /// Its time.
        time_ns: u64,
        /// The time of the event before.
        previous_ns: u64,
    },
    /// More CPUs than any machine here.
    #[error("{file}{place}: expected a CPU number below {MAX_CPUS}, found {cpu}")]
    Cpu {
        /// The recording.
        file: String,
        /// Where it stands.
        place: Place,
        /// As it is written there.
        cpu: String,
    },
    /// The machine that the caller says was recorded has fewer CPUs.
    #[error(
        "{file}{place}: an event on CPU {cpu}, but the recorded machine is said to be {machine}, which has {nr_cpus} CPUs"
    )]
    RecordedOn {
        /// The recording.
        file: String,
        /// Where it stands.
        place: Place,
        /// The CPU.
        cpu: u32,
        /// The machine's name.
        machine: String,
        /// How many it has.
        nr_cpus: u32,
    },
    /// No event at all.
    #[error(
        "{file}: the recording is empty: expected the text of `perf script` or of ftrace, found no event in its {lines} \
         lines"
    )]
    Empty {
        /// The recording.
        file: String,
        /// How many lines there are.
        lines: u64,
    },
    /// Events, but no context switch.
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
    /// [`crate::Options::time`] has no context switch.
    #[error(
        "{file}: no context switch from {} s to {} after the first event; expected a part of the {:.3} s that were read",
        span.from_ns as f64 / 1e9,
        span.to_ns.map_or("the end".to_owned(), |to_ns| format!("{} s", to_ns as f64 / 1e9)),
        *length_ns as f64 / 1e9
    )]
    EmptyPart {
        /// The recording.
        file: String,
        /// The part.
        span: Span,
        /// From the first event to the last that was read.
        length_ns: u64,
    },
    /// A pattern is in both [`crate::Options::open`] and [`crate::Options::closed`].
    #[error("{file}: tasks called `{pattern}` cannot be both in an open loop and in a closed loop")]
    OpenAndClosed {
        /// The recording.
        file: String,
        /// The pattern.
        pattern: String,
    },
    /// A pattern of [`crate::Options::of`] fits no task.
    #[error(
        "{file}: no task is called `{pattern}`; expected the name of a task, its beginning and *, or the path of a control \
         group"
    )]
    NoSuchTask {
        /// The recording.
        file: String,
        /// The pattern.
        pattern: String,
    },
    /// A pattern of [`crate::Options::open`] or [`crate::Options::closed`] fits no task that was woken from outside.
    #[error(
        "{file}: no task called `{pattern}` was woken from outside, so none is in an open or a closed loop; expected the \
         name of a task, or its beginning and *"
    )]
    NoSuchSleeper {
        /// The recording.
        file: String,
        /// The pattern.
        pattern: String,
    },
    /// [`crate::Options::repeat`] is too large for this recording.
    #[error(
        "{file}: {runs} runs of {tasks} tasks with {ops} operations are too many; expected at most {TASKS_MAX} tasks and \
         {JOINED_OPS_MAX} operations in all runs, which is {most} runs"
    )]
    TooManyRuns {
        /// The recording.
        file: String,
        /// The number of runs.
        runs: u32,
        /// The number of tasks of one run.
        tasks: u64,
        /// The number of operations of one run.
        ops: u64,
        /// The largest number of runs that is possible.
        most: u64,
    },
    /// Something that cannot be explained, with [`crate::Options::strict`].
    #[error("{file}{place}: cannot be explained: {gap}")]
    Unexplained {
        /// The recording.
        file: String,
        /// Where it stands.
        place: Place,
        /// The kind of gap.
        gap: Gap,
    },
}

/// The beginning of a line, printable and short enough for an error.
pub(crate) fn excerpt(line: &str) -> String {
    const MAX_CHARS: usize = 100;
    let line = line.trim();
    let rest = if line.chars().nth(MAX_CHARS).is_some() { "..." } else { "" };
    let shown: String = line.chars().take(MAX_CHARS).collect();
    format!("{}{rest}", printable(&shown))
}

/// The end of a line that is cut off, printable and short enough for an error.
pub(crate) fn excerpt_of_end(line: &str) -> String {
    const MAX_CHARS: usize = 47;
    let skipped = line.chars().count().saturating_sub(MAX_CHARS);
    let rest = if skipped > 0 { "..." } else { "" };
    let shown: String = line.chars().skip(skipped).collect();
    format!("{rest}{}", printable(&shown))
}
