// SPDX-License-Identifier: GPL-2.0-or-later
//! From what is known of each CPU (its core, cache, node, ..) to a topology, as Linux would have it.
//!
//! Like Linux, a cluster that is no more than a core or no less than an LLC is none, and an LLC that spans nodes
//! (sub-NUMA clustering) ends at the node.

use std::collections::BTreeMap;

use crate::{Cpu, Topology};

/// The parts of each CPU, by CPU number. Any number names a part, unique among its kind; nodes are rows of the matrix.
pub(crate) struct Parts {
    pub(crate) core: Vec<u32>,
    /// `None`: there are no clusters.
    pub(crate) cluster: Option<Vec<u32>>,
    pub(crate) llc: Vec<u32>,
    pub(crate) node: Vec<u32>,
    pub(crate) capacity: Vec<u32>,
}

impl Parts {
    /// Not checked, and not yet renumbered.
    pub(crate) fn into_topology(self, node_distance: Vec<Vec<u32>>) -> Topology {
        let mut numbers = BTreeMap::new();
        let llc: Vec<u32> = self
            .llc
            .iter()
            .zip(&self.node)
            .map(|(&llc, &node)| {
                let next = numbers.len() as u32;
                *numbers.entry((llc, node)).or_insert(next)
            })
            .collect();
        let cluster = self
            .cluster
            .filter(|cluster| !same_partition(cluster, &self.core) && !same_partition(cluster, &llc));
        let cpus = (0..self.core.len())
            .map(|cpu| Cpu {
                core: self.core[cpu],
                cluster: cluster.as_ref().map(|cluster| cluster[cpu]),
                llc: llc[cpu],
                node: self.node[cpu],
                capacity: self.capacity[cpu],
            })
            .collect();
        Topology { cpus, node_distance }
    }
}

/// Whether two partitions, each CPU named by the number of its part, are the same.
fn same_partition(a: &[u32], b: &[u32]) -> bool {
    let (mut forth, mut back) = (BTreeMap::new(), BTreeMap::new());
    a.iter().zip(b).all(|(&a, &b)| *forth.entry(a).or_insert(b) == b && *back.entry(b).or_insert(a) == a)
}
