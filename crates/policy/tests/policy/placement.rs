// SPDX-License-Identifier: GPL-2.0-or-later
//! placement.h.

use crate::host::{Host, machine, policy, reads};
use wakelab_machine::Distance::{Cpu, Llc, Numa1};
use wakelab_machine::Topology;
use wakelab_policy::{AffineReason, Decision, Reason, Task, WAKE_EXEC, WAKE_FORK};

fn fork(host: &mut Host, task: &mut Task, parent_cpu: u32) -> Decision {
    host.select(task, None, parent_cpu, parent_cpu, WAKE_FORK)
}

/// The header's example: 2 LLCs of 4 CPUs; the parent on CPU 0, a task on each of 1, 4, 5 and 6, and two on 4.
fn example() -> Host {
    let mut host = Host::new(policy("linux-4.15", &machine(2, None, 4, 1)));
    for cpu in [0, 1, 4, 5, 6] {
        host.running(1024, cpu);
    }
    host.queued(1024, 4);
    host
}

#[test]
fn the_group_with_most_idle_cpus_wins() {
    let mut host = example();
    let mut child = host.task(1024);
    let decision = fork(&mut host, &mut child, 0);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (2, Reason::ForkLocal, 1));
    assert_eq!((decision.affine_reason(), decision.searched), (AffineReason::NotAsked, 1));
    // All 8 CPUs at the NUMA level, then 0, 1 and 2.
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 3), (Numa1, 4), (Cpu, 1), (Llc, 2)]));
    host.occupy(&[2, 3]);
    let decision = fork(&mut host, &mut child, 0);
    assert_eq!((decision.cpu, decision.reason()), (7, Reason::ForkIdlest));
    let decision = host.select(&mut child, None, 0, 0, WAKE_EXEC);
    assert_eq!((decision.cpu, decision.lost_claims), (5, 1), "7 is claimed, and 5 and 6 have less than 4");
}

/// As in the header: a quarter of 8 CPUs are 2 tasks.
#[test]
fn linux_5_12_keeps_new_tasks_in_a_node_with_few() {
    let mut host = Host::new(policy("linux-5.12", &machine(2, None, 4, 1)));
    let mut child = host.task(1024);
    host.running(1024, 0);
    let decision = fork(&mut host, &mut child, 0);
    assert_eq!((decision.cpu, decision.reason()), (1, Reason::ForkLocal));
    host.vacate(&[1]);
    host.running(1024, 2);
    let decision = fork(&mut host, &mut child, 0);
    assert_eq!((decision.cpu, decision.reason()), (4, Reason::ForkIdlest));
}

/// The example of numa.h: a node of 16 CPUs with one LLC may have 2 tasks, the new one among them.
#[test]
fn linux_6_12_keeps_a_pair_of_tasks_in_a_node() {
    let mut host = Host::new(policy("linux-6.12", &machine(2, None, 16, 1)));
    let mut child = host.task(1024);
    host.running(1024, 0);
    let decision = fork(&mut host, &mut child, 0);
    assert_eq!((decision.cpu, decision.reason()), (1, Reason::ForkLocal));
    host.vacate(&[1]);
    host.running(1024, 2);
    assert_eq!(fork(&mut host, &mut child, 0).cpu, 16, "two run already");
}

#[test]
fn linux_6_12_keeps_no_task_where_3_cpus_fewer_idle() {
    let mut host = Host::new(policy("linux-6.12", &machine(2, None, 16, 1)));
    let mut child = host.task(1024);
    host.running(1024, 0);
    host.occupy(&[2]);
    assert_eq!(fork(&mut host, &mut child, 0).cpu, 1, "two fewer, and less load elsewhere, are not enough");
    host.vacate(&[1]);
    host.occupy(&[3]);
    assert_eq!(fork(&mut host, &mut child, 0).cpu, 16);
}

/// 2 nodes of 16 CPUs in 4 LLCs each.
fn nodes_of_llcs() -> Topology {
    let mut machine = machine(2, None, 16, 1);
    for (index, cpu) in (0..).zip(&mut machine.cpus) {
        cpu.llc = index / 4;
    }
    machine
}

#[test]
fn linux_6_12_keeps_a_task_for_each_llc_of_a_node() {
    let mut host = Host::new(policy("linux-6.12", &nodes_of_llcs()));
    let mut child = host.task(1024);
    for cpu in [0, 4, 8, 17, 18] {
        host.running(1024, cpu);
    }
    assert_eq!(fork(&mut host, &mut child, 0).cpu, 12, "3 run there, and 4 may");
    host.vacate(&[12]);
    host.running(1024, 1);
    assert_eq!(fork(&mut host, &mut child, 0).cpu, 20);
}

#[test]
fn linux_6_12_counts_the_cpus_of_a_node_that_a_new_task_may_run_on() {
    let mut host = Host::new(policy("linux-6.12", &nodes_of_llcs()));
    let mut child = host.task(1024);
    host.policy.set_affinity(&mut child, Some(&[0, 1, 16, 17]));
    host.running(1024, 0);
    assert_eq!(fork(&mut host, &mut child, 0).cpu, 1, "1 runs there, and 2 may");
    host.vacate(&[1]);
    host.queued(1024, 0);
    assert_eq!(fork(&mut host, &mut child, 0).cpu, 16);
}

