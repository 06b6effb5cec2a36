// SPDX-License-Identifier: GPL-2.0-or-later
//! Refuses impossible machines: shapes on which Linux cannot have booted, and costs that no machine has.
//!
//! Domains must form a tree: all CPUs of a core are in one cluster, all CPUs of a cluster in one last-level cache, and
//! all CPUs of a last-level cache in one node. Every later table relies on this. A topology lists its parts CPU by CPU,
//! so two CPUs can contradict each other; the errors name both. Nodes must nest too: at each distance, "at most that
//! far apart" must divide the nodes into separate sets. Linux copes with sets that overlap (a ring of four nodes).
//! wakelab refuses them rather than guess, because its levels are partitions.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::costs::{COSTS, Cost, FULL_SPEED, Figure, Limits, MAX_COLD_PERCENT, MAX_COST_NS, ORDERED};
use crate::error::{Fault, Part};
use crate::exits::MAX_EXIT_PERCENT;
use crate::{Bandwidth, Costs, Cpu, Distance, IdleState, MAX_CPUS, Topology};

/// ACPI's distance of a node from itself.
pub(crate) const LOCAL_DISTANCE: u32 = 10;
/// ACPI's largest distance; 255 means unreachable.
const MAX_DISTANCE: u32 = 254;
/// Remote distances that can be told apart: [`Distance::Numa1`] to [`Distance::Numa3`].
const MAX_REMOTE_DISTANCES: usize = 3;
/// Linux's cpu_capacity of the fastest core.
pub(crate) const MAX_CAPACITY: u32 = 1024;
pub(crate) const MAX_BANDWIDTH_MB_PER_S: u64 = 1_000_000_000;
const MAX_IDLE_STATES: usize = 16;

pub(crate) fn check_topology(topology: &Topology) -> Result<(), Fault> {
    check_size(topology.nr_cpus() as u64)?;
    check_node_distances(&topology.node_distance)?;
    check_cpus(topology)?;
    check_tree(topology)
}

/// Refuses no CPUs, and more CPUs than wakelab has room for.
pub(crate) fn check_size(nr_cpus: u64) -> Result<(), Fault> {
    if nr_cpus == 0 || nr_cpus > MAX_CPUS as u64 {
        return Err(Fault::new(Part::Topology, format!("{nr_cpus} CPUs"), format!("1 to {MAX_CPUS} CPUs")));
    }
    Ok(())
}

fn check_node_distances(matrix: &[Vec<u32>]) -> Result<(), Fault> {
    let nr_nodes = matrix.len();
    if nr_nodes == 0 {
        return Err(Fault::new(
            Part::Topology,
            "no NUMA node",
            "at least one node, at distance 10 from itself",
        ));
    }
    if nr_nodes > MAX_CPUS {
        return Err(Fault::new(Part::Topology, format!("{nr_nodes} nodes"), "no more nodes than CPUs"));
    }
    for (a, row) in matrix.iter().enumerate() {
        if row.len() != nr_nodes {
            return Err(Fault::new(
                Part::NodeRow(a),
                format!("node {a} has {} distances", row.len()),
                format!("{nr_nodes}, one to each node"),
            ));
        }
    }
    for (a, row) in matrix.iter().enumerate() {
        for (b, &d) in row.iter().enumerate() {
            check_node_distance(matrix, a, b, d)?;
        }
    }
    check_nodes_nest(matrix)
}

fn check_node_distance(matrix: &[Vec<u32>], a: usize, b: usize, d: u32) -> Result<(), Fault> {
    let fault = |what, expected: String| Err(Fault::new(Part::NodeRow(a), what, expected));
    if a == b {
        if d != LOCAL_DISTANCE {
            return fault(format!("node {a} is at distance {d} from itself"), LOCAL_DISTANCE.to_string());
        }
        return Ok(());
    }
    if d <= LOCAL_DISTANCE {
        return fault(
            format!("nodes {a} and {b} are at distance {d}, no farther than a node from itself"),
            format!("{} to {MAX_DISTANCE}", LOCAL_DISTANCE + 1),
        );
    }
    if d > MAX_DISTANCE {
        return fault(
            format!("nodes {a} and {b} are at distance {d}"),
            format!("{} to {MAX_DISTANCE}", LOCAL_DISTANCE + 1),
        );
    }
    if matrix[b][a] != d {
        return fault(
            format!(
                "node {a} is at distance {d} from node {b}, but node {b} at {} from node {a}",
                matrix[b][a]
            ),
            "a symmetric matrix".into(),
        );
    }
    Ok(())
}

