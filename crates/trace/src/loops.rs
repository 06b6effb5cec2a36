// SPDX-License-Identifier: GPL-2.0-or-later
//! Closed loop or open loop: whether a wake-up from outside comes a fixed time after the task went to sleep
//! ([`Op::Sleep`]), or at a fixed time, whatever the scheduler does ([`Op::SleepUntil`]).
//!
//! A round goes from one wake-up from outside to the next. If a clock sets the pace, all rounds have one length P, and
//! a sleep takes what the work leaves of it. If the program pauses each time, all sleeps have one length D, and rounds
//! vary with the work. So, with P and D the medians over all rounds, a task is in an open loop if
//! - at least [`MIN_ROUNDS`] rounds, and three in four of all, are between P/2 and 3P/2 (the others are a missed period
//!   or a pause, and do not count);
//! - these differ from P by at most P/16 on average;
//! - and they differ from P by less than half as much as their sleeps differ from D.
//!
//! All other tasks are in a closed loop. A recording does not tell whether a device's wake-up answers a request of the
//! task, nor a clock from a pause if the work is always the same.
//!
//! Worked example: a task is woken at 0, 100, 200, 300 and 400, and slept 50, 10, 80 and 30 before the last four. P is
//! 100 and D is 30, the lower of the two middle values. Rounds differ by 0 and sleeps by 20 + 20 + 50 + 0 = 90: open.
//! Another one is woken at 0, 120, 210, 340 and 390, and slept 30 each time. D is 30 and sleeps differ by 0: closed.
//!
//! Cost: time and memory in proportion to the number of sleeps.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use wakelab_workload::{Op, Source};

use crate::causal::Position;
use crate::quantile::quantile;
use crate::{Options, TraceError};

/// The fewest rounds that show an open loop.
const MIN_ROUNDS: usize = 4;

/// A sleep that ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slept {
    /// The position of its step.
    pub(crate) position: Position,
    /// When it began, since the recording began.
    pub(crate) since_ns: u64,
    /// When the wake-up that ended it was due, since the recording began.
    pub(crate) until_ns: u64,
}

impl Slept {
    /// Returns the operation for it in an open loop.
    pub(crate) fn until(&self, source: Source) -> Op {
        Op::SleepUntil { time_ns: self.until_ns, source }
    }

    fn slept_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.since_ns)
    }
}

/// Tasks of one name that were woken from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoopCount {
    /// Tasks in open loops: their sleeps end at recorded times.
    pub open: u64,
    /// Tasks in closed loops: their sleeps have recorded lengths.
    pub closed: u64,
    /// Sleeps in open loops.
    pub open_sleeps: u64,
    /// Sleeps in closed loops.
    pub closed_sleeps: u64,
    /// [`Options::open`] or [`Options::closed`] decided, and not the rule.
    pub told: bool,
}

/// Whether `sleeps`, in the order of time, are of an open loop by the rule.
fn is_open(sleeps: &[Slept]) -> bool {
    let rounds: Vec<(u64, u64)> = sleeps
        .windows(2)
        .map(|pair| (pair[1].until_ns.saturating_sub(pair[0].until_ns), pair[1].slept_ns()))
        .collect();
    let Some(period_ns) = quantile(rounds.iter().map(|round| round.0), 50) else { return false };
    let whole: Vec<(u64, u64)> = rounds
        .iter()
        .copied()
        .filter(|round| (period_ns / 2..=period_ns + period_ns / 2).contains(&round.0))
        .collect();
    let Some(sleep_ns) = quantile(whole.iter().map(|round| round.1), 50) else { return false };
    if whole.len() < MIN_ROUNDS || whole.len() * 4 < rounds.len() * 3 {
        return false;
    }
    // Times fill 64 bits, their sums may not.
    let off = |sum: u128, ns: u64, from_ns: u64| sum + u128::from(ns.abs_diff(from_ns));
    let rounds_off_ns = whole.iter().fold(0, |sum, round| off(sum, round.0, period_ns));
    let sleeps_off_ns = whole.iter().fold(0, |sum, round| off(sum, round.1, sleep_ns));
    rounds_off_ns * 16 <= u128::from(period_ns) * whole.len() as u128 && rounds_off_ns * 2 < sleeps_off_ns
}

