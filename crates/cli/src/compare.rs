// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab compare`: one input under several policies.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use wakelab_lab::{
    DrawSet, Drawn, Draws, LabError, Runner, Timeline, draw, export_perfetto, observe_timeline,
};
use wakelab_report::{Check, Comparison, Limit, PageParts, ReplayErrors, metric_values};
use wakelab_sim::{Outcome, Scenario};
use wakelab_trace::{Changed, Recording};

use crate::args::{
    InputArgs, KernelArgs, NoCheckArg, RunsFormat, RunsFormatArg, SeedsArgs, UncertaintyArg, WithoutArg,
};
use crate::error::bad_input;
use crate::output::OutputFile;
use crate::progress::Bar;
use crate::replay_errors::replay_errors;
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
        "input", "recording", "workload", "recorded_on", "of", "open_loop", "closed_loop", "recorded_waits_only", "repeat", "strict", "nice", "slice", "cpus", "weight", "quota", "faster", "cost", "machine",
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
    let (mut errors, mut check) = (None, None);
    let comparison = match &args.scenario {
        Some(path) => {
            let (comparison, measured) = again(path)?;
            errors = measured;
            comparison
        }
        None => {
            let machines = (&args.machine[..], &args.without.without[..]);
            let seeds = input::seeds(&args.seeds);
            input::comparison(&args.input, machines, &args.policy, &args.kernel, seeds, true)?
        }
    };
    for scenario in &comparison.scenarios {
        scenario.check().map_err(bad_input)?;
    }
    let recording = comparison.recording.as_ref();
    if let Some(measured) =
        replay_errors(&args.input, &args.kernel, &args.seeds, args.check.no_check, recording)?
    {
        (errors, check) = (Some(measured.0), Some(measured.1));
    }
    let create =
        |option, path: &Option<PathBuf>| path.as_deref().map(|path| output(args, option, path)).transpose();
    let (perfetto, report) = (create("--perfetto", &args.perfetto)?, create("--report", &args.report)?);
    let parquet = create("--parquet", &args.parquet)?;
    let bar = Bar::new();
    let runner = bar.runner(&args.seeds.threads);
    let outcomes =
        runner.run_all_explained(&comparison.scenarios, &comparison.seeds, 0).map_err(|failure| {
            let name = format!("policy {}", comparison.policy_names[failure.scenario]);
            failure.named(name)
        })?;
    let mut compared = Comparison::new(&comparison.scenarios, &comparison.policy_names, &outcomes)?;
    if let Some(errors) = errors {
        compared = compared.with_replay_errors(errors);
    }
    if let Some(number) = args.uncertainty.uncertainty {
        let draws = Draws { number, seed: comparison.seeds[0] };
        let drawn = draws_of(&comparison, draws, &runner)?;
        compared = compared.with_uncertainty(draws, &drawn);
    }
    let broken = compared.broken(&args.fail_if).map_err(bad_input)?;
    let first = (&comparison.scenarios[..], comparison.seeds[0]);
    write_timelines(&compared, first, &runner, check.as_ref(), (report, parquet))?;
    if let Some(mut file) = perfetto {
        let (names, seed) = (compared.column_names(), comparison.seeds[0]);
        let written = export_perfetto(&comparison.scenarios, &names, seed, file.writer());
        file.check(written)?;
        file.finish()?;
    }
    show(&compared, &comparison, args.all, &args.format)?;
    anyhow::ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

/// Runs everything on draws of the machines' figures.
fn draws_of(
    comparison: &input::Comparison,
    draws: Draws,
    runner: &Runner<'_>,
) -> Result<Drawn<Vec<Option<f64>>>> {
    let scenarios = &comparison.scenarios;
    let set = DrawSet { scenarios, seeds: vec![comparison.seeds.clone(); scenarios.len()] };
    let keep = |_, scenario: usize, outcome: &Outcome| metric_values(&scenarios[scenario], outcome);
    let drawn = draw(std::slice::from_ref(&set), draws, runner, keep)?.remove(0);
    if drawn.figures.is_empty() {
        return Err(bad_input("--uncertainty: no figure of the machine has a range; expected an estimate"));
    }
    Ok(drawn)
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
    let observed = runner.in_parallel(scenarios.len(), |index| observe_timeline(&scenarios[index], seed));
    let timelines = observed.into_iter().map(|run| Ok(run?.1)).collect::<Result<Vec<Timeline>>>()?;
    if let Some(file) = report {
        let command = print::command_line();
        let parts = PageParts { timelines: &timelines, check, command: &command };
        file.write(compared.html(&parts).as_bytes())?;
    }
    if let Some(mut file) = parquet {
        let written = compared.write_slices(&timelines, file.writer());
        file.check(written.map_err(LabError::Write))?;
        file.finish()?;
    }
    Ok(())
}

/// `--scenario`: reads the scenarios and seeds of an earlier result, and the replay errors that it measured.
fn again(path: &Path) -> Result<(input::Comparison, Option<ReplayErrors>)> {
    let refuse = |error: &dyn std::fmt::Display| bad_input(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(&error))?;
    let (scenarios, seeds) = wakelab_report::read_scenarios(&text).map_err(|error| refuse(&error))?;
    let errors = wakelab_report::read_replay_errors(&text).map_err(|error| refuse(&error))?;
    if scenarios.is_empty() || seeds.is_empty() {
        return Err(refuse(&format!(
            "{} policies and {} seeds; expected at least one of each",
            scenarios.len(),
            seeds.len()
        )));
    }
    let policy_names = scenarios.iter().map(|scenario| scenario.policy.to_string()).collect();
    let changed = Vec::new();
    Ok((input::Comparison { scenarios, policy_names, seeds, recording: None, changed }, errors))
}

/// Prints a comparison; `all`: the rows that did not move, too.
pub(crate) fn show(
    comparison: &Comparison<'_>,
    resolved: &input::Comparison,
    all: bool,
    format: &RunsFormatArg,
) -> Result<()> {
    match format.format {
        RunsFormat::Json => {
            let changed = resolved.changed.iter().find(|changed| !changed.what_if.is_empty());
            let explained = |recording| explained(recording, changed.or(resolved.changed.first()));
            let recording = resolved.recording.as_ref().map(explained).transpose()?;
            print::json(&match format.with_scenario {
                true => comparison.document_with_scenario(recording),
                false => comparison.document(recording),
            })
        }
        RunsFormat::Csv => print::text(&comparison.csv()),
        RunsFormat::Text => {
            let warning = resolved.recording.as_ref().and_then(Recording::warning);
            let style = print::style();
            let mut text = warning.map(|warning| style.wrap(&warning) + "\n").unwrap_or_default();
            let tables = if all { comparison.text(&style) } else { comparison.text_of_moved(&style) };
            text.push_str(&tables);
            if let Some(recording) = &resolved.recording {
                text.push('\n');
                text.push_str(&style.wrap_lines(&input::explanation(recording, &resolved.changed)));
            }
            print::text(&text)
        }
    }
}

/// Returns what the JSON says about a recording: everything but the workload, which is in the scenario; `changed` is
/// for the first machine.
pub(crate) fn explained(recording: &Recording, changed: Option<&Changed>) -> Result<serde_json::Value> {
    let mut value = serde_json::to_value(recording)?;
    let object = value.as_object_mut().context("a recording is a struct")?;
    object.remove("workload");
    if let Some(changed) = changed {
        object.insert("folded".to_owned(), serde_json::to_value(&changed.folded)?);
        object.insert("what_if".to_owned(), serde_json::to_value(&changed.what_if)?);
    }
    Ok(value)
}
