// SPDX-License-Identifier: GPL-2.0-or-later
//! Groups of arguments that several commands share, so that their help is written once.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use wakelab_machine::{CostChange, Term};
use wakelab_trace::{CpusChange, FasterChange, NiceChange, QuotaChange, SliceChange, Span, WeightChange};

use crate::error::bad_input;

/// The heading of options that change what is simulated.
pub(crate) const WHAT_IF: &str = "What if";

/// The heading of options for recordings.
pub(crate) const FOR_RECORDINGS: &str = "For recordings";

/// The input of a run: a recording or a workload.
#[derive(Args)]
pub(crate) struct InputArgs {
    /// A recording or a workload: the path of a recording, `-` for a recording on standard input, `demo` for the
    /// built-in recording, or a workload NAME[:key=value,...] or FILE.toml[:key=value,...]
    #[arg(value_name = "INPUT")]
    pub(crate) input: Option<String>,
    /// Read INPUT as a recording, whatever its name
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input", "workload"])]
    pub(crate) recording: Option<PathBuf>,
    /// Read INPUT as a workload, even if a file of that name exists
    #[arg(long, value_name = "WORKLOAD", conflicts_with = "input")]
    pub(crate) workload: Option<String>,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) what_if: WhatIfArgs,
    /// Replace a cost of the machine: NAME, or NAME.PART, is one of `wakelab machines NAME`, with or without its unit,
    /// such as wakeup=0 or ipi_flight.llc=500. Repeatable
    #[arg(long, help_heading = WHAT_IF, value_name = "NAME=VALUE")]
    pub(crate) cost: Vec<CostChange>,
}

/// A recording.
#[derive(Args)]
pub(crate) struct RecordingArgs {
    /// Recording: a path, `-` for standard input, or `demo` for the built-in recording
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
}

/// How to read a recording.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Machine the recording was made on; converts CPU time to work that does not depend on the machine, and subtracts
    /// the kernel's own time [default: what the recording tells of its machine, as `wakelab fit` prints it; from a
    /// pipe, CPU time counts as work]
    #[arg(long, help_heading = FOR_RECORDINGS, value_name = "MACHINE")]
    pub(crate) recorded_on: Option<String>,
    /// Judge the recording by the tasks named COMM (or PREFIX*), or by those in a control group (its path, which begins
    /// with /). Repeatable, or separated by commas [default: what `wakelab record` noted, or all tasks but kernel
    /// threads, the recorder, and names with less than 1 % of the CPU time]
    #[arg(long, help_heading = FOR_RECORDINGS, value_name = "COMM", value_delimiter = ',')]
    pub(crate) of: Vec<String>,
    /// Treat external wake-ups of tasks named COMM (or PREFIX*) as open loop: they arrive at their recorded times.
    /// Repeatable [default: tasks whose wake-ups look periodic]
    #[arg(long, help_heading = FOR_RECORDINGS, value_name = "COMM")]
    pub(crate) open_loop: Vec<String>,
    /// Treat external wake-ups of tasks named COMM (or PREFIX*) as closed loop: each arrives a fixed delay after the
    /// task went to sleep. Repeatable [default: all tasks that are not open loop]
    #[arg(long, help_heading = FOR_RECORDINGS, value_name = "COMM")]
    pub(crate) closed_loop: Vec<String>,
    /// Model only the waits that the recording shows, without the dependencies that they imply elsewhere
    #[arg(long, help_heading = FOR_RECORDINGS)]
    pub(crate) recorded_waits_only: bool,
    /// Let every wait end at its recorded time, whatever other tasks do by then (an open loop), as replays without
    /// causes do; to show what knowing the causes changes
    #[arg(long, help_heading = FOR_RECORDINGS, conflicts_with_all = ["open_loop", "closed_loop", "recorded_waits_only"])]
    pub(crate) recorded_times: bool,
    /// Replay the recording N times, back to back; more repeats give more samples and take longer
    #[arg(long, help_heading = FOR_RECORDINGS, value_name = "N", value_parser = repeat())]
    pub(crate) repeat: Option<NonZeroU32>,
    /// Read only the part of the recording from START to STOP, in seconds since its first event; without one of them,
    /// from its beginning or to its end. A shorter part takes less time and memory [default: all of it]
    #[arg(long, help_heading = FOR_RECORDINGS, value_name = "START,STOP")]
    pub(crate) time: Option<Span>,
    /// Refuse a recording if anything in it cannot be explained, instead of reporting the gaps
    #[arg(long, help_heading = FOR_RECORDINGS)]
    pub(crate) strict: bool,
}

