// SPDX-License-Identifier: GPL-2.0-or-later
//! balance_5_12.h.

use wakelab_policy::{BalanceWhy, DispatchDo, Task};

use crate::host::{Host, machine, policy};

/// 2 nodes of 4 CPUs. CPU 4 is about to go idle; the tasks of node 0 are on CPU 0, `waiting` of them in its queue.
fn host(spec: &str, waiting: usize) -> (Host, Vec<Task>) {
    let mut host = Host::new(policy(spec, &machine(2, None, 4, 1)));
    host.occupy(&[4]);
    host.running(1024, 0);
    let tasks = (0..waiting).map(|_| host.queued(1024, 0)).collect();
    (host, tasks)
}

/// The header's example.
#[test]
fn nodes_spread_tasks_but_may_differ_by_a_pair() {
    let pulled = |spec: &str, waiting: usize| {
        let (mut host, _tasks) = host(spec, waiting);
        let pull = host.policy.dispatch(4, 0);
        (pull.what() == DispatchDo::Pull).then_some((pull.why(), pull.cpu, pull.level))
    };
    let pull = Some((BalanceWhy::NewlyIdle, 0, 2));
    assert_eq!(pulled("linux-5.12", 2), pull, "3 tasks are not less than a quarter of 4 CPUs");
    assert_eq!(pulled("linux-5.12", 1), pull, "nor are 2");
    assert_eq!(pulled("linux-6.12", 2), None, "1 task is left out");
    assert_eq!(pulled("linux-6.12", 3), None, "and so are 2");
    assert_eq!(pulled("linux-6.12", 4), pull, "5 tasks on 4 CPUs: overloaded");
}

#[test]
fn a_group_without_room_pulls_load() {
    let (mut host, _tasks) = host("linux-5.12", 7);
    let _own: Vec<Task> = [4, 5, 6, 7].into_iter().map(|cpu| host.running(1024, cpu)).collect();
    let _more: Vec<Task> = (1..4).map(|cpu| host.running(1024, cpu)).collect();
    // A busy CPU looks: node 1 has 4 tasks on 4 CPUs, node 0 has 11. Averages are 1024, 2816 and 1920: 3584 may move.
    let mut marked = 0;
    for tick in 1..2000 {
        host.now_ns = tick * 1_000_000;
        host.policy.tick(4, None, host.now_ns);
        marked |= host.policy.cpu(4).balance_marked;
        if marked & 1 << 2 != 0 {
            break;
        }
        host.policy.dispatch(4, host.now_ns);
    }
    let pull = host.policy.dispatch(4, host.now_ns);
    assert_eq!((pull.what(), pull.why(), pull.level), (DispatchDo::Pull, BalanceWhy::Periodic, 2));
    assert_eq!((pull.cpu, pull.max_load, pull.max_tasks), (0, 3584, 7));
}

#[test]
fn a_task_must_fit_until_a_try_has_failed() {
    let (mut host, mut tasks) = host("linux-5.12", 2);
    let mut pull = host.policy.dispatch(4, 0);
    assert_eq!((pull.what(), pull.max_tasks), (DispatchDo::Pull, 1));
    pull.max_load = 1023;
    assert_eq!(host.policy.may_move(&mut tasks[0], 4, 0, &mut pull.clone()).r#move, 0);
    pull.max_load = 1024;
    assert_eq!(host.policy.may_move(&mut tasks[0], 4, 0, &mut pull).r#move, 1);
}

#[test]
fn clusters_and_cores_spread_by_numbers_of_tasks() {
    // One LLC of 2 clusters of 4 CPUs. Cluster 0 has five tasks, cluster 1 one.
    let mut host = Host::new(policy("linux-5.12+cluster=spread", &machine(1, Some(2), 4, 1)));
    host.occupy(&[4]);
    host.running(1024, 5);
    for cpu in 0..4 {
        host.running(1024, cpu);
    }
    let _waits = host.queued(1024, 2);
    let pull = host.policy.dispatch(4, 0);
    assert_eq!((pull.what(), pull.cpu, pull.level, pull.max_tasks), (DispatchDo::Pull, 2, 2, 1));
}
