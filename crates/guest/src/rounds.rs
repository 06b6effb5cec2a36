// SPDX-License-Identifier: GPL-2.0-or-later
//! `rounds`: does something small again and again, and prints how long after the moment when it was due it was done.
//!
//! `workers` gives a kernel worker of each CPU something to do: a read of /proc/sys/vm/stat_refresh lets each CPU's
//! worker fold that CPU's memory counters, and returns when the last one has. The workers are bound to their CPUs and
//! outside of all cgroups. The reader's own wait for a CPU is a part of the time, unless it is a real-time task.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use hdrhistogram::Histogram;

use crate::work::{Line, Work, now, ns};

/// Arguments of `rounds`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What is done in each round.
    what: What,
    /// How often.
    #[arg(long, default_value_t = 100)]
    rounds: u64,
    /// Sleep before each round.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 10)]
    pause_ms: u64,
    /// CPU time of a round of `compute`.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 100)]
    compute_us: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// A kernel worker of each CPU does something.
    Workers,
    /// This task computes.
    Compute,
}

const REFRESH: &str = "/proc/sys/vm/stat_refresh";

/// Runs the rounds and prints their times.
pub(crate) fn run(args: &Args) -> Result<Line> {
    let mut times = Histogram::<u64>::new(3).context("cannot make a histogram")?;
    let mut work = Work::new(0);
    for _ in 0..args.rounds {
        let due = now() + Duration::from_millis(args.pause_ms);
        thread::sleep(due.saturating_sub(now()));
        match args.what {
            What::Workers => drop(fs::read(REFRESH).with_context(|| format!("cannot read {REFRESH}"))?),
            What::Compute => work.use_cpu_time(Duration::from_micros(args.compute_us)),
        }
        times.record(ns(now().saturating_sub(due))).context("a time is out of range")?;
    }
    let name = if args.what == What::Workers { "workers" } else { "compute" };
    Ok(Line::new(name)
        .add("rounds", times.len())
        .add("p50_ns", times.value_at_quantile(0.5))
        .add("p99_ns", times.value_at_quantile(0.99))
        .add("max_ns", times.max())
        .expect(work.is_right(0), "a right result", work.steps))
}
