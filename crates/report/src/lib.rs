// SPDX-License-Identifier: GPL-2.0-or-later
//! From outcomes to tables and JSON. Pure functions: nothing here runs, prints, or asks the environment.
//!
//! A [`Comparison`] pairs the runs of several policies by seed. [`Comparison::text`] is for people,
//! [`Comparison::document`] for programs (docs/schema/compare.schema.json); [`list`] has the JSON of the listings.

mod comparison;
mod document;
mod error;
pub mod list;
mod metric;
mod percentile;
mod stats;
mod table;

pub use comparison::{Comparison, MetricResult, PolicyResult};
pub use document::{CompareDocument, SCHEMA_VERSION, read_scenarios};
pub use error::ReportError;
pub use metric::{Direction, Unit};
pub use percentile::percentile_ns;
pub use stats::{Gain, paired_gain};
pub use table::Style;
