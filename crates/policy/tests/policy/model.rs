// SPDX-License-Identifier: GPL-2.0-or-later
//! A second implementation of the idle searches: slow, written from the description of the designs, over the machine's
//! own data.
//!
//! It shares no table and no counter with policy/: it finds groups by looking at every CPU, and counts busy CPUs when
//! they are needed. Its only state is what a search remembers between calls (rotors, has_idle_cores, averages).

use std::collections::BTreeMap;

use wakelab_machine::{Distance, Topology};
use wakelab_policy::{Reads, Reason};

/// What a search decided: the fields of `Decision` that both have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub cpu: u32,
    pub reason: Reason,
    pub claimed: bool,
    pub lost_claims: u32,
    pub reads: Reads,
    pub step_reads: Reads,
    pub scan_timed: bool,
}

/// A level of the policy: what its domains share, and which CPUs each holds, by lowest CPU.
struct Level {
    kind: Distance,
    domains: Vec<Vec<u32>>,
}

/// Which of the searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    Scan,
    SmtBalance,
    Narrow,
}

/// Everything that the searches look at.
pub struct Model {
    topology: Topology,
    /// The levels from the innermost one to the LLC, without level 0.
    levels: Vec<Level>,
    pub busy: Vec<bool>,
    pub queued: Vec<u32>,
    pub mask: Vec<bool>,
    rotor: Vec<u32>,
    avg_idle_ns: Vec<u64>,
    idle_since_ns: Vec<Option<u64>>,
    avg_scan_ns: Vec<u64>,
    /// By LLC number.
    has_idle_cores: BTreeMap<u32, bool>,
}

/// A search in progress.
struct Search<'a> {
    this: u32,
    target: u32,
    allowed: &'a dyn Fn(u32) -> bool,
    answer: Answer,
    narrow: bool,
    /// `narrow`: the CPUs that the idle-core step found busy, if it ran.
    found_busy: Vec<u32>,
}

impl Model {
    /// `clusters`: whether the policy has that level.
    pub fn new(topology: &Topology, clusters: bool) -> Model {
        let nr = topology.cpus.len();
        let cpus = &topology.cpus;
        let by_core = partition(nr, |cpu| (cpus[cpu].core, 0));
        let by_cluster =
            partition(nr, |cpu| cpus[cpu].cluster.map_or((cpus[cpu].core, 1), |cluster| (cluster, 2)));
        let by_llc = partition(nr, |cpu| (cpus[cpu].llc, 0));
        let mut levels: Vec<Level> = Vec::new();
        for (kind, domains) in
            [(Distance::Smt, by_core), (Distance::Cluster, by_cluster), (Distance::Llc, by_llc)]
        {
            let below = levels.last().map_or(nr, |level| level.domains.len());
            if domains.len() < below && (clusters || kind != Distance::Cluster) {
                levels.push(Level { kind, domains });
            }
        }
        Model {
            topology: topology.clone(),
            levels,
            busy: vec![false; nr],
            queued: vec![0; nr],
            mask: vec![true; nr],
            rotor: vec![0; nr],
            avg_idle_ns: vec![1_000_000; nr],
            idle_since_ns: vec![None; nr],
            avg_scan_ns: vec![0; nr],
            has_idle_cores: topology.cpus.iter().map(|cpu| (cpu.llc, true)).collect(),
        }
    }

    fn core_cpus(&self, cpu: u32) -> Vec<u32> {
        self.topology.siblings(cpu)
    }

    fn llc_cpus(&self, cpu: u32) -> Vec<u32> {
        self.topology.llc_cpus(cpu)
    }

    fn has_smt(&self) -> bool {
        self.levels.first().is_some_and(|level| level.kind == Distance::Smt)
    }

    fn looks_idle(&self, cpu: u32) -> bool {
        !self.busy[cpu as usize] && self.queued[cpu as usize] == 0
    }

    fn take(&mut self, search: &mut Search<'_>, cpu: u32) -> bool {
        if !self.looks_idle(cpu) {
            return false;
        }
        if !self.mask[cpu as usize] {
            search.answer.lost_claims += 1;
            return false;
        }
        self.mask[cpu as usize] = false;
        true
    }

    fn read(&self, search: &mut Search<'_>, cpu: u32) {
        let distance = self.topology.distance(search.this, cpu);
        search.answer.reads.at[distance.index()] += 1;
    }

    fn random(&mut self, search: &Search<'_>, n: usize) -> usize {
        let rotor = &mut self.rotor[search.this as usize];
        *rotor += 1;
        (*rotor as usize - 1) % n
    }

