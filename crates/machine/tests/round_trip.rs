// SPDX-License-Identifier: GPL-2.0-or-later
//! Properties of reading: machines of any counts survive being written out CPU by CPU, and no text makes the reader
//! panic.

use proptest::prelude::*;
use wakelab_machine::{Distance, Machine};

const COSTS: &str = r#"
[costs]
smt_speed = { value = [1024, 700, 600, 500], source = "test" }
line_transfer_ps = { value = { cpu = 1, smt = 2, cluster = 3, llc = 4, node = 5, numa1 = 6, numa2 = 7 }, source = "test" }
wakeup_ns = { value = 500, source = "test" }
select_ns = { value = 100, source = "test" }
balance_ns = { value = 300, source = "test" }
switch_thread_ns = { value = 400, source = "test" }
switch_process_ns = { value = 1_000, source = "test" }
ipi_send_ns = { value = 100, source = "test" }
ipi_flight_ns = { value = { cpu = 0, smt = 0, cluster = 0, llc = 0, node = 0, numa1 = 0, numa2 = 0 }, source = "test" }
ipi_handle_ns = { value = 200, source = "test" }
idle_states = { value = [{ after_ns = 0, exit_latency_ns = 2_000 }, { after_ns = 9_000, exit_latency_ns = 2_000, cold_percent = 20, exit_percent = [60, 90, 100, 110, 150, 200, 300, 350, 400, 900, 5_000] }], source = "te\"st" }
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
remote_bandwidth_percent = { value = { cpu = 100, smt = 100, cluster = 100, llc = 100, node = 100, numa1 = 90, numa2 = 80 }, source = "test" }
tick_period_ns = { value = 1_000_000, source = "test" }
tick_ns = { value = 1_000, source = "test" }
interrupt_ns = { value = 1_000, source = "test" }
fork_ns = { value = 50_000, source = "test" }
exit_ns = { value = 30_000, source = "test" }
preempt_delay_ns = { value = 0, source = "test" }
"#;

#[derive(Clone, Debug)]
struct Counts {
    sockets: usize,
    nodes: usize,
    llcs: usize,
    clusters: Option<usize>,
    cores: usize,
    threads: usize,
    x86: bool,
}

impl Counts {
    fn nr_cpus(&self) -> usize {
        self.sockets * self.nodes * self.llcs * self.clusters.unwrap_or(1) * self.cores * self.threads
    }

    /// Returns a file in which sockets are at distance 21, and nodes of one socket at distance 12.
    fn file(&self) -> String {
        let inside = match self.clusters {
            Some(clusters) => format!("clusters_per_llc = {clusters}\ncores_per_cluster = {}", self.cores),
            None => format!("cores_per_llc = {}", self.cores),
        };
        let nodes = self.sockets * self.nodes;
        let distance = |a: usize, b: usize| {
            if a == b {
                10
            } else if a / self.nodes == b / self.nodes {
                12
            } else {
                21
            }
        };
        let matrix: Vec<Vec<u32>> =
            (0..nodes).map(|a| (0..nodes).map(|b| distance(a, b)).collect()).collect();
        format!(
            "description = \"a test\"\n[topology]\nsockets = {}\nnodes_per_socket = {}\nllcs_per_node = {}\n{inside}\n\
             threads_per_core = {}\nnumbering = \"{}\"\nnode_distance = {matrix:?}\n{COSTS}",
            self.sockets,
            self.nodes,
            self.llcs,
            self.threads,
            if self.x86 { "linux-x86" } else { "consecutive" },
        )
    }
}

fn counts() -> impl Strategy<Value = Counts> {
    let clusters = prop_oneof![Just(None), (1usize..4).prop_map(Some)];
    (1usize..4, 1usize..3, 1usize..4, clusters, 1usize..5, 1usize..5, any::<bool>()).prop_map(
        |(sockets, nodes, llcs, clusters, cores, threads, x86)| Counts {
            sockets,
            nodes,
            llcs,
            clusters,
            cores,
            threads,
            x86,
        },
    )
}

proptest! {
    #[test]
    fn counts_become_a_table_and_come_back_equal(counts in counts()) {
        let from_counts = Machine::from_toml(&counts.file(), "m.toml").unwrap();
        let text = from_counts.to_toml().unwrap();
        let from_table = Machine::from_toml(&text, "m.toml").unwrap();
        prop_assert_eq!(from_table, from_counts);
    }

    #[test]
    fn parts_have_the_sizes_that_the_counts_say(counts in counts()) {
        let topology = Machine::from_toml(&counts.file(), "m.toml").unwrap().topology;
        let cpus = counts.nr_cpus();
        prop_assert_eq!(topology.nr_cpus(), cpus);
        prop_assert_eq!(topology.nr_nodes(), counts.sockets * counts.nodes);
        let node = cpus / counts.sockets / counts.nodes;
        let llc = node / counts.llcs;
        for cpu in 0..cpus as u32 {
            prop_assert_eq!(topology.siblings(cpu).len(), counts.threads);
            prop_assert_eq!(topology.cluster_cpus(cpu).len(), counts.clusters.map_or(counts.threads, |n| llc / n));
            prop_assert_eq!(topology.llc_cpus(cpu).len(), llc);
            prop_assert_eq!(topology.node_cpus(cpu).len(), node);
            let expected = if cpu == 0 {
                Distance::Cpu
            } else if topology.siblings(0).contains(&cpu) {
                Distance::Smt
            } else if counts.clusters.is_some() && topology.cluster_cpus(0).contains(&cpu) {
                Distance::Cluster
            } else if topology.llc_cpus(0).contains(&cpu) {
                Distance::Llc
            } else if topology.node_cpus(0).contains(&cpu) {
                Distance::Node
            } else if topology.node_distance[0][topology.cpus[cpu as usize].node as usize] == 12 || counts.nodes == 1 {
                Distance::Numa1
            } else {
                Distance::Numa2
            };
            prop_assert_eq!(topology.distance(0, cpu), expected);
            prop_assert_eq!(topology.distance(cpu, 0), expected);
        }
    }

    #[test]
    fn a_damaged_file_is_read_or_refused_with_a_line(
        counts in counts(),
        as_table in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4, any::<char>()), 1..6),
    ) {
        let mut text = counts.file();
        if as_table {
            text = Machine::from_toml(&text, "m.toml").unwrap().to_toml().unwrap();
        }
        let mut chars: Vec<char> = text.chars().collect();
        for (at, how, what) in damage {
            if chars.is_empty() {
                break;
            }
            let at = at.index(chars.len());
            match how {
                0 => chars[at] = what,
                1 => { chars.remove(at); }
                2 => chars.insert(at, ['0', '9', '-', ',', ']', '}', '\n', '"'][what as usize % 8]),
                _ => chars.truncate(at),
            }
        }
        let text: String = chars.into_iter().collect();
        match Machine::from_toml(&text, "m.toml") {
            Ok(machine) => prop_assert!(machine.check().is_ok()),
            Err(error) => {
                let error = error.to_string();
                let line: usize = error.split(':').nth(1).unwrap().parse().unwrap();
                prop_assert!(line >= 1 && line <= 1 + text.matches('\n').count(), "{}", error);
                prop_assert!(error.starts_with("m.toml:") && error.contains("; expected "), "{}", error);
            }
        }
    }

    #[test]
    fn any_text_is_refused(text in "\\PC*") {
        prop_assert!(Machine::from_toml(&text, "m.toml").is_err());
    }
}
