// SPDX-License-Identifier: GPL-2.0-or-later
//! Whose waiting blocked tasks pay for: chains by hand, then whole models against a slow account of the same rule,
//! which follows the chain of each blocked task at each moment.

use std::collections::BTreeMap;

use wakelab_machine::Machine;
use wakelab_policy::WAKE_IRQ;
use wakelab_sim::{
    Cause, HostProfile, Observer, Outcome, Passed, Scenario, Waits, run_explained, run_observed,
};
use wakelab_workload::{Op, Source, Task, Workload};

use crate::common::{HOSTS, bound, child, compute, machine, recv, scenario, send};

fn named(name: &str, task: Task) -> Task {
    Task { name: name.into(), ..task }
}

fn judged(name: &str, task: Task) -> Task {
    Task { judged: true, ..named(name, task) }
}

fn waits(scenario: &Scenario) -> Waits {
    let outcome = run_explained(scenario, 1, 0).unwrap_or_else(|error| panic!("{error}"));
    outcome.waits.expect("it was asked for")
}

/// Work, outside, waiting by who waited, and waiting by cause.
fn expect(waits: &Waits, work_ns: u64, outside_ns: u64, by_who: &[(&str, u64)], causes: &[(&str, u64)]) {
    let Passed { by_who: found_who, causes: found_causes, waiting_ns, .. } = &waits.passed;
    let name = |who: u32| waits.who[who as usize].name.clone();
    let cause = |&(cause, ns): &(Cause, u64)| match cause {
        Cause::Behind(who) => (format!("behind {}", name(who)), ns),
        other => (format!("{other:?}"), ns),
    };
    let texts =
        |list: &[(&str, u64)]| list.iter().map(|&(name, ns)| (name.to_owned(), ns)).collect::<Vec<_>>();
    assert_eq!((waits.passed.work_ns, waits.passed.outside_ns), (work_ns, outside_ns), "{waits:?}");
    assert_eq!(found_who.iter().map(|&(who, ns)| (name(who), ns)).collect::<Vec<_>>(), texts(by_who));
    assert_eq!(found_causes.iter().map(cause).collect::<Vec<_>>(), texts(causes));
    assert_eq!(by_who.iter().map(|(_, ns)| ns).sum::<u64>(), *waiting_ns);
}

/// `a` asks `b` at 10 and is blocked until `b` answers. `c`, which is not asked for anything, has the CPU of `b`
/// until 500; then `b` runs until 600. Of the 590 ns of `a`, 490 are `b` waiting behind `c`, and 100 its work.
#[test]
fn a_waits_for_b_which_waits_behind_c() {
    for host in HOSTS {
        let tasks = vec![
            judged("a", bound(&[0], vec![compute(10), send(0), recv(1)])),
            named("c", bound(&[1], vec![compute(500)])),
            named("b", bound(&[1], vec![recv(0), compute(100), send(1)])),
        ];
        let waits = waits(&scenario(machine(1, 2, 1), tasks, host));
        // `b` first ran into its recv() behind `c`, too: it was not blocked yet when `a` was.
        expect(&waits, 100, 0, &[("b", 490)], &[("behind c", 490)]);
        assert_eq!(
            waits.by_name.iter().map(|name| name.sum_ns).sum::<u64>(),
            0,
            "its own waiting is another"
        );
    }
}

