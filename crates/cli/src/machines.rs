// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab machines`: the machines, one of them with its topology and costs, how its estimates affect a result, or
//! what is measured of it.

use std::fmt::Write;

use anyhow::Result;
use clap::Args;
use wakelab_machine::printable_lines;
use wakelab_report::list;

use crate::args::{Format, MachineFormat};
use crate::error::bad_input;
use crate::measure::{self, MeasureArgs};
use crate::sensitivity::{self, SensitivityArgs};
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab machines power9-2s22c4t\n  \
    wakelab machines host --format toml > mine.toml\n  \
    wakelab machines host --measure --format toml > measured.toml\n  \
    wakelab machines host --core-to-core lines.csv --wult datapoints.csv\n  \
    wakelab machines xeon-2s22c2t --sensitivity hackbench:groups=2 --policy linux-4.15\n  \
    wakelab machines xeon-2s22c2t --sensitivity hackbench:groups=2 \\\n    \
        --policy linux-4.15 --policy linux-4.15+idle=smt-balance")]
pub(crate) struct MachinesArgs {
    /// Machine to show: a name from `wakelab machines`, `host` for this machine, or a file (.toml, or lstopo's .xml)
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Show how the result of WORKLOAD changes when each estimated figure of the machine is halved and doubled
    #[arg(long, value_name = "WORKLOAD", requires = "name", conflicts_with = "measure")]
    sensitivity: Option<String>,
    /// Format of the result
    #[arg(long, value_enum, default_value_t = MachineFormat::Text)]
    format: MachineFormat,
    #[command(flatten, next_help_heading = "Measured figures")]
    measured: MeasureArgs,
    #[command(flatten, next_help_heading = "With --sensitivity")]
    of_sensitivity: SensitivityArgs,
}

/// Prints machines, one machine, or its sensitivity.
pub(crate) fn run(args: &MachinesArgs) -> Result<()> {
    if let (true, Some(name)) = (args.measured.is_asked(), &args.name) {
        return measure::run(&args.measured, name, args.format);
    }
    let format = match (args.format, &args.name, &args.sensitivity) {
        (MachineFormat::Text, ..) => Format::Text,
        (MachineFormat::Json, ..) => Format::Json,
        (MachineFormat::Toml, Some(name), None) => {
            return print::text(&input::machine(name, &[])?.to_toml().map_err(bad_input)?);
        }
        (MachineFormat::Toml, ..) => {
            return Err(bad_input(
                "--format toml writes one machine as a machine file; expected its NAME only",
            ));
        }
    };
    let Some(name) = &args.name else { return show_list(format) };
    if let Some(workload) = &args.sensitivity {
        return sensitivity::run(&args.of_sensitivity, name, workload, format);
    }
    let machine = input::machine(name, &[])?;
    if format == Format::Json {
        return print::json(&list::machine(&machine));
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
    print::text(&printable_lines(&text))
}

fn show_list(format: Format) -> Result<()> {
    match format {
        Format::Json => print::json(&list::machines(wakelab_machine::presets())),
        Format::Text => print::text(&print::index(
            wakelab_machine::presets().iter().copied(),
            "wakelab machines NAME shows one; NAME may also be a file: machine.toml, or XML from lstopo",
        )),
    }
}
