// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab check`: a recording beside its own replay, or a what-if beside a recording of what came true.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use wakelab_lab::{observe_replays, replay_on_itself};
use wakelab_report::Check;
use wakelab_trace::Changed;

use crate::args::{Format, FormatArg, KernelArgs, RecordingArgs, SeedsArgs, WhatIfArgs};
use crate::progress::Bar;
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab check demo\n  \
    wakelab check service.perf.txt --machine recorded-on.toml --policy linux-6.8\n  \
    wakelab check service.perf.txt --format json > check.json\n  \
    wakelab check service.perf.txt --cpus 0 --against taskset-0.perf.txt\n\n\
    docs/guide/recordings.md says what each figure means and how the tolerances were chosen.")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    recording: RecordingArgs,
    /// Machine that made the recording: a name from `wakelab machines`, `host`, or a file [default: the machine that
    /// `wakelab record` noted, or one LLC of as many CPUs as the recording has; exits from idle are learnt from it]
    #[arg(long, short, value_name = "MACHINE")]
    machine: Option<String>,
    /// Recording of the same program under other circumstances: the replay is compared with this one, and predicts it.
    /// The options --machine, --policy, --nice, --slice, --cpus, --weight and --quota then say what was different
    #[arg(long, value_name = "TRUTH")]
    against: Option<PathBuf>,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// Policy nearest to the recorded kernel's; `wakelab policies` lists them, by kernel version too [default: that of
    /// the kernel that `wakelab record` noted, or linux-6.12]
    #[arg(long, short, value_name = "POLICY")]
    policy: Option<String>,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    seeds: SeedsArgs,
    #[command(flatten)]
    format: FormatArg,
}

/// Replays the recording on its own machine, or as the what-if says, and prints both.
pub(crate) fn run(args: &CheckArgs) -> Result<()> {
    let given = args.policy.as_deref().map(input::policy).transpose()?;
    let machine = args.machine.as_deref();
    let (recording, machine, truth) = match &args.against {
        None => {
            input::refuse_what_if(&args.what_if)?;
            let (recording, machine) = input::recorded_on_itself(&args.recording, machine)?;
            (recording, machine, None)
        }
        Some(truth) => {
            let (recording, itself) = input::recorded_on_itself(&args.recording, None)?;
            let machine = machine.map_or(Ok(itself), |name| input::machine(name, &[]))?;
            (recording, machine, Some(input::truth(truth, &args.recording.import.of)?))
        }
    };
    let (nearest, why) = input::recorded_policy(&recording);
    let name = args.policy.as_deref().unwrap_or(&nearest);
    let policy = given.map_or_else(|| input::policy(&nearest), Ok)?;
    let kernel = input::kernel(&args.kernel);
    let (scenario, changed) = match truth {
        None => (replay_on_itself(&recording, &machine, policy, kernel), Changed::default()),
        Some(_) => {
            let mut workload = Arc::new(recording.workload.clone());
            let changed = input::change(&input::what_if(&args.what_if), &mut workload, &machine, true)?;
            input::note_without_slices(&workload, [(name, &policy)]);
            (wakelab_lab::scenarios(&machine, &workload, &[policy], kernel).remove(0), changed)
        }
    };
    let seeds = input::seeds(&args.seeds);
    let replays = observe_replays(&scenario, &seeds, &Bar::new().runner(&args.seeds.threads))?;
    let check = match &truth {
        None => Check::new(&recording, &replays, &machine.name, name),
        Some(truth) => Check::against(&recording, truth, &replays, &machine.name, name),
    };
    match args.format.format {
        Format::Json => print::json(&check.document(&seeds)),
        Format::Text => {
            let style = print::style();
            let why = why.filter(|_| args.policy.is_none()).map(|why| style.wrap_lines(&format!("{why}\n")));
            print::text(&format!(
                "{}\n{}{}",
                check.text(&style),
                why.unwrap_or_default(),
                style.wrap_lines(&input::explanation(&recording, &[changed]))
            ))
        }
    }
}
