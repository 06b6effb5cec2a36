// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab policies`: the policies and their axes, or one policy, axis or value.

use std::fmt::Write;

use anyhow::{Context, Result};
use clap::Args;
use wakelab_policy::{Axis, AxisValue, PolicySpec};
use wakelab_report::list;

use crate::args::{Format, FormatArg};
use crate::error::bad_input;
use crate::print;

/// CPUs and tick for which the defaults of tunables are shown. From 8 CPUs on, Linux's defaults no longer grow.
const SHOWN_CPUS: usize = 8;
const SHOWN_TICK_NS: u64 = 4_000_000;

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab policies\n  \
    wakelab policies linux-4.15+idle=smt-balance\n  \
    wakelab policies idle\n  \
    wakelab policies idle=smt-balance")]
pub(crate) struct PoliciesArgs {
    /// What to describe: a policy, NAME[+axis=value...]; an axis; or axis=value
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    format: FormatArg,
}

/// Prints policies and axes, or one of them.
pub(crate) fn run(args: &PoliciesArgs) -> Result<()> {
    let format = args.format.format;
    let Some(name) = &args.name else {
        return match format {
            Format::Json => print::json(&list::policies()),
            Format::Text => print::text(&all()?),
        };
    };
    if let Some(axis) =
        PolicySpec::axes().iter().find(|axis| axis.name == name.split('=').next().unwrap_or(name))
    {
        return show_axis(name, axis, format);
    }
    let spec: PolicySpec = name.parse().map_err(|error| {
        let mut meant = wakelab_ask::policy_meant(name);
        if meant.is_empty() {
            meant = wakelab_ask::did_you_mean(name, PolicySpec::axes().iter().map(|axis| axis.name));
        }
        bad_input(format!("{error}{meant}"))
    })?;
    match format {
        Format::Json => print::json(&list::policy(&spec)),
        Format::Text => print::text(&one(name, &spec)?),
    }
}

fn all() -> Result<String> {
    let mut text = String::from("policies\n");
    for policy in PolicySpec::named() {
        writeln!(text, "  {:24} {}", policy.name, policy.description)?;
    }
    text.push_str("kernels, by the nearest policy\n");
    for alias in PolicySpec::aliases() {
        writeln!(text, "  {:24} {}", alias.name, alias.description)?;
    }
    text.push_str("axes: NAME+axis=value\n");
    for axis in PolicySpec::axes() {
        text.push_str(&axis_text(axis)?);
    }
    text.push_str("tunables: NAME+tunable=nanoseconds\n");
    for (name, description) in PolicySpec::tunables() {
        writeln!(text, "  {name:24} {description}")?;
    }
    text.push_str("\nwakelab policies NAME describes a policy; NAME may also be axis or axis=value\n");
    Ok(text)
}

fn axis_text(axis: &Axis) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "  {:24} {}", axis.name, axis.description)?;
    for value in axis.values {
        writeln!(text, "    {:22} {}", value.name, value.description)?;
    }
    Ok(text)
}

/// Prints `AXIS` or `AXIS=VALUE`.
fn show_axis(name: &str, axis: &Axis, format: Format) -> Result<()> {
    if format == Format::Json {
        return Err(bad_input(format!(
            "--format json: '{name}' is no policy; the JSON of `wakelab policies` has all axes and values"
        )));
    }
    let Some((_, value)) = name.split_once('=') else { return print::text(&axis_text(axis)?) };
    let Some(found) = axis.values.iter().find(|known| known.name == value) else {
        let known = axis.values.iter().map(|value| value.name);
        let list = known.clone().collect::<Vec<_>>().join(", ");
        let meant = wakelab_ask::did_you_mean(value, known);
        return Err(bad_input(format!(
            "axis '{}' has no value '{value}'; expected one of {list}{meant}",
            axis.name
        )));
    };
    print::text(&value_text(axis, found))
}

fn value_text(axis: &Axis, value: &AxisValue) -> String {
    let mut text = format!("{}={}: {}\n", axis.name, value.name, value.description);
    if let Some((other, values)) = axis.with {
        text.push_str(&format!("Used only with {other}={}.\n", values.join(" or ")));
    }
    if !value.text.is_empty() {
        text = format!("{text}\n{}\n", value.text);
    }
    text
}

/// Describes a policy with all its overrides.
fn one(name: &str, spec: &PolicySpec) -> Result<String> {
    // A policy with overrides still approximates the kernel that its first word names.
    let base = name.split('+').next().unwrap_or(name);
    let alias = PolicySpec::aliases().iter().find(|alias| alias.name == base);
    let base = alias.map_or(base, |alias| alias.policy.split('+').next().unwrap_or(alias.policy));
    let named =
        PolicySpec::named().iter().find(|policy| policy.name == base).context("its name was parsed")?;
    let description = alias.map_or(named.description, |alias| alias.description);
    let mut text = format!("{spec}\n{description}");
    let changes: Vec<String> = name.split('+').skip(1).map(|change| change.replacen('=', " = ", 1)).collect();
    if !changes.is_empty() {
        write!(text, "; changed: {}", changes.join(", "))?;
    }
    text.push_str("\n\naxes\n");
    let chosen = serde_json::to_value(spec)?;
    for axis in PolicySpec::axes() {
        let value = chosen.get(axis.name).and_then(|value| value.as_str()).unwrap_or_default();
        let about =
            axis.values.iter().find(|known| known.name == value).map_or("", |known| known.description);
        let about = match axis.with {
            Some((other, values)) if !values.iter().any(|value| chosen[other] == *value) => {
                format!("Not used: only with {other}={}.", values.join(" or "))
            }
            _ => about.to_owned(),
        };
        writeln!(text, "  {:24} {value:16} {about}", axis.name)?;
    }
    for line in PolicySpec::ignored(name, false) {
        writeln!(text, "  {line}")?;
    }
    text.push_str(&tunables(spec)?);
    if let Some(alias) = alias {
        text.push_str(&differences(&format!("what is special about {}:", alias.name), alias.differences)?);
    }
    text.push_str(&differences(
        &format!("where {} differs from that kernel:", named.name),
        named.approximations,
    )?);
    Ok(text)
}

/// Lists the tunables with the values that the policy uses.
fn tunables(spec: &PolicySpec) -> Result<String> {
    let params = spec.params(SHOWN_CPUS, SHOWN_TICK_NS).map_err(bad_input)?;
    let mut text = format!("tunables, in nanoseconds (defaults for {SHOWN_CPUS} CPUs)\n");
    let used = [
        ("latency", params.latency_ns),
        ("min-granularity", params.min_granularity_ns),
        ("wakeup-granularity", params.wakeup_granularity_ns),
        ("migration-cost", params.migration_cost_ns),
        ("shares-min", params.shares_min_ns),
        ("shares-max", params.shares_max_ns),
        ("wait-max", params.wait_max_ns),
    ];
    for (name, about) in PolicySpec::tunables() {
        let value = used.iter().find(|(known, _)| *known == name.trim_end_matches("-ns"));
        let value = value.map_or_else(String::new, |(_, ns)| ns.to_string());
        writeln!(text, "  {name:24} {value:16} {about}")?;
    }
    Ok(text)
}

/// Lists sentences below a title: how a policy differs from the kernel of its name.
fn differences(title: &str, sentences: &[&str]) -> Result<String> {
    let mut text = String::new();
    if sentences.is_empty() {
        return Ok(text);
    }
    writeln!(text, "{title}")?;
    for sentence in sentences {
        writeln!(text, "  - {sentence}")?;
    }
    Ok(text)
}
