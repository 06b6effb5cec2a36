// SPDX-License-Identifier: GPL-2.0-or-later
//! How much of the CPU time that a guest's threads wanted this machine gave them.
//!
//! With a thread of this machine for each CPU of the guest, the guest's clock goes on while another program has this
//! machine's CPUs. Then every wait in the guest is longer, under any scheduler, and the kernel's watchdog, which knows
//! only that clock, ejects the scheduler for it.

use std::collections::VecDeque;
use std::fs;
use std::time::{Duration, Instant};

/// The time that is averaged over. The watchdog ejects a scheduler after 10 s, and looks every 5 s.
const WINDOW: Duration = Duration::from_secs(20);

/// How far is looked back for the worst [`WINDOW`]: a guest without CPU time tells of an ejection a minute late.
const KEPT: Duration = Duration::from_secs(80);

/// Samples of a window; more would be of no use.
const SAMPLE: Duration = Duration::from_millis(500);

/// Below this percentage of what a guest's threads wanted, no wait in the guest is the scheduler's.
///
/// While stress-ng's fuzz ran in guests of 2 CPUs side by side, the longest wait in each 5 s was 1.1 to 1.4 s under
/// `wakelab` and 2.2 to 8.2 s under the kernel's own scheduler where each CPU got 24 to 50 percent of one, and up to 19
/// and 28 s where it got 1 to 15 (vm/README.md).
pub(crate) const LEAST_PERCENT: u32 = 10;

/// Time that threads ran, and time that they waited for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    ran: Duration,
    waited: Duration,
}

/// Parses /proc/PID/task/TID/schedstat: nanoseconds that the thread ran and waited, and a count.
fn times_of(schedstat: &str) -> Option<Times> {
    let mut fields = schedstat.split_whitespace();
    let mut next = || Some(Duration::from_nanos(fields.next()?.parse().ok()?));
    Some(Times { ran: next()?, waited: next()? })
}

/// Sums up the threads of a process. Those that ended are not counted.
fn times_of_process(pid: u32) -> Times {
    let mut sum = Times::default();
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let schedstat = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let Some(times) = times_of(&schedstat) else { continue };
        sum.ran += times.ran;
        sum.waited += times.waited;
    }
    sum
}

/// What a process got lately.
pub(crate) struct Served {
    pid: u32,
    samples: VecDeque<(Instant, Times)>,
}

impl Served {
    /// Begins to look at a process.
    pub(crate) fn new(pid: u32) -> Served {
        Served { pid, samples: VecDeque::new() }
    }

    /// Takes a sample, if the last one is old enough.
    pub(crate) fn look(&mut self) {
        let now = Instant::now();
        if self.samples.back().is_none_or(|(at, _)| now - *at >= SAMPLE) {
            self.add(now, times_of_process(self.pid));
        }
    }

    fn add(&mut self, now: Instant, times: Times) {
        self.samples.push_back((now, times));
        while now - self.samples[0].0 > KEPT {
            self.samples.pop_front();
        }
    }

    /// Returns how much of the time in which its threads could have run they ran, in percent, in that [`WINDOW`] of the
    /// last [`KEPT`] in which it was least; 100 if they wanted nothing.
    pub(crate) fn least_percent(&self) -> u32 {
        let mut least = 100;
        let mut end = 0;
        for (at, first) in &self.samples {
            while end + 1 < self.samples.len() && self.samples[end].0 - *at < WINDOW {
                end += 1;
            }
            if self.samples[end].0 - *at >= WINDOW {
                least = least.min(percent(*first, self.samples[end].1));
            }
        }
        least
    }
}

/// Of the time between two looks in which threads could have run, how much they ran.
fn percent(first: Times, last: Times) -> u32 {
    let ran = last.ran.saturating_sub(first.ran).as_secs_f64();
    let waited = last.waited.saturating_sub(first.waited).as_secs_f64();
    if ran + waited == 0.0 { 100 } else { (100.0 * ran / (ran + waited)).round() as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ran_ms: u64, waited_ms: u64) -> Times {
        Times { ran: Duration::from_millis(ran_ms), waited: Duration::from_millis(waited_ms) }
    }

    #[test]
    fn a_schedstat_has_what_ran_and_waited() {
        assert_eq!(times_of("1500000000 250000000 77\n"), Some(times(1500, 250)));
        assert_eq!(times_of(""), None);
        assert_eq!(times_of("12 x 3"), None);
        assert!(times_of_process(std::process::id()).ran > Duration::ZERO);
    }

    #[test]
    fn the_worst_twenty_seconds_of_the_last_eighty_count() {
        let start = Instant::now();
        let mut served = Served::new(0);
        assert_eq!(served.least_percent(), 100);
        let (mut ran_ms, mut waited_ms) = (0, 0);
        let mut second = |served: &mut Served, s: u64, ran: u64, waited: u64| {
            (ran_ms, waited_ms) = (ran_ms + ran, waited_ms + waited);
            served.add(start + Duration::from_secs(s), times(ran_ms, waited_ms));
            served.least_percent()
        };
        // Two threads run all the time, then each gets a twentieth of a CPU for 20 s, then half of one.
        assert!((0..30).all(|s| second(&mut served, s, 2000, 0) == 100));
        let starved: Vec<u32> = (30..50).map(|s| second(&mut served, s, 100, 1900)).collect();
        assert_eq!((starved[9], starved[18], starved[19]), (53, 10, 5));
        assert!((50..110).all(|s| second(&mut served, s, 1000, 1000) == 5));
        assert_eq!(second(&mut served, 110, 1000, 1000), 7);
        assert_eq!(second(&mut served, 140, 1000, 1000), 50);
    }

    #[test]
    fn a_process_that_wants_nothing_is_served() {
        let mut served = Served::new(0);
        let start = Instant::now();
        served.add(start, times(100, 50));
        served.add(start + Duration::from_secs(25), times(100, 50));
        assert_eq!(served.least_percent(), 100);
    }
}
