// SPDX-License-Identifier: GPL-2.0-or-later
//! Trials of a command, made by hand: the table, the JSON against its schema, refusals.

mod common;

use wakelab_ab::{LeftRunning, MissingMetric, StoppedBy, TrialMetric, TrialRuns, VoidRun};
use wakelab_report::{ReportError, Style, Trials};
use wakelab_stats::{Direction, Unit};

use crate::common::validate;

const SCHEMA: &str = include_str!("../../../docs/schema/ab.schema.json");

fn metric(
    name: &'static str,
    label: &'static str,
    unit: Unit,
    direction: Direction,
    values: [[Option<f64>; 3]; 2],
) -> TrialMetric {
    TrialMetric { name, label, unit, direction, values: values.map(Vec::from).into() }
}

/// Three blocks. The metric rises by 10, 12 and 14 % of 100: gain 12, s = 2, t(2) = 4.302653, +- 4.302653 x 2 / sqrt(3)
/// = 4.968275. The wall time is 1 s longer of 10 in each. Cycles were not counted in one run. No run of the policy
/// migrated.
fn three_blocks() -> TrialRuns {
    let some = |values: [f64; 3]| values.map(Some);
    TrialRuns {
        command: ["hackbench", "-g", "it's two"].map(str::to_owned).into(),
        kernel: "6.12.1".to_owned(),
        nr_cpus: 8,
        sides: ["kernel", "linux-4.15+idle=smt-balance"].map(str::to_owned).into(),
        seed: 7,
        order: vec![vec![0, 1], vec![1, 0], vec![0, 1]],
        metrics: vec![
            metric(
                "metric",
                "metric",
                Unit::Plain,
                Direction::Higher,
                [some([100.0, 90.0, 110.0]), some([110.0, 102.0, 124.0])],
            ),
            metric(
                "wall_time_ns",
                "wall time",
                Unit::Ns,
                Direction::Lower,
                [some([10e9; 3]), some([11e9; 3])],
            ),
            metric(
                "migrations",
                "migrations",
                Unit::Count,
                Direction::Lower,
                [some([2.0; 3]), some([0.0; 3])],
            ),
            metric(
                "cycles",
                "cycles",
                Unit::Count,
                Direction::Lower,
                [some([5.0; 3]), [Some(5.0), None, Some(5.0)]],
            ),
        ],
        regex: Some("rate ([0-9]+)".to_owned()),
        missing: [("wakeups", "no tracefs"), ("cycles", "none"), ("instructions", "none")]
            .map(|(name, why)| MissingMetric { name, why: why.to_owned() })
            .into(),
        void: vec![VoidRun { block: 1, side: 1, why: "ejected: stall".to_owned() }],
        left_running: LeftRunning::default(),
        stopped_by: StoppedBy::Interval,
    }
}

#[test]
fn the_table_of_three_blocks() {
    let text = Trials::new(three_blocks()).unwrap().text(&Style::default());
    let expected = r"hackbench -g 'it'\''s two' on Linux 6.12.1 (8 CPUs), 3 runs each, order by seed 7
(gain) over the first column: + is better, - is worse, ± 95 % interval: spread over runs; * exceeds both 1 % and its interval
without ±: the same for every block

               kernel             linux-4.15
                           +idle=smt-balance
metric          100.0   112.0  (+12.0% ±5.0) *
wall time   s   10.00   11.00  (-10.0%) *
migrations      2.000   0.000 (+100.0%) *
cycles          5.000       -              (-)

metric: the last match of `rate ([0-9]+)` in the command's output.
not measured: wakeups: no tracefs
not measured: cycles, instructions: none
!! block 2, linux-4.15+idle=smt-balance: void, and run again: ejected: stall
";
    let words = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    assert_eq!(words(&text), words(expected), "{text}");
}

#[test]
fn the_document_keeps_its_schema() {
    let trials = Trials::new(three_blocks()).unwrap();
    let document = serde_json::to_value(trials.document()).unwrap();
    validate(SCHEMA, &document);
    let metric = &document["metrics"][0]["sides"][1];
    assert_eq!(metric["values"].to_string(), "[110,102,124]");
    assert_eq!(metric["gain_percent"], 12.0);
    assert_eq!(metric["ci_percent"].to_string(), "[7.031725,16.968275]");
    assert_eq!(document["metrics"][3]["sides"][1]["mean"], serde_json::Value::Null);
    assert_eq!(document["stopped_by"], "interval");
    let schema = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for pointer in ["/sides", "/order/0", "/metrics/0/sides/0/values", "/void/0/side", "/missing/0/why"] {
        let mut bad = document.clone();
        *bad.pointer_mut(pointer).unwrap() = serde_json::Value::Null;
        assert!(!validator.is_valid(&bad), "{pointer}");
    }
}

#[test]
fn one_side_and_one_run_say_less() {
    let mut runs = three_blocks();
    runs.order.truncate(1);
    for metric in &mut runs.metrics {
        metric.values.iter_mut().for_each(|values| values.truncate(1));
    }
    let text = Trials::new(runs.clone()).unwrap().text(&Style::default());
    assert!(text.contains("1 run each") && text.contains("one run each: no intervals"), "{text}");
    assert!(!text.contains('*'), "{text}");
    runs.sides.truncate(1);
    runs.metrics.iter_mut().for_each(|metric| metric.values.truncate(1));
    runs.void.clear();
    let text = Trials::new(runs).unwrap().text(&Style::default());
    assert!(!text.contains("(gain)"), "{text}");
}

#[test]
fn refusals() {
    assert!(matches!(Trials::new(TrialRuns::default()), Err(ReportError::Empty)));
    let mut runs = three_blocks();
    runs.metrics[1].values[1].pop();
    assert_eq!(
        Trials::new(runs).unwrap_err().to_string(),
        "metric wall_time_ns has not one value for each of 2 sides and 3 blocks"
    );
}
