// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask parity`: finds clang, builds `wakelab-parity` with it and runs it.
//!
//! Everything else is in crates/parity: this crate must build without clang and libelf.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command::{cargo, find_program, run as run_command};

/// The oldest clang whose BPF code is tested.
const CLANG_MIN: u32 = 18;
const CLANG: &[&str] = &["clang-19", "clang-18", "clang-20", "clang-21", "clang-22", "clang"];

/// Arguments of `cargo xtask parity`: those of `wakelab-parity`, which `--help` lists.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ParityArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// `cargo xtask parity`. [`crate::command::Skipped`] if this kernel refuses BPF programs.
pub(crate) fn run(args: ParityArgs) -> Result<()> {
    let clang = bpf_clang()?;
    run_command(
        cargo()
            .env("BPF_CLANG", &clang)
            .args(["run", "--quiet", "--release", "--package", "wakelab-parity", "--"])
            .args(args.arguments),
    )
}

/// The clang that compiles for BPF: `$BPF_CLANG`, or the first that is installed.
fn bpf_clang() -> Result<PathBuf> {
    let clang = match std::env::var_os("BPF_CLANG") {
        Some(path) => PathBuf::from(path),
        None => find_program(CLANG).with_context(|| {
            format!("no clang {CLANG_MIN} or newer: install clang-19 (cargo xtask setup), or set BPF_CLANG to its path")
        })?,
    };
    let major = clang_major(&clang)?;
    if major < CLANG_MIN {
        bail!(
            "{} is version {major}: clang {CLANG_MIN} or newer is needed, set BPF_CLANG to its path",
            clang.display()
        );
    }
    Ok(clang)
}

fn clang_major(clang: &Path) -> Result<u32> {
    let output = Command::new(clang)
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run {}", clang.display()))?;
    parse_clang_major(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("{} --version names no version", clang.display()))
}

/// The first number after the word `version`.
fn parse_clang_major(text: &str) -> Option<u32> {
    let (_, after) = text.split_once("version ")?;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_clang_prints() {
        assert_eq!(parse_clang_major("Debian clang version 19.1.4 (1~deb12u1)\nTarget: x86_64"), Some(19));
        assert_eq!(parse_clang_major("clang version 20.1.0"), Some(20));
        assert_eq!(parse_clang_major("gcc (Debian 12.2.0)"), None);
    }
}
