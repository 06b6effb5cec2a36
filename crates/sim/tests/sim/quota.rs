// SPDX-License-Identifier: GPL-2.0-or-later
//! Bandwidth control (cpu.max) of task groups: how much they get, what becomes of their tasks, and that nothing else
//! changes. Everything is free, the tick is 1 ms.

use proptest::prelude::*;
use wakelab_sim::{Ending, HostProfile, Observer, Outcome, Scenario, run_observed};
use wakelab_workload::{End, Group, Op, Quota, Task};

use crate::common::{MS, bound, compute, machine, outcome, scenario, sleep, task};

/// What a CPU takes at once, and how much later than it should a tick may find that it has used it up.
const SLICE_NS: u64 = 5 * MS;
const TICK_NS: u64 = MS;

fn group(parent: Option<u32>, quota: Option<(u64, u64)>) -> Group {
    let quota =
        quota.map(|(quota_ms, period_ms)| Quota { quota_ns: quota_ms * MS, period_ns: period_ms * MS });
    Group { name: "g".into(), parent, shares: 1024, quota }
}

fn spin() -> Vec<Op> {
    vec![Op::LoopBegin { times: None }, compute(1000 * MS), Op::LoopEnd]
}

fn in_group(group: u32, task: Task) -> Task {
    Task { group: Some(group), ..task }
}

fn with_groups(nr_cpus: u32, groups: &[Group], tasks: Vec<Task>, ms: Option<u64>) -> Scenario {
    let mut scenario = scenario(machine(1, nr_cpus, 1), tasks, HostProfile::Mainline);
    scenario.workload_mut().groups = groups.to_vec();
    if let Some(ms) = ms {
        scenario.workload_mut().end = End::After { duration_ns: ms * MS };
    }
    scenario
}

/// The parts of a CPU that groups received, in thousandths.
fn parts(run: &Outcome, ms: u64) -> Vec<u64> {
    run.groups.iter().map(|group| group.cpu_time_ns * 1000 / (ms * MS)).collect()
}

const POLICIES: [&str; 4] = ["linux-4.15", "linux-6.12", "linux-6.17", "wakelab"];

/// Alone on a CPU, a task gets the quota of its group, and the CPU idles for the rest of each period.
#[test]
fn a_group_gets_its_quota_and_no_more() {
    for policy in POLICIES {
        let groups = [group(None, Some((3, 10)))];
        let mut scenario = with_groups(1, &groups, vec![in_group(0, bound(&[0], spin()))], Some(10_000));
        scenario.policy = policy.parse().unwrap();
        let run = outcome(&scenario);
        let part = parts(&run, 10_000)[0];
        assert!(part.abs_diff(300) <= 1, "{policy}: {part}");
        let throttled_ms = run.groups[0].throttled_ns.expect("it has a quota") / MS;
        assert!(throttled_ms.abs_diff(7000) <= 10, "{policy}: {throttled_ms}");
        // Behind sched_ext the kernel limits nobody.
        scenario.host = HostProfile::SchedExt;
        let run = outcome(&scenario);
        assert_eq!((parts(&run, 10_000)[0], run.groups[0].throttled_ns), (1000, None), "{policy}");
    }
}

/// Two CPUs: four tasks share the quota of their group, and another task gets most of what they leave of its CPU.
#[test]
fn a_quota_is_for_all_cpus_together() {
    for policy in POLICIES {
        let groups = [group(None, Some((50, 100)))];
        let mut tasks: Vec<Task> = (0..4).map(|cpu| in_group(0, task(cpu % 2, spin()))).collect();
        tasks.push(task(0, spin()));
        let mut scenario = with_groups(2, &groups, tasks, Some(10_000));
        scenario.policy = policy.parse().unwrap();
        let run = outcome(&scenario);
        let part = parts(&run, 10_000)[0];
        assert!(part.abs_diff(500) <= 6, "{policy}: {part}");
        let other = run.task_cpu_time_ns[4] / (10 * MS);
        assert!(other > 750, "{policy}: {other}");
    }
}

/// The group above limits both of the groups in it; one of them is limited more tightly.
#[test]
fn groups_in_groups_keep_both_quotas() {
    let groups = [group(None, Some((40, 100))), group(Some(0), Some((10, 100))), group(Some(0), None)];
    let tasks = vec![in_group(1, bound(&[0], spin())), in_group(2, bound(&[0], spin()))];
    let run = outcome(&with_groups(1, &groups, tasks, Some(10_000)));
    for (part, expected) in parts(&run, 10_000).into_iter().zip([400, 100, 300]) {
        assert!(part.abs_diff(expected) <= 3, "{part}, expected {expected}");
    }
    assert_eq!(run.groups[2].throttled_ns, None, "only the group above has a quota");
}

