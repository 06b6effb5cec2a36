// SPDX-License-Identifier: GPL-2.0-or-later
//! A machine as text for people: the tree of its parts, and its costs with their sources.

use crate::{Bandwidth, Costs, Cpu, Distance, Machine, Topology, cpulist};

/// One line of a table of costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostRow {
    /// What it belongs to: `caches`, `scheduler`, ..; rows of a group stand together.
    pub group: &'static str,
    /// The key in the machine file.
    pub key: &'static str,
    /// The figure; of a table by distance those that the machine has.
    pub value: String,
    /// `ns`, `ps`, `bytes`, `MB/s`, ..; `1/1024` for speeds.
    pub unit: &'static str,
    /// Where it is from.
    pub source: String,
}

impl Machine {
    /// The tree of nodes, last-level caches, clusters and cores with their CPUs, one line each, equal neighbours
    /// drawn once, and below it the distances between nodes:
    ///
    /// ```text
    /// power9-2s22c4t: 176 CPUs
    /// ├─ node 0: CPUs 0-87
    /// │  └─ 11 x LLC: CPUs 0-7 | 8-15 | .. | 80-87
    /// │     └─ 2 x core: CPUs 0-3 | 4-7
    /// └─ node 1: ..
    /// ```
    ///
    /// Below a line that stands for several parts, the first of them is drawn.
    pub fn tree(&self) -> String {
        let topology = &self.topology;
        let mut text = format!("{}: {} CPUs\n", self.name, topology.nr_cpus());
        let all: Vec<u32> = (0..topology.nr_cpus() as u32).collect();
        let nodes = parts(topology, &all, Kind::Node);
        for (i, node) in nodes.iter().enumerate() {
            draw(topology, Kind::Node, std::slice::from_ref(node), i + 1 == nodes.len(), "", &mut text);
        }
        if topology.nr_nodes() > 1 {
            text.push_str("node distances\n");
            for (node, row) in topology.node_distance.iter().enumerate() {
                let row: Vec<String> = row.iter().map(|d| format!("{d:>3}")).collect();
                text.push_str(&format!("{node:>5}: {}\n", row.join(" ")));
            }
        }
        text
    }

    /// The costs, group by group, each with its source.
    pub fn cost_rows(&self) -> Vec<CostRow> {
        // Taken apart so that a new cost cannot be forgotten here.
        let Costs {
            smt_speed,
            line_transfer_ps,
            wakeup_ns,
            select_ns,
            balance_ns,
            switch_thread_ns,
            switch_process_ns,
            ipi_send_ns,
            ipi_flight_ns,
            ipi_handle_ns,
            idle_states,
            line_bytes,
            lines_in_flight,
            core_cache_bytes,
            llc_cache_bytes,
            llc_hit_ps,
            atomic_ps,
            runqueue_lock_ns,
            loopback_ns,
            loopback_ps_per_byte,
            futex_ns,
            exec_ns,
            push_ns,
            bandwidth_mb_per_s,
            write_traffic_percent,
            remote_bandwidth_percent,
            tick_period_ns,
            tick_ns,
            interrupt_ns,
            fork_ns,
            exit_ns,
            reads_may_hit: _,
            charge_reads: _,
            charge_writes: _,
            charge_data: _,
            charge_atomics: _,
        } = &self.costs;
        let present = self.topology.distances_present();
        let by_distance = |table: &[u64; Distance::COUNT]| {
            let values: Vec<String> =
                present.iter().map(|d| format!("{} {}", d.name(), table[d.index()])).collect();
            values.join(", ")
        };
        let bandwidth = |limits: &Bandwidth| {
            let limits: Vec<String> = limits
                .named()
                .iter()
                .filter(|(_, limit)| *limit > 0)
                .map(|(n, limit)| format!("{n} {limit}"))
                .collect();
            if limits.is_empty() { "no limit".to_owned() } else { limits.join(", ") }
        };
        let threads = self.topology.max_threads();
        let speeds: Vec<String> = smt_speed.iter().take(threads).map(u32::to_string).collect();
        let states: Vec<String> =
            idle_states.iter().map(|s| format!("{} after {}", s.exit_latency_ns, s.after_ns)).collect();
        [
            ("cores", "smt_speed", speeds.join(", "), "1/1024"),
            ("caches", "line_transfer_ps", by_distance(line_transfer_ps), "ps"),
            ("caches", "line_bytes", line_bytes.to_string(), "bytes"),
            ("caches", "lines_in_flight", lines_in_flight.to_string(), "lines"),
            ("caches", "core_cache_bytes", core_cache_bytes.to_string(), "bytes"),
            ("caches", "llc_cache_bytes", llc_cache_bytes.to_string(), "bytes"),
            ("caches", "llc_hit_ps", llc_hit_ps.to_string(), "ps"),
            ("caches", "atomic_ps", atomic_ps.to_string(), "ps"),
            ("memory", "bandwidth_mb_per_s", bandwidth(bandwidth_mb_per_s), "MB/s"),
            ("memory", "write_traffic_percent", write_traffic_percent.to_string(), "%"),
            ("memory", "remote_bandwidth_percent", by_distance(remote_bandwidth_percent), "%"),
            ("scheduler", "wakeup_ns", wakeup_ns.to_string(), "ns"),
            ("scheduler", "select_ns", select_ns.to_string(), "ns"),
            ("scheduler", "balance_ns", balance_ns.to_string(), "ns"),
            ("scheduler", "push_ns", push_ns.to_string(), "ns"),
            ("scheduler", "runqueue_lock_ns", runqueue_lock_ns.to_string(), "ns"),
            ("scheduler", "switch_thread_ns", switch_thread_ns.to_string(), "ns"),
            ("scheduler", "switch_process_ns", switch_process_ns.to_string(), "ns"),
            ("scheduler", "tick_period_ns", tick_period_ns.to_string(), "ns"),
            ("scheduler", "tick_ns", tick_ns.to_string(), "ns"),
            ("interrupts and idling", "ipi_send_ns", ipi_send_ns.to_string(), "ns"),
            ("interrupts and idling", "ipi_flight_ns", by_distance(ipi_flight_ns), "ns"),
            ("interrupts and idling", "ipi_handle_ns", ipi_handle_ns.to_string(), "ns"),
            ("interrupts and idling", "idle_states", states.join(", "), "ns"),
            ("interrupts and idling", "interrupt_ns", interrupt_ns.to_string(), "ns"),
            ("system calls", "futex_ns", futex_ns.to_string(), "ns"),
            ("system calls", "loopback_ns", loopback_ns.to_string(), "ns"),
            ("system calls", "loopback_ps_per_byte", loopback_ps_per_byte.to_string(), "ps"),
            ("system calls", "fork_ns", fork_ns.to_string(), "ns"),
            ("system calls", "exec_ns", exec_ns.to_string(), "ns"),
            ("system calls", "exit_ns", exit_ns.to_string(), "ns"),
        ]
        .into_iter()
        .map(|(group, key, value, unit)| {
            let source = self.sources.get(key).cloned().unwrap_or_default();
            CostRow { group, key, value, unit, source }
        })
        .collect()
    }
}

