// SPDX-License-Identifier: GPL-2.0-or-later
//! Machines: random ones for the comparison, and the five on which searches are timed.

use std::fmt;

use wakelab_machine::{Cpu, Topology};

use crate::random::Random;

/// A regular machine: the number of each kind of part inside the next larger part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) nodes: usize,
    pub(crate) llcs: usize,
    /// Clusters per LLC; 0: there are none, and `cores` counts per LLC.
    pub(crate) clusters: usize,
    pub(crate) cores: usize,
    pub(crate) threads: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        write!(f, "{} x {} x ", count(self.nodes, "node"), count(self.llcs, "LLC"))?;
        if self.clusters > 0 {
            write!(f, "{} x ", count(self.clusters, "cluster"))?;
        }
        write!(f, "{} x {}", count(self.cores, "core"), count(self.threads, "thread"))
    }
}

impl Shape {
    fn nr_cores(&self) -> usize {
        self.nodes * self.llcs * self.clusters.max(1) * self.cores
    }

    fn nr_cpus(&self) -> usize {
        self.nr_cores() * self.threads
    }

    /// The CPU that is thread 0 of core `core`, without a number yet.
    fn cpu(&self, core: usize) -> Cpu {
        let cluster = core / self.cores;
        let llc = cluster / self.clusters.max(1);
        Cpu {
            core: core as u32,
            cluster: (self.clusters > 0).then_some(cluster as u32),
            llc: llc as u32,
            node: (llc / self.llcs) as u32,
            capacity: 1024,
        }
    }

    /// Numbered as x86 does: first threads of all cores, then second threads of all cores, and so on.
    pub(crate) fn topology(&self) -> Topology {
        let cores = self.nr_cores();
        let cpus = (0..self.nr_cpus()).map(|number| self.cpu(number % cores)).collect();
        let distance = |a, b| if a == b { 10 } else { 20 };
        let row = |a| (0..self.nodes).map(|b| distance(a, b)).collect();
        Topology { cpus, node_distance: (0..self.nodes).map(row).collect() }
    }
}

/// The machines on which searches are timed: the LLC is the socket's. In order of size.
pub(crate) const BENCH: [Shape; 5] = [
    Shape { nodes: 1, llcs: 1, clusters: 0, cores: 4, threads: 2 },
    Shape { nodes: 2, llcs: 1, clusters: 0, cores: 22, threads: 2 },
    Shape { nodes: 2, llcs: 1, clusters: 0, cores: 22, threads: 4 },
    Shape { nodes: 2, llcs: 1, clusters: 0, cores: 96, threads: 2 },
    Shape { nodes: 4, llcs: 1, clusters: 0, cores: 128, threads: 2 },
];

/// A random machine of 1 to 1,024 CPUs (all that the BPF build has room for), and its description in words.
pub(crate) fn random(random: &mut Random) -> (Topology, String) {
    let shape = random_shape(random);
    let cores = shape.nr_cores();
    let mut cpus: Vec<Cpu> = match random.below(3) {
        0 => (0..shape.nr_cpus()).map(|number| shape.cpu(number / shape.threads)).collect(),
        _ => (0..shape.nr_cpus()).map(|number| shape.cpu(number % cores)).collect(),
    };
    let mut words = shape.to_string();
    if random.chance(25) {
        for cpu in &mut cpus {
            cpu.capacity = [1024, 400, 640][cpu.core as usize % 3];
        }
        words += ", of unequal capacities";
    }
    if random.chance(25) {
        random.shuffle(&mut cpus);
        words += ", numbered at random";
    }
    if cpus.len() > 1 && random.chance(25) {
        let keep = 1 + random.below(cpus.len() - 1);
        random.shuffle(&mut cpus[1..]);
        cpus.truncate(keep);
        words += &format!(", of which {keep} CPUs are there");
    }
    let node_distance = random_distances(random, &mut cpus);
    (Topology { cpus, node_distance }, words)
}

fn random_shape(random: &mut Random) -> Shape {
    let cpus_max = 1 << random.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10]);
    loop {
        let cores_max = random.pick(&[1, 4, 12, 24, 128]);
        let shape = Shape {
            nodes: random.pick(&[1, 1, 2, 2, 3, 4, 8]),
            llcs: random.pick(&[1, 1, 1, 2, 3, 4]),
            clusters: random.pick(&[0, 0, 1, 2, 3, 8]),
            cores: 1 + random.below(cores_max),
            threads: random.pick(&[1, 2, 2, 4, 8]),
        };
        if shape.nr_cpus() <= cpus_max && shape.nr_cpus() > cpus_max / 2 {
            return shape;
        }
    }
}

/// Numbers the nodes that are left from 0, all equally far apart, or in pairs of pairs.
fn random_distances(random: &mut Random, cpus: &mut [Cpu]) -> Vec<Vec<u32>> {
    let mut nodes: Vec<u32> = cpus.iter().map(|cpu| cpu.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for cpu in cpus {
        cpu.node = nodes.iter().position(|&node| node == cpu.node).expect("every node was listed") as u32;
    }
    let (flat, step) = (random.chance(50), random.pick(&[1, 10, 11]));
    let distance = |a: usize, b: usize| {
        let hops = usize::BITS - (a ^ b).leading_zeros();
        10 + step * if flat { hops.min(1) } else { hops }
    };
    (0..nodes.len()).map(|a| (0..nodes.len()).map(|b| distance(a, b)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bench_machines_have_the_sizes_that_the_table_names() {
        let sizes: Vec<usize> = BENCH.iter().map(|shape| shape.topology().cpus.len()).collect();
        assert_eq!(sizes, [8, 88, 176, 384, 1024]);
        assert!(BENCH.iter().all(|shape| shape.topology().check().is_ok()));
    }

    #[test]
    fn random_machines_are_possible_and_of_every_kind() {
        let mut source = Random::new(1, 0);
        let (mut smallest, mut largest, mut clusters, mut smt8, mut far, mut unequal) =
            (usize::MAX, 0, false, false, false, false);
        for _ in 0..500 {
            let (topology, words) = random(&mut source);
            topology.check().unwrap_or_else(|error| panic!("{words}: {error}"));
            smallest = smallest.min(topology.cpus.len());
            largest = largest.max(topology.cpus.len());
            clusters |= topology.cpus.iter().any(|cpu| cpu.cluster.is_some());
            unequal |= topology.cpus.iter().any(|cpu| cpu.capacity != topology.cpus[0].capacity);
            smt8 |= words.contains("8 threads");
            far |= topology.node_distance.iter().flatten().any(|&distance| distance > 30);
        }
        assert!(smallest == 1 && largest > 900 && clusters && smt8 && far && unequal, "{smallest} {largest}");
    }
}
