// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be wrong with an experiment, and where in the file it is.

use thiserror::Error;

/// Why there is no experiment.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// The file says something impossible.
    #[error("{file}:{line}: {message}")]
    File {
        /// The file, as the user named it.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// The file cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// No experiment has this name.
    #[error("no experiment '{name}'; there are {known}, or the path of a .toml file")]
    Unknown {
        /// The name that the user gave.
        name: String,
        /// The experiments that exist.
        known: String,
    },
}