    /// A wake-up on `this` with the idle search starting at `target`; prev is target.
    pub fn wake(&mut self, design: Design, this: u32, target: u32, allowed: &dyn Fn(u32) -> bool) -> Answer {
        let mut search = Search {
            this,
            target,
            allowed,
            answer: Answer {
                cpu: target,
                reason: Reason::TargetIdle,
                claimed: true,
                lost_claims: 0,
                reads: Reads::default(),
                step_reads: Reads::default(),
                scan_timed: false,
            },
            narrow: design == Design::Narrow,
            found_busy: Vec::new(),
        };
        self.read(&mut search, target);
        if self.take(&mut search, target) {
            return search.answer;
        }
        let found = match design {
            Design::SmtBalance => self.smt_balance(&mut search),
            Design::Scan | Design::Narrow => self.scan(&mut search),
        };
        let mut answer = search.answer;
        match found {
            Some((cpu, reason)) => {
                answer.cpu = cpu;
                answer.reason = reason;
            }
            None => {
                answer.cpu = target;
                answer.reason = Reason::NoneIdle;
                answer.claimed = false;
            }
        }
        answer
    }

    fn scan(&mut self, search: &mut Search<'_>) -> Option<(u32, Reason)> {
        if self.has_smt()
            && let Some(cpu) = self.idle_core(search)
        {
            return Some((cpu, Reason::IdleCore));
        }
        if let Some(cpu) = self.idle_cpu(search) {
            return Some((cpu, Reason::IdleCpu));
        }
        if self.has_smt() {
            for cpu in self.core_cpus(search.target) {
                if (search.allowed)(cpu) {
                    self.read(search, cpu);
                    if self.take(search, cpu) {
                        return Some((cpu, Reason::IdleSibling));
                    }
                }
            }
        }
        None
    }

    fn idle_core(&mut self, search: &mut Search<'_>) -> Option<u32> {
        let llc = self.topology.cpus[search.target as usize].llc;
        self.read(search, self.llc_cpus(search.target)[0]);
        if !self.has_idle_cores[&llc] {
            return None;
        }
        // The cores of the LLC by their lowest CPU, from target's on.
        let mut cores: Vec<Vec<u32>> = Vec::new();
        for cpu in self.llc_cpus(search.target) {
            if !cores.iter().any(|core| core.contains(&cpu)) {
                cores.push(self.core_cpus(cpu));
            }
        }
        let mut from_target = self.llc_cpus(search.target);
        let start = from_target.iter().position(|&cpu| cpu == search.target).unwrap();
        from_target.rotate_left(start);
        let at = cores.iter().position(|core| core.contains(&search.target)).unwrap();
        cores.rotate_left(at);
        for core in cores {
            core.iter().for_each(|&cpu| self.read(search, cpu));
            search.found_busy.extend(core.iter().filter(|&&cpu| !self.looks_idle(cpu)));
            let first = from_target.iter().copied().find(|cpu| core.contains(cpu) && (search.allowed)(*cpu));
            let idle = core.iter().all(|&cpu| self.looks_idle(cpu));
            if idle
                && let Some(cpu) = first
                && self.take(search, cpu)
            {
                return Some(cpu);
            }
        }
        self.has_idle_cores.insert(llc, false);
        None
    }

    fn idle_cpu(&mut self, search: &mut Search<'_>) -> Option<u32> {
        let mut cpus = self.llc_cpus(search.target);
        let at = cpus.iter().position(|&cpu| cpu == search.target).unwrap();
        cpus.rotate_left(at);
        let span = cpus.len() as u64;
        let idle = self.avg_idle_ns[search.this as usize] / 512;
        let cost = self.avg_scan_ns[search.this as usize] + 1;
        let mut limit = if span * idle > 4 * cost { span * idle / cost } else { 4 };
        if search.narrow {
            // The second mask. CPUs that are not in it do not use up the limit.
            cpus.retain(|&cpu| (search.allowed)(cpu) && !search.found_busy.contains(&cpu));
        }
        for cpu in cpus {
            limit -= 1;
            if limit == 0 {
                return None;
            }
            if !(search.allowed)(cpu) {
                continue;
            }
            self.read(search, cpu);
            let distance = self.topology.distance(search.this, cpu);
            search.answer.step_reads.at[distance.index()] += 1;
            if self.take(search, cpu) {
                search.answer.scan_timed = true;
                return Some(cpu);
            }
        }
        search.answer.scan_timed = true;
        None
    }

