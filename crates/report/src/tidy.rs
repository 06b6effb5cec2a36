// SPDX-License-Identifier: GPL-2.0-or-later
//! A comparison as CSV (RFC 4180) in tidy form: a row for each machine, policy, seed, task name and metric.
//!
//! `task` is empty for figures of a whole run. Figures by task name are those of the service's tasks. A metric that is
//! not defined for a run has no row. Times are whole nanoseconds. Where the machine's figures were drawn from their
//! ranges, the gains over the first policy stand behind the runs of a policy, with an empty `seed`: each with the range
//! of 90 % of the draws and the share of draws in which the sign holds. A gain that contradicts itself is `undecided`.
//! ```text
//! machine,policy,seed,task,metric,unit,value
//! smp-8,linux-4.15,1,,done_ns,ns,19254211
//! smp-8,linux-4.15,1,hackbench,wakeup_latency_p99_ns,ns,134527
//! smp-8,linux-4.15,1,,time_idle_ns,ns,79020117
//! smp-8,linux-4.15,1,,decisions_idle-core,count,812
//! smp-8,linux-6.12,,,done_ns_gain,percent,undecided
//! smp-8,linux-6.12,,,done_ns_gain_low,percent,-3.2
//! ```

use std::fmt::Write;

use wakelab_sim::{Outcome, TimeKind};
use wakelab_stats::Unit;

use crate::comparison::{Comparison, MetricOfPolicy};
use crate::percentile::percentile_ns;

const HEAD: &str = "machine,policy,seed,task,metric,unit,value\n";
const PERCENTILES: [(u32, &str); 4] = [(500, "p50"), (950, "p95"), (990, "p99"), (999, "p99_9")];

impl Comparison<'_> {
    /// Returns all values of all runs as CSV.
    pub fn csv(&self) -> String {
        let mut out = HEAD.to_owned();
        for (column, (policy, scenario)) in self.policies.iter().zip(self.scenarios).enumerate() {
            let place = format!("{},{}", field(&scenario.machine.name), field(&policy.name));
            for (run, outcome) in policy.outcomes.iter().enumerate() {
                let place = format!("{place},{}", outcome.seed);
                for metric in &self.metrics {
                    let Some(value) = metric.policies[column].values[run] else { continue };
                    row(&mut out, &place, "", &metric.name, unit(metric.unit), &value.to_string());
                }
                of_run(&mut out, &place, outcome);
                of_names(&mut out, &place, outcome);
            }
            for metric in &self.metrics {
                of_draws(&mut out, &format!("{place},"), &metric.name, &metric.policies[column]);
            }
        }
        out
    }
}

/// The gain and how it spreads, if the machine's figures were drawn.
fn of_draws(out: &mut String, place: &str, name: &str, policy: &MetricOfPolicy) {
    let (Some(spread), Some(gain)) = (&policy.spread, policy.gain.gain_percent) else { return };
    let mut add = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            row(out, place, "", &format!("{name}_{what}"), "percent", &value);
        }
    };
    add("gain", Some(if spread.undecided { "undecided".to_owned() } else { gain.to_string() }));
    add("gain_low", spread.range_percent.map(|[low, _]| low.to_string()));
    add("gain_high", spread.range_percent.map(|[_, high]| high.to_string()));
    add("sign_held", spread.sign_held_percent.map(|held| held.to_string()));
}

/// Where time went, and why CPUs were chosen.
fn of_run(out: &mut String, place: &str, outcome: &Outcome) {
    for kind in TimeKind::ALL {
        let name = format!("time_{}_ns", kind.name());
        row(out, place, "", &name, "ns", &outcome.time.ns(kind).to_string());
    }
    for (reason, count) in &outcome.reasons {
        row(out, place, "", &format!("decisions_{reason}"), "count", &count.to_string());
    }
}

fn of_names(out: &mut String, place: &str, outcome: &Outcome) {
    for name in &outcome.by_name {
        let mut add = |metric: &str, unit: &str, value: Option<u64>| {
            if let Some(value) = value {
                row(out, place, &name.name, metric, unit, &value.to_string());
            }
        };
        add("tasks", "count", Some(name.tasks));
        add("cpu_time_ns", "ns", Some(name.cpu_time_ns));
        add("done_ns", "ns", name.done_ns);
        add("wakeups", "count", Some(name.wakeup_latency.count));
        for (of, histogram) in [("wakeup_latency", &name.wakeup_latency), ("run_delay", &name.run_delay)] {
            for (permille, word) in PERCENTILES {
                add(&format!("{of}_{word}_ns"), "ns", percentile_ns(histogram, permille));
            }
        }
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns => "ns",
        Unit::PerS => "per_s",
        Unit::Percent => "percent",
        Unit::Count => "count",
        Unit::Plain => "",
    }
}

fn row(out: &mut String, place: &str, task: &str, metric: &str, unit: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{place},{},{},{unit},{value}", field(task), field(metric));
}

/// Returns a field, in quotes if it needs them.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_need_them_have_quotes() {
        assert_eq!(field("linux-4.15+idle=scan"), "linux-4.15+idle=scan");
        assert_eq!(field("a,b \"c\""), "\"a,b \"\"c\"\"\"");
    }
}
