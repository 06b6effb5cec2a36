// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory bandwidth: streams share what cores, clusters, last-level caches, nodes and the machine can deliver. This
//! file computes the rate of each stream; stream.rs executes segments at that rate.
//!
//! A stream *demands* its traffic over the time that its work takes, but at most what one core gets (`core`; from
//! another node `remote_bandwidth_percent` of it). The demand passes through the levels from the inside out: the core,
//! its cluster, its last-level cache, the node that has the memory, the machine. What one level grants is the demand on
//! the next. A level with a total demand D that can deliver C grants
//!
//! ```text
//! E = D x C / sqrt(D^2 + C^2)
//! ```
//!
//! and shares E max-min among the streams: a stream that demands less than an equal share of what is left gets all of
//! it, the others get equal shares. Between the threads of one core, E is the lesser of D and C, because C is what one
//! thread gets. A level without a limit grants every demand.
//!
//! In this form, streams slow down before the limit is reached, and the limit is the only parameter. Source: STREAM
//! copy on a Kunpeng 920, `core` 12.4 GB/s, `node` 63.3 GB/s (wayca-scheduler's tool results). 4, 6, 12 and 24 threads
//! spread over the clusters get 39.0, 48.2, 58.2 and 61.9 GB/s by the formula; measured were 40.8, 47.6, 59.4 and 63.3.
//!
//! The part of a stream that the last-level cache holds never reaches the node and the machine. They are asked only for
//! the other part; if they grant less of it, the whole stream is slower in proportion.
//!
//! Worked example: a node of 400 MB/s, with streams that demand 50, 100 and 150. D = 300, sqrt(300^2 + 400^2) = 500, E
//! = 240. An equal share is 80, so the first stream gets its 50. 190 are left, of which an equal share is 95: the
//! others get 95 each. Then two streams of 300, of which the last-level cache holds half: the node is asked for 150 of
//! each and grants 120, so each gets 240.
//!
//! Cost: a stream that starts, stops or changes its demand costs a sort of the streams that share a limit with it; a
//! single stream costs the number of levels. If nothing changes at a level, no level above is computed. It fails where
//! two levels state the same limit (an LLC that is a whole node), because both slow streams down. Such a machine should
//! state only one of the limits.
//!
//! Rates are whole numbers of 1/64 MB/s, and equal shares are rounded down to them.

use wakelab_machine::{Machine, Topology};

use crate::ids::{NONE, dense};

/// 1 MB/s, that is, one byte per microsecond.
pub(crate) const MB_PER_S: u64 = 64;
/// The greatest demand of a stream if the core has no limit; above every limit (10^9 MB/s).
const DEMAND_MAX: u64 = 1_000_000_000 * MB_PER_S;

const CORE: usize = 0;
const NODE: usize = 3;
const LEVELS: usize = 5;

/// A part of the machine that has a limit.
struct Domain {
    /// In 1/64 MB/s; 0: no limit.
    limit: u64,
    /// CPUs that stream through it, ascending.
    members: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Stream {
    demand: u64,
    /// The percentage of it that comes from memory; the rest comes from the last-level cache.
    memory_percent: u64,
    /// What each level grants of the whole stream, from the inside out.
    grants: [u64; LEVELS],
    /// Index of the domain at each level, or `NONE`. The node is that of the memory.
    domains: [u32; LEVELS],
}

/// All streams, and the rate of each.
pub(crate) struct Memory {
    /// By CPU. Empty on a machine without limits.
    streams: Vec<Option<Stream>>,
    domains: [Vec<Domain>; LEVELS],
    /// By CPU: its core, cluster and last-level cache.
    inside: Vec<[u32; NODE]>,
    node_of: Vec<u32>,
    /// The limit `core`, from one node's CPUs to another's memory.
    reach: Vec<u64>,
    nr_nodes: usize,
    scratch: Vec<u64>,
}

impl Memory {
    pub(crate) fn new(machine: &Machine) -> Memory {
        let (topology, limits) = (&machine.topology, machine.costs.bandwidth_mb_per_s);
        let limits = [limits.core, limits.cluster, limits.llc, limits.node, limits.machine];
        let is_limited = limits.iter().any(|&limit| limit > 0);
        let cpus = if is_limited { topology.cpus.as_slice() } else { &[] };
        let [cores, clusters, llcs] = [
            dense(cpus.iter().map(|cpu| cpu.core)),
            dense(cpus.iter().map(|cpu| cpu.cluster.unwrap_or(NONE))),
            dense(cpus.iter().map(|cpu| cpu.llc)),
        ];
        let inside: Vec<[u32; NODE]> = (0..cpus.len())
            .map(|cpu| {
                let cluster = if cpus[cpu].cluster.is_some() { clusters[cpu] } else { NONE };
                [cores[cpu], cluster, llcs[cpu]]
            })
            .collect();
        let count = |level: usize| match level {
            0..NODE => {
                inside.iter().map(|at| at[level]).filter(|&at| at != NONE).max().map_or(0, |last| last + 1)
            }
            NODE => topology.nr_nodes() as u32,
            _ => 1,
        };
        let domains = |level: usize| {
            let limit = limits[level] * MB_PER_S;
            (0..count(level)).map(|_| Domain { limit, members: Vec::new() }).collect()
        };
        Memory {
            streams: vec![None; cpus.len()],
            domains: std::array::from_fn(domains),
            node_of: cpus.iter().map(|cpu| cpu.node).collect(),
            reach: if is_limited { reach(topology, machine) } else { Vec::new() },
            nr_nodes: topology.nr_nodes(),
            inside,
            scratch: Vec::new(),
        }
    }

