// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns what is known of each CPU (its core, cache, node, ..) into a topology, in the same way as Linux: a cluster
//! that is the same as a core or an LLC is no cluster, and an LLC that spans nodes (sub-NUMA clustering) ends at the
//! node.

use std::collections::BTreeMap;

use crate::{Cpu, Topology};

/// The parts of each CPU, by CPU number. Parts may have any numbers that differ among their kind; nodes are rows of the
/// distance matrix.
pub(crate) struct Parts {
    pub(crate) core: Vec<u32>,
    /// `None`: there are no clusters.
    pub(crate) cluster: Option<Vec<u32>>,
    pub(crate) llc: Vec<u32>,
    pub(crate) node: Vec<u32>,
    pub(crate) capacity: Vec<u32>,
}

impl Parts {
    /// Returns the topology, which is not checked and not renumbered yet.
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
            .filter(|cluster| !is_same_partition(cluster, &self.core) && !is_same_partition(cluster, &llc));
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

/// Whether two partitions are the same. Both give the number of each CPU's part.
fn is_same_partition(a: &[u32], b: &[u32]) -> bool {
    let (mut forth, mut back) = (BTreeMap::new(), BTreeMap::new());
    a.iter().zip(b).all(|(&a, &b)| *forth.entry(a).or_insert(b) == b && *back.entry(b).or_insert(a) == a)
}
