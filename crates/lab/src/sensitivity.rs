// SPDX-License-Identifier: GPL-2.0-or-later
//! Sensitivity: how a result moves when each estimated figure of a machine is halved and doubled.

use std::sync::Arc;

use serde::Serialize;
use wakelab_machine::Machine;
use wakelab_policy::PolicySpec;
use wakelab_sim::{Outcome, Scenario};
use wakelab_workload::Workload;

use crate::batch::Batch;
use crate::error::LabError;
use crate::runner::Runner;
use crate::scenario::{Kernel, scenarios};

/// One workload on one machine and on copies of it with changed figures.
#[derive(Clone, Debug)]
pub struct SensitivityPlan {
    /// The workload.
    pub workload: Arc<Workload>,
    /// The machine whose estimated figures are changed.
    pub machine: Arc<Machine>,
    /// The policies, usually one, or two whose gain is of interest.
    pub policies: Vec<PolicySpec>,
    /// What surrounds the policy.
    pub kernel: Kernel,
    /// The seeds of each scenario's runs.
    pub seeds: Vec<u64>,
}

/// The outcomes of a sensitivity analysis.
#[derive(Clone, Debug, Serialize)]
pub struct SensitivityOutcomes {
    /// On the machine as it is: one scenario for each policy.
    pub scenarios: Vec<Scenario>,
    /// On the machine as it is: by policy, then by seed.
    pub base: Vec<Vec<Outcome>>,
    /// One for each estimated figure, in the order of the machine file.
    pub figures: Vec<FigureOutcomes>,
}

/// The outcomes with one figure changed.
#[derive(Clone, Debug, Serialize)]
pub struct FigureOutcomes {
    /// The figure, or a part of it: `wakeup_ns`, `line_transfer_ps.cpu`.
    pub figure: String,
    /// The basis of the estimate.
    pub source: String,
    /// With the figure halved: by policy, then by seed.
    pub halved: Vec<Vec<Outcome>>,
    /// With the figure doubled: by policy, then by seed.
    pub doubled: Vec<Vec<Outcome>>,
}

/// Runs a sensitivity analysis.
///
/// # Errors
/// A scenario that cannot be run, or a run that fails.
pub fn sense(plan: &SensitivityPlan, runner: &Runner<'_>) -> Result<SensitivityOutcomes, LabError> {
    let mut batch = Batch::default();
    for scenario in scenarios(&plan.machine, &plan.workload, &plan.policies, plan.kernel) {
        batch.add(scenario, "")?;
    }
    let nr_policies = plan.policies.len();
    let estimates = plan.machine.estimates();
    // Indices of the scenarios with each figure halved and doubled, one for each policy.
    let mut places: Vec<[Vec<usize>; 2]> = Vec::new();
    for estimate in &estimates {
        let mut add_scaled = |numerator, denominator, word: &str| {
            let machine = Arc::new(plan.machine.scaled(estimate, numerator, denominator));
            let change = format!(" with {estimate} {word}");
            (0..nr_policies)
                .map(|base| batch.add_changed(base, Arc::clone(&machine), &change))
                .collect::<Result<Vec<_>, _>>()
        };
        places.push([add_scaled(1, 2, "halved")?, add_scaled(2, 1, "doubled")?]);
    }
    let outcomes = batch.run(&plan.seeds, runner)?;
    let of = |places: &Vec<usize>| places.iter().map(|&at| outcomes[at].clone()).collect();
    let rows = plan.machine.cost_rows();
    let figures = estimates
        .iter()
        .zip(&places)
        .map(|(estimate, [halved, doubled])| {
            let row = rows.iter().find(|row| row.key == estimate.key());
            FigureOutcomes {
                figure: estimate.to_string(),
                source: row.map_or_else(String::new, |row| row.source.to_string()),
                halved: of(halved),
                doubled: of(doubled),
            }
        })
        .collect();
    let base = outcomes[..nr_policies].to_vec();
    batch.scenarios.truncate(nr_policies);
    Ok(SensitivityOutcomes { scenarios: batch.scenarios, base, figures })
}
