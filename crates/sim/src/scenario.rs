// SPDX-License-Identifier: GPL-2.0-or-later
//! Everything that determines a run but the seed.

use serde::{Deserialize, Serialize};
use wakelab_machine::Machine;
use wakelab_policy::PolicySpec;
use wakelab_workload::Workload;

/// Which kernel's paths the simulated kernel takes around the policy (docs/design/contract.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostProfile {
    /// A sched_ext kernel from 6.12 on: slices end at ticks, a lone task is refilled unseen, no remote wake list.
    SchedExt,
    /// Linux's own scheduler: remote wake list, placement at exec, balancing from the tick.
    Mainline,
}

/// A run, but for its seed. Serialised whole into every JSON result, so that it can be run again as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// On what.
    pub machine: Machine,
    /// What.
    pub workload: Workload,
    /// Under which policy.
    pub policy: PolicySpec,
    /// Inside which kernel.
    pub host: HostProfile,
    /// A run that has not ended by then is stopped and says so.
    pub limit_ns: u64,
}
