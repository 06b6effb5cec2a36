// SPDX-License-Identifier: GPL-2.0-or-later
//! Sweeps: many cases, each a point of a space of machines, workloads, policies and costs, under every policy, with
//! seeds until the intervals are narrow.
//!
//! The smallest piece of work is one run: a case, a policy and a seed. Runs are independent, may be done anywhere and
//! in any order, and their rows are put in order at the end, so that threads, workers and interruptions change no byte.
//! Which seeds a case gets depends on the rows of its first seeds only ([`Sweep::missing`]): all policies run `min`
//! seeds; while an interval of a gain is wider than asked, they run half as many more.
//!
//! Worked example: `min` 4, `max` 8 and intervals that are too wide: 4 seeds, then 6, then 8.
//!
//! It fails to be narrow where the seeds differ much; such a case has `max` seeds, and its interval says so.

mod design;
mod journal;
mod plan;
mod queue;
mod run;
mod summary;
mod table;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wakelab_report::{RunColumn, result_name, run_columns, run_values};
use wakelab_sim::Ending;
use wakelab_stats::{Direction, Gain, paired_gain};

use crate::error::AskError;
pub use journal::Journal;
pub use plan::{SweepCase, SweepPlan};
pub use queue::SweepQueue;
pub use run::{Tally, run_sweep};
pub use summary::{Found, SweepSummary};

/// One run of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Job {
    /// The case, by its place in the plan.
    pub case: usize,
    /// The policy, by its place in the file.
    pub policy: usize,
    /// The seed of the run.
    pub seed: u64,
}

/// What a run left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which run.
    #[serde(flatten)]
    pub job: Job,
    /// How it ended: the word of JSON, such as `completed`; `None`: it failed.
    pub ending: Option<String>,
    /// The metric that judges the workload.
    pub result: Option<String>,
    /// All metrics in the order of [`run_columns`]; empty if it failed.
    pub values: Vec<Option<f64>>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

impl SweepPlan {
    /// Runs one job. A run that fails has a row that says why.
    pub fn run(&self, columns: &[RunColumn], scenarios: &Scenarios, job: Job) -> Row {
        let failed =
            |error: String| Row { job, ending: None, result: None, values: Vec::new(), error: Some(error) };
        let scenario = match scenarios {
            Ok(scenarios) => &scenarios[job.policy],
            Err(error) => return failed(error.clone()),
        };
        match wakelab_sim::run(scenario, job.seed) {
            Err(error) => failed(error.to_string()),
            Ok(outcome) => Row {
                job,
                ending: Some(ending(&outcome.ending).to_owned()),
                result: Some(result_name(&scenario.workload)),
                values: run_values(columns, &scenario.workload, &outcome),
                error: None,
            },
        }
    }

    /// The scenarios of a case, or why there are none.
    pub fn scenarios_or_error(&self, case: usize) -> Scenarios {
        let checked = |scenarios: Vec<wakelab_sim::Scenario>| {
            scenarios.iter().try_for_each(|scenario| scenario.check().map_err(|error| error.to_string()))?;
            Ok(scenarios)
        };
        self.scenarios(case).map_err(|error| error.to_string()).and_then(checked)
    }
}

impl Row {
    /// Whether the run did all its work.
    pub fn is_completed(&self) -> bool {
        self.ending.as_deref() == Some(COMPLETED)
    }
}

const COMPLETED: &str = "completed";

fn ending(ending: &Ending) -> &'static str {
    match ending {
        Ending::Completed => COMPLETED,
        Ending::LimitReached => "limit_reached",
        Ending::Deadlock { .. } => "deadlock",
    }
}

/// The scenarios of a case by policy, or why it cannot run.
pub type Scenarios = Result<Vec<wakelab_sim::Scenario>, String>;

/// A plan and the rows that there are.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// What is swept.
    pub plan: SweepPlan,
    /// The columns of the rows' values.
    pub columns: Vec<RunColumn>,
    /// By case, then by policy and seed.
    rows: Vec<BTreeMap<(usize, u64), Row>>,
}

impl Sweep {
    /// A sweep without rows.
    pub fn new(plan: SweepPlan) -> Sweep {
        let rows = vec![BTreeMap::new(); plan.cases.len()];
        Sweep { plan, columns: run_columns(), rows }
    }

