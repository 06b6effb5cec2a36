// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be wrong with a machine, and where.
//!
//! The checks work on a [`Topology`](crate::Topology) or [`Costs`](crate::Costs) and do not know whether it came
//! from a file. They answer a [`Fault`] that names the part at fault; who read a file turns the part into a line.

use thiserror::Error;

/// Why there is no machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MachineError {
    /// A file cannot be read at all.
    #[error("{file}: {reason}")]
    Read {
        /// Path as given.
        file: String,
        /// What the system says.
        reason: String,
    },
    /// A machine file is wrong.
    #[error("{file}:{line}: {what}; expected {expected}")]
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
    /// A machine that was built or deserialised is wrong.
    #[error("{what}; expected {expected}")]
    Invalid {
        /// What is there.
        what: String,
        /// What should be there.
        expected: String,
    },
    /// No machine has this name.
    #[error(
        "unknown machine `{name}`; expected one of {known}, or the path of a .toml file or of lstopo's .xml"
    )]
    Unknown {
        /// As given.
        name: String,
        /// The presets, separated by commas.
        known: String,
    },
}

/// The part of a machine that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The topology as a whole.
    Topology,
    /// One CPU.
    Cpu(usize),
    /// A row of the distances between nodes.
    NodeRow(usize),
    /// A cost, by its key.
    Cost(&'static str),
}

/// A part, what it says, and what it should say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) part: Part,
    pub(crate) what: String,
    pub(crate) expected: String,
}

impl Fault {
    pub(crate) fn new(part: Part, what: impl Into<String>, expected: impl Into<String>) -> Self {
        Fault { part, what: what.into(), expected: expected.into() }
    }
}

impl From<Fault> for MachineError {
    fn from(fault: Fault) -> Self {
        MachineError::Invalid { what: fault.what, expected: fault.expected }
    }
}
