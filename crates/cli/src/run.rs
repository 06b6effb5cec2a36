// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab run`: one input under one policy with one seed.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use wakelab_ask::MachineChoice;
use wakelab_lab::{LabError, export_events, export_perfetto};

use crate::args::{InputArgs, KernelArgs, RunsFormatArg, SeedArg, SlowestArg, ThreadsArg, WithoutArg};
use crate::output::OutputFile;
use crate::progress::Bar;
use crate::{compare, input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab run hackbench:groups=4 --machine xeon-2s22c2t --policy linux-4.15\n  \
    wakelab run pingpong:pairs=8 --machine power9-2s22c4t --policy linux-4.15 --without idle-exit\n  \
    wakelab run demo --machine smp-8 --policy linux-4.15 --events demo.ftrace.txt\n  \
    wakelab run demo --machine smp-8 --policy linux-4.15 --perfetto demo.perfetto-trace\n\n\
    The JSON is that of `wakelab compare` with one policy and one seed.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Machine to simulate: a name from `wakelab machines`, `host` for this machine, or a file (.toml, or lstopo's
    /// .xml); `recorded` is the machine that made the recording, and `MACHINE*N` has N times as many cores in each LLC
    #[arg(long, short, value_name = "MACHINE")]
    machine: String,
    /// Policy: NAME[+axis=value...]; `wakelab policies` lists names and axes
    #[arg(long, short, value_name = "POLICY")]
    policy: String,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    seed: SeedArg,
    #[command(flatten)]
    without: WithoutArg,
    /// Write every event of the run to FILE, as ftrace text (docs/guide/recordings.md)
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Write every event of the run to FILE in Perfetto's format, with the decisions and their reasons, for
    /// `wakelab view FILE` (docs/guide/timelines.md)
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write the result to FILE as one HTML page, with a timeline of the run; it needs no network
    /// (docs/guide/timelines.md)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the time slices of the run to FILE as a Parquet table, each with its wait and its wake-up
    /// (docs/guide/timelines.md)
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    slowest: SlowestArg,
    #[command(flatten)]
    format: RunsFormatArg,
}

/// Runs it once and prints the result.
pub(crate) fn run(args: &RunArgs) -> Result<()> {
    args.format.check()?;
    let seed = args.seed.seed;
    let machine = [MachineChoice::Name(args.machine.clone())];
    let machines = (&machine[..], &args.without.without[..]);
    let policies = std::slice::from_ref(&args.policy);
    let (ask, kernel) = (input::ask(&args.input), input::kernel(&args.kernel));
    let question = wakelab_ask::question(&ask, machines, policies, kernel, vec![seed], false, &print::note)?;
    question.check()?;
    let scenario = &question.scenarios[0];
    let inputs = input::files(&args.input, &args.machine);
    let create = |option, path: &Option<PathBuf>| {
        path.as_deref().map(|path| OutputFile::create(option, path, &inputs)).transpose()
    };
    let (events, perfetto) = (create("--events", &args.events)?, create("--perfetto", &args.perfetto)?);
    let files = (create("--report", &args.report)?, create("--parquet", &args.parquet)?);
    // Each file is written by a separate run: the same seed gives the same run.
    if let Some(file) = events {
        file.export(|file| export_events(scenario, seed, file).map(drop))?;
    }
    if let Some(file) = perfetto {
        file.export(|file| {
            export_perfetto(&question.scenarios, &question.policy_names, seed, file).map(drop)
        })?;
    }
    let outcome = wakelab_sim::run_explained(scenario, seed, args.slowest.slowest.unwrap_or(0))
        .map_err(|error| LabError::Run { name: format!("policy {}", args.policy), seed, error })?;
    let outcomes = [vec![outcome]];
    let one = wakelab_report::Comparison::new(&question.scenarios, &question.policy_names, &outcomes)?;
    let bar = Bar::new();
    let runner = bar.runner(&ThreadsArg { threads: Some(1) });
    compare::write_timelines(&one, (&question.scenarios, seed), &runner, None, files)?;
    compare::show(&one, &question, true, &args.format)
}
