// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be wrong with an experiment, and where in its file.

use thiserror::Error;

/// Why there is no experiment.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// The file says something impossible.
    #[error("{file}:{line}: {message}")]
    File {
        /// The file, as it was named.
        file: String,
        /// From 1.
        line: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// The file cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// No experiment has this name.
    #[error("no experiment '{name}'; there are {known}, or the path of a .toml file")]
    Unknown {
        /// As it was given.
        name: String,
        /// Those that exist.
        known: String,
    },
}
