// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments with outcomes made by hand: values of each measure, gains, signs, scores, controls, JSON, text and page.

mod common;

use serde_json::Value;
use wakelab_experiment::{Experiment, Plan, Selection};
use wakelab_lab::Drawn;
use wakelab_report::{CaseRuns, ExperimentRuns, Experiments, Recorded, Style, row_values};
use wakelab_sim::{Ending, Histogram, Outcome, Progress, SearchTime, SearchTimes};

use crate::common::validate;

/// Tasks of `spin:tasks=2` are named `spin`; the first row shows a gain of 10 %, published 5 % with a noise of 1.
const FILE: &str = r#"title = "by hand"
text = "two seeds"
mechanism = "prose of the mechanism"
misses = "prose of the misses"
misses_of = 2026-11-28
machine = "smp-8"
workload = "pingpong:pairs={pairs}"
policy_before = "linux-4.15"
policy_after = "linux-4.15+idle=smt-balance"
measure = { kind = "makespan" }
seeds = 2
[[fitted]]
param = "pairs"
value = 1
how = "by hand"
[[row]]
id = "hand/makespan"
before = 100.0
before_stdev_percent = 0.6
after = 95.0
after_stdev_percent = 0.8
[[row]]
id = "hand/rate"
measure = { kind = "rate", unit = "k/s", per_unit = 1000 }
before = 10.0
after = 9.0
robust = true
[[row]]
id = "hand/latency"
measure = { kind = "latency", percentile = 99.9 }
before = 3.0
before_stdev_percent = 40.0
after = 2.0
[[row]]
id = "hand/decision"
measure = { kind = "decision" }
before = 0.5
[[row]]
id = "hand/search"
measure = { kind = "search", step = "idle-cpu-after-core" }
before = 1.0
after = 0.9
score = false
[[row]]
id = "hand/share"
measure = { kind = "cpu_share", task = "ping", fair_percent = 40.0 }
before = 60.0
after = 45.0
[[row]]
id = "hand/gain"
gain_percent = -3.0
score = false
[[row]]
id = "hand/part"
measure = { kind = "rate", unit = "1/s", within_percent = [10, 30] }
score = false
[[control]]
id = "hand/control=same"
expect = "same"
because = "it ought to"
[[control]]
id = "hand/control=gain"
expect = "gain"
because = "it is faster"
"#;

fn outcome(seed: u64, makespan_s: u64, cpu_ns: [u64; 2], reason: &str) -> Outcome {
    let mut outcome = Outcome {
        seed,
        elapsed_ns: makespan_s * 1_000_000_000,
        makespan_ns: makespan_s * 1_000_000_000,
        units: 200_000,
        judged_latency: Histogram {
            buckets: vec![(1000, 999), (9000, 1)],
            count: 1000,
            max_ns: 9000,
            sum_ns: 0,
        },
        search_times: SearchTimes {
            idle_cpu_after_core: SearchTime { searches: 10, time_ns: makespan_s * 1000, reads: 40 },
            ..SearchTimes::default()
        },
        reasons: [(reason.to_owned(), 10)].into(),
        task_cpu_time_ns: cpu_ns.into(),
        progress: Progress { span_ns: 1_000_000, unit: 1, units: vec![10, 10, 20, 20, 20, 10, 10] },
        ..Outcome::default()
    };
    outcome.time.work_ns = 6000;
    outcome.time.idle_ns = 2000;
    outcome.time.select_ns = makespan_s * 100;
    outcome.counts.selects = 10;
    outcome
}

fn plan() -> Plan {
    Plan::new(Experiment::parse("hand", "hand.toml", FILE).unwrap(), Selection::All).unwrap()
}

