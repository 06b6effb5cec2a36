// SPDX-License-Identifier: GPL-2.0-or-later
//! newly_idle.h.

use wakelab_policy::{DispatchDo, Task};

use crate::host::{Host, MS, machine, policy};

/// 2 LLCs of 4 CPUs, all busy; a task waits on CPU 1 if `waits` says so. CPU 0 has looked in vain, which took 8 us, and
/// then had idle periods of `idle_ns`.
fn host(idle_ns: u64, spec: &str) -> Host {
    // The longest try, or an eighth of the way from 0 to it.
    let cost_ns = if spec.starts_with("wakelab") { 500 } else { 4_000 };
    let mut host = Host::new(policy(spec, &machine(2, None, 4, 1)));
    host.occupy(&[0]);
    let _others: Vec<Task> = (1..8).map(|cpu| host.running(1024, cpu)).collect();
    let mut second = host.queued(1024, 1);
    host.policy.quiescent(&mut second, 0);
    host.now_ns = MS;
    assert_eq!(host.policy.dispatch(0, host.now_ns).what(), DispatchDo::Nothing);
    host.now_ns += 8_000;
    host.vacate(&[0]);
    assert_eq!(host.policy.cpu(0).newly_idle.cost_ns[1..3], [cost_ns; 2]);
    for _ in 0..100 {
        host.now_ns += idle_ns;
        host.occupy(&[0]);
        host.vacate(&[0]);
    }
    host.now_ns += idle_ns;
    host.occupy(&[0]);
    host
}

/// How many levels CPU 0 looks at, by what it reads.
fn levels(idle_ns: u64, spec: &str) -> usize {
    let mut host = host(idle_ns, spec);
    let mut task = host.running(1024, 0);
    host.policy.stopping(&mut task, 0, host.now_ns, false);
    let mut second = host.queued(1024, 5);
    host.policy.quiescent(&mut second, host.now_ns);
    match host.policy.dispatch(0, host.now_ns).reads.total() {
        0 | 1 => 0,
        5 => 1,
        9 => 2,
        reads => panic!("{reads} reads"),
    }
}

/// The header's example.
#[test]
fn levels_that_cost_more_than_the_idle_period_are_left_out() {
    assert_eq!(levels(9_000, "linux-6.12"), 2);
    assert_eq!(levels(7_000, "linux-6.12"), 1);
    assert_eq!(levels(3_000, "linux-6.12"), 0);
    assert_eq!(levels(9_000, "linux-5.12"), 0, "less than migration_cost");
    assert_eq!(levels(9_000, "linux-5.12+migration-cost-ns=8000"), 2);
    assert_eq!(levels(7_000, "linux-5.12+migration-cost-ns=4000"), 1);
    // With balance=load a level has cost 0.5 us so far.
    assert_eq!(levels(9_000, "wakelab"), 1, "the LLC needs no more than its cost");
    assert_eq!(levels(400, "wakelab"), 0);
    assert_eq!(levels(1_100, "wakelab+migration-cost-ns=1000"), 2);
    assert_eq!(levels(900, "wakelab+migration-cost-ns=500"), 1);
}

#[test]
fn costs_fall_by_a_percent_a_second() {
    let mut host = host(9_000, "linux-6.12");
    let mut task = host.running(1024, 0);
    host.policy.stopping(&mut task, 0, host.now_ns, false);
    let mut second = host.queued(1024, 5);
    host.now_ns += 1_000 * MS;
    host.policy.quiescent(&mut second, host.now_ns);
    host.policy.dispatch(0, host.now_ns);
    assert_eq!(host.policy.cpu(0).newly_idle.cost_ns[1..3], [3_953, 3_953]);
}

#[test]
fn a_try_that_took_very_long_counts_little_with_balance_load() {
    let slow_try = |spec: &str| {
        let mut host = host(9_000, spec);
        let mut task = host.running(1024, 0);
        host.policy.stopping(&mut task, 0, host.now_ns, false);
        let mut second = host.queued(1024, 1);
        host.policy.quiescent(&mut second, host.now_ns);
        host.policy.dispatch(0, host.now_ns);
        host.now_ns += 2 * MS;
        host.vacate(&[0]);
        host.policy.cpu(0).newly_idle.cost_ns[1]
    };
    // 500 + (2 * 500 + 8192 - 500) / 8
    assert_eq!(slow_try("wakelab"), 1_586);
    // Both levels were tried.
    assert_eq!(slow_try("linux-6.12"), 1_000_000);
}
