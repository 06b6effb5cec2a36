// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab ab`: a command under several schedulers of this machine's kernel (crates/ab), printed as `compare` prints.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use regex::Regex;
use wakelab_ab::{AbError, Interrupt, LoaderCommand, OwnMetric, Plan, Progress, Side};
use wakelab_report::{Style, Trials};
use wakelab_stats::Direction;

use crate::args::Format;
use crate::resolve::{bad_input, policies};
use crate::{print, runner};

/// How the kernel's own scheduler is called where policies are.
const KERNEL: &str = "kernel";
/// What it is compared with where no policy is given.
const DEFAULT_POLICY: &str = "wakelab";
/// The loader, beside this program or in PATH.
const LOADER: &str = "scx_wakelab";

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sudo wakelab ab -- make -j8\n  \
    sudo wakelab ab --policy linux-4.15+idle=smt-balance --metric 'Time: ([0-9.]+)' \\\n          \
        -- hackbench -g 8 -l 1000\n  \
    sudo wakelab ab --policy linux-4.15 --policy wakelab --runs 50 --until 1 -- ./benchmark\n  \
    wakelab ab --policy kernel -- ./benchmark     # the kernel against itself\n\n\
    Runs come in blocks of one run a policy in random order, and are compared within their block. The rows are those of the \
    command and its descendants, but runqueue wait, which is of all tasks on the machine.\n\n\
    Exit codes: 0 done, 1 something went wrong, 2 refused (arguments, not root, no sched_ext, no loader, another scheduler), \
    3 the command failed, 130 interrupted. The kernel's own scheduler runs again in any case.")]
pub(crate) struct AbArgs {
    /// A policy, NAME[+axis=value...], or `kernel` for the kernel's own scheduler; the first is the baseline. If given
    /// only once, the kernel's own is the baseline [default: wakelab]
    #[arg(long, short, value_name = "POLICY")]
    pub(crate) policy: Vec<String>,
    /// Runs under each policy, at most
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: u32,
    /// Stop when the gain of the first row is known to plus and minus so many percent (95 % interval), after five runs
    /// or more; 0: never
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent)]
    pub(crate) until: f64,
    /// Runs under the kernel's own scheduler before, which do not count
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) warmup: u32,
    /// Seed of the random order
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Judge by a number that the command prints: what the first group of the last match is. Else by the wall time
    #[arg(long, value_name = "REGEX")]
    pub(crate) metric: Option<String>,
    /// More of --metric is better [default: less]
    #[arg(long, requires = "metric")]
    pub(crate) higher_is_better: bool,
    /// The program that loads policies [default: scx_wakelab beside this program, else in PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) loader: Option<PathBuf>,
    /// An argument for the loader, as in --loader-arg=--slice-us=500; may be given again
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) loader_arg: Vec<String>,
    /// The tree that tells about sched_ext
    #[arg(long, value_name = "FOLDER", default_value = "/sys", hide = true)]
    pub(crate) sysfs: PathBuf,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// The command, with its arguments; it runs without input, and what it prints is not shown
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<String>,
}

/// Of the command: it failed, not wakelab.
const COMMAND_FAILED: u8 = 3;
/// 128 and the number of SIGINT, as shells have it.
const INTERRUPTED: u8 = 130;

/// The exit code of an error, if it is one of those that have their own.
pub(crate) fn exit_code(error: &anyhow::Error) -> Option<u8> {
    match error.downcast_ref::<AbError>()? {
        AbError::CommandFailed { .. } => Some(COMMAND_FAILED),
        AbError::Interrupted => Some(INTERRUPTED),
        _ => None,
    }
}

/// Runs all blocks and prints what they showed.
pub(crate) fn run(args: &AbArgs) -> Result<()> {
    let plan = plan(args)?;
    let interrupt = Arc::new(Interrupt::default());
    let at_signal = Arc::clone(&interrupt);
    ctrlc::set_handler(move || at_signal.stop()).context("cannot catch SIGINT")?;

    let bar = runner::progress_bar(plan.runs_max * plan.sides.len());
    let mut watch = |progress: Progress<'_>| match progress {
        Progress::Run { .. } => bar.tick(),
        Progress::Done => bar.inc(1),
        Progress::Void { side, why, lost_runs } => {
            bar.set_position(bar.position() - lost_runs as u64);
            bar.suspend(|| {
                eprintln!("wakelab: a run under {side} is void, and its block is run again: {why}")
            });
        }
    };
    let result = wakelab_ab::run(&plan, &interrupt, &mut watch);
    bar.finish_and_clear();
    let trials = Trials::new(result.map_err(refusal)?)?;
    match args.format {
        Format::Json => print::json(&trials.document()),
        Format::Text => print::text(&trials.text(&Style { color: print::colored(), width: print::width() })),
    }
}

/// What the user can mend by other arguments, or by running it elsewhere, is exit code 2.
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
            name => Side::Policy(Box::new(policies(&[name.to_owned()])?.remove(0))),
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
            "--metric {regex}: expected a group round the number, as in 'Time: ([0-9.]+)'"
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
