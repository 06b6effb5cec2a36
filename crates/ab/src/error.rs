// SPDX-License-Identifier: GPL-2.0-or-later
//! Why there is no result.

use std::io;

use thiserror::Error;

/// Why trials were refused or given up. The kernel's own scheduler runs again by the time that the caller sees one.
#[derive(Debug, Error)]
pub enum AbError {
    /// Policies can be loaded by root alone.
    #[error("loading a policy into the kernel takes root: run it with sudo")]
    NotRoot,
    /// No sched_ext.
    #[error(
        "this kernel has no sched_ext: it takes Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT=y (there is no {path})"
    )]
    NoSchedExt {
        /// Where its state would be.
        path: String,
    },
    /// Somebody else's scheduler.
    #[error("a sched_ext scheduler is already running: {ops} (state `{state}`); stop it first")]
    Occupied {
        /// What /sys/kernel/sched_ext/root/ops says.
        ops: String,
        /// What /sys/kernel/sched_ext/state says.
        state: String,
    },
    /// The loader cannot be run.
    #[error(
        "cannot run the loader {path}: {source}; build it with `cargo build --release -p wakelab-scx`, or name it with --loader"
    )]
    NoLoader {
        /// As given.
        path: String,
        /// Of the system.
        source: io::Error,
    },
    /// The loader ended or the kernel did not take its scheduler.
    #[error("the loader did not attach {policy}: {why}")]
    NotAttached {
        /// The policy.
        policy: String,
        /// What happened; the loader's last words.
        why: String,
    },
    /// The kernel's own scheduler did not come back.
    #[error(
        "the kernel's own scheduler did not come back after {policy}: state is `{state}` after {after_s} s"
    )]
    NotDetached {
        /// The policy.
        policy: String,
        /// What /sys/kernel/sched_ext/state says.
        state: String,
        /// How long it was waited for.
        after_s: u64,
    },
    /// The command cannot be run.
    #[error("cannot run {program}: {source}")]
    NoCommand {
        /// Its program.
        program: String,
        /// Of the system.
        source: io::Error,
    },
    /// The command failed.
    #[error("the command failed under {side}: {status}{said}")]
    CommandFailed {
        /// Under what.
        side: String,
        /// Exit code or signal.
        status: String,
        /// The last lines of its output, each on a line of its own.
        said: String,
    },
    /// Nothing in the command's output matches.
    #[error(
        "the command's output under {side} has nothing that `{regex}` matches with a number in its first group{said}"
    )]
    NoMetric {
        /// Under what.
        side: String,
        /// As given.
        regex: String,
        /// The last lines of its output, each on a line of its own.
        said: String,
    },
    /// Too many runs in which the scheduler did not stay.
    #[error("{count} runs were void, the last of them under {side}: {why}")]
    Void {
        /// So many.
        count: usize,
        /// Under what.
        side: String,
        /// What happened.
        why: String,
    },
    /// A signal.
    #[error("interrupted; the kernel's own scheduler runs")]
    Interrupted,
    /// A call of the system failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Of the system.
        source: io::Error,
    },
}

/// For `map_err`: what was tried.
pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> AbError {
    let what = what.into();
    move |source| AbError::System { what, source: source.into() }
}
