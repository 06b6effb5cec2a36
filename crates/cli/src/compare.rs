// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab compare` and `wakelab run`: resolve, run, print.

use anyhow::{Context, Result};
use wakelab_report::{Comparison, Style};
use wakelab_sim::Outcome;
use wakelab_trace::Recording;

use crate::args::{CompareArgs, Format, RunArgs};
use crate::resolve::{bad_input, comparison, single};
use crate::{events, print, resolve, runner};

/// Runs all policies with all seeds and prints the comparison.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    let threads = runner::threads(args.seeds.threads)?;
    run_and_print(&comparison(args)?, threads, args.format)
}

/// `wakelab run`: one policy, one seed.
pub(crate) fn run_one(args: &RunArgs) -> Result<()> {
    let resolved = single(args)?;
    let Some(path) = &args.events else { return run_and_print(&resolved, 1, args.format) };
    let scenario = &resolved.scenarios[0];
    scenario.check().map_err(bad_input)?;
    let outcome = events::export(scenario, args.seed, path, &format!("policy {}", args.policy))?;
    print_comparison(&resolved, &[vec![outcome]], args.format)
}

fn run_and_print(resolved: &resolve::Comparison, threads: usize, format: Format) -> Result<()> {
    for scenario in &resolved.scenarios {
        scenario.check().map_err(bad_input)?;
    }
    let outcomes = runner::run_all(&resolved.scenarios, &resolved.seeds, threads).map_err(|failure| {
        let name = format!("policy {}", resolved.policy_names[failure.scenario]);
        failure.told(&name)
    })?;
    print_comparison(resolved, &outcomes, format)
}

fn print_comparison(resolved: &resolve::Comparison, outcomes: &[Vec<Outcome>], format: Format) -> Result<()> {
    let comparison = Comparison::new(&resolved.scenarios, &resolved.policy_names, outcomes)?;
    match format {
        Format::Json => {
            let recording = resolved.recording.as_ref().map(explained).transpose()?;
            print::json(&comparison.document(recording))
        }
        Format::Text => {
            let warning = resolved.recording.as_ref().and_then(Recording::warning);
            let mut text = warning.map(|warning| warning + "\n\n").unwrap_or_default();
            text.push_str(&comparison.text(&Style { color: print::colored(), width: print::width() }));
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

/// What the reader must know about the recording, in a few lines.
fn explanation(recording: &Recording) -> String {
    recording.notes().join("\n  ") + "\n"
}
