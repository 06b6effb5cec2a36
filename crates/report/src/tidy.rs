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

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use wakelab_sim::{Outcome, TimeKind};
use wakelab_stats::Unit;

use crate::columns::{Column, Values};
use crate::comparison::{Comparison, MetricOfPolicy};
use crate::percentile::percentile_ns;

const HEAD: &str = "machine,policy,seed,task,metric,unit,value\n";
const PERCENTILES: [(u32, &str); 4] = [(500, "p50"), (950, "p95"), (990, "p99"), (999, "p99_9")];

/// A value of a run.
struct Row<'a> {
    machine: &'a str,
    policy: &'a str,
    seed: u64,
    /// Empty for the whole run.
    task: &'a str,
    metric: String,
    unit: &'static str,
    value: Number,
}

/// A value as it was measured.
#[derive(Clone, Copy)]
enum Number {
    Whole(u64),
    Real(f64),
}

impl Comparison<'_> {
    /// Returns all values of all runs as CSV.
    pub fn csv(&self) -> String {
        let mut out = HEAD.to_owned();
        let line = |out: &mut String, row: Row<'_>, seed: &str, value: &str| {
            let (machine, policy) = (field(row.machine), field(row.policy));
            let (task, metric) = (field(row.task), field(&row.metric));
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{machine},{policy},{seed},{task},{metric},{},{value}", row.unit);
        };
        for column in 0..self.policies.len() {
            self.each_value(column, &mut |row| {
                let value = match row.value {
                    Number::Whole(value) => value.to_string(),
                    Number::Real(value) => value.to_string(),
                };
                let seed = row.seed.to_string();
                line(&mut out, row, &seed, &value);
            });
            let (machine, policy) = (&*self.scenarios[column].machine.name, &*self.policies[column].name);
            for metric in &self.metrics {
                of_draws(&metric.policies[column], &mut |what, value| {
                    let metric = format!("{}_{what}", metric.name);
                    let (task, unit, value_of_run) = ("", unit(Unit::Percent), Number::Whole(0));
                    let row = Row { machine, policy, seed: 0, task, metric, unit, value: value_of_run };
                    line(&mut out, row, "", &value);
                });
            }
        }
        out
    }

    /// Returns the values of runs as columns, without the gains behind them. `value_ns` has times in whole nanoseconds,
    /// and nothing for other units; `value` has every value.
    pub fn tidy(&self) -> Vec<Column> {
        // Few texts differ, and each is kept once.
        let mut known = BTreeMap::<String, Arc<str>>::new();
        let mut texts: [Vec<Option<Arc<str>>>; 5] = Default::default();
        let (mut seeds, mut times, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut add = |row: Row<'_>| {
            let own = [row.machine, row.policy, row.task, &row.metric, row.unit];
            for (column, text) in texts.iter_mut().zip(own) {
                if !known.contains_key(text) {
                    known.insert(text.to_owned(), Arc::from(text));
                }
                column.push(known.get(text).cloned());
            }
            seeds.push(row.seed);
            let (time, value) = match row.value {
                Number::Whole(value) => (value, value as f64),
                Number::Real(value) => (value.round() as u64, value),
            };
            times.push((row.unit == unit(Unit::Ns)).then_some(time));
            values.push(Some(value));
        };
        (0..self.policies.len()).for_each(|column| self.each_value(column, &mut add));
        let [machines, policies, tasks, metrics, units] = texts.map(Values::Texts);
        vec![
            Column::required("machine", machines),
            Column::required("policy", policies),
            Column::required("seed", Values::Seeds(seeds)),
            Column::required("task", tasks),
            Column::required("metric", metrics),
            Column::required("unit", units),
            Column::optional("value_ns", Values::Longs(times)),
            Column::required("value", Values::Doubles(values)),
        ]
    }

    /// Calls `each` with every value of the runs of a policy, in the order of the rows.
    fn each_value(&self, column: usize, each: &mut dyn FnMut(Row<'_>)) {
        let (machine, policy) = (&*self.scenarios[column].machine.name, &*self.policies[column].name);
        for (run, outcome) in self.policies[column].outcomes.iter().enumerate() {
            let mut row = |task: &str, metric: &str, unit: &'static str, value: Number| {
                let (metric, seed) = (metric.to_owned(), outcome.seed);
                each(Row { machine, policy, seed, task, metric, unit, value });
            };
            for metric in &self.metrics {
                let Some(value) = metric.policies[column].values[run] else { continue };
                row("", &metric.name, unit(metric.unit), Number::Real(value));
            }
            of_run(&mut row, outcome);
            of_names(&mut row, outcome);
        }
    }
}

/// The gain and how it spreads, if the machine's figures were drawn.
fn of_draws(policy: &MetricOfPolicy, add: &mut dyn FnMut(&str, String)) {
    let (Some(spread), Some(gain)) = (&policy.spread, policy.gain.gain_percent) else { return };
    add("gain", if spread.undecided { "undecided".to_owned() } else { gain.to_string() });
    let [low, high] = spread.range_percent.map_or([None, None], |range| range.map(Some));
    for (what, value) in [("gain_low", low), ("gain_high", high), ("sign_held", spread.sign_held_percent)] {
        if let Some(value) = value {
            add(what, value.to_string());
        }
    }
}

/// Where time went, and why CPUs were chosen.
fn of_run(row: &mut dyn FnMut(&str, &str, &'static str, Number), outcome: &Outcome) {
    for kind in TimeKind::ALL {
        row("", &format!("time_{}_ns", kind.name()), "ns", Number::Whole(outcome.time.ns(kind)));
    }
    for (reason, count) in &outcome.reasons {
        row("", &format!("decisions_{reason}"), "count", Number::Whole(*count));
    }
}

fn of_names(row: &mut dyn FnMut(&str, &str, &'static str, Number), outcome: &Outcome) {
    for name in &outcome.by_name {
        let mut add = |metric: &str, unit: &'static str, value: Option<u64>| {
            if let Some(value) = value {
                row(&name.name, metric, unit, Number::Whole(value));
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

pub(crate) fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns => "ns",
        Unit::PerS => "per_s",
        Unit::Percent => "percent",
        Unit::Count => "count",
        Unit::Plain => "",
    }
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
