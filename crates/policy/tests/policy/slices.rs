// SPDX-License-Identifier: GPL-2.0-or-later
//! slices.h. Times are milliseconds of a machine of 8 CPUs: the slice is 3 ms (fair-2025: 2.8).

use wakelab_policy::{Enqueue, EnqueueWhy, Preempt, Task};

use crate::host::{Host, MS, START, machine, policy};

fn host(queue: &str) -> Host {
    Host::new(policy(&format!("linux-6.12+queue={queue}"), &machine(2, None, 4, 1)))
}

/// A task that asks for a slice.
fn asks(host: &mut Host, slice_ns: u64) -> Task {
    let mut task = host.task(1024);
    host.policy.task_slice(&mut task, slice_ns as u32);
    task
}

fn wake(host: &mut Host, task: &mut Task) -> Enqueue {
    host.policy.enqueue(task, 0, EnqueueWhy::Wakeup, host.now_ns)
}

fn run(host: &mut Host, task: &mut Task) {
    host.policy.running(task, 0, host.now_ns);
}

fn switch(host: &mut Host, from: &mut Task, to: &mut Task) {
    host.policy.stopping(from, 0, host.now_ns, true);
    host.policy.enqueue(from, 0, EnqueueWhy::SliceEnd, host.now_ns);
    run(host, to);
}

/// A tick after some more time. Returns whether the running task gives way.
fn tick(host: &mut Host, task: &mut Task, later_ns: u64) -> bool {
    host.now_ns += later_ns;
    host.policy.tick(0, Some(task), host.now_ns).resched != 0
}

fn may_run(host: &mut Host, task: &mut Task) -> bool {
    host.policy.may_run(task, 0, host.now_ns).run != 0
}

/// The header's example: A runs from 0 and has asked for 20 ms, and B, at 1, for `slice_ns` or nothing.
fn example(slice_ns: u64) -> (Host, Task, Task) {
    let mut host = host("fair-2025");
    let (mut a, mut b) = (asks(&mut host, 20 * MS), asks(&mut host, slice_ns));
    wake(&mut host, &mut a);
    wake(&mut host, &mut b);
    run(&mut host, &mut b);
    host.now_ns = MS;
    switch(&mut host, &mut b, &mut a);
    assert_eq!((b.entity.vtime - START, a.entity.vtime - START, a.entity.deadline - START), (MS, 0, 20 * MS));
    (host, a, b)
}

#[test]
fn the_worked_example() {
    let (mut host, mut a, mut b) = example(0);
    assert!(!tick(&mut host, &mut a, 5 * MS / 2), "protected, though V is 1.75");
    assert!(tick(&mut host, &mut a, MS / 2), "until 2.8");
    assert_eq!(a.entity.vtime - START, 3 * MS);
    assert!(may_run(&mut host, &mut b));
    switch(&mut host, &mut a, &mut b);
    assert!(tick(&mut host, &mut b, 4 * MS));
    assert_eq!((b.entity.vtime - START, b.entity.deadline - START), (5 * MS, 5 * MS + 2_800_000));
    assert!(may_run(&mut host, &mut a), "V is 4");
    switch(&mut host, &mut b, &mut a);
    assert!(!tick(&mut host, &mut a, 2 * MS) && tick(&mut host, &mut a, MS), "until 5.8");
}

#[test]
fn equal_slices_protect_to_the_deadline() {
    let (mut host, mut a, _b) = example(20 * MS);
    assert!(!tick(&mut host, &mut a, 19 * MS) && tick(&mut host, &mut a, MS));
    assert_eq!(a.entity.deadline - START, 40 * MS, "its own slice again");
}

#[test]
fn a_shorter_slice_preempts_by_its_deadline() {
    for queue in ["fair", "fair-2024", "fair-2025"] {
        let at_1 = |slice_ns: u64| {
            let mut host = host(queue);
            let mut a = host.task(1024);
            wake(&mut host, &mut a);
            run(&mut host, &mut a);
            host.now_ns = MS;
            let mut b = asks(&mut host, slice_ns);
            let answer = wake(&mut host, &mut b);
            assert_eq!(b.entity.vtime - START, MS, "V");
            (answer.key - START - MS, answer.preempt() != Preempt::No, may_run(&mut host, &mut b))
        };
        assert_eq!(at_1(500_000), (500_000, true, true), "{queue}: its deadline is 1.5, A's 2.8 or 3");
        assert!(!at_1(0).1, "{queue}: the same slice");
        assert_eq!(at_1(5 * MS / 2), (5 * MS / 2, false, false), "{queue}: its deadline is 3.5");
    }
}

