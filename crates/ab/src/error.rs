// SPDX-License-Identifier: GPL-2.0-or-later
//! The reasons why there is no result.

use std::io;

use thiserror::Error;

/// Why trials were refused or given up. The kernel's own scheduler runs again when the caller sees one, unless it
/// says otherwise.
#[derive(Debug, Error)]
pub enum AbError {
    /// Only root can load policies.
    #[error("only root can load a policy into the kernel: run it with sudo")]
    NotRoot,
    /// The kernel has no sched_ext.
    #[error(
        "this kernel has no sched_ext, which needs Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT=y ({path} does not exist)"
    )]
    NoSchedExt {
        /// The file that would show its state.
        path: String,
    },
    /// Another scheduler is attached.
    #[error("a sched_ext scheduler is already running: {ops} (state `{state}`); stop it first")]
    Occupied {
        /// The text of /sys/kernel/sched_ext/root/ops.
        ops: String,
        /// The text of /sys/kernel/sched_ext/state.
        state: String,
    },
    /// The loader cannot be run.
    #[error(
        "cannot run the loader {path}: {source}; build it with `cargo build --release -p wakelab-scx`, or name it with --loader"
    )]
    NoLoader {
        /// The path as given.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The loader ended, or the kernel did not accept its scheduler.
    #[error("the loader did not attach {policy}: {why}")]
    NotAttached {
        /// The policy's name.
        policy: String,
        /// What happened, and the loader's last lines.
        why: String,
    },
    /// The kernel's own scheduler did not come back.
    #[error("the kernel's own scheduler did not come back: state is `{state}` after {after_s} s")]
    NotDetached {
        /// The text of /sys/kernel/sched_ext/state.
        state: String,
        /// Seconds of waiting.
        after_s: u64,
    },
    /// The command cannot be run.
    #[error("cannot run {program}: {source}")]
    NoCommand {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// The command failed.
    #[error("the command failed under {side}: {status}{said}")]
    CommandFailed {
        /// The scheduler.
        side: String,
        /// The exit code or signal, in words.
        status: String,
        /// The last lines of its output, each after a line break.
        said: String,
    },
    /// No line of the command's output matches.
    #[error(
        "the command's output under {side} has no line that `{regex}` matches with a number in its first group{said}"
    )]
    NoMetric {
        /// The scheduler.
        side: String,
        /// The expression as given.
        regex: String,
        /// The last lines of its output, each after a line break.
        said: String,
    },
    /// The scheduler did not stay attached in too many runs.
    #[error("{count} runs were void, the last of them under {side}: {why}")]
    Void {
        /// Number of void runs.
        count: usize,
        /// The scheduler.
        side: String,
        /// What happened in the last of them.
        why: String,
    },
    /// What the command left running does not end.
    #[error("{count} processes that the command left running could not be ended")]
    LeftRunning {
        /// Number of processes.
        count: usize,
    },
    /// A signal killed the process that runs the trials.
    #[error(
        "the process that ran the trials ended with {status}; the {count} processes that it left were ended, and the \
         kernel's own scheduler runs"
    )]
    WorkerKilled {
        /// How it ended.
        status: String,
        /// Number of processes below it.
        count: usize,
    },
    /// A signal, or [`crate::Interrupt::stop`].
    #[error("interrupted; the kernel's own scheduler runs")]
    Interrupted,
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried: a verb and its object.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Returns a closure for `map_err` that says what was tried.
pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> AbError {
    let what = what.into();
    move |source| AbError::System { what, source: source.into() }
}
