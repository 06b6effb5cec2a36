// SPDX-License-Identifier: GPL-2.0-or-later
//! What cannot be compared.

use thiserror::Error;

/// The reason why there is no comparison.
#[derive(Debug, Error)]
pub enum ReportError {
    /// Nothing was run.
    #[error("nothing to compare: expected at least one policy and one seed")]
    Empty,
    /// Lists that belong together differ in length.
    #[error(
        "{scenarios} scenarios, {names} names and {outcomes} lists of outcomes; expected as many of each"
    )]
    Lengths {
        /// Number of scenarios.
        scenarios: usize,
        /// Number of policy names.
        names: usize,
        /// Number of lists of outcomes.
        outcomes: usize,
    },
    /// The policies did not run with the same seeds in the same order.
    #[error("policy {policy} ran with other seeds than {baseline}; comparisons are paired by seed")]
    Seeds {
        /// The first policy.
        baseline: String,
        /// The one that differs.
        policy: String,
    },
    /// More than the machine, the policy and the host differ.
    #[error("policy {policy} ran with another workload or limit than {baseline}")]
    Scenarios {
        /// The first policy.
        baseline: String,
        /// The one that differs.
        policy: String,
    },
    /// A run has no value of a metric: it did not complete, or no task waited.
    #[error(
        "{name}: a run in between has no such value, because it did not complete or has no such event; expected another --metric"
    )]
    NoValue {
        /// The metric.
        name: String,
    },
    /// A metric of trials that does not have all its values.
    #[error("metric {metric} has not one value for each of {sides} sides and {blocks} blocks")]
    Trials {
        /// The metric's name.
        metric: &'static str,
        /// Number of sides.
        sides: usize,
        /// Number of blocks.
        blocks: usize,
    },
    /// A file of recorded results is wrong.
    #[error("{file}:{line}: {message}")]
    Results {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// No outcome has the metric.
    #[error("no metric is called '{name}'; expected one of {known}")]
    Metric {
        /// The name as given.
        name: String,
        /// The known names.
        known: String,
    },
    /// A document that is not a comparison.
    #[error("no comparison of schema version {expected}: {message}")]
    Document {
        /// The version that can be read.
        expected: u32,
        /// What is wrong.
        message: String,
    },
}
