// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab-guest`: work for a machine whose scheduler is tested.
//!
//! Each subcommand does one kind of work, checks that none of it was lost, and prints one line `NAME key=value ...`.
//! The exit code is 1 if work was lost or a bound was exceeded, with what was expected and found on stderr, and 2 for
//! bad arguments. Nothing here knows which scheduler runs.

mod affinity;
mod burst;
mod cgroups;
mod forks;
mod pinned;
mod rounds;
mod schbench;
mod shares;
mod spin;
mod work;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Does work, counts it, and reports whether any was lost.
#[derive(Parser)]
#[command(name = "wakelab-guest", version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Run threads that compute for a time; print the CPU time that they received.
    Spin(spin::Args),
    /// Run tasks that each compute for a given CPU time; print the time until all are done.
    Burst(burst::Args),
    /// Run schbench's message and worker threads; print the workers' wake-up latencies.
    Schbench(schbench::Args),
    /// Run two tasks bound to each CPU, one that sleeps and one that computes, while others compete; print the longest
    /// wait of either.
    Pinned(pinned::Args),
    /// Fork processes and threads at a rate, and check the result of each.
    Forks(forks::Args),
    /// Create cgroups, set their weights, move busy workers in and out, and remove them.
    Cgroups(cgroups::Args),
    /// Change the affinity and nice value of busy and sleeping tasks, and check that none runs outside its mask.
    Affinity(affinity::Args),
    /// Run spinners in weighted cgroups; print the part of the CPU time that each cgroup received.
    Shares(shares::Args),
    /// Do something small again and again; print how long after it was due it was done.
    Rounds(rounds::Args),
    /// Compute until standard input ends, then print the progress; started by `cgroups`.
    #[command(hide = true)]
    Worker(work::WorkerArgs),
    /// Compute a little and exit with a code that follows from the number; started by `forks`.
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
        What::Rounds(args) => rounds::run(&args)?,
        What::Worker(args) => work::run_worker(&args)?,
        What::Child(args) => return Ok(ExitCode::from(forks::child(&args))),
    };
    Ok(line.print())
}
