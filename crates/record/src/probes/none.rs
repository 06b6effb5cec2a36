// SPDX-License-Identifier: GPL-2.0-or-later
//! What stands for the BPF programs of messages where they are not built in (feature `bpf`).

use std::fs::File;
use std::io;

/// Programs that are never loaded: there is no value of this type.
pub(crate) enum Probes {}

impl Probes {
    /// Refuses, because there are no programs.
    pub(crate) fn load(_ring_bytes: u32) -> io::Result<Probes> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn attach(&mut self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn detach(&mut self) {
        match *self {}
    }

    pub(crate) fn measure(&mut self) -> io::Result<Option<u64>> {
        match *self {}
    }

    pub(crate) fn end(self) -> io::Result<(File, u64)> {
        match self {}
    }
}