    /// The node of each CPU; empty on a machine without limits.
    pub(crate) fn nodes(&self) -> &[u32] {
        &self.node_of
    }

    /// What the CPU's stream is granted, in 1/64 MB/s.
    pub(crate) fn rate(&self, cpu: u32) -> u64 {
        self.streams[cpu as usize].map_or(0, |stream| stream.grants[LEVELS - 1])
    }

    /// From now on the CPU streams through the memory of node `home`, and would take `wanted`, in 1/64 MB/s, of which
    /// the last-level cache has `llc_percent`. Returns the CPUs whose rates changed, perhaps itself among them.
    pub(crate) fn stream(&mut self, cpu: u32, home: u32, wanted: u64, llc_percent: u32) -> Vec<u32> {
        let at = cpu as usize;
        let reach = self.reach[self.node_of[at] as usize * self.nr_nodes + home as usize];
        let demand = wanted.clamp(1, reach);
        let memory_percent = u64::from(100 - llc_percent.min(100));
        match &mut self.streams[at] {
            Some(stream) if stream.domains[NODE] == home && stream.memory_percent == memory_percent => {
                if std::mem::replace(&mut stream.demand, demand) == demand {
                    return Vec::new();
                }
                self.share_again(Some(cpu), [NONE; LEVELS])
            }
            other => {
                let left = other.map_or([NONE; LEVELS], |stream| stream.domains);
                let [core, cluster, llc] = self.inside[at];
                let domains = [core, cluster, llc, home, 0];
                // No grant is so high, so each level sees a change.
                *other = Some(Stream { demand, memory_percent, grants: [u64::MAX; LEVELS], domains });
                self.leave(cpu, left);
                for (level, domain) in domains.into_iter().enumerate().filter(|&(_, domain)| domain != NONE) {
                    let members = &mut self.domains[level][domain as usize].members;
                    let place = members.partition_point(|&other| other < cpu);
                    members.insert(place, cpu);
                }
                self.share_again(Some(cpu), left)
            }
        }
    }

    /// The CPU stops streaming. Returns the CPUs whose rates changed.
    pub(crate) fn stop(&mut self, cpu: u32) -> Vec<u32> {
        let Some(stream) = self.streams[cpu as usize].take() else { return Vec::new() };
        self.leave(cpu, stream.domains);
        self.share_again(None, stream.domains)
    }

    fn leave(&mut self, cpu: u32, domains: [u32; LEVELS]) {
        for (level, domain) in domains.into_iter().enumerate().filter(|&(_, domain)| domain != NONE) {
            self.domains[level][domain as usize].members.retain(|&other| other != cpu);
        }
    }

    /// Shares out again the domains that `cpu` uses, and the domains `left`, level by level, until nothing changes.
    /// Returns the CPUs whose grant of the last level changed, ascending.
    fn share_again(&mut self, cpu: Option<u32>, left: [u32; LEVELS]) -> Vec<u32> {
        let mut asking: Vec<u32> = cpu.into_iter().collect();
        let mut touched: Vec<u32> = Vec::new();
        for (level, left) in left.into_iter().enumerate() {
            touched.clear();
            touched.extend(asking.iter().map(|&cpu| self.domain_of(cpu, level)));
            touched.push(left);
            touched.sort_unstable();
            touched.dedup();
            let mut next = Vec::new();
            for &domain in &touched {
                let limit = self.domains[level].get(domain as usize).map_or(0, |domain| domain.limit);
                if limit > 0 {
                    self.share(level, domain, limit, &mut next);
                    continue;
                }
                for &cpu in &asking {
                    if self.domain_of(cpu, level) != domain {
                        continue;
                    }
                    let grant = self.asked_for(cpu, level);
                    grant_to(&mut self.streams, cpu, level, grant, &mut next);
                }
            }
            next.sort_unstable();
            asking = next;
        }
        asking
    }

