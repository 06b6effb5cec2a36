// SPDX-License-Identifier: GPL-2.0-or-later
//! queue_delayed.h, and what queue_fair.h says about kernels. Times are milliseconds of a machine of 8 CPUs: the slice
//! is 3 ms (fair-2025: 2.8), lag at most 6 ms.

use proptest::prelude::*;
use wakelab_policy::{Enqueue, EnqueueWhy, Preempt, Sleep, Task};

use crate::host::{Host, MS, START, machine, policy};

const DELAYED: u32 = 3;

fn host(queue: &str) -> Host {
    Host::new(policy(&format!("linux-6.12+queue={queue}"), &machine(2, None, 4, 1)))
}

fn wake(host: &mut Host, task: &mut Task) -> Enqueue {
    host.policy.enqueue(task, 0, EnqueueWhy::Wakeup, host.now_ns)
}

fn sleep(host: &mut Host, task: &mut Task) -> Sleep {
    host.policy.sleep(task, host.now_ns)
}

fn may_run(host: &mut Host, task: &mut Task) -> bool {
    host.policy.may_run(task, 0, host.now_ns).run != 0
}

fn put_back_and_run(host: &mut Host, from: &mut Task, to: &mut Task) {
    host.policy.stopping(from, 0, host.now_ns, true);
    host.policy.enqueue(from, 0, EnqueueWhy::SliceEnd, host.now_ns);
    host.policy.running(to, 0, host.now_ns);
}

fn run_again(host: &mut Host, task: &mut Task) {
    host.policy.stopping(task, 0, host.now_ns, true);
    host.policy.enqueue(task, 0, EnqueueWhy::SliceEnd, host.now_ns);
    host.policy.running(task, 0, host.now_ns);
}

/// The header's example up to the sleep: A is delayed at 2 with deadline 3, B runs at 0 with deadline 3.
fn example(queue: &str) -> (Host, Task, Task) {
    let mut host = host(queue);
    let mut a = host.running(1024, 0);
    let mut b = host.queued(1024, 0);
    host.now_ns = 2 * MS;
    let answer = sleep(&mut host, &mut a);
    assert_eq!((answer.stay, answer.key - START), (1, 3 * MS));
    assert_eq!((a.place, host.policy.cpu(0).nr_queued, host.policy.cpu(0).load), (DELAYED, 2, 2048));
    host.policy.running(&mut b, 0, host.now_ns);
    (host, a, b)
}

#[test]
fn a_sleeper_beyond_its_share_stays_queued_and_wakes_where_it_was() {
    let (mut host, mut a, _b) = example("fair-2024");
    host.now_ns += MS;
    let answer = wake(&mut host, &mut a);
    assert_eq!((a.entity.vtime - START, answer.key - START), (2 * MS, 3 * MS));
    assert_eq!((answer.preempt(), a.place), (Preempt::No, 1), "V is 1.5");
}

#[test]
fn a_sleeper_that_v_passes_with_the_charge_at_its_wake_up_keeps_its_place_and_runs() {
    let (mut host, mut a, _b) = example("fair-2024");
    host.now_ns += 5 * MS / 2;
    let answer = wake(&mut host, &mut a);
    assert_eq!((a.entity.vtime - START, answer.key - START), (2 * MS, 3 * MS), "V was 1 when B was picked");
    assert_eq!(answer.preempt(), Preempt::IfFirst, "V is 2.25, and B is at 2.5");
    assert!(may_run(&mut host, &mut a));
}

#[test]
fn a_sleeper_that_v_has_passed_wakes_at_v_of_the_last_charge_with_a_whole_slice() {
    let (mut host, mut a, mut b) = example("fair-2024");
    host.now_ns += 5 * MS / 2;
    assert_eq!(host.policy.tick(0, Some(&mut b), host.now_ns).resched, 0);
    host.now_ns += 2 * MS / 5;
    let answer = wake(&mut host, &mut a);
    assert_eq!((a.entity.vtime - START, answer.key - START), (5 * MS / 2, 11 * MS / 2));
    assert_eq!(answer.preempt(), Preempt::IfFirst, "V is 2.7, and B is at 2.9");
}

#[test]
fn an_arrival_charges_the_running_task_for_the_next_sleeper_that_wakes() {
    let (mut host, mut a, _b) = example("fair-2024");
    host.now_ns += 5 * MS / 2;
    let mut c = host.task(1024);
    wake(&mut host, &mut c);
    assert_eq!(c.entity.vtime - START, 9 * MS / 4, "V");
    host.now_ns += 2 * MS / 5;
    let answer = wake(&mut host, &mut a);
    // At the arrival V was 2.25, of A at 2, B at 2.5 and C; without A it was 2.375.
    assert_eq!((a.entity.vtime - START, answer.key - START), (19 * MS / 8, 43 * MS / 8));
}

