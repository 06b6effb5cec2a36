// SPDX-License-Identifier: GPL-2.0-or-later
//! Published experiments, and what the lab predicts for them.

use wakelab_experiment::{Case, ExperimentError, Plan};
use wakelab_lab::{
    Draws, ExperimentDraws, ExperimentOutcomes, Runner, consecutive_seeds, draw_experiments,
    lengthen_experiments, plan_experiments, run_experiments,
};
use wakelab_report::{CaseRuns, ExperimentRuns, Experiments, Recorded, row_values};
use wakelab_sim::Outcome;

use crate::error::{AskError, bad_input};
use crate::suggest::did_you_mean;

/// The most by which runs are made longer.
pub const LONGER_MAX: u64 = 1000;

/// Which experiments to run; the fields are options of the command.
pub struct ExperimentsAsk<'a> {
    /// The names; none: all.
    pub names: &'a [String],
    /// The texts of `--rows`; none: all rows and controls.
    pub rows: &'a [String],
    /// Whether `--quick` is given.
    pub quick: bool,
    /// The number of `--longer`, or 1.
    pub longer: u64,
    /// The number of `--seed`.
    pub first_seed: u64,
    /// The number of `--seeds`, instead of that in each file.
    pub seeds: Option<u32>,
    /// The number of `--uncertainty`.
    pub draws: Option<usize>,
    /// The results of earlier runs; none: those that wakelab was built with.
    pub recorded: Option<Recorded>,
}

/// Experiments with their runs.
pub struct Published {
    plans: Vec<Plan>,
    seeds: Vec<Vec<u64>>,
    outcomes: Vec<ExperimentOutcomes>,
    /// By experiment and case; none if nothing was drawn.
    drawn: Vec<ExperimentDraws<Vec<Option<f64>>>>,
    has_other_length: bool,
    is_part: bool,
    recorded: Recorded,
}

/// Runs experiments by their names.
///
/// # Errors
/// A name that does not exist, or a run that fails.
pub fn experiments(ask: &ExperimentsAsk<'_>, runner: &Runner<'_>) -> Result<Published, AskError> {
    let mut plans = plan_experiments(ask.names, ask.quick).map_err(|error| {
        let meant = match &error {
            ExperimentError::Unknown { name, .. } => did_you_mean(name, wakelab_experiment::presets()),
            _ => String::new(),
        };
        bad_input(format!("{error}{meant}"))
    })?;
    if !ask.rows.is_empty() {
        keep_rows(&mut plans, ask.rows)?;
    }
    if ask.longer > 1 {
        lengthen_experiments(&mut plans, ask.longer)?;
    }
    let of_plan = |plan: &Plan| consecutive_seeds(ask.first_seed, ask.seeds.unwrap_or(plan.experiment.seeds));
    let seeds: Vec<Vec<u64>> = plans.iter().map(of_plan).collect();
    let outcomes = run_experiments(&plans, &seeds, runner)?;
    let recorded = ask.recorded.clone().unwrap_or_else(Recorded::built_in);
    let drawn = match ask.draws {
        Some(number) => {
            let draws = Draws { number, seed: ask.first_seed };
            let keep =
                |plan: &Plan, case: &Case, outcome: &Outcome| row_values(&plan.experiment, case, outcome);
            draw_experiments(&plans, &seeds, draws, runner, keep)?
        }
        None => Vec::new(),
    };
    let has_other_length = ask.quick || ask.longer > 1;
    let is_part = !ask.rows.is_empty();
    Ok(Published { plans, seeds, outcomes, drawn, has_other_length, is_part, recorded })
}

/// Keeps the rows whose id contains one of `texts`.
fn keep_rows(plans: &mut Vec<Plan>, texts: &[String]) -> Result<(), AskError> {
    let example = plans.iter().flat_map(|plan| &plan.experiment.rows).next().map(|row| row.id.clone());
    plans.iter_mut().for_each(|plan| plan.keep_rows(texts));
    plans.retain(|plan| !plan.cases.is_empty());
    match (plans.is_empty(), example) {
        (false, _) => Ok(()),
        (true, example) => {
            let such_as = example.map_or_else(String::new, |id| format!("; ids are such as '{id}'"));
            Err(bad_input(format!("--rows: no row's id contains '{}'{such_as}", texts.join("' or '"))))
        }
    }
}

impl Published {
    /// Calls `show` with the results beside the publications.
    pub fn with<T>(&self, show: impl FnOnce(&Experiments<'_>) -> T) -> T {
        let runs: Vec<ExperimentRuns<'_>> = self
            .plans
            .iter()
            .zip(&self.seeds)
            .zip(&self.outcomes)
            .enumerate()
            .map(|(at, ((plan, seeds), outcomes))| ExperimentRuns {
                experiment: &plan.experiment,
                seeds: seeds.clone(),
                has_other_length: self.has_other_length,
                is_part: self.is_part,
                cases: plan
                    .cases
                    .iter()
                    .zip(outcomes)
                    .enumerate()
                    .map(|(of, (case, outcomes))| CaseRuns {
                        case,
                        outcomes: outcomes.clone(),
                        drawn: self.drawn.get(at).and_then(|cases| cases[of].clone()),
                    })
                    .collect(),
            })
            .collect();
        show(&Experiments::new(&runs, self.recorded.clone()))
    }

    /// The JSON of docs/schema/experiments.schema.json.
    ///
    /// # Errors
    /// None that is known.
    pub fn json(&self) -> Result<String, AskError> {
        Ok(self.with(|experiments| serde_json::to_string_pretty(&experiments.document()))?)
    }
}
