// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab tune`: starts the tuner, which is part of the Python package.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

/// The program that the package installs.
const PROGRAM: &str = "wakelab-tune";

#[derive(Args)]
#[command(after_help = "Example:\n  \
    wakelab tune demo --machine smp-8 --policy wakelab --trials 50\n\n\
    The tuner is in the Python package: `pip install './python[tune]'` in a clone installs it as wakelab-tune, and this \
    command starts that. `wakelab tune -- --help` shows its options; docs/guide/tune.md explains it.")]
pub(crate) struct TuneArgs {
    /// What wakelab-tune gets
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Starts the tuner, and ends as it does.
pub(crate) fn run(args: &TuneArgs) -> Result<()> {
    let status = match Command::new(PROGRAM).args(&args.arguments).status() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            anyhow::bail!(
                "{PROGRAM} is not installed: pip install './python[tune]' in a clone of wakelab installs it"
            )
        }
        status => status.with_context(|| format!("cannot start {PROGRAM}"))?,
    };
    if status.success() {
        return Ok(());
    }
    std::process::exit(status.code().unwrap_or(1));
}
