// SPDX-License-Identifier: GPL-2.0-or-later
//! account.h: busy counters, averages of idle periods, has_idle_cores.

use crate::host::{Host, machine, policy};

/// The header's example: one LLC of 2 cores x 2 threads.
#[test]
fn counters_follow_busy_and_idle_reports() {
    let mut policy = policy("linux-4.15+idle=smt-balance", &machine(1, None, 2, 2));
    let counters = |policy: &wakelab_policy::Policy| [0, 1].map(|core| policy.busy_count(1, core).unwrap());
    for cpu in [0, 0, 2, 1] {
        policy.busy(cpu, 0);
    }
    assert_eq!(counters(&policy), [2, 1]);
    policy.idle(2, 0);
    assert_eq!(counters(&policy), [1, 1]);
    policy.idle(1, 0);
    assert_eq!(counters(&policy), [1, 0]);
    policy.idle(3, 0);
    assert_eq!(counters(&policy), [1, 0], "the first report counts from idle");
    assert_eq!(policy.busy_count(2, 0), None, "the LLC itself has no counter");
}

#[test]
fn a_cpu_that_makes_its_core_idle_says_so() {
    let mut host = Host::new(policy("linux-4.15", &machine(1, None, 2, 2)));
    host.occupy(&[0, 1, 2, 3]);
    let mut task = host.sleeper(1024, 0);
    host.wake(&mut task, 0, 0);
    assert_eq!(host.policy.cpu(0).scan_llc.has_idle_cores, 0, "the search found no idle core");
    host.vacate(&[2]);
    assert_eq!(host.policy.cpu(0).scan_llc.has_idle_cores, 0, "CPU 0 of the core is busy");
    host.vacate(&[1, 3]);
    assert_eq!(host.policy.cpu(0).scan_llc.has_idle_cores, 1);
}

#[test]
fn a_queued_task_keeps_a_core_from_being_idle() {
    let mut host = Host::new(policy("linux-4.15", &machine(1, None, 2, 2)));
    host.occupy(&[0, 1, 2, 3]);
    let mut task = host.sleeper(1024, 0);
    host.wake(&mut task, 0, 0);
    let _waits = host.queued(1024, 3);
    host.vacate(&[3, 1]);
    assert_eq!(host.policy.cpu(0).scan_llc.has_idle_cores, 0);
}

#[test]
fn the_average_of_idle_periods_moves_by_an_eighth() {
    let mut policy = policy("linux-4.15", &machine(1, None, 2, 1));
    assert_eq!(policy.cpu(1).avg_idle_ns, 1_000_000);
    policy.idle(1, 100_000);
    policy.busy(1, 900_000);
    assert_eq!(policy.cpu(1).avg_idle_ns, 975_000, "1000 - (1000 - 800) / 8 us");
    policy.busy(1, 5_000_000);
    assert_eq!(policy.cpu(1).avg_idle_ns, 975_000, "told twice");
    policy.idle(1, 6_000_000);
    policy.busy(1, 1_006_000_000);
    assert_eq!(policy.cpu(1).avg_idle_ns, 1_000_000, "capped at twice the migration cost");
}
