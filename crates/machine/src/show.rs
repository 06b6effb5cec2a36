// SPDX-License-Identifier: GPL-2.0-or-later
//! Shows a machine as text: the tree of its parts, and its costs with their sources.

use crate::costs::{COSTS, Cost, Figure};
use crate::{Cpu, Distance, IdleState, Machine, Topology, cpulist, printable};

/// One line of a table of costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostRow {
    /// Heading: `caches`, `scheduler`, ..; rows with the same heading follow each other.
    pub group: &'static str,
    /// The key in the machine file.
    pub key: &'static str,
    /// The figure; for a table by distance, only the distances that the machine has.
    pub value: String,
    /// `ns`, `ps`, `bytes`, `MB/s`, ..; `1/1024` for speeds.
    pub unit: &'static str,
    /// Where the figure is from.
    pub source: String,
}

impl Machine {
    /// Returns the tree of nodes, last-level caches, clusters and cores with their CPUs, one line each, and the
    /// distances between nodes below it. Neighbours of the same shape share a line:
    ///
    /// ```text
    /// power9-2s22c4t: 176 CPUs
    /// ├─ node 0: CPUs 0-87
    /// │  └─ 11 x LLC: CPUs 0-7 | 8-15 | .. | 80-87
    /// │     └─ 2 x core: CPUs 0-3 | 4-7
    /// └─ node 1: ..
    /// ```
    ///
    /// Below a line that stands for several parts, only the first of them is drawn.
    pub fn tree(&self) -> String {
        let topology = &self.topology;
        let mut text = format!("{}: {} CPUs\n", printable(&self.name), topology.nr_cpus());
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

    /// Returns the costs, group by group, each with its source.
    pub fn cost_rows(&self) -> Vec<CostRow> {
        let present = self.topology.distances_present();
        let threads = self.topology.max_threads();
        let row = |cost: &'static Cost| CostRow {
            group: cost.group,
            key: cost.key,
            value: show_figure((cost.get)(&self.costs), &present, threads),
            unit: cost.unit,
            source: self.sources.get(cost.key).cloned().unwrap_or_default(),
        };
        COSTS.iter().map(row).collect()
    }
}

/// Returns a figure's value without its unit; for a table, only the entries that the machine has.
pub(crate) fn show_figure(figure: Figure, present: &[Distance], threads: usize) -> String {
    let words: Vec<String> = match figure {
        Figure::Number(value) => vec![value.to_string()],
        Figure::ByDistance(table) => {
            present.iter().map(|d| format!("{} {}", d.name(), table[d.index()])).collect()
        }
        Figure::Speeds(speeds) => speeds.iter().take(threads).map(u32::to_string).collect(),
        Figure::IdleStates(states) => states.iter().map(show_idle_state).collect(),
        Figure::Bandwidth(limits) => {
            let limited = limits.named().into_iter().filter(|(_, limit)| *limit > 0);
            limited.map(|(name, limit)| format!("{name} {limit}")).collect()
        }
    };
    if words.is_empty() { "no limit".to_owned() } else { words.join(", ") }
}

/// An idle state; of exits that differ, the percentiles 5 and 99.
fn show_idle_state(state: &IdleState) -> String {
    let IdleState { after_ns, exit_latency_ns, cold_percent, exit_percent } = state;
    let [p5, .., p99, _, _] = exit_percent.percents();
    let cold = (*cold_percent > 0).then(|| format!("cold {cold_percent} %"));
    let spread = exit_percent.varies().then(|| format!("{p5} to {p99} %"));
    let more: Vec<String> = cold.into_iter().chain(spread).collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join("; ")) };
    format!("{exit_latency_ns} after {after_ns}{more}")
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

/// Returns what is inside a part, without CPU numbers. Parts with the same result share a line.
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
