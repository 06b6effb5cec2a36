// SPDX-License-Identifier: GPL-2.0-or-later
//! What the publication measured: which figure of a run is compared with it, and in which unit.

use serde::{Deserialize, Serialize};

/// Which figure of a run is compared with the published one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Measure {
    /// Seconds of the measured part; less is better.
    Makespan {
        /// Factor by which the published run is longer: 10 if the simulated run has a tenth of the loops.
        #[serde(default = "one")]
        times: u64,
        /// The part of the units, in percent, whose rate stands for the whole run: the seconds are those that all units
        /// take at this rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_percent: Option<Within>,
    },
    /// Units a second in the measured part; more is better.
    Rate {
        /// The publication's unit, e.g. `MB/s`.
        unit: String,
        /// Number of the workload's units in one unit of the publication, e.g. 1,000,000 bytes.
        #[serde(default = "one")]
        per_unit: u64,
        /// The part of the units, in percent, in which the rate is taken, instead of the steady part: `[10, 50]` is
        /// from the moment when a tenth of them was done to that when half was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_percent: Option<Within>,
    },
    /// A percentile of the wake-up latencies of the judged tasks, in microseconds; less is better.
    Latency {
        /// Percent, up to three decimals.
        percentile: Percentile,
    },
    /// Mean time of a placement decision (target check, prev check, search), in microseconds; less is better.
    Decision {},
    /// Mean time of the idle searches of wake-ups, whole or one step of them, in microseconds; less is better.
    Search {
        /// The part of the search.
        step: SearchStep,
    },
    /// How well idle searches of wake-ups do, in percent; more is better.
    Efficiency {
        /// What is counted.
        part: Efficiency,
    },
    /// Percentage of the machine's CPU time that the tasks of one name received. Nearer to the fair part is better; the
    /// gain is by how much the distance from it shrinks.
    CpuShare {
        /// The tasks' name (`comm`), which may end in `*`.
        task: String,
        /// The fair part, in percent.
        fair_percent: f64,
    },
}

fn one() -> u64 {
    1
}

impl Measure {
    /// Returns the unit of both the published and the simulated values.
    pub fn unit(&self) -> &str {
        match self {
            Measure::Makespan { .. } => "s",
            Measure::Rate { unit, .. } => unit,
            Measure::Latency { .. } | Measure::Decision {} | Measure::Search { .. } => "us",
            Measure::CpuShare { .. } | Measure::Efficiency { .. } => "%",
        }
    }

    /// Returns the part of the units in which a rate is taken, if it is not the steady part.
    pub fn within(&self) -> Option<Within> {
        match self {
            Measure::Makespan { within_percent, .. } | Measure::Rate { within_percent, .. } => {
                *within_percent
            }
            _ => None,
        }
    }
}

/// A part of idle searches. The mean is over the searches that came to this part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchStep {
    /// The whole search, from the look at target to the answer, with the fixed part of the decision.
    Whole,
    /// The step that looks for an idle core.
    IdleCore,
    /// The step that looks at CPUs one by one for an idle one.
    IdleCpu,
    /// The same step, but only in searches that looked for an idle core before.
    IdleCpuAfterCore,
}

/// What is counted of idle searches, as in the statistics of Linux's SIS patches. A search that takes target, prev or
/// the recent CPU is fast. The look at these three counts as one CPU looked at, in every search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Efficiency {
    /// Searches that found an idle CPU, of all CPUs looked at.
    Search,
    /// The same, only for searches of the LLC.
    Domain,
    /// Fast searches, of all searches.
    Fast,
    /// Searches that found an idle CPU, of all searches.
    Success,
}

/// A part of all units, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "[u8; 2]", into = "[u8; 2]")]
pub struct Within([u8; 2]);

impl Within {
    /// Returns where it begins and ends.
    pub fn percent(self) -> [u8; 2] {
        self.0
    }
}

impl TryFrom<[u8; 2]> for Within {
    type Error = String;

    fn try_from([from, to]: [u8; 2]) -> Result<Within, String> {
        if from >= to || to > 100 {
            return Err(format!(
                "within_percent = [{from}, {to}]; expected one that ends later, at most at 100"
            ));
        }
        Ok(Within([from, to]))
    }
}

impl From<Within> for [u8; 2] {
    fn from(within: Within) -> [u8; 2] {
        within.0
    }
}

/// A percentile with up to three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Percentile(u32);

impl Percentile {
    /// Returns the percentile in thousandths of a percent: 99,500 is the 99.5th percentile.
    pub fn milli_percent(self) -> u32 {
        self.0
    }
}

impl TryFrom<f64> for Percentile {
    type Error = String;

    fn try_from(percent: f64) -> Result<Percentile, String> {
        let milli = percent * 1000.0;
        if !(milli > 0.0 && milli <= 100_000.0) || (milli - milli.round()).abs() > 1e-6 {
            return Err(format!(
                "percentile {percent}; expected above 0 and at most 100, with up to three decimals"
            ));
        }
        Ok(Percentile(milli.round() as u32))
    }
}

impl From<Percentile> for f64 {
    fn from(percentile: Percentile) -> f64 {
        f64::from(percentile.0) / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_later_than_it_begins() {
        assert_eq!(Within::try_from([10, 50]).unwrap().percent(), [10, 50]);
        assert_eq!(Within::try_from([0, 100]).unwrap().percent(), [0, 100]);
        for bad in [[10, 10], [50, 10], [10, 101]] {
            assert!(Within::try_from(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn percentiles_have_three_decimals() {
        assert_eq!(Percentile::try_from(99.95).unwrap().milli_percent(), 99_950);
        assert_eq!(Percentile::try_from(100.0).unwrap().milli_percent(), 100_000);
        for bad in [0.0, -1.0, 100.1, 99.9995, f64::NAN, f64::INFINITY] {
            assert!(Percentile::try_from(bad).is_err(), "{bad}");
        }
    }
}