/// Changes to tasks.
#[derive(Args)]
pub(crate) struct WhatIfArgs {
    /// Give tasks named COMM (or PREFIX*) N % less CPU work, also in a workload that is no recording. Repeatable
    #[arg(long, help_heading = WHAT_IF, value_name = "COMM=N%")]
    pub(crate) faster: Vec<FasterChange>,
    /// Replay tasks named COMM (or PREFIX*) at nice N, from -20 to 19; a larger value gives them less CPU time beside
    /// others. Repeatable
    #[arg(long, help_heading = FOR_RECORDINGS, value_name = "COMM=N")]
    pub(crate) nice: Vec<NiceChange>,
    /// Replay tasks named COMM (or PREFIX*) with another slice, from 100us to 100ms, as sched_setattr() sets it;
    /// `base` is that of all tasks. A shorter slice lets a task run sooner and for less time at once, with the same
    /// share. Linux knows it from 6.12 on. Repeatable
    #[arg(long, help_heading = FOR_RECORDINGS, value_name = "COMM=TIME")]
    pub(crate) slice: Vec<SliceChange>,
    /// Replay all tasks, or those named COMM (or PREFIX*), on these CPUs only, such as 0-3,8; more CPUs leave more
    /// choice. Kernel threads that are bound to other CPUs move to one of these. Repeatable
    #[arg(long, help_heading = FOR_RECORDINGS, value_name = "[COMM=]LIST")]
    pub(crate) cpus: Vec<CpusChange>,
    /// Replay the task groups of the control group CGROUP (a path, or PREFIX*) with the weight N, from 1 to 10000 as in
    /// cpu.weight: 100 is that of a new group, and of a task of nice 0 beside it. A larger value gives the group more
    /// CPU time beside others. Repeatable
    #[arg(long, help_heading = FOR_RECORDINGS, value_name = "CGROUP=N")]
    pub(crate) weight: Vec<WeightChange>,
    /// Replay the task groups of CGROUP (a path, or PREFIX*) with another limit of CPU time, in the words of cpu.max:
    /// 50000/100000 is 50 ms in each 100 ms, on all CPUs together, and `max` is no limit. More makes the group faster,
    /// and leaves less to others. Repeatable
    #[arg(long, help_heading = FOR_RECORDINGS, value_name = "CGROUP=QUOTA_US/PERIOD_US")]
    pub(crate) quota: Vec<QuotaChange>,
}

/// Workloads on machines under one policy.
#[derive(Args)]
pub(crate) struct GridArgs {
    /// Workloads: NAME or FILE.toml, with parameters as in NAME:key=value,...
    #[arg(value_name = "WORKLOAD", required = true)]
    pub(crate) workloads: Vec<String>,
    /// Machine to simulate: a name from `wakelab machines`, `host` for this machine, or a file (.toml, or lstopo's
    /// .xml). Repeatable
    #[arg(long, short, value_name = "MACHINE", required = true)]
    pub(crate) machine: Vec<String>,
    /// Policy: NAME[+axis=value...]; `wakelab policies` lists names and axes
    #[arg(long, short, value_name = "POLICY", default_value = "linux-4.15")]
    pub(crate) policy: String,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
}

/// The seeds of a comparison, and the threads that run them.
#[derive(Args)]
pub(crate) struct SeedsArgs {
    /// Number of seeds. Each policy runs once with each seed, and runs are compared seed by seed; more seeds narrow the
    /// intervals
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: u32,
    #[command(flatten)]
    pub(crate) first: SeedArg,
    #[command(flatten)]
    pub(crate) threads: ThreadsArg,
}

/// A seed: the only one, or the first of several.
#[derive(Args)]
pub(crate) struct SeedArg {
    /// Seed of the random numbers, or the first seed if there are several runs. The same seed gives the same result
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// The longest waits, one by one.
#[derive(Args)]
pub(crate) struct SlowestArg {
    /// Show the N longest waits of the service with the first seed: when, behind whom, why the task was placed where it
    /// waited, and what was idle then
    #[arg(long, value_name = "N", value_parser = slowest())]
    pub(crate) slowest: Option<usize>,
}

/// The number of threads of a batch.
#[derive(Args)]
pub(crate) struct ThreadsArg {
    /// Number of threads that simulate in parallel; changes the time taken, never the result [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) threads: Option<u32>,
}

/// The kernel around the policy, and limits of a run.
#[derive(Args)]
pub(crate) struct KernelArgs {
    /// Kernel model that calls the policy
    #[arg(long, value_enum, default_value_t = Host::Mainline)]
    pub(crate) host: Host,
    /// Stop a run after SECONDS of simulated time, which may have decimals, such as 0.5; a larger value allows longer
    /// runs
    #[arg(long = "limit-s", value_name = "SECONDS", default_value = "600", value_parser = seconds_as_ns)]
    pub(crate) limit_ns: u64,
    /// Abort a run with an error after N simulated events; a larger value allows longer runs
    #[arg(long, value_name = "N", default_value_t = wakelab_sim::LIMIT_EVENTS, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit_events: u64,
}

/// The error of replays.
#[derive(Args)]
pub(crate) struct NoCheckArg {
    /// Leave out the replay error, and the replay of the recording on its own machine that measures it
    #[arg(long, help_heading = FOR_RECORDINGS)]
    pub(crate) no_check: bool,
}

/// Terms of the cost model to leave out.
#[derive(Args)]
pub(crate) struct WithoutArg {
    /// Leave a term out of the cost model, so that it costs nothing. Repeatable
    #[arg(long, value_name = "TERM", value_parser = term())]
    pub(crate) without: Vec<Term>,
}

/// Draws of the machine's figures.
#[derive(Args)]
pub(crate) struct UncertaintyArg {
    /// Repeat all runs on DRAWS draws of the figures of machine and workload from their ranges, all at once, and say in
    /// which range gains are, in how many draws their signs hold, and which figures decide; a sign that holds in less
    /// than 80 % is undecided. DRAWS is a power of two; more draws tell more figures apart [default DRAWS: 64]
    #[arg(
        long,
        value_name = "DRAWS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "64",
        value_parser = draws()
    )]
    pub(crate) uncertainty: Option<usize>,
}

