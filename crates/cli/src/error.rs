// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors and exit codes.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use wakelab_ab::AbError;
use wakelab_ask::AskError;
use wakelab_lab::LabError;
use wakelab_machine::printable_lines;
use wakelab_record::RecordError;

use crate::print;

const FAILURE: u8 = 1;
const BAD_INPUT: u8 = 2;
/// The command that `wakelab ab` measures, or that `wakelab record` records, failed, and wakelab itself did not.
const COMMAND_FAILED: u8 = 3;
/// 128 plus the number of SIGINT, as shells report it.
const INTERRUPTED: u8 = 130;

/// An error in the user's input or arguments.
#[derive(Debug)]
pub(crate) struct BadInput(String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// The recorded command failed; the recording is complete.
#[derive(Debug)]
pub(crate) struct RecordedCommandFailed(pub(crate) String);

impl fmt::Display for RecordedCommandFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RecordedCommandFailed {}

/// Turns an error of a library that reads input into [`BadInput`].
pub(crate) fn bad_input(error: impl fmt::Display) -> anyhow::Error {
    BadInput(error.to_string()).into()
}

/// Prints an error of [`main`](crate::main) to stderr and returns its exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    // The reader has closed the pipe because it has read enough.
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    print::note(&printable_lines(&format!("{error:#}")));
    ExitCode::from(code(error))
}

fn code(error: &anyhow::Error) -> u8 {
    if error.is::<BadInput>()
        || error.downcast_ref::<AskError>().is_some_and(AskError::is_input)
        || error.downcast_ref::<LabError>().is_some_and(LabError::is_input)
    {
        return BAD_INPUT;
    }
    if error.is::<RecordedCommandFailed>() {
        return COMMAND_FAILED;
    }
    match error.downcast_ref::<RecordError>() {
        Some(RecordError::Interrupted) => return INTERRUPTED,
        Some(error) if error.is_input() => return BAD_INPUT,
        _ => {}
    }
    match error.downcast_ref::<AbError>() {
        Some(AbError::CommandFailed { .. }) => COMMAND_FAILED,
        Some(AbError::Interrupted) => INTERRUPTED,
        _ => FAILURE,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Prints what clap returns instead of arguments: help, the version, or an error. Returns its exit code, which is a
/// failure if the help cannot be written.
pub(crate) fn print_usage(error: &clap::Error) -> ExitCode {
    let written = error.print().and_then(|()| std::io::stdout().flush());
    match written {
        Err(failure) if failure.kind() != ErrorKind::BrokenPipe && error.exit_code() == 0 => {
            print::note(&format!("cannot write to standard output: {failure}"));
            ExitCode::from(FAILURE)
        }
        _ => ExitCode::from(error.exit_code() as u8),
    }
}