/// Two pairs of near nodes of 16 CPUs: between the pairs 16 / 8 * 64 / 32 tasks may differ, inside one 2.
#[test]
fn linux_6_12_allows_more_where_nodes_are_far() {
    let mut machine = machine(4, None, 16, 1);
    for (a, row) in machine.node_distance.iter_mut().enumerate() {
        for (b, distance) in row.iter_mut().enumerate() {
            *distance = if a == b {
                10
            } else if a / 2 == b / 2 {
                12
            } else {
                20
            };
        }
    }
    let mut host = Host::new(policy("linux-6.12", &machine));
    let mut child = host.task(1024);
    for cpu in [0, 1, 32] {
        host.running(1024, cpu);
    }
    assert_eq!(fork(&mut host, &mut child, 0).cpu, 16, "2 of 4 in the pair of nodes, 2 of 2 in the node");
    host.vacate(&[16]);
    for cpu in [16, 17, 33] {
        host.running(1024, cpu);
    }
    assert_eq!(fork(&mut host, &mut child, 0).cpu, 48);
}

/// As in the header; an exec stays where the task itself runs.
#[test]
fn with_fork_parent_a_new_task_stays() {
    let mut host = Host::new(policy("linux-4.15+fork=parent", &machine(2, None, 4, 1)));
    for cpu in [0, 1, 4, 5, 6] {
        host.running(1024, cpu);
    }
    let mut child = host.task(1024);
    let decision = fork(&mut host, &mut child, 0);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (0, Reason::ForkLocal, 0));
    assert_eq!((decision.reads, decision.searched), (reads(&[(Cpu, 1)]), 0));
    assert_eq!(host.select(&mut child, None, 4, 4, WAKE_EXEC).cpu, 4);
    host.vacate(&[0]);
    let decision = fork(&mut host, &mut child, 0);
    assert_eq!((decision.cpu, decision.claimed), (0, 1), "an idle CPU is claimed");
    let _waits = host.queued(1024, 0);
    let decision = fork(&mut host, &mut child, 0);
    assert_eq!((decision.cpu, decision.reason()), (2, Reason::ForkLocal), "another task waits there");
    assert_eq!(host.select(&mut child, None, 0, 0, WAKE_EXEC).cpu, 0, "an exec stays beside others, too");
}

#[test]
fn equal_idleness_goes_to_less_load_and_then_to_the_own_group() {
    let mut host = example();
    host.vacate(&[6]);
    // In a real host CPU 6's task would no longer count. Here its load stays, so LLC 1 keeps 4096 against 2048.
    let mut child = host.task(1024);
    assert_eq!(fork(&mut host, &mut child, 4).reason(), Reason::ForkIdlest);

    let mut host = Host::new(policy("linux-4.15", &machine(2, None, 4, 1)));
    host.running(1024, 0);
    host.running(1024, 4);
    let mut child = host.task(1024);
    assert_eq!(fork(&mut host, &mut child, 4).cpu, 5, "a tie stays");
    assert_eq!(fork(&mut host, &mut child, 0).cpu, 1);
}

#[test]
fn without_idle_cpus_the_least_loaded_is_taken() {
    let mut host = Host::new(policy("linux-4.15", &machine(1, None, 4, 1)));
    for (cpu, weight) in [(0, 1024), (1, 2048), (2, 335), (3, 1024)] {
        host.running(weight, cpu);
    }
    let mut child = host.task(1024);
    let decision = fork(&mut host, &mut child, 1);
    assert_eq!((decision.cpu, decision.claimed, decision.reason()), (2, 0, Reason::ForkIdlest));
}

#[test]
fn cores_are_compared_before_threads() {
    // CPU c and c + 4 share a core; 0, 1, 2 and 6 are busy: core 3 is the only one with two idle CPUs.
    let mut host = Host::new(policy("linux-4.15", &machine(1, None, 4, 2)));
    host.occupy(&[0, 1, 2, 6]);
    let mut child = host.task(1024);
    assert_eq!(fork(&mut host, &mut child, 0).cpu, 3);
}

#[test]
fn only_allowed_cpus_count() {
    let mut host = example();
    let mut child = host.task(1024);
    host.policy.set_affinity(&mut child, Some(&[0, 1, 5, 7]));
    let decision = fork(&mut host, &mut child, 0);
    assert_eq!((decision.cpu, decision.reason()), (7, Reason::ForkIdlest), "2 and 3 are not for it");
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 1), (Numa1, 2), (Numa1, 2)]));
}

#[test]
fn forks_do_not_cross_to_nodes_too_far_away() {
    let mut far = machine(2, None, 2, 1);
    far.node_distance = vec![vec![10, 31], vec![31, 10]];
    let mut host = Host::new(policy("linux-4.15", &far));
    host.running(1024, 0);
    host.running(1024, 1);
    let mut child = host.task(1024);
    let decision = fork(&mut host, &mut child, 0);
    assert_eq!((decision.cpu, decision.reason()), (0, Reason::ForkLocal));
}