#[test]
fn what_a_shorter_slice_takes_from_the_running_task() {
    let arrives = |queue: &str| {
        let mut host = host(queue);
        let mut a = asks(&mut host, 20 * MS);
        wake(&mut host, &mut a);
        run(&mut host, &mut a);
        host.now_ns = MS;
        // Twice its lag beyond V = 1, because it moves V: at 3, V is 2.
        let mut b = asks(&mut host, 5 * MS);
        b.cpu = 0;
        b.entity.lag = -(MS as i64);
        let answer = wake(&mut host, &mut b);
        assert_eq!((b.entity.vtime - START, answer.preempt()), (3 * MS, Preempt::No), "{queue}");
        (host, a)
    };
    let (mut host, mut a) = arrives("fair-2025");
    assert!(!tick(&mut host, &mut a, 9 * MS / 2), "until 1 + 5");
    assert!(tick(&mut host, &mut a, MS / 2));
    let (mut host, mut a) = arrives("fair-2024");
    assert!(!tick(&mut host, &mut a, 18 * MS), "it was not eligible");
}

#[test]
fn the_protection_of_6_12_is_lost_for_as_long_as_the_task_runs() {
    let mut host = host("fair-2024");
    let mut a = asks(&mut host, 20 * MS);
    wake(&mut host, &mut a);
    run(&mut host, &mut a);
    host.now_ns = MS;
    let (mut b, mut c) = (asks(&mut host, 5 * MS), asks(&mut host, 4 * MS));
    assert_eq!(wake(&mut host, &mut b).preempt(), Preempt::IfFirst, "its deadline is 6");
    // The host found another task to be first. That one leaves again, and A goes on.
    wake(&mut host, &mut c);
    host.policy.quiescent(&mut c, host.now_ns);
    assert!(tick(&mut host, &mut a, MS), "it is beyond V = 1.5, and no longer protected");
}

#[test]
fn slices_have_limits_and_some_kernels_have_none() {
    let mut host = host("fair-2024");
    let slices = [1, 250_000, 4_000_000_000, 0].map(|ns| asks(&mut host, ns).entity.own_slice_ns);
    assert_eq!(slices, [100_000, 250_000, 100_000_000, 0]);
    for queue in ["fair-2023", "cfs-2018"] {
        let mut host = self::host(queue);
        assert_eq!(asks(&mut host, MS).entity.own_slice_ns, 0, "{queue}");
    }
}

#[test]
fn lag_is_limited_by_the_own_slice() {
    let mut host = host("fair-2024");
    let (mut a, mut b) = (host.task(1024), asks(&mut host, 100_000));
    wake(&mut host, &mut b);
    wake(&mut host, &mut a);
    run(&mut host, &mut a);
    host.now_ns = 10 * MS;
    host.policy.stopping(&mut a, 0, host.now_ns, true);
    host.policy.quiescent(&mut b, host.now_ns);
    assert_eq!(b.entity.lag, MS as i64, "a tick, which is more than two slices");
    host.policy.task_slice(&mut b, 4_000_000);
    wake(&mut host, &mut b);
    b.entity.vtime = START;
    host.now_ns = 60 * MS;
    run(&mut host, &mut a);
    host.now_ns = 120 * MS;
    host.policy.tick(0, Some(&mut a), host.now_ns);
    host.policy.quiescent(&mut b, host.now_ns);
    assert_eq!(b.entity.lag, 8 * MS as i64, "two slices");
}

#[test]
fn a_running_task_has_its_new_slice_after_this_one() {
    let mut host = host("fair-2024");
    let mut a = host.running(1024, 0);
    host.policy.task_slice(&mut a, 7_000_000);
    assert_eq!(a.entity.deadline - START, 3 * MS);
    host.now_ns = 3 * MS;
    let mut b = host.task(1024);
    wake(&mut host, &mut b);
    host.policy.tick(0, Some(&mut a), host.now_ns);
    assert_eq!(a.entity.deadline - START, 10 * MS, "also if an arrival has ended the slice");
    assert_eq!(host.policy.cpu(0).slices.nr_own, 1);
}