/// Before: 19 and 21 s; after: 18 s twice. CPU time of ping and pong: 60 and 40 %, then 35 and 65 %.
fn runs(plan: &Plan) -> ExperimentRuns<'_> {
    let outcomes = [
        vec![outcome(1, 19, [60, 40], "idle-core"), outcome(2, 21, [60, 40], "idle-core")],
        vec![outcome(1, 18, [35, 65], "target-idle"), outcome(2, 18, [35, 65], "target-idle")],
    ];
    let cases =
        plan.cases.iter().map(|case| CaseRuns { case, outcomes: outcomes.clone(), drawn: None }).collect();
    ExperimentRuns {
        experiment: &plan.experiment,
        seeds: vec![1, 2],
        has_other_length: false,
        is_part: false,
        cases,
    }
}

fn find<'a>(list: &'a Value, id: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry["id"] == id).unwrap()
}

#[test]
fn values_gains_and_signs_by_hand() {
    let plan = plan();
    assert_eq!(plan.cases.len(), 1, "all rows and controls look at the same runs");
    let runs = [runs(&plan)];
    let experiments = Experiments::new(&runs, Recorded::default());
    let json = serde_json::to_value(experiments.document()).unwrap();
    let expect = |id: &str, what: [(&str, Value); 5]| {
        let row = find(&json["rows"], id);
        for (key, value) in what {
            assert_eq!(row[key], value, "{id}: {key}");
        }
    };
    // 20 to 18 s: 10 %. Published 5 % beyond sqrt(0.36 + 0.64) = 1.
    expect(
        "hand/makespan",
        [
            ("before", 20.into()),
            ("after", 18.into()),
            ("gain_percent", 10.0.into()),
            ("published_gain_percent", 5.0.into()),
            ("sign", "right".into()),
        ],
    );
    assert_eq!(find(&json["rows"], "hand/makespan")["published_noise_percent"], 1.0);
    // 200,000 units in 19, 21 and 18 s: 10.526, 9.524 and 11.111 thousand a second; published it loses.
    let row = find(&json["rows"], "hand/rate");
    assert_eq!(row["before_values"][0]["seed"], 1);
    assert!((row["before_values"][0]["value"].as_f64().unwrap() - 200.0 / 19.0).abs() < 1e-9);
    assert!((row["after"].as_f64().unwrap() - 200.0 / 18.0).abs() < 1e-9);
    assert_eq!((&row["published_gain_percent"], &row["sign"]), (&(-10.0).into(), &"wrong".into()));
    // 999 of 1000 values are 1 us; the published change of 33 % is within its noise of 40 %.
    expect(
        "hand/latency",
        [
            ("before", 1.into()),
            ("after", 1.into()),
            ("gain_percent", 0.0.into()),
            ("unit", "us".into()),
            ("sign", "within_noise".into()),
        ],
    );
    // 1,900 and 2,100 ns of 10 decisions, then 1,800.
    expect(
        "hand/decision",
        [
            ("before", 0.2.into()),
            ("after", 0.18.into()),
            ("published_gain_percent", Value::Null),
            ("scored", false.into()),
            ("sign", "unknown".into()),
        ],
    );
    // 19 and 21 us of 10 steps, then 18.
    expect(
        "hand/search",
        [
            ("before", 2.into()),
            ("after", 1.8.into()),
            ("gain_percent", 10.0.into()),
            ("unit", "us".into()),
            ("sign", "right".into()),
        ],
    );
    // The distance from 40 % shrinks from 20 to 5 points in both.
    expect(
        "hand/share",
        [
            ("before", 60.into()),
            ("after", 35.into()),
            ("gain_percent", 75.0.into()),
            ("published_gain_percent", 75.0.into()),
            ("sign", "right".into()),
        ],
    );
    // Shown, not scored.
    expect(
        "hand/gain",
        [
            ("published_gain_percent", (-3.0).into()),
            ("before_published", Value::Null),
            ("after_published", Value::Null),
            ("scored", false.into()),
            ("sign", "wrong".into()),
        ],
    );
    // From 10 units a ms to 20.
    assert_eq!(find(&json["rows"], "hand/part")["drift_percent"], serde_json::json!([100.0, 100.0]));
    let rate = find(&json["rows"], "hand/rate");
    assert_eq!(
        (rate.get("drift_percent"), &rate["runs_without_steady_part"]),
        (None, &serde_json::json!([2, 2]))
    );
    assert_eq!(find(&json["rows"], "hand/part").get("runs_without_steady_part"), None);
    // Scored: makespan (right), rate (wrong), latency (within its noise), share (right).
    let score = &json["pooled"];
    assert_eq!(
        (&score["rows"], &score["rows_beyond_noise"], &score["signs_right"]),
        (&4.into(), &3.into(), &2.into())
    );
    // Only the share has the same gain under both seeds, of the three that exceed their noise.
    assert_eq!((&score["rows_certain"], &score["certain_signs_right"]), (&1.into(), &1.into()));
    assert_eq!(score, &json["experiments"][0]["score"]);
}

