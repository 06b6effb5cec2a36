// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab sweep`: many cases under several policies, into a Parquet table.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use wakelab_ask::{Journal, Sweep, SweepPlan, SweepSummary, Tally, run_sweep};
use wakelab_report::write_parquet;

use crate::args::{Format, FormatArg, ThreadsArg};
use crate::error::bad_input;
use crate::output::OutputFile;
use crate::print;
use crate::progress::Bar;

#[derive(Args)]
#[command(after_help = "Example:\n  \
    wakelab sweep shapes.toml -o shapes.parquet\n\n\
    docs/guide/sweeps.md says what the file of a sweep has.\n\n\
    Each finished run is in FILE.runs until the whole sweep is done. If the sweep is interrupted, the same command goes \
    on where it was; the result is the same, to the byte.")]
pub(crate) struct SweepArgs {
    /// The file of the sweep
    #[arg(value_name = "SWEEP.toml")]
    sweep: PathBuf,
    /// Write a row for each run to FILE, as a Parquet table
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Write the gain of each policy in each case to FILE, as a Parquet table
    #[arg(long, value_name = "FILE")]
    gains: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadsArg,
    #[command(flatten)]
    format: FormatArg,
}

/// Runs what is missing, writes the tables, and prints the summary.
pub(crate) fn run(args: &SweepArgs) -> Result<()> {
    let file = args.sweep.display().to_string();
    let text = std::fs::read_to_string(&args.sweep).map_err(|error| bad_input(format!("{file}: {error}")))?;
    let mut sweep = Sweep::new(SweepPlan::new(&text, &file)?);
    let gains =
        args.gains.as_ref().map(|path| OutputFile::create("--gains", path, &[&args.sweep])).transpose()?;
    let mut journal = Journal::open(&args.output, &mut sweep)?;
    let bar = Bar::with("{bar:40} {pos}/{len} runs, {per_sec}, {eta} left").0;
    let tell = |tally: Tally| {
        bar.set_length(tally.runs_known as u64);
        bar.set_position(tally.runs_done as u64);
    };
    // Runs that an earlier process has done say nothing about the time that is left.
    bar.set_position(sweep.len() as u64);
    bar.reset_eta();
    let quiet = Bar(ProgressBar::hidden());
    run_sweep(&mut sweep, Some(&mut journal), &quiet.runner(&args.threads), &tell)?;
    bar.finish_and_clear();
    if let Some(file) = gains {
        let mut bytes = Vec::new();
        write_parquet("gains", [sweep.gains()], &mut bytes)?;
        file.write(&bytes)?;
    }
    journal.finish(&sweep)?;
    let summary = SweepSummary::new(&sweep);
    match args.format.format {
        Format::Json => print::json(&summary)?,
        Format::Text => print::text(&summary.text())?,
    }
    if summary.failed == summary.runs {
        bail!("every run failed: {}", sweep.rows().find_map(|row| row.error.clone()).unwrap_or_default());
    }
    Ok(())
}
