// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs the cases of published experiments (crates/experiment).

use wakelab_experiment::{Case, Experiment, ExperimentError, Plan, Selection, presets};
use wakelab_sim::Outcome;

use crate::error::LabError;
use crate::runner::Runner;
use crate::scenario::describe;
use crate::steady::longer;
use crate::uncertainty::{DrawSet, Drawn, Draws, draw};

/// Stands for the negative controls of all experiments.
const CONTROLS: &str = "controls";

/// The outcomes of an experiment: for each case of its plan, before and after, one outcome for each seed.
pub type ExperimentOutcomes = Vec<[Vec<Outcome>; 2]>;

/// Plans experiments by their names: presets, paths of files, or `controls` for the negative controls of all presets.
/// No name: all presets. `quick` selects the controls and the rows whose sign is robust, shortened as the files say.
/// Experiments of which nothing is selected are left out.
///
/// # Errors
/// A name that does not exist, or a file that is wrong.
pub fn plan_experiments(names: &[String], quick: bool) -> Result<Vec<Plan>, ExperimentError> {
    let all = if quick { Selection::Quick } else { Selection::All };
    let mut wanted: Vec<(&str, Selection)> = Vec::new();
    for name in names {
        if name == CONTROLS {
            wanted.extend(presets().map(|name| (name, Selection::Controls)));
        } else {
            wanted.push((name, all));
        }
    }
    if names.is_empty() {
        wanted.extend(presets().map(|name| (name, all)));
    }
    let mut plans = Vec::new();
    for (name, selection) in wanted {
        let plan = Plan::new(Experiment::load(name)?, selection)?;
        if !plan.cases.is_empty() {
            plans.push(plan);
        }
    }
    Ok(plans)
}

/// Makes the runs of all cases longer: multiplies what lengthens their workloads by `times`.
///
/// # Errors
/// A workload that cannot be made longer.
pub fn lengthen_experiments(plans: &mut [Plan], times: u64) -> Result<(), LabError> {
    for case in plans.iter_mut().flat_map(|plan| &mut plan.cases) {
        let workload = longer(&case.scenarios[0].workload, times)?;
        case.workload = workload.name.clone();
        for scenario in &mut case.scenarios {
            scenario.workload = workload.clone();
        }
    }
    Ok(())
}

/// One run: a side of a case of a plan, with a seed.
struct Job {
    plan: usize,
    case: usize,
    side: usize,
    seed: u64,
}

/// Runs each plan with its own seeds and returns its outcomes, in the order of the plans.
///
/// # Errors
/// A run that fails.
///
/// # Panics
/// There is no list of seeds for a plan.
pub fn run_experiments(
    plans: &[Plan],
    seeds: &[Vec<u64>],
    runner: &Runner<'_>,
) -> Result<Vec<ExperimentOutcomes>, LabError> {
    assert_eq!(plans.len(), seeds.len(), "a list of seeds for each plan");
    let mut jobs = Vec::new();
    for (plan, own) in seeds.iter().enumerate() {
        for (case, of) in plans[plan].cases.iter().enumerate() {
            for (side, seeds) in seeds_of(of, own).into_iter().enumerate() {
                jobs.extend(seeds.into_iter().map(|seed| Job { plan, case, side, seed }));
            }
        }
    }
    let scenario = |job: &Job| &plans[job.plan].cases[job.case].scenarios[job.side];
    let results = runner.in_parallel(jobs.len(), |at| wakelab_sim::run(scenario(&jobs[at]), jobs[at].seed));
    let mut outcomes: Vec<ExperimentOutcomes> =
        plans.iter().map(|plan| plan.cases.iter().map(|_| [Vec::new(), Vec::new()]).collect()).collect();
    for (job, result) in jobs.iter().zip(results) {
        let outcome =
            result.map_err(|error| LabError::Run { name: describe(scenario(job)), seed: job.seed, error })?;
        outcomes[job.plan][job.case][job.side].push(outcome);
    }
    Ok(outcomes)
}

/// The seeds of a case, before and after.
fn seeds_of(case: &Case, own: &[u64]) -> [Vec<u64>; 2] {
    let offset = if case.other_seeds { own.len() as u64 } else { 0 };
    [own.to_vec(), own.iter().map(|seed| seed.wrapping_add(offset)).collect()]
}

/// What was kept of the draws of an experiment, for each case of its plan; nothing for cases that have only controls.
pub type ExperimentDraws<T> = Vec<Option<Drawn<T>>>;

/// Runs the rows of each plan with its own seeds on draws of the machines' figures, and keeps
/// `keep(plan, case, outcome)` of each run.
///
/// # Errors
/// A run that fails.
///
/// # Panics
/// There is no list of seeds for a plan, or a number of draws that [`draw`] does not take.
pub fn draw_experiments<T: Send>(
    plans: &[Plan],
    seeds: &[Vec<u64>],
    draws: Draws,
    runner: &Runner<'_>,
    keep: impl Fn(&Plan, &Case, &Outcome) -> T + Sync,
) -> Result<Vec<ExperimentDraws<T>>, LabError> {
    let has_rows = |case: &Case| !case.rows.is_empty();
    let of_set: Vec<(&Plan, &Case, &Vec<u64>)> = plans
        .iter()
        .zip(seeds)
        .flat_map(|(plan, own)| {
            plan.cases.iter().filter(|case| has_rows(case)).map(move |case| (plan, case, own))
        })
        .collect();
    let sets: Vec<DrawSet<'_>> = of_set
        .iter()
        .map(|(plan, case, own)| DrawSet {
            scenarios: &case.scenarios,
            seeds: seeds_of(case, own).into(),
            fitted: plan.experiment.fitted.iter().map(|fitted| fitted.param.clone()).collect(),
        })
        .collect();
    let keep = |set: usize, _, outcome: &Outcome| keep(of_set[set].0, of_set[set].1, outcome);
    let mut drawn = draw(&sets, draws, runner, keep)?.into_iter();
    let mut of_case = |case: &Case| if has_rows(case) { drawn.next() } else { None };
    Ok(plans.iter().map(|plan| plan.cases.iter().map(&mut of_case).collect()).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A simulated duration of 300 ms becomes one of 1.2 s, on both sides, and nothing else changes.
    #[test]
    fn experiments_become_longer() {
        let mut plans = plan_experiments(&["single-pass-netperf".to_owned()], false).unwrap();
        let before = plans[0].cases[0].clone();
        lengthen_experiments(&mut plans, 4).unwrap();
        let after = &plans[0].cases[0];
        let params = |spec: &str| -> BTreeSet<String> { spec.split([':', ',']).map(str::to_owned).collect() };
        let expected = params(&before.workload.replace("duration-ms=300", "duration-ms=1200"));
        assert!(expected.contains("duration-ms=1200"), "{}", before.workload);
        assert_eq!(params(&after.workload), expected);
        for (side, scenario) in after.scenarios.iter().enumerate() {
            assert_eq!(scenario.workload.name, after.workload);
            assert_eq!(scenario.policy, before.scenarios[side].policy);
        }
    }
}
