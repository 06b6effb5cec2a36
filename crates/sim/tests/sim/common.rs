// SPDX-License-Identifier: GPL-2.0-or-later
//! Small machines and workloads for the tests. Everything is free unless a test sets a cost.

use std::collections::BTreeMap;

use wakelab_machine::{Costs, Cpu, Machine, Topology};
use wakelab_sim::{HostProfile, Outcome, Scenario, run};
use wakelab_workload::{Channel, End, Measure, Op, Task, Workload};

/// All host profiles.
pub(crate) const HOSTS: [HostProfile; 2] = [HostProfile::SchedExt, HostProfile::Mainline];
pub(crate) const MS: u64 = 1_000_000;

/// A machine of `llcs` last-level caches (a node and a socket each) x `cores` x `threads`, numbered core by core:
/// CPU = (llc x cores + core) x threads + thread. Nothing costs anything; the tick is 1 ms.
pub(crate) fn machine(llcs: u32, cores: u32, threads: u32) -> Machine {
    let cpus = (0..llcs * cores * threads)
        .map(|cpu| {
            let (core, llc) = (cpu / threads, cpu / threads / cores);
            Cpu { core, cluster: None, llc, node: llc, capacity: 1024 }
        })
        .collect();
    let row = |a: u32| (0..llcs).map(|b| if a == b { 10 } else { 20 }).collect();
    let topology = Topology { cpus, node_distance: (0..llcs).map(row).collect() };
    let costs = Costs::free(threads as usize);
    let (name, description) = ("test".into(), "test".into());
    Machine { name, description, topology, costs, sources: BTreeMap::new(), ranges: BTreeMap::new() }
}

/// A task without a parent that may run anywhere and has last run on `cpu`.
pub(crate) fn task(cpu: u32, program: Vec<Op>) -> Task {
    Task {
        name: "t".into(),
        parent: None,
        start_ns: 0,
        process: 0,
        weight: 1024,
        slice_ns: None,
        allowed: None,
        last_cpu: Some(cpu),
        footprint_bytes: 0,
        judged: false,
        awaited: false,
        cut_off: false,
        polls: false,
        after_sleep_ns: 0,
        group: None,
        program,
    }
}

/// A task that may run on `cpus` only.
pub(crate) fn bound(cpus: &[u32], program: Vec<Op>) -> Task {
    Task { allowed: Some(cpus.to_vec()), ..task(cpus[0], program) }
}

/// A task that `parent` forks.
pub(crate) fn child(parent: u32, program: Vec<Op>) -> Task {
    Task { parent: Some(parent), last_cpu: None, ..task(0, program) }
}

pub(crate) fn compute(work_ns: u64) -> Op {
    Op::Compute { work_ns, spread_percent: 0 }
}

pub(crate) fn send(channel: u32) -> Op {
    Op::Send { channel, bytes: 1, work_ns: 0 }
}

pub(crate) fn recv(channel: u32) -> Op {
    Op::Recv { channel, work_ns: 0 }
}

pub(crate) fn sleep(delay_ns: u64) -> Op {
    Op::Sleep { delay_ns, source: wakelab_workload::Source::Timer }
}

/// A workload that runs until all tasks have exited, with three channels of 10 bytes, 8 signals and 2 gates.
pub(crate) fn workload(tasks: Vec<Task>) -> Workload {
    Workload {
        name: "test".into(),
        tasks,
        channels: vec![Channel { capacity_bytes: 10, ..Channel::default() }; 3],
        signals: 8,
        gates: 2,
        locks: Vec::new(),
        barriers: Vec::new(),
        groups: Vec::new(),
        end: End::AllExited,
        measure: Measure::Makespan,
    }
}

/// The policy has no idle CPU that is woken to balance, so that times can be computed by hand.
pub(crate) fn scenario(machine: Machine, tasks: Vec<Task>, host: HostProfile) -> Scenario {
    Scenario {
        machine: machine.into(),
        workload: workload(tasks).into(),
        policy: "linux-4.15+balance=load+push=off".parse().unwrap(),
        host,
        limit_ns: 3600 * 1000 * MS,
        limit_events: wakelab_sim::LIMIT_EVENTS,
    }
}

/// Runs with seed 1; panics if the run fails.
pub(crate) fn outcome(scenario: &Scenario) -> Outcome {
    let outcome = run(scenario, 1).unwrap_or_else(|error| panic!("{error}"));
    let elapsed_ns = outcome.elapsed_ns * scenario.machine.topology.nr_cpus() as u64;
    assert_eq!(outcome.time.total_ns(), elapsed_ns, "the fields of TimeUse add up");
    outcome
}

/// The exact values of a histogram whose values are all below 2048 or far apart.
pub(crate) fn values(histogram: &wakelab_sim::Histogram) -> Vec<u64> {
    histogram.buckets.iter().flat_map(|&(value, count)| std::iter::repeat_n(value, count as usize)).collect()
}