    fn smt_balance(&mut self, search: &mut Search<'_>) -> Option<(u32, Reason)> {
        if self.levels.first().is_none_or(|level| level.kind == Distance::Llc) {
            return self.idle_cpu(search).map(|cpu| (cpu, Reason::IdleCpu));
        }
        let mut candidate = search.target;
        for level in (1..self.levels.len()).rev() {
            candidate = self.descend(search, candidate, level);
        }
        let inner = &self.levels[0].domains;
        let moved = !same_domain(&self.levels, search.target, candidate);
        let mut last = inner.iter().find(|cpus| cpus.contains(&candidate)).unwrap().clone();
        let start = self.random(search, last.len());
        last.rotate_left(start);
        for cpu in last {
            if (search.allowed)(cpu) {
                self.read(search, cpu);
                if self.take(search, cpu) {
                    return Some((cpu, if moved { Reason::BalanceMoved } else { Reason::BalanceStayed }));
                }
            }
        }
        None
    }

    /// Compares two groups of the candidate's domain at a level; returns the new candidate.
    fn descend(&mut self, search: &mut Search<'_>, candidate: u32, level: usize) -> u32 {
        let domain = self.levels[level].domains.iter().find(|cpus| cpus.contains(&candidate)).unwrap();
        let inside = |group: &&Vec<u32>| domain.contains(&group[0]);
        let mut groups: Vec<Vec<u32>> =
            self.levels[level - 1].domains.iter().filter(inside).cloned().collect();
        if groups.len() < 2 {
            return candidate;
        }
        let here = groups.iter().find(|group| group.contains(&candidate)).unwrap().clone();
        let start = self.random(search, groups.len());
        groups.rotate_left(start);
        let usable = |group: &&Vec<u32>| **group != here && group.iter().any(|&cpu| (search.allowed)(cpu));
        let Some(mut there) = groups.iter().find(usable).cloned() else { return candidate };
        for group in [&here, &there] {
            let distance = if group.contains(&search.this) {
                self.levels[level - 1].kind
            } else {
                self.topology.distance(search.this, group[0])
            };
            search.answer.reads.at[distance.index()] += 1;
        }
        let room = |group: &[u32]| group.iter().filter(|&&cpu| !self.busy[cpu as usize]).count();
        if room(&there) <= room(&here) {
            return candidate;
        }
        let start = self.random(search, there.len());
        there.rotate_left(start);
        there.into_iter().find(|&cpu| (search.allowed)(cpu)).unwrap()
    }

    /// A CPU turns busy: its idle period, if it has one, goes into the average.
    pub fn turn_busy(&mut self, cpu: u32, now_ns: u64) {
        let at = cpu as usize;
        self.busy[at] = true;
        if let Some(since_ns) = self.idle_since_ns[at].take() {
            self.avg_idle_ns[at] = average(self.avg_idle_ns[at], now_ns - since_ns).min(1_000_000);
        }
    }

    /// A CPU turns idle, unless that was already told. Sets has_idle_cores if all of its core is now idle.
    pub fn turn_idle(&mut self, cpu: u32, now_ns: u64) {
        if self.idle_since_ns[cpu as usize].is_some() {
            return;
        }
        self.busy[cpu as usize] = false;
        self.idle_since_ns[cpu as usize] = Some(now_ns);
        if self.has_smt() && self.core_cpus(cpu).iter().all(|&other| self.looks_idle(other)) {
            self.has_idle_cores.insert(self.topology.cpus[cpu as usize].llc, true);
        }
    }

    /// The search on `this` took elapsed_ns; the timed step gets its part by its reads.
    pub fn took(&mut self, this: u32, answer: &Answer, elapsed_ns: u64) {
        if answer.scan_timed {
            let share = elapsed_ns * answer.step_reads.total() / answer.reads.total();
            let old = &mut self.avg_scan_ns[this as usize];
            *old = average(*old, share);
        }
    }
}

/// old + (sample - old) / 8, rounded towards old.
fn average(old: u64, sample: u64) -> u64 {
    (old as i64 + (sample as i64 - old as i64) / 8) as u64
}

/// Groups CPUs with equal keys, by lowest CPU.
fn partition<K: PartialEq>(nr: usize, key: impl Fn(usize) -> K) -> Vec<Vec<u32>> {
    let mut domains: Vec<Vec<u32>> = Vec::new();
    for cpu in 0..nr {
        match domains.iter_mut().find(|domain| key(domain[0] as usize) == key(cpu)) {
            Some(domain) => domain.push(cpu as u32),
            None => domains.push(vec![cpu as u32]),
        }
    }
    domains
}

/// Whether both CPUs are in one innermost domain.
fn same_domain(levels: &[Level], a: u32, b: u32) -> bool {
    levels[0].domains.iter().any(|domain| domain.contains(&a) && domain.contains(&b))
}
