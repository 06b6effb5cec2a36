// SPDX-License-Identifier: GPL-2.0-or-later
//! wake_affine.h. These tests check targets, not where the task ends up.

use crate::host::{Host, machine, policy, reads};
use wakelab_machine::Distance::{Cpu, Llc, Numa1};
use wakelab_policy::{AffineReason, Task, WAKE_SYNC};

const FORM_3_10: &str = "linux-4.15+affine-form=3.10";

/// The header's example: the waker runs on CPU 0 with one more task queued; CPU 1, in the same LLC, runs 2 tasks.
fn example(spec: &str) -> (Host, Task, Task) {
    let mut host = Host::new(policy(spec, &machine(2, None, 4, 1)));
    let waker = host.running(1024, 0);
    host.queued(1024, 0);
    host.running(1024, 1);
    host.queued(1024, 1);
    let wakee = host.sleeper(1024, 1);
    (host, waker, wakee)
}

#[test]
fn a_sync_waker_takes_its_own_weight_off() {
    let (mut host, mut waker, mut wakee) = example(FORM_3_10);
    let decision = host.wake_sync(&mut wakee, &mut waker, 1);
    assert_eq!((decision.target, decision.affine_reason()), (0, AffineReason::Load), "204800 <= 221184");
    let decision = host.select(&mut wakee, Some(&mut waker), 0, 1, 0);
    assert_eq!((decision.target, decision.affine_reason()), (1, AffineReason::Prev), "307200 > 221184");
}

#[test]
fn the_margin_is_that_of_the_smallest_spanning_domain() {
    // this_load + w = 2 * 1060; prev_load = 2048. 100 * 2120 = 212000 against 108 * 2048 = 221184 inside the LLC.
    let target = |waker_weight: u32, prev: u32| {
        let mut host = Host::new(policy(FORM_3_10, &machine(2, None, 4, 2)));
        host.running(waker_weight, 0);
        host.running(1024, prev);
        host.queued(1024, prev);
        let mut wakee = host.sleeper(waker_weight, prev);
        host.wake(&mut wakee, 0, prev).target as u32
    };
    // CPU 8 is the sibling of CPU 0: 105 %. CPU 1 shares the LLC: 108 %. CPU 4 is in the other node: 112 %.
    assert_eq!([8, 1, 4].map(|prev| target(1075, prev)), [0, 0, 0], "2150 <= 2150.4");
    assert_eq!([8, 1, 4].map(|prev| target(1076, prev)), [8, 0, 0], "2152 <= 2211");
    assert_eq!([8, 1, 4].map(|prev| target(1106, prev)), [8, 1, 0], "2212 <= 2293");
    assert_eq!([8, 1, 4].map(|prev| target(1147, prev)), [8, 1, 4], "2294");
}

#[test]
fn no_load_pulls() {
    let mut host = Host::new(policy(FORM_3_10, &machine(1, None, 4, 1)));
    let mut waker = host.running(1024, 0);
    let mut wakee = host.sleeper(1024, 1);
    let decision = host.wake_sync(&mut wakee, &mut waker, 1);
    assert_eq!((decision.target, decision.affine_reason()), (0, AffineReason::ZeroLoad));
    assert_eq!(decision.reads.total(), 4, "this, prev; then target and prev as idle CPUs");
    let decision = host.select(&mut wakee, Some(&mut waker), 0, 1, 0);
    assert_eq!(
        (decision.target, decision.affine_reason()),
        (1, AffineReason::Prev),
        "not sync: 1024 against nothing"
    );
}

#[test]
fn light_loads_together_below_the_mean_pull() {
    let mut host = Host::new(policy(FORM_3_10, &machine(1, None, 4, 1)));
    let mut waker = host.running(900, 0);
    host.queued(10, 0);
    host.running(10, 1);
    let mut wakee = host.sleeper(1024, 1);
    // Mean of CPU 0: 910 / 2 = 455. Without the waker: 10 <= 10, and 20 <= 455.
    let decision = host.wake_sync(&mut wakee, &mut waker, 1);
    assert_eq!((decision.target, decision.affine_reason()), (0, AffineReason::MeanLoad));
}

#[test]
fn the_4_15_form_pulls_to_an_idle_cpu_and_to_a_lone_sync_waker() {
    let mut host = Host::new(policy("linux-4.15", &machine(1, None, 4, 1)));
    let mut wakee = host.sleeper(1024, 1);
    let decision = host.wake(&mut wakee, 0, 1);
    assert_eq!((decision.target, decision.affine_reason()), (0, AffineReason::ThisIdle));
    assert_eq!(decision.reads, reads(&[(Cpu, 2)]), "prev was not looked at");
    let mut waker = host.running(1024, 2);
    let decision = host.wake_sync(&mut wakee, &mut waker, 1);
    assert_eq!((decision.target, decision.affine_reason()), (2, AffineReason::SyncAlone));
    host.queued(1024, 2);
    let decision = host.wake_sync(&mut wakee, &mut waker, 1);
    assert_eq!(
        (decision.target, decision.affine_reason()),
        (1, AffineReason::Prev),
        "not alone; prev has no load"
    );

    let mut host = Host::new(policy(FORM_3_10, &machine(1, None, 4, 1)));
    let mut wakee = host.sleeper(1024, 1);
    assert_eq!(host.wake(&mut wakee, 0, 1).affine_reason(), AffineReason::ZeroLoad);
}

#[test]
fn a_waker_that_counts_elsewhere_takes_nothing_off() {
    let (mut host, _waker, mut wakee) = example(FORM_3_10);
    let mut stranger = host.running(1024, 3);
    let decision = host.select(&mut wakee, Some(&mut stranger), 0, 1, WAKE_SYNC);
    assert_eq!(decision.affine_reason(), AffineReason::Prev);
}

#[test]
fn what_forbids_a_pull_is_told() {
    let mut host = Host::new(policy("linux-4.15", &machine(1, None, 4, 1)));
    let mut wakee = host.sleeper(1024, 1);
    assert_eq!(host.wake(&mut wakee, 1, 1).affine_reason(), AffineReason::SameCpu);
    host.policy.set_affinity(&mut wakee, Some(&[1, 2]));
    let decision = host.wake(&mut wakee, 0, 1);
    assert_eq!((decision.target, decision.affine_reason()), (1, AffineReason::NotAllowed));

    let mut far = machine(2, None, 2, 1);
    for distance in [30, 31] {
        far.node_distance = vec![vec![10, distance], vec![distance, 10]];
        let mut host = Host::new(policy("linux-4.15", &far));
        let mut wakee = host.sleeper(1024, 2);
        let decision = host.wake(&mut wakee, 0, 2);
        let expected = if distance == 30 { AffineReason::ThisIdle } else { AffineReason::NoDomain };
        assert_eq!(decision.affine_reason(), expected, "nodes {distance} apart");
    }
}

#[test]
fn prev_is_read_at_its_distance() {
    let mut host = Host::new(policy(FORM_3_10, &machine(2, None, 2, 1)));
    host.running(1024, 0);
    host.queued(1024, 0);
    let mut wakee = host.sleeper(1024, 3);
    let decision = host.wake(&mut wakee, 0, 3);
    assert_eq!(decision.affine_reason(), AffineReason::Prev);
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Numa1, 2)]), "this and prev, then prev as target");
    let mut wakee = host.sleeper(1024, 1);
    assert_eq!(host.wake(&mut wakee, 0, 1).reads, reads(&[(Cpu, 1), (Llc, 2)]));
}
