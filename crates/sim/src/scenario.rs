// SPDX-License-Identifier: GPL-2.0-or-later
//! Everything that determines a run but the seed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wakelab_machine::Machine;
use wakelab_policy::PolicySpec;
use wakelab_workload::Workload;

/// Which kernel's paths the simulated kernel takes around the policy (docs/design/contract.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostProfile {
    /// A sched_ext kernel from 6.12 on: slices end at ticks, a lone task's slice is refilled without telling the
    /// policy, and there is no remote wake list.
    SchedExt,
    /// Linux's own scheduler: remote wake list, placement at exec, balancing from the tick.
    Mainline,
}

/// A run without its seed. Results in JSON contain it whole, so that a result can be run again.
///
/// Scenarios that differ only in the policy share the machine and the workload; a copy of a scenario is cheap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// The machine that is simulated.
    pub machine: Arc<Machine>,
    /// What the tasks do.
    pub workload: Arc<Workload>,
    /// The policy that places them.
    pub policy: PolicySpec,
    /// The kernel around the policy.
    pub host: HostProfile,
    /// Simulated time in nanoseconds after which the run stops and says so.
    pub limit_ns: u64,
    /// The number of simulated events after which the run fails, so that no run takes days.
    #[serde(default = "limit_events")]
    pub limit_events: u64,
}

/// The usual [`Scenario::limit_events`]: a run that reaches it has taken several minutes.
pub const LIMIT_EVENTS: u64 = 2_000_000_000;

/// The value for scenarios in JSON that do not state it.
fn limit_events() -> u64 {
    LIMIT_EVENTS
}

impl Scenario {
    /// Returns the machine for changes. It is copied first if another scenario shares it.
    pub fn machine_mut(&mut self) -> &mut Machine {
        Arc::make_mut(&mut self.machine)
    }

    /// Returns the workload for changes. It is copied first if another scenario shares it.
    pub fn workload_mut(&mut self) -> &mut Workload {
        Arc::make_mut(&mut self.workload)
    }
}
