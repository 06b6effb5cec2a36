// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask parity`: finds clang, builds `wakelab-parity` with it and runs it.
//!
//! Everything else is in crates/parity: this crate must build without clang and libelf.

use std::ffi::OsString;

use anyhow::Result;
use clap::Args;

use crate::clang::bpf_clang;
use crate::command::{cargo, run as run_command};

/// Arguments of `cargo xtask parity`: those of `wakelab-parity`, which `--help` lists.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ParityArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// `cargo xtask parity`. [`crate::command::Skipped`] if there is no clang, or this kernel refuses BPF programs.
pub(crate) fn run(args: ParityArgs) -> Result<()> {
    let clang = bpf_clang()?;
    run_command(
        cargo()
            .env("BPF_CLANG", &clang)
            .args(["run", "--quiet", "--release", "--package", "wakelab-parity", "--"])
            .args(args.arguments),
    )
}
