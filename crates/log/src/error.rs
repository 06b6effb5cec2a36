// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors in a log.

/// Why a log cannot be read or replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is not a log, or has another version.
    #[error("byte {offset}: {found}; expected {expected}")]
    Format {
        /// The offset in the file.
        offset: u64,
        /// What was found there.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The policy or the machine that the header names cannot be built.
    #[error("the log's policy cannot be built: {0}")]
    Policy(String),
}

impl Error {
    pub(crate) fn format(offset: u64, found: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::Format { offset, found: found.into(), expected: expected.into() }
    }
}
