// SPDX-License-Identifier: GPL-2.0-or-later
//! Which CPU shares what with which other CPU.
//!
//! A topology is a tree (CPU, core, cluster, last-level cache, NUMA node) plus a matrix of distances between nodes.
//! Shapes that Linux could not have booted on are refused, with the two CPUs that contradict each other.

use serde::{Deserialize, Serialize};

/// How far apart two CPUs are: the smallest thing that they share. Same values as `enum wl_dist` in policy/topology.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Distance {
    /// The same CPU.
    Cpu = 0,
    /// Another hardware thread of the same core.
    Smt = 1,
    /// Another core of the same cluster.
    Cluster = 2,
    /// The same last-level cache.
    Llc = 3,
    /// The same NUMA node, another last-level cache.
    Node = 4,
    /// Another node, at the smallest distance between nodes that the machine has.
    Numa1 = 5,
    /// Another node, at the second distance.
    Numa2 = 6,
    /// Another node, at the third distance or farther.
    Numa3 = 7,
}

impl Distance {
    /// Number of distances; tables indexed by distance have this length.
    pub const COUNT: usize = 8;
    /// All distances, nearest first.
    pub const ALL: [Distance; Self::COUNT] = [
        Distance::Cpu,
        Distance::Smt,
        Distance::Cluster,
        Distance::Llc,
        Distance::Node,
        Distance::Numa1,
        Distance::Numa2,
        Distance::Numa3,
    ];

    /// Index into a table by distance.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The word used in files and tables.
    pub fn name(self) -> &'static str {
        ["cpu", "smt", "cluster", "llc", "node", "numa1", "numa2", "numa3"][self.index()]
    }
}

/// One CPU (hardware thread). The ids are unique over the whole machine, not per parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Core; CPUs of one core are SMT siblings.
    pub core: u32,
    /// Cluster of cores, or `None` where the machine has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<u32>,
    /// Last-level cache.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Speed relative to the machine's fastest core alone, in 1/1024 (Linux's cpu_capacity).
    pub capacity: u32,
}

/// The CPUs in Linux's numbering, and how far the nodes are apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Indexed by CPU number.
    pub cpus: Vec<Cpu>,
    /// `node_distance[a][b]` as ACPI's SLIT states it: 10 on the diagonal, symmetric.
    pub node_distance: Vec<Vec<u32>>,
}
