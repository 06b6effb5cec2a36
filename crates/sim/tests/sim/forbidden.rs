// SPDX-License-Identifier: GPL-2.0-or-later
//! Balancing when no task may run on the first CPU of a group, which is the one that balances (policy/balance.h): two
//! LLCs of 4 CPUs, a task bound to each CPU, and 12 tasks that may run on some of them. All compute all the time.

use wakelab_policy::PolicySpec;
use wakelab_sim::{HostProfile, Scenario, run};
use wakelab_workload::Task;

use crate::common::{HOSTS, MS, bound, compute, machine, scenario};

/// The 12 tasks start when CPUs 1 to 3 are crowded for a moment.
fn tasks(allowed: &[u32]) -> Vec<Task> {
    let spins = || vec![compute(3_600_000 * MS)];
    let mut tasks: Vec<Task> = (0..8).map(|cpu| bound(&[cpu], spins())).collect();
    let crowd = (0..12).map(|number| bound(&[1 + number % 3], vec![compute(20 * MS)]));
    let movable = (0..12).map(|number| Task {
        start_ns: MS,
        last_cpu: Some(4 + number % 4),
        ..bound(allowed, spins())
    });
    tasks.extend(movable);
    tasks.extend(crowd);
    tasks
}

/// The least and the greatest part of a CPU that tasks on CPUs 1 to 7 received between 3 s and 8 s, in 1/1000.
fn parts(policy: &str, host: HostProfile) -> (u64, u64) {
    let received = |limit_ms: u64| {
        let mut machine = machine(2, 4, 1);
        machine.costs.tick_period_ns = 4 * MS;
        let policy = policy.parse().unwrap();
        let limit_ns = limit_ms * MS;
        let scenario =
            Scenario { policy, limit_ns, ..scenario(machine, tasks(&[1, 2, 3, 4, 5, 6, 7]), host) };
        run(&scenario, 1).unwrap_or_else(|error| panic!("{error}")).task_cpu_time_ns
    };
    let (before, after) = (received(3000), received(8000));
    let parts = (1..20).map(|task: usize| (after[task] - before[task]) * 1000 / (5000 * MS));
    (parts.clone().min().unwrap(), parts.max().unwrap())
}

/// Each of the 19 tasks on 7 CPUs is due 368 of 1000.
#[test]
fn every_task_gets_its_part_within_a_tenth() {
    for policy in [
        "wakelab",
        "linux-6.12+balance=load",
        "linux-6.12+balance=load+queue=fair-2025",
        "wakelab+groups=exact",
    ] {
        for host in HOSTS {
            let (least, most) = parts(policy, host);
            assert!(least >= 332 && most <= 405, "{policy}, {host:?}: {least} to {most}");
        }
    }
}

/// The cfs queues give what they give where CPU 0 is allowed: a task whose CPU has one task less keeps the advantage
/// for longer. No CPU is left out, or its bound task would have 1000.
#[test]
fn no_cpu_is_left_out_under_any_policy() {
    for policy in PolicySpec::named() {
        for host in HOSTS {
            let (least, most) = parts(policy.name, host);
            assert!(least >= 300 && most <= 500, "{}, {host:?}: {least} to {most}", policy.name);
        }
    }
}
