// SPDX-License-Identifier: GPL-2.0-or-later
//! All metrics of one run as a row whose columns do not depend on the workload, for tables of many workloads.

use std::collections::BTreeMap;

use wakelab_sim::Outcome;
use wakelab_stats::{Direction, Unit};
use wakelab_workload::{Measure, Workload};

use crate::metric::metrics;

const MEASURES: [Measure; 3] = [Measure::Makespan, Measure::Rate, Measure::WakeupLatency];

/// A column of such rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunColumn {
    /// The name of the metric in JSON.
    pub name: String,
    /// Whether the values are times in nanoseconds.
    pub is_time: bool,
    /// Which way is better.
    pub direction: Direction,
}

/// Returns the columns: all metrics of all workloads, in the order of their tables.
pub fn run_columns() -> Vec<RunColumn> {
    let mut columns: Vec<RunColumn> = Vec::new();
    for (measure, service) in MEASURES.into_iter().flat_map(|measure| [(measure, true), (measure, false)]) {
        for metric in metrics(measure, service) {
            if !columns.iter().any(|known| known.name == metric.name) {
                let is_time = metric.unit == Unit::Ns;
                columns.push(RunColumn { name: metric.name, is_time, direction: metric.direction });
            }
        }
    }
    columns
}

/// Returns the values of a run in the order of `columns`; `None` where a metric is not defined.
pub fn run_values(columns: &[RunColumn], workload: &Workload, outcome: &Outcome) -> Vec<Option<f64>> {
    let of_run = metrics(workload.measure, is_service(workload)).into_iter();
    let values: BTreeMap<String, Option<f64>> =
        of_run.map(|metric| (metric.name, (metric.value)(outcome))).collect();
    columns.iter().map(|column| values.get(&column.name).copied().flatten()).collect()
}

/// Returns the name of the metric that a workload is judged by.
pub fn result_name(workload: &Workload) -> String {
    metrics(workload.measure, is_service(workload)).remove(0).name
}

fn is_service(workload: &Workload) -> bool {
    workload.tasks.iter().any(|task| task.judged)
}
