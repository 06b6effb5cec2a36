// SPDX-License-Identifier: GPL-2.0-or-later
//! Steady rates, from the run to the table and the sentence: two tasks that start and end at different times.

mod common;

use std::sync::Arc;

use wakelab_machine::{Costs, Cpu, Machine, Topology};
use wakelab_report::{Comparison, Style};
use wakelab_sim::{HostProfile, LIMIT_EVENTS, Outcome, Scenario};
use wakelab_workload::{End, Measure, Op, Task, Workload};

use crate::common::validate;

/// Two CPUs on which nothing but work takes time.
fn machine() -> Machine {
    let cpu = |core| Cpu { core, cluster: None, llc: 0, node: 0, capacity: 1024 };
    Machine {
        name: "two".into(),
        description: "test".into(),
        topology: Topology { cpus: vec![cpu(0), cpu(1)], node_distance: vec![vec![10]] },
        costs: Costs::free(1),
        sources: std::collections::BTreeMap::new(),
        ranges: std::collections::BTreeMap::new(),
    }
}

/// Each of two tasks does 1,000 units of 100 us. The second starts `late_ms` after the first, so that both work for 100
/// - `late_ms` ms, and one alone for `late_ms` before and after.
fn scenario(late_ms: u64, measure: Measure, counts: bool) -> Scenario {
    let task = |number: u64| {
        let mut program =
            vec![Op::LoopBegin { times: Some(1000) }, Op::Compute { work_ns: 100_000, spread_percent: 0 }];
        program.extend(counts.then_some(Op::Count { units: 1 }));
        program.push(Op::LoopEnd);
        Task {
            start_ns: number * late_ms * 1_000_000,
            last_cpu: Some(number as u32),
            ..Task::new("worker", number as u32, program)
        }
    };
    let tasks = (0..2).map(task).collect();
    Scenario {
        machine: Arc::new(machine()),
        workload: Arc::new(Workload { tasks, end: End::AllExited, ..Workload::empty("late", measure) }),
        policy: "linux-4.15".parse().unwrap(),
        host: HostProfile::Mainline,
        limit_ns: 1 << 40,
        limit_events: LIMIT_EVENTS,
    }
}

fn outcomes(scenarios: &[Scenario]) -> Vec<Vec<Outcome>> {
    let run = |scenario| [1, 2].map(|seed| wakelab_sim::run(scenario, seed).unwrap()).to_vec();
    scenarios.iter().map(run).collect()
}

fn names() -> [String; 2] {
    ["early".to_owned(), "late".to_owned()]
}

/// The mean of a row in a column.
fn value(comparison: &Comparison<'_>, name: &str, column: usize) -> Option<f64> {
    let row = comparison.metrics.iter().find(|metric| metric.name == name).expect(name);
    row.policies[column].mean
}

fn near(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|found| (found / expected - 1.0).abs() < 0.005), "{found:?}, not {expected}");
}

/// 20,000 units a second while both work, whatever is before and after; 2,000 units in 110 and 130 ms.
#[test]
fn the_rate_is_that_of_the_steady_part() {
    let scenarios = [10, 30].map(|late_ms| scenario(late_ms, Measure::Rate, true));
    let outcomes = outcomes(&scenarios);
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    for column in [0, 1] {
        near(value(&comparison, "rate_per_s", column), 20_000.0);
    }
    near(value(&comparison, "whole_rate_per_s", 0), 2000.0 / 0.110);
    near(value(&comparison, "whole_rate_per_s", 1), 2000.0 / 0.130);
    let part = value(&comparison, "steady_part_percent", 0).unwrap();
    assert!((part - 9000.0 / 110.0).abs() < 1.5, "{part} % of the run, in steps of five spans");
    assert_eq!(value(&comparison, "wakeups_per_unit", 0), Some(0.0));
    let text = comparison.text(&Style::default());
    assert!(text.contains("steady part") && text.contains("over the whole run it is"), "{text}");
    let json = serde_json::to_value(comparison.document(None)).unwrap();
    validate(include_str!("../../../docs/schema/compare.schema.json"), &json);
}

/// A makespan stays what it is, and the steady rate stands beside it. Without counts a unit is a millisecond of work.
#[test]
fn a_makespan_has_a_steady_rate_beside_it() {
    let scenarios = [10, 30].map(|late_ms| scenario(late_ms, Measure::Makespan, false));
    let outcomes = outcomes(&scenarios);
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    near(value(&comparison, "makespan_ns", 0), 110e6);
    near(value(&comparison, "makespan_ns", 1), 130e6);
    for column in [0, 1] {
        near(value(&comparison, "steady_rate_per_s", column), 2000.0);
    }
    let text = comparison.text(&Style::default());
    assert!(text.contains("the rest is start-up and tail"), "{text}");
}

/// Each task works alone for most of the time, and then nothing is the steady state.
#[test]
fn a_run_without_a_steady_part_says_so() {
    let scenarios = [50, 60].map(|late_ms| scenario(late_ms, Measure::Makespan, true));
    let outcomes = outcomes(&scenarios);
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    assert_eq!(value(&comparison, "steady_rate_per_s", 0), None);
    assert_eq!(value(&comparison, "steady_part_percent", 0), Some(0.0));
    let text = comparison.text(&Style::default());
    assert!(text.contains("No part of 4 of 4 runs is steady"), "{text}");
}