fn check_nodes_nest(matrix: &[Vec<u32>]) -> Result<(), Fault> {
    let remote = remote_distances(matrix);
    if remote.len() > MAX_REMOTE_DISTANCES {
        return Err(Fault::new(
            Part::NodeRow(0),
            format!("{} distances between nodes: {remote:?}", remote.len()),
            format!("at most {MAX_REMOTE_DISTANCES} different ones"),
        ));
    }
    for &reach in &remote {
        // If "within reach" divides the nodes into sets, the first node within reach of a node names its set.
        let set: Vec<usize> = matrix
            .iter()
            .enumerate()
            .map(|(a, row)| row.iter().position(|&d| d <= reach).unwrap_or(a))
            .collect();
        for (a, row) in matrix.iter().enumerate() {
            for (b, &d) in row.iter().enumerate() {
                if (d <= reach) == (set[a] == set[b]) {
                    continue;
                }
                let (middle, x, y) = match (d <= reach, set[a] < set[b]) {
                    (false, _) => (set[a], a, b),
                    (true, true) => (a, set[a], b),
                    (true, false) => (b, set[b], a),
                };
                return Err(Fault::new(
                    Part::NodeRow(a),
                    format!(
                        "distances do not nest: nodes {x} and {y} are each within {reach} of node {middle}, but at {} \
                         from each other",
                        matrix[x][y]
                    ),
                    format!("nodes within {reach} of each other to be separate sets"),
                ));
            }
        }
    }
    Ok(())
}

/// The distinct distances between different nodes, ascending.
pub(crate) fn remote_distances(matrix: &[Vec<u32>]) -> Vec<u32> {
    let mut remote: Vec<u32> = Vec::new();
    for (a, row) in matrix.iter().enumerate() {
        for (b, &d) in row.iter().enumerate() {
            if let (true, Err(at)) = (a != b, remote.binary_search(&d)) {
                remote.insert(at, d);
            }
        }
    }
    remote
}

fn check_cpus(topology: &Topology) -> Result<(), Fault> {
    let nr_nodes = topology.nr_nodes();
    let mut used = vec![false; nr_nodes];
    let with_cluster = topology.cpus[0].cluster.is_some();
    for (cpu, at) in topology.cpus.iter().enumerate() {
        let Some(node) = used.get_mut(at.node as usize) else {
            return Err(Fault::new(
                Part::Cpu(cpu),
                format!("CPU {cpu} is in node {}", at.node),
                format!("a node below {nr_nodes}, the size of the distance matrix"),
            ));
        };
        *node = true;
        if at.capacity == 0 || at.capacity > MAX_CAPACITY {
            return Err(Fault::new(
                Part::Cpu(cpu),
                format!("CPU {cpu} has capacity {}", at.capacity),
                format!("1 to {MAX_CAPACITY}"),
            ));
        }
        if at.cluster.is_some() != with_cluster {
            let (with, without) = if with_cluster { (0, cpu) } else { (cpu, 0) };
            return Err(Fault::new(
                Part::Cpu(cpu),
                format!("CPU {with} is in a cluster and CPU {without} is not"),
                "a cluster for every CPU, or for none",
            ));
        }
    }
    if let Some(empty) = used.iter().position(|used| !used) {
        return Err(Fault::new(
            Part::NodeRow(empty),
            format!("node {empty} has no CPUs"),
            "nodes with CPUs only: leave the others out of the matrix",
        ));
    }
    Ok(())
}

/// Each part must lie inside one part of the next larger kind.
fn check_tree(topology: &Topology) -> Result<(), Fault> {
    type Id = fn(&Cpu) -> Option<u32>;
    let kinds: [(&str, Id); 4] = [
        ("core", |c| Some(c.core)),
        ("cluster", |c| c.cluster),
        ("LLC", |c| Some(c.llc)),
        ("node", |c| Some(c.node)),
    ];
    for (i, &(inner, inner_of)) in kinds.iter().enumerate() {
        for &(outer, outer_of) in &kinds[i + 1..] {
            check_contains(topology, inner, inner_of, outer, outer_of)?;
        }
    }
    let mut core_capacity: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
    for (cpu, at) in topology.cpus.iter().enumerate() {
        let &mut (first, capacity) = core_capacity.entry(at.core).or_insert((cpu, at.capacity));
        if capacity != at.capacity {
            return Err(Fault::new(
                Part::Cpu(cpu),
                format!(
                    "core {} has capacity {capacity} (CPU {first}) and {} (CPU {cpu})",
                    at.core, at.capacity
                ),
                "one capacity for all threads of a core",
            ));
        }
    }
    Ok(())
}

