// SPDX-License-Identifier: GPL-2.0-only
//! Printing to stdout, whose reader may leave at any time: `scx_wakelab --stats 5 | head`.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// Prints a line to stdout. Returns false if stdout has no reader any more.
pub(crate) fn say(text: impl Display) -> Result<bool> {
    say_to(&mut std::io::stdout().lock(), text)
}

fn say_to(out: &mut impl Write, text: impl Display) -> Result<bool> {
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to stdout"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_left_is_no_error() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert!(say_to(&mut writer, "read").unwrap());
        drop(reader);
        assert!(!say_to(&mut writer, "unread").unwrap());
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut full = std::fs::File::create("/dev/full").unwrap();
        assert!(say_to(&mut full, "text").unwrap_err().to_string().contains("cannot write to stdout"));
    }
}
