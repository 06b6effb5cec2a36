// SPDX-License-Identifier: GPL-2.0-or-later
//! The error for a header that cannot be mirrored.

use std::fmt;
use std::path::{Path, PathBuf};

/// Something in a header that cannot be mirrored: where it is, what was found, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The header.
    pub file: PathBuf,
    /// The line in the header, counted from 1; 0: the whole file.
    pub line: u32,
    /// What was found and what was expected.
    pub text: String,
}

impl Error {
    pub(crate) fn new(file: &Path, line: u32, text: impl Into<String>) -> Error {
        Error { file: file.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.text)
    }
}

impl std::error::Error for Error {}
