// SPDX-License-Identifier: GPL-2.0-or-later
//! Machines that have some parts of one machine and some of another, to find the part that makes a difference.
//!
//! The parts are the *topology*, with the speeds of SMT threads, because these belong to its cores; the *capacities*
//! of the CPUs, if that is all that differs in the topology; and the costs, group by group as `wakelab machines NAME`
//! prints them. Costs by distance have a value for every distance, also for those that a machine lacks: there it is
//! that of the next nearer one. A mixture that is no machine is refused.

use crate::costs::{COSTS, Cost};
use crate::{Machine, MachineError, Topology};

/// The parts that are no group of costs.
const TOPOLOGY: &str = "topology";
const CAPACITIES: &str = "capacities";
/// The group of costs that belongs to the topology.
const CORES: &str = "cores";

impl Machine {
    /// Returns the parts in which the machines differ: their names, and both sides in words.
    pub fn differences(&self, other: &Machine) -> Vec<(String, String, String)> {
        let mut found = Vec::new();
        let differs = |cost: &&Cost| (cost.get)(&self.costs) != (cost.get)(&other.costs);
        if let Some(part) = self.topology_part(other) {
            let words = |machine: &Machine| match machine.topology.nr_cpus() {
                1 => "1 CPU".to_owned(),
                several => format!("{several} CPUs"),
            };
            let [own, its] = [words(self), words(other)];
            found.push((part.to_owned(), own, its));
        }
        for cost in COSTS.iter().filter(differs) {
            let is_known = found.iter().any(|(name, ..)| *name == cost.group);
            let belongs = cost.group == CORES && found.iter().any(|(name, ..)| name == TOPOLOGY);
            if !is_known && !belongs {
                found.push((cost.group.to_owned(), self.name.clone(), other.name.clone()));
            }
        }
        found
    }

    fn topology_part(&self, other: &Machine) -> Option<&'static str> {
        if self.topology == other.topology {
            return None;
        }
        let level = |topology: &Topology| {
            let mut level = topology.clone();
            level.cpus.iter_mut().for_each(|cpu| cpu.capacity = 1024);
            level
        };
        let is_same = level(&self.topology) == level(&other.topology);
        Some(if is_same { CAPACITIES } else { TOPOLOGY })
    }

    /// Returns this machine with these parts of `other`: names that [`Machine::differences`] returned.
    ///
    /// # Errors
    /// The mixture is no machine.
    pub fn with_parts_of(&self, other: &Machine, parts: &[&str]) -> Result<Machine, MachineError> {
        let mut machine = self.clone();
        let has = |part: &str| parts.contains(&part);
        if has(TOPOLOGY) || has(CAPACITIES) {
            machine.topology = other.topology.clone();
        }
        for cost in COSTS.iter().filter(|cost| has(cost.group) || (cost.group == CORES && has(TOPOLOGY))) {
            (cost.set)(&mut machine.costs, (cost.get)(&other.costs));
            let source = other.sources.get(cost.key).cloned().unwrap_or_default();
            machine.sources.insert(cost.key.to_owned(), source);
        }
        machine.name = format!("{} with {} of {}", self.name, parts.join(" and "), other.name);
        machine.check().map_err(|error| MachineError::Invalid {
            what: format!("{}: {error}", machine.name),
            expected: "two machines whose parts can be exchanged".to_owned(),
        })?;
        Ok(machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_another_machine_make_that_machine() {
        let [a, b] = ["xeon-2s22c2t", "power9-2s22c4t"].map(|name| Machine::preset(name).unwrap());
        let parts: Vec<String> = a.differences(&b).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(parts[0], "topology");
        assert!(!parts.contains(&"cores".to_owned()), "{parts:?}");
        let names: Vec<&str> = parts.iter().map(String::as_str).collect();
        let whole = a.with_parts_of(&b, &names).unwrap();
        assert_eq!((whole.topology, whole.costs), (b.topology.clone(), b.costs.clone()));
        let half = a.with_parts_of(&b, &["scheduler"]).unwrap();
        assert_eq!((half.topology, half.costs.wakeup_ns), (a.topology.clone(), b.costs.wakeup_ns));
        assert_eq!(half.costs.idle_states, a.costs.idle_states);
        assert_eq!(a.differences(&a), []);
    }

    #[test]
    fn capacities_alone_are_a_part() {
        let a = Machine::preset("smp-8").unwrap();
        let mut b = a.clone();
        b.topology.cpus[0].capacity = 512;
        let differences = a.differences(&b);
        assert_eq!((differences.len(), differences[0].0.as_str()), (1, "capacities"));
        assert_eq!(a.with_parts_of(&b, &["capacities"]).unwrap().topology, b.topology);
    }
}
