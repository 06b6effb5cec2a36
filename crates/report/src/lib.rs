// SPDX-License-Identifier: GPL-2.0-or-later
//! From outcomes to tables and JSON. Pure functions: nothing here runs, prints, or asks the environment.
//!
//! A [`Comparison`] pairs the runs of several policies by seed. [`Comparison::text`] is for people,
//! [`Comparison::document`] for programs (docs/schema/compare.schema.json). [`Ablation`] and [`Sensitivity`] compare
//! runs of changed machines with those of the machine itself. [`Experiments`] puts runs beside what was published.
//! [`Trials`] are runs of a command on a live kernel. [`list`] has the JSON of the listings.

mod ablation;
mod check;
mod columns;
mod comparison;
mod document;
mod drift;
mod error;
mod experiment;
mod experiment_document;
mod experiment_page;
mod experiment_text;
mod gain_text;
#[cfg(test)]
mod glossary;
mod grid;
mod html;
mod html_data;
mod html_page;
mod html_plot;
mod limit;
pub mod list;
mod measured;
mod mechanism;
mod metric;
mod passed;
mod percentile;
mod recorded;
mod replay_error;
mod result;
mod round_trip;
mod run_values;
mod score;
mod sensitivity;
mod service;
mod sign_map;
mod sign_map_svg;
mod slices;
mod slowest;
mod style;
pub mod svg;
mod table;
mod tidy;
mod trials;
mod uncertainty;
mod verdict;
mod waiting;
mod why;

pub use ablation::{Ablation, AblationDocument};
pub use check::{Check, CheckDocument, CheckedMetric, CheckedTasks, Missing, SilentCpu};
pub use columns::{Column, Values, write_parquet};
pub use comparison::{Comparison, MetricResult, PolicyResult};
pub use document::{CompareDocument, SCHEMA_VERSION, read_replay_errors, read_scenarios};
pub use error::ReportError;
pub use experiment::{CaseRuns, ExperimentRuns, Experiments, row_values};
pub use experiment_document::ExperimentsDocument;
pub use html::PageParts;
pub use limit::Limit;
pub use measured::{Measured, measured_text};
pub use percentile::percentile_ns;
pub use recorded::Recorded;
pub use replay_error::{ReplayErrors, ReplayedOn};
pub use result::metric_names;
pub use round_trip::{RoundTripDocument, round_trip_document, round_trip_text};
pub use run_values::{RunColumn, result_name, run_columns, run_values};
pub use sensitivity::{Sensitivity, SensitivityDocument};
pub use sign_map::{MapAxes, SignMap, SignMapDocument};
pub use slowest::{SlowWaits, slowest_text};
pub use style::Style;
pub use trials::{Trials, TrialsDocument};
pub use uncertainty::{Uncertainty, metric_values};
pub use verdict::{Decided, Verdict};
pub use why::{Why, WhyDocument};
