// SPDX-License-Identifier: GPL-2.0-or-later
//! groups_load.h: what groups weigh on CPUs, and balancing by that.

use wakelab_policy::{DispatchDo, EnqueueWhy, HWEIGHT_ONE, Task};

use crate::host::{Host, MS, machine, policy_with_groups};

fn host(nr_groups: u32) -> Host {
    let topology = machine(1, None, 2, 1);
    let mut host = Host::new(policy_with_groups("linux-6.12", &topology, nr_groups as usize));
    for slot in 1..=nr_groups {
        host.policy.group_init(slot, 0, 1024);
    }
    host
}

fn queue(host: &mut Host, cpu: u32, slot: u32) -> Task {
    let mut task = host.task(1024);
    host.policy.task_group(&mut task, slot, host.now_ns);
    host.policy.enqueue(&mut task, cpu, EnqueueWhy::Wakeup, host.now_ns);
    task
}

fn counted(host: &Host, slot: u32) -> [u32; 2] {
    [0, 1].map(|cpu| host.policy.group_cpu(slot, cpu).counted)
}

/// The usual load is the one that two ticks in a row have seen; if they differ, but both see much more or less, their
/// mean.
#[test]
fn tasks_share_by_their_groups_usual_load() {
    let mut host = host(1);
    let mut first = queue(&mut host, 0, 1);
    host.switch_in(&mut first, 0);
    let tick = |host: &mut Host, first: &mut Task| {
        host.now_ns += MS;
        host.policy.tick(0, Some(first), host.now_ns);
        (host.policy.group_cpu(1, 0).usual_load, first.entity.hweight)
    };
    // The first tick has no other to agree with, so the task shares by what is there.
    assert_eq!(tick(&mut host, &mut first), (0, 1024 * HWEIGHT_ONE));
    assert_eq!(tick(&mut host, &mut first), (1024, 1024 * HWEIGHT_ONE));
    let _second = queue(&mut host, 0, 1);
    let third = queue(&mut host, 0, 1);
    assert_eq!(third.entity.hweight, 1024 * HWEIGHT_ONE, "as the one that runs");
    assert_eq!(tick(&mut host, &mut first), (1024, 1024 * HWEIGHT_ONE));
    let _fourth = queue(&mut host, 0, 1);
    assert_eq!(tick(&mut host, &mut first).0, 3584, "the mean of 3072 and 4096");
    assert_eq!(tick(&mut host, &mut first), (4096, 256 * HWEIGHT_ONE));
}

/// The header's example: A (slot 1) has two tasks on CPU 0 and one on CPU 1, B (2) has one there.
#[test]
fn a_group_weighs_its_shares_once() {
    let mut host = host(2);
    let mut a: Vec<Task> = [0, 0, 1].map(|cpu| queue(&mut host, cpu, 1)).into();
    let mut b = queue(&mut host, 1, 2);
    assert_eq!(counted(&host, 1), [1024, 341], "CPU 0 has not looked since A came to CPU 1");
    assert_eq!(host.policy.group(1).load, 3 * 1024);
    host.switch_in(&mut a[0], 0);
    host.now_ns = MS;
    host.policy.tick(0, Some(&mut a[0]), host.now_ns);
    assert_eq!((counted(&host, 1), counted(&host, 2)), ([682, 341], [0, 1024]));
    assert_eq!(
        [0, 1].map(|cpu| host.policy.cpu(cpu).load),
        [682, 1365],
        "balancing goes by what groups weigh"
    );
    // B is charged by three quarters of CPU 1, A's tasks on CPU 0 by half of it each.
    host.switch_in(&mut b, 1);
    host.now_ns = 2 * MS;
    host.policy.tick(1, Some(&mut b), host.now_ns);
    assert_eq!([&a[0], &b].map(|task| task.entity.hweight / HWEIGHT_ONE), [341, 1024]);
    // CPU 0 lacks 341, so it may pull that: A's task, which weighs 341, and not that of B. Each group then has a CPU.
    for ms in [1000, 2000] {
        host.now_ns = ms * MS;
        host.policy.tick(0, Some(&mut a[0]), host.now_ns);
    }
    let mut pull = host.policy.dispatch(0, host.now_ns);
    assert_eq!((pull.what(), pull.cpu, pull.max_load), (DispatchDo::Pull, 1, 341));
    let moved = host.policy.may_move(&mut a[2], 0, host.now_ns, &mut pull);
    assert_eq!(moved.r#move, 1);
    assert_eq!((counted(&host, 1), host.policy.group(1).load), ([1024, 0], 3 * 1024));
}

/// A task that has not joined yet is charged by what it will have: half of a CPU beside one of B, if the rest of its
/// group has as much elsewhere.
#[test]
fn joining_counts_before_it_happens() {
    let mut host = host(2);
    let _elsewhere = queue(&mut host, 0, 1);
    let _b = queue(&mut host, 1, 2);
    let task = queue(&mut host, 1, 1);
    assert_eq!((counted(&host, 1), task.entity.hweight / HWEIGHT_ONE), ([1024, 512], 512));
    // Of two levels: the group above weighs by what the one below will weigh.
    let topology = machine(1, None, 2, 1);
    let mut host = Host::new(policy_with_groups("linux-6.12", &topology, 2));
    host.policy.group_init(1, 0, 2048);
    host.policy.group_init(2, 1, 1024);
    let _elsewhere = queue(&mut host, 0, 2);
    let task = queue(&mut host, 1, 2);
    // W(2,1) is 512. Of group 1, CPU 0 still has 1024: W(1,1) = 2048 * 512 / 1536.
    assert_eq!((host.policy.group_cpu(2, 1).counted, host.policy.group_cpu(1, 1).counted), (512, 682));
    assert_eq!(task.entity.hweight / HWEIGHT_ONE, 682);
}

#[test]
fn a_weight_is_at_least_2_and_at_most_the_shares() {
    let mut host = host(1);
    let mut heavy = host.task(88_761);
    host.policy.task_group(&mut heavy, 1, 0);
    host.policy.enqueue(&mut heavy, 0, EnqueueWhy::Wakeup, 0);
    let mut light = host.task(15);
    host.policy.task_group(&mut light, 1, 0);
    host.policy.enqueue(&mut light, 1, EnqueueWhy::Wakeup, 0);
    assert_eq!(counted(&host, 1), [1024, 2]);
    host.policy.quiescent(&mut heavy, 0);
    assert_eq!(counted(&host, 1), [0, 2], "nothing has happened on CPU 1");
    host.policy.group_shares(0, 1, 512);
    assert_eq!(counted(&host, 1), [0, 512], "the shares were set, so all is computed again");
}