/// 20 ms of work at 2 ms in each 10: the first two periods' quotas may be used within 12 ms, and the last millisecond
/// comes after the eighth period. Then the task wakes another one, outside the group.
#[test]
fn work_ends_when_the_quota_lets_it() {
    let waits = bound(&[0], vec![Op::Wait { signal: 0 }, compute(MS)]);
    let works = bound(&[0], vec![compute(20 * MS), Op::Signal { signal: 0, sync: false }]);
    let run = outcome(&with_groups(1, &[group(None, Some((2, 10)))], vec![in_group(0, works), waits], None));
    assert_eq!(run.ending, Ending::Completed);
    let ms = run.makespan_ns / MS;
    assert!((80..=101).contains(&ms), "{ms}");
}

/// Tasks that wait for each other for ever are still found to do so.
#[test]
fn a_deadlock_is_one_with_a_quota_too() {
    let waits = |signal| in_group(0, task(0, vec![compute(9 * MS), Op::Wait { signal }]));
    let run = outcome(&with_groups(1, &[group(None, Some((2, 10)))], vec![waits(0), waits(1)], None));
    assert_eq!(run.ending, Ending::Deadlock { waiting: 2 });
}

/// When a group ran: from, to.
#[derive(Default)]
struct Ran(Vec<(u64, u64)>);

impl Observer for Ran {
    fn stopped(&mut self, now_ns: u64, _: u32, task: u32, ran_ns: u64) {
        // The last task is in no group.
        if task != 0 {
            self.0.push((now_ns - ran_ns, now_ns));
        }
    }
}

/// A task in the group: bursts and pauses in ms, and whether it begins on CPU 0.
fn any_task() -> impl Strategy<Value = (Vec<(u64, u64)>, u32)> {
    (prop::collection::vec((1..12u64, 0..9u64), 1..12), 0..3u32)
}

fn bursts(bursts: &[(u64, u64)]) -> Vec<Op> {
    bursts.iter().flat_map(|&(work_ms, pause_ms)| [compute(work_ms * MS), sleep(pause_ms * MS)]).collect()
}

fn any_scenario() -> impl Strategy<Value = Scenario> {
    let policy = prop::sample::select(POLICIES.to_vec());
    let tasks = prop::collection::vec(any_task(), 1..8);
    (policy, tasks, 1..4u32, 1..20u64, 5..30u64).prop_map(|(policy, drawn, nr_cpus, quota_ms, period_ms)| {
        let mut tasks = vec![task(0, bursts(&[(20, 3), (30, 1)]))];
        tasks.extend(drawn.iter().map(|(ops, cpu)| in_group(0, task(cpu % nr_cpus, bursts(ops)))));
        let mut scenario = with_groups(nr_cpus, &[group(None, Some((quota_ms, period_ms)))], tasks, None);
        scenario.policy = policy.parse().unwrap();
        scenario
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// In any time a group gets at most the quotas of the periods that it touches, and what its CPUs may have had
    /// before: a slice each, and the tick that finds it used up. All work is done in the end.
    #[test]
    fn no_group_gets_more_than_its_quota(scenario in any_scenario(), seed: u64) {
        let mut ran = Ran::default();
        let run = run_observed(&scenario, seed, &mut ran).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(run.ending, Ending::Completed);
        let Some(Quota { quota_ns, period_ns }) = scenario.workload.groups[0].quota else { unreachable!() };
        let nr_cpus = scenario.machine.topology.nr_cpus() as u64;
        for (index, &(from_ns, _)) in ran.0.iter().enumerate().step_by(3) {
            for (_, to_ns) in ran.0.iter().skip(index) {
                let within = |&(begin, end): &(u64, u64)| end.min(*to_ns).saturating_sub(begin.max(from_ns));
                let used_ns: u64 = ran.0.iter().map(within).sum();
                let periods = (to_ns - from_ns) / period_ns + 2;
                let most_ns = periods * quota_ns + nr_cpus * (SLICE_NS + TICK_NS);
                prop_assert!(used_ns <= most_ns, "{} ns from {} to {}, at most {}", used_ns, from_ns, to_ns, most_ns);
            }
        }
    }

    /// A quota that is never used up is as good as none, in every detail.
    #[test]
    fn a_quota_that_suffices_changes_nothing(scenario in any_scenario(), seed: u64) {
        let mut enough = scenario.clone();
        enough.workload_mut().groups[0].quota = Some(Quota { quota_ns: 10_000 * MS, period_ns: 5 * MS });
        let mut without = scenario;
        without.workload_mut().groups[0].quota = None;
        let mut run = wakelab_sim::run(&enough, seed).unwrap();
        prop_assert_eq!(run.groups[0].throttled_ns.take(), Some(0));
        prop_assert_eq!(run, wakelab_sim::run(&without, seed).unwrap());
    }
}
