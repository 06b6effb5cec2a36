// SPDX-License-Identifier: GPL-2.0-or-later
//! The one metric that a workload is judged by, where runs of changed machines are compared with those of the machine
//! itself.

use wakelab_sim::{Ending, Outcome};
use wakelab_workload::Measure;

use crate::comparison::{MetricOfPolicy, MetricResult};
use crate::error::ReportError;
use crate::grid::{Cell, Row};
use crate::metric::metrics;
use crate::table::{scale, value_text};
use wakelab_stats::{Direction, Unit};
use wakelab_stats::{Gain, mean, paired_gain};

/// The first row of a comparison's table, or another one.
#[derive(Clone, Debug)]
pub(crate) struct ResultMetric {
    measure: Measure,
    row: usize,
    pub(crate) name: String,
    label: String,
    pub(crate) unit: Unit,
    pub(crate) direction: Direction,
}

impl ResultMetric {
    pub(crate) fn new(measure: Measure) -> ResultMetric {
        ResultMetric::at(measure, 0)
    }

    /// Returns the metric of this name, even if only workloads of another measure are judged by it; `None` if no
    /// outcome has it.
    pub(crate) fn named(measure: Measure, name: &str) -> Option<ResultMetric> {
        let row = |measure| metrics(measure, false).iter().position(|metric| metric.name == name);
        let of = |measure| Some(ResultMetric::at(measure, row(measure)?));
        of(measure).or_else(|| MEASURES.into_iter().find_map(of))
    }

    fn at(measure: Measure, row: usize) -> ResultMetric {
        let metric = metrics(measure, false).remove(row);
        let (name, label, unit, direction) = (metric.name, metric.label, metric.unit, metric.direction);
        ResultMetric { measure, row, name, label, unit, direction }
    }

    /// Returns one value for each seed.
    pub(crate) fn values(&self, outcomes: &[Outcome]) -> Vec<Option<f64>> {
        let metric = metrics(self.measure, false).remove(self.row);
        outcomes.iter().map(metric.value).collect()
    }

    /// Returns the metric of a baseline.
    pub(crate) fn of(&self, outcomes: &[Outcome]) -> MetricOfPolicy {
        let values = self.values(outcomes);
        let all: Option<Vec<f64>> = values.iter().copied().collect();
        MetricOfPolicy { values, mean: all.map(|all| mean(&all)), gain: Gain::default(), spread: None }
    }

    /// Returns the metric paired with a baseline. Nothing is marked unless all runs completed.
    pub(crate) fn over(&self, baseline: &[Outcome], outcomes: &[Outcome]) -> MetricOfPolicy {
        let own = self.of(outcomes);
        let gain = paired_gain(&self.values(baseline), &own.values, self.direction);
        let marked = gain.marked && completed(baseline) && completed(outcomes);
        MetricOfPolicy { gain: Gain { marked, ..gain }, ..own }
    }

    /// Returns a row of means, in a unit that suits all of them.
    pub(crate) fn row<'a>(&self, of: impl Iterator<Item = &'a MetricOfPolicy>) -> Row {
        let (name, label) = (self.name.clone(), self.label.clone());
        let policies = of.cloned().collect();
        let whole = MetricResult { name, label, unit: self.unit, direction: self.direction, policies };
        let (_, unit, _) = scale(&whole);
        let cells = whole
            .policies
            .iter()
            .map(|found| Cell { text: value_text(&whole, found), color: None })
            .collect();
        (whole.label, unit, cells)
    }
}

const MEASURES: [Measure; 3] = [Measure::Makespan, Measure::Rate, Measure::WakeupLatency];

/// Returns the names of all metrics as in JSON, whatever the workload is judged by.
pub fn metric_names() -> Vec<String> {
    let judged = MEASURES.into_iter().map(|measure| metrics(measure, false).remove(0));
    let others = MEASURES.into_iter().flat_map(|measure| metrics(measure, false).into_iter().skip(1));
    let mut names: Vec<String> = Vec::new();
    for metric in judged.chain(others) {
        if !names.contains(&metric.name) {
            names.push(metric.name);
        }
    }
    names
}

pub(crate) fn completed(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| outcome.ending == Ending::Completed)
}

/// Checks that runs have the seeds of the baseline's, with which they are paired.
pub(crate) fn check_seeds(
    seeds: &[u64],
    baseline: &str,
    runs: &[Outcome],
    name: &str,
) -> Result<(), ReportError> {
    if runs.iter().map(|outcome| outcome.seed).eq(seeds.iter().copied()) {
        return Ok(());
    }
    Err(ReportError::Seeds { baseline: baseline.to_owned(), policy: name.to_owned() })
}
