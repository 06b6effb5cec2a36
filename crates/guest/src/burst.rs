// SPDX-License-Identifier: GPL-2.0-or-later
//! `burst`: tasks that start together and compute until each has used CPU_MS of CPU time; reports the makespan.
//!
//! A burst ends by the thread's CPU clock, not by a count of steps. Therefore only a scheduler that leaves CPUs idle
//! while tasks wait lengthens the makespan, also on an emulated machine.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::work::{Line, Work, now, ns, pin};

/// Arguments of `burst`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of tasks.
    #[arg(long, default_value_t = 8)]
    tasks: u32,
    /// CPU time of each burst.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 100)]
    cpu_ms: u64,
    /// Bursts of each task, one after the other; before each, all tasks wait for each other.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Bind all tasks to this CPU: the negative control.
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

/// Runs the bursts.
pub(crate) fn run(args: &Args) -> Result<Line> {
    if let Some(cpu) = args.cpu {
        pin(cpu)?; // threads inherit it
    }
    let barrier = Barrier::new(args.tasks as usize);
    let cpu_time = Duration::from_millis(args.cpu_ms);
    // Begin and end of each burst of each task.
    let spans: Vec<(Vec<(Duration, Duration)>, bool)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..u64::from(args.tasks))
            .map(|seed| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut work = Work::new(seed);
                    let span = |_| {
                        barrier.wait();
                        let begin = now();
                        work.use_cpu_time(cpu_time);
                        (begin, now())
                    };
                    let spans: Vec<_> = (0..args.rounds).map(span).collect();
                    (spans, work.is_right(seed))
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let right = spans.iter().filter(|(_, right)| *right).count();
    let rounds: Vec<Vec<(Duration, Duration)>> = (0..args.rounds as usize)
        .map(|round| spans.iter().map(|(spans, _)| spans[round]).collect())
        .collect();
    let makespans: Vec<u64> = rounds.iter().map(|round| ns(makespan(round))).collect();
    Ok(Line::new("burst")
        .add("tasks", right)
        .add("cpu_ms", args.cpu_ms)
        .add("rounds", args.rounds)
        .add("makespan_ns", makespans.iter().sum::<u64>() / u64::from(args.rounds.max(1)))
        .add("least_ns", makespans.iter().min().unwrap_or(&0))
        .add("most_ns", makespans.iter().max().unwrap_or(&0))
        .expect(right == args.tasks as usize, format!("{} tasks with right results", args.tasks), right))
}

/// Returns the time from the first begin to the last end.
fn makespan(spans: &[(Duration, Duration)]) -> Duration {
    let first = spans.iter().map(|span| span.0).min().unwrap_or_default();
    let last = spans.iter().map(|span| span.1).max().unwrap_or_default();
    last.saturating_sub(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_makespan_is_from_the_first_begin_to_the_last_end() {
        let ms = Duration::from_millis;
        assert_eq!(makespan(&[(ms(12), ms(30)), (ms(10), ms(25)), (ms(14), ms(31))]), ms(21));
        assert_eq!(makespan(&[]), ms(0));
    }
}
