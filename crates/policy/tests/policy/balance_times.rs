// SPDX-License-Identifier: GPL-2.0-or-later
//! balance_times.h.

use wakelab_policy::{BalanceWhy, DispatchDo};

use crate::host::{Host, MS, machine, policy};

/// 2 LLCs of 4 CPUs; the levels that the ticks of `cpu` mark, with their times in ms.
fn marks(spec: &str, cpu: u32, idle: &[u32], until_ms: u64) -> Vec<(u64, u32)> {
    let mut host = Host::new(policy(spec, &machine(2, None, 4, 1)));
    for other in (0..8).filter(|other| !idle.contains(other)) {
        host.running(1024, other);
    }
    let mut found = Vec::new();
    for ms in 1..=until_ms {
        host.policy.tick(cpu, None, ms * MS);
        let marked = host.policy.cpu(cpu).balance_marked;
        if marked != 0 {
            found.push((ms, marked));
            host.policy.dispatch(cpu, ms * MS);
        }
    }
    found
}

#[test]
fn a_busy_cpu_is_due_at_intervals_that_double_while_nothing_is_found() {
    // The interval is 4 * 32 = 128 ms, then 256; CPU 1 is the second of 4, so its first one began a quarter of that
    // before 1 ms. Only CPU 0 balances its LLC, from 256 and then 512 ms on.
    let llc = |first: u64| vec![(first, 0b10), (first + 256, 0b10)];
    assert_eq!(marks("linux-4.15", 1, &[], 400), llc(97));
    assert_eq!(marks("linux-5.12", 1, &[], 200), [(49, 0b10), (177, 0b10)], "16 instead of 32");
    let both = marks("linux-4.15", 0, &[], 800);
    assert_eq!(both, [(129, 0b10), (257, 0b100), (385, 0b10), (641, 0b10), (769, 0b100)]);
    // CPU 2 idles: it would balance the LLC, and no busy CPU does.
    assert_eq!(marks("linux-4.15", 0, &[2], 300), [(129, 0b10)]);
}

#[test]
fn one_idle_cpu_looks_for_all() {
    // CPUs 2 and 6 idle. Two tasks are on CPU 5: CPU 6 finds that, and CPU 2 looks for it.
    let mut host = Host::new(policy("linux-4.15", &machine(2, None, 4, 1)));
    for cpu in [0, 1, 3, 4, 5, 7] {
        host.running(1024, cpu);
    }
    let mut waits = host.queued(1024, 5);
    let mut kicked = Vec::new();
    let (at_ms, mut pull) = (1..100)
        .find_map(|ms| {
            let cpu = host.policy.tick(0, None, ms * MS).kick_cpu;
            kicked.push(cpu);
            let answer = host.policy.dispatch(u32::try_from(cpu).ok()?, ms * MS);
            (answer.what() == DispatchDo::Pull).then_some((ms, answer))
        })
        .unwrap();
    // CPU 6 is the third of its LLC: its interval of 4 ms is over after 2 of the ms from the first look on.
    assert_eq!((at_ms, kicked.last()), (4, Some(&6)));
    assert!(kicked[..3].iter().all(|&cpu| cpu == 2 || cpu == -1), "{kicked:?}");
    assert_eq!((pull.cpu, pull.level, pull.why()), (5, 1, BalanceWhy::Periodic));
    assert_eq!(host.policy.may_move(&mut waits, 6, 4 * MS, &mut pull).r#move, 1);
}

#[test]
fn a_tick_without_an_idle_cpu_kicks_none() {
    let mut host = Host::new(policy("linux-4.15", &machine(1, None, 4, 1)));
    for cpu in 0..4 {
        host.running(1024, cpu);
    }
    let _waits = host.queued(1024, 0);
    assert_eq!(host.policy.tick(0, None, MS).kick_cpu, -1);
    host.vacate(&[3]);
    assert_eq!(host.policy.tick(0, None, MS).kick_cpu, -1, "once a tick");
    assert_eq!(host.policy.tick(0, None, 2 * MS).kick_cpu, 3);
}
