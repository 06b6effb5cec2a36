// SPDX-License-Identifier: GPL-2.0-or-later
//! Machine files that are refused: each case changes one thing in a good file and gives the whole message.

use wakelab_machine::{Cpu, Machine, Topology};

/// A good file. Line 4 begins [topology], line 11 the costs.
const GOOD: &str = r#"# two nodes
description = "test"

[topology]
sockets = 2
cores_per_llc = 2
threads_per_core = 2
numbering = "linux-x86"
node_distance = [[10, 21], [21, 10]]

[costs]
smt_speed = { value = [1024, 604], source = "test" }
line_transfer_ps = { value = { cpu = 0, smt = 7_000, llc = 40_000, numa1 = 100_000 }, source = "test" }
wakeup_ns = { value = 500, source = "test" }
select_ns = { value = 100, source = "test" }
balance_ns = { value = 300, source = "test" }
switch_thread_ns = { value = 400, source = "test" }
switch_process_ns = { value = 1_000, source = "test" }
ipi_send_ns = { value = 100, source = "test" }
ipi_flight_ns = { value = { cpu = 0, smt = 180, llc = 200, numa1 = 350 }, source = "test" }
ipi_handle_ns = { value = 200, source = "test" }
idle_states = { value = [{ after_ns = 0, exit_latency_ns = 2_000 }, { after_ns = 20_000, exit_latency_ns = 10_000 }], source = "test" }
line_bytes = { value = 64, source = "test" }
lines_in_flight = { value = 8, source = "test" }
core_cache_bytes = { value = 294_912, source = "test" }
llc_cache_bytes = { value = 57_671_680, source = "test" }
llc_hit_ps = { value = 21_000, source = "test" }
atomic_ps = { value = 8_000, source = "test" }
runqueue_lock_ns = { value = 100, source = "test" }
loopback_ns = { value = 6_000, source = "test" }
loopback_ps_per_byte = { value = 100, source = "test" }
futex_ns = { value = 400, source = "test" }
exec_ns = { value = 300_000, source = "test" }
push_ns = { value = 2_000, source = "test" }
bandwidth_mb_per_s = { value = { core = 14_000, llc = 65_000, node = 65_000 }, source = "test" }
write_traffic_percent = { value = 150, source = "test" }
remote_bandwidth_percent = { value = { cpu = 100, smt = 100, llc = 100, numa1 = 60 }, source = "test" }
tick_period_ns = { value = 1_000_000, source = "test" }
tick_ns = { value = 1_000, source = "test" }
interrupt_ns = { value = 1_000, source = "test" }
fork_ns = { value = 50_000, source = "test" }
exit_ns = { value = 30_000, source = "test" }
preempt_delay_ns = { value = 0, source = "test" }
"#;

/// The counts of `GOOD`.
const COUNTS: &str = "sockets = 2\ncores_per_llc = 2\nthreads_per_core = 2\nnumbering = \"linux-x86\"\n";

fn refused(text: &str) -> String {
    Machine::from_toml(text, "m.toml").unwrap_err().to_string()
}

#[test]
fn ranges_have_the_figure_in_them() {
    let wakeup = |range: &str| {
        with(
            "wakeup_ns = { value = 500, source = \"test\" }",
            &format!("wakeup_ns = {{ value = 500, source = \"test\", range = {range} }}"),
        )
    };
    assert_eq!(
        wakeup("[600, 900]"),
        "m.toml:14: the `range` of `wakeup_ns` is 600 to 900; expected one with 500, the figure, in it"
    );
    assert_eq!(
        wakeup("[400, 2_000_000_000]"),
        "m.toml:14: the `range` of `wakeup_ns` goes to 2000000000; expected 0 to 1000000000"
    );
    assert_eq!(
        wakeup("{ llc = [400, 600] }"),
        "m.toml:14: `wakeup_ns` has a `range` of `llc` and no parts; expected `range = [LOW, HIGH]`"
    );
    assert!(
        wakeup("400").contains("expected [LOW, HIGH], or of a table one for each part"),
        "{}",
        wakeup("400")
    );
    assert!(wakeup("[400]").starts_with("m.toml:14: "), "{}", wakeup("[400]"));
    let lines = |range: &str| {
        let from = "numa1 = 100_000 }, source = \"test\"";
        with(from, &format!("{from}, range = {range}"))
    };
    assert_eq!(
        lines("[1, 2]"),
        "m.toml:13: `line_transfer_ps` is a table and has one `range`; expected one for each part that has one, of \
         cpu, smt, llc, numa1"
    );
    assert_eq!(
        lines("{ node = [1, 2] }"),
        "m.toml:13: `line_transfer_ps` has a `range` of `node`; expected one of cpu, smt, llc, numa1"
    );
}

