// SPDX-License-Identifier: GPL-2.0-or-later
//! A command run alternately under several schedulers of a live kernel, and measured: the kernel's own, and wakelab's
//! policies through the loader `scx_wakelab`.
//!
//! Runs come in blocks. A block is one run under every scheduler, in random order. Runs are compared within their
//! block, because slow drift then affects all sides alike. For a run under a policy, the loader is started, and the
//! kernel must report its scheduler as attached before and after the run, without a break; otherwise the run is void.
//! Afterwards the loader is stopped, and the kernel's own scheduler must be back. What the command left running is
//! ended. [`run`] returns plain data, [`TrialRuns`]; crate wakelab-report makes tables and JSON of it.
//!
//! The library prints nothing and catches no signals. A caller that does passes an [`Interrupt`] and calls its `stop`.
//! [`run`] needs a process to itself, because it ends every process below: [`supervise`] starts one, and gives the
//! machine back if that is killed.

mod command;
mod counters;
mod descendants;
mod error;
mod interrupt;
mod kernel;
mod metrics;
mod order;
mod output;
mod runs;
mod supervise;
mod trials;

pub use error::AbError;
pub use interrupt::Interrupt;
pub use kernel::LoaderCommand;
pub use runs::{LeftRunning, MissingMetric, StoppedBy, TrialMetric, TrialRuns, VoidRun};
pub use supervise::{join_supervisor, supervise};
pub use trials::{OwnMetric, Plan, Progress, Side, run};
