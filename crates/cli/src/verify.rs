// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab verify`: replays a log of scx_wakelab (docs/guide/log.md) through the native policy.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use wakelab_log::{Counts, Difference, Document, Log, Rebuilt, Verified, rebuild, verify};
use wakelab_policy::EventKind;

use crate::args::{Format, FormatArg};
use crate::error::bad_input;
use crate::print;

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sudo scx_wakelab --log wakeups.log      # Ctrl-C ends it\n  \
    wakelab verify wakeups.log\n  \
    wakelab verify wakeups.log --format json --no-events\n\n\
    Exit codes: 0 all decisions match, 1 some differ, 2 the file is not a log or has another version. Decisions from \
    rebuilt state may differ for the reasons that are named; they do not affect the exit code.")]
pub(crate) struct VerifyArgs {
    /// Log that `scx_wakelab --log` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Do not check decisions against state rebuilt from the log's events
    #[arg(long)]
    no_events: bool,
    /// Print at most N differences; a larger value shows more. JSON has all of them
    #[arg(long, value_name = "N", default_value_t = 20)]
    differences: usize,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) fn run(args: &VerifyArgs) -> Result<()> {
    let named = |error: &dyn std::fmt::Display| bad_input(format!("{}: {error}", args.file.display()));
    let bytes = std::fs::read(&args.file).map_err(|error| named(&error))?;
    let log = Log::parse(&bytes).map_err(|error| named(&error))?;
    let verified = verify(&log).map_err(|error| named(&error))?;
    let rebuilt = match args.no_events {
        true => None,
        false => Some(rebuild(&log).map_err(|error| named(&error))?),
    };
    match args.format.format {
        Format::Json => print::json(&Document::new(&log, &verified, rebuilt.as_ref()))?,
        Format::Text => print::text(&text(&log, &verified, rebuilt.as_ref(), args.differences)?)?,
    }
    let total = verified.total();
    let differ = total.questions - total.agreed - total.cut;
    if differ > 0 {
        bail!("{differ} of {} answers differ", total.questions);
    }
    Ok(())
}

fn text(log: &Log<'_>, verified: &Verified, rebuilt: Option<&Rebuilt>, most: usize) -> Result<String> {
    let header = &log.header;
    let mut text = format!(
        "{} on {} CPUs, tick {} ns: {} records, {} lost\n",
        header.policy,
        header.topology.nr_cpus(),
        header.tick_ns,
        log.len(),
        log.lost()
    );
    if let Some(byte) = log.cut_at() {
        writeln!(text, "the file ends within the record that begins at byte {byte}")?;
    } else if !log.has_end() {
        writeln!(text, "the log has no end: its writer was killed")?;
    }
    writeln!(text, "\nAnswered again from what was read:")?;
    table(&mut text, &verified.kinds, true)?;
    if let Some(rebuilt) = rebuilt {
        writeln!(text, "\nAnswered from the state that the events make, one CPU after the other:")?;
        table(&mut text, &rebuilt.kinds, false)?;
        for (race, answers) in &rebuilt.races {
            writeln!(text, "  {answers:>9} differ: {}", race.meaning())?;
        }
    }
    for difference in verified.differences.iter().take(most) {
        describe(&mut text, difference)?;
    }
    if verified.differences.len() > most {
        writeln!(text, "and {} more differences", verified.differences.len() - most)?;
    }
    Ok(text)
}

fn table(text: &mut String, kinds: &[(EventKind, Counts)], has_cut: bool) -> Result<()> {
    let mut row = |name: &str, counts: &Counts| -> Result<()> {
        let compared = counts.questions - counts.cut;
        let percent = match compared {
            0 => "-".to_owned(),
            _ => format!("{:.2} %", counts.agreed as f64 * 100.0 / compared as f64),
        };
        write!(text, "  {name:<10} {:>9} asked {:>9} alike {percent:>9}", counts.questions, counts.agreed)?;
        if has_cut && counts.cut > 0 {
            write!(text, " {:>9} too long to be recorded whole", counts.cut)?;
        }
        text.push('\n');
        Ok(())
    };
    let mut total = Counts::default();
    for (kind, counts) in kinds {
        row(kind.name(), counts)?;
        total.questions += counts.questions;
        total.agreed += counts.agreed;
        total.cut += counts.cut;
    }
    row("all", &total)
}

fn describe(text: &mut String, difference: &Difference) -> Result<()> {
    let Difference { record, offset, cpu, now_ns, kind, task, field, live, native } = difference;
    let of = if *task == 0 { String::new() } else { format!(" of task {task}") };
    writeln!(
        text,
        "record {record} (byte {offset}), CPU {cpu} at {now_ns} ns, {}{of}: {field}: log {live}, native {native}",
        kind.name()
    )?;
    Ok(())
}
