// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab experiments`: runs published experiments and prints the published results beside the predicted ones.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use wakelab_ask::{ExperimentsAsk, LONGER_MAX};
use wakelab_experiment::Experiment;
use wakelab_report::{Experiments, Recorded, list};

use crate::args::{SeedArg, ThreadsArg, UncertaintyArg};
use crate::error::bad_input;
use crate::output::OutputFile;
use crate::print;
use crate::progress::Bar;

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab experiments --list\n  \
    wakelab experiments hackbench uperf --seeds 3\n  \
    wakelab experiments controls\n  \
    wakelab experiments cluster-wake --longer 4\n  \
    wakelab experiments cluster-wake --rows TCP_RR/nodes=1 --uncertainty=16\n  \
    wakelab experiments --format json > experiments.json\n\n\
    \"before\" may be fitted to the publication, \"after\" is a prediction: docs/guide/experiment-files.md.")]
pub(crate) struct ExperimentsArgs {
    /// Experiments to run: names from `wakelab experiments --list`, files, or `controls` for the negative controls of
    /// all experiments [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List the experiments and run nothing
    #[arg(long, conflicts_with_all = ["names", "rows", "seeds", "seed", "threads", "quick", "longer", "uncertainty"])]
    list: bool,
    /// Run only the rows whose id contains TEXT, and no controls. Repeatable: the rows of each TEXT are run
    #[arg(long, value_name = "TEXT", conflicts_with = "quick")]
    rows: Vec<String>,
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
    /// Make each run N times as long as its file says; only gains can then be compared with the publication. A gain
    /// that changes was not that of a steady state
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=LONGER_MAX))]
    longer: u64,
    /// Write the results to FILE as one HTML page; it needs no network
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    report: Option<PathBuf>,
    /// Results of earlier runs, as `cargo xtask experiments` keeps them: the model's error is learned from these
    /// instead of those that wakelab was built with, and the rows that are run now are written to FILE in their
    /// place. With --uncertainty, a row that FILE has keeps its gain, and gets the ranges of the draws
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "quick", "longer"])]
    results: Option<PathBuf>,
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
    let report = args.report.as_ref().map(|path| OutputFile::create("--report", path, &[])).transpose()?;
    let recorded = args.results.as_ref().map(|path| recorded(path)).transpose()?;
    let results = args.results.as_ref().map(|path| OutputFile::create("--results", path, &[])).transpose()?;
    let ask = ExperimentsAsk {
        names: &args.names,
        rows: &args.rows,
        quick: args.quick,
        longer: args.longer,
        first_seed: args.seed.seed,
        seeds: args.seeds,
        draws: args.uncertainty.uncertainty,
        recorded,
    };
    let published = wakelab_ask::experiments(&ask, &Bar::new().runner(&args.threads))?;
    published.with(|experiments| {
        if let Some(file) = results {
            file.write(experiments.recorded().text().as_bytes())?;
        }
        show(experiments, args, report)
    })
}

/// Reads the results of earlier runs.
fn recorded(path: &Path) -> Result<Recorded> {
    let shown = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|error| bad_input(format!("--results {shown}: {error}")))?;
    Recorded::parse(&shown, &text).map_err(bad_input)
}

fn show(experiments: &Experiments<'_>, args: &ExperimentsArgs, report: Option<OutputFile>) -> Result<()> {
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
