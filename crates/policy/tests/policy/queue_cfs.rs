// SPDX-License-Identifier: GPL-2.0-or-later
//! queue_cfs.h. Times are milliseconds of a machine of 8 CPUs: latency 24, min_granularity 3, wakeup_granularity 4.

use crate::host::{Host, MS, START, TICK_NS, machine, policy, reads};
use wakelab_machine::Distance::{Cpu, Llc, Numa1};
use wakelab_policy::{EnqueueWhy, Pick, TASK_NEW, Task};

fn host() -> Host {
    Host::new(policy("linux-4.15", &machine(2, None, 4, 1)))
}

/// The running task's slice is over: it goes back to the queue and `next` runs.
fn switch(host: &mut Host, from: &mut Task, next: &mut Task, cpu: u32) {
    let now_ns = host.now_ns;
    host.policy.stopping(from, cpu, now_ns, true);
    host.policy.enqueue(from, cpu, EnqueueWhy::SliceEnd, now_ns);
    host.policy.running(next, cpu, now_ns);
}

#[test]
fn slices_divide_the_period_by_weight() {
    let mut host = host();
    let a = host.running(1024, 0);
    assert_eq!(a.slice_ns, 24 * MS);
    let b = host.queued(2048, 0);
    assert_eq!(b.slice_ns, 16 * MS, "24 * 2048 / 3072");
    let mut queued: Vec<Task> = (0..6).map(|_| host.queued(1024, 0)).collect();
    assert_eq!(queued[5].slice_ns, 24 * MS * 1024 / (9 * 1024), "8 tasks of together 9 * 1024");
    queued.push(host.queued(1024, 0));
    assert_eq!(queued[6].slice_ns, 27 * MS / 10, "9 tasks: the period is 9 * 3 ms");
}

/// The header's example: A and B share by weight, to the nanosecond.
#[test]
fn two_tasks_share_by_the_slice_rule() {
    let mut host = host();
    let mut a = host.running(1024, 0);
    let mut b = host.queued(2048, 0);
    for turn in 1..=10 {
        host.now_ns += 7 * MS;
        assert_eq!(host.policy.tick(0, Some(&mut a), host.now_ns).resched, 0, "7 of 8 ms");
        host.now_ns += MS;
        assert_eq!(host.policy.tick(0, Some(&mut a), host.now_ns).resched, 1);
        switch(&mut host, &mut a, &mut b, 0);
        assert_eq!((a.slice_ns, a.entity.vtime), (8 * MS, START + turn * 8 * MS));
        host.now_ns += 16 * MS - 2;
        assert_eq!(host.policy.tick(0, Some(&mut b), host.now_ns).resched, 0);
        host.now_ns += 2;
        assert_eq!(host.policy.tick(0, Some(&mut b), host.now_ns).resched, 1);
        switch(&mut host, &mut b, &mut a, 0);
        assert_eq!(b.entity.vtime, a.entity.vtime, "equal again");
    }
    assert_eq!((a.sum_exec_ns, b.sum_exec_ns), (80 * MS, 160 * MS));
}

/// A is 8 ms past the floor when its slice ends. If the host did not put it back, it goes on for a tick while no
/// waiting task is behind it.
#[test]
fn at_the_end_of_a_slice_the_first_of_all_runs() {
    let mut host = host();
    let mut a = host.running(1024, 0);
    let [mut ahead, mut behind] = [9, 8].map(|at| {
        let mut task = host.queued(1024, 0);
        task.entity.vtime = START + at * MS;
        task
    });
    host.now_ns = 8 * MS;
    assert_eq!(host.policy.tick(0, Some(&mut a), host.now_ns).resched, 1, "24 / 3 ms");
    let dispatch = host.policy.dispatch(0, host.now_ns);
    assert_eq!((dispatch.pick(), dispatch.keep_slice_ns), (Pick::Eligible, TICK_NS));
    assert_eq!(host.policy.may_run(&mut ahead, 0, host.now_ns).run, 0);
    assert_eq!(host.policy.may_run(&mut behind, 0, host.now_ns).run, 1);
    // What it ran since it was charged last counts.
    assert_eq!(host.policy.may_run(&mut ahead, 0, host.now_ns + MS).run, 1);
    // If the host put it back, it is in the queue, and the queue's order decides.
    host.policy.stopping(&mut a, 0, host.now_ns, true);
    assert_eq!(host.policy.dispatch(0, host.now_ns).pick(), Pick::Head);
}

