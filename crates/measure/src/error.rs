// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a machine cannot be measured.

use std::io;

use thiserror::Error;
use wakelab_machine::MachineError;

/// Why there are no figures.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// The system does not tell which CPUs this process may use.
    #[error("cannot ask for the CPUs that this process may use: {0}")]
    Affinity(#[source] io::Error),
    /// The figures do not make a machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
}
