// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab round-trip`: exports runs, imports the exports and replays them.

use anyhow::Result;
use clap::Args;

use crate::args::{Format, FormatArg, GridArgs, SeedArg, ThreadsArg};
use crate::progress::Bar;
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab round-trip hackbench:groups=1,loops=10 pingpong:pairs=2,loops=100 --machine smp-8")]
pub(crate) struct RoundTripArgs {
    #[command(flatten)]
    grid: GridArgs,
    #[command(flatten)]
    seed: SeedArg,
    #[command(flatten)]
    threads: ThreadsArg,
    #[command(flatten)]
    format: FormatArg,
}

/// Makes the round trip of every workload on every machine and prints how exact each is.
pub(crate) fn run(args: &RoundTripArgs) -> Result<()> {
    let policies = [input::policy(&args.grid.policy)?];
    let machines = input::machines(&args.grid.machine)?;
    let kernel = input::kernel(&args.grid.kernel);
    let mut scenarios = Vec::new();
    for workload in input::workloads(&args.grid.workloads)? {
        for machine in &machines {
            scenarios.extend(wakelab_lab::scenarios(machine, &workload, &policies, kernel));
        }
    }
    let seed = args.seed.seed;
    let trips = wakelab_lab::round_trips(&scenarios, seed, &Bar::new().runner(&args.threads))?;
    let policy = &args.grid.policy;
    match args.format.format {
        Format::Json => print::json(&wakelab_report::round_trip_document(policy, seed, &trips)),
        Format::Text => print::text(&wakelab_report::round_trip_text(policy, seed, &trips, &print::style())),
    }
}
