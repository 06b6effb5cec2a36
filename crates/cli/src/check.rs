// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab check`: a recording beside its own replay.

use anyhow::Result;
use clap::Args;
use wakelab_lab::{observe_replays, replay_on_itself};
use wakelab_report::Check;
use wakelab_trace::Changed;

use crate::args::{Format, FormatArg, KernelArgs, RecordingArgs, SeedsArgs};
use crate::progress::Bar;
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab check demo\n  \
    wakelab check service.perf.txt --machine recorded-on.toml --policy linux-6.8\n  \
    wakelab check service.perf.txt --format json > check.json\n\n\
    docs/guide/recordings.md says what each figure means and how the tolerances were chosen.")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    recording: RecordingArgs,
    /// Machine that made the recording: a name from `wakelab machines`, `host`, or a file [default: the machine that
    /// `wakelab record` noted, or one LLC of as many CPUs as the recording has; exits from idle are learnt from it]
    #[arg(long, short, value_name = "MACHINE")]
    machine: Option<String>,
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

/// Replays the recording on its own machine and prints both.
pub(crate) fn run(args: &CheckArgs) -> Result<()> {
    let given = args.policy.as_deref().map(input::policy).transpose()?;
    let (recording, machine) = input::recorded_on_itself(&args.recording, args.machine.as_deref())?;
    let (nearest, why) = input::recorded_policy(&recording);
    let name = args.policy.as_deref().unwrap_or(nearest);
    let policy = given.map_or_else(|| input::policy(nearest), Ok)?;
    let scenario = replay_on_itself(&recording, &machine, policy, input::kernel(&args.kernel));
    let seeds = input::seeds(&args.seeds);
    let replays = observe_replays(&scenario, &seeds, &Bar::new().runner(&args.seeds.threads))?;
    let check = Check::new(&recording, &replays, &machine.name, name);
    match args.format.format {
        Format::Json => print::json(&check.document(&seeds)),
        Format::Text => {
            let style = print::style();
            let why = why.filter(|_| args.policy.is_none()).map(|why| style.wrap_lines(&format!("{why}\n")));
            print::text(&format!(
                "{}\n{}{}",
                check.text(&style),
                why.unwrap_or_default(),
                style.wrap_lines(&input::explanation(&recording, &Changed::default()))
            ))
        }
    }
}
