// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab experiments`: runs the cases of published experiments and prints them beside what was published.

use anyhow::{Result, bail};
use wakelab_experiment::{Experiment, Plan, Selection, presets};
use wakelab_report::{CaseRuns, ExperimentRuns, Experiments, Style};
use wakelab_sim::Outcome;

use crate::args::{ExperimentsArgs, Format, PageFormat};
use crate::resolve::bad_input;
use crate::runner::{self, RunError};
use crate::{list, print};

/// Stands for the negative controls of all experiments.
const CONTROLS: &str = "controls";

/// One run: which scenario of which case of which experiment, and with which seed.
struct Job {
    plan: usize,
    case: usize,
    side: usize,
    seed: u64,
}

/// Runs the experiments and prints them.
pub(crate) fn run(args: &ExperimentsArgs) -> Result<()> {
    if args.list {
        let format = if args.format == PageFormat::Json { Format::Json } else { Format::Text };
        return list::experiments(format);
    }
    let plans = plans(args)?;
    let seeds: Vec<Vec<u64>> = plans.iter().map(|plan| seeds(args, &plan.experiment)).collect();
    let outcomes = outcomes(&plans, &seeds, runner::threads(args.threads)?)?;
    let runs: Vec<ExperimentRuns<'_>> = plans
        .iter()
        .zip(seeds)
        .zip(outcomes)
        .map(|((plan, seeds), outcomes)| ExperimentRuns {
            experiment: &plan.experiment,
            seeds,
            shortened: args.quick,
            cases: plan
                .cases
                .iter()
                .zip(outcomes)
                .map(|(case, outcomes)| CaseRuns { case, outcomes })
                .collect(),
        })
        .collect();
    let experiments = Experiments::new(&runs);
    match args.format {
        PageFormat::Json => print::json(&experiments.document())?,
        PageFormat::Markdown => print::text(&experiments.page())?,
        PageFormat::Text => {
            print::text(&experiments.text(&Style { color: print::colored(), width: print::width() }))?;
        }
    }
    let failures = experiments.failures();
    if args.quick && !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(())
}

/// What the names mean. Nothing has been run yet when a name or a file is wrong.
fn plans(args: &ExperimentsArgs) -> Result<Vec<Plan>> {
    let all = if args.quick { Selection::Quick } else { Selection::All };
    let mut wanted: Vec<(&str, Selection)> = Vec::new();
    for name in &args.names {
        if name == CONTROLS {
            wanted.extend(presets().map(|name| (name, Selection::Controls)));
        } else {
            wanted.push((name, all));
        }
    }
    if args.names.is_empty() {
        wanted.extend(presets().map(|name| (name, all)));
    }
    let mut plans = Vec::new();
    for (name, selection) in wanted {
        let plan = Plan::new(Experiment::load(name).map_err(bad_input)?, selection).map_err(bad_input)?;
        if !plan.cases.is_empty() {
            plans.push(plan);
        }
    }
    Ok(plans)
}

fn seeds(args: &ExperimentsArgs, experiment: &Experiment) -> Vec<u64> {
    let count = args.seeds.unwrap_or(experiment.seeds);
    (0..u64::from(count)).map(|index| args.seed.wrapping_add(index)).collect()
}

/// Outcomes by plan, case, policy and seed.
fn outcomes(plans: &[Plan], seeds: &[Vec<u64>], threads: usize) -> Result<Vec<Vec<[Vec<Outcome>; 2]>>> {
    let mut jobs = Vec::new();
    for (plan, own) in seeds.iter().enumerate() {
        for (case, of) in plans[plan].cases.iter().enumerate() {
            for side in 0..2 {
                let offset = if side == 1 && of.other_seeds { own.len() as u64 } else { 0 };
                jobs.extend(own.iter().map(|seed| Job { plan, case, side, seed: seed.wrapping_add(offset) }));
            }
        }
    }
    let results = runner::in_parallel(jobs.len(), threads, |at| {
        let Job { plan, case, side, seed } = jobs[at];
        wakelab_sim::run(&plans[plan].cases[case].scenarios[side], seed)
    });
    let mut outcomes: Vec<Vec<[Vec<Outcome>; 2]>> =
        plans.iter().map(|plan| plan.cases.iter().map(|_| [Vec::new(), Vec::new()]).collect()).collect();
    for (job, result) in jobs.iter().zip(results) {
        let case = &plans[job.plan].cases[job.case];
        let outcome = result.map_err(|error| {
            let name = format!("{} on {}, policy {}", case.workload, case.machine, case.policies[job.side]);
            RunError { scenario: job.case, seed: job.seed, error }.told(&name)
        })?;
        outcomes[job.plan][job.case][job.side].push(outcome);
    }
    Ok(outcomes)
}
