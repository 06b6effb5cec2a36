// SPDX-License-Identifier: GPL-2.0-or-later
//! The presets, checked by hand: how many CPUs, who is whose sibling, how far apart CPUs are, and how they are
//! found by name.

use std::fs;

use wakelab_machine::Distance::{Cpu, Llc, Node, Numa1, Smt};
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
    // p50 of wake-up to switch-in on an idle CPU: 3.6 us on an 88-CPU Xeon. Within a tenth of it.
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
fn the_table_of_distances_agrees_with_the_direct_answer() {
    for name in ["xeon-2s22c2t", "power9-2s22c4t"] {
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
        "unknown machine `smp-9`; expected one of xeon-2s22c2t, xeon-x5650-2s, power9-2s22c4t, smp-8, host, or the \
         path of a .toml file"
    );

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("mine.toml"), include_str!("../../../machines/smp-8.toml")).unwrap();
    assert_eq!(Machine::load(&path("mine.toml")).unwrap().name, "mine");
    assert!(matches!(Machine::load(&path("absent.toml")), Err(MachineError::Read { .. })));
    assert!(matches!(Machine::load(folder.path().to_str().unwrap()), Err(MachineError::Read { .. })));
    fs::write(path("junk.toml"), b"a = 1\n\xff\xfe\x00").unwrap();
    let error = Machine::load(&path("junk.toml")).unwrap_err().to_string();
    assert!(error.ends_with("junk.toml:2: byte 6 is not UTF-8; expected a text file in TOML"), "{error}");
}
