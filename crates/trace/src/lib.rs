// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads recordings: one reader for each format makes the same causal model.
//!
//! A reader (of text, such as crates/trace/src/perf_script.rs, or of bytes, such as crates/trace/src/trace_dat.rs)
//! turns a file into a stream of [`event::Item`]s in the order of time; the first bytes and the first telling line of
//! the file select the reader. [`causal`] turns that stream into a [`Workload`]: what each task did and which task
//! ended each of its waits, but not when. A replay is a closed loop: if a waker is slower, its wakee waits longer.
//!
//! docs/guide/recordings.md says how to make a recording and by which rules it is read.

pub mod beside;
pub mod between;
pub mod causal;
mod ctf;
pub mod error;
pub mod event;
mod exits;
pub mod explained;
mod fields;
pub mod flows;
mod fold;
mod format;
mod ftrace;
#[cfg(test)]
mod ftrace_round_trip;
pub mod ftrace_write;
pub mod groups;
pub mod header;
mod interrupts;
mod joined;
mod kernel;
pub mod kernel_events;
pub mod learnt;
mod lines;
pub mod loops;
mod magic;
mod measured;
mod messages;
mod notes;
pub mod observed;
mod order;
mod perf_data;
mod perf_script;
mod perfetto;
#[cfg(test)]
mod perfetto_round_trip;
pub mod perfetto_write;
mod program;
mod quantile;
mod raw;
mod rescale;
mod scan;
mod text;
mod trace_dat;
mod unpack;
mod watch;
mod what;
mod what_if;
mod window;

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;

use serde::Serialize;
use wakelab_machine::{Machine, Topology};
use wakelab_workload::Workload;

use event::EventSource;

pub use error::TraceError;
pub use explained::{Explained, Gap, GapCount};
pub use fold::{Folded, fold};
pub use header::Header;
pub use kernel::is_kernel_thread;
pub use learnt::Learnt;
pub use measured::{Measured, MeasuredWake, WakeKind};
pub use observed::{Observations, Observed, Service};
pub use perf_script::{PerfLine, time_ns as perf_line_time_ns};
pub use watch::Watch;
pub use what_if::{
    Changed, ChangedTasks, CpusChange, FasterChange, NiceChange, QuotaChange, SliceChange, WeightChange,
    WhatIf, WhatIfError,
};
pub use window::{Span, SpanError};

/// The number of CPUs that a recording may have, as in the policy (`WL_MAX_CPUS`). CPU numbers are below it.
pub const MAX_CPUS: u32 = 4096;

/// How a recording is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Refuse a recording at its first [`Gap`], instead of counting gaps.
    pub strict: bool,
    /// The machine that was recorded. If it is given, CPU time becomes work on a core of capacity 1024 with idle SMT
    /// siblings, and the kernel's part of it is taken off. If not, CPU time is work.
    pub recorded_on: Option<Machine>,
    /// Which CPUs share a core and an LLC, where the recording does not tell and `recorded_on` is not given; to learn
    /// what a busy neighbour does to a task.
    pub topology: Option<Topology>,
    /// What one event cost the task that caused it ([`Header::event_cost_ns`]), to take that off its work: a replay has
    /// no recorder then. If it is `None`, the recorder's cost is work, as a replay that is compared with a recording
    /// must have it.
    pub event_cost_ns: Option<u64>,
    /// The tasks of the service, by name, or by the beginning of the name and `*`; if there are none, those that the
    /// recording says ([`Service`]).
    pub of: Vec<String>,
    /// Tasks in open loops, by name, or by the beginning of the name and `*`: wake-ups from outside come at their
    /// recorded times. If a task fits patterns here and in `closed`, the longer pattern counts. The rule in [`loops`]
    /// decides about tasks that fit none.
    pub open: Vec<String>,
    /// Tasks in closed loops, by the same patterns: wake-ups from outside come a fixed time after the task went to
    /// sleep.
    pub closed: Vec<String>,
    /// Model only the waits that the recording shows, and infer none ([`flows`]).
    pub recorded_waits_only: bool,
    /// Let every wait end at its recorded time, whatever other tasks do: all tasks are in open loops, and nothing is
    /// inferred. This is what a replay without causes predicts.
    pub recorded_times: bool,
    /// The part of the recording that counts; `None` is all of it.
    pub time: Option<Span>,
    /// The number of runs; each begins when the run before it has ended. `None` means one run.
    pub repeat: Option<NonZeroU32>,
}

/// A recording as a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recording {
    /// What the tasks did. Work is in nanoseconds; see [`Options::recorded_on`].
    pub workload: Workload,
    /// The number of runs in the workload, joined end to end. Everything else here describes one run.
    pub runs: u32,
    /// The highest CPU number in the recording plus one. Tasks name CPUs below this only.
    pub nr_cpus: u32,
    /// Time from the first event to the last.
    pub duration_ns: u64,
    /// The number of events of any kind, including those that say nothing about waiting.
    pub events: u64,
    /// CPU time of all tasks together.
    pub busy_ns: u64,
    /// How much of the waiting is explained, and what is missing.
    pub explained: Explained,
    /// What the recording shows of scheduling, to compare a replay with.
    #[serde(skip)]
    pub observed: Observations,
    /// Which tasks it is about.
    #[serde(skip)]
    pub service: Service,
    /// What it tells about the machine that made it.
    #[serde(skip)]
    pub learnt: Learnt,
    /// What `wakelab record` wrote about it. If another program made the recording, the kernel's release at most, or
    /// `None`.
    #[serde(skip)]
    pub header: Option<Header>,
    /// What was taken off the tasks' work for each event; [`Options::event_cost_ns`].
    #[serde(skip)]
    pub event_cost_ns: Option<u64>,
    /// CPU time of the tasks that recorded. If the header names them, they are left out everywhere else.
    #[serde(skip)]
    pub recorder_ns: u64,
}

/// Reads the recording in the file `path`, or in the folder, if it is a trace of LTTng. The workload gets its name.
///
/// # Errors
/// Everything that [`read_from`] refuses, any other folder, and a file that cannot be opened.
pub fn read(path: &Path, options: &Options) -> Result<Recording, TraceError> {
    let mut reader = open(path)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    causal::model(&mut *reader, &name, options)
}

/// Returns the reader of a file or folder.
fn open(path: &Path) -> Result<Box<dyn EventSource>, TraceError> {
    let shown = path.display().to_string();
    if path.is_dir() {
        return format::reader_of_folder(path, &shown);
    }
    let file = File::open(path).map_err(|source| TraceError::Io { file: shown.clone(), source })?;
    format::reader_of_file(file, &shown)
}

/// Reads a recording from `input`, which may be packed with gzip, xz or zstd. Errors call it `file`; the workload is
/// called `name`.
///
/// Takes time in proportion to the length of the text, and memory in proportion to the tasks, CPUs and operations of
/// the model.
///
/// # Errors
/// With file and line, or byte: input that is not text or of no known format; a line that is cut off or cannot be
/// parsed; time that goes backwards; a CPU number of [`MAX_CPUS`] or more, or beyond [`Options::recorded_on`]; a
/// recording without events or without context switches. With [`Options::strict`], the first [`Gap`]. A pattern that is
/// in both [`Options::open`] and [`Options::closed`], or that fits no task; more runs than memory holds.
pub fn read_from(
    input: impl Read,
    file: &str,
    name: &str,
    options: &Options,
) -> Result<Recording, TraceError> {
    let mut reader = format::reader(input, file)?;
    causal::model(&mut *reader, name, options)
}
