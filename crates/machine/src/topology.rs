// SPDX-License-Identifier: GPL-2.0-or-later
//! Which CPU shares what with which other CPU.
//!
//! A topology is a tree (CPU, core, cluster, last-level cache, NUMA node) plus a matrix of distances between nodes.
//! Shapes on which Linux cannot have booted are refused; the error names the two CPUs that contradict each other.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::MachineError;
use crate::check::{check_topology, remote_distances};

/// Most CPUs that a machine may have: the policy's tables have this size.
pub const MAX_CPUS: usize = 4096;

/// How far apart two CPUs are: the smallest part that contains both. The values are those of `enum wl_dist` in
/// policy/topology.h.
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

impl Topology {
    /// Number of CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Number of NUMA nodes.
    pub fn nr_nodes(&self) -> usize {
        self.node_distance.len()
    }

    /// Returns how far CPU `a` is from CPU `b`. For CPUs of different nodes it walks the distance matrix, so a caller
    /// that asks at every event should use the table of [`Topology::distances`].
    ///
    /// # Panics
    /// If either CPU does not exist.
    pub fn distance(&self, a: u32, b: u32) -> Distance {
        let (x, y) = (&self.cpus[a as usize], &self.cpus[b as usize]);
        near(a == b, x, y).unwrap_or_else(|| {
            let remote = remote_distances(&self.node_distance);
            numa(&remote, self.node_distance[x.node as usize][y.node as usize])
        })
    }

    /// Returns a table of all results of [`Topology::distance`].
    pub fn distances(&self) -> Distances {
        let remote = remote_distances(&self.node_distance);
        let nr_nodes = self.nr_nodes();
        let mut between = vec![Distance::Node; nr_nodes * nr_nodes];
        for a in 0..nr_nodes {
            for b in (0..nr_nodes).filter(|&b| b != a) {
                between[a * nr_nodes + b] = numa(&remote, self.node_distance[a][b]);
            }
        }
        let cores = numbered(self.cpus.iter().map(|cpu| Some(cpu.core)));
        let clusters = numbered(self.cpus.iter().map(|cpu| cpu.cluster));
        let llcs = numbered(self.cpus.iter().map(|cpu| Some(cpu.llc)));
        let place = |cpu: usize| {
            cores[cpu] | clusters[cpu] << 16 | llcs[cpu] << 32 | u64::from(self.cpus[cpu].node) << 48
        };
        Distances { places: (0..self.nr_cpus()).map(place).collect(), nr_nodes, between }
    }

    /// Returns the distances that two CPUs of this machine can have, nearest first.
    pub fn distances_present(&self) -> Vec<Distance> {
        let mut found = [false; Distance::COUNT];
        let table = self.distances();
        // All CPUs of a core are equally far from a CPU of another core, so it is enough to compare with the first CPU
        // of every core.
        let mut first_of_core: Vec<u32> = Vec::new();
        let mut seen = BTreeSet::new();
        for (cpu, at) in self.cpus.iter().enumerate() {
            if seen.insert(at.core) {
                first_of_core.push(cpu as u32);
            }
        }
        for cpu in 0..self.nr_cpus() as u32 {
            found[Distance::Cpu.index()] = true;
            for &other in &first_of_core {
                found[table.between(cpu, other).index()] = true;
            }
        }
        Distance::ALL.into_iter().filter(|d| found[d.index()]).collect()
    }

    /// The CPUs of `cpu`'s core, itself included, ascending.
    pub fn siblings(&self, cpu: u32) -> Vec<u32> {
        self.cpus_like(cpu, |c| c.core)
    }

    /// The CPUs of `cpu`'s cluster, itself included, ascending; those of its core where there are no clusters.
    pub fn cluster_cpus(&self, cpu: u32) -> Vec<u32> {
        if self.cpus[cpu as usize].cluster.is_none() {
            return self.siblings(cpu);
        }
        self.cpus_like(cpu, |c| c.cluster)
    }

    /// The CPUs behind `cpu`'s last-level cache, itself included, ascending.
    pub fn llc_cpus(&self, cpu: u32) -> Vec<u32> {
        self.cpus_like(cpu, |c| c.llc)
    }

