// SPDX-License-Identifier: GPL-2.0-or-later
//! cluster.h: the level between SMT and LLC, and wake-ups that stay near.

use wakelab_machine::Distance::{Cluster, Cpu, Llc};
use wakelab_policy::{BalanceWhy, DispatchDo, EnqueueWhy, Reason, Task, WAKE_EXEC, WAKE_FORK};

use crate::host::{Host, MS, machine, policy, reads};

const SPREAD: &str = "linux-4.15+balance=load+cluster=spread";

fn kicked(host: &mut Host, task: &mut Task) -> i32 {
    host.policy.tick(task.cpu as u32, Some(task), host.now_ns).kick_cpu
}

/// The header's example: 3 clusters of 2 CPUs, tasks on CPUs 0 and 1. The interval is 6 ms.
#[test]
fn a_lone_task_leaves_a_crowded_cluster_on_the_fourth_try() {
    let mut host = Host::new(policy(SPREAD, &machine(1, Some(3), 2, 1)));
    let (mut a, mut b) = (host.running(1024, 0), host.running(1024, 1));
    for (try_ms, pushes) in [(0, -1), (6, -1), (12, -1), (18, 0)] {
        host.now_ns = try_ms * MS;
        let tick = host.policy.tick(0, Some(&mut a), host.now_ns);
        assert_eq!(tick.kick_cpu, 2, "at {try_ms} ms");
        assert_eq!(tick.reads, reads(&[(Cpu, 1), (Cluster, 1), (Llc, 4)]));
        assert_eq!(kicked(&mut host, &mut b), -1, "CPU 2 has had its try");
        let dispatch = host.policy.dispatch(2, host.now_ns);
        assert_eq!((dispatch.what(), dispatch.push_cpu), (DispatchDo::Nothing, pushes), "at {try_ms} ms");
    }
    host.policy.stopping(&mut a, 0, host.now_ns, true);
    assert_eq!(host.policy.enqueue(&mut a, 0, EnqueueWhy::SliceEnd, host.now_ns).cpu, 2);
    host.switch_in(&mut a, 2);
    host.vacate(&[0]);
    host.now_ns = 40 * MS;
    assert_eq!((kicked(&mut host, &mut a), kicked(&mut host, &mut b)), (-1, -1), "1, 1 and 0 tasks");

    // A fork on CPU 1 finds 1, 1 and 2 idle CPUs.
    let mut child = host.task(1024);
    let decision = host.select(&mut child, None, 1, 1, WAKE_FORK);
    assert_eq!((decision.cpu, decision.reason()), (4, Reason::ForkIdlest));
}

#[test]
fn no_task_is_pushed_without_the_level_or_the_room() {
    let kick = |spec: &str, allowed: Option<&[u32]>, busy: &[u32]| {
        let mut host = Host::new(policy(spec, &machine(1, Some(3), 2, 1)));
        let (mut a, _b) = (host.running(1024, 0), host.running(1024, 1));
        host.policy.set_affinity(&mut a, allowed);
        let _others: Vec<Task> = busy.iter().map(|&cpu| host.running(1024, cpu)).collect();
        kicked(&mut host, &mut a)
    };
    assert_eq!(kick(SPREAD, None, &[]), 2);
    assert_eq!(kick(SPREAD, None, &[2]), 4, "the cluster with fewest tasks");
    assert_eq!(kick(SPREAD, None, &[2, 4]), -1, "1 less is not 2 less");
    assert_eq!(kick(SPREAD, Some(&[0, 1, 5]), &[]), 5, "the first that is allowed");
    assert_eq!(kick(SPREAD, Some(&[0, 1]), &[]), -1);
    assert_eq!(kick("linux-4.15+balance=load+cluster=off", None, &[]), -1);
    assert_eq!(kick("linux-4.15+balance=load+push=off+cluster=spread", None, &[]), -1);
}

/// Two clusters of 4 CPUs; `tasks` are the numbers of tasks on the CPUs. The first task of each CPU runs.
fn crowd(spec: &str, tasks: [usize; 8]) -> (Host, Vec<Task>) {
    let mut host = Host::new(policy(spec, &machine(1, Some(2), 4, 1)));
    let mut made = Vec::new();
    for (cpu, &nr) in tasks.iter().enumerate().filter(|&(_, &nr)| nr > 0) {
        made.push(host.running(1024, cpu as u32));
        made.extend((1..nr).map(|_| host.queued(1024, cpu as u32)));
    }
    (host, made)
}

