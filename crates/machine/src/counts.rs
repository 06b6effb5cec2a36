// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns counts (sockets, nodes a socket, .. threads a core) into a table of CPUs.
//!
//! Cores are counted in the order of the tree. Which CPU number a thread gets differs between platforms: x86
//! firmware lists the first threads of all cores before the second ones; POWER's lists the threads of a core one
//! after another. Without SMT both are the same.

use serde::Deserialize;

use crate::Cpu;

/// How Linux numbers the threads of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Numbering {
    /// First threads of all cores, then second threads: CPU = thread x cores + core.
    #[serde(rename = "linux-x86")]
    LinuxX86,
    /// Threads of a core are neighbours: CPU = core x threads + thread.
    Consecutive,
}

/// How many parts each part has. No count is 0, and their product is at most [`MAX_CPUS`](crate::MAX_CPUS).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) nodes: u32,
    pub(crate) llcs_per_node: u32,
    /// `None`: the machine has no clusters, and `cores` are those of an LLC.
    pub(crate) clusters_per_llc: Option<u32>,
    pub(crate) cores: u32,
    pub(crate) threads: u32,
}

impl Counts {
    /// Number of CPUs. Saturates, so that a number that is too large stays too large.
    pub(crate) fn nr_cpus(&self) -> u64 {
        [self.nodes, self.llcs_per_node, self.clusters_per_llc.unwrap_or(1), self.cores, self.threads]
            .into_iter()
            .fold(1, |product, count| product.saturating_mul(count.into()))
    }

    /// Returns all CPUs by number. Parts are numbered in the order of the tree.
    pub(crate) fn expand(&self, numbering: Numbering, capacity: u32) -> Vec<Cpu> {
        let clusters_per_llc = self.clusters_per_llc.unwrap_or(1);
        let nr_cores = self.nodes * self.llcs_per_node * clusters_per_llc * self.cores;
        let at = |core: u32| {
            let cluster = core / self.cores;
            let llc = cluster / clusters_per_llc;
            let node = llc / self.llcs_per_node;
            Cpu { core, cluster: self.clusters_per_llc.map(|_| cluster), llc, node, capacity }
        };
        (0..nr_cores * self.threads)
            .map(|cpu| match numbering {
                Numbering::LinuxX86 => at(cpu % nr_cores),
                Numbering::Consecutive => at(cpu / self.threads),
            })
            .collect()
    }
}
