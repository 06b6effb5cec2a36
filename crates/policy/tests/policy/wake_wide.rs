// SPDX-License-Identifier: GPL-2.0-or-later
//! wake_wide.h. These tests check targets, not where the task ends up. One LLC of 4 CPUs per node, unless said
//! otherwise.

use wakelab_policy::{AffineReason, Decision, Task};

use crate::host::{Host, MS, machine, policy};

fn host() -> Host {
    Host::new(policy("linux-6.12", &machine(2, None, 4, 1)))
}

fn told(decision: &Decision) -> (i32, AffineReason) {
    (decision.target, decision.affine_reason())
}

/// The waker and another task on CPU 0, two tasks on CPU 1, where the wakee slept.
fn loaded() -> (Host, Task, Task) {
    let mut host = host();
    let waker = host.running(1024, 0);
    host.queued(1024, 0);
    host.running(1024, 1);
    host.queued(1024, 1);
    let wakee = host.sleeper(1024, 1);
    (host, waker, wakee)
}

#[test]
fn a_waker_of_many_keeps_its_wakees_away() {
    let (mut host, mut waker, mut wakee) = loaded();
    for (server, client, expected) in [
        (64, 4, AffineReason::TooWide),
        (64, 3, AffineReason::Load),
        (16, 4, AffineReason::TooWide),
        (15, 4, AffineReason::Load),
        (4, 64, AffineReason::TooWide),
    ] {
        waker.wakee_flips = server;
        waker.last_wakee = wakee.id;
        wakee.wakee_flips = client;
        let decision = host.wake_sync(&mut wakee, &mut waker, 1);
        assert_eq!(decision.affine_reason(), expected, "{server} and {client}");
        assert_eq!(decision.target, i32::from(expected == AffineReason::TooWide));
    }
}

#[test]
fn flips_count_changes_of_wakee_and_halve_each_second() {
    let (mut host, mut waker, mut first) = loaded();
    let mut second = host.sleeper(1024, 1);
    for turn in 0..8 {
        let wakee = if turn % 2 == 0 { &mut first } else { &mut second };
        host.wake_sync(wakee, &mut waker, 1);
    }
    host.wake_sync(&mut second, &mut waker, 1);
    assert_eq!((waker.wakee_flips, waker.last_wakee), (8, second.id), "the same one again counts nothing");
    host.now_ns = 1_000 * MS + 1;
    host.wake_sync(&mut second, &mut waker, 1);
    assert_eq!((waker.wakee_flips, waker.flip_stamp_ns), (4, host.now_ns));
    host.now_ns += 1_000 * MS;
    host.wake_sync(&mut first, &mut waker, 1);
    assert_eq!(waker.wakee_flips, 5, "a second has not passed yet");
}

#[test]
fn loads_decide_at_last() {
    let (mut host, mut waker, mut wakee) = loaded();
    let decision = host.wake_sync(&mut wakee, &mut waker, 1);
    assert_eq!(told(&decision), (0, AffineReason::Load), "204800 < 221184");
    let decision = host.select(&mut wakee, Some(&mut waker), 0, 1, 0);
    assert_eq!(told(&decision), (1, AffineReason::Prev), "307200 >= 221184");
}

#[test]
fn idle_cpus_come_before_loads() {
    let mut host = host();
    let mut wakee = host.sleeper(1024, 1);
    assert_eq!(told(&host.wake(&mut wakee, 0, 1)), (1, AffineReason::PrevIdle), "both idle, one LLC");
    host.policy.set_idle_mask(1, true);
    host.occupy(&[1]);
    assert_eq!(told(&host.wake(&mut wakee, 0, 1)), (0, AffineReason::ThisIdle));
    host.policy.set_idle_mask(0, true);
    host.occupy(&[5]);
    assert_eq!(told(&host.wake(&mut wakee, 0, 5)), (5, AffineReason::Prev), "idle, but behind another LLC");
    let mut waker = host.running(1024, 2);
    assert_eq!(
        told(&host.wake_sync(&mut wakee, &mut waker, 3)),
        (2, AffineReason::SyncAlone),
        "before an idle prev"
    );
    let decision = host.select(&mut wakee, Some(&mut waker), 2, 3, 0);
    assert_eq!(told(&decision), (3, AffineReason::PrevIdle));
}
