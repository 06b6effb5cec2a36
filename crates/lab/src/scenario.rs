// SPDX-License-Identifier: GPL-2.0-or-later
//! Scenarios of one machine and workload under several policies.

use std::sync::Arc;

use wakelab_machine::Machine;
use wakelab_policy::PolicySpec;
use wakelab_sim::{HostProfile, Scenario};
use wakelab_workload::Workload;

/// What surrounds the policy in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The kernel model that calls the policy.
    pub host: HostProfile,
    /// Simulated nanoseconds after which a run is stopped.
    pub limit_ns: u64,
    /// Simulated events after which a run fails.
    pub limit_events: u64,
}

/// One scenario for each policy, in the order of `policies`.
pub fn scenarios(
    machine: &Arc<Machine>,
    workload: &Arc<Workload>,
    policies: &[PolicySpec],
    kernel: Kernel,
) -> Vec<Scenario> {
    let scenario = |policy: &PolicySpec| Scenario {
        machine: Arc::clone(machine),
        workload: Arc::clone(workload),
        policy: policy.clone(),
        host: kernel.host,
        limit_ns: kernel.limit_ns,
        limit_events: kernel.limit_events,
    };
    policies.iter().map(scenario).collect()
}

/// The seeds `first`, `first` + 1, ..., `count` of them.
pub fn consecutive_seeds(first: u64, count: u32) -> Vec<u64> {
    (0..u64::from(count)).map(|index| first.wrapping_add(index)).collect()
}

/// A scenario in words, for errors: workload, machine, policy.
pub(crate) fn describe(scenario: &Scenario) -> String {
    format!("{} on {}, policy {}", scenario.workload.name, scenario.machine.name, scenario.policy)
}
