// SPDX-License-Identifier: GPL-2.0-or-later
//! How long a runnable task waits (policy/wait.h): the cases in which weights alone let it wait for many seconds, and
//! random mixes of weights, affinities and task groups.

use std::env;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wakelab_policy::{EnqueueWhy, PolicySpec};
use wakelab_sim::{HostProfile, Observer, Scenario, run_observed};
use wakelab_workload::{Group, Task};

use crate::common::{HOSTS, MS, bound, compute, machine, scenario, sleep};

/// What no task of these tests waits for.
const LONGEST_NS: u64 = 2_000 * MS;

/// A nice value's weight, and the least that scx_wakelab gives (SCHED_IDLE, `cpu.weight` of 1).
const NICE_19: u32 = 15;
const NICE_MINUS_20: u32 = 88761;
const IDLE: u32 = 10;

/// Follows since when each task waits, and notes the longest time.
struct Waits {
    since_ns: Vec<Option<u64>>,
    longest_ns: u64,
}

impl Waits {
    fn end(&mut self, task: u32, now_ns: u64) {
        if let Some(since_ns) = self.since_ns[task as usize].take() {
            self.longest_ns = self.longest_ns.max(now_ns - since_ns);
        }
    }
}

impl Observer for Waits {
    fn enqueue(&mut self, now_ns: u64, _cpu: u32, task: u32, why: EnqueueWhy) {
        // A task that is put back waits from the switch to another one on, because the CPU may go on with it.
        if why != EnqueueWhy::SliceEnd {
            self.since_ns[task as usize].get_or_insert(now_ns);
        }
    }

    fn switch_in(&mut self, now_ns: u64, _cpu: u32, task: u32) {
        self.end(task, now_ns);
    }

    fn switch_out(&mut self, now_ns: u64, _cpu: u32, task: u32, runnable: bool) {
        if runnable {
            self.since_ns[task as usize] = Some(now_ns);
        }
    }
}

/// The longest time for which a task of the scenario waited, those included that wait when it ends.
fn longest_wait_ns(scenario: &Scenario, seed: u64) -> u64 {
    let mut waits = Waits { since_ns: vec![None; scenario.workload.tasks.len()], longest_ns: 0 };
    let outcome = run_observed(scenario, seed, &mut waits).unwrap_or_else(|error| panic!("{error}"));
    (0..waits.since_ns.len() as u32).for_each(|task| waits.end(task, outcome.elapsed_ns));
    waits.longest_ns
}

/// A policy as it is behind a watchdog, on either host.
fn bounded(policy: &PolicySpec) -> PolicySpec {
    policy.clone().behind_watchdog()
}

fn on(nr_cpus: u32, tasks: Vec<Task>, policy: &PolicySpec, host: HostProfile, limit_ns: u64) -> Scenario {
    let mut machine = machine(1, nr_cpus, 1);
    machine.costs.tick_period_ns = 4 * MS;
    Scenario { policy: policy.clone(), limit_ns, ..scenario(machine, tasks, host) }
}

/// `hogs` and one task of another weight compute on CPU 0.
fn beside_hogs(hogs: u32, hog_weight: u32, weight: u32) -> Vec<Task> {
    let spins = |weight| Task { weight, ..bound(&[0], vec![compute(3_600_000 * MS)]) };
    let mut tasks = vec![spins(hog_weight); hogs as usize];
    tasks.push(spins(weight));
    tasks
}

const CASES: [(u32, u32, u32); 3] = [(1, NICE_MINUS_20, NICE_19), (40, 1024, IDLE), (8, 1024, IDLE)];

#[test]
fn the_lightest_task_waits_for_two_seconds_at_most() {
    for (hogs, hog_weight, weight) in CASES {
        for named in PolicySpec::named() {
            for host in HOSTS {
                let tasks = beside_hogs(hogs, hog_weight, weight);
                let scenario = on(1, tasks, &bounded(&named.spec), host, 20_000 * MS);
                let longest_ns = longest_wait_ns(&scenario, 1);
                assert!(longest_ns <= LONGEST_NS, "{hogs} hogs, {}, {host:?}: {longest_ns} ns", named.name);
            }
        }
    }
}

/// Linux has no bound, so its policies have none on its own host: the first case of the above.
#[test]
fn under_linux_itself_it_waits_for_as_long_as_its_weight_says() {
    for (named, host, waits) in [
        ("linux-6.12", HostProfile::Mainline, true),
        ("linux-6.12", HostProfile::SchedExt, false),
        ("linux-6.12+wait-max-ns=0", HostProfile::SchedExt, true),
        ("linux-6.12+groups=exact", HostProfile::Mainline, false),
    ] {
        let (hogs, hog_weight, weight) = CASES[0];
        let scenario =
            on(1, beside_hogs(hogs, hog_weight, weight), &named.parse().unwrap(), host, 10_000 * MS);
        assert_eq!(longest_wait_ns(&scenario, 1) > 5_000 * MS, waits, "{named}, {host:?}");
    }
}

