// SPDX-License-Identifier: GPL-2.0-or-later
//! idle_merged.h: one LLC of 4 cores x 2 threads, CPU c and c + 4 sharing a core.

use wakelab_machine::Distance::{Cpu, Llc, Smt};
use wakelab_policy::{EnqueueWhy, Reason};

use crate::host::{Host, MS, machine, policy, reads};

const UTIL: &str = "linux-6.12+affine=off+balance=load";
const PACKED: &str = "linux-6.12+form=packed+affine=off+balance=load";
const MERGED: &str = "linux-4.15+form=merged+affine=off";

/// Only 3, 6 and 7 are idle.
fn example(spec: &str) -> Host {
    let mut host = Host::new(policy(spec, &machine(1, None, 4, 2)));
    host.occupy(&[0, 1, 2, 4, 5]);
    host
}

#[test]
fn one_walk_finds_a_core() {
    let mut host = example(UTIL);
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (3, Reason::IdleCore, 1));
    // Target; the flag, of CPU 0; then 2 and 6, 3 and 7.
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 5)]));
    // From target on, its own core comes first.
    let mut host = example(MERGED);
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (3, Reason::IdleCore));
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 1), (Cpu, 1), (Smt, 1), (Llc, 4)]));
}

/// The header's example of form=packed: the waker alone on its CPU keeps the wakee.
#[test]
fn packed_walks_only_where_a_task_waits() {
    let mut host = example(PACKED);
    let mut task = host.sleeper(1024, 1);
    task.recent_cpu = 6;
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (1, Reason::NoneIdle, 0));
    assert_eq!(decision.reads, reads(&[(Cpu, 1)]), "not the recent CPU, which is idle");
    let _waits = host.queued(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (3, Reason::IdleCore, 1));
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 5)]), "as form=util");
}

#[test]
fn without_a_core_the_first_idle_cpu_was_remembered() {
    let mut host = example(UTIL);
    host.occupy(&[7]);
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.scan_timed), (6, Reason::IdleCpu, 0));
    // Target, the flag; 2, 6 (idle); 3 and 7: 3 is idle, 7 busy; 0 is busy, which ends that core; 1 too.
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 1), (Llc, 2), (Llc, 2), (Llc, 1), (Cpu, 1)]));
    assert_eq!(host.policy.cpu(0).scan_llc.has_idle_cores, 0);
}

#[test]
fn a_core_is_visited_once_at_its_first_allowed_cpu() {
    let mut host = example(UTIL);
    let mut task = host.sleeper(1024, 1);
    host.policy.set_affinity(&mut task, Some(&[1, 5, 7]));
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (7, Reason::IdleCore), "core {{3, 7}} by CPU 7");
    // Target, the flag; core {1, 5} at CPU 5: both read, as nothing is remembered yet; then 3 and 7.
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 1), (Cpu, 1), (Smt, 1), (Llc, 2)]));
}

#[test]
fn utilization_limits_the_visits() {
    let mut host = Host::new(policy(UTIL, &machine(1, None, 8, 1)));
    let mut running = host.running(1024, 0);
    host.occupy(&[1, 2, 3]);
    host.now_ns = 10_000 * MS;
    assert_eq!(host.policy.cpu(0).scan_llc.nr_idle_scan, 8, "at first, all");
    let tick = host.policy.tick(0, Some(&mut running), host.now_ns);
    assert_eq!(host.policy.cpu(0).scan_llc.nr_idle_scan, 5, "8 * (1024 - 350) / 1024");
    assert_eq!(tick.reads, reads(&[(Cpu, 1), (Llc, 7)]), "all CPUs of the LLC");
    let tick = host.policy.tick(0, Some(&mut running), host.now_ns + 8 * MS - 1);
    assert_eq!(tick.reads.total(), 0, "not due for 8 ms");

    let mut task = host.sleeper(1024, 2);
    host.occupy(&[4, 5, 6]);
    let decision = host.wake(&mut task, 2, 2);
    assert_eq!((decision.cpu, decision.reason()), (7, Reason::IdleCpu), "3, 4, 5, 6, 7: the fifth visit");
    host.policy.set_idle_mask(7, true);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (1, Reason::NoneIdle), "2, 3, 4, 5, 6: five in vain");
    assert_eq!(decision.step_reads.total(), 5);
    host.occupy(&[7]);
    host.now_ns += 10_000 * MS;
    host.policy.tick(0, Some(&mut running), host.now_ns);
    assert_eq!(host.policy.cpu(0).scan_llc.nr_idle_scan, 0, "all busy: above 85 %");
    assert_eq!(host.wake(&mut task, 1, 1).step_reads.total(), 0);
}

