// SPDX-License-Identifier: GPL-2.0-or-later
//! Sharing a CPU, computed by hand: slices to the nanosecond, delay that equals queueing, weights.

use crate::common::{HOSTS, MS, bound, compute, machine, outcome, scenario, task, values};
use wakelab_policy::EnqueueWhy;
use wakelab_sim::{HostProfile, Observer, run_observed};
use wakelab_workload::Task;

/// Switch-ins and exits: (time, task).
#[derive(Default)]
struct Log {
    switched_in: Vec<(u64, u32)>,
    exited: Vec<(u64, u32)>,
}

impl Observer for Log {
    fn switch_in(&mut self, now_ns: u64, _cpu: u32, task: u32) {
        self.switched_in.push((now_ns, task));
    }
    fn exit(&mut self, now_ns: u64, _cpu: u32, task: u32) {
        self.exited.push((now_ns, task));
    }
}

/// One CPU: latency is 6 ms and two equal tasks get 3 ms each. The first slice ends at the first tick of the CPU's grid
/// that is 3 ms or more after 0, at 3 ms + phase; after that slices begin and end on ticks and last 3 ms exactly.
#[test]
fn two_equal_tasks_take_turns_of_3_ms() {
    for host in HOSTS {
        let tasks = vec![bound(&[0], vec![compute(20 * MS)]), bound(&[0], vec![compute(20 * MS)])];
        let scenario = scenario(machine(1, 1, 1), tasks, host);
        let mut log = Log::default();
        let outcome = run_observed(&scenario, 1, &mut log).unwrap();
        let phase_ns = log.switched_in[1].0 - 3 * MS;
        assert!(phase_ns < MS, "{host:?}: {phase_ns}");
        let mut expected = vec![(0, 0)];
        // Task 0 has run 3 + phase, 3, 3, 3, 3, 3 ms when its sixth turn ends: 2 ms - phase are left.
        expected.extend((1..13).map(|turn| (3 * turn * MS + phase_ns, turn as u32 % 2)));
        expected.retain(|&(at_ns, _)| at_ns < 40 * MS);
        assert_eq!(log.switched_in[..12], expected[..12], "{host:?}");
        assert_eq!(outcome.elapsed_ns, 40 * MS);
        assert_eq!(outcome.task_cpu_time_ns, [20 * MS, 20 * MS]);
        // A task that does not run waits: task 0 waits until its end less its 20 ms, and so does task 1.
        let waited: u64 = log.exited.iter().map(|&(at_ns, _)| at_ns - 20 * MS).sum();
        assert_eq!(outcome.queue_delay.sum_ns, waited);
        assert_eq!(outcome.time.work_ns, 40 * MS);
        assert_eq!(outcome.counts.preemptions, outcome.counts.switches_out - 2);
    }
}

/// Weights 2048 and 1024: slices of 4 and 2 ms.
#[test]
fn weights_divide_the_period() {
    for host in HOSTS {
        let heavy = Task { weight: 2048, ..bound(&[0], vec![compute(100 * MS)]) };
        let light = bound(&[0], vec![compute(50 * MS)]);
        let scenario = scenario(machine(1, 1, 1), vec![heavy, light], host);
        let mut log = Log::default();
        run_observed(&scenario, 3, &mut log).unwrap();
        let turns: Vec<u64> = log.switched_in.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!((4 * MS..5 * MS).contains(&turns[0]), "{host:?}: the first ends at a tick");
        let (light, heavy): (Vec<_>, Vec<_>) =
            turns[1..30].iter().enumerate().partition(|(turn, _)| turn % 2 == 0);
        assert!(light.iter().all(|&(_, &ns)| ns == 2 * MS), "{host:?}: {light:?}");
        assert!(heavy.iter().all(|&(_, &ns)| ns == 4 * MS), "{host:?}: {heavy:?}");
    }
}

