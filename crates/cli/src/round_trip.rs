// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab round-trip`: exports runs, imports the exports and replays them.

use anyhow::Result;
use clap::Args;

use crate::args::{Format, FormatArg, KernelArgs, MachinesArg, PolicyArg, SeedArg, ThreadsArg, WorkloadsArg};
use crate::progress::Bar;
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab round-trip hackbench:groups=1,loops=10 pingpong:pairs=2,loops=100 --machine smp-8")]
pub(crate) struct RoundTripArgs {
    #[command(flatten)]
    workloads: WorkloadsArg,
    #[command(flatten)]
    machines: MachinesArg,
    #[command(flatten)]
    policy: PolicyArg,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    seed: SeedArg,
    #[command(flatten)]
    threads: ThreadsArg,
    #[command(flatten)]
    format: FormatArg,
}

/// Makes the round trip of every workload on every machine and prints how exact each is.
pub(crate) fn run(args: &RoundTripArgs) -> Result<()> {
    let policy = input::policy(&args.policy.policy)?;
    let machines = input::machines(&args.machines.machine)?;
    let mut scenarios = Vec::new();
    for workload in input::workloads(&args.workloads.workloads)? {
        for machine in &machines {
            let kernel = input::kernel(&args.kernel);
            scenarios.extend(wakelab_lab::scenarios(
                machine,
                &workload,
                std::slice::from_ref(&policy),
                kernel,
            ));
        }
    }
    let seed = args.seed.seed;
    let trips = wakelab_lab::round_trips(&scenarios, seed, &Bar::new().runner(&args.threads))?;
    let policy = &args.policy.policy;
    match args.format.format {
        Format::Json => print::json(&wakelab_report::round_trip_document(policy, seed, &trips)),
        Format::Text => print::text(&wakelab_report::round_trip_text(policy, seed, &trips, &print::style())),
    }
}
