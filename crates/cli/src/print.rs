// SPDX-License-Identifier: GPL-2.0-or-later
//! The one place that prints: results to stdout, whole and at once; notes and errors to stderr.

use std::io::Write;

use anyhow::{Context, Result};
use serde::Serialize;
use wakelab_report::Style;

/// Writes finished text to stdout.
pub(crate) fn text(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut write = || {
        out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        out.flush()
    };
    write().context("cannot write the result to standard output")
}

/// Writes a document as JSON to stdout.
pub(crate) fn json(document: &impl Serialize) -> Result<()> {
    text(&serde_json::to_string_pretty(document)?)
}

/// Writes a line to stderr. A stderr that cannot be written to is no reason to stop.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "wakelab: {line}");
}

/// The style of tables. They are coloured on a terminal, unless `NO_COLOR`, `CLICOLOR` or `TERM` forbid it
/// (<https://no-color.org>, <https://bixense.com/clicolors>), and as wide as the terminal. In a pipe they are as wide
/// as `COLUMNS` says, and take the width that they need if it is not set.
pub(crate) fn style() -> Style {
    let terminal = console::Term::stdout();
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    Style {
        color: anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never,
        width: if terminal.is_term() { Some(usize::from(terminal.size().1)) } else { columns() },
    }
}

/// A list of names with one line each, and a hint about the next step.
pub(crate) fn index<'a>(rows: impl Iterator<Item = (&'a str, &'a str)> + Clone, hint: &str) -> String {
    let width = rows.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text: String = rows.map(|(name, about)| format!("{name:width$}  {about}\n")).collect();
    text.push_str(&format!("\n{hint}\n"));
    text
}
