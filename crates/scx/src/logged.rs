// SPDX-License-Identifier: GPL-2.0-only
//! The loader of the BPF side that logs: the same code as in plain.rs, for its skeleton.

#[path = "groups.rs"]
mod groups;
#[path = "log.rs"]
mod log;
#[path = "scheduler.rs"]
pub(crate) mod scheduler;
#[path = "stats.rs"]
mod stats;

use crate::logged_skel::{
    LoggedSkel as Skel, LoggedSkelBuilder as SkelBuilder, OpenLoggedSkel as OpenSkel, types,
};