/// Returns the message for `GOOD` with `from` replaced by `to`.
fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "the good file has no `{from}`");
    refused(&GOOD.replacen(from, to, 1))
}

/// Returns the message for a list of CPUs instead of counts. The first CPU is on line 6.
fn listed(cpus: &str) -> String {
    with(COUNTS, &format!("cpus = [\n{cpus}]\n"))
}

#[test]
fn the_good_file_is_good() {
    let machine = Machine::from_toml(GOOD, "some/where/m.toml").unwrap();
    machine.check().unwrap();
    assert_eq!((machine.name.as_str(), machine.topology.nr_cpus()), ("m", 8));
}

#[test]
fn empty_and_junk() {
    assert_eq!(refused(""), "m.toml:1: the file is empty; expected `description`, [topology] and [costs]");
    assert_eq!(refused("\n \n"), refused(""));
    for junk in ["\0\0\0", "\u{7f}ELF\u{2}\u{1}", "{\"json\": true}", "[[[[", "=", "a = \"", "[topology\n"] {
        let error = refused(junk);
        assert!(error.starts_with("m.toml:1: ") && error.contains("; expected "), "{junk:?}: {error}");
    }
}

#[test]
fn keys_unknown_missing_and_of_the_wrong_kind() {
    let error = with("sockets = 2", "sockets = 2\ncolour = 3");
    assert!(
        error.starts_with("m.toml:6: unknown field `colour`; expected one of `sockets`, `nodes_per_socket`"),
        "{error}"
    );
    assert_eq!(with("wakeup_ns", "wake_up_ns"), "m.toml:14: unknown cost `wake_up_ns`; expected `wakeup_ns`");
    let error = with("wakeup_ns", "colour");
    assert!(error.starts_with("m.toml:14: unknown cost `colour`; expected one of smt_speed, "), "{error}");
    assert_eq!(
        with("wakeup_ns = { value = 500, source = \"test\" }\n", ""),
        "m.toml:11: [costs] has no `wakeup_ns`; expected every cost, or `base = \"MACHINE\"`, which the others come from"
    );
    assert_eq!(
        with("wakeup_ns = { value = 500, source = \"test\" }", "wakeup_ns = { value = 500 }"),
        "m.toml:14: missing field `source`; expected a machine file (machines/README.md)"
    );
    assert_eq!(
        with("value = 500, source = \"test\"", "value = 500, source = \" \""),
        "m.toml:14: `wakeup_ns` has an empty source; expected where it is from, or \"estimate: ..\""
    );
    assert_eq!(with("value = 500", "value = -500"), "m.toml:14: invalid value: integer `-500`; expected u64");
    assert_eq!(
        with("value = 500", "value = 0.5"),
        "m.toml:14: invalid type: floating point `0.5`; expected u64"
    );
    assert_eq!(
        with("value = 500", "value = \"500\""),
        "m.toml:14: invalid type: string \"500\"; expected u64"
    );
    assert_eq!(
        with("linux-x86", "linux-arm"),
        "m.toml:8: unknown variant `linux-arm`; expected `linux-x86` or `consecutive`"
    );
    assert!(with("sockets = 2", "sockets = 2\nsockets = 2").starts_with("m.toml:6: duplicate key"));
}

