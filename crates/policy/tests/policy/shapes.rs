// SPDX-License-Identifier: GPL-2.0-or-later
//! Random machines for property tests: uneven, with CPUs missing and numbered in any order.

use proptest::prelude::*;
use wakelab_machine::{Cpu, Topology};

/// Up to 4 nodes (with 4, two pairs) x 2 LLCs x 3 clusters x 4 cores x 4 threads, of which at most 64 CPUs are kept.
pub fn topology() -> impl Strategy<Value = Topology> {
    let sizes = (
        prop_oneof![Just(1u32), Just(2), Just(4)],
        1u32..=2,
        prop::option::of(1u32..=3),
        1u32..=4,
        prop_oneof![Just(1u32), Just(2), Just(4)],
    );
    (sizes, any::<u64>(), any::<bool>()).prop_map(
        |((nodes, llcs, clusters, cores, threads), seed, uneven)| {
            let speeds: &[u32] = if seed & 6 == 6 { &[1024, 400, 640] } else { &[1024] };
            let mut cpus = Vec::new();
            for leaf in 0..nodes * llcs * clusters.unwrap_or(1) * cores * threads {
                let core = leaf / threads;
                let cluster = core / cores;
                let llc = cluster / clusters.unwrap_or(1);
                let cluster = clusters.map(|_| cluster);
                cpus.push(Cpu {
                    core,
                    cluster,
                    llc,
                    node: llc / llcs,
                    capacity: speeds[core as usize % speeds.len()],
                });
            }
            let mut random = Random(seed | 1);
            for last in (1..cpus.len()).rev() {
                cpus.swap(last, random.below(last + 1));
            }
            let present = |cpus: &[Cpu], node| cpus.iter().filter(|cpu| cpu.node == node).count();
            while cpus.len() > 64 || (uneven && cpus.len() > 4 && random.below(8) != 0) {
                let out = random.below(cpus.len());
                if present(&cpus, cpus[out].node) > 1 {
                    cpus.remove(out);
                }
            }
            let distance = |a: u32, b: u32| {
                if a == b {
                    10
                } else if a / 2 == b / 2 {
                    20
                } else {
                    32
                }
            };
            let node_distance = (0..nodes).map(|a| (0..nodes).map(|b| distance(a, b)).collect()).collect();
            Topology { cpus, node_distance }
        },
    )
}

/// xorshift64: enough to shuffle with.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n
    }
}
