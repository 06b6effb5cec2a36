// SPDX-License-Identifier: GPL-2.0-or-later
//! The clang that compiles for BPF. Debian's packages install it under its version only, so it is looked for here and
//! handed to build scripts as `BPF_CLANG`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{Skipped, find_program};

/// The oldest clang whose BPF code is tested.
const CLANG_MIN: u32 = 18;
/// Its names, the version that the tests were written with first.
pub(crate) const CLANG: &[&str] = &["clang-19", "clang-18", "clang-20", "clang-21", "clang-22", "clang"];

/// Those of a known version.
pub(crate) const CLANG_VERSIONS: &[&str] = &["clang-18", "clang-19", "clang-20", "clang-21", "clang-22"];

/// `$BPF_CLANG`, or the first that is installed. [`Skipped`] if there is none that is new enough.
pub(crate) fn bpf_clang() -> Result<PathBuf> {
    let clang = match std::env::var_os("BPF_CLANG") {
        Some(path) => PathBuf::from(path),
        None => find_program(CLANG).ok_or_else(|| {
            Skipped(format!("no clang {CLANG_MIN} or newer: install clang-19 (cargo xtask setup), or set BPF_CLANG to its path"))
        })?,
    };
    let major = clang_major(&clang)?;
    if major < CLANG_MIN {
        let path = clang.display();
        let text = format!(
            "{path} is version {major}: clang {CLANG_MIN} or newer is needed, set BPF_CLANG to its path"
        );
        return Err(Skipped(text).into());
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