#[test]
fn counts() {
    assert_eq!(with("sockets = 2", "sockets = 0"), "m.toml:5: `sockets` is 0; expected at least 1");
    assert_eq!(
        with("cores_per_llc = 2", "cores_per_llc = 0"),
        "m.toml:6: `cores_per_llc` is 0; expected at least 1"
    );
    assert_eq!(
        with("threads_per_core = 2", "threads_per_core = 0"),
        "m.toml:7: `threads_per_core` is 0; expected at least 1"
    );
    assert_eq!(with("sockets = 2", "sockets = 1025"), "m.toml:4: 4100 CPUs; expected 1 to 4096 CPUs");
    assert_eq!(
        with(COUNTS, "sockets = 4294967295\nnodes_per_socket = 4294967295\ncores_per_llc = 4294967295\n"),
        "m.toml:4: 18446744065119617025 CPUs; expected 1 to 4096 CPUs"
    );
    assert_eq!(
        with("sockets = 2\n", ""),
        "m.toml:4: [topology] has no `sockets`; expected counts, or a list `cpus`"
    );
    assert_eq!(
        with("cores_per_llc", "cores_per_cluster"),
        "m.toml:6: `cores_per_cluster` in a machine without clusters; expected `cores_per_llc`, with \
         `clusters_per_llc` only where LLCs have clusters"
    );
    assert_eq!(
        with("sockets = 2", "sockets = 2\nclusters_per_llc = 2"),
        "m.toml:7: `cores_per_llc` in a machine with clusters; expected `cores_per_cluster`, with \
         `clusters_per_llc` only where LLCs have clusters"
    );
    assert_eq!(
        with("numbering = \"linux-x86\"\n", ""),
        "m.toml:4: cores with several threads and no `numbering`; expected \"linux-x86\" (first threads of all \
         cores first) or \"consecutive\" (threads of a core adjacent)"
    );
}

#[test]
fn capacities() {
    assert_eq!(
        with("sockets = 2", "sockets = 2\ncapacity = [1024, 512]"),
        "m.toml:6: `capacity` has 2 entries; expected one for each of 8 CPUs, or one number for all"
    );
    assert_eq!(
        with("sockets = 2", "sockets = 2\ncapacity = 0"),
        "m.toml:4: CPU 0 has capacity 0; expected 1 to 1024"
    );
    assert_eq!(
        with("sockets = 2", "sockets = 2\ncapacity = [1024, 1024, 1024, 1024, 1024, 1024, 1024, 512]"),
        "m.toml:4: core 3 has capacity 1024 (CPU 3) and 512 (CPU 7); expected one capacity for all threads of a core"
    );
    assert!(
        with("sockets = 2", "sockets = 2\ncapacity = -1")
            .starts_with("m.toml:6: invalid value: integer `-1`; expected 1 to 1024")
    );
}

#[test]
fn lists_of_cpus() {
    let one_node = |cpus: &str| {
        refused(
            &GOOD.replace(COUNTS, &format!("cpus = [\n{cpus}]\n")).replace("[[10, 21], [21, 10]]", "[[10]]"),
        )
    };
    assert_eq!(
        one_node("{ cpu = 0, core = 0, llc = 0, node = 0 },\n{ cpu = 1, core = 0, llc = 1, node = 0 },\n"),
        "m.toml:7: core 0 is in LLC 0 (CPU 0) and in LLC 1 (CPU 1); expected all CPUs of core 0 in one LLC"
    );
    // CPU 1 comes before CPU 0 in the file; the error names the line of CPU 1.
    assert_eq!(
        one_node(
            "{ cpu = 1, core = 0, cluster = 1, llc = 0, node = 0 },\n{ cpu = 0, core = 0, cluster = 0, llc = 0, node = 0 },\n"
        ),
        "m.toml:6: core 0 is in cluster 0 (CPU 0) and in cluster 1 (CPU 1); expected all CPUs of core 0 in one cluster"
    );
    assert_eq!(
        one_node(
            "{ cpu = 0, core = 0, cluster = 7, llc = 0, node = 0 },\n{ cpu = 1, core = 1, cluster = 7, llc = 1, node = 0 },\n"
        ),
        "m.toml:7: cluster 7 is in LLC 0 (CPU 0) and in LLC 1 (CPU 1); expected all CPUs of cluster 7 in one LLC"
    );
    assert_eq!(
        one_node(
            "{ cpu = 0, core = 0, cluster = 0, llc = 0, node = 0 },\n{ cpu = 1, core = 1, llc = 0, node = 0 },\n"
        ),
        "m.toml:7: CPU 0 is in a cluster and CPU 1 is not; expected a cluster for every CPU, or for none"
    );
    assert_eq!(
        one_node("{ cpu = 0, core = 0, llc = 0, node = 1 },\n"),
        "m.toml:6: CPU 0 is in node 1; expected a node below 1, the size of the distance matrix"
    );
    assert_eq!(
        one_node("{ cpu = 0, core = 0, llc = 0, node = 0 },\n{ cpu = 0, core = 1, llc = 0, node = 0 },\n"),
        "m.toml:7: CPU 0 is listed twice; expected each CPU once"
    );
    assert_eq!(
        one_node("{ cpu = 0, core = 0, llc = 0, node = 0 },\n{ cpu = 2, core = 1, llc = 0, node = 0 },\n"),
        "m.toml:7: CPU 2 in a list of 2; expected each of 0 to 1 once"
    );
    assert_eq!(one_node(""), "m.toml:5: 0 CPUs; expected 1 to 4096 CPUs");
    assert_eq!(
        with("sockets = 2", "sockets = 2\ncpus = [{ cpu = 0, core = 0, llc = 0, node = 0 }]"),
        "m.toml:5: `sockets` beside a list of CPUs; expected counts or `cpus`, not both"
    );
}

