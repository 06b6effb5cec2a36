// SPDX-License-Identifier: GPL-2.0-or-later
//! The one place that writes results: whole, at once, to stdout.

use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::Result;
use serde::Serialize;

/// Writes finished text to stdout.
pub(crate) fn text(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Writes a document as JSON to stdout.
pub(crate) fn json(document: &impl Serialize) -> Result<()> {
    text(&serde_json::to_string_pretty(document)?)
}

/// Whether tables may be coloured: a terminal, and no `NO_COLOR` (<https://no-color.org>).
pub(crate) fn colored() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Columns of the terminal; `None` in a pipe, where tables take what they need.
pub(crate) fn width() -> Option<usize> {
    let term = console::Term::stdout();
    term.is_term().then(|| usize::from(term.size().1))
}

/// Whether an error only says that nobody reads stdout any more.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
