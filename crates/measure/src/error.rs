// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a machine cannot be measured, or another tool's file not be read.

use std::io;

use thiserror::Error;
use wakelab_machine::{MachineError, printable};

/// Why there are no figures.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// A file cannot be read at all.
    #[error("{}: {reason}", printable(.file))]
    Read {
        /// Path as given.
        file: String,
        /// The system's error.
        reason: io::Error,
    },
    /// A file is wrong.
    #[error("{}:{line}: {}; expected {}", printable(.file), printable(.what), printable(.expected))]
    File {
        /// Path as given.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is there.
        what: String,
        /// What should be there.
        expected: String,
    },
    /// The system does not tell which CPUs this process may use.
    #[error("cannot ask for the CPUs that this process may use: {0}")]
    Affinity(#[source] io::Error),
    /// The figures do not make a machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
}
