// SPDX-License-Identifier: GPL-2.0-or-later
//! util.h, through the limit of form=util: an LLC whose CPUs have been busy for a known time.

use wakelab_policy::EnqueueWhy;

use crate::host::{Host, machine, policy};

const HALF_LIFE_NS: u64 = 32 << 20;

/// Utilization of a CPU, in 1/1024, when it last changed.
fn util(host: &Host, cpu: u32) -> u32 {
    (host.policy.cpu(cpu).util + (1 << 15)) >> 16
}

#[test]
fn half_lives() {
    let mut host = Host::new(policy("linux-6.12", &machine(1, None, 8, 1)));
    host.occupy(&[0]);
    host.now_ns = HALF_LIFE_NS;
    host.vacate(&[0]);
    assert_eq!(util(&host, 0), 512);
    host.now_ns += HALF_LIFE_NS;
    host.occupy(&[0]);
    assert_eq!(util(&host, 0), 256);
    host.now_ns += 2 * HALF_LIFE_NS;
    host.vacate(&[0]);
    assert_eq!(util(&host, 0), 1024 - 768 / 4);
    host.now_ns += 1 << 50;
    host.occupy(&[0]);
    assert_eq!(util(&host, 0), 0);
}

/// 1024 * (1 - 2^(-n / 32)), and linear between two periods.
#[test]
fn periods_and_their_parts() {
    for (time_ns, expected) in
        [(1 << 20, 22), (7 << 20, 144), (21 << 20, 374), (31 << 20, 501), (3 << 19, 33)]
    {
        let mut host = Host::new(policy("linux-6.12", &machine(1, None, 8, 1)));
        host.occupy(&[3]);
        host.now_ns = time_ns;
        host.vacate(&[3]);
        assert_eq!(util(&host, 3), expected, "after {time_ns} ns");
    }
}

/// The header's example: 0 to 512 to 768, half of that is left after a half-life, and the first takes 256 along.
#[test]
fn new_tasks_add_half_of_what_is_left_and_take_it_along() {
    let mut host = Host::new(policy("linux-6.12", &machine(1, None, 8, 1)));
    let mut tasks = [host.task(1024), host.task(1024)];
    for (task, expected) in tasks.iter_mut().zip([512, 768]) {
        host.policy.enqueue(task, 2, EnqueueWhy::Fork, 0);
        assert_eq!(util(&host, 2), expected);
    }
    host.policy.task_exit(&mut tasks[0], HALF_LIFE_NS);
    assert_eq!(util(&host, 2), 768 / 2 - 256);
    assert_eq!(util(&host, 1), 0, "other CPUs have none of it");
}

/// A wakee adds nothing, and so takes nothing along; nor does a task of a policy that asks for no utilization.
#[test]
fn only_new_tasks_add_and_only_where_utilization_is_used() {
    for (spec, why, expected) in [
        ("linux-6.12", EnqueueWhy::Wakeup, 0),
        ("linux-6.12", EnqueueWhy::Fork, 512),
        ("linux-4.15", EnqueueWhy::Fork, 0),
    ] {
        let mut host = Host::new(policy(spec, &machine(1, None, 8, 1)));
        let mut task = host.task(1024);
        host.policy.enqueue(&mut task, 2, why, 0);
        assert_eq!(util(&host, 2), expected, "{spec} {why:?}");
        host.policy.task_exit(&mut task, 0);
        assert_eq!(util(&host, 2), 0, "{spec} {why:?}");
    }
}
