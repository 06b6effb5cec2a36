// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that sleep in a queue: kernel/delayed.rs; preemption by a task that would run next: kernel/preempt.rs. Slices
//! are 10 ms, so that no tick ends one. Times are in ms unless they say ns.

use wakelab_sim::{HostProfile, Observer, Outcome, Scenario, run_observed};
use wakelab_workload::Task;

use crate::common::{HOSTS, MS, bound, compute, machine, outcome, scenario, sleep};

fn with_queue(nr_cpus: u32, tasks: Vec<Task>, host: HostProfile, queue: &str) -> Scenario {
    let mut machine = machine(1, nr_cpus, 1);
    machine.costs.select_ns = 300;
    machine.costs.wakeup_ns = 40;
    let policy = format!("linux-6.12+queue={queue}+min-granularity-ns={}", 10 * MS);
    Scenario { policy: policy.parse().unwrap(), ..scenario(machine, tasks, host) }
}

fn on_one_cpu(tasks: Vec<Task>, queue: &str) -> Outcome {
    outcome(&with_queue(1, tasks, HostProfile::Mainline, queue))
}

/// Task 0 computes 4, sleeps, and computes 1; task 1 waits for it.
fn sleeper_and(slept_ns: u64, computes_ns: u64) -> Vec<Task> {
    vec![
        bound(&[0], vec![compute(4 * MS), sleep(slept_ns), compute(MS)]),
        bound(&[0], vec![compute(computes_ns)]),
    ]
}

/// At 4, V is 2 and the first task is beyond it. It wakes at 5. If it is still queued nobody is asked for a CPU; the
/// wake-up itself takes 40 ns. The second task has ended at 9, and the first one runs again.
#[test]
fn a_sleeper_beyond_its_share_wakes_without_a_search() {
    for (queue, select_ns) in [("fair-2023", 300), ("fair-2024", 0), ("fair-2025", 0)] {
        let run = on_one_cpu(sleeper_and(MS, 5 * MS), queue);
        assert_eq!((run.elapsed_ns, run.time.select_ns), (10 * MS + 40 + select_ns, select_ns), "{queue}");
        assert_eq!((run.counts.wakeups, run.counts.preemptions), (1, 0), "{queue}");
    }
}

/// When the second task ends, at 6, the sleeper would run. It leaves, and the CPU idles until 104.
#[test]
fn a_sleeper_that_would_run_leaves_and_the_cpu_idles() {
    for queue in ["fair-2023", "fair-2024", "fair-2025"] {
        let run = on_one_cpu(sleeper_and(100 * MS, 2 * MS), queue);
        assert_eq!((run.elapsed_ns, run.time.select_ns), (105 * MS + 340, 300), "{queue}");
        assert_eq!(run.time.idle_ns, 98 * MS, "{queue}");
    }
}

/// sched_ext's queues hold runnable tasks only, so a task leaves when it sleeps.
#[test]
fn sched_ext_keeps_no_sleepers() {
    let tasks = || vec![bound(&[0], vec![compute(4 * MS), sleep(MS), compute(MS)]); 2];
    for host in HOSTS {
        let run = |queue: &str| outcome(&with_queue(2, tasks(), host, queue)).elapsed_ns;
        assert_eq!(run("fair-2024") == run("fair-2023"), host == HostProfile::SchedExt, "{host:?}");
    }
}

#[derive(Default)]
struct Switches(Vec<(u64, u32, u32)>);

impl Observer for Switches {
    fn switch_in(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.0.push((now_ns, cpu, task));
    }
}

/// CPU 0 has only the sleeper left when its other task ends, at 6. The sleeper leaves, and the CPU, about to idle,
/// pulls task 2, which had to give way to task 3 on CPU 1 at 5.
#[test]
fn a_cpu_with_sleepers_only_pulls() {
    let mut tasks = sleeper_and(100 * MS, 2 * MS);
    tasks.push(Task { last_cpu: Some(1), ..bound(&[0, 1], vec![compute(20 * MS)]) });
    tasks.push(Task { start_ns: 5 * MS, ..bound(&[1], vec![compute(4 * MS)]) });
    let mut switches = Switches::default();
    run_observed(&with_queue(2, tasks, HostProfile::Mainline, "fair-2024"), 1, &mut switches).unwrap();
    assert_eq!(switches.0[..4], [(0, 0, 0), (0, 1, 2), (4 * MS, 0, 1), (5 * MS, 1, 3)]);
    assert_eq!(switches.0[4], (6 * MS, 0, 2));
}