    /// Adds a row. Returns false if its run was known already, or is none of this sweep; then nothing changes.
    pub fn put(&mut self, row: Row) -> bool {
        let Job { case, policy, seed } = row.job;
        let is_full = row.error.is_some() || row.values.len() == self.columns.len();
        if case >= self.rows.len() || policy >= self.plan.policies.len() || !is_full {
            return false;
        }
        let place = self.rows[case].entry((policy, seed));
        let is_new = matches!(place, std::collections::btree_map::Entry::Vacant(_));
        place.or_insert(row);
        is_new
    }

    /// Whether a run's row is there.
    pub fn has(&self, job: Job) -> bool {
        self.rows.get(job.case).is_some_and(|rows| rows.contains_key(&(job.policy, job.seed)))
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.iter().map(BTreeMap::len).sum()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All rows in order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().flat_map(BTreeMap::values)
    }

    /// Returns the runs that a case still needs: those of the present round, or of the next one if that is complete.
    /// Empty if the case is done.
    pub fn missing(&self, case: usize) -> Vec<Job> {
        let (min, max) = (self.plan.seeds.min, self.plan.seeds_max());
        let mut count = min;
        loop {
            let missing: Vec<Job> = self.jobs(case, count).filter(|job| !self.has(*job)).collect();
            if !missing.is_empty() {
                return missing;
            }
            if count >= max || self.is_narrow(case, count) {
                return Vec::new();
            }
            count = (count + count.div_ceil(2)).min(max);
        }
    }

    fn jobs(&self, case: usize, count: u32) -> impl Iterator<Item = Job> + '_ {
        let first = self.plan.seeds.first;
        let policies = 0..self.plan.policies.len();
        (0..count).flat_map(move |at| {
            let seed = first.wrapping_add(u64::from(at));
            policies.clone().map(move |policy| Job { case, policy, seed })
        })
    }

    /// Whether the intervals of a case are as narrow as asked; with one policy that of its mean. A run that failed, or
    /// that did not complete, stays as it is with more seeds.
    fn is_narrow(&self, case: usize, count: u32) -> bool {
        let Some(most) = self.plan.seeds.narrow_percent else { return true };
        let is_whole = |row: &Row| row.is_completed();
        if !self.rows[case].values().all(is_whole) {
            return true;
        }
        let policies = if self.plan.policies.len() == 1 { 0..1 } else { 1..self.plan.policies.len() };
        policies.into_iter().all(|policy| {
            let gain = self.gain(case, policy, count);
            gain.ci_percent.is_none_or(|[low, high]| (high - low) / 2.0 <= most)
        })
    }

    /// The metric of a case's gains, and its place among the columns.
    fn metric(&self, case: usize) -> Option<usize> {
        let own = || self.rows[case].values().find_map(|row| row.result.clone());
        let name = self.plan.seeds.metric.clone().or_else(own)?;
        self.columns.iter().position(|column| column.name == name)
    }

    /// The gain of a policy over the first one with the first `count` seeds; of the first one over its own mean.
    fn gain(&self, case: usize, policy: usize, count: u32) -> Gain {
        let Some(metric) = self.metric(case) else { return Gain::default() };
        let values = |policy: usize| -> Vec<Option<f64>> {
            let own = self.rows[case].iter().filter(|((of, _), _)| *of == policy);
            own.take(count as usize).map(|(_, row)| row.values.get(metric).copied().flatten()).collect()
        };
        let direction = match self.columns[metric].direction {
            Direction::Neutral => Direction::Lower,
            direction => direction,
        };
        let own = values(policy);
        if policy > 0 {
            return paired_gain(&values(0), &own, direction);
        }
        let all: Option<Vec<f64>> = own.iter().copied().collect();
        let mean = all.map(|all| wakelab_stats::mean(&all));
        paired_gain(&vec![mean; own.len()], &own, direction)
    }

    /// The number of seeds of a case that every policy has.
    fn seeds_of(&self, case: usize) -> u32 {
        let count = |policy: usize| self.rows[case].keys().filter(|(of, _)| *of == policy).count();
        (0..self.plan.policies.len()).map(count).min().unwrap_or(0) as u32
    }
}

/// Reads a row from a line of JSON.
///
/// # Errors
/// Something else.
pub fn read_row(line: &str) -> Result<Row, AskError> {
    Ok(serde_json::from_str(line)?)
}

/// Writes a row as a line of JSON.
///
/// # Errors
/// None that is known.
pub fn write_row(row: &Row) -> Result<String, AskError> {
    Ok(serde_json::to_string(row)? + "\n")
}
