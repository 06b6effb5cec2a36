// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the waiting went, of outcomes made by hand: the kinds of causes, the table, the sentence of the verdict.

mod common;

use std::sync::Arc;

use wakelab_machine::Machine;
use wakelab_report::{Comparison, Style};
use wakelab_sim::{Cause, HostProfile, NameWaits, Outcome, Passed, Scenario, Waits, Who};
use wakelab_workload::{Op, Task, Workload};

use crate::common::validate;

const MS: u64 = 1_000_000;
/// The tasks: a service of two names, another task, and a kernel thread.
const NAMES: [(&str, bool); 4] = [("db", true), ("log", true), ("batch", false), ("ksoftirqd/1", false)];

fn scenarios() -> Vec<Scenario> {
    let mut workload = Workload::parse_spec("pingpong:pairs=1").unwrap();
    let task = |(name, judged): (&str, bool)| Task {
        judged,
        ..Task::new(name, 0, vec![Op::Compute { work_ns: 1, spread_percent: 0 }])
    };
    workload.tasks = NAMES.map(task).into();
    let scenario = |policy: &str| Scenario {
        machine: Machine::preset("smp-8").unwrap().into(),
        workload: Arc::new(workload.clone()),
        policy: policy.parse().unwrap(),
        host: HostProfile::Mainline,
        limit_ns: 1000 * MS,
        limit_events: wakelab_sim::LIMIT_EVENTS,
    };
    ["linux-4.15", "linux-6.12"].map(scenario).into()
}

/// A run in which `db` waited for these causes.
fn outcome(seed: u64, causes: &[(Cause, u64)], idle_elsewhere_ns: u64) -> Outcome {
    let sum_ns = causes.iter().map(|(_, ns)| ns).sum();
    let by_name = NameWaits { who: 0, waits: 10, sum_ns, idle_elsewhere_ns, causes: causes.to_vec() };
    let who = NAMES.map(|(name, judged)| Who { name: name.into(), judged }).into();
    // Blocked for five times its own waiting: two parts of work, one of a timer, and twice the same causes of `batch`.
    let passed = Passed {
        work_ns: 2 * sum_ns,
        outside_ns: sum_ns,
        waiting_ns: 2 * sum_ns,
        by_who: vec![(2, 2 * sum_ns)],
        causes: causes.iter().map(|&(cause, ns)| (cause, 2 * ns)).collect(),
    };
    let waits = Waits { who, by_name: vec![by_name], longest: Vec::new(), passed };
    Outcome { seed, makespan_ns: 100 * MS + seed, waits: Some(waits), ..Outcome::default() }
}

/// The baseline waits 10 ms: 4 behind the service, 3 behind `batch`, 1 behind the kernel thread, 2 for an idle exit.
/// The other waits 20 ms: 8 of the 10 ms more are behind `batch`, and 1 behind itself.
fn outcomes() -> Vec<Vec<Outcome>> {
    let causes = |own: u64, others: u64, exit: u64| {
        vec![
            (Cause::Behind(0), 3 * MS),
            (Cause::Behind(1), own * MS),
            (Cause::Behind(2), others * MS),
            (Cause::Behind(3), MS),
            (Cause::IdleExit, exit * MS),
        ]
    };
    let runs = |own, others, exit, elsewhere: u64| {
        [1, 2].map(|seed| outcome(seed, &causes(own, others, exit), elsewhere * MS)).to_vec()
    };
    vec![runs(1, 3, 2, 0), runs(2, 11, 3, 6)]
}

#[test]
fn the_table_by_hand() {
    let (scenarios, outcomes) = (scenarios(), outcomes());
    let names = ["linux-4.15".to_owned(), "linux-6.12".to_owned()];
    let comparison = Comparison::new(&scenarios, &names, &outcomes).unwrap();
    let text = comparison.text(&Style::default());
    let begin = text.find("Where the waiting").expect("there is a table");
    let end = text.find("Where the time").unwrap_or(text.len());
    insta::assert_snapshot!("waiting", text[begin..end].trim_end());
    let sentence = "The service waited longer in all, 20.00 ms instead of 10.00 ms a run; 80 % of the change is waiting \
                    behind others' tasks, most of it while a CPU stood idle elsewhere.";
    assert!(text.contains(sentence), "{text}");
    let document = serde_json::to_value(comparison.document(None)).unwrap();
    validate(include_str!("../../../docs/schema/compare.schema.json"), &document);
    let of = |name: &str| {
        let all = document["waiting"].as_array().unwrap();
        let found = all.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("{name}"));
        [0, 1].map(|policy| found["policies"][policy]["mean"].as_u64().unwrap() / MS)
    };
    let kinds =
        ["own", "others", "kernel_threads", "interrupts", "idle_exit", "throttled", "wakeup", "schedule"];
    let parts = kinds.map(|kind| of(&format!("waiting_{kind}_ns")));
    assert_eq!(parts, [[4, 5], [3, 11], [1, 1], [0, 0], [2, 3], [0, 0], [0, 0], [0, 0]]);
    assert_eq!(of("waiting_ns"), [0, 1].map(|side: usize| parts.iter().map(|part| part[side]).sum::<u64>()));
    assert_eq!(document["policies"][1]["waited_behind_ns"]["batch"], 11 * MS);
    let blocked = |name: &str| {
        let all = document["blocked"].as_array().unwrap();
        let found = all.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("{name}"));
        [0, 1].map(|policy| found["policies"][policy]["mean"].as_u64().unwrap() / MS)
    };
    assert_eq!(blocked("blocked_ns"), [50, 100]);
    assert_eq!(
        ["work", "outside", "waiting"].map(|part| blocked(&format!("blocked_{part}_ns"))),
        [[20, 40], [10, 20], [20, 40]]
    );
    assert_eq!(blocked("blocked_waiting_others_ns"), [6, 22]);
    assert_eq!(document["policies"][1]["blocked_on_waiting_of_ns"]["batch"], 40 * MS);
    let sentence = "While the service waited for others' answers, these were runnable and did not run for 40.00 ms \
                    instead of 20.00 ms a run; all of the change is waiting of batch.";
    assert_eq!(comparison.blocked_sentence(1).as_deref(), Some(sentence));
}

/// Without accounts there is neither a table nor a sentence; without a cause that has half of the change, no sentence.
#[test]
fn nothing_is_said_without_a_cause() {
    let scenarios = scenarios();
    let names = ["linux-4.15".to_owned(), "linux-6.12".to_owned()];
    let mut without = outcomes();
    without.iter_mut().flatten().for_each(|outcome| outcome.waits = None);
    let text = Comparison::new(&scenarios, &names, &without).unwrap().text(&Style::default());
    assert!(!text.contains("Where the waiting") && !text.contains("waited"), "{text}");
    let spread = |seed| {
        outcome(seed, &[(Cause::Behind(0), 7 * MS), (Cause::WakeUp, 7 * MS), (Cause::IdleExit, 7 * MS)], 0)
    };
    let level =
        |seed| outcome(seed, &[(Cause::Behind(0), MS), (Cause::WakeUp, MS), (Cause::IdleExit, MS)], 0);
    let outcomes = vec![[1, 2].map(level).to_vec(), [1, 2].map(spread).to_vec()];
    let text = Comparison::new(&scenarios, &names, &outcomes).unwrap().text(&Style::default());
    assert!(text.contains("Where the waiting") && !text.contains("waited longer"), "{text}");
}