/// The rule and its exceptions.
pub(crate) struct Loops<'a> {
    options: &'a Options,
    /// The patterns that any task fits.
    used: BTreeSet<&'a str>,
    by_comm: BTreeMap<String, LoopCount>,
}

impl<'a> Loops<'a> {
    pub(crate) fn new(options: &'a Options) -> Self {
        Loops { options, used: BTreeSet::new(), by_comm: BTreeMap::new() }
    }

    /// Whether a task is in an open loop. `sleeps` are in the order of time.
    pub(crate) fn open(&mut self, comm: &str, sleeps: &[Slept]) -> bool {
        if sleeps.is_empty() {
            return false;
        }
        let options = self.options;
        let open = best(&options.open, comm);
        let closed = best(&options.closed, comm);
        let patterns = options.open.iter().chain(&options.closed);
        self.used.extend(patterns.filter(|pattern| fits(pattern, comm)).map(String::as_str));
        let told = open.max(closed).is_some();
        let is_open = options.recorded_times || if told { open > closed } else { is_open(sleeps) };
        let count = self.by_comm.entry(comm.to_owned()).or_default();
        count.told = told;
        if is_open {
            count.open += 1;
            count.open_sleeps += sleeps.len() as u64;
        } else {
            count.closed += 1;
            count.closed_sleeps += sleeps.len() as u64;
        }
        is_open
    }

    /// Returns the counts by name.
    ///
    /// # Errors
    /// A pattern that no task fits, or that is in both lists.
    pub(crate) fn done(self, file: &str) -> Result<BTreeMap<String, LoopCount>, TraceError> {
        let (open, closed) = (&self.options.open, &self.options.closed);
        if let Some(both) = open.iter().find(|pattern| closed.contains(pattern)) {
            return Err(TraceError::OpenAndClosed { file: file.to_owned(), pattern: both.clone() });
        }
        match open.iter().chain(closed).find(|pattern| !self.used.contains(pattern.as_str())) {
            Some(unused) => Err(TraceError::NoSuchSleeper { file: file.to_owned(), pattern: unused.clone() }),
            None => Ok(self.by_comm),
        }
    }
}

/// Returns how closely the best of `patterns` describes `comm`.
fn best(patterns: &[String], comm: &str) -> Option<(usize, bool)> {
    patterns.iter().filter_map(|pattern| closeness(pattern, comm)).max()
}

/// Returns how closely `pattern` describes `comm`: its length without `*`, then whether it has no `*`. `None` if the
/// name does not fit.
pub(crate) fn closeness(pattern: &str, comm: &str) -> Option<(usize, bool)> {
    fits(pattern, comm).then(|| (pattern.trim_end_matches('*').len(), !pattern.ends_with('*')))
}

