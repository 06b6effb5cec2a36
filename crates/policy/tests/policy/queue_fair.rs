// SPDX-License-Identifier: GPL-2.0-or-later
//! queue_fair.h. Times are milliseconds of a machine of 8 CPUs: the slice is 3 ms, lag at most 6 ms.

use proptest::prelude::*;
use wakelab_policy::{EnqueueWhy, Pick, Preempt, TASK_NEW, Task};

use crate::host::{Host, MS, START, machine, policy};

/// The answer that a task preempts, if it would run next.
const IF_FIRST: u32 = Preempt::IfFirst as u32;

fn host() -> Host {
    Host::new(policy("linux-6.12+queue=fair", &machine(2, None, 4, 1)))
}

fn wake(host: &mut Host, task: &mut Task, cpu: u32) -> (u64, u32) {
    let queued = host.policy.enqueue(task, cpu, EnqueueWhy::Wakeup, host.now_ns);
    (queued.key - START, queued.preempt)
}

/// The running task stops while runnable and is queued again. Returns its key.
fn put_back(host: &mut Host, task: &mut Task, cpu: u32) -> u64 {
    host.policy.stopping(task, cpu, host.now_ns, true);
    host.policy.enqueue(task, cpu, EnqueueWhy::SliceEnd, host.now_ns).key - START
}

/// Asks as a host does: after a dispatch, if nothing runs.
fn may_run(host: &mut Host, task: &mut Task) -> bool {
    host.policy.dispatch(task.cpu as u32, host.now_ns);
    host.policy.may_run(task, task.cpu as u32, host.now_ns).run != 0
}

/// The header's example, to the nanosecond.
#[test]
fn the_earliest_eligible_deadline_runs() {
    let mut host = host();
    let (mut b, mut c) = (host.task(1024), host.task(2048));
    let mut a = host.running(1024, 0);
    assert_eq!((a.entity.vtime, a.entity.deadline), (START, START + 3 * MS));
    host.now_ns = MS;
    assert_eq!(wake(&mut host, &mut b, 0), (4 * MS, 0), "V is 1; A is at 1, not beyond it");
    host.now_ns = 2 * MS;
    assert_eq!(wake(&mut host, &mut c, 0), (3 * MS, IF_FIRST), "V is 1.5, A at 2");
    assert_eq!(c.entity.vtime, START + 3 * MS / 2);
    assert_eq!(put_back(&mut host, &mut a, 0), 3 * MS);
    assert_eq!([&mut a, &mut b, &mut c].map(|task| may_run(&mut host, task)), [false, true, true]);
    host.policy.running(&mut c, 0, host.now_ns);
    host.now_ns += 3 * MS - 2;
    assert_eq!(host.policy.tick(0, Some(&mut c), host.now_ns).resched, 0);
    host.now_ns += 2;
    assert_eq!(host.policy.tick(0, Some(&mut c), host.now_ns).resched, 1);
    assert_eq!((c.entity.vtime, c.entity.deadline), (START + 3 * MS, START + 9 * MS / 2));
    put_back(&mut host, &mut c, 0);
    assert_eq!(
        [&mut a, &mut b, &mut c].map(|task| may_run(&mut host, task)),
        [true, true, false],
        "V is 2.25"
    );
    let dispatch = host.policy.dispatch(0, host.now_ns);
    assert_eq!((dispatch.pick(), dispatch.keep_slice_ns), (Pick::Eligible, 0), "no task runs");
}

/// A task of SCHED_IDLE (weight 3) has run for 10 ms beside a task that waits: it is at 3,413 ms, and V at 10 x 1024 /
/// 1027. C joins at V.
#[test]
fn a_light_task_does_not_carry_others_away() {
    let mut host = host();
    let _idle = host.running(3, 0);
    let _waits = host.queued(1024, 0);
    host.now_ns = 10 * MS;
    let mut c = host.task(1024);
    wake(&mut host, &mut c, 0);
    assert_eq!(c.entity.vtime - START, 9_970_788);
}