#[test]
fn an_idle_cpu_pulls_where_clusters_differ_by_two() {
    // Clusters of 3 tasks and 1. CPU 4, about to go idle, has 3 idle CPUs in its own cluster and 2 in the other, too
    // few more for the rule of loads.
    let (mut host, _tasks) = crowd(SPREAD, [2, 1, 0, 0, 0, 1, 0, 0]);
    let pull = host.policy.dispatch(4, 0);
    assert_eq!((pull.what(), pull.why(), pull.cpu), (DispatchDo::Pull, BalanceWhy::NewlyIdle, 0));
    assert_eq!((pull.level, pull.max_tasks), (2, 1));
    // 3 and 2 tasks.
    let (mut host, _tasks) = crowd(SPREAD, [2, 1, 0, 0, 0, 1, 1, 0]);
    assert_eq!(host.policy.dispatch(4, 0).what(), DispatchDo::Nothing);
}

#[test]
fn half_of_the_difference_is_pulled() {
    // 6 tasks and 1. Two ticks mark CPU 4, the first of its cluster; then it goes idle: (6 - 0) / 2 of the 4 that wait.
    let (mut host, mut tasks) = crowd(SPREAD, [5, 1, 0, 0, 1, 0, 0, 0]);
    let own = tasks.last_mut().unwrap();
    for now_ns in [0, 8 * 32 * MS] {
        host.policy.tick(4, Some(own), now_ns);
    }
    host.now_ns = 300 * MS;
    host.policy.stopping(own, 4, host.now_ns, false);
    let mut pull = host.policy.dispatch(4, host.now_ns);
    assert_eq!((pull.why(), pull.cpu, pull.level, pull.max_tasks), (BalanceWhy::Periodic, 0, 2, 3));
    let now_ns = host.now_ns;
    let moved: u32 =
        tasks[1..5].iter_mut().map(|task| host.policy.may_move(task, 4, now_ns, &mut pull).r#move).sum();
    assert_eq!(moved, 3);
}

#[test]
fn the_cluster_with_most_tasks_is_asked_not_that_with_most_load() {
    let mut host = Host::new(policy(SPREAD, &machine(1, Some(3), 4, 1)));
    let _own = host.running(1024, 1);
    let _heavy: Vec<Task> = vec![host.running(8192, 4), host.queued(8192, 4), host.running(8192, 5)];
    let _many: Vec<Task> =
        vec![host.running(100, 8), host.queued(100, 8), host.running(100, 9), host.running(100, 10)];
    let pull = host.policy.dispatch(0, 0);
    assert_eq!((pull.what(), pull.cpu), (DispatchDo::Pull, 8));
}

#[test]
fn of_equally_idle_clusters_the_one_that_was_busy_least_is_taken() {
    let mut host = Host::new(policy(SPREAD, &machine(1, Some(3), 2, 1)));
    let (_parent, mut child) = (host.running(1024, 0), host.task(1024));
    let ask = |host: &mut Host, child: &mut Task| {
        let decision = host.select(child, None, 0, 0, WAKE_EXEC);
        host.policy.set_idle_mask(decision.cpu as u32, true);
        decision.cpu
    };
    assert_eq!(ask(&mut host, &mut child), 2, "the first in ring order");
    host.occupy(&[2]);
    host.now_ns = 50 * MS;
    host.vacate(&[2]);
    assert_eq!(ask(&mut host, &mut child), 4);
    host.occupy(&[4]);
    host.now_ns = 200 * MS;
    host.vacate(&[4]);
    assert_eq!(ask(&mut host, &mut child), 2, "which was busy for 50 ms, and that is long ago");
}

#[test]
fn since_linux_5_5_an_exec_stays_in_a_cluster_that_was_busy() {
    let mut host = Host::new(policy("linux-5.12+cluster=spread", &machine(1, Some(3), 2, 1)));
    let mut task = host.running(1024, 0);
    host.occupy(&[1]);
    host.now_ns = 50 * MS;
    assert_eq!(host.select(&mut task, None, 0, 0, WAKE_EXEC).cpu, 2, "1 idle CPU and 2");
    host.vacate(&[1, 2]);
    assert_eq!(host.select(&mut task, None, 0, 0, WAKE_EXEC).cpu, 0);
}

/// 3 clusters of 2 CPUs; a task that last ran on `prev` wakes there; all CPUs but these are busy.
fn packed(spec: &str, prev: u32, idle: &[u32]) -> (Host, Task) {
    let mut host = Host::new(policy(spec, &machine(1, Some(3), 2, 1)));
    let task = host.sleeper(1024, prev);
    let busy: Vec<u32> = (0..6).filter(|cpu| !idle.contains(cpu)).collect();
    host.occupy(&busy);
    (host, task)
}

/// The header's example, in all forms of the walk; that of 6.12 begins behind CPU 3.
#[test]
fn targets_cluster_is_visited_first() {
    for form in ["linux-4.15+affine=off", "linux-5.12+affine=off", "linux-4.15+affine=off+idle=narrow"] {
        let visits = |cluster: &str, idle: &[u32]| {
            let (mut host, mut task) = packed(&format!("{form}+cluster={cluster}"), 3, idle);
            let decision = host.wake(&mut task, 3, 3);
            (decision.cpu, decision.reason(), decision.reads)
        };
        let found = |cpu, counts: &[(wakelab_machine::Distance, u32)]| (cpu, Reason::IdleCpu, reads(counts));
        assert_eq!(visits("spread", &[2, 4]), found(4, &[(Cpu, 2), (Llc, 1)]), "{form}");
        assert_eq!(visits("spread-and-pack", &[2, 4]), found(2, &[(Cpu, 2), (Cluster, 1)]), "{form}");
        let after_both = found(4, &[(Cpu, 2), (Cluster, 1), (Llc, 1)]);
        assert_eq!(visits("spread-and-pack", &[4]), after_both, "{form}");
    }
    let (mut host, mut task) = packed("linux-6.12+affine=off", 3, &[2, 4]);
    let decision = host.wake(&mut task, 3, 3);
    // Target; the limit, with CPU 0; CPU 2.
    assert_eq!((decision.cpu, decision.reads), (2, reads(&[(Cpu, 1), (Llc, 1), (Cluster, 1)])));
}

/// 2 clusters of 2 cores of 2 threads, CPU c and c + 4 sharing a core. From core 1 on: 1, 0, then 2 and 3.
#[test]
fn targets_cluster_has_the_first_idle_core() {
    let searched = |spec: &str, busy: &[u32]| {
        let mut host = Host::new(policy(spec, &machine(1, Some(2), 2, 2)));
        let mut task = host.sleeper(1024, 1);
        host.occupy(busy);
        let decision = host.wake(&mut task, 1, 1);
        (decision.cpu, decision.reason(), host.policy.cpu(0).scan_llc.has_idle_cores)
    };
    for form in ["linux-4.15+affine=off", "linux-5.12+affine=off", "linux-4.15+affine=off+idle=narrow"] {
        let (near, far) = (format!("{form}+cluster=spread-and-pack"), format!("{form}+cluster=spread"));
        // What comes first of core 0 from CPU 1 on is 4.
        assert_eq!(searched(&near, &[1]), (4, Reason::IdleCore, 1), "{form}");
        assert_eq!(searched(&far, &[1]), (2, Reason::IdleCore, 1), "{form}");
        assert_eq!(searched(&near, &[1, 0]), (2, Reason::IdleCore, 1), "no idle core in the cluster: {form}");
        // One thread of each core is busy; 5, 4, 6 and 7 are idle: the first of target's cluster is taken.
        let cpu = searched(&near, &[0, 1, 2, 3]);
        assert!([4, 5].contains(&cpu.0) && cpu.2 == 0, "{form}: {cpu:?}");
        // No CPU of target's cluster is idle.
        assert_eq!(searched(&near, &[0, 1, 4, 5, 2, 3]).0, 6, "{form}");
    }
}

/// The limit lets the search visit 3 CPUs: 0 and 1, then 2. The recent CPU, 4, is idle in another cluster.
#[test]
fn an_idle_recent_cpu_of_another_cluster_is_second_best() {
    let wake = |cluster: &str, idle: &[u32]| {
        let spec = format!("linux-4.15+form=5.2+affine=off+cluster={cluster}");
        let mut host = Host::new(policy(&spec, &machine(1, Some(3), 2, 1)));
        let mut task = host.sleeper(1024, 4);
        host.switch_in(&mut task, 0);
        host.policy.stopping(&mut task, 0, 0, false);
        assert_eq!((task.cpu, task.recent_cpu), (0, 4));
        host.occupy(&[0, 1, 2, 3, 4, 5]);
        for _ in 0..200 {
            host.vacate(&[0]);
            host.now_ns += 10_000;
            host.occupy(&[0]);
        }
        // A search that is said to have been long.
        host.vacate(&[5]);
        let mut other = host.sleeper(1024, 0);
        let decision = host.wake(&mut other, 0, 0);
        host.policy.scan_took(0, &decision, 1_000_000);
        host.occupy(&[5]);
        host.vacate(idle);
        let decision = host.wake(&mut task, 0, 0);
        (decision.cpu, decision.reason(), decision.step_reads.total())
    };
    assert_eq!(wake("spread", &[1, 4]), (4, Reason::RecentIdle, 0));
    assert_eq!(wake("spread-and-pack", &[1, 4]), (1, Reason::IdleCpu, 2), "near comes first");
    assert_eq!(
        wake("spread-and-pack", &[4]),
        (4, Reason::RecentIdle, 3),
        "nothing near: 0, 1 and 2 are busy"
    );
    assert_eq!(wake("spread-and-pack", &[5]), (0, Reason::NoneIdle, 3));
}
