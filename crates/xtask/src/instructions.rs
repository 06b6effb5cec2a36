// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask instructions`: the instructions of a simulated event, compared with those that were committed, so that
//! the simulator does not become slower unnoticed. Counts do not depend on what else the machine does; they depend on
//! the compilers, so that figures of other compilers are printed and not judged.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Map, Value, json};

use crate::command::{Skipped, cargo, find_program, root, run as run_command, target_folder, text};

/// Where the committed figures are.
const FILE: &str = "docs/results/bench-instructions.json";
/// What `wakelab bench` measures by default.
const POLICIES: [&str; 2] = ["linux-4.15", "linux-4.15+idle=smt-balance"];
/// A deviation of more percent than this fails, in either direction: a faster simulator gets new figures.
const TOLERANCE_PERCENT: f64 = 3.0;

#[derive(Args)]
pub(crate) struct InstructionsArgs {
    /// Write the figures instead of comparing them
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(args: &InstructionsArgs) -> Result<()> {
    let counted = count()?;
    if !args.write {
        return compare(&counted);
    }
    let path = root().join(FILE);
    std::fs::write(&path, format!("{counted:#}\n")).with_context(|| path.display().to_string())?;
    println!("instructions: wrote {}", path.display());
    Ok(())
}

/// The comparison, for `cargo xtask test`.
pub(crate) fn check() -> Result<()> {
    compare(&count()?)
}

/// Counts the instructions of an event under each policy of `wakelab bench`. `wakelab bench --breakdown` needs line
/// numbers, but a sum does not, so this is the release build that other stages have made.
fn count() -> Result<Value> {
    if find_program(&["valgrind"]).is_none() {
        return Err(Skipped("no valgrind, which counts instructions".into()).into());
    }
    run_command(cargo().args(["build", "--quiet", "--release", "--package", "wakelab-cli"]))?;
    let (target, mut policies) = (target_folder()?, Map::new());
    for policy in POLICIES {
        let (_, one) = counted(&target, policy, 1)?;
        let (events, two) = counted(&target, policy, 2)?;
        ensure!(events > 0 && two > one, "{policy}: {events} events, {one} and {two} instructions");
        policies.insert(policy.to_owned(), json!(((two - one) as f64 / events as f64).round()));
    }
    let version = |program: &str| -> Result<String> {
        let all = text(Command::new(program).arg("--version"))?;
        Ok(all.lines().next().unwrap_or_default().to_owned())
    };
    Ok(json!({
        "rustc": version("rustc")?,
        "cc": version("cc")?,
        "instructions_per_event": policies,
    }))
}

/// Runs a policy `runs` times under callgrind. Returns the events of one run, and the instructions of all runs and of
/// the start of the process.
fn counted(target: &Path, policy: &str, runs: u32) -> Result<(u64, u64)> {
    let file = target.join("instructions.callgrind");
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind"]).arg(format!("--callgrind-out-file={}", file.display()));
    command.arg(target.join("release/wakelab"));
    command.args(["bench", "--cpus", "64", "--policy", policy, "--runs", &runs.to_string()]);
    let events = text(&mut command)?.parse().context("wakelab bench --runs prints the events of a run")?;
    let profile = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let total = profile.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    Ok((events, total.with_context(|| format!("{}: no line `totals: N`", file.display()))?))
}

fn compare(counted: &Value) -> Result<()> {
    let path = root().join(FILE);
    let committed = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let committed: Value = serde_json::from_str(&committed).with_context(|| path.display().to_string())?;
    for line in lines(&committed, counted) {
        println!("{line}");
    }
    let compilers = |value: &Value| [value["rustc"].clone(), value["cc"].clone()];
    if compilers(&committed) != compilers(counted) {
        return Err(Skipped(format!(
            "{FILE} has counts of {} and {}; those of other compilers are not judged",
            committed["rustc"], committed["cc"]
        ))
        .into());
    }
    match deviating(&committed, counted).as_slice() {
        [] => Ok(()),
        policies => bail!(
            "{}: more than {TOLERANCE_PERCENT} % from {FILE}; if that is meant: cargo xtask instructions --write",
            policies.join(", ")
        ),
    }
}

/// The policies, each with its committed and its new figure; 0 where there is none.
fn pairs(committed: &Value, counted: &Value) -> Vec<(String, f64, f64)> {
    let of = |value: &Value, policy: &str| value["instructions_per_event"][policy].as_f64().unwrap_or(0.0);
    let policies = counted["instructions_per_event"].as_object().into_iter().flatten();
    policies.map(|(policy, _)| (policy.clone(), of(committed, policy), of(counted, policy))).collect()
}

fn lines(committed: &Value, counted: &Value) -> Vec<String> {
    let line = |(policy, was, now): (String, f64, f64)| {
        format!(
            "instructions: {policy}: {now} an event, committed {was} ({:+.1} %)",
            100.0 * (now / was - 1.0)
        )
    };
    pairs(committed, counted).into_iter().map(line).collect()
}

fn deviating(committed: &Value, counted: &Value) -> Vec<String> {
    let deviates = |was: f64, now: f64| was <= 0.0 || (now - was).abs() * 100.0 > TOLERANCE_PERCENT * was;
    let pairs = pairs(committed, counted).into_iter();
    pairs.filter(|&(_, was, now)| deviates(was, now)).map(|(policy, ..)| policy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(scan: u32, balance: u32) -> Value {
        json!({ "instructions_per_event": { "scan": scan, "balance": balance } })
    }

    #[test]
    fn three_percent_either_way_are_let_pass() {
        let committed = figures(1000, 2000);
        assert!(deviating(&committed, &figures(1030, 1940)).is_empty());
        assert_eq!(deviating(&committed, &figures(1031, 2000)), ["scan"]);
        assert_eq!(deviating(&committed, &figures(1000, 1939)), ["balance"]);
        assert_eq!(deviating(&json!({}), &figures(1000, 2000)).len(), 2, "nothing is committed");
    }
}
