// SPDX-License-Identifier: GPL-2.0-or-later
//! balance.h and balance_load.h.

use crate::host::{Host, MS, TICK_NS, machine, policy, reads};
use wakelab_machine::Distance::{Cpu, Llc, Numa1, Smt};
use wakelab_policy::{BalanceWhy, DispatchDo, EnqueueWhy, Task};

/// The header's example: 2 LLCs of 4 CPUs; CPU 0 is about to go idle, a task runs on each of 1 to 3, and 4 to 7 have
/// two each. Returns the queued tasks, by CPU.
fn example() -> (Host, Vec<Task>) {
    let mut host = Host::new(policy("linux-4.15+balance=load", &machine(2, None, 4, 1)));
    host.occupy(&[0]);
    for cpu in 1..8 {
        host.running(1024, cpu);
    }
    let queued = (4..8).map(|cpu| host.queued(1024, cpu)).collect();
    (host, queued)
}

#[test]
fn a_newly_idle_cpu_pulls_from_the_busiest_group() {
    let (mut host, mut queued) = example();
    let mut pull = host.policy.dispatch(0, 0);
    assert_eq!((pull.what(), pull.why(), pull.cpu), (DispatchDo::Pull, BalanceWhy::NewlyIdle, 4));
    assert_eq!((pull.level, pull.max_load, pull.max_tasks), (2, 2560, 1));
    // overloaded is on CPU 0's side, so reading it counts like a read of CPU 0's own line.
    assert_eq!(pull.reads, reads(&[(Cpu, 2), (Llc, 3), (Numa1, 4)]));
    let moved = host.policy.may_move(&mut queued[1], 0, 0, &mut pull);
    assert_eq!(moved.r#move, 0, "it waits on CPU 5, not on 4");
    let moved = host.policy.may_move(&mut queued[0], 0, 0, &mut pull);
    assert_eq!((moved.r#move, moved.stop, moved.key), (1, 1, queued[0].entity.vtime));
    assert_eq!((queued[0].cpu, host.policy.cpu(4).nr_queued, host.policy.cpu(0).load), (0, 0, 1024));
    assert_eq!(host.policy.dispatch(0, 0).what(), DispatchDo::Own);
    let moved = host.policy.may_move(&mut queued[0], 0, 0, &mut pull);
    assert_eq!((moved.r#move, moved.stop), (0, 1), "told twice");
}

#[test]
fn a_pull_that_gets_nothing_is_not_repeated() {
    let (mut host, mut queued) = example();
    let mut pull = host.policy.dispatch(0, 0);
    assert_eq!(pull.what(), DispatchDo::Pull);
    // It ran just now: its caches are warm.
    (queued[0].sum_exec_ns, queued[0].run_start_ns) = (1, 0);
    assert_eq!(host.policy.may_move(&mut queued[0], 0, 0, &mut pull).r#move, 0);
    let second = host.policy.dispatch(0, 0);
    assert_eq!((second.what(), second.why()), (DispatchDo::Nothing, BalanceWhy::None));
    host.vacate(&[0]);
    assert_eq!(host.policy.dispatch(0, 0).what(), DispatchDo::Nothing);
    // Once a task has run here, going idle is another chance.
    let mut task = host.running(1024, 0);
    host.policy.stopping(&mut task, 0, 0, false);
    assert_eq!(host.policy.dispatch(0, 0).what(), DispatchDo::Pull);
}

#[test]
fn a_queue_whose_tasks_may_not_come_is_left_out_once() {
    let (mut host, _queued) = example();
    // No task is asked about: all that wait on CPU 4 may not run on CPU 0. The next of equals is CPU 5; then it gives
    // up.
    for from in [4, 5] {
        let pull = host.policy.dispatch(0, 0);
        assert_eq!((pull.what(), pull.why(), pull.cpu), (DispatchDo::Pull, BalanceWhy::NewlyIdle, from));
    }
    assert_eq!(host.policy.dispatch(0, 0).what(), DispatchDo::Nothing);
    // The same for the mark of a kick. It counts as one failed try.
    host.vacate(&[0]);
    let kicked = (0..2).map(|tick| host.policy.tick(4, None, tick * TICK_NS).kick_cpu).max();
    assert_eq!(kicked, Some(0));
    for from in [4, 5] {
        let pull = host.policy.dispatch(0, 0);
        assert_eq!((pull.what(), pull.why(), pull.cpu), (DispatchDo::Pull, BalanceWhy::Periodic, from));
        assert_eq!(host.policy.cpu(0).balance_failed[2], 1);
    }
    assert_eq!(host.policy.dispatch(0, 0).what(), DispatchDo::Nothing);
}

#[test]
fn nothing_is_pulled_while_the_own_queue_has_something() {
    let (mut host, _queued) = example();
    host.queued(1024, 0);
    let own = host.policy.dispatch(0, 0);
    assert_eq!((own.what(), own.why(), own.reads.total()), (DispatchDo::Own, BalanceWhy::None, 0));
}

#[test]
fn without_a_second_task_anywhere_only_overloaded_is_read() {
    let mut host = Host::new(policy("linux-4.15+balance=load", &machine(2, None, 4, 1)));
    for cpu in 1..8 {
        host.running(1024, cpu);
    }
    let nothing = host.policy.dispatch(0, 0);
    assert_eq!((nothing.what(), nothing.reads), (DispatchDo::Nothing, reads(&[(Cpu, 1)])));
    let mut second = host.queued(1024, 5);
    host.policy.quiescent(&mut second, 0);
    let nothing = host.policy.dispatch(0, 0);
    assert_eq!(
        (nothing.what(), nothing.reads.total()),
        (DispatchDo::Nothing, 1 + 8),
        "some CPU had two tasks: it looks at all"
    );
    let mut task = host.running(1024, 0);
    host.policy.stopping(&mut task, 0, 0, false);
    assert_eq!(host.policy.dispatch(0, 0).reads.total(), 1, "and then no more");
}

#[test]
fn a_cpu_with_short_idle_periods_does_not_pull() {
    let (mut host, _queued) = example();
    for _ in 0..40 {
        host.vacate(&[0]);
        host.now_ns += 1_000;
        host.occupy(&[0]);
    }
    assert!(host.policy.cpu(0).avg_idle_ns < 500_000);
    assert_eq!(host.policy.dispatch(0, host.now_ns).what(), DispatchDo::Nothing);
}

#[test]
fn a_group_that_helps_itself_is_left_alone() {
    // CPU 4 has two tasks, but 5 to 7 are idle: no group has more tasks than CPUs, and CPU 0's group has no more idle
    // CPUs.
    let mut host = Host::new(policy("linux-4.15+balance=load", &machine(2, None, 4, 1)));
    host.running(1024, 4);
    host.queued(1024, 4);
    host.running(1024, 1);
    assert_eq!(host.policy.dispatch(0, 0).what(), DispatchDo::Nothing);
    let pull = host.policy.dispatch(5, 0);
    assert_eq!((pull.what(), pull.cpu, pull.level), (DispatchDo::Pull, 4, 1));
}

#[test]
fn inner_levels_come_first() {
    // CPU c and c + 4 share a core; nodes of 2 cores. CPU 0's sibling 4 has two tasks, node 1 five on its four CPUs.
    let mut host = Host::new(policy("linux-4.15+balance=load", &machine(2, None, 2, 2)));
    host.occupy(&[0]);
    host.running(1024, 4);
    host.queued(1024, 4);
    for cpu in [2, 3, 6, 7] {
        host.running(1024, cpu);
    }
    host.queued(1024, 2);
    let pull = host.policy.dispatch(0, 0);
    assert_eq!((pull.what(), pull.cpu, pull.level), (DispatchDo::Pull, 4, 1));
    assert_eq!(pull.reads, reads(&[(Cpu, 2), (Smt, 1)]));
    // It got nothing there: the next try is farther out.
    let pull = host.policy.dispatch(0, 0);
    assert_eq!((pull.what(), pull.cpu, pull.level), (DispatchDo::Pull, 2, 3));
}

#[test]
fn tasks_that_may_not_come_stay() {
    let (mut host, mut queued) = example();
    host.policy.set_affinity(&mut queued[0], Some(&[4, 5]));
    let mut pull = host.policy.dispatch(0, 0);
    assert_eq!(host.policy.may_move(&mut queued[0], 0, 0, &mut pull).r#move, 0, "not allowed");
    let mut heavy = host.queued(88_761, 4);
    assert_eq!(
        host.policy.may_move(&mut heavy, 0, 0, &mut pull).r#move,
        0,
        "far more than the budget of 2560"
    );
    let mut fits = host.queued(5_120, 4);
    assert_eq!(host.policy.may_move(&mut fits, 0, 0, &mut pull).r#move, 1, "half of it fits");
    assert_eq!((pull.max_load, pull.max_tasks), (0, 0));
}

#[test]
fn a_hot_task_stays_unless_pulls_keep_failing() {
    let mut host = Host::new(policy("linux-4.15+balance=load", &machine(1, None, 4, 1)));
    host.now_ns = 10 * MS;
    // It ran until now, and waits behind another.
    let mut hot = host.running(1024, 1);
    host.now_ns += MS;
    host.policy.stopping(&mut hot, 1, host.now_ns, true);
    host.running(1024, 1);
    let mut pull = host.policy.dispatch(0, host.now_ns);
    assert_eq!(pull.what(), DispatchDo::Pull);
    let later_ns = host.now_ns + 499_999;
    assert_eq!(host.policy.may_move(&mut hot.clone(), 0, later_ns, &mut pull.clone()).r#move, 0);
    let mut cool = hot;
    assert_eq!(
        host.policy.may_move(&mut cool, 0, later_ns + 1, &mut pull).r#move,
        1,
        "half a millisecond on"
    );
    // Back again. Kicks mark CPU 0; inside the LLC a second failed pull exhausts the level's patience.
    let (mut task, now_ns) = (cool, host.now_ns);
    host.policy.enqueue(&mut task, 1, EnqueueWhy::Moved, now_ns);
    let refused = (0..2).map(|_| {
        assert_eq!(host.policy.tick(1, None, now_ns).kick_cpu, 2, "2 is the first probed");
        let mut pull = host.policy.dispatch(2, now_ns);
        assert_eq!((pull.what(), pull.why()), (DispatchDo::Pull, BalanceWhy::Periodic));
        host.policy.may_move(&mut task, 2, now_ns, &mut pull).r#move
    });
    assert_eq!(refused.collect::<Vec<_>>(), [0, 1]);
    assert_eq!(host.policy.cpu(2).balance_failed, [0; 8]);
}

/// The second example of balance_load.h: M on CPU 0 wakes A and B, which both go to CPU 1, and sleeps. B slept for a
/// microsecond. Does CPU 0 take it?
fn takes_what_its_task_woke(spec: &str) -> bool {
    let mut host = Host::new(policy(spec, &machine(1, None, 2, 1)));
    let mut waker = host.running(1024, 0);
    let mut wakee = host.running(1024, 1);
    // Idle periods are short.
    for _ in 0..40 {
        host.vacate(&[0]);
        host.now_ns += 1_000;
        host.occupy(&[0]);
    }
    host.policy.stopping(&mut wakee, 1, host.now_ns, false);
    host.now_ns += 1_000;
    let _first = host.queued(1024, 1);
    let now_ns = host.now_ns;
    host.policy.enqueue(&mut wakee, 1, EnqueueWhy::Wakeup, now_ns);
    host.policy.stopping(&mut waker, 0, now_ns, false);
    let mut pull = host.policy.dispatch(0, now_ns);
    pull.what() == DispatchDo::Pull && host.policy.may_move(&mut wakee, 0, now_ns, &mut pull).r#move == 1
}

#[test]
fn an_idle_cpu_takes_from_its_llc_what_a_search_would_have_placed_there() {
    assert!(takes_what_its_task_woke("wakelab"));
    assert!(takes_what_its_task_woke("linux-4.15+balance=load"));
    assert!(!takes_what_its_task_woke("linux-4.15"), "its idle periods are too short");
    assert!(!takes_what_its_task_woke("linux-6.12"), "the task is cache-hot");
}

#[test]
fn ticks_mark_levels_when_their_interval_has_passed() {
    let mut host = Host::new(policy("linux-4.15+balance=load", &machine(2, None, 4, 1)));
    let mut task = host.running(1024, 0);
    let mut other = host.running(1024, 1);
    let mut due = Vec::new();
    for tick in 1..=700 {
        let now_ns = tick * MS;
        if host.policy.tick(0, Some(&mut task), now_ns).balance_due != 0 {
            due.push((tick, host.policy.cpu(0).balance_marked));
            let own = host.policy.dispatch(0, now_ns);
            assert_eq!((own.what(), own.why()), (DispatchDo::Own, BalanceWhy::Periodic));
        }
        host.policy.tick(1, Some(&mut other), now_ns);
    }
    // From the first tick on: 4 CPUs * 32 ms inside the LLC, 8 * 32 ms over the machine.
    let expected: Vec<(u64, u32)> = vec![(129, 0b10), (257, 0b110), (385, 0b10), (513, 0b110), (641, 0b10)];
    assert_eq!(due, expected);
    assert_eq!(host.policy.cpu(1).next_balance_ns[2], 0, "CPU 0 does it for its LLC");
}

#[test]
fn a_busy_cpu_pulls_when_loads_differ_by_more_than_the_margin() {
    let pulled = |own_weight: u32| {
        let mut host = Host::new(policy("linux-4.15+balance=load", &machine(1, None, 4, 1)));
        let mut task = host.running(own_weight, 0);
        host.running(1024, 1);
        host.queued(1024, 1);
        host.running(2048, 2);
        host.running(2048, 3);
        host.policy.tick(0, Some(&mut task), 1);
        assert_eq!(host.policy.tick(0, Some(&mut task), 128 * MS + 1).balance_due, 1);
        let pull = host.policy.dispatch(0, 128 * MS + 1);
        (pull.what() == DispatchDo::Pull).then_some((pull.cpu, pull.max_load))
    };
    // 100 * 2048 against 117 * 1750 = 204750 and 117 * 1751 = 204867.
    assert_eq!(pulled(1751), None);
    assert_eq!(pulled(1750), Some((1, 1024)), "at least one task of CPU 1");
}

#[test]
fn a_tick_kicks_an_idle_cpu_within_a_few_probes() {
    let mut host = Host::new(policy("linux-4.15+balance=load", &machine(4, None, 16, 1)));
    let mut task = host.running(1024, 0);
    for cpu in 1..16 {
        host.running(1024, cpu);
    }
    host.occupy(&(16..64).collect::<Vec<_>>());
    let tick = host.policy.tick(0, Some(&mut task), MS);
    assert_eq!((tick.kick_cpu, tick.reads.total()), (-1, 0), "nothing waits");
    host.queued(1024, 0);
    let tick = host.policy.tick(0, Some(&mut task), 2 * MS);
    assert_eq!((tick.kick_cpu, tick.reads.total()), (-1, 8), "4 probes in the LLC, 4 on the machine");
    host.vacate(&[40]);
    let kicked =
        (3..19).filter(|tick| host.policy.tick(0, Some(&mut task), tick * MS).kick_cpu == 40).count();
    assert_eq!(kicked, 1, "16 ticks probe all 64 CPUs once");
    assert_eq!(host.policy.cpu(40).balance_marked, 0b110);
    let pull = host.policy.dispatch(40, 20 * MS);
    assert_eq!((pull.what(), pull.cpu, pull.why()), (DispatchDo::Pull, 0, BalanceWhy::Periodic));
    assert_eq!(host.policy.dispatch(40, 20 * MS).what(), DispatchDo::Nothing, "once a mark");
}

/// The same machine, all CPUs busy. The tasks that wait may run on 1 to 7 only. CPU 0 is due for its LLC, may take none
/// of them, and marks CPU 1, which pulls; what none of CPUs 0 to 3 may take marks nothing.
#[test]
fn a_cpu_that_may_take_nothing_marks_the_next_of_its_group() {
    for (allowed, stands_in) in [(&[1, 2, 3, 4, 5, 6, 7][..], 1), (&[0, 3, 4], 0), (&[3, 4], 3), (&[4, 5], 0)]
    {
        let (mut host, mut queued) = example();
        let _own = host.running(1024, 0);
        host.policy.set_affinity(&mut queued[0], Some(allowed));
        while host.policy.cpu(0).balance_marked & 1 << 2 == 0 {
            host.now_ns += 128 * MS;
            host.policy.tick(0, None, host.now_ns);
        }
        // More load than LLC 0 has, so that a busy CPU pulls, too.
        let _more: Vec<Task> = (4..8).map(|cpu| host.queued(1024, cpu)).collect();
        let mut pull = host.policy.dispatch(0, host.now_ns);
        while pull.what() == DispatchDo::Pull && pull.level < 2 {
            pull = host.policy.dispatch(0, host.now_ns);
        }
        assert_eq!((pull.what(), pull.why(), pull.cpu), (DispatchDo::Pull, BalanceWhy::Periodic, 4));
        let may = host.policy.may_move(&mut queued[0], 0, host.now_ns, &mut pull).r#move;
        assert_eq!(may, u32::from(allowed.contains(&0)));
        host.policy.dispatch(0, host.now_ns);
        let marked: Vec<u32> = (1..8).filter(|&cpu| host.policy.cpu(cpu).balance_marked != 0).collect();
        let expected: Vec<u32> = (1..8).filter(|&cpu| cpu == stands_in).collect();
        assert_eq!(marked, expected, "{allowed:?}");
        if stands_in > 0 {
            let mut pull = host.policy.dispatch(stands_in, host.now_ns);
            assert_eq!((pull.what(), pull.level, pull.cpu), (DispatchDo::Pull, 2, 4));
            assert_eq!(host.policy.may_move(&mut queued[0], stands_in, host.now_ns, &mut pull).r#move, 1);
        }
    }
}
