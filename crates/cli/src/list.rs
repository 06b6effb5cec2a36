// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab machines`, `wakelab policies`, `wakelab workloads`: what there is, and one of each in detail.

use std::fmt::Write;

use anyhow::{Context, Result};
use wakelab_experiment::Experiment;
use wakelab_machine::Machine;
use wakelab_policy::PolicySpec;
use wakelab_report::list as documents;
use wakelab_workload::{Allowed, Description};

use crate::args::{Format, ListArgs, MachinesArgs};
use crate::resolve::bad_input;
use crate::{changed, print};

/// Machines, or one with its tree and its costs.
pub(crate) fn machines(args: &MachinesArgs) -> Result<()> {
    let Some(name) = &args.name else {
        return match args.format {
            Format::Json => print::json(&documents::machines(wakelab_machine::presets())),
            Format::Text => {
                let rows = wakelab_machine::presets().iter().copied();
                print::text(&index(
                    rows,
                    "wakelab machines NAME draws one; files work too: machine.toml, or XML from lstopo",
                ))
            }
        };
    };
    if let Some(workload) = &args.sensitivity {
        return changed::sensitivity(args, name, workload);
    }
    let machine = Machine::load(name).map_err(bad_input)?;
    if args.format == Format::Json {
        return print::json(&documents::machine(&machine));
    }
    let mut text = format!("{}\n{}", machine.description, machine.tree());
    let rows = machine.cost_rows();
    let width = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    let mut group = "";
    for row in rows {
        if row.group != group {
            group = row.group;
            writeln!(text, "\n{group}")?;
        }
        writeln!(text, "  {:width$}  {} {}", row.key, row.value, row.unit)?;
        writeln!(text, "  {:width$}    {}", "", row.source)?;
    }
    print::text(&text)
}

/// Policies and axes, or one policy.
pub(crate) fn policies(args: &ListArgs) -> Result<()> {
    match (&args.name, args.format) {
        (None, Format::Json) => print::json(&documents::policies()),
        (None, Format::Text) => print::text(&all_policies()?),
        (Some(name), format) => {
            let spec: PolicySpec = name.parse().map_err(bad_input)?;
            match format {
                Format::Json => print::json(&documents::policy(&spec)),
                Format::Text => print::text(&one_policy(name, &spec)?),
            }
        }
    }
}

fn all_policies() -> Result<String> {
    let mut text = String::from("policies\n");
    for policy in PolicySpec::named() {
        writeln!(text, "  {:24} {}", policy.name, policy.description)?;
    }
    text.push_str("axes: NAME+axis=value\n");
    for axis in PolicySpec::axes() {
        writeln!(text, "  {:24} {}", axis.name, axis.description)?;
        for value in axis.values {
            writeln!(text, "    {:22} {}", value.name, value.description)?;
        }
    }
    text.push_str("tunables: NAME+tunable=nanoseconds\n");
    for (name, description) in PolicySpec::tunables() {
        writeln!(text, "  {name:24} {description}")?;
    }
    Ok(text)
}

fn one_policy(name: &str, spec: &PolicySpec) -> Result<String> {
    // Overrides leave a policy the approximation of the kernel that its first word names.
    let base = name.split('+').next().unwrap_or(name);
    let named = PolicySpec::named().iter().find(|policy| policy.name == base);
    let mut text = format!("{spec}\n");
    if let Some(policy) = named {
        writeln!(text, "{}", policy.description)?;
    }
    let axes = serde_json::to_value(spec)?;
    for (axis, value) in axes.as_object().context("a policy is a struct")? {
        match value.as_str() {
            Some(word) => writeln!(text, "  {axis:24} {word}")?,
            None => writeln!(text, "  {axis:24} {value}")?,
        }
    }
    if let Some(policy) = named.filter(|policy| !policy.approximations.is_empty()) {
        writeln!(text, "where {} differs from that kernel:", policy.name)?;
        for sentence in policy.approximations {
            writeln!(text, "  - {sentence}")?;
        }
    }
    Ok(text)
}

/// Workload models, or one with its parameters.
pub(crate) fn workloads(args: &ListArgs) -> Result<()> {
    let read = |name: &str| wakelab_workload::describe(name).map_err(bad_input);
    let Some(name) = &args.name else {
        let all = wakelab_workload::presets().map(read).collect::<Result<Vec<_>>>()?;
        return match args.format {
            Format::Json => print::json(&documents::workloads(&all)),
            Format::Text => {
                let rows = all.iter().map(|workload| (workload.name.as_str(), workload.summary.as_str()));
                print::text(&index(rows, "wakelab workloads NAME shows one and its parameters"))
            }
        };
    };
    let workload = read(name)?;
    match args.format {
        Format::Json => print::json(&documents::workload(&workload)),
        Format::Text => print::text(&describe(&workload)?),
    }
}

fn describe(workload: &Description) -> Result<String> {
    let mut text = format!("{}: {}\n\n{}\n\n", workload.name, workload.summary, workload.text.trim());
    writeln!(text, "parameters: {}:key=value,...", workload.name)?;
    for param in &workload.params {
        let allowed = match &param.allowed {
            Allowed::Range { min, max } => format!("{min} to {max}"),
            Allowed::Choices(choices) => choices.join(" or "),
        };
        writeln!(text, "  {:20} {} [default: {}; {allowed}]", param.name, param.help, param.default)?;
    }
    Ok(text)
}

/// Published experiments.
pub(crate) fn experiments(format: Format) -> Result<()> {
    let load = |name: &str| Experiment::load(name).map_err(bad_input);
    let all = wakelab_experiment::presets().map(load).collect::<Result<Vec<_>>>()?;
    match format {
        Format::Json => print::json(&documents::experiments(&all)),
        Format::Text => {
            let rows = all.iter().map(|experiment| (experiment.name.as_str(), experiment.title.as_str()));
            print::text(&index(rows, "wakelab experiments NAME runs one"))
        }
    }
}

/// A list of names with a line each, and what to do next.
fn index<'a>(rows: impl Iterator<Item = (&'a str, &'a str)> + Clone, hint: &str) -> String {
    let width = rows.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text: String = rows.map(|(name, about)| format!("{name:width$}  {about}\n")).collect();
    text.push_str(&format!("\n{hint}\n"));
    text
}