#[test]
fn a_sleeper_may_leave_for_a_wakee_from_6_18_on() {
    for (queue, preempt) in [("fair-2024", Preempt::IfFirst), ("fair-2025", Preempt::IfFirstAwake)] {
        let (mut host, mut a, _b) = example(&format!("{queue}+min-granularity-ns={}", 3 * MS));
        host.now_ns += 14 * MS / 5;
        let mut c = host.task(1024);
        let answer = wake(&mut host, &mut c);
        // A, asleep at 2 with deadline 3, is eligible and would be the next.
        assert_eq!((c.entity.vtime - START, answer.preempt()), (12 * MS / 5, preempt), "B is at 2.8");
        assert!(may_run(&mut host, &mut a));
        host.policy.quiescent(&mut a, host.now_ns);
        assert!(may_run(&mut host, &mut c));
    }
}

#[test]
fn a_sleeper_that_would_run_leaves_without_credit() {
    let (mut host, mut a, mut b) = example("fair-2024");
    host.now_ns += 3 * MS;
    assert_eq!(host.policy.tick(0, Some(&mut b), host.now_ns).resched, 1);
    host.policy.stopping(&mut b, 0, host.now_ns, true);
    host.policy.enqueue(&mut b, 0, EnqueueWhy::SliceEnd, host.now_ns);
    assert_eq!((a.entity.deadline - START, b.entity.deadline - START), (3 * MS, 6 * MS));
    assert!(may_run(&mut host, &mut a), "V is 2.5");
    host.policy.quiescent(&mut a, host.now_ns);
    assert_eq!((a.place, a.entity.lag), (0, 0), "its lag would be 0.5");
    assert_eq!((host.policy.cpu(0).nr_queued, host.policy.cpu(0).load), (1, 1024));
    assert!(may_run(&mut host, &mut b));
}

#[test]
fn a_sleeper_within_its_share_or_alone_leaves_at_once() {
    for queue in ["fair-2024", "fair-2025"] {
        let mut host = host(queue);
        let mut a = host.running(1024, 0);
        host.now_ns = 2 * MS;
        assert_eq!((sleep(&mut host, &mut a).stay, a.place), (0, 0), "alone");
        wake(&mut host, &mut a);
        host.policy.running(&mut a, 0, host.now_ns);
        let mut b = host.queued(1024, 0);
        assert_eq!((sleep(&mut host, &mut a).stay, a.place, a.entity.lag), (0, 0, 0), "at V");
        wake(&mut host, &mut a);
        host.policy.running(&mut b, 0, host.now_ns);
        host.now_ns += MS;
        put_back_and_run(&mut host, &mut b, &mut a);
        assert_eq!((sleep(&mut host, &mut a).stay, a.entity.lag), (0, (MS / 2) as i64), "behind V");
    }
}

#[test]
fn earlier_kernels_delay_nothing() {
    for queue in ["fair", "fair-2023"] {
        let mut host = host(queue);
        let mut a = host.running(1024, 0);
        host.queued(1024, 0);
        host.now_ns = 2 * MS;
        assert_eq!((sleep(&mut host, &mut a).stay, a.place), (0, 0), "{queue}");
    }
}

#[test]
fn a_wakee_preempts_if_it_comes_first() {
    let mut host = host("fair-2023");
    let (mut b, mut c) = (host.task(1024), host.task(1024));
    host.running(1024, 0);
    wake(&mut host, &mut b);
    host.now_ns = 2 * MS;
    // The running task is at 2, B at 0 with deadline 3: V is 1, and C's deadline is 4.
    let answer = wake(&mut host, &mut c);
    assert_eq!((answer.preempt(), answer.key - START), (Preempt::IfFirst, 4 * MS));
    assert!(
        may_run(&mut host, &mut b) && may_run(&mut host, &mut c),
        "so it is B's turn, and B did not wake"
    );
}

#[test]
fn an_arrival_gives_the_running_task_its_next_slice() {
    let mut host = host("fair-2024");
    let (mut b, mut c) = (host.task(1024), host.task(1024));
    let mut a = host.running(1024, 0);
    host.now_ns = 4 * MS;
    // Alone until 4: its deadline, 3, becomes 7, and so is B's.
    let answer = wake(&mut host, &mut b);
    assert_eq!((answer.preempt(), answer.key - START), (Preempt::IfFirst, 7 * MS));
    assert!(may_run(&mut host, &mut b), "of equal deadlines that of the waiting task comes first");
    host.now_ns = 8 * MS;
    // A is at 8 and beyond its deadline while B waits: that is enough.
    assert_eq!(wake(&mut host, &mut c).preempt(), Preempt::Yes);
    host.policy.tick(0, Some(&mut a), host.now_ns);
    assert_eq!(a.entity.deadline - START, 11 * MS);
}

