// SPDX-License-Identifier: GPL-2.0-or-later
//! Converts CPU time of the recorded machine to work: the time that a core of capacity 1024 would take alone, without
//! the kernel's part.
//!
//! CPU time is multiplied by the CPU's capacity and by the speed that SMT leaves to the thread. The speed depends on
//! how many threads of the core were executing at each moment, which the switches of the sibling CPUs tell. Work is
//! summed piecewise, in 1/1024 ns.
//!
//! Worked example: a task has 1,000 ns of CPU time on a CPU of capacity 512. During the last 400 ns a sibling ran too,
//! which leaves each thread a speed of 600: 600 x 512 / 1024 + 400 x 512 x 600 / 1024^2 = 300 + 117 = 417 ns of work.
//!
//! A task refills caches as in crates/sim/src/hardware/cache.rs: on its own core, what other tasks have pushed out
//! since it left; elsewhere, its working set. A refill that a switch-out interrupts is not continued later.
//!
//! What the simulated kernel will charge again is taken off (crates/trace/src/causal/overheads.rs).

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
    /// The CPUs of each CPU's core.
    siblings: Vec<Vec<u32>>,
    busy: Vec<bool>,
    /// The caches of each core, at the index of its first CPU.
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

    /// Sets whether a task runs on `cpu`. Returns whether that has changed.
    pub(crate) fn set_busy(&mut self, cpu: u32, busy: bool) -> bool {
        std::mem::replace(&mut self.busy[cpu as usize], busy) != busy
    }

    /// Returns all CPUs of the core of `cpu`.
    pub(crate) fn siblings(&self, cpu: u32) -> &[u32] {
        &self.siblings[cpu as usize]
    }

    /// Returns the speed of a task on `cpu` now, in 1/1024, by the simulator's rules.
    pub(crate) fn speed(&self, cpu: u32) -> u32 {
        let busy = self.siblings(cpu).iter().filter(|&&sibling| self.busy[sibling as usize]).count().max(1);
        let speeds = &self.costs.smt_speed;
        let smt = speeds.get(busy - 1).or(speeds.last()).copied().unwrap_or(UNITS as u32);
        (self.capacity[cpu as usize] * smt / UNITS as u32).max(1)
    }

    /// Whether two CPUs are in different LLCs.
    pub(crate) fn is_in_another_llc(&self, a: u32, b: u32) -> bool {
        a.max(b) < self.nr_cpus() && self.distances.between(a, b) > Distance::Llc
    }

    /// Returns the cost of a placement decision and a wake-up, without what the decision reads.
    pub(crate) fn wake_ns(&self) -> u64 {
        self.costs.select_ns + self.costs.wakeup_ns
    }

    /// Returns the cost of an interrupt of a timer or device that wakes some tasks, without what the decisions read; 0
    /// if it wakes none.
    pub(crate) fn waking_interrupt_ns(&self, wakes: u32) -> u64 {
        if wakes == 0 { 0 } else { self.costs.interrupt_ns + u64::from(wakes) * self.wake_ns() }
    }

    /// Notes that `task` is switched in on `cpu` or leaves it. Returns how many bytes of its working set others have
    /// pushed out of the core's caches since it was there.
    pub(crate) fn use_caches(&mut self, task: TaskIndex, cpu: u32, footprint_bytes: u64) -> u64 {
        let core = self.siblings(cpu)[0] as usize;
        self.caches[core].use_set(task, footprint_bytes, self.costs.core_cache_bytes)
    }

    /// Notes that `task` is switched in on `cpu`. Returns the time to refill the caches if it ran on `from` last.
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
}