#[test]
fn controls_hold_or_not() {
    let plan = plan();
    let mut runs = [runs(&plan)];
    let holds = |runs: &[ExperimentRuns<'_>], id: &str| {
        let json = serde_json::to_value(Experiments::new(runs, Recorded::default()).document()).unwrap();
        find(&json["controls"], id)["holds"].as_bool().unwrap()
    };
    // Two seeds with gains of 5 and 15 % have an interval of 10 +- 63.5 %: no gain that is certain.
    assert!(!holds(&runs, "hand/control=same") && !holds(&runs, "hand/control=gain"));
    let failures = Experiments::new(&runs, Recorded::default()).failures();
    assert_eq!(failures.len(), 3, "{failures:?}");
    assert!(failures[0].starts_with("hand/rate: the sign is wrong"), "{failures:?}");
    assert!(failures[1].starts_with("hand/control=same: expected same, found +10.00 %"), "{failures:?}");
    // Gains of 10 and 10 %.
    let of_20_s = |seed| outcome(seed, 20, [60, 40], "idle-core");
    runs[0].cases[0].outcomes[0] = vec![of_20_s(1), of_20_s(2)];
    assert!(!holds(&runs, "hand/control=same") && holds(&runs, "hand/control=gain"));
    runs[0].cases[0].outcomes[1] = runs[0].cases[0].outcomes[0].clone();
    assert!(holds(&runs, "hand/control=same") && !holds(&runs, "hand/control=gain"));
}

/// A run that did not complete has no makespan; the row counts as predicted with no change.
#[test]
fn runs_that_did_not_end_are_wrong() {
    let plan = plan();
    let mut runs = [runs(&plan)];
    runs[0].cases[0].outcomes[1][1].ending = Ending::LimitReached;
    let json = serde_json::to_value(Experiments::new(&runs, Recorded::default()).document()).unwrap();
    let row = find(&json["rows"], "hand/makespan");
    assert_eq!(
        (&row["after"], &row["gain_percent"], &row["sign"]),
        (&Value::Null, &Value::Null, &"wrong".into())
    );
}

#[test]
fn the_json_keeps_its_schema() {
    let plan = plan();
    let runs = [runs(&plan)];
    let json = serde_json::to_value(Experiments::new(&runs, Recorded::default()).document()).unwrap();
    validate(include_str!("../../../docs/schema/experiments.schema.json"), &json);
}