    /// Shares a domain's limit among its streams, and appends the CPUs whose grant changes.
    fn share(&mut self, level: usize, domain: u32, limit: u64, changed: &mut Vec<u32>) {
        let mut asked = std::mem::take(&mut self.scratch);
        asked.clear();
        let members = &self.domains[level][domain as usize].members;
        asked.extend(
            members.iter().map(|&cpu| self.asked_for(cpu, level) * self.percent_at(cpu, level) / 100),
        );
        asked.sort_unstable();
        let share = equal_share(&asked, limit, level == CORE);
        self.scratch = asked;
        for at in 0..self.domains[level][domain as usize].members.len() {
            let cpu = self.domains[level][domain as usize].members[at];
            let (whole, percent) = (self.asked_for(cpu, level), self.percent_at(cpu, level));
            let grant =
                if whole * percent / 100 <= share { whole } else { (share * 100 / percent).min(whole) };
            grant_to(&mut self.streams, cpu, level, grant, changed);
        }
    }

    fn domain_of(&self, cpu: u32, level: usize) -> u32 {
        self.streams[cpu as usize].map_or(NONE, |stream| stream.domains[level])
    }

    /// The percentage of the stream that reaches this level.
    fn percent_at(&self, cpu: u32, level: usize) -> u64 {
        if level < NODE {
            100
        } else {
            self.streams[cpu as usize].map_or(100, |stream| stream.memory_percent)
        }
    }

    /// The rate that the stream demands of this level, including the part that does not reach it.
    fn asked_for(&self, cpu: u32, level: usize) -> u64 {
        let stream = self.streams[cpu as usize];
        stream.map_or(0, |stream| if level == CORE { stream.demand } else { stream.grants[level - 1] })
    }
}

fn grant_to(streams: &mut [Option<Stream>], cpu: u32, level: usize, grant: u64, changed: &mut Vec<u32>) {
    if let Some(stream) = &mut streams[cpu as usize]
        && std::mem::replace(&mut stream.grants[level], grant) != grant
    {
        changed.push(cpu);
    }
}

/// The most that a stream gets if these demands, ascending, share a limit; at least 1.
fn equal_share(asked: &[u64], limit: u64, is_core: bool) -> u64 {
    let demand: u128 = asked.iter().map(|&one| u128::from(one)).sum();
    let limit = u128::from(limit);
    let mut left = if is_core {
        demand.min(limit)
    } else {
        demand * limit / (demand * demand + limit * limit).isqrt().max(1)
    };
    for (at, &one) in asked.iter().enumerate() {
        let share = left / (asked.len() - at) as u128;
        if u128::from(one) > share {
            return (share as u64).max(1);
        }
        left -= u128::from(one);
    }
    u64::MAX
}

/// What one core gets, by node of the CPU and node of the memory.
fn reach(topology: &Topology, machine: &Machine) -> Vec<u64> {
    let nr_nodes = topology.nr_nodes();
    let distances = topology.distances();
    let first_cpu: Vec<u32> = (0..nr_nodes as u32)
        .map(|node| topology.cpus.iter().position(|cpu| cpu.node == node).unwrap_or(0) as u32)
        .collect();
    let core = machine.costs.bandwidth_mb_per_s.core * MB_PER_S;
    let mut reach = vec![if core == 0 { DEMAND_MAX } else { core }; nr_nodes * nr_nodes];
    for (at, most) in reach.iter_mut().enumerate() {
        let (from, to) = (at / nr_nodes, at % nr_nodes);
        if from != to && core > 0 {
            let distance = distances.between(first_cpu[from], first_cpu[to]);
            let percent = machine.costs.remote_bandwidth_percent[distance.index()];
            *most = (core * percent / 100).max(1);
        }
    }
    reach
}

#[cfg(test)]
mod tests {
    use wakelab_machine::Bandwidth;

    use super::*;
    use crate::engine_tests::common::machine;

    fn memory(llcs: u32, cores: u32, limits: Bandwidth) -> Memory {
        let mut machine = machine(llcs, cores, 1);
        machine.costs.bandwidth_mb_per_s = limits;
        Memory::new(&machine)
    }