#[test]
fn without_an_idle_core_prevs_threads_come_first() {
    let mut host = example(UTIL);
    host.occupy(&[7]);
    let mut task = host.sleeper(1024, 1);
    host.wake(&mut task, 1, 1);
    host.policy.set_idle_mask(6, true);
    let decision = host.wake(&mut task, 1, 2);
    assert_eq!((decision.cpu, decision.reason()), (6, Reason::IdleSibling));
}

#[test]
fn the_recent_cpu_is_looked_at_before_the_search() {
    for (spec, expected) in [(MERGED, 3), ("linux-4.15+form=5.2+affine=off", 3), ("linux-4.15+affine=off", 2)]
    {
        let mut host = Host::new(policy(spec, &machine(1, None, 4, 1)));
        let mut task = host.sleeper(1024, 3);
        host.policy.enqueue(&mut task, 0, EnqueueWhy::Wakeup, 0);
        host.policy.quiescent(&mut task, 0);
        assert_eq!((task.cpu, task.recent_cpu), (0, 3));
        host.occupy(&[0, 1]);
        let decision = host.wake(&mut task, 0, 0);
        assert_eq!(decision.cpu, expected, "{spec}");
        assert_eq!(decision.reason() == Reason::RecentIdle, expected == 3, "{spec}");
    }
}

#[test]
fn merged_is_limited_by_times() {
    let mut host = Host::new(policy(MERGED, &machine(1, None, 8, 1)));
    host.occupy(&[0, 1, 2, 3, 4]);
    let mut task = host.sleeper(1024, 0);
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.cpu, decision.scan_timed), (5, 1));
    // A walk of 8 ms: the average is 1 ms, 8 * 1953 is below 4 * 1000001, and three CPUs are visited.
    host.policy.set_idle_mask(5, true);
    host.policy.scan_took(0, &decision, 8 * MS * decision.reads.total() / decision.step_reads.total());
    let decision = host.wake(&mut task, 0, 0);
    assert_eq!((decision.reason(), decision.step_reads.total()), (Reason::NoneIdle, 3));
    assert_eq!(decision.scan_timed, 0, "the limit stopped it");
}

/// The header's example for form=aged: 20 us of idle time when CPU 1 became busy, and 5 us two ticks later.
#[test]
fn aged_halves_its_idle_time_with_every_tick_and_searches_use_it_up() {
    let mut host = Host::new(policy("linux-4.15+form=aged+affine=off", &machine(1, None, 8, 1)));
    // Periods of 40 us bring avg_idle down to 40 us.
    let idles = |host: &mut Host, times| {
        for _ in 0..times {
            host.vacate(&[1]);
            host.now_ns += 40_000;
            host.occupy(&[1]);
        }
    };
    idles(&mut host, 200);
    assert_eq!(host.policy.cpu(1).scan_room_ns, 20_003, "half of 40,007, which no longer falls");
    host.occupy(&[0, 2, 3, 4, 5, 6]);
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.step_reads.total(), decision.scan_timed), (7, 6, 1), "2 to 7");
    host.policy.set_idle_mask(7, true);
    // The step has 6 of 7 reads, so 6 us of 7.
    host.policy.scan_took(1, &decision, 7_000);
    assert_eq!((host.policy.cpu(1).avg_scan_ns, host.policy.cpu(1).scan_room_ns), (750, 14_003));
    host.policy.scan_took(1, &decision, 7 * (10_000 * 8 - 750 * 7) / 6 + 1);
    assert_eq!((host.policy.cpu(1).avg_scan_ns, host.policy.cpu(1).scan_room_ns), (10_000, 0), "all used up");
    // The next idle period renews it. Two ticks later: 8 * 5,000 is not above 4 * 10,001.
    host.now_ns += MS - host.now_ns % MS;
    idles(&mut host, 1);
    host.now_ns += 2 * MS;
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.reason(), decision.step_reads.total()), (Reason::NoneIdle, 3), "2, 3 and 4");
    assert_eq!((decision.scan_timed, host.policy.cpu(1).scan_room_ns), (0, 5_000));
    // Long after, nothing is left of it.
    host.now_ns += 100 * MS;
    host.wake(&mut task, 1, 1);
    assert_eq!(host.policy.cpu(1).scan_room_ns, 0);
}