/// `b` needs `d` for its answer, which is ready for that at 0 and waits behind `c` until 500. `b` runs from 10 to
/// 210 and is blocked for `d` from there on: what `d` waited before does not count. `d` takes 40, `b` 100 more.
#[test]
fn only_waiting_that_holds_up_the_chain_counts() {
    let tasks = |second: Op| {
        vec![
            judged("a", bound(&[0], vec![compute(10), send(0), recv(1)])),
            named("c", bound(&[2], vec![compute(500)])),
            named("b", bound(&[1], vec![recv(0), compute(200), recv(2), compute(100), send(1)])),
            named("d", bound(&[2], vec![second, compute(40), send(2)])),
        ]
    };
    let found = waits(&scenario(machine(1, 3, 1), tasks(compute(0)), HostProfile::Mainline));
    expect(&found, 200 + 40 + 100, 0, &[("d", 290)], &[("behind c", 290)]);
    // Where `d` sleeps until 700, the time is nobody's waiting: it runs from 500 on, into its sleep.
    let sleeps = Op::Sleep { delay_ns: 200, source: Source::Device };
    let found = waits(&scenario(machine(1, 3, 1), tasks(sleeps), HostProfile::Mainline));
    expect(&found, 200 + 40 + 100, 200, &[("d", 290)], &[("behind c", 290)]);
}

/// Two judged tasks wait for the same one: each of them pays.
#[test]
fn each_blocked_task_pays() {
    let asks = |channel| bound(&[0], vec![send(0), recv(channel)]);
    let tasks = vec![
        judged("a", asks(1)),
        judged("a", asks(2)),
        named("c", bound(&[1], vec![compute(500)])),
        named("b", bound(&[1], vec![recv(0), recv(0), compute(100), send(1), send(2)])),
    ];
    let waits = waits(&scenario(machine(1, 2, 1), tasks, HostProfile::Mainline));
    expect(&waits, 200, 0, &[("b", 1_000)], &[("behind c", 1_000)]);
}

/// A parent waits for its child, which waits behind `c` until 500, runs, and makes another child, which waits
/// behind `e` from 530 until 600. Neither had begun when the parent was blocked.
#[test]
fn parents_pay_for_their_children() {
    let on = |cpu, parent, program| Task { allowed: Some(vec![cpu]), ..child(parent, program) };
    let tasks = vec![
        named("c", bound(&[1], vec![compute(500)])),
        named("e", bound(&[2], vec![compute(600)])),
        judged("a", bound(&[0], vec![Op::Fork { task: 3 }, Op::Join])),
        named("b", on(1, 2, vec![compute(30), Op::Fork { task: 4 }, Op::Join])),
        named("d", on(2, 3, vec![compute(70)])),
    ];
    let waits = waits(&scenario(machine(1, 3, 1), tasks, HostProfile::SchedExt));
    expect(&waits, 100, 0, &[("b", 500), ("d", 70)], &[("behind c", 500), ("behind e", 70)]);
}

/// What each task did, as spans of time: the slow account.
#[derive(Default)]
struct Spans {
    tasks: Vec<Vec<(u64, State)>>,
    begin_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Unborn(Option<u32>),
    Runs,
    Waits,
    Blocked(Option<u32>),
}

impl Spans {
    fn push(&mut self, now_ns: u64, task: u32, state: State) {
        self.tasks[task as usize].push((now_ns, state));
    }

    fn at(&self, task: u32, now_ns: u64) -> State {
        let spans = &self.tasks[task as usize];
        spans[spans.partition_point(|(since_ns, _)| *since_ns <= now_ns) - 1].1
    }
}

impl Observer for Spans {
    fn stopped(&mut self, now_ns: u64, _cpu: u32, task: u32, _ran_ns: u64) {
        self.push(now_ns, task, State::Blocked(None));
    }
    fn wait(&mut self, now_ns: u64, task: u32) {
        self.push(now_ns, task, State::Waits);
    }
    fn keep(&mut self, now_ns: u64, _cpu: u32, task: u32) {
        self.push(now_ns, task, State::Runs);
    }
    fn waited(&mut self, now_ns: u64, _cpu: u32, task: u32, _waited_ns: u64) {
        self.push(now_ns, task, State::Runs);
    }
    fn fork(&mut self, _now_ns: u64, _cpu: u32, parent: u32, child: u32) {
        self.tasks[child as usize][0].1 = State::Unborn(Some(parent));
    }
    fn wake(&mut self, _now_ns: u64, _cpu: u32, waker: Option<u32>, wakee: u32, flags: u32) {
        let spans = &mut self.tasks[wakee as usize];
        let blocked = spans.len() - 2;
        assert_eq!(spans[blocked].1, State::Blocked(None));
        spans[blocked].1 = State::Blocked(Some(waker.filter(|_| flags & WAKE_IRQ == 0).unwrap_or(u32::MAX)));
    }
    fn begin(&mut self, now_ns: u64) {
        self.begin_ns = now_ns;
    }
}