/// A runs at `ran_ns` past its deadline, 3, and B waits at 4. Returns what a tick says then. A has been picked again at
/// its deadline.
fn resched_after_parity(queue: &str, ran_ns: u64) -> u32 {
    let mut host = host(&format!("{queue}+min-granularity-ns={}", 3 * MS));
    let mut b = host.running(1024, 0);
    let mut a = host.queued(1024, 0);
    host.now_ns = 4 * MS;
    put_back_and_run(&mut host, &mut b, &mut a);
    host.now_ns = 7 * MS;
    // V is 3.5; A, at 3, has got a deadline of 6, B has one of 7.
    assert_eq!(host.policy.tick(0, Some(&mut a), host.now_ns).resched, 1);
    assert_eq!((a.entity.deadline - START, b.entity.deadline - START), (6 * MS, 7 * MS));
    run_again(&mut host, &mut a);
    host.now_ns += ran_ns;
    host.policy.tick(0, Some(&mut a), host.now_ns).resched
}

#[test]
fn kernels_end_a_slice_that_followed_another_differently() {
    let resched = |ran_ns| {
        ["fair", "fair-2023", "fair-2024", "fair-2025"].map(|queue| resched_after_parity(queue, ran_ns))
    };
    assert_eq!(resched(MS / 2), [0, 0, 0, 1], "A is at 3.5, V is 3.75");
    assert_eq!(resched(3 * MS / 2), [0, 0, 1, 1], "A is at 4.5, V is 4.25: `fair` protects it again");
    assert_eq!(resched(3 * MS), [1; 4], "that slice is over, too");
}

#[test]
fn a_move_gives_a_whole_slice_in_6_6() {
    for (queue, left) in [("fair-2023", 3 * MS), ("fair-2024", MS)] {
        let mut host = host(queue);
        let mut a = host.running(1024, 0);
        host.now_ns = 2 * MS;
        host.policy.stopping(&mut a, 0, host.now_ns, true);
        host.policy.enqueue(&mut a, 5, EnqueueWhy::Moved, host.now_ns);
        assert_eq!(a.entity.deadline - a.entity.vtime, left, "{queue}");
    }
}

#[test]
fn a_pull_leaves_sleepers_where_they_are() {
    let (mut host, mut a, _b) = example("fair-2024");
    host.queued(1024, 0);
    let mut pull = host.policy.dispatch(1, host.now_ns);
    assert_eq!((pull.what(), pull.cpu), (wakelab_policy::DispatchDo::Pull, 0));
    assert_eq!(host.policy.may_move(&mut a, 1, host.now_ns, &mut pull).r#move, 0);
    assert_eq!((a.place, a.cpu), (DELAYED, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// V is a mean of all, sleepers included: some task is always eligible, so sleepers never keep others from running.
    /// Only eligible tasks run, as on any host. A task beyond V that ran again and again would come so far from V that
    /// the policy takes the sum for damaged, and believes its last V instead.
    #[test]
    fn a_task_is_eligible_and_sleepers_end(
        weights in prop::collection::vec(15u32..90_000, 2..12),
        runs in prop::collection::vec((0usize..12, 1u64..20_000_000, any::<bool>()), 1..40),
        queue in prop::sample::select(vec!["fair-2024", "fair-2025"]),
    ) {
        let mut host = host(queue);
        let mut tasks: Vec<Task> = weights.iter().map(|&weight| host.queued(weight, 0)).collect();
        for (pick, ran_ns, sleeps) in runs {
            let pick = pick % tasks.len();
            if tasks[pick].place != 1 {
                wake(&mut host, &mut tasks[pick]);
                continue;
            }
            if !may_run(&mut host, &mut tasks[pick]) {
                continue;
            }
            host.policy.running(&mut tasks[pick], 0, host.now_ns);
            host.now_ns += ran_ns;
            if sleeps {
                let stays = sleep(&mut host, &mut tasks[pick]).stay;
                prop_assert_eq!(tasks[pick].place, if stays == 1 { DELAYED } else { 0 });
            } else {
                host.policy.stopping(&mut tasks[pick], 0, host.now_ns, true);
                host.policy.enqueue(&mut tasks[pick], 0, EnqueueWhy::SliceEnd, host.now_ns);
            }
            let now_ns = host.now_ns;
            let queued = tasks.iter().any(|task| task.place != 0);
            let mut wanted = tasks.iter_mut().filter(|task| task.place != 0);
            prop_assert!(!queued || wanted.any(|task| host.policy.may_run(task, 0, now_ns).run != 0));
        }
        // Without any wake-up, all sleepers leave.
        tasks.iter_mut().filter(|task| task.place == 1).for_each(|task| {
            host.policy.quiescent(task, host.now_ns);
        });
        for _ in 0..tasks.len() {
            let now_ns = host.now_ns;
            let queued = tasks.iter_mut().filter(|task| task.place != 0);
            for task in queued {
                if host.policy.may_run(task, 0, now_ns).run != 0 {
                    host.policy.quiescent(task, now_ns);
                    prop_assert!(task.entity.lag <= 0);
                }
            }
        }
        prop_assert!(tasks.iter().all(|task| task.place == 0));
        prop_assert_eq!(host.policy.cpu(0).queue.charged, 0);
    }
}