#[test]
fn caches_over_two_nodes() {
    assert_eq!(
        listed("{ cpu = 0, core = 0, llc = 0, node = 0 },\n{ cpu = 1, core = 1, llc = 0, node = 1 },\n"),
        "m.toml:7: LLC 0 is in node 0 (CPU 0) and in node 1 (CPU 1); expected all CPUs of LLC 0 in one node"
    );
    assert_eq!(
        listed("{ cpu = 0, core = 0, llc = 0, node = 0 },\n"),
        "m.toml:8: node 1 has no CPUs; expected nodes with CPUs only: leave the others out of the matrix"
    );
}

#[test]
fn node_distances() {
    let matrix = |rows: &str| with("[[10, 21], [21, 10]]", rows);
    assert_eq!(
        matrix("[\n[10, 21],\n[22, 10],\n]"),
        "m.toml:10: node 0 is at distance 21 from node 1, but node 1 at 22 from node 0; expected a symmetric matrix"
    );
    assert_eq!(
        matrix("[\n[10, 21],\n[21, 11],\n]"),
        "m.toml:11: node 1 is at distance 11 from itself; expected 10"
    );
    assert_eq!(
        matrix("[[10, 9], [9, 10]]"),
        "m.toml:9: nodes 0 and 1 are at distance 9, no farther than a node from itself; expected 11 to 254"
    );
    assert_eq!(
        matrix("[[10, 10], [10, 10]]"),
        "m.toml:9: nodes 0 and 1 are at distance 10, no farther than a node from itself; expected 11 to 254"
    );
    assert_eq!(
        matrix("[[10, 255], [255, 10]]"),
        "m.toml:9: nodes 0 and 1 are at distance 255; expected 11 to 254"
    );
    assert_eq!(matrix("[[10, 21], [21]]"), "m.toml:9: node 1 has 1 distances; expected 2, one to each node");
    assert_eq!(
        matrix("[]"),
        "m.toml:4: no NUMA node; expected at least one node, at distance 10 from itself"
    );
    assert_eq!(
        matrix("[[10]]"),
        "m.toml:4: CPU 2 is in node 1; expected a node below 1, the size of the distance matrix"
    );
    assert_eq!(
        matrix("[[10, 20, 20], [20, 10, 20], [20, 20, 10]]"),
        "m.toml:9: node 2 has no CPUs; expected nodes with CPUs only: leave the others out of the matrix"
    );
    assert_eq!(
        with("node_distance = [[10, 21], [21, 10]]\n", ""),
        "m.toml:4: several nodes and no `node_distance`; expected the matrix of ACPI's SLIT, e.g. [[10, 21], [21, 10]]"
    );
}

#[test]
fn node_distances_that_do_not_nest() {
    let four = |rows: &str| {
        refused(&GOOD.replace("sockets = 2", "sockets = 4").replace("[[10, 21], [21, 10]]", rows))
    };
    // A ring: 0 and 2 are neighbours of 1, but not of each other.
    assert_eq!(
        four("[\n[10, 16, 22, 16],\n[16, 10, 16, 22],\n[22, 16, 10, 16],\n[16, 22, 16, 10],\n]"),
        "m.toml:11: distances do not nest: nodes 0 and 2 are each within 16 of node 1, but at 22 from each other; \
         expected nodes within 16 of each other to be separate sets"
    );
    assert_eq!(
        four("[[10, 12, 20, 22], [12, 10, 22, 24], [20, 22, 10, 12], [22, 24, 12, 10]]"),
        "m.toml:9: 4 distances between nodes: [12, 20, 22, 24]; expected at most 3 different ones"
    );
}

