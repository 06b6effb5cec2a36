// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab compare`: one input under several policies.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use wakelab_ask::{Compared, Question, Replayed};
use wakelab_lab::{LabError, Runner, export_perfetto};
use wakelab_report::{Check, Comparison, Limit, PageParts};
use wakelab_sim::Scenario;
use wakelab_trace::Recording;

use crate::args::{
    InputArgs, KernelArgs, NoCheckArg, RunsFormat, RunsFormatArg, SeedsArgs, UncertaintyArg, WithoutArg,
};
use crate::error::bad_input;
use crate::output::OutputFile;
use crate::progress::Bar;
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab compare demo --machine xeon-2s22c2t \\\n    \
        --policy linux-4.15 --policy linux-4.15+idle=smt-balance\n  \
    wakelab compare hackbench:groups=16 --machine power9-2s22c4t \\\n    \
        --policy linux-4.15 --policy linux-4.15+idle=smt-balance --seeds 10\n  \
    wakelab compare pingpong:pairs=8 --machine host --policy linux-4.15 --format json > result.json\n  \
    wakelab compare demo --machine recorded --machine 'recorded*2' --policy linux-6.12\n  \
    wakelab compare service.rec.gz --machine recorded --policy linux-6.12 --policy linux-6.17 \\\n    \
        --fail-if 'p99 > 5%'\n\n\
    A recording is the file of `wakelab record`, perf, trace-cmd or Perfetto, the text of `perf script`, or ftrace text: \
    the output of `trace-cmd report`, the kernel's `trace` file, or the output of `wakelab run --events`. \
    docs/guide/recordings.md says how to make one.")]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Repeat an earlier result: run the scenarios and seeds of this JSON file (--with-scenario) unchanged
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "input", "recording", "workload", "recorded_on", "of", "open_loop", "closed_loop", "recorded_waits_only", "recorded_times", "repeat", "time", "strict", "nice", "slice", "cpus", "weight", "quota", "faster", "cost", "machine",
        "no_check", "policy", "host", "seeds", "seed", "limit_ns", "limit_events", "without",
    ])]
    scenario: Option<PathBuf>,
    /// Machine to simulate: a name from `wakelab machines`, `host` for this machine, or a file (.toml, or lstopo's
    /// .xml); `recorded` is the machine that made the recording, and `MACHINE*N` has N times as many cores in each LLC.
    /// Repeat to compare machines; the first policy on the first machine is the baseline
    #[arg(long, short, value_name = "MACHINE", required_unless_present = "scenario")]
    machine: Vec<String>,
    /// Policy: NAME[+axis=value...]; `wakelab policies` lists names and axes. Repeat to compare; the first is the
    /// baseline
    #[arg(long, short, value_name = "POLICY", required_unless_present = "scenario")]
    policy: Vec<String>,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    seeds: SeedsArgs,
    #[command(flatten)]
    uncertainty: UncertaintyArg,
    /// Make the runs longer, twice as long each time, until each has a steady part whose rate is known to ±PERCENT, or
    /// until they are 32 times as long; a smaller PERCENT takes longer (docs/guide/steady.md) [default PERCENT: 2]
    #[arg(
        long,
        value_name = "PERCENT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = positive_percent
    )]
    steady: Option<f64>,
    #[command(flatten)]
    without: WithoutArg,
    #[command(flatten)]
    check: NoCheckArg,
    /// Exit with code 1 if another policy is worse than the first by more than N percent and beyond its interval, after
    /// the result is printed. METRIC is `result` (the first row), p50, p95, p99 or p99.9 of wake-up latency, or a name
    /// of the JSON; a larger N allows larger losses. Repeatable
    #[arg(long, value_name = "METRIC > N%")]
    fail_if: Vec<Limit>,
    /// Write every event of the runs with the first seed to FILE in Perfetto's format, each policy as a machine, for
    /// `wakelab view FILE` (docs/guide/timelines.md)
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write the result to FILE as one HTML page, with curves of latencies and a timeline of two of the runs with the
    /// first seed; it needs no network (docs/guide/timelines.md)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the time slices of the runs with the first seed to FILE as a Parquet table, each with its wait and its
    /// wake-up (docs/guide/timelines.md)
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Show all rows, where waiting and time went, and why each CPU was chosen, not only the rows that moved
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: RunsFormatArg,
}

