// SPDX-License-Identifier: GPL-2.0-or-later
//! The presets, checked by hand: how many CPUs they have, which CPUs are siblings, how far apart CPUs are, and how
//! presets are found by name.

use std::fs;

use wakelab_machine::Distance::{Cluster, Cpu, Llc, Node, Numa1, Numa2, Smt};
use wakelab_machine::{Machine, MachineError, presets};

fn sizes(name: &str) -> (usize, usize, usize) {
    let topology = Machine::preset(name).unwrap().topology;
    (topology.nr_cpus(), topology.nr_nodes(), topology.max_threads())
}

#[test]
fn every_preset_is_sound_and_described_as_in_its_file() {
    for (name, description) in presets() {
        let machine = Machine::preset(name).unwrap();
        machine.check().unwrap();
        assert_eq!(machine.name, *name);
        if *name != "host" {
            assert_eq!(machine.description, *description);
        }
        for row in machine.cost_rows() {
            assert!(row.source.len() > 10, "{name}: {} has the source `{}`", row.key, row.source);
        }
    }
}

#[test]
fn xeon_2s22c2t_is_numbered_as_x86_does() {
    assert_eq!(sizes("xeon-2s22c2t"), (88, 2, 2));
    let machine = Machine::preset("xeon-2s22c2t").unwrap();
    let topology = &machine.topology;
    assert_eq!(topology.siblings(0), [0, 44]);
    assert_eq!(topology.siblings(65), [21, 65]);
    assert_eq!(topology.siblings(22), [22, 66]);
    let socket_1: Vec<u32> = (22..44).chain(66..88).collect();
    assert_eq!(topology.llc_cpus(66), socket_1);
    assert_eq!(topology.node_cpus(22), socket_1);
    assert_eq!(topology.distance(3, 3), Cpu);
    assert_eq!(topology.distance(3, 47), Smt);
    assert_eq!(topology.distance(3, 65), Llc);
    assert_eq!(topology.distance(3, 66), Numa1);
    assert_eq!(topology.distances_present(), [Cpu, Smt, Llc, Numa1]);
    assert_eq!(machine.costs.smt_speed, [1024, 604]);
    assert_eq!(machine.costs.line_transfer_ps[Numa1.index()], 118_000);
}

#[test]
fn a_wake_up_on_the_xeon_takes_what_was_recorded() {
    // The p50 from wake-up to switch-in on an idle CPU was 3.6 us on an 88-CPU Xeon. The costs add up to that within a
    // tenth.
    let costs = Machine::preset("xeon-2s22c2t").unwrap().costs;
    let sum_ns = costs.wakeup_ns
        + costs.select_ns
        + costs.line_transfer_ps[Llc.index()] / 1000
        + costs.ipi_send_ns
        + costs.ipi_flight_ns[Llc.index()]
        + costs.idle_states[0].exit_latency_ns
        + costs.ipi_handle_ns
        + costs.switch_thread_ns;
    assert!((3_240..=3_960).contains(&sum_ns), "{sum_ns}");
}

#[test]
fn xeon_x5650_2s_has_twelve_cpus_without_smt() {
    assert_eq!(sizes("xeon-x5650-2s"), (12, 2, 1));
    let topology = Machine::preset("xeon-x5650-2s").unwrap().topology;
    assert_eq!(topology.llc_cpus(5), [0, 1, 2, 3, 4, 5]);
    assert_eq!(topology.distance(5, 0), Llc);
    assert_eq!(topology.distance(5, 6), Numa1);
    assert_eq!(topology.distances_present(), [Cpu, Llc, Numa1]);
}

