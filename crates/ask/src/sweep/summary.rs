// SPDX-License-Identifier: GPL-2.0-or-later
//! What a sweep comes to: for each policy in how many cases it is better and worse than the first one, in all and for
//! each value of each parameter that has few of them.

use std::fmt::Write;

use serde::Serialize;
use wakelab_report::SCHEMA_VERSION;

use super::Sweep;

/// A parameter with more values than this has no rows.
const VALUES_MAX: usize = 12;

/// A policy over some cases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// The policy, as the file names it.
    pub policy: String,
    /// The parameter and its value; none: all cases.
    pub parameter: Option<String>,
    /// The value of the parameter.
    pub value: Option<String>,
    /// The number of cases.
    pub cases: usize,
    /// Cases in which the policy is better by more than 1 % and its interval.
    pub better: usize,
    /// Cases in which it is worse by more than 1 % and its interval.
    pub worse: usize,
    /// Cases without a gain: runs failed, did not complete, or have no value.
    pub unknown: usize,
    /// The middle gain.
    pub median_gain_percent: Option<f64>,
}

/// A sweep in short, as docs/schema/sweep.schema.json describes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepSummary {
    schema_version: u32,
    kind: &'static str,
    /// The number of cases.
    pub cases: usize,
    /// Points that were left out because their load is too small for one unit of the workload.
    pub left_out: usize,
    /// The number of runs.
    pub runs: usize,
    /// Runs that failed.
    pub failed: usize,
    /// The baseline of the gains.
    pub baseline: String,
    /// The metrics of the gains.
    pub metrics: Vec<String>,
    /// Cases that got more seeds than the least.
    pub widened: usize,
    /// The policies.
    pub found: Vec<Found>,
}

impl SweepSummary {
    /// Sums a sweep up.
    pub fn new(sweep: &Sweep) -> SweepSummary {
        let plan = &sweep.plan;
        let all: Vec<usize> = (0..plan.cases.len()).collect();
        let mut found = Vec::new();
        for policy in 1..plan.policies.len() {
            found.push(of(sweep, policy, None, &all));
            for (at, name) in plan.parameters.iter().enumerate() {
                let mut values: Vec<&str> = Vec::new();
                for case in &plan.cases {
                    if !values.contains(&case.values[at].as_str()) && values.len() <= VALUES_MAX {
                        values.push(&case.values[at]);
                    }
                }
                for value in values.iter().filter(|_| (2..=VALUES_MAX).contains(&values.len())) {
                    let own: Vec<usize> =
                        all.iter().copied().filter(|&case| plan.cases[case].values[at] == *value).collect();
                    found.push(of(sweep, policy, Some((name, value)), &own));
                }
            }
        }
        let mut metrics: Vec<String> =
            all.iter().filter_map(|&case| sweep.metric_name(case).map(str::to_owned)).collect();
        metrics.sort();
        metrics.dedup();
        SweepSummary {
            schema_version: SCHEMA_VERSION,
            kind: "sweep",
            cases: plan.cases.len(),
            left_out: plan.left_out,
            runs: sweep.len(),
            failed: sweep.rows().filter(|row| row.error.is_some()).count(),
            baseline: plan.policies[0].clone(),
            metrics,
            widened: all.iter().filter(|&&case| sweep.seeds_of(case) > plan.seeds.min).count(),
            found,
        }
    }

    /// Returns the summary for people, ending in a newline.
    pub fn text(&self) -> String {
        let mut out = format!("{} cases, {} runs", self.cases, self.runs);
        let mut add = |count: usize, words: &str| {
            if count > 0 {
                let _ = write!(out, "; {count} {words}");
            }
        };
        add(self.widened, "cases got more seeds");
        add(self.left_out, "points left out, whose load is too small for one unit of the workload");
        add(self.failed, "runs failed: column error");
        out.push('\n');
        if self.found.is_empty() {
            return out;
        }
        let _ = writeln!(out, "gains in {} over {}", self.metrics.join(", "), self.baseline);
        let name = |found: &Found| match (&found.parameter, &found.value) {
            (Some(parameter), Some(value)) => format!("  {parameter} = {value}"),
            _ => found.policy.clone(),
        };
        let width = self.found.iter().map(|found| name(found).len()).max().unwrap_or(0);
        let _ = writeln!(out, "\n{:width$}  cases  better  worse  neither  unknown  median gain", "");
        for found in &self.found {
            let Found { cases, better, worse, unknown, .. } = found;
            let median =
                found.median_gain_percent.map_or_else(|| "-".to_owned(), |gain| format!("{gain:+.1} %"));
            let neither = cases - better - worse - unknown;
            let _ = writeln!(
                out,
                "{:width$}  {cases:5}  {better:6}  {worse:5}  {neither:7}  {unknown:7}  {median:>11}",
                name(found)
            );
        }
        out
    }
}

fn of(sweep: &Sweep, policy: usize, value: Option<(&String, &str)>, cases: &[usize]) -> Found {
    let gains: Vec<_> = cases.iter().map(|&case| sweep.gain_of(case, policy).1).collect();
    let marked = |sign: f64| {
        gains
            .iter()
            .filter(|gain| gain.marked && gain.gain_percent.is_some_and(|gain| gain * sign > 0.0))
            .count()
    };
    let mut known: Vec<f64> = gains.iter().filter_map(|gain| gain.gain_percent).collect();
    known.sort_by(f64::total_cmp);
    let middle = known.len() / 2;
    let median = match known.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(known[middle]),
        _ => Some((known[middle - 1] + known[middle]) / 2.0),
    };
    Found {
        policy: sweep.plan.policies[policy].clone(),
        parameter: value.map(|(name, _)| name.clone()),
        value: value.map(|(_, value)| value.to_owned()),
        cases: cases.len(),
        better: marked(1.0),
        worse: marked(-1.0),
        unknown: gains.len() - known.len(),
        median_gain_percent: median.map(wakelab_stats::round_percent),
    }
}
