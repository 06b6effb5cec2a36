// SPDX-License-Identifier: GPL-2.0-or-later
//! A command run alternately under several schedulers of a live kernel, and measured: the kernel's own, and wakelab's
//! policies through the loader `scx_wakelab`.
//!
//! Runs come in blocks, each of one run under every scheduler in random order; runs are compared within their block, so
//! that what drifts slowly meets all alike. For a run under a policy the loader is started, the kernel must say that
//! its scheduler is attached, before and after the run and without a break; else the run is void. Afterwards the loader
//! is stopped, and the kernel's own scheduler must be back. [`run`] returns plain data, [`TrialRuns`]; crate
//! wakelab-report makes tables and JSON of it.
//!
//! Library: prints nothing, catches no signals. Whoever does hands in an [`Interrupt`] and calls its `stop`.

mod command;
mod counters;
mod error;
mod interrupt;
mod kernel;
mod metrics;
mod order;
mod runs;
mod trials;

pub use error::AbError;
pub use interrupt::Interrupt;
pub use kernel::LoaderCommand;
pub use runs::{MissingMetric, StoppedBy, TrialMetric, TrialRuns, VoidRun};
pub use trials::{OwnMetric, Plan, Progress, Side, run};
