// SPDX-License-Identifier: GPL-2.0-or-later
//! Writing a log: the header, records as they come, and how many were lost.

use std::io::{Result, Write};

use wakelab_policy::{LogHead, LogKind};
use zerocopy::IntoBytes;

use crate::Header;

/// Writes a log.
#[derive(Debug)]
pub struct Writer<W: Write> {
    to: W,
    records: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a log with its header.
    pub fn new(mut to: W, header: &Header) -> Result<Writer<W>> {
        to.write_all(&header.to_bytes())?;
        Ok(Writer { to, records: 0 })
    }

    /// A record as it is, whole.
    pub fn record(&mut self, bytes: &[u8]) -> Result<()> {
        self.records += 1;
        self.to.write_all(bytes)
    }

    /// How many records were written.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Hands on what is buffered, so that a reader finds it.
    pub fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }

    /// Ends the log: `lost` records of those that were made are not in it.
    pub fn end(mut self, lost: u64) -> Result<W> {
        let head = LogHead {
            size: size_of::<LogHead>() as u32,
            kind: LogKind::End as u16,
            args: [lost, self.records, 0, 0],
            ..LogHead::default()
        };
        self.to.write_all(head.as_bytes())?;
        self.to.flush()?;
        Ok(self.to)
    }
}