#[test]
fn power9_has_adjacent_threads_and_caches_of_two_cores() {
    assert_eq!(sizes("power9-2s22c4t"), (176, 2, 4));
    let topology = Machine::preset("power9-2s22c4t").unwrap().topology;
    assert_eq!(topology.siblings(5), [4, 5, 6, 7]);
    assert_eq!(topology.llc_cpus(5), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(topology.node_cpus(5), (0..88).collect::<Vec<u32>>());
    assert_eq!(topology.distance(4, 7), Smt);
    assert_eq!(topology.distance(4, 3), Llc);
    assert_eq!(topology.distance(7, 8), Node);
    assert_eq!(topology.distance(87, 88), Numa1);
    assert_eq!(topology.distances_present(), [Cpu, Smt, Llc, Node, Numa1]);
}

#[test]
fn smp_8_is_eight_cores_behind_one_cache() {
    assert_eq!(sizes("smp-8"), (8, 1, 1));
    let topology = Machine::preset("smp-8").unwrap().topology;
    assert_eq!(topology.siblings(3), [3]);
    assert_eq!(topology.llc_cpus(3), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(topology.distances_present(), [Cpu, Llc]);
}

#[test]
fn smp_2_is_two_of_them_at_the_same_costs() {
    assert_eq!(sizes("smp-2"), (2, 1, 1));
    assert_eq!(Machine::preset("smp-2").unwrap().costs, Machine::preset("smp-8").unwrap().costs);
}

#[test]
fn kunpeng920_has_clusters_of_four_and_a_cache_a_node() {
    assert_eq!(sizes("kunpeng920-1n24c"), (24, 1, 1));
    assert_eq!(sizes("kunpeng920-4n96c"), (96, 4, 1));
    let part = Machine::preset("kunpeng920-1n24c").unwrap();
    assert_eq!(part.topology.cluster_cpus(6), [4, 5, 6, 7]);
    assert_eq!(part.topology.llc_cpus(6), (0..24).collect::<Vec<u32>>());
    assert_eq!(part.topology.distances_present(), [Cpu, Cluster, Llc]);
    let whole = Machine::preset("kunpeng920-4n96c").unwrap();
    assert_eq!(whole.topology.llc_cpus(30), (24..48).collect::<Vec<u32>>());
    // 23 and 24 are on the dies of socket 0; 47 and 48 on different sockets, as are 0 and 95.
    assert_eq!(whole.topology.distance(23, 24), Numa1);
    assert_eq!(whole.topology.distance(47, 48), Numa2);
    assert_eq!(whole.topology.distance(0, 95), Numa2);
    assert_eq!(whole.topology.distances_present(), [Cpu, Cluster, Llc, Numa1, Numa2]);
    // A single node has the same costs as a node of the whole machine.
    let near = |machine: &Machine| machine.costs.line_transfer_ps[..=Llc.index()].to_vec();
    assert_eq!(near(&part), near(&whole));
    assert_eq!(part.costs.bandwidth_mb_per_s, whole.costs.bandwidth_mb_per_s);
}

#[test]
fn kunpeng920_takes_half_a_pipe_round_trip_for_a_wake_up() {
    // Pipe round trips take 10.2, 11.7, 15.0 and (mean of two nodes) 17.55 us. Half of each is a wake-up and two system
    // calls of 0.7 us. The costs agree within a twentieth.
    let costs = Machine::preset("kunpeng920-4n96c").unwrap().costs;
    for (distance, pipe_ns) in [(Cluster, 10_200), (Llc, 11_700), (Numa1, 15_000), (Numa2, 17_550)] {
        let wakeup_ns = costs.wakeup_ns
            + costs.select_ns
            + costs.line_transfer_ps[distance.index()] / 1000
            + costs.ipi_send_ns
            + costs.ipi_flight_ns[distance.index()]
            + costs.idle_states[0].exit_latency_ns
            + costs.ipi_handle_ns
            + costs.switch_thread_ns;
        let (sum_ns, half_ns) = (wakeup_ns + 1_400, pipe_ns / 2);
        assert!(sum_ns.abs_diff(half_ns) * 20 <= half_ns, "{}: {sum_ns} and {half_ns}", distance.name());
    }
    // On one CPU, 11.9 us: a process switch instead of the interrupt.
    let sum_ns = costs.wakeup_ns + costs.select_ns + costs.switch_process_ns + 1_400;
    assert_eq!(sum_ns, 11_900 / 2);
}

/// Returns how much of a demand `d` a level of capacity `c` grants (the sharing rule of crates/sim).
fn grants(d: f64, c: f64) -> f64 {
    d * c / (d * d + c * c).sqrt()
}

#[test]
fn kunpeng920_bandwidth_follows_stream_copy() {
    let limits = Machine::preset("kunpeng920-1n24c").unwrap().costs.bandwidth_mb_per_s;
    let (core, cluster, node) = (limits.core as f64, limits.cluster as f64, limits.node as f64);
    // Threads, clusters, GB/s (wayca-scheduler tool results).
    let rows = [
        (1.0, 1.0, 12.4),
        (4.0, 1.0, 30.7),
        (4.0, 2.0, 39.1),
        (4.0, 4.0, 40.8),
        (6.0, 2.0, 39.3),
        (6.0, 6.0, 47.6),
        (12.0, 3.0, 57.1),
        (12.0, 6.0, 59.4),
        (24.0, 6.0, 63.3),
    ];
    let mut squares = 0.0;
    for (threads, clusters, measured) in rows {
        let model = grants(clusters * grants(threads / clusters * core, cluster), node) / 1000.0;
        let error = model / measured - 1.0;
        assert!(error.abs() < 0.115, "{threads} threads on {clusters} clusters: {model} and {measured}");
        squares += error * error;
    }
    assert!((squares / rows.len() as f64).sqrt() < 0.047);
}

#[test]
fn epyc_has_many_small_caches() {
    assert_eq!(sizes("epyc-7742-2s"), (256, 2, 2));
    let topology = Machine::preset("epyc-7742-2s").unwrap().topology;
    assert_eq!(topology.siblings(130), [2, 130]);
    assert_eq!(topology.llc_cpus(5), [4, 5, 6, 7, 132, 133, 134, 135]);
    assert_eq!(topology.distance(3, 4), Node);
    assert_eq!(topology.distance(63, 64), Numa1);
    assert_eq!(topology.distances_present(), [Cpu, Smt, Llc, Node, Numa1]);

    assert_eq!(sizes("epyc-9654-2s"), (384, 2, 2));
    let topology = Machine::preset("epyc-9654-2s").unwrap().topology;
    assert_eq!(topology.siblings(0), [0, 192]);
    assert_eq!(topology.llc_cpus(8), (8..16).chain(200..208).collect::<Vec<u32>>());
    assert_eq!(topology.distance(95, 96), Numa1);
}

#[test]
fn machines_of_the_published_tables_have_their_shapes() {
    for (name, nodes) in [("epyc-7713-2s", 2), ("epyc-7713-2s-nps2", 4), ("epyc-7713-2s-nps4", 8)] {
        assert_eq!(sizes(name), (256, nodes, 2), "{name}");
        let topology = Machine::preset(name).unwrap().topology;
        assert_eq!(topology.llc_cpus(8), (8..16).chain(136..144).collect::<Vec<u32>>());
        let per_socket = nodes / 2;
        assert_eq!(topology.distance(0, 63), [Node, Numa1, Numa1][per_socket / 2]);
        assert_eq!(topology.distance(63, 64), [Numa1, Numa2, Numa2][per_socket / 2]);
    }
    assert_eq!((sizes("kunpeng920-1n32c"), sizes("kunpeng920-2n64c")), ((32, 1, 1), (64, 2, 1)));
    assert_eq!(sizes("xeon-1s56c2t"), (112, 1, 2));
    assert_eq!(Machine::preset("xeon-1s56c2t").unwrap().topology.llc_cpus(0).len(), 112);
    assert_eq!(sizes("xeon-4s24c2t"), (192, 4, 2));
    let topology = Machine::preset("xeon-4s24c2t").unwrap().topology;
    assert_eq!((topology.distance(0, 24), topology.distance(0, 95)), (Numa1, Numa1));
    for (name, llc_cpus, near) in [("xeon-2s56c2t", 112, Llc), ("xeon-2s56c2t-split4", 28, Node)] {
        assert_eq!(sizes(name), (224, 2, 2), "{name}");
        let topology = Machine::preset(name).unwrap().topology;
        assert_eq!((topology.llc_cpus(0).len(), topology.distance(0, 14)), (llc_cpus, near), "{name}");
    }
    for (name, nodes, near) in [("xeon-2s24c2t", 2, Llc), ("xeon-2s24c2t-snc2", 4, Numa1)] {
        assert_eq!(sizes(name), (96, nodes, 2), "{name}");
        let machine = Machine::preset(name).unwrap();
        let (topology, llc_bytes) = (machine.topology, machine.costs.llc_cache_bytes);
        assert_eq!((topology.distance(0, 11), topology.distance(11, 12)), (Llc, near), "{name}");
        assert_eq!(topology.distance(0, 24), if nodes == 2 { Numa1 } else { Numa2 }, "{name}");
        assert_eq!(llc_bytes * nodes as u64, 2 * 37_486_592, "{name}: what a socket has");
    }
}

#[test]
fn a_socket_of_epyc_delivers_what_stream_gets() {
    // All cores of a socket together: 189 and 378 GB/s, within 1 %.
    for (name, llcs, cores, stream) in
        [("epyc-7742-2s", 16.0, 4.0, 189.0), ("epyc-9654-2s", 12.0, 8.0, 378.0)]
    {
        let limits = Machine::preset(name).unwrap().costs.bandwidth_mb_per_s;
        let llc = grants(cores * limits.core as f64, limits.llc as f64);
        let node = grants(llcs * llc, limits.node as f64) / 1000.0;
        assert!((node / stream - 1.0).abs() < 0.01, "{name}: {node}");
    }
}

#[test]
fn snapdragon_865_has_three_kinds_of_cores() {
    assert_eq!(sizes("snapdragon-865"), (8, 1, 1));
    let topology = Machine::preset("snapdragon-865").unwrap().topology;
    let capacities: Vec<u32> = topology.cpus.iter().map(|cpu| cpu.capacity).collect();
    // 448 x 1804.8 MHz, 1024 x 2419.2 MHz and 1024 x 2841.6 MHz, scaled so that the last is 1024. The others are 284.5
    // and 871.8, cut off as Linux does it.
    let product = |dmips_per_mhz: u64, tenth_mhz: u64| dmips_per_mhz * tenth_mhz;
    let linux = |dmips, mhz| (product(dmips, mhz) * 1024 / product(1024, 28_416)) as u32;
    assert_eq!(capacities[3..5], [linux(448, 18_048), linux(1024, 24_192)]);
    assert_eq!(capacities, [284, 284, 284, 284, 871, 871, 871, 1024]);
}

#[test]
fn the_table_of_distances_agrees_with_the_direct_answer() {
    for name in ["xeon-2s22c2t", "power9-2s22c4t", "kunpeng920-4n96c", "epyc-7742-2s"] {
        let topology = Machine::preset(name).unwrap().topology;
        let table = topology.distances();
        for a in 0..topology.nr_cpus() as u32 {
            for b in 0..topology.nr_cpus() as u32 {
                assert_eq!(table.between(a, b), topology.distance(a, b), "{name}: {a} to {b}");
                assert_eq!(table.between(a, b), table.between(b, a), "{name}: {a} to {b}");
            }
        }
    }
}

#[test]
fn machines_are_found_by_name_and_by_path() {
    assert_eq!(Machine::load("smp-8").unwrap(), Machine::preset("smp-8").unwrap());
    assert_eq!(
        Machine::load("smp-9").unwrap_err().to_string(),
        "unknown machine `smp-9`; expected one of epyc-7713-2s, epyc-7713-2s-nps2, \
         epyc-7713-2s-nps4, epyc-7742-2s, epyc-9654-2s, kunpeng920-1n24c, kunpeng920-1n32c, kunpeng920-2n64c, \
         kunpeng920-4n96c, power9-2s22c4t, smp-2, smp-8, snapdragon-865, xeon-1s56c2t, xeon-2s22c2t, xeon-2s24c2t, \
         xeon-2s24c2t-snc2, xeon-2s56c2t, xeon-2s56c2t-split4, xeon-4s24c2t, xeon-x5650-2s, host, or the path of a \
         .toml file or of lstopo's .xml"
    );

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("mine.toml"), include_str!("../../../machines/smp-8.toml")).unwrap();
    assert_eq!(Machine::load(&path("mine.toml")).unwrap().name, "mine");
    assert!(matches!(Machine::load(&path("absent.toml")), Err(MachineError::Read { .. })));
    assert!(matches!(Machine::load(folder.path().to_str().unwrap()), Err(MachineError::Read { .. })));
    fs::write(path("junk.toml"), b"a = 1\n\xff\xfe\x00").unwrap();
    let error = Machine::load(&path("junk.toml")).unwrap_err().to_string();
    assert!(
        error.ends_with("junk.toml:2: byte 6 is not UTF-8; expected a text file, in TOML or hwloc's XML"),
        "{error}"
    );
}
