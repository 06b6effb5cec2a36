// SPDX-License-Identifier: GPL-2.0-or-later
//! Which pairs of CPUs are measured: all of a distance where there are few, and otherwise some, spread evenly.

use wakelab_machine::{Distance, Topology};

/// The pairs of one distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) distance: Distance,
    pub(crate) pairs: Vec<(u32, u32)>,
    /// How many there are on this machine.
    pub(crate) of: usize,
}

/// The pairs of these CPUs at each distance of the topology, nearest first, at most `most` of each.
pub(crate) fn classes(topology: &Topology, cpus: &[u32], most: usize) -> Vec<Class> {
    let wanted = topology.distances_present().into_iter().filter(|distance| *distance != Distance::Cpu);
    let class = |distance: Distance| {
        let pairs: Vec<(u32, u32)> = cpus
            .iter()
            .enumerate()
            .flat_map(|(at, &a)| cpus[at + 1..].iter().map(move |&b| (a, b)))
            .filter(|&(a, b)| topology.distance(a, b) == distance)
            .collect();
        Class { distance, of: pairs.len(), pairs: sampled(&pairs, most) }
    };
    wanted.map(class).filter(|class| !class.pairs.is_empty()).collect()
}

/// At most `most` of the pairs, at even steps from the first to the last.
fn sampled(pairs: &[(u32, u32)], most: usize) -> Vec<(u32, u32)> {
    if pairs.len() <= most {
        return pairs.to_vec();
    }
    (0..most).map(|at| pairs[at * (pairs.len() - 1) / (most - 1).max(1)]).collect()
}

#[cfg(test)]
mod tests {
    use wakelab_machine::Machine;

    use super::*;

    #[test]
    fn few_pairs_are_all_measured_and_many_are_sampled() {
        let topology = Machine::preset("xeon-2s22c2t").unwrap().topology;
        let all: Vec<u32> = (0..88).collect();
        let classes_of = |cpus: &[u32], most| {
            let classes = classes(&topology, cpus, most);
            classes.into_iter().map(|c| (c.distance.name(), c.pairs.len(), c.of)).collect::<Vec<_>>()
        };
        // 44 cores; 44 x 43 / 2 pairs in a socket less the 22 of a core, twice; 44 x 44 across.
        assert_eq!(classes_of(&all, 30), [("smt", 30, 44), ("llc", 30, 2 * (946 - 22)), ("numa1", 30, 1936)]);
        // CPUs 0 and 44 are one core.
        assert_eq!(classes_of(&[0, 1, 44], 30), [("smt", 1, 1), ("llc", 2, 2)]);
        assert_eq!(classes_of(&[5], 30), []);
    }

    #[test]
    fn a_sample_has_both_ends() {
        let pairs: Vec<(u32, u32)> = (0..10).map(|b| (0, b)).collect();
        assert_eq!(sampled(&pairs, 4), [(0, 0), (0, 3), (0, 6), (0, 9)]);
        assert_eq!(sampled(&pairs, 1), [(0, 0)]);
        assert_eq!(sampled(&pairs, 10), pairs);
    }
}