    /// The CPUs of `cpu`'s NUMA node, itself included, ascending.
    pub fn node_cpus(&self, cpu: u32) -> Vec<u32> {
        self.cpus_like(cpu, |c| c.node)
    }

    /// Hardware threads of the core that has most.
    pub fn max_threads(&self) -> usize {
        let mut threads = BTreeMap::new();
        for cpu in &self.cpus {
            *threads.entry(cpu.core).or_insert(0) += 1;
        }
        threads.into_values().max().unwrap_or(0)
    }

    /// Refuses shapes on which Linux cannot have booted, and shapes for which wakelab has no levels: parts that do not
    /// nest, a distance matrix that is not symmetric or does not nest, more than three remote distances, more than
    /// [`MAX_CPUS`] CPUs.
    pub fn check(&self) -> Result<(), MachineError> {
        Ok(check_topology(self)?)
    }

    /// Numbers cores, clusters and LLCs from 0 in the order of their first CPU. Nodes keep theirs: they are rows of
    /// the distance matrix.
    pub(crate) fn renumber(&mut self) {
        let mut ids: [BTreeMap<u32, u32>; 3] = Default::default();
        let mut number = |kind: usize, id: u32| {
            let next = ids[kind].len() as u32;
            *ids[kind].entry(id).or_insert(next)
        };
        for cpu in &mut self.cpus {
            cpu.core = number(0, cpu.core);
            cpu.cluster = cpu.cluster.map(|id| number(1, id));
            cpu.llc = number(2, cpu.llc);
        }
    }

    fn cpus_like<T: PartialEq>(&self, cpu: u32, part: impl Fn(&Cpu) -> T) -> Vec<u32> {
        let wanted = part(&self.cpus[cpu as usize]);
        (0..self.nr_cpus() as u32).filter(|&c| part(&self.cpus[c as usize]) == wanted).collect()
    }
}

/// Distances between CPUs, tabulated. Made by [`Topology::distances`].
#[derive(Clone, Debug)]
pub struct Distances {
    /// By CPU: the numbers of its core, cluster, LLC and node, 16 bits each, from the lowest bits up.
    places: Vec<u64>,
    nr_nodes: usize,
    between: Vec<Distance>,
}

impl Distances {
    /// Returns how far CPU `a` is from CPU `b`.
    ///
    /// # Panics
    /// If either CPU does not exist.
    #[inline]
    pub fn between(&self, a: u32, b: u32) -> Distance {
        let (x, y) = (self.places[a as usize], self.places[b as usize]);
        let differs = |part: u32| (x ^ y) >> (16 * part) & 0xffff != 0;
        if a == b {
            Distance::Cpu
        } else if !differs(0) {
            Distance::Smt
        } else if !differs(1) {
            Distance::Cluster
        } else if !differs(2) {
            Distance::Llc
        } else if !differs(3) {
            Distance::Node
        } else {
            self.between[(x >> 48) as usize * self.nr_nodes + (y >> 48) as usize]
        }
    }
}

/// Numbers values from 0 in the order in which they first come. No two absent values have the same number.
fn numbered(values: impl Iterator<Item = Option<u32>>) -> Vec<u64> {
    let (mut seen, mut next) = (BTreeMap::new(), 0);
    let mut new = || {
        next += 1;
        next - 1
    };
    values
        .map(|value| match value {
            Some(value) => *seen.entry(value).or_insert_with(&mut new),
            None => new(),
        })
        .collect()
}

/// Returns the distance of two CPUs of a node; `None` if they are in different nodes.
fn near(same_cpu: bool, x: &Cpu, y: &Cpu) -> Option<Distance> {
    if same_cpu {
        Some(Distance::Cpu)
    } else if x.core == y.core {
        Some(Distance::Smt)
    } else if x.cluster.is_some() && x.cluster == y.cluster {
        Some(Distance::Cluster)
    } else if x.llc == y.llc {
        Some(Distance::Llc)
    } else if x.node == y.node {
        Some(Distance::Node)
    } else {
        None
    }
}

/// Returns the rank of a distance between nodes among all those that the machine has.
fn numa(remote: &[u32], distance: u32) -> Distance {
    match remote.partition_point(|&d| d < distance) {
        0 => Distance::Numa1,
        1 => Distance::Numa2,
        _ => Distance::Numa3,
    }
}