/// A has run for 1 ms, and is beyond V beside B, which is at 0, but not beside C, which is at 2.
#[test]
fn a_task_that_yields_forfeits_its_slice() {
    for (queue, after_ms) in [("fair", [1, 3]), ("fair-2023", [1, 6]), ("fair-2024", [1, 6])] {
        let mut host = Host::new(policy(&format!("linux-6.12+queue={queue}"), &machine(2, None, 4, 1)));
        let mut a = host.running(1024, 0);
        let _b = host.queued(1024, 0);
        host.now_ns = MS;
        host.policy.yields(&mut a, 0, host.now_ns);
        let at = [a.entity.vtime, a.entity.deadline].map(|vtime| (vtime - START) / MS);
        assert_eq!(at, after_ms, "{queue}: A is beyond V");
    }
    for (queue, after_ms) in [("fair", [3, 6]), ("fair-2023", [1, 6]), ("fair-2024", [1, 6])] {
        let mut host = Host::new(policy(&format!("linux-6.12+queue={queue}"), &machine(2, None, 4, 1)));
        let mut c = host.running(1024, 0);
        host.now_ns = 2 * MS;
        put_back(&mut host, &mut c, 0);
        let mut a = host.task(1024);
        a.entity.lag = MS as i64;
        wake(&mut host, &mut a, 0);
        assert_eq!(a.entity.vtime, START, "V is 1, and A's lag the same");
        host.policy.running(&mut a, 0, host.now_ns);
        host.now_ns += MS;
        for _ in 0..2 {
            host.policy.yields(&mut a, 0, host.now_ns);
            let at = [a.entity.vtime, a.entity.deadline].map(|vtime| (vtime - START) / MS);
            assert_eq!(at, after_ms, "{queue}: A is at 1, V is 1.5, and the event is told twice");
        }
        assert_eq!(may_run(&mut host, &mut c), queue == "fair", "V is 2.5, or 1.5 still; C is at 2");
    }
}

#[test]
fn lag_lasts_through_sleep_and_is_limited() {
    let mut host = host();
    let mut a = host.running(1024, 0);
    let mut b = host.queued(1024, 0);
    host.now_ns = 4 * MS;
    // A is at 4, B at 0, V is 2: B's lag is 2 ms. Alone with A's 1024 it would be inflated to 4 ms.
    host.policy.quiescent(&mut b, host.now_ns);
    assert_eq!(b.entity.lag, 2 * MS as i64);
    host.now_ns = 10 * MS;
    wake(&mut host, &mut b, 0);
    // A is at 10. B is placed at 10 - 4 = 6; V becomes 8, and B's lag is 2 ms again.
    assert_eq!((b.entity.vtime, b.entity.deadline), (START + 6 * MS, START + 9 * MS));
    host.policy.quiescent(&mut b, host.now_ns);
    assert_eq!(b.entity.lag, 2 * MS as i64, "preserved");
    wake(&mut host, &mut b, 0);
    host.now_ns = 50 * MS;
    host.policy.quiescent(&mut b, host.now_ns);
    assert_eq!(b.entity.lag, 6 * MS as i64, "V is 28, B at 6: two slices at most");
    host.policy.stopping(&mut a, 0, host.now_ns, false);
    assert_eq!(a.entity.lag, 0, "the last one is at V");
    host.now_ns = 60 * MS;
    wake(&mut host, &mut b, 0);
    assert_eq!(
        (b.entity.lag, b.entity.vtime),
        (0, host.policy.cpu(0).queue.min_vtime),
        "no other task to be behind"
    );
}

#[test]
fn a_new_task_has_half_a_slice_to_its_deadline() {
    let mut host = host();
    host.running(1024, 0);
    host.now_ns = 2 * MS;
    let mut child = Task::default();
    host.policy.task_init(&mut child, 9, 1024, TASK_NEW);
    let queued = host.policy.enqueue(&mut child, 0, EnqueueWhy::Fork, host.now_ns);
    assert_eq!((child.entity.vtime - START, queued.key - START), (2 * MS, 7 * MS / 2));
    assert_eq!((queued.preempt, child.flags), (0, 0), "the parent is at V");
}

