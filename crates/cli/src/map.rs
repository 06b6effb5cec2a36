// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab map`: one workload over machines and loads under several policies, to see where the sign of a gain flips.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use wakelab_ask::MapAsk;
use wakelab_lab::Load;

use crate::args::{Format, FormatArg, KernelArgs, SeedsArgs};
use crate::output::{OutputFile, svg_path};
use crate::progress::Bar;
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab map 'hackbench:groups={tasks/4},fds=2' \\\n    \
        --policy linux-4.15 --policy linux-4.15+idle=smt-balance\n  \
    wakelab map 'pingpong:pairs={tasks/2},loops=100' \\\n    \
        --machine smp-8 --machine xeon-2s22c2t --load 1/4 --load 1 \\\n    \
        --policy linux-4.15 --policy linux-4.15+idle=smt-balance --plot map.svg\n  \
    wakelab map 'hackbench:groups={tasks/40},loops=100' --metric wakeup_latency_p99_ns \\\n    \
        --policy linux-4.15 --policy wakelab")]
pub(crate) struct MapArgs {
    /// Workload: NAME or FILE.toml, with parameters as in NAME:key=value,... One value must be {tasks}, which stands
    /// for the number of tasks, or {tasks/N} if the parameter counts units of N tasks
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// Machine to simulate: a name from `wakelab machines`, `host` for this machine, or a file (.toml, or lstopo's
    /// .xml). Repeatable [default: all machines but host]
    #[arg(long, short, value_name = "MACHINE")]
    machine: Vec<String>,
    /// Load: the number of tasks for each CPU, such as 2 or 1/4. Repeatable
    #[arg(long, value_name = "LOAD", value_parser = load, default_values = ["1/8", "1/4", "1/2", "1", "2", "4"])]
    load: Vec<(String, Load)>,
    /// Policy: NAME[+axis=value...]; `wakelab policies` lists names and axes. The first is the baseline, and each other
    /// one gets a map
    #[arg(long, short, value_name = "POLICY", required = true)]
    policy: Vec<String>,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    seeds: SeedsArgs,
    /// Map the gain in METRIC, a name in the JSON of `wakelab compare` [default: the metric that judges the workload]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Draw only one map: the last policy against the best of the others in each cell
    #[arg(long)]
    over_best: bool,
    /// Draw the maps into FILE.svg
    #[arg(long, value_name = "FILE.svg", value_parser = svg_path, conflicts_with = "over_best")]
    plot: Option<PathBuf>,
    /// Write the maps to FILE as one HTML page; it needs no network
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

/// Runs a map and prints it.
pub(crate) fn run(args: &MapArgs) -> Result<()> {
    let loads: Vec<String> = args.load.iter().map(|(text, _)| text.clone()).collect();
    let ask = MapAsk {
        workload: &args.workload,
        machines: &input::choices(&args.machine),
        loads: &loads,
        policies: &args.policy,
        kernel: input::kernel(&args.kernel),
        seeds: input::seeds(&args.seeds),
        metric: args.metric.clone(),
        over_best: args.over_best,
    };
    let mapped = wakelab_ask::map(ask, &print::note)?;
    let plot = args.plot.as_ref().map(|path| OutputFile::create("--plot", path, &[])).transpose()?;
    let report = args.report.as_ref().map(|path| OutputFile::create("--report", path, &[])).transpose()?;
    let map = mapped.run(&Bar::new().runner(&args.seeds.threads))?;
    match args.format.format {
        Format::Json => print::json(&map.document())?,
        Format::Text => print::text(&map.text(&print::style()))?,
    }
    if let Some(file) = report {
        file.write(map.html(&print::command_line()).as_bytes())?;
    }
    match plot {
        Some(file) => file.write(map.svg().as_bytes()),
        None => Ok(()),
    }
}

/// Parses a load, and keeps its text, which heads a column.
fn load(text: &str) -> Result<(String, Load), String> {
    Ok((text.to_owned(), text.parse()?))
}
