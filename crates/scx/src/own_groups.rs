// SPDX-License-Identifier: GPL-2.0-only
//! The loader of the BPF side for the policy `wakelab` alone, with cgroups: the same code as in plain.rs, for its
//! skeleton.

#[path = "groups.rs"]
mod groups;
#[path = "no_log.rs"]
mod log;
#[path = "scheduler.rs"]
pub(crate) mod scheduler;
#[path = "stats.rs"]
mod stats;

use crate::own_groups_skel::{
    OpenOwnGroupsSkel as OpenSkel, OwnGroupsSkel as Skel, OwnGroupsSkelBuilder as SkelBuilder, types,
};
