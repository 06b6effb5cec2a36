// SPDX-License-Identifier: GPL-2.0-or-later
//! Machines and hosts for the policy's tests.

use wakelab_machine::{Cpu, Distance, Topology};
use wakelab_policy::{Decision, EnqueueWhy, Policy, PolicySpec, Reads, SelectIn, Tables, Task, WAKE_SYNC};

/// 1 ms, the tick of all tests.
pub const TICK_NS: u64 = 1_000_000;
/// 1 ms.
pub const MS: u64 = 1_000_000;
/// `WL_VTIME_START`: where the floors of queues start.
pub const START: u64 = 1 << 30;

/// A regular machine: nodes of one LLC each, at distance 20. Numbered as x86 does: first threads of all cores first.
pub fn machine(nodes: u32, clusters: Option<u32>, cores: u32, threads: u32) -> Topology {
    let per_llc = clusters.unwrap_or(1) * cores;
    let mut cpus = Vec::new();
    for _ in 0..threads {
        for core in 0..nodes * per_llc {
            let node = core / per_llc;
            let cluster = clusters.map(|_| core / cores);
            cpus.push(Cpu { core, cluster, llc: node, node, capacity: 1024 });
        }
    }
    let distance = |a, b| if a == b { 10 } else { 20 };
    let node_distance = (0..nodes).map(|a| (0..nodes).map(|b| distance(a, b)).collect()).collect();
    Topology { cpus, node_distance }
}

pub fn spec(text: &str) -> PolicySpec {
    text.parse().unwrap()
}

pub fn policy(text: &str, topology: &Topology) -> Policy {
    Policy::new(&spec(text), topology, TICK_NS).unwrap()
}

/// A policy with records of task groups in slots 1 to `nr_groups`.
pub fn policy_with_groups(text: &str, topology: &Topology, nr_groups: usize) -> Policy {
    let tables = Tables::build(topology, &spec(text)).unwrap();
    Policy::with_groups(&spec(text), tables, TICK_NS, nr_groups + 1).unwrap()
}

/// Reads by distance, for comparing with what a decision says.
pub fn reads(counts: &[(Distance, u32)]) -> Reads {
    let mut made = Reads::default();
    for &(distance, count) in counts {
        made.at[distance.index()] += count;
    }
    made
}

/// A host that follows docs/design/contract.md: it keeps the idle mask, and reports busy and idle at switches.
pub struct Host {
    pub policy: Policy,
    pub now_ns: u64,
    next_id: u64,
}

impl Host {
    /// A host whose CPUs are all idle and unclaimed.
    pub fn new(mut policy: Policy) -> Host {
        for cpu in 0..policy.tables().nr_cpus() as u32 {
            policy.set_idle_mask(cpu, true);
            policy.idle(cpu, 0);
        }
        Host { policy, now_ns: 0, next_id: 1 }
    }

    pub fn task(&mut self, weight: u32) -> Task {
        let mut task = Task::default();
        self.policy.task_init(&mut task, self.next_id, weight, 0);
        self.next_id += 1;
        task
    }

    /// A task that sleeps and last ran on `cpu`.
    pub fn sleeper(&mut self, weight: u32, cpu: u32) -> Task {
        let mut task = self.task(weight);
        let now_ns = self.now_ns;
        self.policy.enqueue(&mut task, cpu, EnqueueWhy::Wakeup, now_ns);
        self.policy.quiescent(&mut task, now_ns);
        task
    }

    /// A task that waits on `cpu`.
    pub fn queued(&mut self, weight: u32, cpu: u32) -> Task {
        let mut task = self.task(weight);
        self.policy.set_idle_mask(cpu, false);
        self.policy.enqueue(&mut task, cpu, EnqueueWhy::Wakeup, self.now_ns);
        task
    }

    /// A task that runs on `cpu`, which turns busy.
    pub fn running(&mut self, weight: u32, cpu: u32) -> Task {
        let mut task = self.queued(weight, cpu);
        self.switch_in(&mut task, cpu);
        task
    }

    pub fn switch_in(&mut self, task: &mut Task, cpu: u32) {
        self.policy.set_idle_mask(cpu, false);
        self.policy.busy(cpu, self.now_ns);
        self.policy.running(task, cpu, self.now_ns);
    }

    /// The CPUs turn busy with something that is not a task of the policy.
    pub fn occupy(&mut self, cpus: &[u32]) {
        for &cpu in cpus {
            self.policy.set_idle_mask(cpu, false);
            self.policy.busy(cpu, self.now_ns);
        }
    }

    /// The CPUs go idle.
    pub fn vacate(&mut self, cpus: &[u32]) {
        for &cpu in cpus {
            self.policy.set_idle_mask(cpu, true);
            self.policy.idle(cpu, self.now_ns);
        }
    }

    /// A wake-up on `this` of a task that last ran on `prev`, by no task.
    pub fn wake(&mut self, task: &mut Task, this: u32, prev: u32) -> Decision {
        self.select(task, None, this, prev, 0)
    }

    /// A sync wake-up by `waker`.
    pub fn wake_sync(&mut self, task: &mut Task, waker: &mut Task, prev: u32) -> Decision {
        let this = waker.cpu as u32;
        self.select(task, Some(waker), this, prev, WAKE_SYNC)
    }

    pub fn select(
        &mut self,
        task: &mut Task,
        waker: Option<&mut Task>,
        this: u32,
        prev: u32,
        flags: u32,
    ) -> Decision {
        let input =
            SelectIn { this_cpu: this as i32, prev_cpu: prev as i32, flags, unused: 0, now_ns: self.now_ns };
        self.policy.select(&input, task, waker)
    }
}
