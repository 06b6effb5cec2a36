// SPDX-License-Identifier: GPL-2.0-or-later
//! `spin`: threads that compute until a moment; what CPU time each received, and the longest that one was kept from a
//! CPU.

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
    /// How many threads.
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// For how long.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000)]
    ms: u64,
    /// Enter this cgroup first.
    #[arg(long, value_name = "FOLDER")]
    cgroup: Option<PathBuf>,
    /// Bind all threads to this CPU.
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Fail if a thread was kept from a CPU for longer.
    #[arg(long, value_name = "MILLISECONDS")]
    within_ms: Option<u64>,
}

/// What a thread received and did, and the longest time between two looks at the clock.
struct Done {
    cpu: Duration,
    longest: Duration,
    work: Work,
}

/// Spins.
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
                    let end = now() + Duration::from_millis(args.ms);
                    let before = thread_cpu_time();
                    let (mut work, mut last, mut longest) = (Work::new(seed), now(), Duration::ZERO);
                    while last < end {
                        work.go_on();
                        end_turn();
                        let time = now();
                        longest = longest.max(time - last);
                        last = time;
                    }
                    Done { cpu: thread_cpu_time() - before, longest, work }
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let wall = now() - begun;
    let right = (0..).zip(&done).filter(|(seed, done)| done.work.is_right(*seed)).count();
    let times = || done.iter().map(|done| ns(done.cpu));
    let longest = done.iter().map(|done| done.longest).max().unwrap_or_default();
    let bound = args.within_ms.map(Duration::from_millis);
    Ok(Line::new("spin")
        .add("threads", right)
        .add("wall_ns", ns(wall))
        .add("cpu_ns", times().sum::<u64>())
        .add("least_cpu_ns", times().min().unwrap_or(0))
        .add("most_cpu_ns", times().max().unwrap_or(0))
        .add("longest_gap_ns", ns(longest))
        .expect(right == args.threads as usize, format!("{} threads with right results", args.threads), right)
        .expect(
            bound.is_none_or(|bound| longest <= bound),
            format!("at most {:?} between two looks", bound.unwrap_or_default()),
            format!("{longest:?}"),
        ))
}