/// Task 0 sleeps from 0 to 2. Task 1 is at 2 then, and task 2 waits at 0, so V is 1 and task 1 is beyond it. Task 0 is
/// placed at V, with deadline 11; task 2's is 10, so it is not task 0 that would run next, and task 1 ends at 4.
fn wakee_behind(weight: u32) -> Vec<Task> {
    vec![
        bound(&[0], vec![sleep(2 * MS), compute(MS)]),
        bound(&[0], vec![compute(4 * MS)]),
        Task { weight, ..bound(&[0], vec![compute(3 * MS)]) },
    ]
}

#[test]
fn a_wakee_that_does_not_come_first_preempts_nobody() {
    for queue in ["fair-2023", "fair-2024", "fair-2025", "fair"] {
        let run = on_one_cpu(wakee_behind(1024), queue);
        assert_eq!((run.elapsed_ns, run.counts.preemptions), (8 * MS + 340, 0), "{queue}");
    }
}

/// The number of preemptions on one CPU under sched_ext, where a task that is bound to a CPU is not searched for.
fn preempted_by_sched_ext(tasks: Vec<Task>, policy: &str) -> u64 {
    let mut scenario = with_queue(1, tasks, HostProfile::SchedExt, "fair");
    scenario.policy = format!("{}+{policy}", scenario.policy).parse().unwrap();
    let run = outcome(&scenario);
    assert_eq!(run.elapsed_ns, 8 * MS + 40);
    run.counts.preemptions
}

/// sched_ext's host looks at what the queue has of task 2. That tells the answer for a task of nice 0 and `fair`. With
/// weight 2048, V is 2/3 and task 2's deadline 5, but the queue does not tell; so task 1 is preempted. The other values
/// of the axis need the task's record.
#[test]
fn sched_ext_looks_where_the_queue_tells() {
    assert_eq!(preempted_by_sched_ext(wakee_behind(1024), "queue=fair"), 0);
    for (weight, policy) in [
        (2048, "queue=fair"),
        (1024, "queue=fair-2023"),
        (1024, "queue=fair-2024"),
        (1024, "queue=fair-2025"),
        (1024, "queue=fair+groups=queues"),
    ] {
        assert_eq!(preempted_by_sched_ext(wakee_behind(weight), policy), 1, "{weight} {policy}");
    }
}

/// Task 0 sleeps from 0 to 8.9. At 4 task 1, at 4 with deadline 5, goes to sleep behind task 2. At 8.9 that is at 4.9
/// and V at 4.45, where task 0 is placed, with deadline 14.45: task 1 would be the next. From Linux 6.18 on it leaves,
/// and task 0 preempts. Before, task 2 goes on to its end at 16, because no tick comes.
#[test]
fn a_sleeper_that_would_be_the_next_leaves_for_an_arrival() {
    for (queue, runs_ns) in [("fair-2024", 16 * MS + 340), ("fair-2025", 89 * MS / 10 + 340)] {
        let mut tasks = sleeper_and(100 * MS, 12 * MS);
        tasks.insert(0, bound(&[0], vec![sleep(89 * MS / 10), compute(MS)]));
        let mut scenario = with_queue(1, tasks, HostProfile::Mainline, queue);
        scenario.machine_mut().costs.tick_period_ns = 100 * MS;
        let mut switches = Switches::default();
        run_observed(&scenario, 1, &mut switches).unwrap();
        assert_eq!(switches.0[..4], [(0, 0, 0), (0, 0, 1), (4 * MS, 0, 2), (runs_ns, 0, 0)], "{queue}");
    }
}

/// At 12 task 0, alone, has got its second slice, to 20, at the arrival of a new task, whose half a slice ends at 17. A
/// new task may preempt; from Linux 6.19 on, and in 6.18's stable releases, it waits.
#[test]
fn a_new_task_preempts_nobody_since_2026() {
    for (queue, begins_ns) in [("fair-2024", 12 * MS), ("fair-2025", 20 * MS)] {
        let tasks = vec![
            bound(&[0], vec![compute(20 * MS)]),
            Task { start_ns: 12 * MS, ..bound(&[0], vec![compute(MS)]) },
        ];
        let mut scenario = with_queue(1, tasks, HostProfile::Mainline, queue);
        scenario.machine_mut().costs.tick_period_ns = 100 * MS;
        let mut switches = Switches::default();
        run_observed(&scenario, 1, &mut switches).unwrap();
        assert_eq!(switches.0[1], (begins_ns, 0, 1), "{queue}");
    }
}
