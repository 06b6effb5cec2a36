// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be wrong with a machine, and where in the file it is.
//!
//! The checks work on a [`Topology`](crate::Topology) or [`Costs`](crate::Costs) and do not know whether it came
//! from a file. They return a [`Fault`] that names the part at fault; readers of files turn the part into a line.

use std::ops::Range;

use thiserror::Error;

use crate::printable;

/// Why there is no machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MachineError {
    /// A file cannot be read at all.
    #[error("{}: {}", printable(.file), printable(.reason))]
    Read {
        /// Path as given.
        file: String,
        /// The system's error message.
        reason: String,
    },
    /// A machine file is wrong.
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
    /// A machine that a program built or deserialised is wrong.
    #[error("{}; expected {}", printable(.what), printable(.expected))]
    Invalid {
        /// What is there.
        what: String,
        /// What should be there.
        expected: String,
    },
    /// No machine has this name.
    #[error(
        "unknown machine `{}`; expected one of {known}, or the path of a .toml file or of lstopo's .xml",
        printable(.name)
    )]
    Unknown {
        /// The name that the user gave.
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
    /// A cost, named by its key.
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

/// What is wrong, and at which bytes of the text.
pub(crate) struct Located {
    span: Range<usize>,
    what: String,
    expected: String,
}

impl Located {
    pub(crate) fn new(span: Range<usize>, what: impl Into<String>, expected: impl Into<String>) -> Self {
        Located { span, what: what.into(), expected: expected.into() }
    }

    pub(crate) fn in_file(self, text: &str, file: &str) -> MachineError {
        MachineError::File {
            file: file.to_owned(),
            line: line_of(text, self.span.start),
            what: self.what,
            expected: self.expected,
        }
    }
}

/// Line of a byte, counted from 1.
pub(crate) fn line_of(text: &str, byte: usize) -> usize {
    1 + text.as_bytes()[..byte.min(text.len())].iter().filter(|&&b| b == b'\n').count()
}
