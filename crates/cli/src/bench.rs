// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab bench`: how many simulated events this machine processes per second of CPU time.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use wakelab_lab::{BENCH_COSTS_OF, BENCH_GROWTH_CPUS, BenchPlan, BenchResult};

use crate::args::{Format, FormatArg};
use crate::output::{OutputFile, svg_path};
use crate::{bench_breakdown, bench_plot, input, print};

const SCHEMA_VERSION: u32 = 1;

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab bench\n  \
    wakelab bench --cpus 64 --workload pingpong --policy linux-4.15 --format json\n  \
    wakelab bench --grow --seconds 1 --plot growth.svg\n  \
    cargo run --profile profiling -- bench --cpus 64 --breakdown\n\n\
    A wake-up, a switch in and a switch out count as one event each; nothing else counts. All costs and\n\
    the checker are on. Times are CPU times of one thread.")]
pub(crate) struct BenchArgs {
    /// CPUs of the simulated machine, a multiple of 4: 2 threads for each core, 2 or more sockets of at most 96 cores
    #[arg(long, value_name = "N", default_value_t = 384, value_parser = clap::value_parser!(u32).range(4..=4096))]
    cpus: u32,
    /// Approximate number of tasks [default: 2 for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    tasks: Option<u32>,
    /// Workload: hackbench (pipes and slow senders, so that most messages wake a task) or pingpong, both sized by
    /// --tasks; or any workload with its parameters, NAME or FILE.toml:key=value,...
    #[arg(long, value_name = "WORKLOAD", default_value = "hackbench")]
    workload: String,
    /// Policy: NAME[+axis=value...]; `wakelab policies` lists names and axes. Repeatable [default: linux-4.15 and
    /// linux-4.15+idle=smt-balance]
    #[arg(long, short, value_name = "POLICY")]
    policy: Vec<String>,
    /// Repeat each run until it has used SECONDS of CPU time; more seconds give steadier figures
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=3600))]
    seconds: u32,
    /// Measure machines of 64, 128, ... 4,096 CPUs
    #[arg(long, conflicts_with_all = ["cpus", "tasks"])]
    grow: bool,
    /// Draw the time for each event over the number of CPUs into FILE.svg
    #[arg(long, value_name = "FILE.svg", value_parser = svg_path, requires = "grow")]
    plot: Option<PathBuf>,
    /// Count the instructions and cache misses of an event by part of the simulator, with valgrind, instead of
    /// measuring times. Needs a build with line numbers: --profile profiling
    #[arg(long, conflicts_with_all = ["grow", "plot", "seconds"])]
    breakdown: bool,
    /// Run N times, print the events of a run and measure nothing: what --breakdown runs under valgrind
    #[arg(long, value_name = "N", hide = true)]
    runs: Option<u32>,
    #[command(flatten)]
    format: FormatArg,
}

/// The document that docs/schema/bench.schema.json describes.
#[derive(Serialize)]
struct Document {
    schema_version: u32,
    kind: &'static str,
    costs_of: &'static str,
    results: Vec<BenchResult>,
}

/// Measures, and prints the result.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let default = ["linux-4.15", "linux-4.15+idle=smt-balance"].map(String::from).to_vec();
    let policies = if args.policy.is_empty() { &default } else { &args.policy };
    let plan = BenchPlan {
        cpus: if args.grow { BENCH_GROWTH_CPUS.to_vec() } else { vec![args.cpus] },
        workload: args.workload.clone(),
        tasks: args.tasks,
        policies: policies.iter().cloned().zip(input::policies(policies)?).collect(),
        seconds: u64::from(args.seconds),
    };
    if args.breakdown {
        return bench_breakdown::run(&scenario_arguments(args), policies, args.format.format);
    }
    if let Some(runs) = args.runs {
        return print::text(&format!("{}\n", wakelab_lab::bench_runs(&plan, runs)?));
    }
    let plot = args.plot.as_ref().map(|path| OutputFile::create("--plot", path, &[])).transpose()?;
    let results = wakelab_lab::bench(&plan)?;
    let document =
        Document { schema_version: SCHEMA_VERSION, kind: "bench", costs_of: BENCH_COSTS_OF, results };
    match args.format.format {
        Format::Json => print::json(&document)?,
        Format::Text => print::text(&table(&document)?)?,
    }
    match plot {
        Some(file) => file.write(bench_plot::svg(&document.results).as_bytes()),
        None => Ok(()),
    }
}

/// The arguments that choose a scenario, except its policy.
fn scenario_arguments(args: &BenchArgs) -> Vec<String> {
    let tasks = args.tasks.map(|tasks| format!("--tasks={tasks}"));
    [format!("--cpus={}", args.cpus), format!("--workload={}", args.workload)]
        .into_iter()
        .chain(tasks)
        .collect()
}

fn table(document: &Document) -> Result<String> {
    let mut text = String::from(
        "simulated events: wake-ups, switches in, switches out; all costs and the checker on; CPU time of one thread\n\n",
    );
    writeln!(
        text,
        "{:>5} {:>7} {:>11} {:>5} {:>10} {:>9} {:>7} {:>9}  policy, workload",
        "CPUs", "tasks", "events/run", "runs", "events/s", "ns/event", "holds", "peak MiB"
    )?;
    for row in &document.results {
        let peak = row.peak_memory_bytes.map_or_else(|| "-".to_owned(), |bytes| (bytes >> 20).to_string());
        writeln!(
            text,
            "{:>5} {:>7} {:>11} {:>5} {:>8.3} M {:>9.0} {:>7.2} {peak:>9}  {}, {}",
            row.cpus,
            row.tasks,
            row.events,
            row.run_ns.len(),
            row.events_per_s / 1e6,
            row.ns_per_event,
            row.holds_per_event,
            row.policy,
            row.workload
        )?;
    }
    text.push_str(
        "\nholds: the time of an event, in turns of a hold loop (pop, push) over a binary heap of as many entries as CPUs\n",
    );
    Ok(text)
}
