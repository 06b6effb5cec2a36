// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a batch has no result.

use std::io;

use thiserror::Error;
use wakelab_sim::SimError;

/// Why a batch was refused or given up.
#[derive(Debug, Error)]
pub enum LabError {
    /// A plan that cannot be run.
    #[error("{0}")]
    Plan(String),
    /// A scenario that cannot be run.
    #[error("{name}: {error}")]
    Scenario {
        /// The scenario, in words.
        name: String,
        /// The reason.
        error: SimError,
    },
    /// A run that failed.
    #[error("{name}, seed {seed}: {error}{}", advice(error))]
    Run {
        /// The scenario, in words.
        name: String,
        /// The seed of the run.
        seed: u64,
        /// The reason.
        error: SimError,
    },
    /// The importer refuses an export of wakelab's own.
    #[error(
        "{name}: cannot read the export of this run: {message}; this is a defect of wakelab, please report it with the command line"
    )]
    Import {
        /// The scenario, in words.
        name: String,
        /// What the importer says.
        message: String,
    },
    /// Events cannot be written.
    #[error("cannot write events: {0}")]
    Write(#[source] io::Error),
}

impl LabError {
    /// Whether other input or arguments would help. All other errors come from the system or are defects.
    pub fn is_input(&self) -> bool {
        match self {
            LabError::Plan(_) | LabError::Scenario { .. } => true,
            LabError::Run { error, .. } => !is_defect(error),
            LabError::Import { .. } | LabError::Write(_) => false,
        }
    }
}

fn is_defect(error: &SimError) -> bool {
    matches!(error, SimError::Invariant { .. })
}

fn advice(error: &SimError) -> &'static str {
    if is_defect(error) {
        "; this is a defect of wakelab, please report it with the command line"
    } else {
        ""
    }
}
