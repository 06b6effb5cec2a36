// SPDX-License-Identifier: GPL-2.0-or-later
//! Several policies, the same seeds: every metric per seed, its mean, and the gain over the first policy.

use serde::Serialize;
use wakelab_sim::{Ending, Outcome, Scenario, TimeKind};

use crate::error::ReportError;
use crate::metric::{metrics, percent};
use crate::replay_error::ReplayErrors;
use crate::uncertainty::Uncertainty;
use wakelab_stats::{Direction, Unit};
use wakelab_stats::{Gain, Spread, mean, paired_gain};
use wakelab_workload::Workload;

/// Runs of several policies on one or several machines, paired by seed. The first policy on the first machine is the
/// baseline.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    pub(crate) scenarios: &'a [Scenario],
    pub(crate) seeds: Vec<u64>,
    /// In the order of the scenarios.
    pub policies: Vec<PolicyResult<'a>>,
    /// In the order of the table.
    pub metrics: Vec<MetricResult>,
    /// How far replays are from the recording, if that was measured.
    pub(crate) replay_errors: Option<ReplayErrors>,
    /// How gains spread if the model's figures are others, if that was asked for.
    pub(crate) uncertainty: Option<Uncertainty>,
}

/// One policy: its runs and where its time went.
#[derive(Clone, Debug)]
pub struct PolicyResult<'a> {
    /// The head of the column.
    pub name: String,
    /// One run for each seed.
    pub outcomes: &'a [Outcome],
    /// Percent of all CPU time by use, over all seeds, in the order of [`wakelab_sim::TimeUse`].
    pub time_percent: Vec<(&'static str, Option<f64>)>,
    /// Percent of placement decisions by reason, over all seeds.
    pub reasons_percent: Vec<(String, f64)>,
    /// Percent of wake-affine's decisions by reason, over all seeds.
    pub affine_reasons_percent: Vec<(String, f64)>,
}

/// One metric for all policies.
#[derive(Clone, Debug)]
pub struct MetricResult {
    /// Name with its unit last.
    pub name: String,
    /// The label in tables. Two leading blanks mark a part of the metric above.
    pub label: String,
    /// The unit of all its values.
    pub unit: Unit,
    /// Which way is better.
    pub direction: Direction,
    /// In the order of the policies.
    pub policies: Vec<MetricOfPolicy>,
}

/// One metric for one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricOfPolicy {
    /// One value for each seed; `None` if the metric is not defined there.
    #[serde(serialize_with = "crate::document::numbers")]
    pub values: Vec<Option<f64>>,
    /// Mean over all seeds; `None` unless every seed has a value.
    #[serde(serialize_with = "crate::document::number")]
    pub mean: Option<f64>,
    /// Gain over the first policy; empty for the first itself.
    #[serde(flatten)]
    pub gain: Gain,
    /// How the gain spreads if the model's figures are others, if that was asked for.
    #[serde(rename = "uncertainty", skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

impl MetricOfPolicy {
    /// Whether the gain contradicts itself if the model's figures are others.
    pub(crate) fn is_undecided(&self) -> bool {
        self.gain.gain_percent.is_some() && self.spread.as_ref().is_some_and(|spread| spread.undecided)
    }
}

