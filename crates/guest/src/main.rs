// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab-guest`: work for a machine whose scheduler is tested.
//!
//! Each subcommand does one kind of work, checks that none of it was lost, and prints one line `NAME key=value ...`.
//! Exit code 1 if work was lost or a bound was exceeded, with what was expected and what was found on stderr; 2 for bad
//! arguments. Nothing here knows which scheduler runs.

mod affinity;
mod burst;
mod cgroups;
mod forks;
mod pinned;
mod schbench;
mod shares;
mod spin;
mod work;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Does work, counts it, and says whether any was lost.
#[derive(Parser)]
#[command(name = "wakelab-guest", version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Threads that compute for a time; the CPU time that they received.
    Spin(spin::Args),
    /// Tasks that each compute for so much CPU time of their own; the time until all are done.
    Burst(burst::Args),
    /// Message and worker threads, as schbench has them; the workers' wake-up latencies.
    Schbench(schbench::Args),
    /// Two tasks bound to each CPU, one sleeping and one computing, while others compete; the longest that either
    /// waited for its CPU.
    Pinned(pinned::Args),
    /// Forks processes and threads at a rate; the result of each is checked.
    Forks(forks::Args),
    /// Creates cgroups, weights them, moves busy workers into them and out again, and removes them.
    Cgroups(cgroups::Args),
    /// Busy and sleeping tasks whose affinity and nice value change; none may be seen where it must not run.
    Affinity(affinity::Args),
    /// Spinners in weighted cgroups; the part of the CPU time that each cgroup received.
    Shares(shares::Args),
    /// Computes until standard input ends, then says how far it came: what `cgroups` starts.
    #[command(hide = true)]
    Worker(work::WorkerArgs),
    /// Computes a little and exits with a code that its number determines: what `forks` starts.
    #[command(hide = true)]
    Child(forks::ChildArgs),
}

fn main() -> ExitCode {
    match run(Arguments::parse().what) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("wakelab-guest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: What) -> Result<ExitCode> {
    let line = match what {
        What::Spin(args) => spin::run(&args)?,
        What::Burst(args) => burst::run(&args)?,
        What::Schbench(args) => schbench::run(&args)?,
        What::Pinned(args) => pinned::run(&args)?,
        What::Forks(args) => forks::run(&args)?,
        What::Cgroups(args) => cgroups::run(&args)?,
        What::Affinity(args) => affinity::run(&args)?,
        What::Shares(args) => shares::run(&args)?,
        What::Worker(args) => work::run_worker(&args)?,
        What::Child(args) => return Ok(ExitCode::from(forks::child(&args))),
    };
    Ok(line.print())
}
