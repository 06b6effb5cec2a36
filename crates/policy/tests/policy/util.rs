// SPDX-License-Identifier: GPL-2.0-or-later
//! util.h, through the limit of form=util: an LLC whose CPUs have been busy for a known time.

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
