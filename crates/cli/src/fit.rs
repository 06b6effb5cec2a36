// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab fit`: a machine file with what a recording tells of the machine that made it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use wakelab_trace::beside;

use crate::args::RecordingArgs;
use crate::error::bad_input;
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab fit demo > recorded.toml\n  \
    wakelab fit service.perf.txt --machine host > service-host.toml\n  \
    wakelab fit service.rec.gz --beside taskset-0.rec.gz > recorded.toml\n\n\
    The machine file goes to --machine and --recorded-on. Exits from idle, wake-ups, interrupts and ticks come from the \
    recording, and from what `wakelab record` measured at its end; so does the speed of two busy threads of a core, where \
    enough work began beside a busy thread, and enough beside idle ones. Every other figure comes from the machine that \
    it begins with. Each figure says where it comes from.")]
pub(crate) struct FitArgs {
    #[command(flatten)]
    recording: RecordingArgs,
    /// Machine to begin with, for its topology and for what the recording does not tell: a name from `wakelab
    /// machines`, `host`, or a file [default: the machine that `wakelab record` noted, or one LLC of as many CPUs as
    /// the recording has]
    #[arg(long, short, value_name = "MACHINE")]
    machine: Option<String>,
    /// Recording of the same program on the same machine under other circumstances, such as on one CPU: its work, too,
    /// tells how much slower tasks are beside a busy thread of their core. Repeatable
    #[arg(long, value_name = "RECORDING")]
    beside: Vec<PathBuf>,
    /// Leave the cost of recorded events in the figures, for `wakelab check --machine`: what was recorded has it, too
    #[arg(long)]
    with_recorder: bool,
}

/// Prints the machine file.
pub(crate) fn run(args: &FitArgs) -> Result<()> {
    let (mut recording, machine) = input::recorded(&args.recording, args.machine.as_deref())?;
    for other in &args.beside {
        let kinds = wakelab_ask::recorded_work(other, &machine)?;
        beside::join(&mut recording.learnt.beside, kinds);
    }
    if let Some(hidden) = beside::hidden_threads(&recording.learnt.beside, &machine.topology) {
        print::note(&hidden);
    }
    let learnt = match args.with_recorder {
        true => recording.learnt.clone(),
        false => recording.learnt.without_recorder(recording.learnt.event_cost_ns),
    };
    let machine = learnt.machine(&machine, &recording.workload.name);
    print::text(&machine.to_toml().map_err(bad_input)?)
}
