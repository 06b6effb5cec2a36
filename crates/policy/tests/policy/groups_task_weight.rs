// SPDX-License-Identifier: GPL-2.0-or-later
//! groups_task_weight.h: what a pull takes of a group.

use wakelab_policy::{BalanceWhy, Dispatch, DispatchDo, EnqueueWhy, Task};

use crate::host::{Host, MS, machine, policy_with_groups};

const POLICY: &str = "linux-4.15+balance=load+groups=task-weight";

/// Queues a task of each of these groups on `cpu`, in this order.
fn queue(host: &mut Host, cpu: u32, groups: &[u32]) -> Vec<Task> {
    let tasks = groups.iter().map(|&slot| {
        let mut task = host.task(1024);
        host.policy.task_group(&mut task, slot, 0);
        host.policy.enqueue(&mut task, cpu, EnqueueWhy::Wakeup, 0);
        task
    });
    tasks.collect()
}

/// The header's first example: one of A, then no more; one of B, then no more; the one outside too.
#[test]
fn of_a_group_half_of_the_difference() {
    let mut host = Host::new(policy_with_groups(POLICY, &machine(1, None, 2, 1), 2));
    host.policy.group_init(1, 0, 1024);
    host.policy.group_init(2, 0, 1024);
    let mut tasks = queue(&mut host, 0, &[1, 2, 1, 2, 0]);
    let _there = queue(&mut host, 1, &[2]);
    let mut pull = Dispatch {
        what: DispatchDo::Pull as u32,
        cpu: 0,
        why: BalanceWhy::Periodic as u32,
        level: 1,
        max_load: 1 << 20,
        max_tasks: 32,
        ..Dispatch::default()
    };
    let moved: Vec<u32> =
        tasks.iter_mut().map(|task| host.policy.may_move(task, 1, 100 * MS, &mut pull).r#move).collect();
    assert_eq!(moved, [1, 1, 0, 0, 1]);
}

/// The header's second example: nothing to balance.
#[test]
fn equal_sums_look_balanced_whose_tasks_they_are() {
    let mut host = Host::new(policy_with_groups(POLICY, &machine(1, None, 2, 1), 3));
    for slot in 1..=3 {
        host.policy.group_init(slot, 0, 1024);
    }
    let _a = queue(&mut host, 0, &[1; 10]);
    let _b = queue(&mut host, 1, &[2, 3, 2, 3, 2, 3, 2, 3, 2, 3]);
    assert_eq!([0, 1].map(|cpu| host.policy.cpu(cpu).load), [10_240; 2]);
    // CPU 1 weighs twice as much, but that is not compared.
    assert_eq!([0, 1].map(|cpu| host.policy.cpu(cpu).total), [1024, 2048]);
    for cpu in [0, 1] {
        for ms in [1, 1000] {
            host.policy.tick(cpu, None, ms * MS);
        }
        let answer = host.policy.dispatch(cpu, 1000 * MS);
        assert_eq!((answer.what(), answer.why()), (DispatchDo::Own, BalanceWhy::Periodic));
    }
}