#[test]
fn a_tick_follows_what_has_come_since_the_slice_was_given() {
    let mut host = host();
    let mut a = host.running(1024, 0);
    host.now_ns = 12 * MS;
    assert_eq!(host.policy.tick(0, Some(&mut a), host.now_ns).resched, 0, "alone");
    host.queued(1024, 0);
    assert_eq!(host.policy.tick(0, Some(&mut a), host.now_ns).resched, 1, "its slice is 12 ms now");
    assert_eq!(a.slice_ns, 12 * MS);
}

#[test]
fn a_lone_task_runs_on_beyond_its_slice() {
    let mut host = host();
    let mut a = host.running(1024, 0);
    host.now_ns = 100 * MS;
    assert_eq!(host.policy.tick(0, Some(&mut a), host.now_ns).resched, 0);
    assert_eq!(host.policy.cpu(0).queue.min_vtime, START + 100 * MS, "the floor follows it");
    host.queued(1024, 0);
    host.now_ns = 200 * MS;
    assert_eq!(host.policy.tick(0, Some(&mut a), host.now_ns).resched, 1);
    assert_eq!(host.policy.cpu(0).queue.min_vtime, START + 100 * MS, "another task's key may be smaller");
}

#[test]
fn heavier_tasks_age_more_slowly() {
    let mut host = host();
    let mut heavy = host.running(2048, 0);
    let mut light = host.running(512, 1);
    host.now_ns = 10 * MS;
    host.policy.stopping(&mut heavy, 0, host.now_ns, true);
    host.policy.stopping(&mut light, 1, host.now_ns, true);
    assert_eq!((heavy.entity.vtime, light.entity.vtime), (START + 5 * MS, START + 20 * MS));
}

#[test]
fn sleepers_get_half_the_latency_of_credit() {
    let mut host = host();
    let mut sleeper = host.sleeper(1024, 0);
    assert_eq!(sleeper.entity.vtime, START);
    let mut a = host.running(1024, 0);
    host.now_ns = 10 * MS;
    host.policy.tick(0, Some(&mut a), host.now_ns);
    let queued = host.policy.enqueue(&mut sleeper, 0, EnqueueWhy::Wakeup, host.now_ns);
    assert_eq!((queued.key, queued.preempt), (START, 1), "a short sleep keeps its vtime: 10 ms behind");
    host.policy.quiescent(&mut sleeper, host.now_ns);
    host.now_ns = 1_000 * MS;
    host.policy.tick(0, Some(&mut a), host.now_ns);
    let queued = host.policy.enqueue(&mut sleeper, 0, EnqueueWhy::Wakeup, host.now_ns);
    assert_eq!((queued.key, queued.preempt), (START + 988 * MS, 1), "a long one is clamped");
    assert_eq!(queued.reads, reads(&[(Cpu, 2)]), "the CPU's line, and overloaded, which lies with CPU 0");
    // Queued from CPU 1 on CPU 0: both are read from there.
    host.policy.quiescent(&mut sleeper, host.now_ns);
    let queued = host.policy.enqueue_from(1, &mut sleeper, 0, EnqueueWhy::Wakeup, host.now_ns);
    assert_eq!(queued.reads, reads(&[(Llc, 2)]));
}

#[test]
fn a_wakee_preempts_only_beyond_the_granularity() {
    let preempts = |ran_ns: u64, weight: u32| {
        let mut host = host();
        let mut wakee = host.sleeper(weight, 0);
        let _runs = host.running(1024, 0);
        host.now_ns = ran_ns;
        host.policy.enqueue(&mut wakee, 0, EnqueueWhy::Wakeup, ran_ns).preempt
    };
    assert_eq!([4 * MS, 4 * MS + 1].map(|ran_ns| preempts(ran_ns, 1024)), [0, 1]);
    assert_eq!(
        [2 * MS, 2 * MS + 1].map(|ran_ns| preempts(ran_ns, 2048)),
        [0, 1],
        "half as much for twice the weight"
    );
    assert_eq!([8 * MS, 8 * MS + 1].map(|ran_ns| preempts(ran_ns, 512)), [0, 1]);
}

#[test]
fn a_task_whose_slice_ended_does_not_preempt() {
    let mut host = host();
    let mut a = host.running(1024, 0);
    let mut b = host.queued(1024, 0);
    host.now_ns = 50 * MS;
    switch(&mut host, &mut a, &mut b, 0);
    host.now_ns = 300 * MS;
    assert_eq!(host.policy.enqueue(&mut a, 0, EnqueueWhy::SliceEnd, host.now_ns).preempt, 0);
    assert_eq!(host.policy.enqueue(&mut a, 0, EnqueueWhy::Wakeup, host.now_ns).preempt, 1);
}

