// SPDX-License-Identifier: GPL-2.0-or-later
//! From CPU time of the recorded machine to work: what a core of capacity 1024 does alone, without the kernel's part.
//!
//! A task's CPU time counts by the CPU's capacity and by the speed that SMT leaves it: by how many threads of its core
//! were executing at each moment, which the switches of the sibling CPUs tell. It is summed piecewise, in 1/1024 ns.
//!
//! Worked example: 1,000 ns of CPU time on a CPU of capacity 512, in the last 400 of which a sibling ran, which leaves
//! each thread a speed of 600: 600 x 512 / 1024 + 400 x 512 x 600 / 1024^2 = 300 + 117 = 417 ns of work.
//!
//! What a task fetches into caches is as crates/sim/src/cache.rs has it: on its own core what other tasks have pushed
//! out since it left, elsewhere its working set. What it left before it had fetched all is not carried over.
//!
//! Off that goes what the simulated kernel will charge again (crates/trace/src/causal/overheads.rs).

use wakelab_machine::{CoreCache, Costs, Distance, Distances, Machine};
use wakelab_workload::TaskIndex;

/// 1 ns in the unit of work.
pub(crate) const UNITS: u64 = 1024;

/// The machine that was recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) costs: Costs,
    pub(crate) name: String,
    capacity: Vec<u32>,
    /// By CPU: the CPUs of its core.
    siblings: Vec<Vec<u32>>,
    busy: Vec<bool>,
    /// By the core's first CPU.
    caches: Vec<CoreCache>,
    distances: Distances,
}

impl Recorded {
    pub(crate) fn new(machine: &Machine) -> Self {
        let cpus = &machine.topology.cpus;
        let mut by_core = std::collections::BTreeMap::<u32, Vec<u32>>::new();
        for (cpu, of) in cpus.iter().enumerate() {
            by_core.entry(of.core).or_default().push(cpu as u32);
        }
        Recorded {
            costs: machine.costs.clone(),
            name: machine.name.clone(),
            capacity: cpus.iter().map(|cpu| cpu.capacity).collect(),
            siblings: cpus.iter().map(|cpu| by_core[&cpu.core].clone()).collect(),
            busy: vec![false; cpus.len()],
            caches: vec![CoreCache::default(); cpus.len()],
            distances: machine.topology.distances(),
        }
    }

    pub(crate) fn nr_cpus(&self) -> u32 {
        self.capacity.len() as u32
    }

    /// A task runs on `cpu`, or none does. Returns whether that is new.
    pub(crate) fn set_busy(&mut self, cpu: u32, busy: bool) -> bool {
        std::mem::replace(&mut self.busy[cpu as usize], busy) != busy
    }

    /// All CPUs of its core.
    pub(crate) fn siblings(&self, cpu: u32) -> &[u32] {
        &self.siblings[cpu as usize]
    }

    /// Of a task on `cpu` now, in 1/1024; as the simulator has it.
    pub(crate) fn speed(&self, cpu: u32) -> u32 {
        let busy = self.siblings(cpu).iter().filter(|&&sibling| self.busy[sibling as usize]).count().max(1);
        let speeds = &self.costs.smt_speed;
        let smt = speeds.get(busy - 1).or(speeds.last()).copied().unwrap_or(UNITS as u32);
        (self.capacity[cpu as usize] * smt / UNITS as u32).max(1)
    }

    /// A placement decision and a wake-up, without what the decision reads.
    pub(crate) fn wake_ns(&self) -> u64 {
        self.costs.select_ns + self.costs.wakeup_ns
    }

    /// `task` is switched in on `cpu` or leaves it. Answers how many bytes of its working set others pushed out of the
    /// core's caches since it was there.
    pub(crate) fn use_caches(&mut self, task: TaskIndex, cpu: u32, footprint_bytes: u64) -> u64 {
        let core = self.siblings(cpu)[0] as usize;
        self.caches[core].use_set(task, footprint_bytes, self.costs.core_cache_bytes)
    }

    /// `task` is switched in on `cpu`. How long it takes to fetch what is missing, if it ran on `from` last.
    pub(crate) fn refill_ns(
        &mut self,
        task: TaskIndex,
        cpu: u32,
        from: Option<u32>,
        footprint_bytes: u64,
    ) -> u64 {
        let lost_bytes = self.use_caches(task, cpu, footprint_bytes);
        let costs = &self.costs;
        let in_core_bytes = footprint_bytes.min(costs.core_cache_bytes);
        match from.map(|from| self.distances.between(from, cpu)) {
            None => 0,
            Some(Distance::Cpu | Distance::Smt) => costs.refetch_ns(lost_bytes),
            Some(near @ (Distance::Cluster | Distance::Llc)) => costs.transfer_ns(in_core_bytes, near),
            Some(far) => costs.transfer_ns(footprint_bytes.min(costs.llc_cache_bytes), far),
        }
    }

    /// How long a core that idled for so long takes to execute again.
    pub(crate) fn idle_exit_ns(&self, idled_ns: u64) -> u64 {
        let state = self.costs.idle_states.iter().rev().find(|state| state.after_ns <= idled_ns);
        state.map_or(0, |state| state.exit_latency_ns)
    }
}
