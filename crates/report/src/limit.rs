// SPDX-License-Identifier: GPL-2.0-or-later
//! Limits for CI: how much worse than the first policy the others may be.
//!
//! A limit is broken if the mean loss exceeds its percentage and the 95 % interval of the loss excludes zero; with one
//! seed there is no interval, and the loss alone counts. The error of replays does not count: a limit guards a policy
//! from one change to the next, and both sides have that error.

use std::str::FromStr;

use wakelab_machine::printable;
use wakelab_stats::Direction;

use crate::comparison::{Comparison, MetricResult};
use crate::error::ReportError;
use crate::gain_text::gain_sentence;

/// The name that stands for the first row of a comparison.
pub(crate) const RESULT: &str = "result";
/// Percentiles of wake-up latency, of the service if there is one, and how metrics name them.
const PERCENTILES: [(&str, &str); 4] =
    [("p50", "p50_ns"), ("p95", "p95_ns"), ("p99", "p99_ns"), ("p99.9", "p99_9_ns")];

/// A limit on the loss of one metric: `p99 > 5%` is broken by a p99 that is more than 5 % worse.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    metric: String,
    percent: f64,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let parse = || {
            let (metric, loss) = text.split_once('>')?;
            let percent: f64 = loss.trim().strip_suffix('%')?.trim_end().parse().ok()?;
            let metric = metric.trim();
            let is_limit = !metric.is_empty() && percent.is_finite() && percent >= 0.0;
            is_limit.then(|| Limit { metric: metric.to_owned(), percent })
        };
        parse().ok_or_else(|| "expected METRIC > N%, such as 'p99 > 5%'".to_owned())
    }
}

impl Comparison<'_> {
    /// Returns a sentence for each policy that breaks a limit.
    ///
    /// # Errors
    /// A metric that the comparison does not have, or that is neither better nor worse.
    pub fn broken(&self, limits: &[Limit]) -> Result<Vec<String>, ReportError> {
        let mut broken = Vec::new();
        for limit in limits {
            let metric = self.named(&limit.metric)?;
            for policy in 1..self.policies.len() {
                let gain = &metric.policies[policy].gain;
                let is_worse = gain.gain_percent.is_some_and(|percent| -percent > limit.percent);
                let is_certain = gain.ci_percent.is_none_or(|[_, high]| high < 0.0);
                if is_worse && is_certain {
                    let (name, words) = (self.column_name(policy), gain_sentence(gain, metric.direction));
                    broken.push(format!(
                        "{}: {} is {words}; the limit is {} %",
                        printable(&name),
                        metric.label.trim(),
                        limit.percent
                    ));
                }
            }
        }
        Ok(broken)
    }

    /// Returns the metric that a user names: `result`, a percentile, or the name that the JSON has.
    ///
    /// # Errors
    /// A metric that the comparison does not have, or that is neither better nor worse.
    pub fn named(&self, name: &str) -> Result<&MetricResult, ReportError> {
        let wanted = name;
        let has = |name: &str| self.metrics.iter().find(|metric| metric.name == name);
        let percentile = PERCENTILES.into_iter().find(|(short, _)| *short == wanted);
        let is_judged = |metric: &&MetricResult| metric.policies.iter().any(|policy| policy.mean.is_some());
        let found = match percentile {
            Some((_, name)) => has(&format!("judged_latency_{name}"))
                .filter(is_judged)
                .or_else(|| has(&format!("wakeup_latency_{name}"))),
            None if wanted == RESULT => self.metrics.first(),
            None => has(wanted),
        };
        found.filter(|metric| metric.direction != Direction::Neutral).ok_or_else(|| {
            let names = self.metrics.iter().filter(|metric| metric.direction != Direction::Neutral);
            let short = PERCENTILES.into_iter().map(|(short, _)| short);
            let known: Vec<&str> =
                [RESULT].into_iter().chain(short).chain(names.map(|metric| metric.name.as_str())).collect();
            ReportError::Metric { name: wanted.to_owned(), known: known.join(", ") }
        })
    }
}
