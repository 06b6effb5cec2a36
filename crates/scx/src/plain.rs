// SPDX-License-Identifier: GPL-2.0-only
//! The loader of the BPF side that does not log. Each skeleton has its own types, so the code that uses one is compiled
//! for each: see logged.rs.

#[path = "groups.rs"]
mod groups;
#[path = "no_log.rs"]
mod log;
#[path = "scheduler.rs"]
pub(crate) mod scheduler;
#[path = "stats.rs"]
mod stats;

use crate::bpf_skel::{BpfSkel as Skel, BpfSkelBuilder as SkelBuilder, OpenBpfSkel as OpenSkel, types};