#[test]
fn a_move_keeps_lag_and_what_is_left_of_the_slice() {
    let mut host = host();
    let mut a = host.running(1024, 0);
    host.now_ns = 100 * MS;
    host.policy.tick(0, Some(&mut a), host.now_ns);
    let mut moved = host.queued(1024, 0);
    let mut there = host.running(1024, 5);
    host.now_ns = 102 * MS;
    // CPU 0: A at 102, the other at 100, V = 101: lag 1, 3 left. CPU 5: its task at 2; inflated, 2 behind that.
    let queued = host.policy.enqueue(&mut moved, 5, EnqueueWhy::Moved, host.now_ns);
    assert_eq!((moved.entity.vtime, queued.key), (START, START + 3 * MS));
    assert_eq!(queued.preempt, IF_FIRST, "its lag is 1 ms, the running task's -1");
    host.policy.stopping(&mut there, 5, host.now_ns, true);
    host.policy.enqueue(&mut there, 5, EnqueueWhy::SliceEnd, host.now_ns);
    host.policy.running(&mut moved, 5, host.now_ns);
    host.now_ns = 103 * MS;
    host.policy.tick(5, Some(&mut moved), host.now_ns);
    put_back(&mut host, &mut moved, 5);
    // Here V = (1 + 2) / 2, its lag 0.5 ms, 2 ms of its slice are left. CPU 0 has A alone, at 103.
    let queued = host.policy.enqueue(&mut moved, 0, EnqueueWhy::Moved, host.now_ns);
    assert_eq!((moved.entity.vtime - START, queued.key - START), (102 * MS, 104 * MS));
}

#[test]
fn a_running_task_that_got_another_slice_gives_way_to_an_earlier_deadline() {
    let mut host = host();
    let (mut heavy, mut wakee) = (host.task(4096), host.task(2048));
    let mut a = host.running(1024, 0);
    wake(&mut host, &mut heavy, 0);
    host.policy.stopping(&mut a, 0, 0, true);
    host.policy.running(&mut heavy, 0, 0);
    host.now_ns = 3 * MS;
    // Its deadline is 0.75 and it is at 0.75 now, A is at 0: V = 0.6. resched decides about the next slice.
    assert_eq!(host.policy.tick(0, Some(&mut heavy), host.now_ns).resched, 1);
    assert_eq!(heavy.entity.deadline, START + 3 * MS / 2);
    assert!(may_run(&mut host, &mut a), "beyond V: A, though its deadline is 3");
    let dispatch = host.policy.dispatch(0, host.now_ns);
    assert_eq!(dispatch.keep_slice_ns, 3 * MS, "with that slice it would go on");
    // When it is alone again, it is eligible; a wakee at V has a deadline of 0.75 + 1.5 = 2.25, later than 1.5.
    host.policy.quiescent(&mut a, host.now_ns);
    assert_eq!(wake(&mut host, &mut wakee, 0), (9 * MS / 4, 0));
    host.policy.quiescent(&mut wakee, host.now_ns);
    // One of weight 8192 has 0.75 + 0.375 = 1.125.
    let mut wakee = host.task(8192);
    assert_eq!(wake(&mut host, &mut wakee, 0), (9 * MS / 8, IF_FIRST));
}

#[test]
fn a_wakee_waits_for_a_task_within_its_share() {
    let mut host = host();
    let mut waiting = host.task(1024);
    let mut a = host.running(1024, 0);
    host.now_ns = 2 * MS;
    wake(&mut host, &mut waiting, 0);
    // A is at 2 and so is the wakee: A goes on until it is beyond V, by the next wake-up or its deadline.
    assert!(!may_run(&mut host, &mut waiting));
    host.now_ns = 2 * MS + 2;
    assert!(may_run(&mut host, &mut waiting), "A is 1 ns beyond V");
    assert_eq!(
        host.policy.tick(0, Some(&mut a), host.now_ns).resched,
        0,
        "but nothing checks before its deadline"
    );
}

/// A runs alone for 1 ms, with its deadline at 3. A task of twice its weight wakes at V, which is 1, with its deadline
/// at 1 + 1.5. A is not beyond V.
#[test]
fn without_parity_an_earlier_deadline_preempts() {
    for queue in ["fair", "fair-2023", "fair-2024", "fair-2025"] {
        let [on, off] = ["on", "off"].map(|parity| {
            let spec = format!("linux-6.12+queue={queue}+parity={parity}+min-granularity-ns={}", 3 * MS);
            let mut host = Host::new(policy(&spec, &machine(2, None, 4, 1)));
            let mut c = host.task(2048);
            let _a = host.running(1024, 0);
            host.now_ns = MS;
            wake(&mut host, &mut c, 0)
        });
        assert_eq!((on, off.0), ((5 * MS / 2, 0), 5 * MS / 2), "{queue}");
        assert_ne!(off.1, 0, "{queue}");
    }
}