#[test]
fn figures_that_no_machine_has() {
    assert_eq!(
        with("[1024, 604]", "[1024]"),
        "m.toml:12: `smt_speed` has 1 entries and a core has 2 threads; expected an entry for each number of busy threads"
    );
    assert_eq!(
        with("[1024, 604]", "[1024, 1025]"),
        "m.toml:12: `smt_speed` goes from 1024 to 1025 with 2 busy threads; expected speeds that do not rise, and are at least 1"
    );
    assert_eq!(
        with("[1024, 604]", "[1024, 0]"),
        "m.toml:12: `smt_speed` goes from 1024 to 0 with 2 busy threads; expected speeds that do not rise, and are at least 1"
    );
    assert_eq!(
        with("[1024, 604]", "[604, 604]"),
        "m.toml:12: `smt_speed` does not begin with 1024; expected the speed of a thread alone, 1024"
    );
    assert_eq!(
        with(", numa1 = 100_000", ""),
        "m.toml:13: `line_transfer_ps` has no value for `numa1`; expected one for each distance of this machine: cpu, smt, llc, numa1"
    );
    assert_eq!(
        with("llc = 40_000", "llc = 4_000"),
        "m.toml:13: `line_transfer_ps` falls from 7000 at `smt` to 4000 at `llc`; expected values that do not fall with distance"
    );
    assert_eq!(
        with("numa1 = 100_000", "numa1 = 100_000_001"),
        "m.toml:13: `line_transfer_ps` has 100000001; expected at most 100000000"
    );
    assert!(
        with("llc = 40_000", "l3 = 40_000")
            .starts_with("m.toml:13: unknown field `l3`; expected one of `cpu`, `smt`")
    );
    assert_eq!(
        with("value = 500", "value = 1_000_000_001"),
        "m.toml:14: `wakeup_ns` is 1000000001; expected at most 1000000000"
    );
    assert_eq!(
        with("tick_period_ns = { value = 1_000_000", "tick_period_ns = { value = 0"),
        "m.toml:38: `tick_period_ns` is 0; expected 100000 to 100000000"
    );
    assert_eq!(
        with("tick_ns = { value = 1_000,", "tick_ns = { value = 1_000_000,"),
        "m.toml:39: `tick_ns` is 1000000; expected less than `tick_period_ns`, 1000000"
    );
    assert_eq!(
        with("switch_process_ns = { value = 1_000", "switch_process_ns = { value = 399"),
        "m.toml:17: `switch_thread_ns` is 400; expected at most `switch_process_ns`, 399"
    );
}

#[test]
fn idle_states() {
    let states = |list: &str| {
        with(
            "[{ after_ns = 0, exit_latency_ns = 2_000 }, { after_ns = 20_000, exit_latency_ns = 10_000 }]",
            list,
        )
    };
    assert_eq!(states("[]"), "m.toml:22: `idle_states` has 0 entries; expected 1 to 16");
    assert_eq!(
        states("[{ after_ns = 5, exit_latency_ns = 2 }]"),
        "m.toml:22: the first of `idle_states` begins after 5 ns; expected `after_ns = 0`"
    );
    assert_eq!(
        states("[{ after_ns = 0, exit_latency_ns = 2 }, { after_ns = 10, exit_latency_ns = 1 }]"),
        "m.toml:22: `idle_states` go from 0 to 10 ns of idling and from 2 to 1 ns of exit latency; expected deeper \
         states to begin later and to take no less to leave"
    );
    assert_eq!(
        states("[{ after_ns = 0, exit_latency_ns = 2_000_000_000 }]"),
        "m.toml:22: idle state 0 is { after_ns = 0, exit_latency_ns = 2000000000 }; expected at most 1000000000 each"
    );
    assert_eq!(
        states("[{ after_ns = 0, exit_latency_ns = 2, cold_percent = 10_001 }]"),
        "m.toml:22: idle state 0 has `cold_percent = 10001`; expected at most 10000"
    );
    assert_eq!(
        states("[{ after_ns = 0, exit_latency_ns = 2, exit_percent = [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8] }]"),
        "m.toml:22: idle state 0 has `exit_percent = [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8]`; expected percentages that do not fall, \
         at most 1000000"
    );
}

