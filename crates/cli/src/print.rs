// SPDX-License-Identifier: GPL-2.0-or-later
//! The only code that prints: results to stdout, complete and at once; notes and errors to stderr.

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

/// Writes a line to stderr. If that fails, the command goes on.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "wakelab: {line}");
}

/// Returns the style of tables. On a terminal they are as wide as the terminal, and coloured unless `NO_COLOR`,
/// `CLICOLOR` or `TERM` forbid it (<https://no-color.org>, <https://bixense.com/clicolors>). In a pipe they are
/// `COLUMNS` wide, or as wide as they need to be if that is not set.
pub(crate) fn style() -> Style {
    let terminal = console::Term::stdout();
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    Style {
        color: anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never,
        width: if terminal.is_term() { Some(usize::from(terminal.size().1)) } else { columns() },
    }
}

/// Returns a list of names with a line for each, and a hint about the next step.
pub(crate) fn index<'a>(rows: impl Iterator<Item = (&'a str, &'a str)> + Clone, hint: &str) -> String {
    let width = rows.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text: String = rows.map(|(name, about)| format!("{name:width$}  {about}\n")).collect();
    text.push_str(&format!("\n{hint}\n"));
    text
}

/// Returns the command line, as a shell would read it again.
pub(crate) fn command_line() -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=+.,:/%@".contains(c);
    let quoted = |argument: std::ffi::OsString| {
        let text = argument.to_string_lossy();
        let quoted = format!("'{}'", text.replace('\'', r"'\''"));
        if !text.is_empty() && text.chars().all(is_plain) { text.into_owned() } else { quoted }
    };
    let arguments: Vec<String> = std::env::args_os().skip(1).map(quoted).collect();
    format!("wakelab {}", arguments.join(" "))
}
