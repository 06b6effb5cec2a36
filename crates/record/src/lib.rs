// SPDX-License-Identifier: GPL-2.0-or-later
//! Recordings of a live machine: drives `perf record` and `perf script`, and writes one text with the events and, above
//! them, what no event says (crates/trace/src/header.rs).
//!
//! perf is told by a pipe when to begin and when to end, so that a recording holds the command from its start to its
//! end, and little of the recorder. While the command runs, all tasks of the recorder sleep but perf's, which wakes
//! when a buffer is half full.
//!
//! Nothing is left behind, however the recorder ends. perf's data go to a file without a name, which perf opens by its
//! descriptor in /proc. perf itself is started through [`exec_with_parent`], so that the kernel kills it together with
//! the recorder. The library prints nothing and catches no signals; a caller that does passes a [`Stop`].

mod calls;
mod clock;
mod cost;
mod descriptors;
mod error;
mod events;
mod facts;
mod messages;
mod open_files;
mod parent;
mod perf;
mod probes;
mod session;
mod stop;
mod tasks;
mod wakes;
mod write;

pub use error::RecordError;
pub use events::Group;
pub use parent::exec_with_parent;
pub use session::{Plan, Taken, record};
pub use stop::Stop;
pub use write::Written;
