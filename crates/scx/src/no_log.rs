// SPDX-License-Identifier: GPL-2.0-only
//! What plain.rs uses instead of log.rs: no log.

use std::time::Duration;

use anyhow::Result;
use wakelab_machine::Topology;
use wakelab_policy::PolicySpec;

use super::{OpenSkel, Skel};
use crate::arguments::Arguments;

/// Takes the place of the log in log.rs, and does nothing.
pub(crate) struct Log;

impl Log {
    pub(crate) fn prepare(_: &mut OpenSkel<'_>, _: &Arguments) -> Result<()> {
        Ok(())
    }

    pub(crate) fn begin(_: &Skel<'_>, _: &Arguments, _: &PolicySpec, _: &Topology, _: usize) -> Result<Log> {
        Ok(Log)
    }

    /// The interval at which the loader looks for events.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(100)
    }

    pub(crate) fn drain(&self) -> Result<()> {
        Ok(())
    }

    pub(crate) fn end(self, _: &Skel<'_>, _: usize) -> Result<()> {
        Ok(())
    }
}
