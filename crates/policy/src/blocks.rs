// SPDX-License-Identifier: GPL-2.0-or-later
//! How an LLC is divided into blocks of CPUs, each with one word for its CPUs' idle states. policy/block.h works on
//! them.
//!
//! The blocks of an LLC are its clusters, if every CPU of it has one, there are at most 64, and each fits a word.
//! Otherwise they are runs of 8 cores in the order of their lowest CPU; of more cores if 8 would make more than 64
//! blocks. Every core gets as many bits as the machine's largest core has CPUs, rounded up to a power of two; the
//! policy keeps which of them stand for a CPU. An LLC that does not fit 64 blocks of 64 bits has none, and
//! `idle=nearest` is refused there. Such an LLC has more than 2,048 CPUs, and cores whose number of threads is not a
//! power of two.
//!
//! Example: 22 cores of 2 threads, where CPU c and c + 22 share a core, make blocks of cores 0 to 7, 8 to 15 and 16 to
//! 21. CPU 9 is bit 2 of block 1, CPU 31 is bit 3.

use wakelab_machine::Topology;

/// The number of bits in a word, and the greatest number of blocks in an LLC.
const WORD: usize = 64;
/// The number of cores in a block that is not a cluster.
const CORES: usize = 8;

/// The blocks of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The number of bits for each core: a power of two.
    pub slots: u32,
    /// CPU to block; the blocks of an LLC are consecutive, and begin with that of its lowest CPU.
    pub block_of: Vec<u16>,
    /// CPU to its bit in the block's word.
    pub slot_of: Vec<u16>,
}

/// The CPUs of a core, ascending.
type Core = Vec<usize>;

impl Blocks {
    /// Returns the blocks, or `None` if some LLC does not fit.
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

/// Divides the cores of one LLC into blocks.
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

/// Groups CPUs with equal keys. The CPUs of a group, and the groups, are in the order of their lowest CPU.
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
        // A cluster of 96 cores does not fit a word.
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
