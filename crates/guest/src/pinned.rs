// SPDX-License-Identifier: GPL-2.0-or-later
//! `pinned`: two tasks bound to each CPU while others compete; reports the longest wait of either for its only CPU.
//!
//! One of the two sleeps until a moment and measures how late it runs: the time from wake-up to running. The other
//! computes without end and reads the clock all the time: the longest gap between two readings is the longest time that
//! it was kept from its CPU.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::thread::{clock_nanosleep_absolute, sched_getcpu};
use rustix::time::{ClockId, Timespec};

use crate::work::{Line, Work, allowed_cpus, now, ns, pin};

/// Arguments of `pinned`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Length of the test.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 2000)]
    ms: u64,
    /// Competitors per CPU: tasks that compute and may run anywhere.
    #[arg(long, default_value_t = 2)]
    competitors: usize,
    /// Fail if a task waited longer than this.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 100)]
    within_ms: u64,
    /// Length of each sleep.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 7000)]
    period_us: u64,
}

/// What a bound task saw.
struct Seen {
    longest: Duration,
    /// When that ended.
    at: Duration,
    cpu: usize,
    /// Number of readings of the clock.
    looks: u64,
    /// Whether it was always on its CPU and its computation is right.
    right: bool,
}

impl Seen {
    fn none_on(cpu: usize) -> Seen {
        Seen { longest: Duration::ZERO, at: Duration::ZERO, cpu, looks: 0, right: true }
    }

    fn waited(&mut self, time: Duration, at: Duration) {
        if time > self.longest {
            (self.longest, self.at) = (time, at);
        }
        self.looks += 1;
    }
}

/// Runs all tasks at the same time.
pub(crate) fn run(args: &Args) -> Result<Line> {
    let cpus = allowed_cpus()?;
    let begin = now();
    let end = begin + Duration::from_millis(args.ms);
    let period = Duration::from_micros(args.period_us);
    let (sleepers, computers, competitors) = thread::scope(|scope| {
        let competitors: Vec<_> = (0..(args.competitors * cpus.len()) as u64)
            .map(|seed| scope.spawn(move || compete(seed, end)))
            .collect();
        let computers: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || compute(cpu, end))).collect();
        let sleepers: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || sleep(cpu, end, period))).collect();
        (join(sleepers), join(computers), join(competitors))
    });
    let sleepers: Vec<Seen> = sleepers.into_iter().collect::<Result<_>>()?;
    let computers: Vec<Seen> = computers.into_iter().collect::<Result<_>>()?;
    let longest = |seen: &[Seen]| {
        let worst = seen.iter().max_by_key(|seen| seen.longest);
        worst.map_or((Duration::ZERO, String::new()), |seen| {
            let at_ms = seen.at.saturating_sub(begin).as_millis();
            (seen.longest, format!("{} cpu={} at_ms={at_ms}", ns(seen.longest), seen.cpu))
        })
    };
    let right = |seen: &[Seen]| seen.iter().filter(|seen| seen.right && seen.looks > 0).count();
    let ((woken, woken_text), (kept, kept_text)) = (longest(&sleepers), longest(&computers));
    let bound = Duration::from_millis(args.within_ms);
    let competed = competitors.iter().filter(|right| **right).count();
    Ok(Line::new("pinned")
        .add("cpus", cpus.len())
        .add("wakeups", sleepers.iter().map(|seen| seen.looks).sum::<u64>())
        .add("longest_wait_ns", woken_text)
        .add("longest_gap_ns", kept_text)
        .add("bound_ns", ns(bound))
        .expect(right(&sleepers) == cpus.len(), "all sleeping tasks on their CPUs", right(&sleepers))
        .expect(right(&computers) == cpus.len(), "all computing tasks on their CPUs", right(&computers))
        .expect(competed == competitors.len(), "right results of all competitors", competed)
        .expect(woken <= bound, format!("at most {bound:?} from wake-up to running"), format!("{woken:?}"))
        .expect(kept <= bound, format!("at most {bound:?} between two looks"), format!("{kept:?}")))
}

fn join<T>(threads: Vec<thread::ScopedJoinHandle<'_, T>>) -> Vec<T> {
    threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
}

fn compete(seed: u64, end: Duration) -> bool {
    let mut work = Work::new(seed);
    while now() < end {
        work.go_on();
    }
    work.steps > 0 && work.is_right(seed)
}

fn compute(cpu: usize, end: Duration) -> Result<Seen> {
    pin(cpu)?;
    let mut work = Work::new(cpu as u64);
    let mut seen = Seen::none_on(cpu);
    let mut last = now();
    while last < end {
        work.go_on();
        seen.right &= sched_getcpu() == cpu;
        let time = now();
        seen.waited(time - last, time);
        last = time;
    }
    seen.right &= work.is_right(cpu as u64);
    Ok(seen)
}

fn sleep(cpu: usize, end: Duration, period: Duration) -> Result<Seen> {
    pin(cpu)?;
    let mut seen = Seen::none_on(cpu);
    let mut next = now() + period;
    while next < end {
        let until = Timespec { tv_sec: next.as_secs() as i64, tv_nsec: next.subsec_nanos().into() };
        clock_nanosleep_absolute(ClockId::Monotonic, &until).context("clock_nanosleep")?;
        seen.right &= sched_getcpu() == cpu;
        let time = now();
        seen.waited(time.saturating_sub(next), time);
        next = time + period;
    }
    Ok(seen)
}
