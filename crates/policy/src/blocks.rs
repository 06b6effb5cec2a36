// SPDX-License-Identifier: GPL-2.0-or-later
//! How an LLC is cut into blocks of CPUs whose idle states are one word each: what policy/block.h works on.
//!
//! The blocks of an LLC are its clusters, if every CPU of it has one, there are at most 64, and each has room in a
//! word. Else they are runs of 8 cores in the order of their lowest CPU; of more, if 8 would make more than 64 blocks.
//! A core has as many bits as the machine's largest core has CPUs, rounded up to a power of two; which of them stand
//! for a CPU is the policy's to know. An LLC that does not fit 64 blocks of 64 bits has none (it needs more than 2,048
//! CPUs, and cores whose number of threads is no power of two), and `idle=nearest` is refused there.
//!
//! Example: 22 cores of 2 threads, CPU c and c + 22 sharing a core: blocks of cores 0 to 7, 8 to 15 and 16 to 21; CPU 9
//! is bit 2 of block 1, CPU 31 bit 3.

use wakelab_machine::Topology;

/// Bits of a word, and blocks of an LLC.
const WORD: usize = 64;
/// Cores of a block, where clusters do not say.
const CORES: usize = 8;

/// The blocks of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Bits of a core: a power of two.
    pub slots: u32,
    /// CPU to block; those of an LLC are consecutive, from that of its lowest CPU on.
    pub block_of: Vec<u16>,
    /// CPU to its bit.
    pub slot_of: Vec<u16>,
}

/// The CPUs of a core, ascending.
type Core = Vec<usize>;

impl Blocks {
    /// `None` if some LLC does not fit.
    pub(crate) fn build(topology: &Topology) -> Option<Blocks> {
        let cpus = &topology.cpus;
        let llcs = together(0..cpus.len(), |cpu| cpus[cpu].llc);
        let cores_of = |llc: &Vec<usize>| together(llc.iter().copied(), |cpu| cpus[cpu].core);
        let threads = llcs.iter().flat_map(cores_of).map(|core| core.len()).max()?;
        let slots = threads.next_power_of_two();
        let mut made =
            Blocks { slots: slots as u32, block_of: vec![0; cpus.len()], slot_of: vec![0; cpus.len()] };
        let mut number = 0;
        for llc in &llcs {
            for block in cut(topology, cores_of(llc), slots)? {
                for (index, core) in block.iter().enumerate() {
                    for (thread, &cpu) in core.iter().enumerate() {
                        made.block_of[cpu] = number;
                        made.slot_of[cpu] = (index * slots + thread) as u16;
                    }
                }
                number += 1;
            }
        }
        Some(made)
    }
}

/// The blocks of one LLC, from its cores.
fn cut(topology: &Topology, cores: Vec<Core>, slots: usize) -> Option<Vec<Vec<Core>>> {
    let room = WORD / slots;
    let cluster = |core: &Core| topology.cpus[core[0]].cluster;
    if cores.iter().all(|core| cluster(core).is_some()) {
        let mut clusters: Vec<Vec<Core>> = Vec::new();
        for core in &cores {
            match clusters.iter_mut().find(|block| cluster(&block[0]) == cluster(core)) {
                Some(block) => block.push(core.clone()),
                None => clusters.push(vec![core.clone()]),
            }
        }
        if clusters.len() <= WORD && clusters.iter().all(|block| block.len() <= room) {
            return Some(clusters);
        }
    }
    let each = CORES.max(cores.len().div_ceil(WORD)).min(room);
    (each > 0 && cores.len().div_ceil(each) <= WORD)
        .then(|| cores.chunks(each).map(<[Core]>::to_vec).collect())
}

/// CPUs with equal keys together, each group and all of them by lowest CPU.
fn together<K: PartialEq>(cpus: impl Iterator<Item = usize>, key: impl Fn(usize) -> K) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for cpu in cpus {
        match groups.iter_mut().find(|group| key(group[0]) == key(cpu)) {
            Some(group) => group.push(cpu),
            None => groups.push(vec![cpu]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use wakelab_machine::Cpu;

    use super::*;

    /// One node of `llcs` LLCs of `cores` cores each; CPU c and c + cores share a core.
    fn machine(llcs: u32, clusters: Option<u32>, cores: u32, threads: u32) -> Topology {
        let all = llcs * cores;
        let cpu = |number: u32| {
            let core = number % all;
            let cluster = clusters.map(|clusters| core * clusters / cores);
            Cpu { core, cluster, llc: core / cores, node: 0, capacity: 1024 }
        };
        Topology { cpus: (0..all * threads).map(cpu).collect(), node_distance: vec![vec![10]] }
    }

    #[test]
    fn the_example_of_the_head() {
        let blocks = Blocks::build(&machine(1, None, 22, 2)).unwrap();
        assert_eq!(blocks.slots, 2);
        assert_eq!([0, 7, 8, 21, 22, 31].map(|cpu| blocks.block_of[cpu]), [0, 0, 1, 2, 0, 1]);
        assert_eq!([0, 7, 9, 21, 22, 31].map(|cpu| blocks.slot_of[cpu]), [0, 14, 2, 10, 1, 3]);
    }

    #[test]
    fn clusters_are_blocks_and_llcs_follow_each_other() {
        // 2 LLCs of 24 cores in 6 clusters: 4 cores each.
        let blocks = Blocks::build(&machine(2, Some(6), 24, 1)).unwrap();
        assert_eq!([0, 3, 4, 23, 24, 47].map(|cpu| blocks.block_of[cpu]), [0, 0, 1, 5, 6, 11]);
        assert_eq!([0, 3, 4].map(|cpu| blocks.slot_of[cpu]), [0, 3, 0]);
        // A cluster of 96 cores has no room in a word.
        let blocks = Blocks::build(&machine(1, Some(1), 96, 1)).unwrap();
        assert_eq!(blocks.block_of[95], 11);
    }

    #[test]
    fn blocks_grow_where_eight_cores_would_make_too_many() {
        let blocks = Blocks::build(&machine(1, None, 4096, 1)).unwrap();
        assert_eq!((blocks.block_of[4095], blocks.slot_of[4095]), (63, 63));
        // 3 threads take 4 bits: 64 blocks of 16 cores hold 1,024 cores.
        assert!(Blocks::build(&machine(1, None, 1024, 3)).is_some());
        assert!(Blocks::build(&machine(1, None, 1025, 3)).is_none());
    }
}
