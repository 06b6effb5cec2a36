// SPDX-License-Identifier: GPL-2.0-or-later
//! groups_exact.h and groups_exact_sums.h: the examples of their headers. Whole runs: crates/sim/tests/sim/fairness.rs.

use wakelab_policy::{DispatchDo, EnqueueWhy, Pick, Task};

use crate::host::{Host, MS, START, machine, policy_with_groups};

fn queued(host: &mut Host, slot: u32, cpu: u32) -> Task {
    let mut task = host.task(1024);
    host.policy.task_group(&mut task, slot, host.now_ns);
    assert_eq!(host.policy.enqueue(&mut task, cpu, EnqueueWhy::Wakeup, host.now_ns).preempt, 0);
    task
}

fn running(host: &mut Host, slot: u32, cpu: u32) -> Task {
    let mut task = queued(host, slot, cpu);
    host.policy.dispatch(cpu, host.now_ns);
    assert_eq!(host.policy.may_run(&mut task, cpu, host.now_ns).run, 1);
    host.switch_in(&mut task, cpu);
    task
}

/// Two CPUs and groups in slots 1 (A) and 2 (B) with these shares.
fn two_groups(a: u32, b: u32) -> Host {
    two_groups_on(1, 2, a, b)
}

/// The same on a machine of `nodes` LLCs of `cores` CPUs each.
fn two_groups_on(nodes: u32, cores: u32, a: u32, b: u32) -> Host {
    let machine = machine(nodes, None, cores, 1);
    let mut host = Host::new(policy_with_groups("linux-4.15+groups=exact", &machine, 2));
    host.policy.group_init(1, 0, a);
    host.policy.group_init(2, 0, b);
    host
}

/// A ran 6 ms at 1024 shares, B 8 ms at 2048: B is behind by 2 ms of v.
#[test]
fn v_grows_by_time_over_shares() {
    let mut host = two_groups(1024, 2048);
    let mut a = running(&mut host, 1, 0);
    let mut b = running(&mut host, 2, 1);
    let _waits = queued(&mut host, 0, 0);
    host.policy.tick(0, Some(&mut a), 6 * MS);
    host.policy.tick(1, Some(&mut b), 8 * MS);
    assert_eq!(host.policy.group_cpu(1, 0).exact.part, START + 6 * MS);
    assert_eq!(host.policy.group_cpu(2, 0).exact.part, START + 4 * MS);
    assert_eq!(
        (a.sum_exec_ns, a.entity.vtime, b.entity.vtime),
        (6 * MS, 6 * MS, 8 * MS),
        "inside their groups, by weight"
    );
}

/// CPU 0 runs B, behind which A waits; CPU 1 runs B. After 1 ms B has received 2 ms: CPU 0 picks A at its tick.
#[test]
fn a_tick_picks_whose_group_is_behind() {
    let mut host = two_groups(1024, 1024);
    let mut b = running(&mut host, 2, 0);
    let mut a = queued(&mut host, 1, 0);
    let _other = running(&mut host, 2, 1);
    host.now_ns = MS;
    assert_eq!(host.policy.tick(0, Some(&mut b), MS).resched, 1);
    assert_eq!(host.policy.group_cpu(2, 0).exact.part - host.policy.group_cpu(1, 0).exact.part, 2 * MS);
    host.policy.stopping(&mut b, 0, MS, true);
    host.policy.enqueue(&mut b, 0, EnqueueWhy::SliceEnd, MS);
    let dispatch = host.policy.dispatch(0, MS);
    assert_eq!((dispatch.what(), dispatch.pick()), (DispatchDo::Own, Pick::Last));
    // Whatever order it is asked in, A is the last that gets a yes.
    assert_eq!(host.policy.may_run(&mut b, 0, MS).run, 1);
    assert_eq!(host.policy.may_run(&mut a, 0, MS).run, 1);
    assert_eq!(host.policy.may_run(&mut b, 0, MS).run, 0);
}