/// queue=fair gives every weight the same slice; a task's share depends on how many turns it gets. So tasks of weight
/// 2048 and 1024 with work of 60 and 30 ms end together, at 90 ms, except for the time by which one may be ahead: a
/// slice (0.75 ms) and a tick, and the tick after that. If they took turns, the light one would end at 60 ms.
#[test]
fn eligible_deadlines_share_by_weight() {
    for host in HOSTS {
        let heavy = Task { weight: 2048, ..bound(&[0], vec![compute(60 * MS)]) };
        let light = bound(&[0], vec![compute(30 * MS)]);
        let mut scenario = scenario(machine(1, 1, 1), vec![heavy, light], host);
        scenario.policy = "linux-6.12".parse().unwrap();
        for seed in 1..4 {
            let mut log = Log::default();
            let outcome = run_observed(&scenario, seed, &mut log).unwrap();
            assert_eq!(outcome.elapsed_ns, 90 * MS);
            assert!(log.exited[0].0 > 87 * MS, "{host:?}: {:?}", log.exited);
            assert!(log.switched_in.len() > 30, "{host:?}: slices of a tick or two");
        }
    }
}

/// Tasks shorter than a slice run one after the other: the n-th waits for n - 1 before it.
#[test]
fn delay_equals_queueing() {
    for host in HOSTS {
        let tasks = vec![bound(&[0], vec![compute(500)]); 4];
        let outcome = outcome(&scenario(machine(1, 1, 1), tasks, host));
        assert_eq!(values(&outcome.queue_delay), [0, 500, 1000, 1500], "{host:?}");
        assert_eq!(outcome.elapsed_ns, 2000);
        assert_eq!(outcome.counts.preemptions, 0);
    }
}

/// Two CPUs, four tasks that may run only on CPU 0: CPU 1 is idle, and no task waits that may run there.
#[test]
fn a_task_that_may_not_run_there_makes_no_idle_while_runnable() {
    for host in HOSTS {
        let mut tasks = vec![bound(&[0], vec![compute(500)]); 4];
        let bound_to_0 = outcome(&scenario(machine(1, 2, 1), tasks.clone(), host));
        assert_eq!(bound_to_0.idle_while_runnable_ns, 0, "{host:?}");
        assert_eq!(bound_to_0.time.idle_ns, 2000);
        // The last one may run on CPU 1 too, but fork placement had it queue on the least loaded: CPU 1.
        tasks[3].allowed = None;
        let free = outcome(&scenario(machine(1, 2, 1), tasks, host));
        assert_eq!(free.elapsed_ns, 1500, "{host:?}");
    }
}

/// Records where tasks queue.
#[derive(Default)]
struct Queues(Vec<(u32, u32, EnqueueWhy)>);

impl Observer for Queues {
    fn enqueue(&mut self, _now_ns: u64, cpu: u32, task: u32, why: EnqueueWhy) {
        self.0.push((cpu, task, why));
    }
}

/// After a yield the task with the smallest key runs, which is task 0 itself: task 1 came while it ran, and a new task
/// starts one slice behind. Under mainline task 0 goes back to the queue first; under sched_ext it is put back only if
/// another task runs.
#[test]
fn yielding_queues_again() {
    use wakelab_workload::Op;
    for host in HOSTS {
        let yields = vec![compute(1000), Op::Yield, compute(1000)];
        let tasks = vec![bound(&[0], yields.clone()), bound(&[0], yields)];
        let scenario = scenario(machine(1, 1, 1), tasks, host);
        let (mut log, mut queues) = (Log::default(), Queues::default());
        run_observed(&scenario, 1, &mut log).unwrap();
        run_observed(&scenario, 1, &mut queues).unwrap();
        assert_eq!(log.switched_in, [(0, 0), (2000, 1)], "{host:?}");
        let fork = |task| (0, task, EnqueueWhy::Fork);
        let slice_end = |task| (0, task, EnqueueWhy::SliceEnd);
        let expected = match host {
            HostProfile::SchedExt => vec![fork(0), fork(1)],
            HostProfile::Mainline => vec![fork(0), fork(1), slice_end(0), slice_end(1)],
        };
        assert_eq!(queues.0, expected, "{host:?}");
    }
}

