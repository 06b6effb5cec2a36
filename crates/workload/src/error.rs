// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be wrong with a workload, and where in the file it is.

use thiserror::Error;
use wakelab_machine::{nearest, printable};

use crate::check::CheckError;

/// Why there is no workload.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// The file says something impossible.
    #[error("{}:{line}:{column}: {}", printable(.file), printable(.message))]
    File {
        /// The file, as the user named it.
        file: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1, in characters.
        column: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {source}", printable(.file))]
    Read {
        /// The file.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The `NAME:key=value,...` is wrong.
    #[error("workload '{}': {}", printable(.spec), printable(.message))]
    Spec {
        /// The whole text, as the user gave it.
        spec: String,
        /// What is wrong and what was expected.
        message: String,
    },
    /// The file expanded, but to something that cannot run.
    #[error("{}: {source}", printable(.file))]
    Check {
        /// The file.
        file: String,
        /// What is wrong.
        source: CheckError,
    },
}

/// A file's name and text: turns byte offsets into lines and columns.
#[derive(Clone, Debug)]
pub(crate) struct SourceText {
    pub(crate) file: String,
    pub(crate) text: String,
}

impl SourceText {
    /// Returns the error `message`, located at a byte offset.
    pub(crate) fn error(&self, offset: usize, message: impl Into<String>) -> WorkloadError {
        let offset =
            (0..=offset.min(self.text.len())).rev().find(|&i| self.text.is_char_boundary(i)).unwrap_or(0);
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        WorkloadError::File {
            file: self.file.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }
}

/// Writes `a, b and c`, for error texts.
pub(crate) fn list<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let words: Vec<S> = words.into_iter().collect();
    match words.split_last() {
        None => "none".to_owned(),
        Some((last, [])) => last.as_ref().to_owned(),
        Some((last, rest)) => {
            let rest: Vec<&str> = rest.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", rest.join(", "), last.as_ref())
        }
    }
}

/// `unknown operation 'recieve'; did you mean 'recv'?`: `what` is unknown; offers the known word nearest to `word`, or
/// all of them if none is near.
pub(crate) fn unknown<'a>(what: &str, word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match (nearest(word, known.iter().copied()), known.as_slice()) {
        (Some(near), _) => format!("unknown {what}; did you mean '{near}'?"),
        (None, []) => format!("unknown {what}; there is none"),
        (None, [only]) => format!("unknown {what}; there is '{only}'"),
        (None, all) => format!("unknown {what}; there are {}", list(all)),
    }
}
