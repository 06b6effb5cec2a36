// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a question has no answer.

use std::fmt::Display;

use thiserror::Error;
use wakelab_lab::LabError;
use wakelab_report::ReportError;

/// Why a question was refused, or its runs failed.
#[derive(Debug, Error)]
pub enum AskError {
    /// What was asked is wrong.
    #[error("{0}")]
    Input(String),
    /// A batch was refused or failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The results cannot be put side by side.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A file cannot be written.
    #[error("{0}")]
    Write(String),
    /// A result cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl AskError {
    /// Whether other input or arguments would help.
    pub fn is_input(&self) -> bool {
        match self {
            AskError::Input(_) => true,
            AskError::Lab(error) => error.is_input(),
            AskError::Report(_) | AskError::Write(_) | AskError::Json(_) => false,
        }
    }
}

/// Turns an error of a library that reads input into [`AskError::Input`].
pub fn bad_input(error: impl Display) -> AskError {
    AskError::Input(error.to_string())
}
