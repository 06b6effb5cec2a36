// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab workloads`: the workload models, or one of them with its parameters.

use std::fmt::Write;

use anyhow::Result;
use clap::Args;
use wakelab_machine::{printable, printable_lines};
use wakelab_report::list;
use wakelab_workload::{Allowed, Description};

use crate::args::{Format, FormatArg};
use crate::error::bad_input;
use crate::print;

#[derive(Args)]
#[command(after_help = "Examples:\n  wakelab workloads\n  wakelab workloads hackbench")]
pub(crate) struct WorkloadsArgs {
    /// Workload to describe: a name from `wakelab workloads`, or FILE.toml
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    format: FormatArg,
}

/// Prints the workloads or one of them.
pub(crate) fn run(args: &WorkloadsArgs) -> Result<()> {
    let describe = |name: &str| {
        wakelab_workload::describe(name)
            .map_err(|error| bad_input(format!("{error}{}", wakelab_ask::workload_meant(name))))
    };
    let Some(name) = &args.name else {
        let all = wakelab_workload::presets().map(describe).collect::<Result<Vec<_>>>()?;
        return match args.format.format {
            Format::Json => print::json(&list::workloads(&all)),
            Format::Text => {
                let rows = all.iter().map(|workload| (workload.name.as_str(), workload.summary.as_str()));
                print::text(&print::index(rows, "wakelab workloads NAME shows one and its parameters"))
            }
        };
    };
    let workload = describe(name)?;
    match args.format.format {
        Format::Json => print::json(&list::workload(&workload)),
        Format::Text => print::text(&text(&workload)?),
    }
}

fn text(workload: &Description) -> Result<String> {
    let mut text = format!(
        "{}: {}\n\n{}\n\n",
        printable(&workload.name),
        printable(&workload.summary),
        printable_lines(workload.text.trim())
    );
    writeln!(text, "parameters: {}:key=value,...", printable(&workload.name))?;
    for param in &workload.params {
        let allowed = match &param.allowed {
            Allowed::Range { min, max } => format!("{min} to {max}"),
            Allowed::Choices(choices) => choices.join(" or "),
        };
        let line = format!("{:20} {} [default: {}; {allowed}]", param.name, param.help, param.default);
        writeln!(text, "  {}", printable(&line))?;
    }
    Ok(text)
}