impl<'a> Comparison<'a> {
    /// Pairs `outcomes[policy][seed]`. `names` are the heads of the columns. If any run did not complete, nothing is
    /// marked: such runs did different work.
    ///
    /// # Errors
    /// Nothing to compare, lists of different lengths, other seeds, or scenarios of other tasks or limits.
    pub fn new(
        scenarios: &'a [Scenario],
        names: &[String],
        outcomes: &'a [Vec<Outcome>],
    ) -> Result<Comparison<'a>, ReportError> {
        if scenarios.len() != names.len() || scenarios.len() != outcomes.len() {
            let (scenarios, names, outcomes) = (scenarios.len(), names.len(), outcomes.len());
            return Err(ReportError::Lengths { scenarios, names, outcomes });
        }
        let (Some(first), Some(baseline)) = (scenarios.first(), outcomes.first()) else {
            return Err(ReportError::Empty);
        };
        if baseline.is_empty() {
            return Err(ReportError::Empty);
        }
        let seeds: Vec<u64> = baseline.iter().map(|outcome| outcome.seed).collect();
        for ((scenario, name), runs) in scenarios.iter().zip(names).zip(outcomes) {
            let pair = || (names[0].clone(), name.clone());
            if !runs.iter().map(|outcome| outcome.seed).eq(seeds.iter().copied()) {
                let (baseline, policy) = pair();
                return Err(ReportError::Seeds { baseline, policy });
            }
            // On another machine, tasks may be bound to other CPUs, or to none; a what-if changes what tasks do.
            if scenario.limit_ns != first.limit_ns || !is_alike(&scenario.workload, &first.workload) {
                let (baseline, policy) = pair();
                return Err(ReportError::Scenarios { baseline, policy });
            }
        }
        let completed = outcomes.iter().flatten().all(|outcome| outcome.ending == Ending::Completed);
        let has_service = first.workload.tasks.iter().any(|task| task.judged);
        let metrics = metrics(first.workload.measure, has_service)
            .into_iter()
            .map(|metric| {
                let values = outcomes.iter().map(|runs| runs.iter().map(&metric.value).collect()).collect();
                let (name, label, unit, direction) =
                    (metric.name, metric.label, metric.unit, metric.direction);
                let policies = over_the_first(values, direction, completed);
                MetricResult { name, label, unit, direction, policies }
            })
            .collect();
        let policies = names.iter().zip(outcomes).map(|(name, runs)| PolicyResult::new(name, runs)).collect();
        Ok(Comparison { scenarios, seeds, policies, metrics, replay_errors: None, uncertainty: None })
    }

    /// Adds the error of replays beside the gains. Gains that do not exceed it lose their marks.
    pub fn with_replay_errors(mut self, errors: ReplayErrors) -> Comparison<'a> {
        for metric in &mut self.metrics {
            for policy in &mut metric.policies {
                policy.gain.marked &= errors.is_exceeded(&metric.name, &policy.gain, metric.direction);
            }
        }
        self.replay_errors = Some(errors);
        self
    }

    /// Whether the result is the judged tasks' own.
    pub(crate) fn is_of_service(&self) -> bool {
        self.metrics.first().is_some_and(|metric| metric.name == "done_ns")
    }

    /// Whether all scenarios have one machine.
    pub(crate) fn has_one_machine(&self) -> bool {
        self.scenarios.iter().all(|scenario| scenario.machine == self.scenarios[0].machine)
    }

    /// Returns the policy of a column, and its machine, if there are several.
    pub(crate) fn column_name(&self, column: usize) -> String {
        let (policy, machine) = (&self.policies[column].name, &self.scenarios[column].machine.name);
        if self.has_one_machine() { policy.clone() } else { format!("{policy} on {machine}") }
    }

    /// Returns the names of all columns: the policy, and its machine, if there are several.
    pub fn column_names(&self) -> Vec<String> {
        (0..self.policies.len()).map(|column| self.column_name(column)).collect()
    }

    /// Returns the seeds of all runs, in order.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }
}

impl<'a> PolicyResult<'a> {
    fn new(name: &str, outcomes: &'a [Outcome]) -> PolicyResult<'a> {
        let total: u64 = outcomes.iter().map(|outcome| outcome.time.total_ns()).sum();
        let time = |kind: TimeKind| {
            let ns = outcomes.iter().map(|outcome| outcome.time.ns(kind)).sum();
            (kind.name(), percent(ns, total))
        };
        PolicyResult {
            name: name.to_owned(),
            outcomes,
            time_percent: TimeKind::ALL.map(time).into(),
            reasons_percent: shares(outcomes, |outcome| &outcome.reasons),
            affine_reasons_percent: shares(outcomes, |outcome| &outcome.affine_reasons),
        }
    }
}

/// Whether two workloads are of the same tasks, which may be allowed on other CPUs, or have more or less to do.
fn is_alike(a: &Workload, b: &Workload) -> bool {
    let tasks = |workload: &Workload| workload.tasks.len();
    (&a.name, a.measure, tasks(a)) == (&b.name, b.measure, tasks(b))
        && a.tasks.iter().zip(&b.tasks).all(|(a, b)| a.name == b.name && a.judged == b.judged)
        && a.groups.iter().map(|group| &group.name).eq(b.groups.iter().map(|group| &group.name))
}

/// Returns the means of values by policy, and their gains over the first policy, paired by index. Nothing is marked
/// unless `may_mark`.
pub(crate) fn over_the_first(
    values: Vec<Vec<Option<f64>>>,
    direction: Direction,
    may_mark: bool,
) -> Vec<MetricOfPolicy> {
    let gains: Vec<Gain> = values
        .iter()
        .enumerate()
        .map(
            |(index, own)| if index == 0 { Gain::default() } else { paired_gain(&values[0], own, direction) },
        )
        .collect();
    let of_policy = |(values, gain): (Vec<Option<f64>>, Gain)| {
        let all: Option<Vec<f64>> = values.iter().copied().collect();
        let gain = Gain { marked: gain.marked && may_mark, ..gain };
        MetricOfPolicy { values, mean: all.map(|all| mean(&all)), gain, spread: None }
    };
    values.into_iter().zip(gains).map(of_policy).collect()
}

/// Returns counts of all seeds together, in percent of their sum, by name.
fn shares(
    outcomes: &[Outcome],
    counts: fn(&Outcome) -> &std::collections::BTreeMap<String, u64>,
) -> Vec<(String, f64)> {
    let mut sums = std::collections::BTreeMap::new();
    for (name, count) in outcomes.iter().flat_map(counts) {
        *sums.entry(name.clone()).or_insert(0_u64) += count;
    }
    let total = sums.values().sum();
    sums.into_iter().filter_map(|(name, count)| Some((name, percent(count, total)?))).collect()
}