/// Tasks of one group wait in the order of their v's: if nothing runs, the first is picked, and else two answers are
/// enough, until a task of another group comes; and again when none of another group is left.
#[test]
fn a_queue_of_one_group_has_the_order_of_its_tasks() {
    let mut host = two_groups(1024, 1024);
    let enqueue = |host: &mut Host, slot, vtime| {
        let mut task = host.task(1024);
        host.policy.task_group(&mut task, slot, 0);
        task.flags = 0;
        (task.entity.lag, task.entity.vtime) = (vtime as i64, START + vtime);
        (host.policy.enqueue(&mut task, 0, EnqueueWhy::Wakeup, 0).key, task)
    };
    let (second_key, mut second) = enqueue(&mut host, 1, MS);
    let (first_key, mut first) = enqueue(&mut host, 1, 0);
    assert_eq!((first_key + MS, first.entity.vtime), (second_key, first_key));
    assert_eq!(host.policy.dispatch(0, 0).pick(), Pick::Head);
    host.switch_in(&mut first, 0);
    assert_eq!(host.policy.dispatch(0, 0).pick(), Pick::LastOfTwo);
    assert_eq!(host.policy.may_run(&mut second, 0, 0).run, 0);
    let (key, mut other) = enqueue(&mut host, 2, 0);
    assert_eq!((key, host.policy.dispatch(0, 0).pick()), (other.entity.vtime, Pick::Last));
    host.policy.quiescent(&mut other, 0);
    assert_eq!(host.policy.dispatch(0, 0).pick(), Pick::LastOfTwo, "one that waits, and the running one");
    let (_, third) = enqueue(&mut host, 1, 0);
    assert_eq!(host.policy.dispatch(0, 0).pick(), Pick::LastOfTwo);
    assert_eq!(host.policy.cpu(0).exact.slots, 2 << 32 | 2, "{} and {} are of group 1", second.id, third.id);
    host.policy.quiescent(&mut first, 0);
    host.switch_in(&mut second, 0);
    assert_eq!(host.policy.dispatch(0, 0).pick(), Pick::LastOfTwo);
}

/// Two tasks of slots 1 and 3 have the sum of two of slot 2, and another sum of squares.
#[test]
fn sums_tell_groups_apart() {
    for (a, b, pick) in [(1, 3, Pick::Last), (2, 2, Pick::Head), (0, 0, Pick::Head), (0, 3, Pick::Last)] {
        let mut host = Host::new(policy_with_groups("linux-4.15+groups=exact", &machine(1, None, 2, 1), 3));
        for slot in 1..=3 {
            host.policy.group_init(slot, 0, 1024);
        }
        let _tasks = [queued(&mut host, a, 0), queued(&mut host, b, 0)];
        assert_eq!(host.policy.dispatch(0, 0).pick(), pick, "groups {a} and {b}");
    }
}

/// What a host's queue has of a task of the only group that waits is enough for the answer, and leaves the same behind.
#[test]
fn a_queue_of_one_group_tells_what_its_records_say() {
    let mut host = two_groups(1024, 1024);
    let mut runs = running(&mut host, 1, 0);
    let mut tasks = [queued(&mut host, 1, 0), queued(&mut host, 1, 0)];
    tasks[1].entity.vtime += MS;
    for ran_ms in [0, 2] {
        host.policy.tick(0, Some(&mut runs), ran_ms * MS);
        assert_eq!(host.policy.dispatch(0, MS).pick(), Pick::LastOfTwo);
        let asked = tasks.each_mut().map(|task| host.policy.may_run(task, 0, MS).run == 1);
        assert_eq!(asked, [ran_ms > 0, false]);
        let first = host.policy.cpu(0).exact.first;
        host.policy.dispatch(0, MS);
        let told =
            tasks.each_ref().map(|task| host.policy.may_run_told(0, task.entity.vtime, MS, task.weight, 0));
        assert_eq!(told, asked.map(Some));
        let now = host.policy.cpu(0).exact.first;
        assert_eq!((now.v, now.slot, now.weight), (first.v, first.slot, first.weight));
    }
    host.policy.quiescent(&mut runs, MS);
    let _other = queued(&mut host, 2, 0);
    assert_eq!(
        host.policy.may_run_told(0, tasks[0].entity.vtime, MS, 1024, 0),
        None,
        "of which group is it?"
    );
}

