// SPDX-License-Identifier: GPL-2.0-or-later
//! idle_scan.h, and what all idle searches do before.

use crate::host::{Host, machine, policy, reads};
use wakelab_machine::Distance::{Cpu, Llc, Numa1, Smt};
use wakelab_policy::{AffineReason, Reason};

/// One LLC of 4 cores x 2 threads; of it only 3, 6 and 7 are idle.
fn example(spec: &str) -> Host {
    let mut host = Host::new(policy(spec, &machine(1, None, 4, 2)));
    host.occupy(&[0, 1, 2, 4, 5]);
    host
}

#[test]
fn an_idle_core_is_found_first() {
    let mut host = example("linux-4.15+affine=off");
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (3, Reason::IdleCore, 1));
    assert_eq!(decision.affine_reason(), AffineReason::Disabled);
    // Target; the flag, of CPU 0; then 1 and 5, 2 and 6, 3 and 7.
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 1), (Cpu, 1), (Smt, 1), (Llc, 4)]));
    assert_eq!((decision.searched, decision.scan_timed), (1, 0));
    assert!(!host.policy.idle_mask(3), "claimed");
}

#[test]
fn without_an_idle_core_the_flag_is_cleared_and_an_idle_cpu_found() {
    let mut host = example("linux-4.15+affine=off");
    host.occupy(&[7]);
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (3, Reason::IdleCpu));
    assert_eq!(
        decision.reads,
        reads(&[(Cpu, 1), (Llc, 1), (Cpu, 1), (Smt, 1), (Llc, 6), (Cpu, 1), (Llc, 2)])
    );
    assert_eq!(decision.step_reads, reads(&[(Cpu, 1), (Llc, 2)]));
    assert_eq!(decision.scan_timed, 1);
    host.vacate(&[3]);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (3, Reason::IdleCpu), "step 1 is skipped now");
    assert_eq!(decision.reads.total(), 5, "target, the flag, 1, 2, 3");
}

#[test]
fn an_idle_core_that_affinity_hides_clears_the_flag_too() {
    let mut host = example("linux-4.15+affine=off");
    let mut task = host.sleeper(1024, 1);
    host.policy.set_affinity(&mut task, Some(&[1, 5, 6]));
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (6, Reason::IdleCpu));
    assert_eq!(host.policy.cpu(0).scan_llc.has_idle_cores, 0);
}

#[test]
fn a_core_gives_its_first_allowed_cpu() {
    let mut host = example("linux-4.15+affine=off");
    let mut task = host.sleeper(1024, 1);
    host.policy.set_affinity(&mut task, Some(&[1, 6, 7]));
    assert_eq!(host.wake(&mut task, 1, 1).cpu, 7);
}

/// The walk from 5 comes to 6 and 7 before 2 and 3. From 7 it comes to core {0, 4} at 0, because it wraps.
#[test]
fn a_core_gives_the_cpu_at_which_the_walk_comes_to_it() {
    for (target, idle, cpu) in [(5, [3, 7], 7), (1, [3, 7], 3), (7, [0, 4], 0), (3, [0, 4], 4)] {
        let mut host = Host::new(policy("linux-4.15+affine=off", &machine(1, None, 4, 2)));
        let busy: Vec<u32> = (0..8).filter(|cpu| !idle.contains(cpu)).collect();
        host.occupy(&busy);
        let mut task = host.sleeper(1024, target);
        let decision = host.wake(&mut task, target, target);
        assert_eq!((decision.cpu, decision.reason()), (cpu, Reason::IdleCore));
    }
}

/// The header's limit: avg_idle 10 us and avg_scan 8 us visit three CPUs.
#[test]
fn the_limit_follows_the_averages() {
    let mut host = example("linux-4.15+affine=off");
    host.occupy(&[3, 6]);
    let mut task = host.sleeper(1024, 1);
    // Short idle periods bring avg_idle down; a search that is said to be long brings avg_scan up.
    for _ in 0..200 {
        host.vacate(&[1]);
        host.now_ns += 10_000;
        host.occupy(&[1]);
    }
    host.vacate(&[7]);
    // 8 * 19 > 4 * 1: the whole LLC may be visited, 7 CPUs until the idle one.
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.step_reads.total(), decision.scan_timed), (7, 7, 1));
    assert_eq!(host.policy.cpu(1).avg_idle_ns / 512, 19);
    let share = u64::from(decision.reads.total() as u32);
    host.policy.scan_took(1, &decision, 8 * 1_000 * share);
    assert_eq!(host.policy.cpu(1).avg_scan_ns, 7_000, "7 reads of 8 us each, an eighth of it");
    host.vacate(&[7]);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.reason(), decision.cpu), (Reason::NoneIdle, 1));
    assert_eq!(decision.step_reads.total(), 3);
    assert_eq!(decision.scan_timed, 0, "the limit stopped it");
    host.policy.scan_took(1, &decision, 1_000_000);
    assert_eq!(host.policy.cpu(1).avg_scan_ns, 7_000);
}