/// Refuses a part of the kind `inner` whose CPUs are in several parts of the kind `outer`.
fn check_contains(
    topology: &Topology,
    inner: &str,
    inner_of: fn(&Cpu) -> Option<u32>,
    outer: &str,
    outer_of: fn(&Cpu) -> Option<u32>,
) -> Result<(), Fault> {
    let mut home: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
    for (cpu, at) in topology.cpus.iter().enumerate() {
        let (Some(part), Some(whole)) = (inner_of(at), outer_of(at)) else { continue };
        let &mut (first, first_whole) = home.entry(part).or_insert((cpu, whole));
        if first_whole != whole {
            return Err(Fault::new(
                Part::Cpu(cpu),
                format!(
                    "{inner} {part} is in {outer} {first_whole} (CPU {first}) and in {outer} {whole} (CPU {cpu})"
                ),
                format!("all CPUs of {inner} {part} in one {outer}"),
            ));
        }
    }
    Ok(())
}

fn check_range(key: &'static str, value: u64, range: &RangeInclusive<u64>) -> Result<(), Fault> {
    if range.contains(&value) {
        return Ok(());
    }
    let expected = match range.start() {
        0 => format!("at most {}", range.end()),
        least => format!("{least} to {}", range.end()),
    };
    Err(Fault::new(Part::Cost(key), format!("`{key}` is {value}"), expected))
}

/// Refuses costs that do not fit the topology or that no machine has.
pub(crate) fn check_costs(topology: &Topology, costs: &Costs) -> Result<(), Fault> {
    let present = topology.distances_present();
    for cost in COSTS {
        match (&cost.limits, (cost.get)(costs)) {
            (Limits::Number(range), Figure::Number(value)) => check_range(cost.key, value, range)?,
            (Limits::Excess(most), Figure::Number(value)) => check_range(cost.key, value, &(100..=*most))?,
            (Limits::Rising(most), Figure::ByDistance(table)) => {
                check_rising(cost.key, &table, &present, *most)?;
            }
            (Limits::Falling, Figure::ByDistance(table)) => check_falling(cost.key, &table, &present)?,
            (Limits::Speeds, Figure::Speeds(speeds)) => check_speeds(cost.key, topology, &speeds)?,
            (Limits::IdleStates, Figure::IdleStates(states)) => check_idle_states(cost.key, &states)?,
            (Limits::Bandwidth, Figure::Bandwidth(limits)) => check_bandwidth(cost.key, &limits)?,
            (limits, figure) => unreachable!("`{}`: {limits:?} of {figure:?}", cost.key),
        }
    }
    for (less, more, gap) in ORDERED {
        let (low, high) = (costs.number(less), costs.number(more));
        if low + gap > high {
            let expected = if gap == 0 { "at most" } else { "less than" };
            return Err(Fault::new(
                Part::Cost(less),
                format!("`{less}` is {low}"),
                format!("{expected} `{more}`, {high}"),
            ));
        }
    }
    Ok(())
}

/// Returns the values that one number of a figure may have.
pub(crate) fn limits_of(cost: &Cost) -> RangeInclusive<u64> {
    match &cost.limits {
        Limits::Number(range) => range.clone(),
        Limits::Excess(most) => 100..=*most,
        Limits::Rising(most) => 0..=*most,
        Limits::Falling => 1..=100,
        Limits::Speeds => 1..=u64::from(FULL_SPEED),
        Limits::IdleStates => 0..=MAX_COST_NS,
        // 0 is no limit, and nothing lies between that and a small one.
        Limits::Bandwidth => 1..=MAX_BANDWIDTH_MB_PER_S,
    }
}

fn check_bandwidth(key: &'static str, limits: &Bandwidth) -> Result<(), Fault> {
    match limits.named().into_iter().find(|(_, value)| *value > MAX_BANDWIDTH_MB_PER_S) {
        Some((limit, value)) => Err(Fault::new(
            Part::Cost(key),
            format!("`{key}` has {value} for `{limit}`"),
            format!("at most {MAX_BANDWIDTH_MB_PER_S}, or 0 for no limit"),
        )),
        None => Ok(()),
    }
}