/// A wakes 4 ms behind B, which began 10 us ago, and preempts it. Otherwise a task that sleeps for a moment beside one
/// that computes would wait for a tick each time.
#[test]
fn a_task_that_has_just_begun_to_run_is_preempted() {
    let mut host = two_groups(1024, 1024);
    let _b = running(&mut host, 0, 0);
    let mut a = host.task(1024);
    a.entity.lag = -(4 * MS as i64);
    assert_eq!(host.policy.enqueue(&mut a, 0, EnqueueWhy::Wakeup, 10_000).preempt, 1);
}

/// A task of group 1 runs, and two more of its group wait: the tick after 1 ms spares it, and the one after 2 ms, which
/// is more than a slice of 1.5 ms, does not. It is not spared beside a single one, beside a task of group 2, after a
/// wake-up that preempts, and after a yield.
#[test]
fn a_tick_spares_a_task_among_its_own_group_for_a_slice() {
    type Then = fn(&mut Host, &mut Task);
    let wakes_behind = |host: &mut Host, runs: &mut Task| {
        host.policy.tick(0, Some(runs), MS / 2);
        let mut wakee = host.task(1024);
        host.policy.task_group(&mut wakee, 1, 0);
        assert_eq!(host.policy.enqueue(&mut wakee, 0, EnqueueWhy::Wakeup, MS / 2).preempt, 1);
    };
    let cases: [(&[u32], Then, [u32; 2]); 5] = [
        (&[1, 1], |_, _| (), [0, 1]),
        (&[1], |_, _| (), [1, 1]),
        (&[1, 2], |_, _| (), [1, 1]),
        (&[1, 1], wakes_behind, [1, 1]),
        (&[1, 1], |host, runs| host.policy.yields(runs, 0, 0), [1, 1]),
    ];
    for (case, (waiting, then, resched)) in cases.into_iter().enumerate() {
        let mut host = two_groups(1024, 1024);
        let mut runs = running(&mut host, 1, 0);
        let _wait: Vec<Task> = waiting.iter().map(|&slot| queued(&mut host, slot, 0)).collect();
        then(&mut host, &mut runs);
        let ticks = [1, 2].map(|ms| host.policy.tick(0, Some(&mut runs), ms * MS).resched);
        assert_eq!(ticks, resched, "case {case}");
    }
}

