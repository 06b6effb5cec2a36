// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab compare` and `wakelab run`: resolve, run, print.

use anyhow::{Context, Result};
use wakelab_report::{Comparison, Style};
use wakelab_sim::Outcome;
use wakelab_trace::loops::LoopCount;
use wakelab_trace::{Explained, Recording};

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
    text.push_str(&loops(explained));
    if recording.runs > 1 {
        text.push_str(&format!(
            "  {} runs of it, each beginning when the one before has ended\n",
            recording.runs
        ));
    }
    if !explained.interrupts_known {
        text.push_str("  what an interrupt woke is put down to the task that it interrupted: the recording cannot tell\n");
    }
    if !explained.processes_known {
        text.push_str("  each thread is taken for a process of its own: the recording does not tell\n");
    }
    text
}

/// Whose sleeps end at times of their own, and how many others are woken from outside.
fn loops(explained: &Explained) -> String {
    let names = |open: bool| {
        let of = |(comm, count): (&String, &LoopCount)| {
            let (tasks, sleeps) =
                if open { (count.open, count.open_sleeps) } else { (count.closed, count.closed_sleeps) };
            let told = if count.told { ", as told" } else { "" };
            (tasks > 0).then(|| format!("{comm} ({tasks} tasks, {sleeps} sleeps{told})"))
        };
        explained.loops.iter().filter_map(of).collect::<Vec<_>>()
    };
    let line = |what: &str, names: &[String]| {
        if names.is_empty() { String::new() } else { format!("  {what}: {}\n", names.join(", ")) }
    };
    line("open loop, woken at times of their own", &names(true))
        + &line("closed loop, woken so long after they went to sleep", &names(false))
}
