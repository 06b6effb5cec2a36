// SPDX-License-Identifier: GPL-2.0-or-later
//! The error beside each gain: how far replays of a recording are from the recording, for the metrics of a comparison.
//!
//! A comparison replays a recording on another machine or under another policy. What the same model gets wrong on the
//! recorded machine, under the policy nearest to the recorded kernel, is the least that it gets wrong there. So a gain
//! that is not larger than this error is not marked.
//!
//! Gains and errors are compared as ratios, because a replay with half as much is as far off as one with twice as much.
//! Worked example: a replay that is 20 % too fast is off by 1 / 0.8 = 1.25. A gain of 22 % where less is better is a
//! ratio of 1 / 0.78 = 1.28, and counts; a loss of 24 % is a ratio of 1.24, and does not.
//!
//! The figures are those of `wakelab check` ([`crate::check`]). As in the rows of a comparison, *done after* and the
//! judged latencies are the service's, and all others are over all tasks.

use std::collections::BTreeMap;

use serde::Serialize;
use wakelab_stats::{Direction, Gain};
use wakelab_trace::observed::total;
use wakelab_trace::{Observations, Observed, Recording};

use crate::check::checked;
use crate::grid::Cell;

/// The metrics of a comparison that a check measures, and their names there. Both sides have the same definitions,
/// except that a makespan also has the last task's exit. *Queue delay* has no partner: *run delay* has wake-ups, too.
const MEASURED: [(&str, &str); 6] = [
    ("makespan_ns", "done_ns"),
    ("wakeup_latency_p50_ns", "wakeup_latency_p50_ns"),
    ("wakeup_latency_p95_ns", "wakeup_latency_p95_ns"),
    ("wakeup_latency_p99_ns", "wakeup_latency_p99_ns"),
    ("wakeup_latency_p99_9_ns", "wakeup_latency_p999_ns"),
    ("migrations", "migrations"),
];

/// The same for those that are of the service alone.
const OF_SERVICE: [(&str, &str); 6] = [
    ("done_ns", "done_ns"),
    ("service_cpu_ns", "cpu_ns"),
    ("judged_latency_p50_ns", "wakeup_latency_p50_ns"),
    ("judged_latency_p95_ns", "wakeup_latency_p95_ns"),
    ("judged_latency_p99_ns", "wakeup_latency_p99_ns"),
    ("judged_latency_p99_9_ns", "wakeup_latency_p999_ns"),
];

/// Errors beyond plus and minus this many percent are printed as a ratio, as gains are.
const RATIO_MIN_PERCENT: f64 = 50.0;

/// How far replays of a recording are from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayErrors {
    pub(crate) of: ReplayedOn,
    /// In percent of the recorded value, by the comparison's names of metrics.
    pub(crate) percent: BTreeMap<String, f64>,
}

/// Where a recording was replayed to measure the error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct ReplayedOn {
    /// The machine that made the recording, as far as that is known.
    pub machine: String,
    /// The policy nearest to the recorded kernel's.
    pub policy: String,
}

impl ReplayErrors {
    /// Compares `recording` with its replays on the recorded machine.
    pub fn new(recording: &Recording, replays: &[Observations], machine: &str, policy: &str) -> ReplayErrors {
        let mut percent = BTreeMap::new();
        let mut add = |names: &[(&str, &str)], of: &dyn Fn(&Observations) -> Observed| {
            let replays: Vec<Observed> = replays.iter().map(of).collect();
            let found = checked(&of(&recording.observed), &replays);
            for (name, of_check) in names {
                let metric = found.iter().find(|metric| metric.name == *of_check);
                percent.extend(
                    metric.and_then(|metric| metric.error_percent).map(|error| ((*name).to_owned(), error)),
                );
            }
        };
        add(&MEASURED, &|seen| total(seen.by_comm.values()));
        add(&OF_SERVICE, &|seen| total(seen.judged.values()));
        let of = ReplayedOn { machine: machine.to_owned(), policy: policy.to_owned() };
        ReplayErrors { of, percent }
    }

    /// Returns the error of a metric in percent of the recorded value; `None` if it is unknown.
    pub(crate) fn percent(&self, metric: &str) -> Option<f64> {
        self.percent.get(metric).copied()
    }

    /// Returns the error of a metric for people: `±6.2%`, or `x2.0` where it is large. `-` if it is unknown.
    pub(crate) fn cell(&self, metric: &str) -> Cell {
        let text = match self.percent(metric) {
            None => "-".to_owned(),
            Some(percent) if percent.abs() <= RATIO_MIN_PERCENT => format!("±{:.1}%", percent.abs()),
            Some(percent) => match distance(1.0 + percent / 100.0) {
                far if far >= 10.0 => format!("x{far:.0}"),
                near => format!("x{near:.1}"),
            },
        };
        Cell { text, color: None }
    }

    /// Whether a gain is larger than the error of its metric. If the error is unknown, it does not count.
    pub(crate) fn is_exceeded(&self, metric: &str, gain: &Gain, direction: Direction) -> bool {
        let (Some(error), Some(gain)) = (self.percent(metric), gain.gain_percent) else { return true };
        let value = match direction {
            Direction::Lower => 1.0 - gain / 100.0,
            Direction::Higher | Direction::Neutral => 1.0 + gain / 100.0,
        };
        distance(value) > distance(1.0 + error / 100.0)
    }
}

/// How far a ratio is from 1: itself or its inverse, whichever is larger. A ratio of 0 is farthest.
fn distance(ratio: f64) -> f64 {
    if ratio > 0.0 { ratio.max(1.0 / ratio) } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(percent: f64) -> ReplayErrors {
        ReplayErrors { percent: [("m".to_owned(), percent)].into(), ..ReplayErrors::default() }
    }

    #[test]
    fn worked_example() {
        let exceeds = |error, percent, direction| {
            let gain = Gain { gain_percent: Some(percent), ..Gain::default() };
            errors(error).is_exceeded("m", &gain, direction)
        };
        assert!(exceeds(-20.0, 22.0, Direction::Lower));
        assert!(!exceeds(-20.0, -24.0, Direction::Lower));
        // 1.24 times as much is as near where more is better: 1.25 is not exceeded, 1.26 is.
        assert!(!exceeds(-20.0, 24.0, Direction::Higher));
        assert!(exceeds(25.0, 26.0, Direction::Higher));
        assert!(!exceeds(25.0, 25.0, Direction::Higher), "as large as the error");
        // Nothing left is infinitely better; a replay of nothing is infinitely far off.
        assert!(exceeds(900.0, 100.0, Direction::Lower));
        assert!(!exceeds(-100.0, 100.0, Direction::Lower));
        let unknown = Gain { gain_percent: Some(2.0), ..Gain::default() };
        assert!(errors(90.0).is_exceeded("other", &unknown, Direction::Lower));
    }

    #[test]
    fn errors_in_words() {
        let words = |percent| errors(percent).cell("m").text;
        assert_eq!([-6.24, 50.0, 0.0, 100.0].map(words), ["±6.2%", "±50.0%", "±0.0%", "x2.0"]);
        // 93.8 % too little: a sixteenth.
        assert_eq!([-60.0, -93.8].map(words), ["x2.5", "x16"]);
        assert_eq!(errors(1.0).cell("other").text, "-");
    }
}