/// A waits on CPU 0 behind B; the tick is CPU 1's, which runs B too: A, 2 ms behind B, is worth a pull, and moves.
#[test]
fn a_tick_pulls_from_where_a_group_behind_waits() {
    let mut host = two_groups(1024, 1024);
    let _b = running(&mut host, 2, 0);
    let mut a = queued(&mut host, 1, 0);
    let mut other = running(&mut host, 2, 1);
    assert_eq!(host.policy.tick(1, Some(&mut other), MS / 4).resched, 0, "half a ms behind is not worth it");
    assert_eq!(host.policy.tick(1, Some(&mut other), MS).resched, 1);
    let mut dispatch = host.policy.dispatch(1, MS);
    assert_eq!((dispatch.what(), dispatch.cpu), (DispatchDo::Pull, 0));
    let moved = host.policy.may_move(&mut a, 1, MS, &mut dispatch);
    assert_eq!((moved.r#move, moved.stop, a.cpu), (1, 1, 1));
    assert_eq!(host.policy.dispatch(1, MS).what(), DispatchDo::Own);
    assert_eq!(host.policy.may_run(&mut a, 1, MS).run, 1, "and runs instead of the running task");
}

/// Two tasks of A wait on CPU 0, where nothing runs, and one is taken from the head of the queue without a question.
/// The other waits, and CPU 1, which runs B, finds it at its tick: with four times B's shares, A is 3 ms behind after
/// 4 ms.
#[test]
fn a_tick_pulls_what_waits_behind_a_task_that_was_picked_without_a_question() {
    let mut host = two_groups(4096, 1024);
    let (mut first, mut second) = (queued(&mut host, 1, 0), queued(&mut host, 1, 0));
    assert_eq!(host.policy.dispatch(0, 0).pick(), Pick::Head);
    host.switch_in(&mut first, 0);
    let noted = host.policy.cpu(0).exact.first;
    assert_eq!((noted.v, noted.slot, noted.weight), (first.entity.vtime, 1, 1024));
    let mut b = running(&mut host, 2, 1);
    host.now_ns = 4 * MS;
    host.policy.tick(0, Some(&mut first), 4 * MS);
    assert_eq!(host.policy.tick(1, Some(&mut b), 4 * MS).resched, 1);
    let mut dispatch = host.policy.dispatch(1, 4 * MS);
    assert_eq!((dispatch.what(), dispatch.cpu), (DispatchDo::Pull, 0));
    assert_eq!(host.policy.may_move(&mut second, 1, 4 * MS, &mut dispatch).r#move, 1);
}

/// The tick of CPU 1 at 6 ms comes before that of CPU 0, which read its clock at 5 ms. B runs on both, and its v is
/// what it received: 5 + 5 ms at 5 ms, 14 ms at 7 ms, and not 2^54.
#[test]
fn clocks_that_were_read_in_another_order_add_up() {
    let mut host = two_groups(1024, 1024);
    let mut b = running(&mut host, 2, 0);
    let mut other = running(&mut host, 2, 1);
    let _waits = queued(&mut host, 0, 0);
    let begin = host.policy.group_cpu(2, 0).exact.part;
    host.policy.tick(1, Some(&mut other), 6 * MS);
    assert_eq!(host.policy.group_cpu(2, 0).exact.part - begin, 12 * MS);
    host.policy.tick(0, Some(&mut b), 5 * MS);
    assert_eq!(host.policy.group_cpu(2, 0).exact.part - begin, 10 * MS);
    host.policy.tick(1, Some(&mut other), 7 * MS);
    assert_eq!(host.policy.group_cpu(2, 0).exact.part - begin, 14 * MS);
}

/// B had no task for 10 ms; then A's running task moves to it. B has received nothing until then.
#[test]
fn a_group_that_a_running_task_joins_has_received_nothing() {
    let mut host = two_groups(1024, 1024);
    let mut a = running(&mut host, 1, 0);
    let _waits = queued(&mut host, 0, 0);
    host.policy.tick(0, Some(&mut a), 10 * MS);
    host.policy.task_group(&mut a, 2, 10 * MS);
    let begin = host.policy.group_cpu(2, 0).exact.part;
    host.policy.tick(0, Some(&mut a), 11 * MS);
    assert_eq!(host.policy.group_cpu(2, 0).exact.part - begin, MS);
}

/// CPU 0 read its clock at 1 ms, and a task was queued at 2 ms, before CPU 0 asks. The task has not waited for too
/// long, and the running one, which has received as much, goes on.
#[test]
fn a_task_that_came_after_the_clock_was_read_has_not_starved() {
    let mut host = two_groups(1024, 1024);
    let _a = running(&mut host, 1, 0);
    host.now_ns = 2 * MS;
    let mut b = queued(&mut host, 1, 0);
    host.policy.dispatch(0, MS);
    assert_eq!(host.policy.may_run(&mut b, 0, MS).run, 0);
}

/// n has children x and y. On CPU 0, an LLC, y runs and no task waits; on CPU 1, the other LLC, one task of x runs and
/// one waits. y receives what x could use: the 2 ms for which it runs after CPU 0 has looked, at its tick at 1 ms,
/// count. If no task had waited anywhere, they would not.
#[test]
fn a_group_that_runs_where_none_waits_has_received_it_if_a_task_waits_elsewhere() {
    let (n, x, y) = (1, 2, 3);
    for waits in [true, false] {
        let mut host = Host::new(policy_with_groups("linux-4.15+groups=exact", &machine(2, None, 1, 1), 3));
        host.policy.group_init(n, 0, 1024);
        host.policy.group_init(x, n, 1024);
        host.policy.group_init(y, n, 1024);
        let mut alone = running(&mut host, y, 0);
        let _x = running(&mut host, x, 1);
        let _behind = waits.then(|| queued(&mut host, x, 1));
        host.policy.tick(0, Some(&mut alone), MS);
        let begin = host.policy.group_cpu(y, 0).exact.part;
        host.policy.tick(0, Some(&mut alone), 2 * MS);
        host.policy.tick(0, Some(&mut alone), 3 * MS);
        let received = host.policy.group_cpu(y, 0).exact.part - begin;
        assert_eq!(received, if waits { 2 * MS } else { 0 });
    }
}

/// CPU 0 runs A, and B, 20 ms behind, waits on another CPU, whichever: CPU 0 finds it within as many ticks as there are
/// CPUs. From four LLCs of one CPU to one LLC of four, so that no period of the probes can miss a CPU.
#[test]
fn ticks_look_at_each_cpu_in_turn() {
    for (nodes, cores) in [(2, 2), (4, 1), (2, 4), (4, 4), (3, 4)] {
        let nr_cpus = nodes * cores;
        for other in 1..nr_cpus {
            let mut host = two_groups_on(nodes, cores, 1024, 1024);
            let mut a = running(&mut host, 1, 0);
            let _far = running(&mut host, 1, other);
            let _b = queued(&mut host, 2, other);
            let found = (20u64..20 + u64::from(nr_cpus)).find(|ms| {
                host.now_ns = ms * MS;
                host.policy.tick(0, Some(&mut a), host.now_ns).resched == 1
            });
            assert!(found.is_some(), "{nodes} LLCs of {cores} CPUs: CPU {other} was never probed");
            assert_eq!(host.policy.dispatch(0, host.now_ns).cpu as u32, other);
        }
    }
}

/// An LLC of four CPUs or fewer: each tick finds what waits anywhere in it. There are two such LLCs, or it is all there
/// is.
#[test]
fn a_tick_looks_at_all_of_a_small_llc() {
    for (nodes, cores) in [(1, 2), (1, 3), (1, 4), (2, 2), (2, 4)] {
        for other in 1..cores {
            let mut host = two_groups_on(nodes, cores, 1024, 1024);
            let mut a = running(&mut host, 1, 0);
            let _other = running(&mut host, 1, other);
            assert_eq!(host.policy.tick(0, Some(&mut a), MS).resched, 0, "nothing waits yet");
            let _b = queued(&mut host, 2, other);
            host.now_ns = 20 * MS;
            assert_eq!(host.policy.tick(0, Some(&mut a), host.now_ns).resched, 1, "{cores} CPUs: {other}");
            assert_eq!(host.policy.dispatch(0, host.now_ns).cpu as u32, other);
        }
    }
}

/// One LLC of 4 CPUs, a task on each. A real-time task takes CPU 0 from a task that has received 5 s more than all
/// others. It is not behind anybody, so no tick finds it worth a pull; but CPU 1 is asked to pull it, which its tick
/// does not forget, and after a second it comes.
#[test]
fn what_waits_behind_a_real_time_task_is_pulled_within_a_second_however_far_ahead_it_is() {
    let mut host = Host::new(policy_with_groups("linux-4.15+groups=exact", &machine(1, None, 4, 1), 2));
    let mut ahead = running(&mut host, 0, 0);
    let mut others = [1, 2, 3].map(|cpu| running(&mut host, 0, cpu));
    host.policy.stopping(&mut ahead, 0, 100 * MS, true);
    ahead.entity.vtime += 5000 * MS;
    host.policy.enqueue(&mut ahead, 0, EnqueueWhy::SliceEnd, 100 * MS);
    for (now_ms, pulls) in [(1100, 0), (1101, 1)] {
        let now_ns = now_ms * MS;
        while host.policy.taken(0, now_ns).kick_cpu != 1 {}
        assert_eq!(host.policy.tick(1, Some(&mut others[0]), now_ns).balance_due, 1);
        let mut dispatch = host.policy.dispatch(1, now_ns);
        assert_eq!((dispatch.what(), dispatch.cpu), (DispatchDo::Pull, 0));
        assert_eq!(host.policy.may_move(&mut ahead, 1, now_ns, &mut dispatch).r#move, pulls);
    }
    host.policy.dispatch(1, 1101 * MS);
    assert_eq!(host.policy.may_run(&mut ahead, 1, 1101 * MS).run, 1, "and runs at once");
}
