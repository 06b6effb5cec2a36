// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab bench --breakdown`: instructions and cache misses of an event, by part of the simulator.
//!
//! valgrind's callgrind runs this program again and counts, once for one run of a scenario and once for two. The
//! difference is what one run costs, without reading arguments and files. The counts do not depend on the load of the
//! machine, but on the compiler, and a little on the C library and the CPU's features that it uses.

use std::fmt::Write;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use wakelab_lab::{CostsByPart, Part, PartCosts, costs_by_part, has_parts};

use crate::args::Format;
use crate::error::bad_input;
use crate::print;

const SCHEMA_VERSION: u32 = 1;
/// What valgrind should simulate and count, beside instructions: caches (of this machine's sizes) and branches.
const COUNTED: [&str; 4] = ["--tool=callgrind", "--dump-instr=yes", "--cache-sim=yes", "--branch-sim=yes"];

/// The document that docs/schema/bench-breakdown.schema.json describes.
#[derive(Serialize)]
struct Document {
    schema_version: u32,
    kind: &'static str,
    results: Vec<Breakdown>,
}

#[derive(Serialize)]
struct Breakdown {
    policy: String,
    /// Of one run.
    events: u64,
    instructions_per_event: f64,
    parts: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    part: Part,
    #[serde(flatten)]
    costs: PartCosts,
}

/// Counts for each policy, and prints the result. `arguments` are those of `wakelab bench` that choose the scenario.
pub(crate) fn run(arguments: &[String], policies: &[String], format: Format) -> Result<()> {
    let results = policies.iter().map(|policy| breakdown(arguments, policy)).collect::<Result<_>>()?;
    let document = Document { schema_version: SCHEMA_VERSION, kind: "bench-breakdown", results };
    match format {
        Format::Json => print::json(&document),
        Format::Text => print::text(&table(&document)?),
    }
}

fn breakdown(arguments: &[String], policy: &str) -> Result<Breakdown> {
    let (_, before) = counted(arguments, policy, 1)?;
    let (events, costs) = counted(arguments, policy, 2)?;
    if !has_parts(&costs) {
        return Err(bad_input(
            "this build does not name the source of its instructions; build it with --profile profiling",
        ));
    }
    let parts = Part::ALL.iter().zip(costs.iter().zip(&before));
    let parts: Vec<Row> = parts.map(|(&part, (&two, &one))| Row { part, costs: two.less(one) }).collect();
    let instructions: u64 = parts.iter().map(|row| row.costs.instructions).sum();
    Ok(Breakdown {
        policy: policy.to_owned(),
        events,
        instructions_per_event: instructions as f64 / events.max(1) as f64,
        parts,
    })
}

/// Runs the scenario `runs` times under valgrind. Returns the events of one run, and what all of them cost.
fn counted(arguments: &[String], policy: &str, runs: u32) -> Result<(u64, CostsByPart)> {
    let file = std::env::temp_dir().join(format!("wakelab-breakdown-{}-{runs}", std::process::id()));
    let mut command = Command::new("valgrind");
    command.args(COUNTED).arg(format!("--callgrind-out-file={}", file.display()));
    command.arg(std::env::current_exe()?).arg("bench").args(arguments);
    command.arg("--policy").arg(policy).arg("--runs").arg(runs.to_string());
    let output = command.stderr(Stdio::piped()).output().context("cannot start valgrind, which counts")?;
    if !output.status.success() {
        bail!("valgrind: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let events = String::from_utf8_lossy(&output.stdout);
    let events = events.trim().parse().with_context(|| format!("{events:?} under valgrind"))?;
    let counted = fs::read_to_string(&file);
    fs::remove_file(&file)
        .and(counted)
        .map(|text| (events, costs_by_part(&text)))
        .context(file.display().to_string())
}

fn table(document: &Document) -> Result<String> {
    let mut text = String::from("counts for each event, by valgrind's callgrind\n");
    for result in &document.results {
        let per_event = |count: u64| count as f64 / result.events.max(1) as f64;
        writeln!(text, "\n{}: {} events in a run", result.policy, result.events)?;
        writeln!(
            text,
            "{:18} {:>12} {:>6} {:>10} {:>9} {:>10} {:>13}",
            "part", "instructions", "share", "L1i misses", "L1d misses", "LL misses", "mispredicted"
        )?;
        let mut all = PartCosts::default();
        for Row { costs, .. } in &result.parts {
            all = all.plus(*costs);
        }
        let rows = result.parts.iter().map(|row| (row.part.label(), row.costs));
        for (label, costs) in rows.chain([("all", all)]) {
            writeln!(
                text,
                "{label:18} {:>12.1} {:>5.1}% {:>10.2} {:>10.2} {:>9.2} {:>13.2}",
                per_event(costs.instructions),
                100.0 * costs.instructions as f64 / all.instructions.max(1) as f64,
                per_event(costs.l1_instruction_misses),
                per_event(costs.l1_data_misses),
                per_event(costs.last_level_misses),
                per_event(costs.mispredictions),
            )?;
        }
    }
    Ok(text)
}
