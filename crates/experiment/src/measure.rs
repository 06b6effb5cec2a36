// SPDX-License-Identifier: GPL-2.0-or-later
//! What the publication measured: which figure of a run stands beside it, and in which unit.

use serde::{Deserialize, Serialize};

/// Which figure of a run is compared with the published one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Measure {
    /// Seconds of the measured part; less is better.
    Makespan {
        /// So many times as long is what was published: a run of a tenth of the loops stands for all of them by 10.
        #[serde(default = "one")]
        times: u64,
    },
    /// Units a second in the measured part; more is better.
    Rate {
        /// The publication's unit, e.g. `MB/s`.
        unit: String,
        /// Units of the workload in one of the publication's, e.g. 1,000,000 bytes.
        #[serde(default = "one")]
        per_unit: u64,
    },
    /// A percentile of the wake-up latencies of the tasks that the workload is judged by, in microseconds; less is
    /// better.
    Latency {
        /// Percent, up to three decimals.
        percentile: Percentile,
    },
    /// Mean time of a placement decision (target check, prev check, search), in microseconds; less is better.
    Decision {},
    /// Mean time of the idle searches of wake-ups, whole or one step of them, in microseconds; less is better.
    Search {
        /// Which part.
        step: SearchStep,
    },
    /// Percent of the machine's CPU time that the tasks of one name received; nearer to the fair part is better, and
    /// the gain is by how much the distance from it shrinks.
    CpuShare {
        /// Their name (`comm`), which may end in `*`.
        task: String,
        /// The fair part, in percent.
        fair_percent: f64,
    },
}

fn one() -> u64 {
    1
}

impl Measure {
    /// The unit in which both the published and the simulated values are given.
    pub fn unit(&self) -> &str {
        match self {
            Measure::Makespan { .. } => "s",
            Measure::Rate { unit, .. } => unit,
            Measure::Latency { .. } | Measure::Decision {} | Measure::Search { .. } => "us",
            Measure::CpuShare { .. } => "%",
        }
    }
}

/// A part of idle searches: the mean is over the searches that came to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchStep {
    /// From the look at target to the answer, with the fixed part of the decision.
    Whole,
    /// Looking for an idle core.
    IdleCore,
    /// Looking for an idle CPU, one by one.
    IdleCpu,
    /// That step in the searches that looked for an idle core before.
    IdleCpuAfterCore,
}

/// A percentile with up to three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Percentile(u32);

impl Percentile {
    /// In thousandths of a percent: 99,500 is the 99.5th percentile.
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
    fn percentiles_have_three_decimals() {
        assert_eq!(Percentile::try_from(99.95).unwrap().milli_percent(), 99_950);
        assert_eq!(Percentile::try_from(100.0).unwrap().milli_percent(), 100_000);
        for bad in [0.0, -1.0, 100.1, 99.9995, f64::NAN, f64::INFINITY] {
            assert!(Percentile::try_from(bad).is_err(), "{bad}");
        }
    }
}
