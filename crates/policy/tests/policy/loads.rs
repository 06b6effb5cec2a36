// SPDX-License-Identifier: GPL-2.0-or-later
//! loads.h: the averages of CPUs, and what wake-affine makes of them.

use wakelab_policy::{AffineReason, EnqueueWhy, Task, WAKE_SYNC};

use crate::host::{Host, MS, machine, policy, policy_with_groups};

const HALF_LIFE_NS: u64 = 32 << 20;

/// One LLC of 4 CPUs. `loads` is a value of the axis.
fn host(loads: &str) -> Host {
    let mut host = Host::new(policy(&format!("linux-6.12+affine-loads={loads}"), &machine(1, None, 4, 1)));
    host.now_ns = MS;
    host
}

/// A new task of weight 1024 that is queued on `cpu`.
fn new_task(host: &mut Host, cpu: u32) -> Task {
    let mut task = host.task(1024);
    host.policy.enqueue(&mut task, cpu, EnqueueWhy::Fork, host.now_ns);
    task
}

/// The averages of CPUs 0 and 1 now, rounded: what they were when something changed last, and what they have
/// approached since. An event of a task of CPU 0 that is told twice changes nothing.
fn averages(host: &mut Host, told: &mut Task) -> [u64; 2] {
    host.policy.running(told, 0, host.now_ns);
    host.policy.running(told, 0, host.now_ns);
    [0, 1].map(|cpu| {
        let loads = host.policy.cpu(cpu).loads;
        let (average, goal) = (loads.average as f64 / 65536.0, loads.weight as f64);
        let left = (-((host.now_ns - loads.stamp_ns) as f64) / HALF_LIFE_NS as f64).exp2();
        (goal + (average - goal) * left).round() as u64
    })
}

/// The header's example.
#[test]
fn half_lives() {
    let asleep = [("runnable", 1024, 1024), ("average", 2048, 1536)];
    for (loads, at_once, later) in asleep {
        let mut host = host(loads);
        let mut a = new_task(&mut host, 0);
        host.switch_in(&mut a, 0);
        let mut b = new_task(&mut host, 0);
        assert_eq!(averages(&mut host, &mut a), [2048, 0]);
        host.policy.quiescent(&mut b, host.now_ns);
        assert_eq!(averages(&mut host, &mut a), [at_once, 0]);
        host.now_ns += HALF_LIFE_NS;
        assert_eq!(averages(&mut host, &mut a), [later, 0], "{loads}");
        host.policy.enqueue(&mut b, 1, EnqueueWhy::Wakeup, host.now_ns);
        assert_eq!(averages(&mut host, &mut a), [1024, 512]);
        host.now_ns += HALF_LIFE_NS;
        assert_eq!(averages(&mut host, &mut a), [1024, 768]);
        host.policy.task_exit(&mut b, host.now_ns);
        assert_eq!(averages(&mut host, &mut a), [1024, 0], "it takes its average along");
    }
}

#[test]
fn present_weights_need_no_averages() {
    for spec in ["linux-6.12+affine-loads=now", "linux-6.12+affine=off", "wakelab"] {
        let mut host = Host::new(policy(spec, &machine(1, None, 4, 1)));
        let mut task = new_task(&mut host, 0);
        host.now_ns += HALF_LIFE_NS;
        assert_eq!(averages(&mut host, &mut task), [0, 0], "{spec}");
    }
}

/// A wakee that slept on CPU 1 for `half_lives`; then come the waker and another task on CPU 0, and two tasks on CPU 1,
/// all new. Says what becomes of the wakee.
fn after_sleep(loads: &str, half_lives: u64, flags: u32) -> AffineReason {
    let mut host = host(loads);
    let mut wakee = new_task(&mut host, 1);
    host.policy.quiescent(&mut wakee, host.now_ns);
    host.now_ns += half_lives * HALF_LIFE_NS;
    let mut waker = new_task(&mut host, 0);
    host.switch_in(&mut waker, 0);
    new_task(&mut host, 0);
    let mut running = new_task(&mut host, 1);
    host.switch_in(&mut running, 1);
    new_task(&mut host, 1);
    host.select(&mut wakee, Some(&mut waker), 0, 1, flags).affine_reason()
}

