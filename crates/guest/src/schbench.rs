// SPDX-License-Identifier: GPL-2.0-or-later
//! `schbench`: message threads that wake workers, in the manner of Chris Mason's schbench, of which Debian 12 has no
//! package.
//!
//! A worker puts itself on its message thread's list and sleeps. The message thread takes the whole list, and stamps
//! and wakes each worker in it. The worker's latency is the time from that stamp to its first look at the clock; then
//! it computes, and puts itself on the list again. The test ends after a fixed number of wake-ups per worker, so that
//! its time is a result too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

use crate::work::{Line, Work, now, ns};

/// Arguments of `schbench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of message threads.
    #[arg(long, default_value_t = 2)]
    messages: u32,
    /// Workers of each message thread.
    #[arg(long, default_value_t = 8)]
    workers: u32,
    /// Wake-ups of each worker.
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// CPU time that a worker computes for after each wake-up.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1000)]
    compute_us: u64,
}

/// State that a message thread shares with its workers.
struct Team {
    /// Workers that wait for a message.
    list: Mutex<Vec<(usize, Thread)>>,
    /// Time of each worker's last wake-up in ns; 0 while it waits.
    woken_at_ns: Vec<AtomicU64>,
}

/// Latencies in nanoseconds, to three digits.
fn histogram() -> Result<Histogram<u64>> {
    Histogram::new(3).context("cannot make a histogram")
}

/// Runs the threads and prints the latencies.
pub(crate) fn run(args: &Args) -> Result<Line> {
    let teams: Vec<Team> = (0..args.messages)
        .map(|_| Team {
            list: Mutex::new(Vec::new()),
            woken_at_ns: (0..args.workers).map(|_| AtomicU64::new(0)).collect(),
        })
        .collect();
    let begun = now();
    let results: Vec<Result<Histogram<u64>>> = thread::scope(|scope| {
        let messengers: Vec<_> =
            teams.iter().map(|team| scope.spawn(move || message_thread(team, args))).collect();
        messengers.into_iter().flat_map(|messenger| messenger.join().unwrap_or_default()).collect()
    });
    let wall = now() - begun;
    let mut all = histogram()?;
    for result in results {
        all.add(result?).context("cannot add a histogram")?;
    }
    let wakeups = u64::from(args.messages) * u64::from(args.workers) * u64::from(args.rounds);
    Ok(Line::new("schbench")
        .add("wakeups", all.len())
        .add("wall_ns", ns(wall))
        .add("mean_ns", (all.mean() + 0.5) as u64)
        .add("p50_ns", all.value_at_quantile(0.5))
        .add("p90_ns", all.value_at_quantile(0.9))
        .add("p99_ns", all.value_at_quantile(0.99))
        .add("p999_ns", all.value_at_quantile(0.999))
        .add("max_ns", all.max())
        .expect(all.len() == wakeups, format!("{wakeups} wake-ups with right results"), all.len()))
}

/// Starts the workers and wakes them until all are done. Returns each worker's latencies.
fn message_thread(team: &Team, args: &Args) -> Vec<Result<Histogram<u64>>> {
    let me = thread::current();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..args.workers as usize)
            .map(|number| {
                let me = me.clone();
                scope.spawn(move || worker(team, number, &me, args))
            })
            .collect();
        let mut left = u64::from(args.workers) * u64::from(args.rounds);
        while left > 0 {
            let woken = std::mem::take(&mut *team.list.lock().unwrap_or_else(PoisonError::into_inner));
            if woken.is_empty() {
                thread::park();
            }
            left -= woken.len() as u64;
            for (number, worker) in woken {
                team.woken_at_ns[number].store(ns(now()).max(1), Ordering::Release);
                worker.unpark();
            }
        }
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    })
}

fn worker(team: &Team, number: usize, messenger: &Thread, args: &Args) -> Result<Histogram<u64>> {
    let mut latencies = histogram()?;
    let mut work = Work::new(number as u64);
    for _ in 0..args.rounds {
        team.woken_at_ns[number].store(0, Ordering::Relaxed);
        let first = {
            let mut list = team.list.lock().unwrap_or_else(PoisonError::into_inner);
            list.push((number, thread::current()));
            list.len() == 1
        };
        if first {
            messenger.unpark();
        }
        let woken_at_ns = loop {
            match team.woken_at_ns[number].load(Ordering::Acquire) {
                0 => thread::park(),
                at_ns => break at_ns,
            }
        };
        let latency_ns = ns(now()).saturating_sub(woken_at_ns);
        work.use_cpu_time(Duration::from_micros(args.compute_us));
        if work.is_right(number as u64) {
            latencies.record(latency_ns).context("a latency is out of range")?;
        }
    }
    Ok(latencies)
}
