// SPDX-License-Identifier: GPL-2.0-or-later
//! idle_narrow.h, and the walk of idle_visit.h that it shares with scan.

use crate::host::{Host, machine, policy, reads};
use wakelab_machine::Distance::{Cpu, Llc, Smt};
use wakelab_policy::{EnqueueWhy, Reason, Step};

const SCAN: &str = "linux-4.15+form=5.2+affine=off";
const NARROW: &str = "linux-4.15+idle=narrow+affine=off";

/// One LLC of 4 cores x 2 threads, of which only these are idle.
fn with_idle(spec: &str, idle: &[u32]) -> Host {
    let mut host = Host::new(policy(spec, &machine(1, None, 4, 2)));
    host.occupy(&(0..8).filter(|cpu| !idle.contains(cpu)).collect::<Vec<_>>());
    host
}

/// Brings the limit of CPU 1's searches down to 4: scans of 10 ms against at most 1 ms of idle time.
fn limit_to_three_visits(host: &mut Host) {
    let mut task = host.sleeper(1024, 1);
    host.vacate(&[7]);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!(decision.scan_timed, 1);
    host.policy.scan_took(1, &decision, 80_000_000 * decision.reads.total());
    host.vacate(&[0]);
    host.occupy(&[7]);
}

/// The header's example.
#[test]
fn what_the_idle_core_step_found_busy_is_not_visited_again() {
    for (spec, step) in [(SCAN, vec![(Cpu, 1), (Llc, 2)]), (NARROW, vec![(Llc, 1)])] {
        let mut host = with_idle(spec, &[3, 6]);
        let mut task = host.sleeper(1024, 1);
        let decision = host.wake(&mut task, 1, 1);
        assert_eq!((decision.cpu, decision.reason(), decision.claimed), (3, Reason::IdleCpu, 1), "{spec}");
        assert_eq!(decision.step_reads, reads(&step), "{spec}");
        // Target; the flag, of CPU 0; step 1: 1 and 5, then six more.
        let before = [(Cpu, 1), (Llc, 1), (Cpu, 1), (Smt, 1), (Llc, 6)];
        let all: Vec<_> = before.iter().chain(&step).copied().collect();
        assert_eq!(decision.reads, reads(&all), "{spec}");
        let steps: Vec<Step> = host.policy.seen().steps().iter().map(|step| step.step()).collect();
        assert_eq!(steps, [Step::Front, Step::Rest, Step::Core, Step::Cpu]);
    }
}

/// The header's second example: 0 and 6 idle, three visits.
#[test]
fn an_idle_cpu_behind_the_limit_is_found() {
    for (spec, cpu, reason, visits) in [(SCAN, 1, Reason::NoneIdle, 3), (NARROW, 6, Reason::IdleCpu, 1)] {
        let mut host = with_idle(spec, &[]);
        limit_to_three_visits(&mut host);
        // Core {0, 4} going idle sets the flag again.
        host.vacate(&[4]);
        host.occupy(&[4]);
        host.vacate(&[6]);
        assert_eq!(host.policy.cpu(0).scan_llc.has_idle_cores, 1);
        let mut task = host.sleeper(1024, 1);
        let decision = host.wake(&mut task, 1, 1);
        assert_eq!((decision.cpu, decision.reason()), (cpu, reason), "{spec}");
        assert_eq!(decision.step_reads.total(), visits, "{spec}");
    }
}

/// From target on, wrapping: 0 and 2 are left. 2 comes first for target 1, and 0 for target 3.
#[test]
fn what_is_left_is_visited_from_target_on() {
    for (target, cpu) in [(1, 2), (3, 0)] {
        let mut host = with_idle(NARROW, &[0, 2]);
        let mut task = host.sleeper(1024, target);
        assert_eq!(host.wake(&mut task, target, target).cpu, cpu);
    }
}

#[test]
fn with_everything_busy_nothing_is_visited() {
    let mut host = with_idle(NARROW, &[]);
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (1, Reason::NoneIdle, 0));
    assert_eq!((decision.step_reads.total(), decision.scan_timed), (0, 1));
    // Target, the flag, the 8 of step 1, and the two of target's core.
    assert_eq!(decision.reads.total(), 1 + 1 + 8 + 2);
}

/// If the flag says that there is no idle core, step 1 is skipped, and the whole LLC is visited as by scan.
#[test]
fn a_search_that_skips_the_idle_core_step_is_scans() {
    let answers = [SCAN, NARROW].map(|spec| {
        let mut host = with_idle(spec, &[]);
        let mut task = host.sleeper(1024, 1);
        host.wake(&mut task, 1, 1);
        assert_eq!(host.policy.cpu(0).scan_llc.has_idle_cores, 0);
        host.vacate(&[3]);
        host.wake(&mut task, 1, 1)
    });
    assert_eq!(answers[0], answers[1]);
    assert_eq!((answers[0].cpu, answers[0].step_reads.total()), (3, 3), "1, 2, 3");
}

/// idle_visit.h's example: from 6 on, with 6, 7 and 0 busy and 0 and 1 not allowed, three visits.
#[test]
fn disallowed_cpus_use_up_scans_limit_only() {
    for (spec, cpu, visits) in [(SCAN, 6, 2), (NARROW, 2, 3)] {
        let mut host = Host::new(policy(spec, &machine(1, None, 8, 1)));
        host.occupy(&[0, 6, 7]);
        let mut task = host.sleeper(1024, 6);
        let decision = host.wake(&mut task, 6, 6);
        assert_eq!((decision.cpu, decision.scan_timed), (1, 1), "6, 7, 0, 1");
        host.policy.scan_took(6, &decision, 800_000_000);
        host.policy.set_affinity(&mut task, Some(&[2, 3, 4, 5, 6, 7]));
        let decision = host.wake(&mut task, 6, 6);
        assert_eq!((decision.cpu, decision.step_reads.total()), (cpu, visits), "{spec}");
        assert_eq!(decision.scan_timed, u32::from(spec == NARROW), "stopped by the limit or not");
    }
}

/// What comes before the search is that of form 5.2, whatever `form` says.
#[test]
fn the_recent_cpu_is_looked_at() {
    let mut host = with_idle(NARROW, &[2, 3, 6, 7]);
    let mut task = host.sleeper(1024, 7);
    host.policy.enqueue(&mut task, 1, EnqueueWhy::Wakeup, 0);
    host.policy.quiescent(&mut task, 0);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (7, Reason::RecentIdle));
}

/// More CPUs in the LLC than bits in a word, and target in the middle of one: 0 and 69 are left.
#[test]
fn masks_may_have_many_words() {
    let mut host = Host::new(policy(NARROW, &machine(1, None, 75, 2)));
    host.occupy(&(0..150).filter(|cpu| ![0, 69].contains(cpu)).collect::<Vec<_>>());
    let mut task = host.sleeper(1024, 70);
    let decision = host.wake(&mut task, 70, 70);
    assert_eq!((decision.cpu, decision.step_reads.total()), (0, 1), "behind the end, the beginning");
    // A core that went idle sets the flag again.
    host.vacate(&[5, 80]);
    host.occupy(&[5, 80]);
    let decision = host.wake(&mut task, 70, 70);
    assert_eq!((decision.cpu, decision.step_reads.total(), decision.lost_claims), (69, 2, 1), "0 is claimed");
}
