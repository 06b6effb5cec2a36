// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab experiments`: runs published experiments and prints the published results beside the predicted ones.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use wakelab_experiment::{Case, Experiment, Plan};
use wakelab_lab::Draws;
use wakelab_report::{CaseRuns, ExperimentRuns, Experiments, list, row_values};
use wakelab_sim::Outcome;

use crate::args::{SeedArg, ThreadsArg, UncertaintyArg};
use crate::error::bad_input;
use crate::output::OutputFile;
use crate::print;
use crate::progress::Bar;
use crate::suggest::did_you_mean;

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab experiments --list\n  \
    wakelab experiments hackbench uperf --seeds 3\n  \
    wakelab experiments controls\n  \
    wakelab experiments --format json > experiments.json\n\n\
    \"before\" may be fitted to the publication, \"after\" is a prediction: docs/guide/experiment-files.md.")]
pub(crate) struct ExperimentsArgs {
    /// Experiments to run: names from `wakelab experiments --list`, files, or `controls` for the negative controls of
    /// all experiments [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List the experiments and run nothing
    #[arg(long, conflicts_with_all = ["names", "seeds", "seed", "threads", "quick", "uncertainty"])]
    list: bool,
    /// Number of seeds; more seeds narrow the intervals [default: the number in each experiment's file]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,
    #[command(flatten)]
    seed: SeedArg,
    #[command(flatten)]
    threads: ThreadsArg,
    #[command(flatten)]
    uncertainty: UncertaintyArg,
    /// Run only the controls and the rows whose sign is robust, shortened as their files say. Only gains can then be
    /// compared with the publication. Exit code 1 if one fails
    #[arg(long)]
    quick: bool,
    /// Write the results to FILE as one HTML page; it needs no network
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    report: Option<PathBuf>,
    /// Format of the results
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    format: PageFormat,
}

/// The format of results that have a page in docs/.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PageFormat {
    /// Tables for people
    Text,
    /// JSON, as docs/schema describes it
    Json,
    /// The page in docs/, with what changed between the policies
    Markdown,
}

/// Runs the experiments and prints them.
pub(crate) fn run(args: &ExperimentsArgs) -> Result<()> {
    if args.list {
        return show_list(args.format);
    }
    let plans = wakelab_lab::plan_experiments(&args.names, args.quick).map_err(|error| {
        let meant = match &error {
            wakelab_experiment::ExperimentError::Unknown { name, .. } => {
                did_you_mean(name, wakelab_experiment::presets())
            }
            _ => String::new(),
        };
        bad_input(format!("{error}{meant}"))
    })?;
    let seeds: Vec<Vec<u64>> = plans
        .iter()
        .map(|plan| {
            wakelab_lab::consecutive_seeds(args.seed.seed, args.seeds.unwrap_or(plan.experiment.seeds))
        })
        .collect();
    let report = args.report.as_ref().map(|path| OutputFile::create("--report", path, &[])).transpose()?;
    let bar = Bar::new();
    let runner = bar.runner(&args.threads);
    let outcomes = wakelab_lab::run_experiments(&plans, &seeds, &runner)?;
    let mut drawn = match args.uncertainty.uncertainty {
        Some(number) => {
            let draws = Draws { number, seed: args.seed.seed };
            let keep =
                |plan: &Plan, case: &Case, outcome: &Outcome| row_values(&plan.experiment, case, outcome);
            wakelab_lab::draw_experiments(&plans, &seeds, draws, &runner, keep)?
        }
        None => Vec::new(),
    }
    .into_iter();
    let runs: Vec<ExperimentRuns<'_>> = plans
        .iter()
        .zip(seeds)
        .zip(outcomes)
        .map(|((plan, seeds), outcomes)| ExperimentRuns {
            experiment: &plan.experiment,
            seeds,
            shortened: args.quick,
            cases: {
                let mut drawn = drawn.next().unwrap_or_default().into_iter();
                let cases = plan.cases.iter().zip(outcomes);
                cases
                    .map(|(case, outcomes)| CaseRuns { case, outcomes, drawn: drawn.next().flatten() })
                    .collect()
            },
        })
        .collect();
    let experiments = Experiments::new(&runs);
    match args.format {
        PageFormat::Json => print::json(&experiments.document())?,
        PageFormat::Markdown => print::text(&experiments.page())?,
        PageFormat::Text => print::text(&experiments.text(&print::style()))?,
    }
    if let Some(file) = report {
        file.write(experiments.html(&print::command_line()).as_bytes())?;
    }
    let failures = experiments.failures();
    if args.quick && !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(())
}

fn show_list(format: PageFormat) -> Result<()> {
    let load = |name: &str| Experiment::load(name).map_err(bad_input);
    let all = wakelab_experiment::presets().map(load).collect::<Result<Vec<_>>>()?;
    if format == PageFormat::Json {
        return print::json(&list::experiments(&all));
    }
    let rows = all.iter().map(|experiment| (experiment.name.as_str(), experiment.title.as_str()));
    print::text(&print::index(rows, "wakelab experiments NAME runs one"))
}
