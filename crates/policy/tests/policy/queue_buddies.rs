// SPDX-License-Identifier: GPL-2.0-or-later
//! queue_buddies.h, and how cfs-2007 differs. 8 CPUs: latency 24 ms, granularity 4 ms; in cfs-2007 80 and 40 ms.

use crate::host::{Host, MS, START, machine, policy};
use wakelab_policy::{EnqueueWhy, Pick, Task};

fn host(spec: &str) -> Host {
    Host::new(policy(spec, &machine(2, None, 4, 1)))
}

/// A runs 10 ms above the floor. L is queued, B wakes, both with these keys above the floor. Does B preempt?
fn example(spec: &str, l_ms: i64, b_ms: i64) -> (Host, [Task; 3], bool) {
    let mut host = host(spec);
    let mut a = host.running(1024, 0);
    let at = |ms: i64| START.checked_add_signed(ms * MS as i64).unwrap();
    let mut l = host.task(1024);
    l.entity.vtime = at(l_ms);
    l.cpu = 0;
    host.policy.enqueue(&mut l, 0, EnqueueWhy::Wakeup, 0);
    host.now_ns = 10 * MS;
    host.policy.tick(0, Some(&mut a), host.now_ns);
    let mut b = host.task(1024);
    b.entity.vtime = at(b_ms);
    b.cpu = 0;
    let preempts = host.policy.enqueue(&mut b, 0, EnqueueWhy::Wakeup, host.now_ns).preempt != 0;
    assert_eq!((a.entity.vtime, l.entity.vtime, b.entity.vtime), (at(10), at(l_ms), at(b_ms)));
    (host, [a, l, b], preempts)
}

fn may_run(host: &mut Host, task: &mut Task) -> bool {
    host.policy.may_run(task, 0, host.now_ns).run != 0
}

/// The header's example.
#[test]
fn a_task_that_preempts_runs_before_one_a_little_further_behind() {
    for (l_ms, l_first) in [(1, false), (-1, false), (-2, true)] {
        let (mut host, [mut a, mut l, mut b], preempts) = example("linux-3.10", l_ms, 3);
        assert!(preempts, "7 ms behind");
        host.policy.stopping(&mut a, 0, host.now_ns, true);
        host.policy.enqueue(&mut a, 0, EnqueueWhy::SliceEnd, host.now_ns);
        assert_eq!(host.policy.dispatch(0, host.now_ns).pick(), Pick::Eligible);
        assert_eq!(
            (may_run(&mut host, &mut l), may_run(&mut host, &mut b)),
            (l_first, true),
            "L at {l_ms} ms"
        );
        host.policy.running(&mut b, 0, host.now_ns);
        assert!(may_run(&mut host, &mut l), "B is picked, and no buddy any more");
        assert_eq!(host.policy.dispatch(0, host.now_ns).pick(), Pick::Eligible);
    }
    let (mut host, [_, mut l, _], preempts) = example("linux-3.10", 1, 6);
    assert!(!preempts, "6 + 4 ms are not below 10");
    assert!(may_run(&mut host, &mut l));
}

#[test]
fn a_task_preempted_among_many_runs_before_the_others() {
    let preempted = |others: usize| {
        let (mut host, [mut a, mut l, mut b], _) = example("linux-3.10", 7, 3);
        for _ in 0..others {
            let mut task = host.task(1024);
            (task.entity.vtime, task.cpu) = (START + 20 * MS, 0);
            host.policy.enqueue(&mut task, 0, EnqueueWhy::Wakeup, host.now_ns);
        }
        host.policy.stopping(&mut a, 0, host.now_ns, true);
        host.policy.enqueue(&mut a, 0, EnqueueWhy::SliceEnd, host.now_ns);
        host.policy.running(&mut b, 0, host.now_ns);
        host.policy.stopping(&mut b, 0, host.now_ns, false);
        host.policy.quiescent(&mut b, host.now_ns);
        (may_run(&mut host, &mut l), may_run(&mut host, &mut a))
    };
    assert_eq!(preempted(5), (false, true), "8 tasks: A, at 10 ms, is within 4 ms of L, at 7");
    assert_eq!(preempted(4), (true, true), "7 tasks: the first of the queue");
}

#[test]
fn a_buddy_that_is_gone_is_forgotten() {
    let (mut host, [_, mut l, mut b], _) = example("linux-3.10+balance=load", 1, 3);
    assert!(!may_run(&mut host, &mut l));
    let mut dispatch = host.policy.dispatch(1, host.now_ns);
    dispatch.cpu = 0;
    dispatch.max_load = 4096;
    dispatch.max_tasks = 4;
    host.now_ns += MS;
    assert_eq!(host.policy.may_move(&mut b, 1, host.now_ns, &mut dispatch).r#move, 1);
    assert!(may_run(&mut host, &mut l), "pulled away");
}

/// The header of queue_cfs.h.
#[test]
fn in_2007_sleepers_had_more_credit_and_preempted_seldom() {
    let (_, [_, _, b], preempts) = example("linux-2.6.24", 0, -25);
    assert_eq!((b.slice_ns > 0, preempts), (true, false), "10 + 25 <= 40 ms");
    let (_, _, preempts) = example("linux-2.6.24", 0, -31);
    assert!(preempts, "41 ms");
    for (spec, credit_ms) in [("linux-2.6.24", 80), ("linux-3.10", 12)] {
        let mut host = host(spec);
        let mut floor = host.running(1024, 0);
        let mut c = host.sleeper(1024, 0);
        host.now_ns = 1_000 * MS;
        host.policy.tick(0, Some(&mut floor), host.now_ns);
        let key = host.policy.enqueue(&mut c, 0, EnqueueWhy::Wakeup, host.now_ns).key;
        assert_eq!(key, START + 1_000 * MS - credit_ms * MS, "{spec}");
    }
}

#[test]
fn in_2007_the_running_tasks_weight_scaled_the_granularity() {
    // B, at twice the weight, is 25 ms behind. 2018: 4 * 1024 / 2048. 2007: 40 ms by A's weight, whatever B's is.
    for (spec, a_weight, b_weight, expected) in [
        ("linux-2.6.24", 1024, 4096, false),
        ("linux-2.6.24", 4096, 1024, true),
        ("linux-2.6.24+queue=cfs-2018+wakeup-granularity-ns=40000000", 1024, 4096, true),
        ("linux-2.6.24+queue=cfs-2018+wakeup-granularity-ns=40000000", 4096, 1024, false),
    ] {
        let mut host = host(spec);
        let _a = host.running(a_weight, 0);
        let mut b = host.task(b_weight);
        b.cpu = 0;
        // 11 ms is inside the credit of both.
        b.entity.vtime = START - 11 * MS;
        assert_eq!(
            host.policy.enqueue(&mut b, 0, EnqueueWhy::Wakeup, 0).preempt != 0,
            expected,
            "{spec}, {a_weight} against {b_weight}"
        );
    }
}
