// SPDX-License-Identifier: GPL-2.0-or-later
//! wait.h. `wait-max-ns` is 1 s, the tick 1 ms, a slice 3 ms. H (1024) runs on CPU 0, and L (10) waits there.

use wakelab_policy::{DispatchDo, EnqueueWhy, Policy, Task};

use crate::host::{Host, MS, machine, policy, spec};

/// The policies whose queues need a walk: of both kinds, and with buddies.
const POLICIES: [&str; 4] = ["linux-3.10", "linux-4.15", "linux-6.12", "linux-6.12+queue=fair-2024"];

/// The vtime that `ms` of run time are for a task of weight 10.
const fn light(ms: u64) -> u64 {
    ms * MS * 1024 / 10
}

fn bounded(text: &str) -> Policy {
    Policy::new(&spec(text).behind_watchdog(), &machine(1, None, 4, 1), MS).unwrap()
}

/// H runs, and L was put back at 0, 4 ms of its run time beyond H.
fn heavy_and_light(text: &str) -> (Host, Task, Task) {
    let mut host = Host::new(bounded(text));
    let heavy = host.running(1024, 0);
    let mut light_task = host.queued(10, 0);
    light_task.entity.vtime += light(4);
    (host, heavy, light_task)
}

/// H is put back at `ms`, and CPU 0 dispatches. Returns whether the policy asks for overdue tasks.
fn put_back(host: &mut Host, heavy: &mut Task, ms: u64) -> bool {
    host.now_ns = ms * MS;
    host.policy.stopping(heavy, 0, host.now_ns, true);
    host.policy.enqueue(heavy, 0, EnqueueWhy::SliceEnd, host.now_ns);
    host.policy.dispatch(0, host.now_ns).overdue != 0
}

fn is_overdue(host: &mut Host, task: &mut Task) -> bool {
    host.policy.overdue(task, 0, host.now_ns).run != 0
}

/// At 1.001 s L runs, with H's vtime. After a tick it waits again, and is overdue a second later.
#[test]
fn the_example_of_the_header() {
    for text in POLICIES {
        let (mut host, mut heavy, mut light_task) = heavy_and_light(text);
        assert!(!put_back(&mut host, &mut heavy, 1000), "{text}: not for longer than a second");
        host.switch_in(&mut heavy, 0);
        assert!(put_back(&mut host, &mut heavy, 1001), "{text}");
        assert!(is_overdue(&mut host, &mut light_task) && !is_overdue(&mut host, &mut heavy), "{text}");

        host.switch_in(&mut light_task, 0);
        assert!(
            light_task.entity.vtime <= heavy.entity.vtime,
            "{text}: {} {}",
            light_task.entity.vtime,
            heavy.entity.vtime
        );
        assert!(!put_back(&mut host, &mut light_task, 1005), "{text}: H has waited for 4 ms");
        host.switch_in(&mut heavy, 0);
        // H waited from 1.001 s on, which is all that the CPU knows: the walk is for nothing.
        assert!(put_back(&mut host, &mut heavy, 2005) && !is_overdue(&mut host, &mut light_task), "{text}");
        host.switch_in(&mut heavy, 0);
        assert!(put_back(&mut host, &mut heavy, 2006) && is_overdue(&mut host, &mut light_task), "{text}");
    }
}

/// A wakee cuts L's turn after 0.4 ms, so that L is overdue again after a quarter of a second. Half a tick is a turn.
#[test]
fn a_turn_that_is_cut_short_is_owed() {
    for text in POLICIES.into_iter().chain(["linux-6.12+groups=exact"]) {
        for (ran_ns, since_ns) in [(400_000, 251 * MS + 400_000), (500_000, 1001 * MS + 500_000)] {
            let (mut host, mut heavy, mut light_task) = heavy_and_light(text);
            put_back(&mut host, &mut heavy, 1001);
            host.switch_in(&mut light_task, 0);
            host.now_ns += ran_ns;
            host.policy.stopping(&mut light_task, 0, host.now_ns, true);
            assert_eq!(light_task.waits_since_ns, since_ns, "{text}");
            // H's turn is short, too, but H was not overdue.
            host.switch_in(&mut heavy, 0);
            host.now_ns += 100_000;
            host.policy.stopping(&mut heavy, 0, host.now_ns, true);
            assert_eq!(heavy.waits_since_ns, host.now_ns, "{text}");
        }
    }
}

