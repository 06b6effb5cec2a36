// SPDX-License-Identifier: GPL-2.0-or-later
//! Ablation: what each term of the cost model does to a result, by leaving the term out.

use std::sync::Arc;

use serde::Serialize;
use wakelab_machine::{Machine, Term};
use wakelab_policy::PolicySpec;
use wakelab_sim::{Outcome, Scenario};
use wakelab_workload::Workload;

use crate::batch::Batch;
use crate::error::LabError;
use crate::runner::Runner;
use crate::scenario::{Kernel, scenarios};

/// Each workload on each machine, with all terms and without each of some.
#[derive(Clone, Debug)]
pub struct AblationPlan {
    /// The workloads.
    pub workloads: Vec<Arc<Workload>>,
    /// The machines.
    pub machines: Vec<Arc<Machine>>,
    /// The policy of all runs.
    pub policy: PolicySpec,
    /// What surrounds the policy.
    pub kernel: Kernel,
    /// The terms to leave out, one at a time.
    pub terms: Vec<Term>,
    /// The seeds of each scenario's runs.
    pub seeds: Vec<u64>,
}

/// The outcomes of one workload on one machine.
#[derive(Clone, Debug, Serialize)]
pub struct AblationCase {
    /// The scenario with all terms.
    pub scenario: Scenario,
    /// With all terms: one outcome for each seed.
    pub with_all: Vec<Outcome>,
    /// Without one term: a list for each term of the plan, in its order. A term that this machine does not have leaves
    /// the outcomes unchanged.
    pub without: Vec<Vec<Outcome>>,
}

/// Runs an ablation. Cases come in the order of workloads, then machines.
///
/// # Errors
/// A scenario that cannot be run, or a run that fails.
pub fn ablate(plan: &AblationPlan, runner: &Runner<'_>) -> Result<Vec<AblationCase>, LabError> {
    let mut batch = Batch::default();
    // Indices of the scenarios with all terms, and without each.
    let mut cases: Vec<(usize, Vec<usize>)> = Vec::new();
    for workload in &plan.workloads {
        for machine in &plan.machines {
            for scenario in scenarios(machine, workload, std::slice::from_ref(&plan.policy), plan.kernel) {
                let base = batch.add(scenario, "")?;
                let without = |term: &Term| {
                    batch.add_changed(base, machine.without(*term).into(), &format!(" without {term}"))
                };
                cases.push((base, plan.terms.iter().map(without).collect::<Result<_, _>>()?));
            }
        }
    }
    let outcomes = batch.run(&plan.seeds, runner)?;
    let case = |(base, without): &(usize, Vec<usize>)| AblationCase {
        scenario: batch.scenarios[*base].clone(),
        with_all: outcomes[*base].clone(),
        without: without.iter().map(|&at| outcomes[at].clone()).collect(),
    };
    Ok(cases.iter().map(case).collect())
}
