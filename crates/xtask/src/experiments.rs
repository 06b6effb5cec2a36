// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask experiments`: runs all published experiments in full and writes docs/results/experiments.md.

use anyhow::{Context, Result};
use clap::Args;

use crate::command::{cargo, output, root, run as run_command};

#[derive(Args)]
pub(crate) struct ExperimentsArgs {
    /// Number of seeds (default: as each file says)
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    /// Threads that run seeds side by side
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
}

pub(crate) fn run(args: &ExperimentsArgs) -> Result<()> {
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--package", "wakelab-cli", "--", "experiments"]);
    command.args(["--format", "markdown"]);
    for (name, value) in [("--seeds", args.seeds), ("--threads", args.threads)] {
        if let Some(value) = value {
            command.args([name, &value.to_string()]);
        }
    }
    let page = String::from_utf8(output(&mut command)?).context("wakelab writes UTF-8")?;
    let path = root().join("docs/results/experiments.md");
    std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    println!("experiments: wrote {}", path.display());
    Ok(())
}

/// The fast part: the negative controls and the rows whose sign is robust, with few seeds and short runs.
pub(crate) fn quick() -> Result<()> {
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--package", "wakelab-cli", "--", "experiments"]);
    run_command(command.args(["--quick", "--seeds", "8"]))
}