/// Refuses percentages by distance that are not 100 inside a node, or that rise with distance.
fn check_falling(
    key: &'static str,
    table: &[u64; Distance::COUNT],
    present: &[Distance],
) -> Result<(), Fault> {
    let fault = |distance: &Distance, percent: u64, expected: String| {
        let what = format!("`{key}` has {percent} for `{}`", distance.name());
        Err(Fault::new(Part::Cost(key), what, expected))
    };
    let mut nearer = 100;
    for distance in present {
        let percent = table[distance.index()];
        if *distance < Distance::Numa1 && percent != 100 {
            return fault(distance, percent, "100 inside a node".into());
        }
        if percent == 0 || percent > nearer {
            return fault(distance, percent, format!("1 to {nearer}: no more from farther away"));
        }
        nearer = percent;
    }
    Ok(())
}

fn check_speeds(key: &'static str, topology: &Topology, speed: &[u32]) -> Result<(), Fault> {
    let fault = |what: String, expected: String| Err(Fault::new(Part::Cost(key), what, expected));
    let threads = topology.max_threads();
    if speed.len() < threads {
        return fault(
            format!("`{key}` has {} entries and a core has {threads} threads", speed.len()),
            "an entry for each number of busy threads".into(),
        );
    }
    if speed.len() > MAX_CPUS {
        return fault(format!("`{key}` has {} entries", speed.len()), format!("at most {MAX_CPUS}"));
    }
    if speed.first() != Some(&1024) {
        return fault(
            format!("`{key}` does not begin with 1024"),
            "the speed of a thread alone, 1024".into(),
        );
    }
    for (i, pair) in speed.windows(2).enumerate() {
        if pair[1] > pair[0] || pair[1] == 0 {
            return fault(
                format!("`{key}` goes from {} to {} with {} busy threads", pair[0], pair[1], i + 2),
                "speeds that do not rise, and are at least 1".into(),
            );
        }
    }
    Ok(())
}

/// Refuses values that fall with distance. Looks only at distances that the machine has, because the others are never
/// read.
fn check_rising(
    key: &'static str,
    table: &[u64; Distance::COUNT],
    present: &[Distance],
    max: u64,
) -> Result<(), Fault> {
    for pair in present.windows(2) {
        let (near, far) = (table[pair[0].index()], table[pair[1].index()]);
        if far < near {
            return Err(Fault::new(
                Part::Cost(key),
                format!("`{key}` falls from {near} at `{}` to {far} at `{}`", pair[0].name(), pair[1].name()),
                "values that do not fall with distance",
            ));
        }
    }
    match table.iter().find(|&&value| value > max) {
        Some(value) => {
            Err(Fault::new(Part::Cost(key), format!("`{key}` has {value}"), format!("at most {max}")))
        }
        None => Ok(()),
    }
}

fn check_idle_states(key: &'static str, states: &[IdleState]) -> Result<(), Fault> {
    let fault = |what: String, expected: String| Err(Fault::new(Part::Cost(key), what, expected));
    if states.is_empty() || states.len() > MAX_IDLE_STATES {
        return fault(format!("`{key}` has {} entries", states.len()), format!("1 to {MAX_IDLE_STATES}"));
    }
    if states[0].after_ns != 0 {
        return fault(
            format!("the first of `{key}` begins after {} ns", states[0].after_ns),
            "`after_ns = 0`".into(),
        );
    }
    for (i, state) in states.iter().enumerate() {
        if state.cold_percent > MAX_COLD_PERCENT {
            return fault(
                format!("idle state {i} has `cold_percent = {}`", state.cold_percent),
                format!("at most {MAX_COLD_PERCENT}"),
            );
        }
        let percents = state.exit_percent.percents();
        if !percents.is_sorted() || percents[percents.len() - 1] > MAX_EXIT_PERCENT {
            return fault(
                format!("idle state {i} has `exit_percent = {percents:?}`"),
                format!("percentages that do not fall, at most {MAX_EXIT_PERCENT}"),
            );
        }
        if state.after_ns > MAX_COST_NS || state.exit_latency_ns > MAX_COST_NS {
            return fault(
                format!(
                    "idle state {i} is {{ after_ns = {}, exit_latency_ns = {} }}",
                    state.after_ns, state.exit_latency_ns
                ),
                format!("at most {MAX_COST_NS} each"),
            );
        }
    }
    for pair in states.windows(2) {
        if pair[1].after_ns <= pair[0].after_ns || pair[1].exit_latency_ns < pair[0].exit_latency_ns {
            return fault(
                format!(
                    "`{key}` go from {} to {} ns of idling and from {} to {} ns of exit latency",
                    pair[0].after_ns, pair[1].after_ns, pair[0].exit_latency_ns, pair[1].exit_latency_ns
                ),
                "deeper states to begin later and to take no less to leave".into(),
            );
        }
    }
    Ok(())
}
