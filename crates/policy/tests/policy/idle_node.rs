// SPDX-License-Identifier: GPL-2.0-or-later
//! idle_node.h: form=node and form=node-4.

use wakelab_machine::Distance::{Cpu as Own, Llc, Node, Numa1, Smt};
use wakelab_machine::{Cpu, Topology};
use wakelab_policy::{Reason, Task};

use crate::host::{Host, policy, reads};

const NODE: &str = "linux-6.12+form=node+affine=off+balance=load";
const NODE_4: &str = "linux-6.12+form=node-4+affine=off+balance=load";

/// Nodes of `llcs` last-level caches of `cores` cores each. CPUs are numbered core by core.
fn machine(nodes: u32, llcs: u32, cores: u32, threads: u32) -> Topology {
    let cpu = |cpu: u32| {
        let (core, llc) = (cpu / threads, cpu / threads / cores);
        Cpu { core, cluster: None, llc, node: llc / llcs, capacity: 1024 }
    };
    let distance = |a, b| if a == b { 10 } else { 20 };
    Topology {
        cpus: (0..nodes * llcs * cores * threads).map(cpu).collect(),
        node_distance: (0..nodes).map(|a| (0..nodes).map(|b| distance(a, b)).collect()).collect(),
    }
}

/// A host on which only these CPUs idle, and a task that slept on CPU 2.
fn host(spec: &str, topology: &Topology, idle: &[u32]) -> (Host, Task) {
    let mut host = Host::new(policy(spec, topology));
    let busy: Vec<u32> = (0..topology.nr_cpus() as u32).filter(|cpu| !idle.contains(cpu)).collect();
    host.occupy(&busy);
    let task = host.sleeper(1024, 2);
    (host, task)
}

/// The header's example.
#[test]
fn the_other_llcs_of_the_node_follow_in_ring_order() {
    let three = machine(1, 3, 2, 1);
    let (mut host, mut task) = host(NODE, &three, &[0, 1]);
    let decision = host.wake(&mut task, 2, 2);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (1, Reason::IdleCpu, 1));
    // Target; its LLC's limit is in its own record; 3 and 2. The limit of {4, 5}, then 5 and 4; that of {0, 1}, then 1.
    let own = [(Own, 2), (Llc, 1), (Own, 1)];
    assert_eq!(decision.reads, reads(&[own.as_slice(), &[(Node, 3), (Node, 2)]].concat()));
    assert_eq!(decision.scan_timed, 0);
    host.vacate(&[4]);
    assert_eq!(host.wake(&mut task, 2, 2).cpu, 4);
}

/// Five other LLCs of one CPU pair each, and only the last one idles.
#[test]
fn node_4_searches_four_other_llcs() {
    let six = machine(1, 6, 2, 1);
    for (spec, cpu, reason) in [(NODE, 1, Reason::IdleCpu), (NODE_4, 2, Reason::NoneIdle)] {
        let (mut host, mut task) = host(spec, &six, &[1]);
        let decision = host.wake(&mut task, 2, 2);
        assert_eq!((decision.cpu, decision.reason()), (cpu, reason), "{spec}");
    }
    let (mut host, mut task) = host(NODE_4, &six, &[11]);
    assert_eq!(host.wake(&mut task, 2, 2).cpu, 11, "the fourth");
}

#[test]
fn another_node_is_not_searched() {
    let two = machine(2, 2, 2, 1);
    let (mut host, mut task) = host(NODE, &two, &[4, 5, 6, 7]);
    let decision = host.wake(&mut task, 2, 2);
    assert_eq!((decision.cpu, decision.reason()), (2, Reason::NoneIdle));
    assert_eq!(decision.reads.at[Numa1.index()], 0);
}

/// Where a node has one LLC, and where its other LLC is full, it is form=util.
#[test]
fn without_other_llcs_it_is_util() {
    let one = machine(2, 1, 4, 2);
    for idle in [vec![], vec![5], vec![6, 7], vec![1, 4, 5]] {
        let [node, util] = [NODE, "linux-6.12+affine=off+balance=load"].map(|spec| {
            let (mut host, mut task) = host(spec, &one, &idle);
            let decision = host.wake(&mut task, 2, 2);
            (decision.cpu, decision.reason(), decision.reads)
        });
        assert_eq!(node, util, "{idle:?}");
    }
}

/// Cores of two threads. The other LLC, CPUs 4 to 7, has no idle core, which its search finds out, and remembers.
#[test]
fn an_idle_core_comes_first_and_each_llc_has_its_own_flag() {
    let two = machine(1, 2, 2, 2);
    let (mut host, mut task) = host(NODE, &two, &[5, 6]);
    let decision = host.wake(&mut task, 2, 2);
    assert_eq!(
        (decision.cpu, decision.reason()),
        (5, Reason::IdleCpu),
        "of core {{4, 5}}, the first idle CPU seen"
    );
    assert_eq!([0, 4].map(|cpu| host.policy.cpu(cpu).scan_llc.has_idle_cores), [0, 0]);
    // Target, the flag of CPU 0, core {2, 3}, core {0, 1}; the flag of CPU 4; core {4, 5}; both of core {6, 7}, as 6
    // idles.
    let own = [(Own, 1), (Llc, 1), (Smt, 1), (Own, 1), (Llc, 2)];
    assert_eq!(decision.reads, reads(&[own.as_slice(), &[(Node, 1), (Node, 2), (Node, 2)]].concat()));
    host.vacate(&[7]);
    host.policy.idle(7, host.now_ns);
    assert_eq!(host.policy.cpu(4).scan_llc.has_idle_cores, 1);
    let decision = host.wake(&mut task, 2, 2);
    assert_eq!((decision.cpu, decision.reason()), (6, Reason::IdleCore));
}