/// Whether `comm` is `pattern`, or begins with it if the pattern ends with `*`.
pub(crate) fn fits(pattern: &str, comm: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == comm, |beginning| comm.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sleeps by the time of their wake-up and their length.
    fn sleeps(woken_slept_ns: &[(u64, u64)]) -> Vec<Slept> {
        let slept = |&(until_ns, slept_ns): &(u64, u64)| Slept {
            position: Position::after(until_ns),
            since_ns: until_ns - slept_ns,
            until_ns,
        };
        woken_slept_ns.iter().map(slept).collect()
    }

    #[test]
    fn worked_examples() {
        assert!(is_open(&sleeps(&[(1000, 50), (1100, 50), (1200, 10), (1300, 80), (1400, 30)])));
        assert!(!is_open(&sleeps(&[(1000, 30), (1120, 30), (1210, 30), (1340, 30), (1390, 30)])));
    }

    #[test]
    fn three_rounds_say_nothing() {
        assert!(!is_open(&sleeps(&[(1000, 50), (1100, 50), (1200, 10), (1300, 80)])));
        assert!(!is_open(&[]));
    }

    #[test]
    fn work_that_is_always_the_same_tells_nothing() {
        let same: Vec<(u64, u64)> = (1..20).map(|round| (round * 100, 60)).collect();
        assert!(!is_open(&sleeps(&same)));
    }

    #[test]
    fn a_missed_period_does_not_count() {
        // Seven rounds, one of which (1,400 to 1,600) is of two periods.
        let woken =
            [(1000, 50), (1100, 50), (1200, 10), (1300, 80), (1400, 30), (1600, 5), (1700, 70), (1800, 20)];
        assert!(is_open(&sleeps(&woken)));
        // A long pause does not make an open loop of a task that sleeps 30 each time, with work of 70 and once of 75:
        // the sleeps that count differ by 0.
        let woken = [(1000, 30), (1100, 30), (1200, 30), (1305, 30), (1405, 30), (9000, 7525), (9100, 30)];
        assert!(!is_open(&sleeps(&woken)));
    }

    #[test]
    fn rounds_that_vary_are_of_no_clock() {
        // P = 100; rounds are off by 0, 20, 20, 0: 10 on average, more than 100/16 = 6. Sleeps are off by 60.
        assert!(!is_open(&sleeps(&[(1000, 9), (1100, 10), (1220, 70), (1300, 10), (1400, 10)])));
        // Off by 0, 10, 10, 0: 5 on average; sleeps by 0 + 60 + 0 + 0, more than twice the rounds' 20.
        assert!(is_open(&sleeps(&[(1000, 9), (1100, 10), (1210, 70), (1300, 10), (1400, 10)])));
        // Sleeps off by 0 + 40 + 0 + 0: not more than twice.
        assert!(!is_open(&sleeps(&[(1000, 9), (1100, 10), (1210, 50), (1300, 10), (1400, 10)])));
    }

    #[test]
    fn the_closer_pattern_counts() {
        let options = Options {
            open: vec!["*".to_owned(), "kworker/1".to_owned()],
            closed: vec!["kworker/*".to_owned(), "kworker/1*".to_owned()],
            ..Options::default()
        };
        let mut loops = Loops::new(&options);
        let sleep = sleeps(&[(1000, 30)]);
        let open: Vec<bool> = ["a", "kworker/0", "kworker/1", "kworker/12"]
            .iter()
            .map(|comm| loops.open(comm, &sleep))
            .collect();
        assert_eq!(open, [true, false, true, false]);
        let by_comm = loops.done("f").expect("all patterns fit");
        let count =
            |open, closed| LoopCount { open, closed, open_sleeps: open, closed_sleeps: closed, told: true };
        assert_eq!((by_comm["a"], by_comm["kworker/0"]), (count(1, 0), count(0, 1)));
    }

    proptest! {
        /// A clock of period P, whatever the work is; the timer is late by up to P/100.
        #[test]
        fn a_clock_is_seen(
            period_ns in 1_000..10_000_000u64,
            rounds in prop::collection::vec((0..=100u64, 0..90u64), 30..100),
        ) {
            let mut woken = Vec::new();
            for (round, &(late, busy_percent)) in rounds.iter().enumerate() {
                let at_ns = (round as u64 + 5) * period_ns + period_ns * late / 10_000;
                woken.push((at_ns, period_ns - period_ns * busy_percent / 100));
            }
            prop_assert!(is_open(&sleeps(&woken)));
        }

        /// A pause of D, whatever the work between is; the timer is late by up to D/100.
        #[test]
        fn a_pause_is_seen(
            pause_ns in 1_000..10_000_000u64,
            rounds in prop::collection::vec((0..=100u64, 10..200u64), 5..100),
        ) {
            let mut now_ns = 0;
            let mut woken = Vec::new();
            for &(late, busy_percent) in &rounds {
                let slept_ns = pause_ns + pause_ns * late / 10_000;
                now_ns += pause_ns * busy_percent / 100 + slept_ns;
                woken.push((now_ns, slept_ns));
            }
            prop_assert!(!is_open(&sleeps(&woken)));
        }
    }
}
