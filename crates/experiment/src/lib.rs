// SPDX-License-Identifier: GPL-2.0-or-later
//! Published experiments as data. A file of `experiments/` says what was measured: on which machine, with which
//! workload, under which two policies, and with which results. [`Plan`] makes scenarios of it. Each scenario is run
//! once, even if several rows use it. crates/report compares the runs with the published figures.

mod error;
mod file;
mod measure;
mod plan;
mod template;

use std::path::Path;

pub use error::ExperimentError;
pub use file::{Control, Expect, Experiment, Fitted, Row};
pub use measure::{Efficiency, Measure, Percentile, SearchStep};
pub use plan::{Case, Plan, Selection};
pub use template::fill as fill_template;

/// The files of `experiments/`: stem and text, sorted by name.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// What rows with a published gain came to when they were last run, as `cargo xtask experiments` writes it;
/// crates/report reads it.
pub const RESULTS: &str = include_str!("../../../experiments/results.tsv");

/// Returns the names of the experiments that come with wakelab.
pub fn presets() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

impl Experiment {
    /// Reads a preset, or the file at a path that ends in `.toml`.
    ///
    /// # Errors
    /// Fails if there is no such preset or file, or the file is wrong; then the error names the line.
    pub fn load(name: &str) -> Result<Experiment, ExperimentError> {
        if name.ends_with(".toml") {
            let text = std::fs::read_to_string(name)
                .map_err(|source| ExperimentError::Read { file: name.to_owned(), source })?;
            let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
            return Experiment::parse(&stem, name, &text);
        }
        match FILES.iter().find(|(known, _)| *known == name) {
            Some((stem, text)) => Experiment::parse(stem, &format!("experiments/{stem}.toml"), text),
            None => {
                let known = presets().collect::<Vec<_>>().join(", ");
                Err(ExperimentError::Unknown { name: name.to_owned(), known })
            }
        }
    }
}
