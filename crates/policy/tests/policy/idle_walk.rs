// SPDX-License-Identifier: GPL-2.0-or-later
//! idle_walk.h: form=3.10 and form=2.6.24.

use crate::host::{Host, machine, policy, reads};
use wakelab_machine::Distance::{Cpu, Llc, Smt};
use wakelab_policy::Reason;

const FORM_3_10: &str = "linux-4.15+affine=off+form=3.10";
const FORM_2_6_24: &str = "linux-4.15+affine=off+form=2.6.24";

/// The header's example: one LLC of 4 cores x 2 threads, of which only 3, 6 and 7 are idle.
fn example(spec: &str, busy: &[u32]) -> Host {
    let mut host = Host::new(policy(spec, &machine(1, None, 4, 2)));
    host.occupy(busy);
    host
}

#[test]
fn an_idle_core_is_the_first_group_that_idles() {
    let mut host = example(FORM_3_10, &[0, 1, 2, 4, 5]);
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (3, Reason::IdleCore, 1));
    // The front reads target. Then 2; 3 and 7: core {1, 5} is target's own.
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 3)]));
    assert_eq!(decision.scan_timed, 0);
}

#[test]
fn without_an_idle_core_only_targets_own_is_searched() {
    let mut host = example(FORM_3_10, &[0, 1, 2, 4, 5, 7]);
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (1, Reason::NoneIdle, 0));
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 1), (Llc, 2), (Llc, 1), (Smt, 1)]), "2; 3, 7; 0; 5");
    host.vacate(&[5]);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (5, Reason::IdleSibling));
}

#[test]
fn a_group_gives_its_first_allowed_cpu_and_one_without_any_is_not_read() {
    let mut host = example(FORM_3_10, &[0, 1, 4, 5]);
    let mut task = host.sleeper(1024, 1);
    host.policy.set_affinity(&mut task, Some(&[1, 7]));
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (7, Reason::IdleCore));
    assert_eq!(decision.reads.total(), 3, "target, 3 and 7");
}

#[test]
fn a_lost_claim_is_as_good_as_busy() {
    let mut host = example(FORM_3_10, &[0, 1, 4, 5]);
    host.policy.set_idle_mask(2, false);
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.lost_claims), (3, Reason::IdleCore, 1));
}

#[test]
fn without_smt_the_groups_are_cpus() {
    let mut host = Host::new(policy(FORM_3_10, &machine(2, None, 4, 1)));
    host.occupy(&[4, 5, 6]);
    let mut task = host.sleeper(1024, 6);
    let decision = host.wake(&mut task, 6, 6);
    assert_eq!((decision.cpu, decision.reason()), (7, Reason::IdleCpu));
    host.occupy(&[7]);
    let decision = host.wake(&mut task, 6, 6);
    assert_eq!((decision.cpu, decision.reason()), (6, Reason::NoneIdle), "not in another LLC");
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 3)]), "7, 4, 5");
}

#[test]
fn the_oldest_walk_takes_the_first_idle_cpu_by_number() {
    let mut host = example(FORM_2_6_24, &[0, 1, 2, 4, 5]);
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (3, Reason::IdleCpu, 1));
    // The front: 1. The core: 1, 5. The LLC: 0, 1, 2, 3.
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Cpu, 1), (Smt, 1), (Llc, 1), (Cpu, 1), (Llc, 2)]));
    host.vacate(&[5]);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (5, Reason::IdleSibling), "near ones first");
}

#[test]
fn the_oldest_walk_stays_where_tasks_wait_already() {
    let mut host = example(FORM_2_6_24, &[]);
    let _running = host.running(1024, 1);
    let _queued = host.queued(1024, 1);
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (1, Reason::NoneIdle), "though seven others idle");
    assert_eq!(decision.reads.total(), 1);
}

#[test]
fn the_oldest_walk_does_not_prefer_prev() {
    let mut host = Host::new(policy("linux-2.6.24", &machine(1, None, 4, 1)));
    let mut waker = host.running(1024, 1);
    let mut task = host.sleeper(1024, 3);
    let decision = host.wake_sync(&mut task, &mut waker, 3);
    assert_eq!(
        (decision.target, decision.cpu, decision.reason()),
        (1, 0, Reason::IdleCpu),
        "pulled; 0 first"
    );
}
