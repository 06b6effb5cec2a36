// SPDX-License-Identifier: GPL-2.0-or-later
//! `spin`: threads that compute until a moment; reports the CPU time of each and the longest wait for a CPU.
//!
//! A wait is the time between two readings of the clock that was not CPU time. The whole time would be wrong, because
//! an emulated CPU may stand still with its thread, and no scheduler can help that.

use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::cgroups::enter;
use crate::work::{Line, Work, end_turn, now, ns, pin, thread_cpu_time};

/// Arguments of `spin`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of threads.
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Length of the test.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000)]
    ms: u64,
    /// Enter this cgroup first.
    #[arg(long, value_name = "FOLDER")]
    cgroup: Option<PathBuf>,
    /// Bind all threads to this CPU.
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Number of the threads that give up their CPU (sched_yield) after each piece of work.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    yielding: u32,
    /// Fail if the threads that yield received more than this part of the CPU time.
    #[arg(long, value_name = "PERCENT", requires = "yielding")]
    yielding_at_most: Option<f64>,
    /// Fail if a thread waited for a CPU for longer than this.
    #[arg(long, value_name = "MILLISECONDS")]
    within_ms: Option<u64>,
}

/// What a thread received and did, and its longest wait.
struct Done {
    cpu: Duration,
    longest_wait: Duration,
    work: Work,
    yields: u64,
}

/// What the thread of this number does until the end.
fn compute(args: &Args, seed: u64) -> Done {
    let end = now() + Duration::from_millis(args.ms);
    let cpu_before = thread_cpu_time();
    let (mut last, mut last_cpu) = (now(), cpu_before);
    let (mut work, mut longest_wait) = (Work::new(seed), Duration::ZERO);
    let is_yielding = seed < u64::from(args.yielding);
    let mut yields = 0;
    while last < end {
        work.go_on();
        if is_yielding {
            thread::yield_now();
            yields += 1;
        } else {
            end_turn();
        }
        let (time, cpu) = (now(), thread_cpu_time());
        longest_wait = longest_wait.max((time - last).saturating_sub(cpu - last_cpu));
        (last, last_cpu) = (time, cpu);
    }
    Done { cpu: last_cpu - cpu_before, longest_wait, work, yields }
}

/// Runs the threads and prints what each received.
pub(crate) fn run(args: &Args) -> Result<Line> {
    if let Some(cgroup) = &args.cgroup {
        enter(cgroup, std::process::id())?;
    }
    if let Some(cpu) = args.cpu {
        pin(cpu)?; // threads inherit it
    }
    let start = Barrier::new(args.threads as usize);
    let begun = now();
    let done: Vec<Done> = thread::scope(|scope| {
        let threads: Vec<_> = (0..u64::from(args.threads))
            .map(|seed| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    compute(args, seed)
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let wall = now() - begun;
    let right = (0..).zip(&done).filter(|(seed, done)| done.work.is_right(*seed)).count();
    let times = || done.iter().map(|done| ns(done.cpu));
    let longest_wait = done.iter().map(|done| done.longest_wait).max().unwrap_or_default();
    let bound = args.within_ms.map(Duration::from_millis);
    let yielding = &done[..done.len().min(args.yielding as usize)];
    let part = yielding.iter().map(|done| ns(done.cpu)).sum::<u64>() as f64 * 100.0
        / times().sum::<u64>().max(1) as f64;
    let mut line = Line::new("spin");
    if args.yielding > 0 {
        line = line
            .add("yields", yielding.iter().map(|done| done.yields).sum::<u64>())
            .add("yielding_percent", format!("{part:.1}"));
    }
    Ok(line
        .add("threads", right)
        .add("wall_ns", ns(wall))
        .add("cpu_ns", times().sum::<u64>())
        .add("least_cpu_ns", times().min().unwrap_or(0))
        .add("most_cpu_ns", times().max().unwrap_or(0))
        .add("longest_wait_ns", ns(longest_wait))
        .expect(right == args.threads as usize, format!("{} threads with right results", args.threads), right)
        .expect(
            bound.is_none_or(|bound| longest_wait <= bound),
            format!("waits of at most {:?}", bound.unwrap_or_default()),
            format!("{longest_wait:?}"),
        )
        .expect(
            args.yielding_at_most.is_none_or(|most| part <= most),
            format!("at most {} % for those that yield", args.yielding_at_most.unwrap_or_default()),
            format!("{part:.1} %"),
        ))
}
