// SPDX-License-Identifier: GPL-2.0-or-later
//! Recordings in: one reader a format, one causal model out.
//!
//! A reader ([`perf_script`], [`ftrace`]) turns a file into a stream of [`event::Item`]s in the order of time; which
//! one it takes is seen from the first line that says something. [`causal`] turns that stream into a [`Workload`]: what
//! each task did and whom it waited for, not when. A replay is a closed loop: if a waker is slower, its wakee waits
//! longer.
//!
//! docs/guide/recordings.md says how to make a recording, and by which rules it is read.

pub mod causal;
pub mod error;
pub mod event;
pub mod explained;
mod fields;
mod format;
mod ftrace;
#[cfg(test)]
mod ftrace_round_trip;
pub mod ftrace_write;
mod interrupts;
mod joined;
mod kernel;
mod lines;
pub mod loops;
mod magic;
mod notes;
mod perf_script;
mod program;
mod rescale;
mod scan;
mod text;

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;

use serde::Serialize;
use wakelab_machine::Machine;
use wakelab_workload::Workload;

pub use error::TraceError;
pub use explained::{Explained, Gap, GapCount};

/// CPU numbers are below this, as in the policy (`WL_MAX_CPUS`).
pub const MAX_CPUS: u32 = 4096;

/// How to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Refuse a recording at the first thing in it that cannot be explained, instead of counting it.
    pub strict: bool,
    /// The machine that was recorded. With it CPU time becomes work on a core of capacity 1024 whose other threads
    /// idle, and what the kernel did of it is taken off; without, CPU time is work.
    pub recorded_on: Option<Machine>,
    /// Tasks whose wake-ups from outside come at times of their own, and those where they come so long after the task
    /// went to sleep: by name, or the beginning of the name and `*`. The longer pattern counts; of all other tasks the
    /// rule in [`loops`] decides.
    pub open: Vec<String>,
    /// See `open`.
    pub closed: Vec<String>,
    /// So many runs, each beginning when the one before has ended; `None`: one.
    pub repeat: Option<NonZeroU32>,
}

/// A recording, read and understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recording {
    /// What the tasks did. Work is the CPU time that they used on the machine that was recorded.
    pub workload: Workload,
    /// So many runs of the recording, joined end to end. The workload holds all of them, everything else here is of
    /// one.
    pub runs: u32,
    /// The highest CPU number in the recording plus one. Tasks name CPUs below this only.
    pub nr_cpus: u32,
    /// From the first event to the last.
    pub duration_ns: u64,
    /// Events of any kind, those that say nothing about waiting included.
    pub events: u64,
    /// CPU time of all tasks together.
    pub busy_ns: u64,
    /// How much of the waiting is explained, and what is not.
    pub explained: Explained,
}

/// Reads the recording in the file `path`. The workload gets the file's name.
///
/// # Errors
/// Whatever [`read_from`] refuses, and a file that cannot be opened.
pub fn read(path: &Path, options: &Options) -> Result<Recording, TraceError> {
    let shown = path.display().to_string();
    if path.is_dir() {
        return Err(magic::folder(path, &shown));
    }
    let file = File::open(path).map_err(|source| TraceError::Io { file: shown.clone(), source })?;
    let name = path.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
    read_from(file, &shown, &name, options)
}

/// Reads a recording from `input`. Errors call it `file`, the workload is called `name`.
///
/// Takes time in proportion to the length of the input, and memory in proportion to the tasks, the CPUs and the
/// operations that come of it.
///
/// # Errors
/// With file and line, or byte: what is not text, or of no format that is known; a line that is cut off or that cannot
/// be parsed; time that goes backwards; a CPU number of [`MAX_CPUS`] or more; a recording without events or without
/// context switches. With [`Options::strict`], the first [`Gap`]. Patterns of [`Options::open`] and [`Options::closed`]
/// that say both or that no task fits; more runs than can be numbered.
pub fn read_from(
    input: impl Read,
    file: &str,
    name: &str,
    options: &Options,
) -> Result<Recording, TraceError> {
    let mut reader = format::reader(input, file)?;
    causal::model(&mut *reader, name, options)
}
