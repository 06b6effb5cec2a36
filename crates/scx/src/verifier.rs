// SPDX-License-Identifier: GPL-2.0-only
//! The verifier's work: the instructions of each program that it followed, along all paths.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, Result};
use libbpf_rs::Object;

/// Returns one line: the number of programs, and the one that took the most instructions. The kernel refuses a program
/// of more than a million.
pub(crate) fn summary(object: &Object) -> Result<String> {
    let mut programs = Vec::new();
    for program in object.progs().filter(|program| program.autoload()) {
        let file = format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd());
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        let verified =
            verified_instructions(&text).with_context(|| format!("{file} has no verified_insns"))?;
        programs.push((verified, program.name().to_string_lossy().into_owned()));
    }
    let (most, name) = programs.iter().max().context("the object has no programs")?;
    Ok(format!("verifier: {} programs, at most {most} instructions ({name})", programs.len()))
}

/// Reads the number in a program's fdinfo: `verified_insns:\t123`.
fn verified_instructions(fdinfo: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix("verified_insns:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_among_others() {
        let text = "pos:\t0\nprog_id:\t7\nrun_cnt:\t0\nverified_insns:\t48213\n";
        assert_eq!(verified_instructions(text), Some(48213));
        assert_eq!(verified_instructions("prog_id:\t7\n"), None);
        assert_eq!(verified_instructions("verified_insns:\tmany\n"), None);
    }
}
