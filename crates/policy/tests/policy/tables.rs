// SPDX-License-Identifier: GPL-2.0-or-later
//! Domain levels.

use proptest::prelude::*;
use wakelab_machine::Distance;
use wakelab_policy::{Error, MAX_CPUS, Tables};

use crate::host::{TICK_NS, machine, spec};
use crate::shapes;

/// The example of policy/topology.h: 2 sockets x 2 cores x 2 threads.
#[test]
fn the_example_of_topology_h() {
    let tables = Tables::build(&machine(2, None, 2, 2), &spec("linux-4.15+idle=smt-balance")).unwrap();
    let kinds: Vec<Distance> = tables.levels.iter().map(|level| level.kind).collect();
    assert_eq!(kinds, [Distance::Cpu, Distance::Smt, Distance::Llc, Distance::Numa1]);
    assert_eq!((tables.llc_level, tables.smt_level), (2, 1));
    let domains = |level: usize| -> Vec<Vec<u16>> {
        let level = &tables.levels[level];
        (0..level.first.len()).map(|domain| level.domain(domain).to_vec()).collect()
    };
    assert_eq!(domains(0).concat(), [0, 4, 1, 5, 2, 6, 3, 7]);
    assert_eq!(domains(1), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    assert_eq!(domains(2), [[0, 1, 4, 5], [2, 3, 6, 7]]);
    assert_eq!(domains(3), [[0, 1, 2, 3, 4, 5, 6, 7]]);
    assert_eq!((&tables.levels[2].child[..], &tables.levels[2].nr_child[..]), (&[0, 2][..], &[2, 2][..]));
    assert_eq!(
        tables.levels.iter().map(|level| level.imbalance_pct).collect::<Vec<_>>(),
        [110, 110, 117, 125]
    );
    assert_eq!(
        tables.levels.iter().map(|level| level.has_counters).collect::<Vec<_>>(),
        [false, true, false, false]
    );
    assert_eq!(tables.levels[2].pos, [0, 1, 4, 5, 2, 3, 6, 7]);
    let tables = Tables::build(&machine(2, None, 2, 2), &spec("linux-4.15")).unwrap();
    assert!(!tables.levels.iter().any(|level| level.has_counters), "scan reads none");
}

#[test]
fn levels_that_group_nothing_are_dropped() {
    let levels = |topology| {
        let tables = Tables::with_cluster_level(&topology, true).unwrap();
        (tables.levels.iter().map(|level| level.kind).collect::<Vec<_>>(), tables.llc_level, tables.smt_level)
    };
    use Distance::{Cluster, Cpu, Llc, Smt};
    assert_eq!(levels(machine(1, None, 1, 1)), (vec![Cpu], 0, 0));
    assert_eq!(levels(machine(1, None, 4, 1)), (vec![Cpu, Llc], 1, 0));
    assert_eq!(levels(machine(1, None, 1, 4)), (vec![Cpu, Smt], 1, 1), "LLC spans what SMT spans");
    assert_eq!(levels(machine(1, Some(2), 2, 1)), (vec![Cpu, Cluster, Llc], 2, 0));
    assert_eq!(levels(machine(1, Some(1), 4, 2)), (vec![Cpu, Smt, Cluster], 2, 1));
    assert_eq!(levels(machine(1, Some(4), 1, 2)), (vec![Cpu, Smt, Llc], 2, 1), "a cluster is a core");
}

#[test]
fn a_dropped_cluster_level_still_counts_for_distances() {
    let tables = Tables::build(&machine(1, Some(2), 2, 1), &spec("linux-4.15")).unwrap();
    assert_eq!(tables.levels.len(), 2);
    assert_eq!(
        [0, 1, 2].map(|cpu| tables.distance(0, cpu)),
        [Distance::Cpu, Distance::Cluster, Distance::Llc]
    );
}

#[test]
fn distances_between_nodes_make_levels() {
    let mut topology = machine(4, None, 2, 1);
    let far = |a: usize, b: usize| {
        if a == b {
            10
        } else if a / 2 == b / 2 {
            21
        } else {
            31
        }
    };
    topology.node_distance = (0..4).map(|a| (0..4).map(|b| far(a, b)).collect()).collect();
    let tables = Tables::build(&topology, &spec("linux-4.15")).unwrap();
    let numa: Vec<(Distance, usize, bool)> =
        tables.levels[2..].iter().map(|level| (level.kind, level.first.len(), level.wake_affine)).collect();
    assert_eq!(numa, [(Distance::Numa1, 2, true), (Distance::Numa2, 1, false)]);
}

#[test]
fn impossible_machines_are_refused() {
    let mut topology = machine(2, None, 2, 2);
    topology.cpus[4].llc = 1;
    let error = Tables::build(&topology, &spec("linux-4.15")).unwrap_err();
    assert!(error.to_string().starts_with("impossible topology: "), "{error}");
    let too_many = Tables::build(&machine(1, None, 4097, 1), &spec("linux-4.15"));
    assert_eq!(too_many.unwrap_err(), Error::CpuCount { nr_cpus: 4097, max_cpus: MAX_CPUS });
    let mut empty = machine(1, None, 1, 1);
    empty.cpus.clear();
    assert_eq!(
        Tables::build(&empty, &spec("linux-4.15")).unwrap_err().to_string(),
        "the machine has 0 CPUs; expected 1 to 4096"
    );
}

/// AMD's firmware states 32 between sockets. Linux has joined them since 5.4.
#[test]
fn sockets_of_epyc_are_joined_since_5_4() {
    let mut topology = machine(2, None, 2, 1);
    for (distance, spec_text, joined) in [
        (32, "linux-5.2", false),
        (32, "linux-2.6.24", false),
        (32, "linux-5.12", true),
        (32, "linux-6.12", true),
        (32, "wakelab", true),
        (31, "linux-6.12", false),
        (33, "linux-6.12", false),
        (30, "linux-4.15", true),
    ] {
        topology.node_distance = vec![vec![10, distance], vec![distance, 10]];
        let tables = Tables::build(&topology, &spec(spec_text)).unwrap();
        assert_eq!(tables.levels.last().unwrap().wake_affine, joined, "{distance} {spec_text}");
    }
}

#[test]
fn an_image_for_a_smaller_host_has_the_same_tables() {
    let tables = Tables::build(&machine(2, None, 2, 2), &spec("linux-4.15")).unwrap();
    let params = spec("linux-4.15").params(8, TICK_NS).unwrap();
    let mut image = vec![0; Tables::image_len(64)];
    tables.write_image(&params, 64, &mut image).unwrap();
    let u16_at = |at: usize| u16::from_ne_bytes([image[at], image[at + 1]]);
    let u32_at = |at: usize| u32::from_ne_bytes(image[at..at + 4].try_into().unwrap());
    // wl_params 136; nr_cpus, nr_levels, llc_level, smt_level, unequal, slots; cluster_of[64], capacity[64],
    // llc_first[64], block_of[64], slot_of[64]; then wl_level of 28 + 7 * 128 bytes.
    assert_eq!([136, 140, 144, 148, 152, 156].map(u32_at), [8, 4, 2, 1, 0, 2]);
    assert_eq!([160, 160 + 128].map(u16_at), [0xffff, 1024]);
    // CPUs c and c + 4 share a core, and LLC 1 is CPUs 2, 3, 6 and 7.
    assert_eq!([5, 6].map(|cpu| u16_at(160 + 2 * 128 + 2 * cpu)), [0, 2], "llc_first");
    assert_eq!([5, 6].map(|cpu| u16_at(160 + 3 * 128 + 2 * cpu)), [0, 1], "block_of");
    assert_eq!([5, 6].map(|cpu| u16_at(160 + 4 * 128 + 2 * cpu)), [3, 1], "slot_of");
    let level_2 = 136 + 24 + 640 + 2 * (28 + 7 * 128);
    assert_eq!(u32_at(level_2), Distance::Llc as u32);
    assert_eq!([0, 1].map(|above| u32_at(level_2 + 24 + above * (28 + 7 * 128))), [10, 20], "distance");
    assert_eq!([0, 1, 2].map(|cpu| u16_at(level_2 + 28 + 2 * cpu)), [0, 0, 1], "dom_of");
    assert_eq!(image.len(), 136 + 24 + 640 + 8 * (28 + 7 * 128));
    let error = tables.write_image(&params, 4, &mut image).unwrap_err();
    assert_eq!(error, Error::CpuCount { nr_cpus: 8, max_cpus: 4 });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn levels_are_nested_partitions_in_one_order(topology in shapes::topology(), clusters in any::<bool>()) {
        let tables = Tables::with_cluster_level(&topology, clusters).unwrap();
        let nr = topology.cpus.len();
        for (number, level) in tables.levels.iter().enumerate() {
            let mut all = level.cpus.clone();
            all.sort_unstable();
            prop_assert_eq!(all, (0..nr as u16).collect::<Vec<_>>());
            for domain in 0..level.first.len() {
                prop_assert!(level.domain(domain).is_sorted());
                for (index, &cpu) in level.domain(domain).iter().enumerate() {
                    prop_assert_eq!(level.dom_of[cpu as usize] as usize, domain);
                    prop_assert_eq!(level.pos[cpu as usize] as usize, level.first[domain] as usize + index);
                }
                if number == 0 {
                    continue;
                }
                let below = &tables.levels[number - 1];
                let groups = level.child[domain]..level.child[domain] + level.nr_child[domain];
                let mut inside: Vec<u16> = groups.flat_map(|group| below.domain(group as usize).to_vec()).collect();
                prop_assert_eq!(inside.first(), below.cpus.get(level.first[domain] as usize));
                inside.sort_unstable();
                prop_assert_eq!(&inside[..], level.domain(domain));
            }
            prop_assert!(number == 0 || level.first.len() < tables.levels[number - 1].first.len());
        }
        prop_assert_eq!(tables.levels.last().unwrap().first.len(), 1, "the outermost level is the machine");
    }

    #[test]
    fn distances_are_those_of_the_machine(topology in shapes::topology(), clusters in any::<bool>()) {
        let tables = Tables::with_cluster_level(&topology, clusters).unwrap();
        for a in 0..topology.cpus.len() as u32 {
            for b in 0..topology.cpus.len() as u32 {
                prop_assert_eq!(tables.distance(a, b), topology.distance(a, b), "{} to {}", a, b);
            }
        }
    }
}
