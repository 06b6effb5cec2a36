// SPDX-License-Identifier: GPL-2.0-or-later
//! taken.h.

use crate::host::{Host, MS, machine, policy};
use wakelab_policy::{BalanceWhy, DispatchDo, Task};

/// The header's example: one LLC of 4 CPUs, a task on each; a real-time task has taken CPU 0, whose task waits.
fn example(spec: &str) -> (Host, Vec<Task>) {
    let mut host = Host::new(policy(spec, &machine(1, None, 4, 1)));
    let mut tasks: Vec<Task> = (0..4).map(|cpu| host.running(1024, cpu)).collect();
    host.now_ns = 10 * MS;
    host.policy.stopping(&mut tasks[0], 0, host.now_ns, true);
    host.policy.enqueue(&mut tasks[0], 0, wakelab_policy::EnqueueWhy::SliceEnd, host.now_ns);
    (host, tasks)
}

#[test]
fn a_busy_cpu_pulls_what_waits_behind_a_real_time_task() {
    let (mut host, mut tasks) = example("linux-4.15");
    // Until the host says so, CPU 0 has one task like all others.
    let before = host.policy.tick(1, Some(&mut tasks[1]), 10 * MS);
    assert_eq!(before.balance_due, 0);
    // The first turn, of the machine, begins at (0 + 1 / 2) % 4 = 0 and leaves out CPU 0 itself.
    let answer = host.policy.taken(0, 12 * MS);
    assert_eq!((answer.kick_cpu, answer.next_ns), (1, 13 * MS));
    let mut pull = host.policy.dispatch(1, 12 * MS);
    assert_eq!((pull.what(), pull.why(), pull.cpu), (DispatchDo::Pull, BalanceWhy::Periodic, 0));
    // It lacks 340, and the mean of two tasks of CPU 0 is 512.
    assert_eq!((pull.level, pull.max_load), (1, 512));
    let moved = host.policy.may_move(&mut tasks[0], 1, 12 * MS, &mut pull);
    assert_eq!((moved.r#move, tasks[0].cpu), (1, 1));
    // Nothing waits there now.
    let answer = host.policy.taken(0, 13 * MS);
    assert_eq!((answer.kick_cpu, answer.next_ns), (-1, 0));
}

#[test]
fn one_that_runs_a_task_of_the_policy_is_marked() {
    let (mut host, mut tasks) = example("linux-4.15");
    // CPU 1, whose turn it is, runs a task of another class too, so it would not ask.
    host.policy.stopping(&mut tasks[1], 1, host.now_ns, true);
    host.policy.enqueue(&mut tasks[1], 1, wakelab_policy::EnqueueWhy::SliceEnd, host.now_ns);
    assert_eq!(host.policy.taken(0, 12 * MS).kick_cpu, 2);
}

/// Two LLCs of two CPUs; both CPUs of the first are taken. Every other look is at the whole machine, whenever the host
/// looks. A timer that fires every two ticks sees even ones only.
#[test]
fn the_turns_of_llc_and_machine_do_not_hang_on_when_the_host_looks() {
    for interval_ms in 1..=4 {
        let mut host = Host::new(policy("linux-4.15", &machine(2, None, 2, 1)));
        let mut tasks: Vec<Task> = (0..4).map(|cpu| host.running(1024, cpu)).collect();
        host.now_ns = 10 * MS;
        for cpu in [0, 1] {
            host.policy.stopping(&mut tasks[cpu], cpu as u32, host.now_ns, true);
            host.policy.enqueue(
                &mut tasks[cpu],
                cpu as u32,
                wakelab_policy::EnqueueWhy::SliceEnd,
                host.now_ns,
            );
        }
        let marked: Vec<i32> =
            (0..8).map(|look| host.policy.taken(0, (12 + look * interval_ms) * MS).kick_cpu).collect();
        assert_eq!(marked, [2, -1, 2, -1, 2, -1, 3, -1], "every {interval_ms} ms");
    }
}

/// Two LLCs of two CPUs. CPUs 0 to 2 are taken: on 0 two tasks wait, on 1 one, and on 2 one that is bound to it. CPU 3
/// is idle, tries CPU 2 in vain, and must then take from the other LLC. Its own group has two tasks on CPU 2, the
/// real-time one and the bound one, and one idle CPU: it does not have two idle CPUs more, so only the room on CPU 3
/// forces the pull.
#[test]
fn what_is_bound_to_a_taken_neighbour_keeps_no_cpu_from_pulling() {
    for spec in ["linux-4.15", "linux-6.12"] {
        let mut host = Host::new(policy(spec, &machine(2, None, 2, 1)));
        let mut waiting = [host.queued(1024, 0), host.queued(1024, 0)];
        let _other = host.queued(1024, 1);
        let mut bound = host.queued(1024, 2);
        host.policy.set_affinity(&mut bound, Some(&[2]));
        host.occupy(&[0, 1, 2]);
        for cpu in 0..3 {
            assert_eq!(host.policy.taken(cpu, 12 * MS).kick_cpu, 3, "{spec}: {cpu}");
        }
        let mut pull = host.policy.dispatch(3, 12 * MS);
        assert_eq!((pull.what(), pull.cpu, pull.level), (DispatchDo::Pull, 2, 1), "{spec}");
        assert_eq!(host.policy.may_move(&mut bound, 3, 12 * MS, &mut pull).r#move, 0, "{spec}");
        let mut pull = host.policy.dispatch(3, 12 * MS);
        assert_eq!((pull.what(), pull.cpu, pull.level), (DispatchDo::Pull, 0, 2), "{spec}");
        assert_eq!(host.policy.may_move(&mut waiting[0], 3, 12 * MS, &mut pull).r#move, 1, "{spec}");
    }
}

#[test]
fn an_idle_cpu_is_kicked_first() {
    for spec in ["linux-4.15", "linux-6.12", "wakelab", "wakelab+groups=exact"] {
        let (mut host, mut tasks) = example(spec);
        host.policy.stopping(&mut tasks[3], 3, 10 * MS, false);
        host.policy.quiescent(&mut tasks[3], 10 * MS);
        host.vacate(&[3]);
        host.now_ns = 12 * MS;
        assert_eq!(host.policy.taken(0, 12 * MS).kick_cpu, 3, "{spec}");
        let mut pull = host.policy.dispatch(3, 12 * MS);
        assert_eq!((pull.what(), pull.cpu), (DispatchDo::Pull, 0), "{spec}");
        assert_eq!(host.policy.may_move(&mut tasks[0], 3, 12 * MS, &mut pull).r#move, 1, "{spec}");
    }
}

#[test]
fn a_cpu_that_is_given_back_is_like_any_other() {
    const BUSY: u32 = 2;
    const TAKEN: u32 = 3;
    let (mut host, mut tasks) = example("linux-4.15+idle=smt-balance");
    host.policy.taken(0, 12 * MS);
    assert_eq!(host.policy.cpu(0).state, TAKEN);
    host.policy.tick(0, None, 12 * MS);
    assert_eq!(host.policy.cpu(0).state, TAKEN, "a tick of another class's task");
    host.policy.tick(0, Some(&mut tasks[0]), 12 * MS);
    assert_eq!(host.policy.cpu(0).state, BUSY);
    host.policy.taken(0, 13 * MS);
    host.switch_in(&mut tasks[0], 0);
    assert_eq!(host.policy.cpu(0).state, BUSY);
    // The CPU is idle, whatever a late timer says.
    host.policy.stopping(&mut tasks[0], 0, 14 * MS, false);
    host.policy.quiescent(&mut tasks[0], 14 * MS);
    host.vacate(&[0]);
    assert_eq!(host.policy.taken(0, 14 * MS).next_ns, 0);
    let mut woken = host.sleeper(1024, 0);
    assert_eq!(host.wake(&mut woken, 1, 0).cpu, 0);
}

#[test]
fn the_counters_of_busy_cpus_do_not_count_twice() {
    // Two cores of two threads, CPU c and c + 2 share one.
    let mut host = Host::new(policy("linux-4.15+idle=smt-balance", &machine(1, None, 2, 2)));
    let mut first = host.running(1024, 0);
    let _second = host.queued(1024, 0);
    host.policy.stopping(&mut first, 0, MS, false);
    let busy = |host: &Host| host.policy.busy_count(1, 0).unwrap();
    assert_eq!(busy(&host), 1);
    host.policy.taken(0, 2 * MS);
    assert_eq!(busy(&host), 1);
    host.policy.busy(0, 3 * MS);
    assert_eq!(busy(&host), 1);
    host.policy.taken(0, 4 * MS);
    host.vacate(&[0]);
    assert_eq!(busy(&host), 0);
}
