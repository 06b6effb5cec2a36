// SPDX-License-Identifier: GPL-2.0-or-later
//! What a machine is: CPUs, what they share, and what things cost.

mod check;
mod costs;
mod counts;
mod error;
mod file;
mod presets;
mod topology;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use costs::{Costs, IdleState};
pub use error::MachineError;
pub use presets::presets;
pub use topology::{Cpu, Distance, Distances, MAX_CPUS, Topology};

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

impl Machine {
    /// The machine that [`presets`] lists under this name.
    pub fn preset(name: &str) -> Result<Machine, MachineError> {
        if let Some(machine) = presets::built_in(name) {
            return machine;
        }
        Err(unknown(name))
    }

    /// Reads the text of a machine file (format: machines/README.md). `file_name` stands in messages, and its stem is
    /// the machine's name.
    pub fn from_toml(text: &str, file_name: &str) -> Result<Machine, MachineError> {
        let stem = Path::new(file_name).file_stem().map_or(file_name.into(), |stem| stem.to_string_lossy());
        file::read_machine(text, &stem, file_name)
    }

    /// Refuses a machine that cannot be. Machines from files and presets are checked already; one that was
    /// deserialised is not.
    pub fn check(&self) -> Result<(), MachineError> {
        check::check_topology(&self.topology)?;
        Ok(check::check_costs(&self.topology, &self.costs)?)
    }
}

fn unknown(name: &str) -> MachineError {
    let known: Vec<&str> = presets().iter().map(|(name, _)| *name).collect();
    MachineError::Unknown { name: name.to_owned(), known: known.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smp_8_is_eight_cores_behind_one_llc() {
        let machine = Machine::preset("smp-8").unwrap();
        machine.check().unwrap();
        let topology = &machine.topology;
        assert_eq!((topology.nr_cpus(), topology.nr_nodes(), topology.max_threads()), (8, 1, 1));
        assert_eq!(topology.siblings(3), [3]);
        assert_eq!(topology.llc_cpus(3), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(topology.distances_present(), [Distance::Cpu, Distance::Llc]);
        assert_eq!(machine.costs.line_transfer_ps[Distance::Llc.index()], 40_000);
        assert_eq!(machine.sources.len(), 17);
    }
}
