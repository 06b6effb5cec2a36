// SPDX-License-Identifier: GPL-2.0-or-later
//! Machines that do not exist, by their shape: `BASE@pack:2 l3:4 core:8 pu:2`.
//!
//! The words are those of hwloc's synthetic topologies, from the outside in, each with how many there are in the part
//! before: `pack` (sockets), `numa` (nodes of a socket), `l3` (last-level caches of a node), `l2` (clusters of cores),
//! `core`, and `pu` (threads of a core). Parts that are left out are there once; without `l2` there are no clusters.
//! The costs are those of BASE. A distance that BASE does not have, such as that of clusters, costs there what the next
//! nearer one costs; `--cost` sets it.
//!
//! Worked example: `epyc-7742-2s@pack:1 l3:2 core:4 pu:2` has 2 caches of 4 cores of 2 threads, 16 CPUs.

use crate::check::MAX_CAPACITY;
use crate::counts::{Counts, Numbering};
use crate::{MAX_CPUS, Machine, MachineError, Topology};

/// Parts from the outside in.
const PARTS: [&str; 6] = ["pack", "numa", "l3", "l2", "core", "pu"];
/// What firmware says of two nodes: the same, of one socket, or of two.
const DISTANCES: [u32; 3] = [10, 12, 21];

/// Splits `BASE@SHAPE`; `None` for a name without a shape.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    name.split_once('@').filter(|(_, shape)| shape.contains(':'))
}

/// Returns the machine of this shape with the costs of `base`.
pub(crate) fn machine(base: &Machine, shape: &str) -> Result<Machine, MachineError> {
    let given = parse(shape)?;
    let count = |part: usize| given[part].unwrap_or(1);
    let nodes = count(0).saturating_mul(count(1));
    let counts = Counts {
        nodes,
        llcs_per_node: count(2),
        clusters_per_llc: given[3],
        cores: count(4),
        threads: count(5),
    };
    if counts.nr_cpus() > MAX_CPUS as u64 {
        return Err(refused(
            shape,
            &format!("it has {} CPUs", counts.nr_cpus()),
            &format!("at most {MAX_CPUS}"),
        ));
    }
    let distance = |a: u32, b: u32| match (a == b, a / count(1) == b / count(1)) {
        (true, _) => DISTANCES[0],
        (_, true) => DISTANCES[1],
        _ => DISTANCES[2],
    };
    let row = |a| (0..nodes).map(|b| distance(a, b)).collect();
    let cpus = counts.expand(Numbering::LinuxX86, MAX_CAPACITY);
    let mut topology = Topology { cpus, node_distance: (0..nodes).map(row).collect() };
    topology.renumber();
    let machine = Machine {
        name: format!("{}@{shape}", base.name),
        description: format!("{shape}, with the costs of {}", base.name),
        topology,
        ..base.clone()
    };
    machine.check()?;
    Ok(machine)
}

/// How many of each part there are, in the order of [`PARTS`]; `None` where the shape does not say.
fn parse(shape: &str) -> Result<[Option<u32>; PARTS.len()], MachineError> {
    let mut counts = [None; PARTS.len()];
    let mut next = 0;
    for word in shape.split_whitespace() {
        let (name, number) = word.split_once(':').unwrap_or((word, ""));
        let found = PARTS.iter().position(|part| *part == name).filter(|&part| part >= next);
        let number = number.parse::<u32>().ok().filter(|&number| (1..=MAX_CPUS as u32).contains(&number));
        let (Some(part), Some(number)) = (found, number) else {
            return Err(refused(
                shape,
                &format!("'{word}'"),
                "pack:N numa:N l3:N l2:N core:N pu:N in this order, each once at most, with N of 1 or more",
            ));
        };
        counts[part] = Some(number);
        next = part + 1;
    }
    Ok(counts)
}

fn refused(shape: &str, what: &str, expected: &str) -> MachineError {
    MachineError::Invalid { what: format!("shape '{shape}': {what}"), expected: expected.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distance;

    fn load(name: &str) -> Result<Machine, String> {
        Machine::load(name).map_err(|error| error.to_string())
    }

    #[test]
    fn a_shape_by_hand() {
        let machine = load("epyc-7742-2s@pack:1 l3:2 core:4 pu:2").expect("a machine");
        assert_eq!(
            (machine.name.as_str(), machine.topology.nr_cpus()),
            ("epyc-7742-2s@pack:1 l3:2 core:4 pu:2", 16)
        );
        let of = |cpu: usize| (machine.topology.cpus[cpu].core, machine.topology.cpus[cpu].llc);
        assert_eq!([of(0), of(3), of(4), of(8), of(15)], [(0, 0), (3, 0), (4, 1), (0, 0), (7, 1)]);
        assert_eq!(machine.costs, Machine::preset("epyc-7742-2s").unwrap().costs);
    }

    #[test]
    fn sockets_nodes_and_clusters_nest() {
        let machine = load("kunpeng920-4n96c@pack:2 numa:2 l3:1 l2:2 core:4").expect("a machine");
        let topology = &machine.topology;
        assert_eq!((topology.nr_cpus(), topology.node_distance.len()), (32, 4));
        assert_eq!(topology.node_distance[0], [10, 12, 21, 21]);
        assert_eq!((topology.cpus[3].cluster, topology.cpus[4].cluster), (Some(0), Some(1)));
        let far = [0, 4, 8, 16].map(|cpu| topology.distance(0, cpu));
        assert_eq!(far, [Distance::Cpu, Distance::Llc, Distance::Numa1, Distance::Numa2]);
    }

    #[test]
    fn wrong_shapes_are_refused() {
        for (shape, found) in [
            ("core:4 pack:2", "'pack:2'"),
            ("core:0", "'core:0'"),
            ("die:2", "'die:2'"),
            ("core:4 core:4", "'core:4'"),
            ("pack:64 core:4096", "it has 262144 CPUs"),
        ] {
            let error = load(&format!("smp-8@{shape}")).unwrap_err();
            assert!(error.contains(found), "{error}");
        }
        assert!(load("smp-9@core:4").unwrap_err().contains("smp-9"));
    }
}