#[test]
fn nothing_is_preempted_where_no_task_of_the_policy_runs() {
    let mut host = host();
    let mut sleeper = host.sleeper(1024, 0);
    host.occupy(&[0]);
    host.now_ns = 100 * MS;
    assert_eq!(host.policy.enqueue(&mut sleeper, 0, EnqueueWhy::Wakeup, host.now_ns).preempt, 0);
}

#[test]
fn lag_survives_a_move_and_is_clamped() {
    let mut host = host();
    // Floors far apart: CPU 0 at +1 s, CPU 4 at +5 s.
    for (cpu, seconds) in [(0, 1), (4, 5)] {
        let mut alone = host.running(1024, cpu);
        host.policy.tick(cpu, Some(&mut alone), host.now_ns + seconds * 1_000 * MS);
        host.policy.stopping(&mut alone, cpu, host.now_ns + seconds * 1_000 * MS, false);
    }
    host.now_ns = 5_000 * MS;
    let moved_key = |host: &mut Host, lag_ns: i64| {
        let mut task = host.queued(1024, 0);
        task.entity.vtime = (START + 1_000 * MS).wrapping_add_signed(lag_ns);
        let queued = host.policy.enqueue(&mut task, 4, EnqueueWhy::Moved, host.now_ns);
        assert_eq!(queued.reads, reads(&[(Cpu, 1), (Numa1, 1)]), "the old queue's floor is read");
        host.policy.quiescent(&mut task, host.now_ns);
        queued.key as i64 - (START + 5_000 * MS) as i64
    };
    let ms = MS as i64;
    assert_eq!(moved_key(&mut host, 7 * ms), 7 * ms);
    assert_eq!(moved_key(&mut host, -7 * ms), -7 * ms);
    assert_eq!(moved_key(&mut host, -900 * ms), -12 * ms, "credit: half the latency");
    assert_eq!(moved_key(&mut host, 900 * ms), 24 * ms, "debit: one latency at this weight");
}

#[test]
fn a_new_task_starts_a_slice_behind() {
    let mut host = host();
    let _parent = host.running(1024, 0);
    let mut child = Task::default();
    host.policy.task_init(&mut child, 9, 2048, TASK_NEW);
    let queued = host.policy.enqueue(&mut child, 0, EnqueueWhy::Fork, 0);
    assert_eq!(queued.key, START + 8 * MS, "its slice of 16 ms, in vtime");
    assert_eq!((queued.slice_ns, child.flags), (16 * MS, 0));
    let again = host.policy.enqueue(&mut child, 0, EnqueueWhy::Fork, 0);
    assert_eq!(again, queued);
}

#[test]
fn a_disallowed_queue_is_replaced_by_the_nearest_allowed_one() {
    let mut host = host();
    let mut task = host.task(1024);
    host.policy.set_affinity(&mut task, Some(&[2, 6]));
    assert_eq!(host.policy.enqueue(&mut task, 4, EnqueueWhy::Moved, 0).cpu, 6);
    assert_eq!(host.policy.cpu(6).nr_queued, 1);
    host.policy.set_affinity(&mut task, Some(&[2]));
    assert_eq!(host.policy.enqueue(&mut task, 6, EnqueueWhy::Moved, 0).cpu, 2);
    assert_eq!([2, 6].map(|cpu| host.policy.cpu(cpu).nr_queued), [1, 0]);
}

#[test]
fn weight_changes_load_and_future_charges_but_no_key() {
    let mut host = host();
    let mut a = host.running(1024, 0);
    let mut b = host.queued(1024, 0);
    host.now_ns = 4 * MS;
    host.policy.task_weight(&mut a, 2048, host.now_ns);
    host.policy.task_weight(&mut b, 512, host.now_ns);
    assert_eq!(
        (a.entity.vtime, b.entity.vtime),
        (START + 4 * MS, START),
        "charged at the old weight; the key stays"
    );
    assert_eq!(host.policy.cpu(0).load, 2560);
    host.now_ns = 8 * MS;
    host.policy.stopping(&mut a, 0, host.now_ns, false);
    assert_eq!(a.entity.vtime, START + 6 * MS);
    assert_eq!(host.policy.cpu(0).load, 512);
    host.policy.task_weight(&mut b, 0, host.now_ns);
    assert_eq!(b.weight, 1, "weightless tasks would never age");
}

#[test]
fn a_running_task_found_elsewhere_is_moved_there() {
    let mut host = host();
    let mut task = host.queued(1024, 0);
    host.policy.running(&mut task, 3, 0);
    assert_eq!((task.cpu, task.recent_cpu), (3, 0));
    assert_eq!([0, 3].map(|cpu| host.policy.cpu(cpu).load), [0, 1024]);
    assert_eq!((host.policy.cpu(0).nr_queued, host.policy.cpu(3).nr_running), (0, 1));
}
