// SPDX-License-Identifier: GPL-2.0-or-later
//! The result of trials, as plain data.

use serde::Serialize;
use wakelab_stats::{Direction, Unit};

/// What was measured, as plain data.
#[derive(Clone, Debug, Default)]
pub struct TrialRuns {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// CPUs online.
    pub nr_cpus: usize,
    /// The schedulers: `kernel` or the name of a policy. The first is the baseline.
    pub sides: Vec<String>,
    /// Seed of the order.
    pub seed: u64,
    /// The order in which each block ran the sides, as indices of `sides`.
    pub order: Vec<Vec<usize>>,
    /// In the order of the table; the first is the result.
    pub metrics: Vec<TrialMetric>,
    /// Regular expression of the first metric, if it is what the command prints.
    pub regex: Option<String>,
    /// Metrics that this machine does not give.
    pub missing: Vec<MissingMetric>,
    /// Runs that do not count.
    pub void: Vec<VoidRun>,
    /// Processes that the command left running in the runs that count.
    pub left_running: LeftRunning,
    /// Why there were no more blocks.
    pub stopped_by: StoppedBy,
}

/// Processes that were still running when the command had ended. They were ended after each run, because they would
/// have taken CPU time from later runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftRunning {
    /// Number of processes.
    pub processes: usize,
    /// Number of runs that left any.
    pub runs: usize,
}

/// One metric of all runs.
#[derive(Clone, Debug)]
pub struct TrialMetric {
    /// Name with its unit last.
    pub name: &'static str,
    /// The label in tables. Two leading blanks mark a part of the metric above.
    pub label: &'static str,
    /// The unit of all its values.
    pub unit: Unit,
    /// Which way is better.
    pub direction: Direction,
    /// By side, then by block.
    pub values: Vec<Vec<Option<f64>>>,
}

/// A metric that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingMetric {
    /// As [`TrialMetric::name`].
    pub name: &'static str,
    /// The reason, in words.
    pub why: String,
}

/// A run whose scheduler did not stay until its end. Its block was run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VoidRun {
    /// The block's index, from 0.
    pub block: usize,
    /// Index of the side.
    pub side: usize,
    /// What happened; the loader's last words.
    pub why: String,
}

/// Why no more blocks were run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// The number of blocks asked for was reached.
    #[default]
    Runs,
    /// The intervals are narrow enough.
    Interval,
}
