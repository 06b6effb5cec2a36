// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes a log: the header, records as they come, and the number of lost ones.

use std::io::{Result, Write};

use wakelab_policy::{Event, EventKind};
use zerocopy::IntoBytes;

use crate::{Header, LogHead};

/// Writes a log.
#[derive(Debug)]
pub struct Writer<W: Write> {
    to: W,
    records: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a log with its header.
    pub fn new(mut to: W, header: &Header) -> Result<Writer<W>> {
        to.write_all(&header.to_bytes())?;
        Ok(Writer { to, records: 0 })
    }

    /// Writes a whole record as it is.
    pub fn record(&mut self, bytes: &[u8]) -> Result<()> {
        self.records += 1;
        self.to.write_all(bytes)
    }

    /// The number of records written.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Writes out buffered records, so that a reader finds them.
    pub fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }

    /// Ends the log. `lost` is the number of records that were made and are not in it.
    pub fn end(mut self, lost: u64) -> Result<W> {
        let event = Event { value: lost, ..Event::new(EventKind::None, 0, 0) };
        let head = LogHead { size: size_of::<LogHead>() as u32, event, ..LogHead::default() };
        self.to.write_all(head.as_bytes())?;
        self.to.flush()?;
        Ok(self.to)
    }
}