/// Work, outside, and waiting by task: at each moment between two events, where the chain of each blocked task
/// ends.
fn slow(scenario: &Scenario, seed: u64) -> (u64, u64, BTreeMap<u32, u64>) {
    let unborn = vec![(0, State::Unborn(None))];
    let mut spans = Spans { tasks: vec![unborn; scenario.workload.tasks.len()], begin_ns: 0 };
    run_observed(scenario, seed, &mut spans).unwrap();
    let mut times: Vec<u64> = spans.tasks.iter().flatten().map(|(time_ns, _)| *time_ns).collect();
    times.extend([spans.begin_ns]);
    times.retain(|time_ns| *time_ns >= spans.begin_ns);
    times.sort_unstable();
    times.dedup();
    let all = !scenario.workload.tasks.iter().any(|task| task.judged);
    let (mut work_ns, mut outside_ns, mut waiting) = (0, 0, BTreeMap::new());
    for pair in times.windows(2) {
        let ns = pair[1] - pair[0];
        for task in 0..spans.tasks.len() as u32 {
            let is_judged = all || scenario.workload.tasks[task as usize].judged;
            if !is_judged || !matches!(spans.at(task, pair[0]), State::Blocked(Some(_))) {
                continue;
            }
            let mut at = task;
            loop {
                match spans.at(at, pair[0]) {
                    State::Blocked(Some(u32::MAX)) | State::Unborn(None) => outside_ns += ns,
                    State::Blocked(Some(next)) | State::Unborn(Some(next)) => {
                        at = next;
                        continue;
                    }
                    State::Blocked(None) => panic!("task {at} is never woken, and wakes another one"),
                    State::Runs => work_ns += ns,
                    State::Waits => *waiting.entry(at).or_insert(0) += ns,
                }
                break;
            }
        }
    }
    (work_ns, outside_ns, waiting)
}

#[test]
fn models_agree_with_the_slow_account() {
    let mut sum_ns = 0;
    for spec in [
        "hackbench:groups=1,fds=2,loops=2",
        "pingpong:pairs=2,loops=10",
        "schbench:runtime-ms=1,threads=2",
        "kernbench:jobs=2,files=4",
    ] {
        let workload = Workload::parse_spec(spec).unwrap();
        for policy in ["linux-4.15", "linux-6.12"] {
            for only_first in [false, true] {
                let mut scenario =
                    scenario(Machine::preset("smp-8").unwrap(), Vec::new(), HostProfile::Mainline);
                scenario.policy = policy.parse().unwrap();
                let mut workload = workload.clone();
                workload.tasks[0].judged = only_first;
                scenario.workload = workload.into();
                let Outcome { waits, .. } = run_explained(&scenario, 3, 0).unwrap();
                let waits = waits.unwrap();
                let (work_ns, outside_ns, by_task) = slow(&scenario, 3);
                let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
                for (task, ns) in by_task {
                    *by_name.entry(&scenario.workload.tasks[task as usize].name).or_default() += ns;
                }
                let mut found: BTreeMap<&str, u64> = BTreeMap::new();
                for (who, ns) in &waits.passed.by_who {
                    *found.entry(&waits.who[*who as usize].name).or_default() += ns;
                }
                assert_eq!(found, by_name, "{spec} {policy}");
                assert_eq!((waits.passed.work_ns, waits.passed.outside_ns), (work_ns, outside_ns), "{spec}");
                sum_ns += waits.passed.waiting_ns;
            }
        }
    }
    assert!(sum_ns > 0);
}