#[test]
fn a_machine_that_was_not_read_from_a_file() {
    let cpu = Cpu { core: 0, cluster: None, llc: 0, node: 0, capacity: 1024 };
    let topology = Topology { cpus: vec![cpu, Cpu { llc: 1, ..cpu }], node_distance: vec![vec![10]] };
    assert_eq!(
        topology.check().unwrap_err().to_string(),
        "core 0 is in LLC 0 (CPU 0) and in LLC 1 (CPU 1); expected all CPUs of core 0 in one LLC"
    );
    let none = Topology { cpus: vec![], node_distance: vec![] };
    assert_eq!(none.check().unwrap_err().to_string(), "0 CPUs; expected 1 to 4096 CPUs");
    let mut machine = Machine::preset("smp-8").unwrap();
    machine.costs.smt_speed.clear();
    assert_eq!(
        machine.check().unwrap_err().to_string(),
        "`smt_speed` has 0 entries and a core has 1 threads; expected an entry for each number of busy threads"
    );
}

#[test]
fn figures_of_caches_memory_and_locks() {
    for (from, to, message) in [
        ("{ value = 64,", "{ value = 8,", "m.toml:23: `line_bytes` is 8; expected 16 to 1024"),
        ("{ value = 8,", "{ value = 0,", "m.toml:24: `lines_in_flight` is 0; expected 1 to 1024"),
        (
            "value = 294_912",
            "value = 1_099_511_627_777",
            "m.toml:25: `core_cache_bytes` is 1099511627777; expected at most 1099511627776",
        ),
        (
            "value = 57_671_680",
            "value = 1_099_511_627_777",
            "m.toml:26: `llc_cache_bytes` is 1099511627777; expected at most 1099511627776",
        ),
        (
            "value = 21_000",
            "value = 100_000_001",
            "m.toml:27: `llc_hit_ps` is 100000001; expected at most 100000000",
        ),
        (
            "value = 8_000",
            "value = 100_000_001",
            "m.toml:28: `atomic_ps` is 100000001; expected at most 100000000",
        ),
        (
            "runqueue_lock_ns = { value = 100,",
            "runqueue_lock_ns = { value = 2_000_000_000,",
            "m.toml:29: `runqueue_lock_ns` is 2000000000; expected at most 1000000000",
        ),
        (
            "value = 6_000",
            "value = 1_000_000_001",
            "m.toml:30: `loopback_ns` is 1000000001; expected at most 1000000000",
        ),
        (
            "loopback_ps_per_byte = { value = 100,",
            "loopback_ps_per_byte = { value = 100_000_001,",
            "m.toml:31: `loopback_ps_per_byte` is 100000001; expected at most 100000000",
        ),
        (
            "futex_ns = { value = 400,",
            "futex_ns = { value = 1_000_000_001,",
            "m.toml:32: `futex_ns` is 1000000001; expected at most 1000000000",
        ),
        (
            "value = 300_000",
            "value = 1_000_000_001",
            "m.toml:33: `exec_ns` is 1000000001; expected at most 1000000000",
        ),
        (
            "value = 2_000,",
            "value = 1_000_000_001,",
            "m.toml:34: `push_ns` is 1000000001; expected at most 1000000000",
        ),
        (
            "llc = 65_000",
            "llc = 1_000_000_001",
            "m.toml:35: `bandwidth_mb_per_s` has 1000000001 for `llc`; expected at most 1000000000, or 0 for no limit",
        ),
        (
            "llc = 65_000",
            "die = 65_000",
            "m.toml:35: unknown field `die`; expected one of `core`, `cluster`, `llc`, `node`, `machine`",
        ),
        ("value = 150", "value = 99", "m.toml:36: `write_traffic_percent` is 99; expected 100 to 400"),
        (
            "llc = 100, numa1 = 60",
            "llc = 90, numa1 = 60",
            "m.toml:37: `remote_bandwidth_percent` has 90 for `llc`; expected 100 inside a node",
        ),
        (
            "numa1 = 60",
            "numa1 = 0",
            "m.toml:37: `remote_bandwidth_percent` has 0 for `numa1`; expected 1 to 100: no more from farther away",
        ),
        (
            "numa1 = 60",
            "numa1 = 101",
            "m.toml:37: `remote_bandwidth_percent` has 101 for `numa1`; expected 1 to 100: no more from farther away",
        ),
    ] {
        assert_eq!(with(from, to), message);
    }
}