/// On a new host, tasks of these weights run on these CPUs, and one on `cpu` execs.
fn exec(spec: &str, topology: &Topology, others: &[(u32, u32)], cpu: u32) -> Decision {
    let mut host = Host::new(policy(spec, topology));
    for &(other, weight) in others {
        host.running(weight, other);
    }
    let mut task = host.running(1024, cpu);
    host.select(&mut task, None, cpu, cpu, WAKE_EXEC)
}

/// Without the task its CPU is as idle as the others.
#[test]
fn since_linux_5_5_an_exec_stays_on_an_otherwise_idle_cpu() {
    for (spec, cpu) in [("linux-4.15", 2), ("linux-5.12", 1), ("linux-6.12", 1)] {
        let decision = exec(spec, &machine(1, None, 4, 1), &[], 1);
        assert_eq!((decision.cpu, decision.claimed), (cpu, u32::from(cpu != 1)), "{spec}");
        assert_eq!(
            decision.reason(),
            if cpu == 1 { Reason::ForkLocal } else { Reason::ForkIdlest },
            "{spec}"
        );
    }
}

/// The header's example: the task on CPU 1 execs. All 8 CPUs are read at the NUMA level, and then its own.
#[test]
fn since_linux_5_5_the_task_of_the_example_stays() {
    let mut host = Host::new(policy("linux-5.12", &machine(2, None, 4, 1)));
    for cpu in [0, 4, 5, 6] {
        host.running(1024, cpu);
    }
    host.queued(1024, 4);
    let mut task = host.running(1024, 1);
    let decision = host.select(&mut task, None, 1, 1, WAKE_EXEC);
    assert_eq!((decision.cpu, decision.claimed, decision.searched), (1, 0, 1));
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 3), (Numa1, 4), (Cpu, 1)]));
}

/// A task of weight 335 waits on the CPU of the one that execs.
#[test]
fn since_linux_5_5_an_exec_leaves_those_that_wait_for_an_idle_cpu() {
    for (spec, idle, cpu) in
        [("linux-4.15", 3, 3), ("linux-5.12", 3, 3), ("linux-4.15", 4, 2), ("linux-5.12", 4, 1)]
    {
        let mut host = Host::new(policy(spec, &machine(1, None, 4, 1)));
        for other in [0, 2, 3] {
            if other != idle {
                host.running(1024, other);
            }
        }
        let mut task = host.running(1024, 1);
        host.queued(335, 1);
        let decision = host.select(&mut task, None, 1, 1, WAKE_EXEC);
        assert_eq!(
            (decision.cpu, decision.claimed),
            (cpu, u32::from(idle < 4)),
            "{spec}: 335 is less than 1024"
        );
    }
}

/// 2 nodes of 4 CPUs: 6.12 keeps one task in a node, and 5.12 two. The task itself is none of those that run there.
#[test]
fn since_linux_5_5_an_exec_leaves_for_a_group_with_more_idle_cpus() {
    for (spec, cpu) in [("linux-5.12", 0), ("linux-6.12", 4)] {
        let nodes = machine(2, None, 4, 1);
        assert_eq!(exec(spec, &nodes, &[], 0).cpu, 0, "{spec}: 4 idle CPUs and 4");
        assert_eq!(exec(spec, &nodes, &[(2, 1024)], 0).cpu, cpu, "{spec}: 3 and 4");
        assert_eq!(exec(spec, &nodes, &[(2, 8192), (6, 1024)], 0).cpu, 0, "{spec}: 3 and 3");
        assert_eq!(exec(spec, &nodes, &[(1, 1024), (2, 1024), (6, 1024)], 0).cpu, 4, "{spec}: 2 and 3");
    }
}

/// CPU c and c + 4 share a core.
#[test]
fn since_linux_5_5_an_exec_leaves_a_busy_sibling_for_an_idle_core() {
    let cores = machine(1, None, 4, 2);
    assert_eq!(exec("linux-6.12", &cores, &[], 0).cpu, 0);
    assert_eq!(exec("linux-6.12", &cores, &[(4, 1024)], 0).cpu, 1);
    let one_on_each: Vec<_> = (1..5).map(|cpu| (cpu, 1024)).collect();
    assert_eq!(exec("linux-6.12", &cores, &one_on_each, 0).cpu, 0);
}

/// 2 LLCs of 4 CPUs in one node, with 3 idle CPUs each.
#[test]
fn since_linux_5_5_the_own_group_keeps_a_new_task_though_it_has_more_load() {
    let mut llcs = machine(1, None, 8, 1);
    for (index, cpu) in (0..).zip(&mut llcs.cpus) {
        cpu.llc = index / 4;
    }
    for (spec, cpu) in [("linux-4.15", 5), ("linux-5.12", 1), ("linux-6.12", 1)] {
        let mut host = Host::new(policy(spec, &llcs));
        host.running(4096, 0);
        host.running(1024, 4);
        let mut child = host.task(1024);
        assert_eq!(fork(&mut host, &mut child, 0).cpu, cpu, "{spec}");
    }
}
