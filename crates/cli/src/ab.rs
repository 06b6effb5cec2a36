// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab ab`: a command under several schedulers of this machine's kernel (crates/ab), printed like `compare`.
//!
//! The process that the user starts is the supervisor. It starts this program again as the worker, which runs the
//! trials and prints the result; crates/ab/src/supervise.rs says why.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use regex::Regex;
use wakelab_ab::{AbError, Interrupt, LoaderCommand, OwnMetric, Plan, Progress, Side};
use wakelab_report::Trials;
use wakelab_stats::Direction;

use crate::args::{Format, FormatArg};
use crate::error::bad_input;
use crate::progress::Bar;
use crate::{input, print};

/// The policy name that stands for the kernel's own scheduler.
const KERNEL: &str = "kernel";
/// The policy that is compared with it if none is given.
const DEFAULT_POLICY: &str = "wakelab";
/// The loader's name, beside this program or in PATH.
const LOADER: &str = "scx_wakelab";

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sudo wakelab ab -- make -j8\n  \
    sudo wakelab ab --policy linux-4.15+idle=smt-balance --metric 'Time: ([0-9.]+)' \\\n    \
        -- hackbench -g 8 -l 1000\n  \
    sudo wakelab ab --policy linux-4.15 --policy wakelab --runs 50 --until 1 -- ./benchmark\n  \
    wakelab ab --policy kernel -- ./benchmark     # the kernel against itself\n\n\
    Each block runs the command once under each policy, in random order; runs are compared within their block. The rows \
    count the command and its descendants, except runqueue wait, which counts all tasks of the machine. Processes that the \
    command leaves running are ended after each run.\n\n\
    Exit codes: 0 success, 1 failure, 2 refused (arguments, not root, no sched_ext, no loader, another scheduler), 3 the \
    command failed, 130 interrupted. In every case, also after SIGKILL, the kernel's own scheduler runs again.")]
pub(crate) struct AbArgs {
    /// Policy: NAME[+axis=value...], or `kernel` for the kernel's own scheduler. Repeatable; the first is the baseline.
    /// If given once, the baseline is `kernel` [default: wakelab]
    #[arg(long, short, value_name = "POLICY")]
    policy: Vec<String>,
    /// Greatest number of runs under each policy; more runs narrow the intervals
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Stop early, after at least five runs, when the 95 % interval of the first row's gain is within plus or minus
    /// PERCENT; a smaller value runs longer, 0 never stops early
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent)]
    until: f64,
    /// Number of runs under the kernel's own scheduler before the first block; they do not count, but warm caches
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    warmup: u32,
    /// Seed of the random order
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Judge by a number that the command prints: the first group of the last match of REGEX, which is searched for
    /// line by line [default: judge by wall time]
    #[arg(long, value_name = "REGEX")]
    metric: Option<String>,
    /// A larger value of --metric is better [default: a smaller one]
    #[arg(long, requires = "metric")]
    higher_is_better: bool,
    /// Program that loads policies [default: scx_wakelab beside this program, else in PATH]
    #[arg(long, value_name = "PATH")]
    loader: Option<PathBuf>,
    /// Argument for the loader, as in --loader-arg=--slice-us=500. Repeatable
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    loader_arg: Vec<String>,
    /// Directory where the kernel shows the state of sched_ext
    #[arg(long, value_name = "FOLDER", default_value = "/sys", hide = true)]
    sysfs: PathBuf,
    /// Process id of this worker's supervisor
    #[arg(long, value_name = "PID", hide = true)]
    supervisor: Option<i32>,
    #[command(flatten)]
    format: FormatArg,
    /// Command to run, with its arguments. It gets no input, and its output is not shown
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<String>,
}

/// Runs all blocks and prints the comparison.
pub(crate) fn run(args: &AbArgs) -> Result<()> {
    match args.supervisor {
        None => supervise(args),
        Some(supervisor) => work(args, supervisor),
    }
}

