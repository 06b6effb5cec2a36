// SPDX-License-Identifier: GPL-2.0-or-later
//! What a machine is: CPUs, what they share, and what things cost.

mod costs;
mod topology;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use costs::{Costs, IdleState};
pub use topology::{Cpu, Distance, Topology};

/// A machine as the simulator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Preset name, or the file's stem.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// CPUs and nodes.
    pub topology: Topology,
    /// What things cost.
    pub costs: Costs,
    /// Where each figure of `costs` is from, by its key in the file; `estimate` where no source was found.
    pub sources: BTreeMap<String, String>,
}