/// Kinds of parts, largest first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node,
    Llc,
    Cluster,
    Core,
}

impl Kind {
    fn of(self, cpu: &Cpu) -> u32 {
        match self {
            Kind::Node => cpu.node,
            Kind::Llc => cpu.llc,
            Kind::Cluster => cpu.cluster.unwrap_or(cpu.llc),
            Kind::Core => cpu.core,
        }
    }

    /// The next smaller kind that the machine has.
    fn inner(self, topology: &Topology) -> Option<Kind> {
        match self {
            Kind::Node => Some(Kind::Llc),
            Kind::Llc if topology.cpus[0].cluster.is_some() => Some(Kind::Cluster),
            Kind::Llc | Kind::Cluster => Some(Kind::Core),
            Kind::Core => None,
        }
    }
}

/// Splits CPUs into parts of a kind, in the order of their first CPU.
fn parts(topology: &Topology, cpus: &[u32], kind: Kind) -> Vec<Vec<u32>> {
    let mut parts: Vec<(u32, Vec<u32>)> = Vec::new();
    for &cpu in cpus {
        let id = kind.of(&topology.cpus[cpu as usize]);
        match parts.iter_mut().find(|(known, _)| *known == id) {
            Some((_, part)) => part.push(cpu),
            None => parts.push((id, vec![cpu])),
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// What is inside a part, without CPU numbers: parts of equal shape are drawn once.
fn shape(topology: &Topology, part: &[u32], kind: Kind) -> String {
    match kind.inner(topology) {
        Some(inner) => {
            let shapes: Vec<String> =
                parts(topology, part, inner).iter().map(|p| shape(topology, p, inner)).collect();
            format!("({})", shapes.join(" "))
        }
        None => format!("{}x{}", part.len(), topology.cpus[part[0] as usize].capacity),
    }
}

/// Draws parts of equal shape as one line, and what is inside the first of them below.
fn draw(topology: &Topology, kind: Kind, equal: &[Vec<u32>], last: bool, indent: &str, text: &mut String) {
    let first = &equal[0];
    let at = &topology.cpus[first[0] as usize];
    let (name, id) = match kind {
        Kind::Node => ("node", at.node),
        Kind::Llc => ("LLC", at.llc),
        Kind::Cluster => ("cluster", kind.of(at)),
        Kind::Core => ("core", at.core),
    };
    let label = if equal.len() == 1 { format!("{name} {id}") } else { format!("{} x {name}", equal.len()) };
    let lists: Vec<String> = if equal.iter().all(|part| part.len() == 1) {
        vec![cpulist::format(&equal.concat())]
    } else if equal.len() > 4 {
        let list = |i: usize| cpulist::format(&equal[i]);
        vec![list(0), list(1), "..".into(), list(equal.len() - 1)]
    } else {
        equal.iter().map(|part| cpulist::format(part)).collect()
    };
    let uneven = topology.cpus.iter().any(|cpu| cpu.capacity != topology.cpus[0].capacity);
    let capacity =
        if kind == Kind::Core && uneven { format!(", capacity {}", at.capacity) } else { String::new() };
    let branch = if last { "└─" } else { "├─" };
    text.push_str(&format!("{indent}{branch} {label}: CPUs {}{capacity}\n", lists.join(" | ")));
    let Some(inner) = kind.inner(topology) else { return };
    let indent = format!("{indent}{}", if last { "   " } else { "│  " });
    let inside = parts(topology, first, inner);
    let shapes: Vec<String> = inside.iter().map(|part| shape(topology, part, inner)).collect();
    let mut from = 0;
    while from < inside.len() {
        let run = shapes[from..].iter().take_while(|s| **s == shapes[from]).count();
        draw(topology, inner, &inside[from..from + run], from + run == inside.len(), &indent, text);
        from += run;
    }
}