/// Starts this command again as the worker, and ends with the worker's exit code. The worker prints everything.
fn supervise(args: &AbArgs) -> Result<()> {
    let interrupt = stop_at_signals(Interrupt::without_kill())?;
    let mut worker = Command::new(std::env::current_exe().context("cannot find this program")?);
    // --supervisor comes directly after `ab`, because any later argument may end the options.
    let supervisor = format!("--supervisor={}", std::process::id());
    worker.arg("ab").arg(supervisor).args(std::env::args_os().skip(2));
    let status = wakelab_ab::supervise(worker, &args.sysfs, &interrupt)?;
    match status.code() {
        Some(0) | None => Ok(()),
        Some(code) => std::process::exit(code),
    }
}

/// Makes SIGINT, SIGTERM and SIGHUP set the interrupt.
fn stop_at_signals(interrupt: Interrupt) -> Result<Arc<Interrupt>> {
    let interrupt = Arc::new(interrupt);
    let at_signal = Arc::clone(&interrupt);
    ctrlc::set_handler(move || at_signal.stop()).context("cannot catch SIGINT")?;
    Ok(interrupt)
}

/// Runs the trials in the worker process.
fn work(args: &AbArgs, supervisor: i32) -> Result<()> {
    let plan = plan(args)?;
    let interrupt = stop_at_signals(Interrupt::default())?;
    wakelab_ab::join_supervisor(supervisor)?;

    let Bar(bar) = Bar::new();
    bar.set_length((plan.runs_max * plan.sides.len()) as u64);
    let mut watch = |progress: Progress<'_>| match progress {
        Progress::Run { .. } => bar.tick(),
        Progress::Done => bar.inc(1),
        Progress::Void { side, why, lost_runs } => {
            bar.set_position(bar.position() - lost_runs as u64);
            bar.suspend(|| {
                print::note(&format!("a run under {side} is void, and its block is run again: {why}"));
            });
        }
    };
    let result = wakelab_ab::run(&plan, &interrupt, &mut watch);
    bar.finish_and_clear();
    let trials = Trials::new(result.map_err(refusal)?)?;
    match args.format.format {
        Format::Json => print::json(&trials.document()),
        Format::Text => print::text(&trials.text(&print::style())),
    }
}

/// Gives exit code 2 to errors that other arguments, or another machine, would avoid.
fn refusal(error: AbError) -> anyhow::Error {
    match error {
        AbError::NotRoot
        | AbError::NoSchedExt { .. }
        | AbError::Occupied { .. }
        | AbError::NoLoader { .. }
        | AbError::NoCommand { .. }
        | AbError::NoMetric { .. } => bad_input(error),
        error => error.into(),
    }
}

fn plan(args: &AbArgs) -> Result<Plan> {
    let mut names: Vec<&str> = args.policy.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.push(DEFAULT_POLICY);
    }
    if names.len() == 1 {
        names.insert(0, KERNEL);
    }
    let mut sides = Vec::new();
    for name in names {
        sides.push(match name {
            KERNEL => Side::Kernel,
            name => Side::Policy(Box::new(input::policy(name)?)),
        });
    }
    let metric = args.metric.as_deref().map(|regex| own_metric(regex, args.higher_is_better)).transpose()?;
    let program = match &args.loader {
        Some(path) => path.clone(),
        None => std::env::current_exe()
            .map(|path| path.with_file_name(LOADER))
            .ok()
            .filter(|path| path.exists())
            .unwrap_or_else(|| LOADER.into()),
    };
    Ok(Plan {
        command: args.command.clone(),
        sides,
        runs_max: args.runs as usize,
        until_percent: (args.until > 0.0).then_some(args.until),
        warmup_runs: args.warmup as usize,
        seed: args.seed,
        metric,
        loader: LoaderCommand { program, arguments: args.loader_arg.clone() },
        sysfs: args.sysfs.clone(),
    })
}

fn own_metric(regex: &str, higher_is_better: bool) -> Result<OwnMetric> {
    let compiled = Regex::new(regex).map_err(|error| bad_input(format!("--metric: {error}")))?;
    if compiled.captures_len() < 2 {
        return Err(bad_input(format!(
            "--metric {regex}: expected a group around the number, as in 'Time: ([0-9.]+)'"
        )));
    }
    let direction = if higher_is_better { Direction::Higher } else { Direction::Lower };
    Ok(OwnMetric { regex: compiled, direction })
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1000.0).contains(&value) => Ok(value),
        _ => Err("expected a percentage from 0 to 1000".to_owned()),
    }
}