/// A crowd of light tasks beside one of nice -20: each gets a tick in 1.25 s, a third of the CPU, where one tick in a
/// second would be two fifths.
#[test]
fn overdue_tasks_leave_the_cpu_to_others_in_between() {
    for policy in ["wakelab", "linux-4.15"] {
        let mut tasks = beside_hogs(100, IDLE, NICE_MINUS_20);
        tasks.rotate_right(1);
        let scenario = on(1, tasks, &policy.parse().unwrap(), HostProfile::SchedExt, 20_000 * MS);
        let outcome = wakelab_sim::run(&scenario, 1).unwrap();
        let hog_ns = outcome.task_cpu_time_ns[0];
        assert!(hog_ns > 13_000 * MS, "{policy}: {hog_ns} ns of 20 s");
        assert!(longest_wait_ns(&scenario, 1) <= LONGEST_NS, "{policy}");
    }
}

fn any_weight() -> impl Strategy<Value = u32> {
    prop_oneof![Just(IDLE), Just(NICE_19), Just(1024), Just(NICE_MINUS_20), IDLE..=NICE_MINUS_20]
}

/// A task of any weight that computes all the time, or sleeps in between, on some of 4 CPUs, in a group or none.
fn any_task() -> impl Strategy<Value = Task> {
    let program = (any::<bool>(), 1..20u64, 1..40u64);
    let group = prop::option::of(0..3u32);
    (any_weight(), 1..16u32, program, 0..100u64, group).prop_map(
        |(weight, mask, (sleeps, work_ms, sleep_ms), start, group)| {
            let cpus: Vec<u32> = (0..4).filter(|cpu| mask >> cpu & 1 != 0).collect();
            let mut program = vec![compute(3_600_000 * MS)];
            if sleeps {
                program = [compute(work_ms * MS), sleep(sleep_ms * MS)].repeat(200);
            }
            Task { weight, group, start_ns: start * MS, ..bound(&cpus, program) }
        },
    )
}

/// The shares of 3 groups, of which the last may be in the first: of a `cpu.weight` of 1 to 10,000; or no groups.
fn any_groups() -> impl Strategy<Value = Vec<Group>> {
    let shares = prop_oneof![Just(10u32), Just(1024), Just(102_400), 10..=102_400u32];
    let groups = (prop::collection::vec(shares, 3), prop::option::of(Just(0)));
    let named = |(shares, outer): (Vec<u32>, Option<u32>)| {
        let parent = |group: usize| outer.filter(|_| group == 2);
        let group =
            |(number, shares)| Group { name: "g".into(), parent: parent(number), shares, quota: None };
        shares.into_iter().enumerate().map(group).collect()
    };
    prop_oneof![Just(Vec::new()), groups.prop_map(named)]
}

fn any_policy() -> impl Strategy<Value = PolicySpec> {
    let named: Vec<PolicySpec> = PolicySpec::named().iter().map(|named| named.spec.clone()).collect();
    let more = ["linux-6.12+queue=fair-2023", "linux-6.12+queue=fair-2024", "linux-6.12+queue=fair-2025"];
    let groups = ["wakelab+groups=shares", "wakelab+groups=load", "linux-6.12+queue=fair-2024+groups=queues"];
    let others = more.into_iter().chain(groups).map(|text| text.parse().unwrap());
    prop::sample::select(named.into_iter().chain(others).collect::<Vec<_>>())
}

/// 300 mixes, or as many as the environment's MIXES says.
#[test]
fn in_a_random_mix_no_task_waits_for_longer_than_two_seconds() {
    let cases = env::var("MIXES").map_or(300, |mixes| mixes.parse().expect("a number of mixes"));
    let tasks = prop::collection::vec(any_task(), 2..100);
    let mix = (tasks, any_groups(), any_policy(), prop::sample::select(&HOSTS[..]));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&mix, |(mut tasks, groups, policy, host)| {
        let number = (tasks.len(), groups.len());
        if groups.is_empty() {
            tasks.iter_mut().for_each(|task| task.group = None);
        }
        let mut scenario = on(4, tasks, &bounded(&policy), host, 6_000 * MS);
        scenario.workload_mut().groups = groups;
        let longest_ns = longest_wait_ns(&scenario, 1);
        prop_assert!(
            longest_ns <= LONGEST_NS,
            "{number:?} tasks and groups under {policy}, {host:?}: {longest_ns} ns"
        );
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
