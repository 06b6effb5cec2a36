// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask fuzz`: feeds each reader of recordings with damaged input for some minutes, and writes
//! docs/results/fuzz.md. It needs a nightly compiler and cargo-fuzz, which CI does not have: there, the same corpus is
//! damaged by a test (`crates/trace/tests/trace/damaged_bytes.rs`).
//!
//! New inputs go to the target folder, so that a run leaves the corpus in the repository as it was. A crash stops the
//! command, and libFuzzer names the file with the input.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command::{Skipped, find_program, root, target_folder, today};

const PAGE: &str = "docs/results/fuzz.md";
/// Beyond this, an input takes too much memory.
const MEMORY_LIMIT_MB: u32 = 1024;
/// Beyond this, an input counts as a hang.
const TIMEOUT_S: u32 = 25;
/// What libFuzzer prints before each of its sums.
const SUM: &str = "stat::";

#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// Seconds for each reader; more find rarer faults
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Fuzz this reader only, and print its figures instead of writing the page; may be repeated
    #[arg(long)]
    reader: Vec<String>,
}

/// What libFuzzer says of a reader after its time is over.
#[derive(Debug, PartialEq)]
struct Sums {
    reader: String,
    runs: u64,
    new_inputs: u64,
    slowest_s: u64,
    peak_mb: u64,
}

pub(crate) fn run(args: &FuzzArgs) -> Result<()> {
    if find_program(&["cargo-fuzz"]).is_none() {
        let text = "no cargo-fuzz: rustup toolchain install nightly && cargo install cargo-fuzz";
        return Err(Skipped(text.into()).into());
    }
    let readers = readers()?;
    if let Some(unknown) = args.reader.iter().find(|reader| !readers.contains(reader)) {
        bail!("--reader {unknown}: expected one of {}", readers.join(", "));
    }
    let target = target_folder()?.join("fuzz");
    let chosen = readers.iter().filter(|reader| args.reader.is_empty() || args.reader.contains(reader));
    let sums: Vec<Sums> = chosen.map(|reader| fuzz(reader, args.seconds, &target)).collect::<Result<_>>()?;
    let page = page(&sums, args.seconds)?;
    if !args.reader.is_empty() {
        print!("{page}");
        return Ok(());
    }
    let path = root().join(PAGE);
    std::fs::write(&path, page).with_context(|| path.display().to_string())?;
    println!("fuzz: wrote {}", path.display());
    Ok(())
}

/// The readers with a target, in the order of the alphabet.
fn readers() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut readers = Vec::new();
    for entry in entries {
        let path = entry?.path();
        readers.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    readers.sort();
    Ok(readers)
}

/// Fuzzes one reader; a crash, a hang or too much memory is an error.
fn fuzz(reader: &str, seconds: u32, target: &Path) -> Result<Sums> {
    let found = target.join("found").join(reader);
    std::fs::create_dir_all(&found).with_context(|| found.display().to_string())?;
    println!("fuzz: {reader} for {seconds} s");
    let mut command = cargo_fuzz("run", target);
    command.arg(reader).arg(&found);
    command.arg(root().join("fuzz/corpus").join(reader)).arg(root().join("fixtures")).arg("--");
    command.args([format!("-max_total_time={seconds}"), "-print_final_stats=1".into()]);
    command.args([format!("-rss_limit_mb={MEMORY_LIMIT_MB}"), format!("-timeout={TIMEOUT_S}")]);
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().context("cargo fuzz")?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let lines: Vec<&str> = log.lines().collect();
        bail!("{reader}: {}\n{}", output.status, lines[lines.len().saturating_sub(40)..].join("\n"));
    }
    sums(reader, &log)
}

/// `cargo +nightly fuzz COMMAND`, which builds in a separate folder: nightly's files are of no use to other stages.
fn cargo_fuzz(command: &str, target: &Path) -> Command {
    // rustup's proxy chooses the compiler; the variable names the one that runs this program.
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    cargo.env("CARGO_TARGET_DIR", target).args(["+nightly", "fuzz", command]);
    cargo
}

fn sums(reader: &str, log: &str) -> Result<Sums> {
    let of = |name: &str| {
        let mut lines = log.lines().filter_map(|line| line.strip_prefix(SUM)?.strip_prefix(name));
        let value = lines.next().and_then(|rest| rest.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).with_context(|| format!("{reader}: no {SUM}{name}"))
    };
    Ok(Sums {
        reader: reader.to_owned(),
        runs: of("number_of_executed_units")?,
        new_inputs: of("new_units_added")?,
        slowest_s: of("slowest_unit_time_sec")?,
        peak_mb: of("peak_rss_mb")?,
    })
}

fn page(sums: &[Sums], seconds: u32) -> Result<String> {
    let date = today()?;
    let mut page = format!(
        "# Fuzzing the readers of recordings\n\n\
         Written by `cargo xtask fuzz --seconds {seconds}` on {date}: {seconds} s for each reader, on one thread, with\n\
         AddressSanitizer. Input starts from `fuzz/corpus` and `fixtures/`, and goes through the reader and the causal\n\
         model. No input crashed a reader, took it longer than {TIMEOUT_S} s, or more than {MEMORY_LIMIT_MB} MB.\n\n\
         | reader | runs | inputs that reached new code | slowest input, s | peak of memory, MB |\n|---|---|---|---|---|\n"
    );
    for Sums { reader, runs, new_inputs, slowest_s, peak_mb } in sums {
        let _ = writeln!(page, "| {reader} | {runs} | {new_inputs} | {slowest_s} | {peak_mb} |");
    }
    page.push_str("\nA slowest input of 0 s took less than one. In CI, a test damages the same corpus\n");
    page.push_str("(`crates/trace/tests/trace/damaged_bytes.rs`).\n");
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libfuzzers_sums_are_read() {
        let log = "#12 DONE cov: 5\nstat::number_of_executed_units: 12\nstat::average_exec_per_sec: 3\n\
                   stat::new_units_added: 4\nstat::slowest_unit_time_sec: 0\nstat::peak_rss_mb: 57\n";
        let expected = Sums { reader: "text".into(), runs: 12, new_inputs: 4, slowest_s: 0, peak_mb: 57 };
        assert_eq!(sums("text", log).unwrap(), expected);
        assert!(sums("text", "stat::new_units_added: 4\n").is_err(), "a run that was cut off has no sums");
    }

    #[test]
    fn each_target_has_a_corpus() {
        let readers = readers().unwrap();
        assert!(readers.len() >= 6, "{readers:?}");
        for reader in readers {
            assert!(root().join("fuzz/corpus").join(&reader).is_dir(), "{reader}");
        }
    }
}