#[test]
fn shares_follow_weights() {
    // Three tasks on one CPU under a tick of 1 ms, by the contract: the earliest deadline that may run.
    let mut host = host();
    let mut tasks: Vec<Task> = [1024, 2048, 512].map(|weight| host.task(weight)).into();
    tasks.iter_mut().for_each(|task| {
        wake(&mut host, task, 0);
    });
    let mut running = 0;
    host.policy.running(&mut tasks[running], 0, 0);
    for _ in 0..3_500 {
        host.now_ns += MS;
        if host.policy.tick(0, Some(&mut tasks[running]), host.now_ns).resched == 0 {
            continue;
        }
        put_back(&mut host, &mut tasks[running], 0);
        let mut order: Vec<usize> = (0..3).collect();
        order.sort_by_key(|&task| tasks[task].entity.deadline);
        running = order.into_iter().find(|&task| may_run(&mut host, &mut tasks[task])).unwrap();
        host.policy.running(&mut tasks[running], 0, host.now_ns);
    }
    for (task, share_ms) in tasks.iter().zip([1_000, 2_000, 500]) {
        let off_ms = task.sum_exec_ns.abs_diff(share_ms * MS) / MS;
        assert!(off_ms <= 6, "{} ms of {share_ms}: a slice and a tick of lag at most", task.sum_exec_ns / MS);
    }
}

/// A has run for 2 ms of its slice, and then for all of it.
#[test]
fn a_slice_that_is_over_ends_in_any_case() {
    for (after, preempt) in [(2 * MS, Preempt::IfFirst), (3 * MS, Preempt::Yes)] {
        let mut host = host();
        let _a = host.running(1024, 0);
        host.queued(1024, 0);
        host.now_ns = after;
        let mut b = host.task(1024);
        b.entity.lag = MS as i64;
        assert_eq!(wake(&mut host, &mut b, 0).1, preempt as u32, "A is beyond V");
    }
}

/// What a host's queue tells of a task that waits is what its record says.
fn told_is_right(host: &mut Host, task: &mut Task) {
    let runs = may_run(host, task);
    let (key, slice_ns, weight) = (task.entity.deadline, task.slice_ns, task.weight);
    let told = host.policy.may_run_told(0, key, slice_ns, weight, host.now_ns);
    assert!(told.is_none_or(|told| told == runs));
    assert!(told.is_some() || weight != 1024 || slice_ns <= 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// V is a mean, so some task is always eligible, whatever the weights and the order of arrival.
    #[test]
    fn a_task_is_eligible(
        weights in prop::collection::vec(prop_oneof![Just(1024), 15u32..90_000], 2..12),
        runs in prop::collection::vec((0usize..12, 1u64..20_000_000), 1..40),
    ) {
        let mut host = host();
        let mut tasks: Vec<Task> = weights.iter().map(|&weight| host.queued(weight, 0)).collect();
        for (pick, ran_ns) in runs {
            let pick = pick % tasks.len();
            host.policy.running(&mut tasks[pick], 0, host.now_ns);
            host.now_ns += ran_ns;
            for (at, task) in tasks.iter_mut().enumerate() {
                if at != pick {
                    told_is_right(&mut host, task);
                }
            }
            host.policy.stopping(&mut tasks[pick], 0, host.now_ns, true);
            let now_ns = host.now_ns;
            if ran_ns % 3 == 0 {
                host.policy.quiescent(&mut tasks[pick], now_ns);
            }
            host.policy.enqueue(&mut tasks[pick], 0, EnqueueWhy::Wakeup, now_ns);
            prop_assert!(tasks.iter_mut().any(|task| may_run(&mut host, task)));
            for task in &mut tasks {
                told_is_right(&mut host, task);
            }
        }
    }
}
