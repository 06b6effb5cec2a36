// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab compare`: resolve, run, print.

use anyhow::{Context, Result, anyhow};
use wakelab_report::{Comparison, Style};
use wakelab_sim::SimError;
use wakelab_trace::Recording;

use crate::args::{CompareArgs, Format};
use crate::resolve::{bad_input, comparison};
use crate::{print, runner};

/// Runs all policies with all seeds and prints the comparison.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    let resolved = comparison(args)?;
    for scenario in &resolved.scenarios {
        scenario.check().map_err(bad_input)?;
    }
    let threads = runner::threads(args.threads)?;
    let outcomes = runner::run_all(&resolved.scenarios, &resolved.seeds, threads).map_err(|failure| {
        let name = &resolved.policy_names[failure.scenario];
        match failure.error {
            SimError::Invariant { .. } => anyhow!(
                "policy {name}, seed {}: {}; this is a defect of wakelab, please report it with the command line",
                failure.seed,
                failure.error
            ),
            error => bad_input(format!("policy {name}, seed {}: {error}", failure.seed)),
        }
    })?;
    let comparison = Comparison::new(&resolved.scenarios, &resolved.policy_names, &outcomes)?;
    match args.format {
        Format::Json => {
            let recording = resolved.recording.as_ref().map(explained).transpose()?;
            print::json(&comparison.document(recording))
        }
        Format::Text => {
            let mut text = comparison.text(&Style { color: print::colored(), width: print::width() });
            if let Some(recording) = &resolved.recording {
                text.push('\n');
                text.push_str(&explanation(recording));
            }
            print::text(&text)
        }
    }
}

/// What the JSON says about a recording: everything but the workload, which the scenario holds.
fn explained(recording: &Recording) -> Result<serde_json::Value> {
    let mut value = serde_json::to_value(recording)?;
    value.as_object_mut().context("a recording is a struct")?.remove("workload");
    Ok(value)
}

/// How much of a recording could be explained, in a few lines.
fn explanation(recording: &Recording) -> String {
    let explained = &recording.explained;
    let permille = explained.permille();
    let mut text = format!(
        "recording: {} events, {} tasks, {} CPUs, {:.3} s; {}.{} % of {} waits explained ({} ended by a task, {} from outside)\n",
        recording.events,
        recording.workload.tasks.len(),
        recording.nr_cpus,
        recording.duration_ns as f64 / 1e9,
        permille / 10,
        permille % 10,
        explained.waits,
        explained.by_task,
        explained.from_outside,
    );
    for (gap, seen) in &explained.gaps {
        text.push_str(&format!("  gap: {gap}: {} times, first in line {}\n", seen.count, seen.first_line));
    }
    if !explained.interrupts_known {
        text.push_str("  what an interrupt woke is put down to the task that it interrupted: the recording cannot tell\n");
    }
    if !explained.processes_known {
        text.push_str("  each thread is taken for a process of its own: the recording does not tell\n");
    }
    text
}
