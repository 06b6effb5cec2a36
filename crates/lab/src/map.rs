// SPDX-License-Identifier: GPL-2.0-or-later
//! Maps: one workload over machines and loads under several policies, to see where the sign of a gain flips.

use std::sync::Arc;

use serde::Serialize;
use wakelab_machine::Machine;
use wakelab_policy::PolicySpec;
use wakelab_sim::Outcome;
use wakelab_workload::Workload;

use crate::batch::Batch;
use crate::error::LabError;
use crate::load::{Load, TaskTemplate};
use crate::runner::Runner;
use crate::scenario::{Kernel, scenarios};

/// A workload on each machine with each load.
#[derive(Clone, Debug)]
pub struct MapPlan {
    /// The workload, with the number of tasks left open.
    pub workload: TaskTemplate,
    /// The machines.
    pub machines: Vec<Arc<Machine>>,
    /// The loads, in tasks for each CPU.
    pub loads: Vec<Load>,
    /// The policies.
    pub policies: Vec<PolicySpec>,
    /// What surrounds the policy.
    pub kernel: Kernel,
    /// The seeds of each scenario's runs.
    pub seeds: Vec<u64>,
}

/// One machine with one load.
#[derive(Clone, Debug, Serialize)]
pub struct MapCell {
    /// Index of the machine in the plan.
    pub machine: usize,
    /// Index of the load in the plan.
    pub load: usize,
    /// The workload with its number of tasks.
    pub workload: Arc<Workload>,
    /// By policy, then by seed.
    pub outcomes: Vec<Vec<Outcome>>,
}

/// Runs a map. A cell whose load is too small for one unit of the workload is left out.
///
/// # Errors
/// No cell at all; a workload or scenario that cannot be run; a run that fails.
pub fn map(plan: &MapPlan, runner: &Runner<'_>) -> Result<Vec<MapCell>, LabError> {
    let mut batch = Batch::default();
    // Machine, load, and the workload with its number of tasks.
    let mut places: Vec<(usize, usize, Arc<Workload>)> = Vec::new();
    for (machine_at, machine) in plan.machines.iter().enumerate() {
        for (load_at, load) in plan.loads.iter().enumerate() {
            let Some(spec) = plan.workload.fill(load.tasks(machine.topology.nr_cpus())) else { continue };
            let workload = Workload::parse_spec(&spec).map_err(|error| LabError::Plan(error.to_string()))?;
            let workload = Arc::new(workload);
            for scenario in scenarios(machine, &workload, &plan.policies, plan.kernel) {
                batch.add(scenario, "")?;
            }
            places.push((machine_at, load_at, workload));
        }
    }
    if places.is_empty() {
        return Err(LabError::Plan(format!(
            "{}: no machine has enough CPUs for any of the loads",
            plan.workload
        )));
    }
    let mut outcomes = batch.run(&plan.seeds, runner)?.into_iter();
    let cell = |(machine, load, workload)| MapCell {
        machine,
        load,
        workload,
        outcomes: outcomes.by_ref().take(plan.policies.len()).collect(),
    };
    Ok(places.into_iter().map(cell).collect())
}