/// Both tasks run for 1,000 ns, yield, and run on. With queue=fair-2025 the other one comes next, because the one that
/// yields forfeits its slice. Did a yield only end the slice, task 1 would go on at 2,000, when its deadline is the
/// earlier one.
#[test]
fn a_task_that_yields_lets_the_other_one_run() {
    use wakelab_workload::Op;
    for host in HOSTS {
        let yields = vec![compute(1000), Op::Yield, compute(1000)];
        let tasks = vec![bound(&[0], yields.clone()), bound(&[0], yields)];
        let mut scenario = scenario(machine(1, 1, 1), tasks, host);
        scenario.policy = "linux-6.17".parse().unwrap();
        let mut log = Log::default();
        run_observed(&scenario, 1, &mut log).unwrap();
        assert_eq!(log.switched_in, [(0, 0), (1000, 1), (2000, 0), (3000, 1)], "{host:?}");
    }
}

/// Active balancing on 2 cores x 2 threads (CPUs 0 and 1 are a core), with two threads at half speed. C and D are bound
/// to core 1 and need 10 ms each: they end at 20 ms. A and B start on core 0, because core 1 is taken, and need 50 ms
/// each. From 20 ms on core 1 is idle; a tick asks it within 4 ms, three more tries follow every 4 ms (at ticks, so
/// each up to 1 ms late), and the fourth pushes one task, at T. Until T both have done T / 2, and then they run at full
/// speed: the end is at T + 50 - T / 2. Under sched_ext no task can be pushed: 100 ms.
#[test]
fn a_running_task_leaves_a_shared_core_after_failed_tries() {
    for host in HOSTS {
        let mut machine = machine(1, 2, 2);
        machine.costs.smt_speed = vec![1024, 512];
        let tasks = vec![
            bound(&[2], vec![compute(10 * MS)]),
            bound(&[3], vec![compute(10 * MS)]),
            task(0, vec![compute(50 * MS)]),
            task(1, vec![compute(50 * MS)]),
        ];
        let mut scenario = scenario(machine, tasks, host);
        scenario.policy = "linux-6.12+balance=load".parse().unwrap();
        for seed in 1..6 {
            let mut log = Log::default();
            let outcome = run_observed(&scenario, seed, &mut log).unwrap();
            if host == wakelab_sim::HostProfile::SchedExt {
                assert_eq!((outcome.counts.pushed, outcome.elapsed_ns), (0, 100 * MS));
                continue;
            }
            assert_eq!(outcome.counts.pushed, 1, "seed {seed}");
            let pushed_ns = log.switched_in.last().unwrap().0;
            assert!((32 * MS..=40 * MS).contains(&pushed_ns), "seed {seed}: {pushed_ns}");
            assert!(
                outcome.elapsed_ns.abs_diff(50 * MS + pushed_ns / 2) <= 2,
                "seed {seed}: {}",
                outcome.elapsed_ns
            );
        }
    }
}

/// The CPU that gives its task away pays for a push.
#[test]
fn a_push_costs_its_time() {
    let mut machine = machine(1, 2, 2);
    machine.costs.push_ns = 7_000;
    let tasks = vec![
        bound(&[2], vec![compute(10 * MS)]),
        bound(&[3], vec![compute(10 * MS)]),
        task(0, vec![compute(50 * MS)]),
        task(1, vec![compute(50 * MS)]),
    ];
    let mut scenario = scenario(machine, tasks, wakelab_sim::HostProfile::Mainline);
    scenario.policy = "linux-6.12".parse().unwrap();
    let outcome = outcome(&scenario);
    assert_eq!((outcome.counts.pushed, outcome.time.switch_ns), (1, 7_000));
}