#[test]
fn text_and_page_show_what_there_is() {
    let plan = plan();
    let runs = [runs(&plan)];
    let experiments = Experiments::new(&runs, Recorded::default());
    let text = experiments.text(&Style::default());
    for part in [
        "hand: by hand\n  smp-8, host mainline, linux-4.15 -> linux-4.15+idle=smt-balance, 2 seeds from 1 to 2\n",
        "fitted to \"before\": pairs = 1; by hand\n",
        "first half of the measured part to the second\n  hand/part: +100 % before, +100 % after\n",
        "no part of a run is steady\n  hand/rate: 2 of 2 runs before, 2 of 2 after\n",
        "signs right: 2 of 3 rows beyond their noise (67 %); over all 4 scored rows 75 %\n  signs right where the prediction exceeds its own interval: 1 of 1\n",
        "hand/control=same: DOES NOT HOLD: expected same, found +10.00 ±63.53 %\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let row = |id: &str| {
        text.lines().find(|line| line.starts_with(id)).unwrap().split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(
        row("hand/makespan"),
        [
            "hand/makespan",
            "s",
            "100.0",
            "95.00",
            "1.00",
            "20.00",
            "18.00",
            "+5.00",
            "+10.00",
            "±63.53",
            "right"
        ]
    );
    assert_eq!(row("hand/gain")[10..], ["(WRONG)"]);
    let page = experiments.page();
    for part in [
        "## by hand\n\ntwo seeds\n",
        "prose of the mechanism\n",
        "*What does not fit (in the run of 2026-11-28).*\nprose of the misses\n",
        "Negative controls, each by its last run: 0 of 2 hold.\n",
        // 1,000 decisions' worth of time cannot change by more than the reasons, which change wholly.
        "idle-core 100.00 to 0.00, target-idle 0.00 to 100.00 (% of placement decisions)",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    // Placement took 1,900 ns of 9,900 and 2,100 of 10,100, then 1,800 of 9,800: 19.99 % to 18.37 %.
    let line = page.lines().find(|line| line.starts_with("placement decisions")).unwrap();
    assert!(line.ends_with("19.99 -> 18.37"), "{line}");
}

/// The rows of the case on draws: after 20 s, in `gaining` of five draws the run takes 18 s, in the others 22 s.
fn draws(plan: &Plan, gaining: usize) -> Drawn<Vec<Option<f64>>> {
    let values = |makespan_s| {
        let case = &plan.cases[0];
        let of = |seed| row_values(&plan.experiment, case, &outcome(seed, makespan_s, [60, 40], "idle-core"));
        vec![of(1), of(2)]
    };
    let kept = (0..5).map(|draw| vec![values(20), values(if draw < gaining { 18 } else { 22 })]);
    Drawn { figures: Vec::new(), positions: vec![Vec::new(); 5], kept: kept.collect() }
}

/// The sign of the makespan holds in 4 of 5 draws, 80 %, or in 3. Of -10, 10, 10, 10, 10 the 5th percentile stands a
/// fifth of the way from the first to the second: -6. Published were 5 %.
#[test]
fn draws_decide_by_hand() {
    let plan = plan();
    for (gaining, held, undecided, low) in [(4, 80.0, false, -6.0), (3, 60.0, true, -10.0)] {
        let mut runs = runs(&plan);
        runs.cases[0].drawn = Some(draws(&plan, gaining));
        let runs = [runs];
        let experiments = Experiments::new(&runs, Recorded::default());
        let json = serde_json::to_value(experiments.document()).unwrap();
        validate(include_str!("../../../docs/schema/experiments.schema.json"), &json);
        let row = find(&json["rows"], "hand/makespan");
        let found = &row["uncertainty"];
        assert_eq!(found["sign_held_percent"], held);
        assert_eq!(found["undecided"], undecided);
        assert_eq!(found["range_percent"], serde_json::json!([low, 10.0]));
        assert_eq!(row["sign"], "right", "of the figures as they are");
        let text = experiments.text(&Style::default());
        let line = text.lines().find(|line| line.starts_with("hand/makespan")).unwrap();
        assert_eq!(line.matches("undecided").count(), if undecided { 2 } else { 0 }, "{line}");
        assert!(line.contains(&format!("{low:+.1} to +10.0")), "{line}");
        let model = &json["pooled"]["model"];
        let rows = json["rows"].as_array().unwrap();
        let scored =
            |is: &dyn Fn(&Value) -> bool| rows.iter().filter(|row| row["scored"] == true && is(row)).count();
        assert_eq!(model["rows"], scored(&|_| true));
        assert_eq!(model["undecided"], scored(&|row| row["uncertainty"]["undecided"] == true));
        assert!(text.contains("undecided: the sign of the gain holds in less than 80 %"), "{text}");
    }
}