/// Of three tasks the one that has waited longest is the last that gets a yes, in whatever order they are asked about.
#[test]
fn the_task_that_has_waited_longest_comes_first() {
    for text in POLICIES {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let (mut host, mut heavy, first) = heavy_and_light(text);
            host.now_ns = 10 * MS;
            let second = host.queued(10, 0);
            host.now_ns = 500 * MS;
            let mut tasks = [second, first, host.queued(10, 0)];
            assert!(put_back(&mut host, &mut heavy, 1100), "{text}");
            let said_yes = order.iter().filter(|&&at| is_overdue(&mut host, &mut tasks[at]));
            assert_eq!(said_yes.last(), Some(&1), "{text}: {order:?}");
        }
    }
}

/// The walk has taken the first of two. The other one is as overdue, and gets its turn after four ticks; when it has
/// waited for 1.25 s a tick stops the running task, and it needs no turn. (fair-2024 stops it sooner by itself.)
#[test]
fn overdue_tasks_take_turns_until_they_are_late() {
    for text in &POLICIES[..3] {
        let (mut host, mut heavy, mut first) = heavy_and_light(text);
        let mut second = host.queued(10, 0);
        assert!(put_back(&mut host, &mut heavy, 1100));
        assert!(is_overdue(&mut host, &mut first) && !is_overdue(&mut host, &mut second));
        host.switch_in(&mut first, 0);
        assert!(!put_back(&mut host, &mut first, 1101), "{text}");
        host.switch_in(&mut heavy, 0);
        assert!(!put_back(&mut host, &mut heavy, 1103), "{text}");
        host.switch_in(&mut heavy, 0);
        assert!(put_back(&mut host, &mut heavy, 1104), "{text}");
        // The host only balances. Nothing is forgotten by that.
        host.switch_in(&mut heavy, 0);
        assert!(put_back(&mut host, &mut heavy, 1249), "{text}");
        host.switch_in(&mut heavy, 0);
        let mut tick = |ns: u64| host.policy.tick(0, Some(&mut heavy), ns).resched;
        assert_eq!([1250 * MS, 1250 * MS + 1].map(&mut tick), [0, 1], "{text}");
        assert!(put_back(&mut host, &mut heavy, 1251));
        assert!(is_overdue(&mut host, &mut second), "{text}");
        host.switch_in(&mut second, 0);
        let third = host.queued(10, 0);
        assert_eq!(third.waits_since_ns, 1251 * MS);
    }
}

/// A pull and a change of queues do not end a task's waiting: it is overdue where it comes.
#[test]
fn a_task_takes_its_waiting_along() {
    for text in POLICIES {
        let (mut host, mut heavy, mut light_task) = heavy_and_light(text);
        let mut other = host.running(1024, 1);
        host.now_ns = 900 * MS;
        let _third = host.queued(1024, 1);
        host.policy.enqueue(&mut light_task, 1, EnqueueWhy::Moved, host.now_ns);
        assert_eq!((light_task.cpu, light_task.waits_since_ns), (1, 0));
        host.now_ns = 1001 * MS;
        host.policy.stopping(&mut other, 1, host.now_ns, true);
        host.policy.enqueue(&mut other, 1, EnqueueWhy::SliceEnd, host.now_ns);
        assert_eq!(host.policy.dispatch(1, host.now_ns).overdue, 1, "{text}");
        assert_eq!(host.policy.overdue(&mut light_task, 1, host.now_ns).run, 1);
        assert!(!put_back(&mut host, &mut heavy, 3000), "{text}: nothing waits on CPU 0 but H");
    }
}

/// Without a bound nothing is overdue, and an empty queue is never walked.
#[test]
fn without_a_bound_or_a_queue_there_is_no_walk() {
    let mut host = Host::new(policy("linux-4.15", &machine(1, None, 4, 1)));
    let mut heavy = host.running(1024, 0);
    let _light = host.queued(10, 0);
    assert!(!put_back(&mut host, &mut heavy, 10_000));

    let mut host = Host::new(bounded("linux-4.15"));
    let mut heavy = host.running(1024, 0);
    host.now_ns = 10_000 * MS;
    host.policy.stopping(&mut heavy, 0, host.now_ns, false);
    let answer = host.policy.dispatch(0, host.now_ns);
    assert_eq!((answer.what(), answer.overdue), (DispatchDo::Nothing, 0));
}
