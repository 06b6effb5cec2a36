// SPDX-License-Identifier: GPL-2.0-or-later
//! The header of a log: everything that is needed to build its policy again.

use serde::{Deserialize, Serialize};
use wakelab_machine::Topology;
use wakelab_policy::{PolicySpec, Tables};

use crate::{Error, LOG_UNIT, Logged};

/// The first bytes of a log.
pub(crate) const MAGIC: &[u8; 8] = b"WAKELOG\0";
/// Version of the format, including that of records.
pub(crate) const VERSION: u32 = 3;
/// Size of the magic, the version and the length of the JSON text.
pub(crate) const PREFIX: usize = 16;

/// The header's JSON text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The policy, as `--policy` takes it.
    pub policy: String,
    /// The tick that the policy was told, in ns.
    pub tick_ns: u64,
    /// Slots of task groups, including the root's; 0: the host had no groups.
    pub nr_groups: usize,
    /// Bytes of `struct wl_policy`, in the build that wrote the log.
    pub policy_bytes: u32,
    /// Bytes of `struct wl_task`.
    pub task_bytes: u32,
    /// The machine.
    pub topology: Topology,
}

impl Header {
    /// The header of a log that this build writes.
    pub fn new(spec: &PolicySpec, topology: &Topology, tick_ns: u64, nr_groups: usize) -> Header {
        let (policy_bytes, task_bytes) = Logged::BYTES;
        Header {
            policy: spec.to_string(),
            tick_ns,
            nr_groups,
            policy_bytes: policy_bytes as u32,
            task_bytes: task_bytes as u32,
            topology: topology.clone(),
        }
    }

    /// The header as bytes: the prefix, then the text, filled with spaces to a multiple of a record's unit.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("plain data");
        text.resize(text.len().next_multiple_of(LOG_UNIT), b' ');
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text);
        bytes
    }

    /// Reads the header of a file. Also returns its size in bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(Header, usize), Error> {
        if bytes.get(..8) != Some(MAGIC.as_slice()) {
            return Err(Error::format(0, "no log of scx_wakelab", "the word WAKELOG and a zero byte"));
        }
        let number =
            |at: usize| bytes.get(at..at + 4).map(|four| u32::from_le_bytes(four.try_into().unwrap()));
        let (Some(version), Some(length)) = (number(8), number(12)) else {
            return Err(Error::format(bytes.len() as u64, "the end of the file", "a version and a length"));
        };
        if version != VERSION {
            return Err(Error::format(8, format!("version {version}"), format!("version {VERSION}")));
        }
        let end = PREFIX + length as usize;
        let Some(text) = bytes.get(PREFIX..end) else {
            return Err(Error::format(
                bytes.len() as u64,
                "the end of the file",
                format!("a header of {length} bytes"),
            ));
        };
        let header: Header = serde_json::from_slice(text)
            .map_err(|error| Error::format(PREFIX as u64, error.to_string(), "the header's JSON text"))?;
        let found = (header.policy_bytes as usize, header.task_bytes as usize);
        let ours = Logged::BYTES;
        if found != ours {
            let sizes = |(policy, task)| format!("state of {policy} bytes and tasks of {task}");
            return Err(Error::format(
                PREFIX as u64,
                format!("a log of another version of scx_wakelab, with {}", sizes(found)),
                sizes(ours),
            ));
        }
        Ok((header, end))
    }

    /// Parses the policy.
    ///
    /// # Errors
    /// If this build has no such policy.
    pub fn spec(&self) -> Result<PolicySpec, Error> {
        self.policy.parse().map_err(|error: wakelab_policy::Error| Error::Policy(error.to_string()))
    }

    /// Returns an instance of the log's policy with room for `nr_tasks` tasks.
    pub(crate) fn instance(&self, nr_tasks: usize) -> Result<Logged, Error> {
        let spec = self.spec()?;
        let policy = |error: wakelab_policy::Error| Error::Policy(error.to_string());
        let tables = Tables::build(&self.topology, &spec).map_err(policy)?;
        Logged::new(&spec, &tables, self.tick_ns, self.nr_groups, nr_tasks).map_err(policy)
    }
}
