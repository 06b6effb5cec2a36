// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab-parity`: the policy's native and BPF builds, side by side in this machine's own kernel.
//!
//! It proceeds in this order: it loads the BPF build and reports the verifier's work; proves with deliberate faults
//! that the comparison can fail; tells both builds the same events and compares; hammers one BPF state with two
//! threads; and times searches. `cargo xtask parity` builds and runs this. Exit codes: 0 all is well, 1 a difference or
//! an error, 2 bad arguments, 77 this kernel refuses to run BPF programs.

mod bench;
mod episodes;
mod events;
mod hammer;
mod kernel;
mod model;
mod native;
mod random;
mod report;
mod self_test;
mod topology;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

use kernel::{Fault, Kernel, Refused, VERIFIED_INSNS_MAX};
use report::Report;

/// Exit code if BPF is refused.
const EXIT_REFUSED: u8 = 77;

/// Compare the decisions of the policy's native and BPF builds, and time searches in the kernel.
///
/// Needs root and a kernel with BPF and BTF, but not sched_ext. The defaults are quick; more decisions find more.
#[derive(Parser)]
#[command(name = "cargo xtask parity", bin_name = "cargo xtask parity", version)]
struct Arguments {
    /// Least number of wake-up decisions to compare, over all policies together; more decisions find more differences.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    decisions: u64,
    /// Seed of all random choices; the same seed gives the same events.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Compare only the episode of this number, as a mismatch reports it.
    #[arg(long, value_name = "N", conflicts_with = "bench_only")]
    episode: Option<u64>,
    /// Time searches and do nothing else.
    #[arg(long, conflicts_with_all = ["no_bench", "self_test"])]
    bench_only: bool,
    /// Do not time searches.
    #[arg(long)]
    no_bench: bool,
    /// Prove that the comparisons can fail, and do nothing else.
    #[arg(long, conflicts_with_all = ["episode", "write_docs"])]
    self_test: bool,
    /// Format of stdout; with json, progress goes to stderr.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the table of timed searches to docs/design/parity.md.
    #[arg(long, conflicts_with = "no_bench")]
    write_docs: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("parity: {error:#}");
            if error.is::<Refused>() { ExitCode::from(EXIT_REFUSED) } else { ExitCode::FAILURE }
        }
    }
}

fn run(args: &Arguments) -> Result<()> {
    let note = |text: &str| match args.format {
        Format::Text => println!("{text}"),
        Format::Json => eprintln!("{text}"),
    };
    let mut kernel = Kernel::load(Fault::None)?;
    let mut report = Report::new(args.seed, kernel.sizes()?);
    note(&report.programs_text());
    if let Some(program) = report.programs.iter().find(|program| program.verified_insns > VERIFIED_INSNS_MAX)
    {
        bail!(
            "the verifier walks {} instructions of {}, more than {VERIFIED_INSNS_MAX}",
            program.verified_insns,
            program.name
        );
    }

    if !args.bench_only && args.episode.is_none() {
        note(&self_test::self_test(args.seed).context("self-test")?);
    }
    if args.self_test {
        return Ok(());
    }
    if !args.bench_only {
        report.comparison = Some(episodes::compare(&mut kernel, args.seed, args.decisions, args.episode)?);
        note(&report.comparison_text());
        if args.episode.is_none() {
            report.hammer = Some(hammer::hammer(&mut kernel, args.seed, &episodes::policies())?);
            note(&report.hammer_text());
        }
    }
    if !args.no_bench && args.episode.is_none() {
        report.searches = bench::bench(&mut kernel, args.seed, &mut |text| eprintln!("{text}"))?;
        note(&report.searches_text());
    }
    if args.write_docs {
        note(&format!("wrote {}", report.write_docs()?));
    }
    if args.format == Format::Json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}