/// Runs all policies with all seeds and prints the comparison.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    args.format.check()?;
    let bar = Bar::new();
    let runner = bar.runner(&args.seeds.threads);
    let (question, replayed) = match &args.scenario {
        Some(path) => wakelab_ask::again(path)?,
        None => asked(args, &runner)?,
    };
    question.check()?;
    let create =
        |option, path: &Option<PathBuf>| path.as_deref().map(|path| output(args, option, path)).transpose();
    let (perfetto, report) = (create("--perfetto", &args.perfetto)?, create("--report", &args.report)?);
    let parquet = create("--parquet", &args.parquet)?;
    let more = (args.uncertainty.uncertainty, args.steady);
    let answer = Compared::run(question, replayed, more, &runner)?;
    let compared = answer.comparison()?;
    let broken = compared.broken(&args.fail_if).map_err(bad_input)?;
    let first = (&answer.question.scenarios[..], answer.question.seeds[0]);
    write_timelines(&compared, first, &runner, answer.check(), (report, parquet))?;
    if let Some(file) = perfetto {
        let (names, seed) = (compared.column_names(), answer.question.seeds[0]);
        file.export(|file| export_perfetto(&answer.question.scenarios, &names, seed, file).map(drop))?;
    }
    show(&compared, &answer.question, args.all, &args.format)?;
    anyhow::ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

/// Parses a percentage above 0.
fn positive_percent(text: &str) -> Result<f64, String> {
    let percent: f64 = text.parse().map_err(|_| format!("'{text}'; expected a number of percent"))?;
    (percent > 0.0 && percent <= 100.0)
        .then_some(percent)
        .ok_or_else(|| format!("{text} %; expected more than 0 and at most 100"))
}

/// Prepares to write a file beside the result.
fn output(args: &CompareArgs, option: &'static str, path: &Path) -> Result<OutputFile> {
    let mut inputs: Vec<&Path> = args.scenario.as_deref().into_iter().collect();
    for machine in &args.machine {
        inputs.extend(input::files(&args.input, machine));
    }
    OutputFile::create(option, path, &inputs)
}

/// Runs everything once more with the first seed, and writes what each run did as a page and as a table, if there are
/// files for them.
pub(crate) fn write_timelines(
    compared: &Comparison<'_>,
    (scenarios, seed): (&[Scenario], u64),
    runner: &Runner<'_>,
    check: Option<&Check>,
    (report, parquet): (Option<OutputFile>, Option<OutputFile>),
) -> Result<()> {
    if report.is_none() && parquet.is_none() {
        return Ok(());
    }
    let timelines = wakelab_ask::timelines(scenarios, seed, runner)?;
    if let Some(file) = report {
        let command = print::command_line();
        let parts = PageParts { timelines: &timelines, check, command: &command };
        file.write(compared.html(&parts).as_bytes())?;
    }
    if let Some(file) = parquet {
        file.export(|file| compared.write_slices(&timelines, file).map(drop).map_err(LabError::Write))?;
    }
    Ok(())
}

/// Reads what is asked, and measures the replay error of a recording.
fn asked(args: &CompareArgs, runner: &Runner<'_>) -> Result<(Question, Option<Replayed>)> {
    let (ask, kernel) = (input::ask(&args.input), input::kernel(&args.kernel));
    let machines = (&input::choices(&args.machine)[..], &args.without.without[..]);
    let seeds = input::seeds(&args.seeds);
    let question = wakelab_ask::question(&ask, machines, &args.policy, kernel, seeds, true, &print::note)?;
    question.check()?;
    let recording = question.recording.as_ref();
    let no_check = args.check.no_check;
    let replayed =
        wakelab_ask::replayed(&ask, recording, no_check, kernel, &question.seeds, runner, &print::note)?;
    Ok((question, replayed))
}

/// Prints a comparison; `all`: the rows that did not move, too.
pub(crate) fn show(
    comparison: &Comparison<'_>,
    question: &Question,
    all: bool,
    format: &RunsFormatArg,
) -> Result<()> {
    match format.format {
        RunsFormat::Json => {
            let recording = question.recording_value()?;
            print::json(&match format.with_scenario {
                true => comparison.document_with_scenario(recording),
                false => comparison.document(recording),
            })
        }
        RunsFormat::Csv => print::text(&comparison.csv()),
        RunsFormat::Text => {
            let warning = question.recording.as_ref().and_then(Recording::warning);
            let style = print::style();
            let mut text = warning.map(|warning| style.wrap(&warning) + "\n").unwrap_or_default();
            let tables = if all { comparison.text(&style) } else { comparison.text_of_moved(&style) };
            text.push_str(&tables);
            if let Some(recording) = &question.recording {
                text.push('\n');
                text.push_str(&style.wrap_lines(&wakelab_ask::explanation(recording, &question.changed)));
            }
            print::text(&text)
        }
    }
}
