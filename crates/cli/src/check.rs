// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab check`: a recording beside its own replay, or a what-if beside a recording of what came true.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use wakelab_ask::{CheckAsk, MachineChoice};
use wakelab_lab::export_events;

use crate::args::{Format, FormatArg, KernelArgs, RecordingArgs, SeedsArgs, WhatIfArgs};
use crate::output::OutputFile;
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
    #[arg(long, value_name = "TRUTH", conflicts_with = "time")]
    against: Option<PathBuf>,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// Policy nearest to the recorded kernel's; `wakelab policies` lists them, by kernel version too [default: that of
    /// the kernel that the recording tells, or the one whose replay comes nearest to it]
    #[arg(long, short, value_name = "POLICY")]
    policy: Option<String>,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    seeds: SeedsArgs,
    /// Write every event of the replay with the first seed to FILE, as ftrace text (docs/guide/recordings.md)
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

/// Replays the recording on its own machine, or as the what-if says, and prints both.
pub(crate) fn run(args: &CheckArgs) -> Result<()> {
    let import = input::import(&args.recording.import);
    let machine = args.machine.clone().map(MachineChoice::Name);
    let ask = CheckAsk {
        recording: &args.recording.recording,
        import: &import,
        machine: machine.as_ref(),
        against: args.against.clone(),
        what_if: &input::what_if(&args.what_if),
        policy: args.policy.as_deref(),
        kernel: input::kernel(&args.kernel),
        seeds: input::seeds(&args.seeds),
    };
    let inputs: Vec<&Path> =
        [Some(args.recording.recording.as_path()), args.against.as_deref()].into_iter().flatten().collect();
    let events =
        args.events.as_deref().map(|path| OutputFile::create("--events", path, &inputs)).transpose()?;
    let checked = wakelab_ask::check(&ask, &Bar::new().runner(&args.seeds.threads), &print::note)?;
    if let Some(file) = events {
        file.export(|file| export_events(&checked.scenario, checked.seeds[0], file).map(drop))?;
    }
    match args.format.format {
        Format::Json => print::text(&checked.json()?),
        Format::Text => {
            let style = print::style();
            let why = checked.why.as_ref().map(|why| style.wrap_lines(&format!("{why}\n")));
            print::text(&format!(
                "{}\n{}{}",
                checked.check.text(&style),
                why.unwrap_or_default(),
                style.wrap_lines(&wakelab_ask::explanation(&checked.recording, &[checked.changed]))
            ))
        }
    }
}