/// Parses a number of draws.
fn draws() -> impl TypedValueParser<Value = usize> {
    clap::value_parser!(u32).try_map(|draws| {
        if draws.is_power_of_two() && (8..=16_384).contains(&draws) {
            return Ok(draws as usize);
        }
        Err(format!("{draws} draws; expected a power of two from 8 to 16384"))
    })
}

/// The format of the result.
#[derive(Args)]
pub(crate) struct FormatArg {
    /// Format of the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Parses a number of waits.
fn slowest() -> impl TypedValueParser<Value = usize> {
    clap::value_parser!(u32).range(1..=1_000).map(|waits| waits as usize)
}

/// Parses a number of replays.
fn repeat() -> impl TypedValueParser<Value = NonZeroU32> {
    clap::value_parser!(u32).range(1..=10_000).try_map(NonZeroU32::try_from)
}

/// Parses a term of the cost model; the help has a line for each.
pub(crate) fn term() -> impl TypedValueParser<Value = Term> {
    let values = Term::ALL.map(|term| PossibleValue::new(term.name()).help(term.about()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Term>())
}

/// Parses decimal seconds into nanoseconds without rounding.
pub(crate) fn seconds_as_ns(text: &str) -> Result<u64, String> {
    const SECONDS_MAX: u64 = 100_000;
    const DIGITS: usize = 9;
    let parse = || {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > DIGITS {
            return None;
        }
        let whole_ns = whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
        whole_ns.checked_add(format!("{fraction:0<DIGITS$}").parse().ok()?)
    };
    parse().filter(|ns| (1..=SECONDS_MAX * 1_000_000_000).contains(ns)).ok_or_else(|| {
        format!("expected seconds above 0 and at most {SECONDS_MAX}, with up to {DIGITS} decimals")
    })
}

/// The format of a result.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people
    Text,
    /// JSON, as docs/schema describes it
    Json,
}

/// The format of a comparison.
#[derive(Args)]
pub(crate) struct RunsFormatArg {
    /// Format of the result
    #[arg(long, value_enum, default_value_t = RunsFormat::Text)]
    pub(crate) format: RunsFormat,
    /// Put the scenario (machine, tasks and what they do) into the JSON, so that `wakelab compare --scenario FILE` can
    /// run it again
    #[arg(long)]
    pub(crate) with_scenario: bool,
}

impl RunsFormatArg {
    /// Refuses a scenario that no format has place for.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        match (self.with_scenario, self.format) {
            (true, RunsFormat::Text | RunsFormat::Csv) => {
                Err(bad_input("--with-scenario: only JSON has scenarios; expected --format json"))
            }
            _ => Ok(()),
        }
    }
}

/// The format of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunsFormat {
    /// Tables for people
    Text,
    /// JSON, as docs/schema describes it
    Json,
    /// A line for each machine, policy, seed, task name and metric
    Csv,
}

/// The kernel model around the policy (docs/design/contract.md).
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Host {
    /// Linux's own scheduler
    Mainline,
    /// sched_ext of Linux 6.12 or later, with scx_wakelab
    #[value(name = "sched_ext", alias = "sched-ext")]
    SchedExt,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_decimals() {
        for (text, ns) in
            [("600", 600_000_000_000), ("0.001", 1_000_000), ("1.5", 1_500_000_000), ("0.000000001", 1)]
        {
            assert_eq!(seconds_as_ns(text), Ok(ns), "{text}");
        }
        for bad in [
            "",
            ".",
            ".5",
            "0",
            "0.0",
            "-1",
            "1e3",
            "100001",
            "1.2.3",
            "0.0000000001",
            "99999999999999999999",
        ] {
            assert!(seconds_as_ns(bad).is_err(), "{bad}");
        }
    }
}

/// The format of machines.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MachineFormat {
    /// Tables for people
    Text,
    /// JSON, as docs/schema describes it
    Json,
    /// A machine file, to copy and change
    Toml,
}