    fn rates(memory: &Memory, cpus: u32) -> Vec<u64> {
        (0..cpus).map(|cpu| memory.rate(cpu) / MB_PER_S).collect()
    }

    /// The worked example above; then the first stops. D = 250, sqrt(250^2 + 400^2) = 471.7, E = 212.0: 100 and 112.
    #[test]
    fn shares_are_max_min() {
        let mut memory = memory(1, 3, Bandwidth { node: 400, ..Bandwidth::default() });
        for (cpu, demand) in [(0, 50), (1, 100), (2, 150)] {
            memory.stream(cpu, 0, demand * MB_PER_S, 0);
        }
        assert_eq!(rates(&memory, 3), [50, 95, 95]);
        assert_eq!(memory.stop(0), [1, 2]);
        assert_eq!(rates(&memory, 3), [0, 100, 112]);
    }

    /// CPUs 0 and 1 share an LLC of 100 MB/s, CPUs 2 and 3 another; each of the four demands 100. In an LLC D = 200, E
    /// = 200 x 100 / 223.6 = 89.4, 44.7 each. The memory of node 0 is asked for 4 x 44.7 and delivers 120: 178.9 x 120
    /// / 215.4 = 99.6, 24.9 each.
    #[test]
    fn what_a_level_grants_is_what_the_next_is_asked_for() {
        let mut memory = memory(2, 2, Bandwidth { llc: 100, node: 120, ..Bandwidth::default() });
        for cpu in 0..4 {
            memory.stream(cpu, 0, 100 * MB_PER_S, 0);
        }
        assert_eq!(rates(&memory, 4), [24; 4]);
        assert_eq!(memory.rate(0), 1594, "24.9 x 64");
        // A stream in node 1 does not affect what is behind its own LLC's limit and its own node's.
        for cpu in 0..4 {
            memory.stop(cpu);
        }
        memory.stream(0, 0, 10 * MB_PER_S, 0);
        assert_eq!(memory.stream(2, 1, 10 * MB_PER_S, 0), [2]);
        assert_eq!(memory.stop(2), []);
    }

    /// The worked example; then all of it from the last-level cache, which the node does not see; then none: D = 600.
    #[test]
    fn what_the_last_level_cache_has_is_not_asked_of_the_node() {
        let mut memory = memory(1, 2, Bandwidth { node: 400, ..Bandwidth::default() });
        memory.stream(0, 0, 300 * MB_PER_S, 50);
        memory.stream(1, 0, 300 * MB_PER_S, 50);
        assert_eq!(rates(&memory, 2), [240, 240]);
        // Of the other 150 x 400 / sqrt(150^2 + 400^2) = 140.4 is granted: 280.9.
        assert_eq!(memory.stream(0, 0, 300 * MB_PER_S, 100), [0, 1]);
        assert_eq!(rates(&memory, 2), [300, 280]);
        // 600 x 400 / sqrt(600^2 + 400^2) = 332.8.
        memory.stream(0, 0, 300 * MB_PER_S, 0);
        memory.stream(1, 0, 300 * MB_PER_S, 0);
        assert_eq!(rates(&memory, 2), [166, 166]);
    }

    /// Local memory 100 MB/s, that of the other node half of it; a move to other memory leaves nothing behind.
    #[test]
    fn remote_memory_is_slower() {
        let mut machine = machine(2, 1, 1);
        machine.costs.bandwidth_mb_per_s.core = 100;
        machine.costs.remote_bandwidth_percent[wakelab_machine::Distance::Numa1.index()] = 50;
        let mut memory = Memory::new(&machine);
        memory.stream(0, 0, DEMAND_MAX, 0);
        assert_eq!(rates(&memory, 2), [100, 0]);
        memory.stream(0, 1, DEMAND_MAX, 0);
        assert_eq!(rates(&memory, 2), [50, 0]);
        assert!(memory.domains[NODE][0].members.is_empty());
        assert_eq!(memory.domains[NODE][1].members, [0]);
    }

    /// The limit is approached but never reached: 1,000 streams of 1 MB/s under a limit of 10.
    #[test]
    fn many_streams_get_nearly_the_limit() {
        let mut memory = memory(1, 1000, Bandwidth { node: 10_000, ..Bandwidth::default() });
        for cpu in 0..1000 {
            memory.stream(cpu, 0, 1_000 * MB_PER_S, 0);
        }
        // E = 10^6 x 10^4 / sqrt(10^12 + 10^8) = 9,999.5; a thousandth is 9.9995, or 639.97 / 64.
        assert_eq!(memory.rate(7), 639);
    }
}
