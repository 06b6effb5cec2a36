// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab why`: two sides of a comparison, axis by axis.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use wakelab_ask::WhyAsk;
use wakelab_machine::printable;
use wakelab_report::{PageParts, slowest_text};

use crate::args::{Format, FormatArg, InputArgs, KernelArgs, NoCheckArg, SeedsArgs, SlowestArg};
use crate::output::OutputFile;
use crate::progress::Bar;
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab why demo --machine recorded --policy linux-5.2 --policy linux-6.12 --metric p99\n  \
    wakelab why demo --machine recorded --machine 'recorded*2' --policy linux-6.12\n  \
    wakelab why demo --machine recorded --policy linux-6.12 --faster hackbench=20% --cost wakeup=0\n  \
    wakelab why hackbench:groups=4 --machine smp-8 --policy linux-4.15 --policy linux-6.12 --slowest 5\n\n\
    The sides differ by policy, by machine or by both. With one policy on one machine, the sides are without and with the \
    what-ifs (--faster, --cost, --nice, ...), and each of these is an axis.")]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Machine to simulate, as for `wakelab compare`. Give two to explain what the second changes
    #[arg(long, short, value_name = "MACHINE", required = true)]
    machine: Vec<String>,
    /// Policy, as for `wakelab compare`. Give two to explain what the second changes
    #[arg(long, short, value_name = "POLICY", required = true)]
    policy: Vec<String>,
    /// The metric to explain: `result` (the first row of `wakelab compare`), p50, p95, p99 or p99.9 of wake-up latency,
    /// or a name of the JSON [default: result]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    #[command(flatten)]
    slowest: SlowestArg,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    seeds: SeedsArgs,
    #[command(flatten)]
    check: NoCheckArg,
    /// Write the result to FILE as one HTML page, with the axes, curves of latencies and a timeline of both sides with
    /// the first seed; it needs no network (docs/guide/timelines.md)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

/// Runs both sides and their mixtures, and prints which axis makes the difference.
pub(crate) fn run(args: &WhyArgs) -> Result<()> {
    let ask = WhyAsk {
        ask: &input::ask(&args.input),
        machines: &input::choices(&args.machine),
        policies: &args.policy,
        metric: args.metric.clone(),
        no_check: args.check.no_check,
        slowest: args.slowest.slowest.unwrap_or(0),
        kernel: input::kernel(&args.kernel),
        seeds: input::seeds(&args.seeds),
    };
    let inputs: Vec<&Path> =
        args.machine.iter().flat_map(|machine| input::files(&args.input, machine)).collect();
    let report =
        args.report.as_deref().map(|path| OutputFile::create("--report", path, &inputs)).transpose()?;
    let bar = Bar::new();
    let runner = bar.runner(&args.seeds.threads);
    let explained = wakelab_ask::why(&ask, &runner, &print::note)?;
    if let Some(file) = report {
        let (timelines, command) = (explained.timelines(&runner)?, print::command_line());
        let parts = PageParts { timelines: &timelines, check: explained.check(), command: &command };
        file.write(explained.why()?.html(&parts).as_bytes())?;
    }
    match args.format.format {
        Format::Json => print::text(&explained.json()?),
        Format::Text => {
            let style = print::style();
            let why = explained.why()?;
            let mut text = why.text(&style);
            for (outcome, name) in explained.slowest.iter().zip(why.comparison.column_names()) {
                let Some(waits) = &outcome.waits else { continue };
                let title = format!("The longest waits under {}, seed {}", printable(&name), outcome.seed);
                let waits = slowest_text(&title, waits, &style);
                if !waits.is_empty() {
                    text.push_str(&format!("\n{waits}"));
                }
            }
            if let Some(recording) = &explained.recording {
                text.push('\n');
                text.push_str(&style.wrap_lines(&wakelab_ask::explanation(recording, &explained.changed)));
            }
            print::text(&text)
        }
    }
}
