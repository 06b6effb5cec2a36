// SPDX-License-Identifier: GPL-2.0-or-later
//! idle_smt_balance.h.

use crate::host::{Host, machine, policy, reads};
use wakelab_machine::Distance::{Cluster, Cpu, Llc, Smt};
use wakelab_policy::{Reason, Task};

const SPEC: &str = "linux-4.15+idle=smt-balance+affine=off";

/// Searches in vain, which use two random numbers each, until `uses` numbers were used.
fn turn_rotor(host: &mut Host, cpu: u32, uses: u32) {
    let mut task = host.sleeper(1024, cpu);
    while host.policy.cpu(cpu).rotor < uses {
        host.wake(&mut task, cpu, cpu);
    }
    assert_eq!(host.policy.cpu(cpu).rotor, uses);
}

/// The header's example: one LLC of 4 cores x 2 threads, rotor 2.
#[test]
fn it_moves_to_a_group_with_more_room() {
    let mut host = Host::new(policy(SPEC, &machine(1, None, 4, 2)));
    host.occupy(&(0..8).collect::<Vec<_>>());
    turn_rotor(&mut host, 0, 2);
    host.vacate(&[2, 3, 6, 7]);
    let mut task = host.sleeper(1024, 0);
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (2, Reason::BalanceMoved, 1));
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Smt, 1), (Llc, 2)]));
    assert_eq!(host.policy.cpu(0).rotor, 5, "which group, which CPU of it, where to start at the end");
}

#[test]
fn equal_room_stays() {
    let mut host = Host::new(policy(SPEC, &machine(1, None, 4, 2)));
    host.occupy(&(0..8).collect::<Vec<_>>());
    turn_rotor(&mut host, 0, 2);
    host.vacate(&[4, 6]);
    let mut task = host.sleeper(1024, 0);
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.cpu, decision.reason()), (4, Reason::BalanceStayed), "one CPU of room each");
}

#[test]
fn finding_none_leaves_the_task_on_target() {
    let mut host = Host::new(policy(SPEC, &machine(1, None, 4, 2)));
    host.occupy(&(0..8).collect::<Vec<_>>());
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 0, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (1, Reason::NoneIdle, 0));
    // Rotor 0 gives core 0 as there; rotor 1 is where the end starts: CPU 5, then 1.
    assert_eq!(decision.reads, reads(&[(Llc, 1), (Smt, 1), (Llc, 1), (Llc, 2)]));
}

#[test]
fn affinity_picks_the_group_but_not_the_room() {
    let mut host = Host::new(policy(SPEC, &machine(1, None, 4, 2)));
    host.occupy(&[0, 4, 7]);
    let mut task = host.sleeper(1024, 0);
    host.policy.set_affinity(&mut task, Some(&[0, 7]));
    // Cores 1 and 2 have no allowed CPU. Core 3 has room for one task, on CPU 3, but the task may only use CPU 7, which
    // is busy.
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.cpu, decision.reason()), (0, Reason::NoneIdle));
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Smt, 1), (Llc, 2)]), "core 0, core 3, and CPU 7 alone");
}

#[test]
fn a_task_that_is_itself_current_does_not_count_as_busy() {
    let prepare = || {
        let mut host = Host::new(policy(SPEC, &machine(1, None, 2, 2)));
        let task = host.running(1024, 0);
        host.occupy(&[2, 3]);
        (host, task)
    };
    // Core 0 is CPUs 0 and 2, both busy; core 1 has CPU 1 idle. A task that is elsewhere moves.
    let (mut host, _runs) = prepare();
    let mut other = host.sleeper(1024, 0);
    let decision = host.wake(&mut other, 0, 0);
    assert_eq!((decision.cpu, decision.reason()), (1, Reason::BalanceMoved));
    // For the running task, core 0 has one busy CPU less. The room is equal, so it stays.
    let (mut host, mut runs) = prepare();
    let decision = host.wake(&mut runs, 0, 0);
    assert_eq!((decision.cpu, decision.reason()), (0, Reason::NoneIdle));
}

#[test]
fn the_published_rotor_misses_half_of_the_cores_and_the_mixed_one_does_not() {
    // A search that finds nothing uses two random numbers: for the group, and for where to start at the end.
    let published: Vec<u32> = (0..8).map(|search| core_compared(SPEC, 2 * search)).collect();
    // Starts 0, 2, 4 and 6. The own core is at 0, so the next one after it is taken.
    assert_eq!(published, [1, 2, 4, 6, 1, 2, 4, 6]);
    let mut mixed: Vec<u32> =
        (0..64).map(|search| core_compared(&format!("{SPEC}+rotor=mixed"), 2 * search)).collect();
    mixed.sort_unstable();
    mixed.dedup();
    assert_eq!(mixed, [1, 2, 3, 4, 5, 6, 7]);
}

/// The core with which a search with this rotor compares target's core, 0 of 8; found by making room on each in turn.
fn core_compared(spec: &str, rotor: u32) -> u32 {
    let moves = |&core: &u32| {
        let mut host = Host::new(policy(spec, &machine(1, None, 8, 2)));
        host.occupy(&(0..16).collect::<Vec<_>>());
        turn_rotor(&mut host, 0, rotor);
        host.vacate(&[core, core + 8]);
        let mut task = host.sleeper(1024, 0);
        host.wake(&mut task, 0, 0).reason() == Reason::BalanceMoved
    };
    let compared: Vec<u32> = (1..8).filter(moves).collect();
    assert_eq!(compared.len(), 1, "one comparison a search");
    compared[0]
}

#[test]
fn clusters_are_a_level_of_the_descent() {
    // One LLC of 2 clusters x 2 cores x 2 threads: CPU c and c + 4 share a core, cores 0 and 1 a cluster.
    let mut host = Host::new(policy(&format!("{SPEC}+cluster=spread"), &machine(1, Some(2), 2, 2)));
    host.occupy(&[0, 4, 1, 2, 6]);
    let mut task = host.sleeper(1024, 0);
    // Rotor 0: cluster 0 is here, so there is cluster 1: room 2 against 1. Rotor 1: its CPUs are 2, 3, 6, 7: CPU 3.
    // Then core 3 is here with room 2, core 2 there with none. The end: core 3 from rotor 3: CPU 7.
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.cpu, decision.reason()), (7, Reason::BalanceMoved));
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Cluster, 1), (Llc, 1), (Llc, 2), (Llc, 1)]));
}

#[test]
fn without_smt_the_descent_ends_in_the_cluster() {
    let mut host = Host::new(policy(&format!("{SPEC}+cluster=spread"), &machine(1, Some(2), 4, 1)));
    host.occupy(&[0, 1, 2, 3, 4]);
    let mut task = host.sleeper(1024, 0);
    // Cluster 1 has 3 CPUs of room. Rotor 1: CPU 5; rotor 2: the end starts at CPU 6.
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.cpu, decision.reason()), (6, Reason::BalanceMoved));
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Cluster, 1), (Llc, 1), (Llc, 1)]));
}

#[test]
fn without_smt_and_clusters_it_is_step_2_of_scan() {
    let mut host = Host::new(policy(SPEC, &machine(1, Some(2), 4, 1)));
    host.occupy(&[0, 1, 2]);
    let mut task: Task = host.sleeper(1024, 0);
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.cpu, decision.reason()), (3, Reason::IdleCpu));
    assert_eq!((decision.step_reads.total(), decision.scan_timed), (4, 1));
    assert_eq!(decision.step_reads, reads(&[(Cpu, 1), (Cluster, 3)]), "distances know clusters anyway");
}