/// Without the wakee both CPUs have 2048, by weights and by averages.
#[test]
fn a_wakee_counts_as_much_as_it_was_runnable() {
    for loads in ["now", "runnable", "average"] {
        assert_eq!(after_sleep(loads, 0, 0), AffineReason::Prev, "(2048 + 1024) * 100 >= 2048 * 108");
        assert_eq!(after_sleep(loads, 0, WAKE_SYNC), AffineReason::Load, "2048 * 100 < 2048 * 108");
        // Its average is 256: (2048 + 256) * 100 = 230400 >= 221184.
        assert_eq!(after_sleep(loads, 2, 0), AffineReason::Prev);
    }
    // Its average is 128: (2048 + 128) * 100 = 217600 < 221184. Its weight still is 1024.
    assert_eq!(after_sleep("now", 3, 0), AffineReason::Prev);
    assert_eq!(after_sleep("runnable", 3, 0), AffineReason::Load);
    assert_eq!(after_sleep("average", 3, 0), AffineReason::Load);
}

/// What sleeps on CPU 0 is load of `average` and none of `runnable`.
#[test]
fn sleepers_count_where_they_ran() {
    for (loads, expected) in [("runnable", AffineReason::Load), ("average", AffineReason::Prev)] {
        let mut host = host(loads);
        let mut wakee = new_task(&mut host, 1);
        host.policy.quiescent(&mut wakee, host.now_ns);
        host.now_ns += 4 * HALF_LIFE_NS;
        let mut waker = new_task(&mut host, 0);
        host.switch_in(&mut waker, 0);
        let mut sleeper = new_task(&mut host, 0);
        host.policy.quiescent(&mut sleeper, host.now_ns);
        let mut running = new_task(&mut host, 1);
        host.switch_in(&mut running, 1);
        // The wakee counts 64. On CPU 0 1024 or 2048, on CPU 1 1024: 108800 or 211200 against 110592.
        let decision = host.select(&mut wakee, Some(&mut waker), 0, 1, 0);
        assert_eq!(decision.affine_reason(), expected, "{loads}");
    }
}

/// A group of 10240 shares has the wakee and a task that runs on CPU 1, both new; the waker of 1024 runs on CPU 0. Each
/// of the group's tasks had CPU 1 alone when it came, and so counts 10240 there: (1024 + 10240) * 100 >= 10240 * 108.
/// Of present weights the wakee has half of the group's shares, if it comes to CPU 0: (1024 + 5120) * 100 < 10240 *
/// 108.
#[test]
fn tasks_weigh_what_their_groups_leave_them() {
    for (loads, expected) in
        [("runnable", AffineReason::Prev), ("average", AffineReason::Prev), ("now", AffineReason::Load)]
    {
        let spec = format!("linux-6.12+affine-loads={loads}");
        let mut host = Host::new(policy_with_groups(&spec, &machine(1, None, 4, 1), 1));
        host.policy.group_init(1, 0, 10240);
        let of_group = |host: &mut Host| {
            let mut task = host.task(1024);
            host.policy.task_group(&mut task, 1, host.now_ns);
            host.policy.enqueue(&mut task, 1, EnqueueWhy::Fork, host.now_ns);
            task
        };
        let mut wakee = of_group(&mut host);
        host.policy.quiescent(&mut wakee, host.now_ns);
        let mut running = of_group(&mut host);
        host.switch_in(&mut running, 1);
        let mut waker = new_task(&mut host, 0);
        host.switch_in(&mut waker, 0);
        let decision = host.select(&mut wakee, Some(&mut waker), 0, 1, 0);
        assert_eq!(decision.affine_reason(), expected, "{loads}");
    }
}