#[test]
fn disallowed_cpus_use_the_limit_up() {
    let mut host = Host::new(policy("linux-4.15+affine=off", &machine(1, None, 8, 1)));
    host.occupy(&[0, 1, 2, 3]);
    // 8 * 1953 CPUs of idle time against scans of over 4 ms: limit 4, three CPUs.
    let mut task = host.sleeper(1024, 0);
    let decision = host.wake(&mut task, 0, 0);
    host.policy.scan_took(0, &decision, 40_000_000);
    host.policy.set_affinity(&mut task, Some(&[0, 3, 4, 5]));
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!(
        (decision.reason(), decision.step_reads.total()),
        (Reason::NoneIdle, 1),
        "0 was read; 1 and 2 passed"
    );
}

#[test]
fn an_idle_sibling_is_found_behind_the_limit() {
    let mut host = Host::new(policy("linux-4.15+affine=off", &machine(1, None, 8, 2)));
    host.occupy(&(0..16).collect::<Vec<_>>());
    let mut task = host.sleeper(1024, 0);
    let decision = host.wake(&mut task, 0, 0);
    host.policy.scan_took(0, &decision, 80_000_000);
    host.policy.set_idle_mask(8, true);
    host.policy.idle(8, 0);
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.cpu, decision.reason()), (8, Reason::IdleSibling));
}

#[test]
fn prev_is_taken_if_it_shares_targets_cache() {
    let mut host = Host::new(policy("linux-4.15", &machine(2, None, 2, 1)));
    let mut waker = host.running(1024, 0);
    // The waker runs alone and says sync: the wakee is pulled to CPU 0, which is busy.
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake_sync(&mut task, &mut waker, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.target), (1, Reason::PrevIdle, 0));
    assert_eq!(decision.searched, 0);
    let mut task = host.sleeper(1024, 3);
    host.vacate(&[1]);
    let decision = host.wake_sync(&mut task, &mut waker, 3);
    assert_eq!(
        (decision.cpu, decision.reason(), decision.target),
        (1, Reason::IdleCpu, 0),
        "3 is behind another LLC"
    );
}

#[test]
fn a_lost_claim_counts_and_the_search_goes_on() {
    let mut host = Host::new(policy("linux-4.15+affine=off", &machine(1, None, 4, 1)));
    host.occupy(&[0]);
    host.policy.set_idle_mask(1, false);
    let mut task = host.sleeper(1024, 0);
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.cpu, decision.lost_claims), (2, 1));
    host.policy.set_idle_mask(3, false);
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.reason(), decision.claimed, decision.lost_claims), (Reason::NoneIdle, 0, 3));
}

#[test]
fn a_search_in_another_llc_reads_from_afar() {
    let mut host = Host::new(policy("linux-4.15+affine=off", &machine(2, None, 2, 2)));
    host.occupy(&[0, 1, 2, 3, 4, 5, 6]);
    let mut task = host.sleeper(1024, 2);
    let decision = host.wake(&mut task, 0, 2);
    assert_eq!((decision.cpu, decision.reason()), (7, Reason::IdleCpu));
    assert_eq!(
        decision.reads,
        reads(&[(Numa1, 1 + 1 + 4 + 4)]),
        "target, flag, 4 of step 1, then 2, 3, 6, 7"
    );
}

#[test]
fn one_allowed_cpu_leaves_nothing_to_choose() {
    let mut host = Host::new(policy("linux-4.15", &machine(2, None, 2, 1)));
    let mut task = host.sleeper(1024, 0);
    host.policy.set_affinity(&mut task, Some(&[3]));
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (3, Reason::OnlyAllowed, 1));
    assert_eq!(decision.reads, reads(&[(Numa1, 1)]));
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.cpu, decision.claimed, decision.lost_claims), (3, 0, 1));
}

#[test]
fn a_forbidden_prev_is_replaced_by_the_nearest_allowed_cpu() {
    let mut host = Host::new(policy("linux-4.15+affine=off", &machine(2, None, 4, 2)));
    let mut task = host.sleeper(1024, 5);
    // 5 is a thread of core 5 in node 1, with 13; node 1 has 4 to 7 and 12 to 15.
    host.policy.set_affinity(&mut task, Some(&[0, 1, 6, 13]));
    assert_eq!(host.wake(&mut task, 0, 5).cpu, 13, "the sibling");
    host.policy.set_affinity(&mut task, Some(&[0, 1, 4, 6]));
    assert_eq!(host.wake(&mut task, 0, 5).cpu, 6, "its LLC, from it on");
    host.policy.set_affinity(&mut task, Some(&[2, 3]));
    assert_eq!(host.wake(&mut task, 0, 5).cpu, 2, "the machine");
    host.policy.set_affinity(&mut task, Some(&[]));
    assert_eq!(host.wake(&mut task, 0, 5).cpu, 5, "no CPU at all means everywhere");
}
