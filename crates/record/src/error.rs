// SPDX-License-Identifier: GPL-2.0-or-later
//! The reasons why there is no recording.

use std::io;

use thiserror::Error;

/// Why a recording was refused or given up. Nothing of it is left then.
#[derive(Debug, Error)]
pub enum RecordError {
    /// Only root can record the whole machine.
    #[error("only root can record the events of the whole machine: run it with sudo")]
    NotRoot,
    /// perf is missing, or it is a wrapper that finds no perf for this kernel.
    #[error(
        "cannot run {program}: {why}; install perf (Debian: linux-perf; Ubuntu: linux-tools-generic and \
         linux-tools-$(uname -r); Fedora, Arch: perf)"
    )]
    NoPerf {
        /// The program.
        program: String,
        /// The system's error, or perf's last line.
        why: String,
    },
    /// The kernel shows no events.
    #[error(
        "cannot find the kernel's events in {tried}: mount them with `mount -t tracefs nodev /sys/kernel/tracing`"
    )]
    NoTracefs {
        /// The folders.
        tried: String,
    },
    /// The kernel lacks an event without which there is no recording.
    #[error(
        "this kernel has no event {event}, without which nothing can be replayed (CONFIG_TRACEPOINTS, CONFIG_FTRACE)"
    )]
    NoEvent {
        /// Its name.
        event: &'static str,
    },
    /// The command cannot be run.
    #[error("cannot run {program}: {why}")]
    NoCommand {
        /// The program.
        program: String,
        /// The system's error.
        why: io::Error,
    },
    /// perf refused, or ended too early.
    #[error("{what} ended with {status}{said}")]
    PerfFailed {
        /// `perf record` or `perf script`.
        what: &'static str,
        /// Its exit code or signal, in words.
        status: String,
        /// What it said, each line after a line break; and what to do, if that is known.
        said: String,
    },
    /// A stop came after the recording had ended and before it was written.
    #[error("interrupted before the recording was written")]
    Interrupted,
    /// The output cannot be written.
    #[error("cannot write the recording: {0}")]
    Write(io::Error),
    /// A system call failed.
    #[error("cannot {what}: {why}")]
    System {
        /// What was tried: a verb and its object.
        what: String,
        /// The system's error.
        why: io::Error,
    },
}

impl RecordError {
    /// Whether other arguments, or another machine, would avoid it.
    pub fn is_input(&self) -> bool {
        use RecordError::{NoCommand, NoEvent, NoPerf, NoTracefs, NotRoot};
        matches!(self, NotRoot | NoPerf { .. } | NoTracefs { .. } | NoEvent { .. } | NoCommand { .. })
    }
}

/// Returns a closure for `map_err` that says what was tried.
pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> RecordError {
    let what = what.into();
    move |source| RecordError::System { what, why: source.into() }
}
