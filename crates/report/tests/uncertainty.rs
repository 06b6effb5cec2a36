// SPDX-License-Identifier: GPL-2.0-or-later
//! Draws of a machine's figures, from the runs to the table, the JSON and the CSV: a model whose gain is known, and
//! draws made by hand.

mod common;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde_json::Value;
use wakelab_lab::{DrawSet, Drawn, DrawnFigure, Draws, Runner, Silent, draw};
use wakelab_machine::{Costs, Cpu, Machine, Topology};
use wakelab_policy::PolicySpec;
use wakelab_report::{Comparison, Decided, Style, metric_values};
use wakelab_sim::{HostProfile, Outcome, Scenario};
use wakelab_workload::Workload;

use crate::common::validate;

const SEEDS: [u64; 2] = [1, 2];

/// One CPU that works for 0.9 ms of each and ticks for 0.1 ms. The tick and the wake-up are estimates.
fn machine() -> Machine {
    let cpus = vec![Cpu { core: 0, cluster: None, llc: 0, node: 0, capacity: 1024 }];
    let costs = Costs { tick_ns: 100_000, wakeup_ns: 1_000, ..Costs::free(1) };
    let source = |key: &str| (key.to_owned(), "estimate: test".to_owned());
    Machine {
        name: "one".into(),
        description: "test".into(),
        topology: Topology { cpus, node_distance: vec![vec![10]] },
        costs,
        sources: ["tick_ns", "wakeup_ns"].map(source).into(),
        ranges: BTreeMap::new(),
    }
}

/// The machine, and the same whose tick costs nothing: the gain in rate is t / (p - t) for a tick of t in a period of
/// p.
fn scenarios() -> Vec<Scenario> {
    let scenario = |machine: Machine| Scenario {
        machine: machine.into(),
        workload: Workload::parse_spec("spin:tasks=1,duration-ms=200,burst-ns=10000,spread-percent=0")
            .unwrap()
            .into(),
        policy: "linux-4.15".parse::<PolicySpec>().unwrap(),
        host: HostProfile::Mainline,
        limit_ns: 60_000_000_000,
        limit_events: wakelab_sim::LIMIT_EVENTS,
    };
    let free = machine().with_cost(&"tick=0".parse().unwrap()).unwrap();
    vec![scenario(machine()), scenario(free)]
}

fn drawn(scenarios: &[Scenario], number: usize, threads: usize) -> Drawn<Vec<Option<f64>>> {
    let set = DrawSet { scenarios, seeds: vec![SEEDS.to_vec(); scenarios.len()], fitted: Vec::new() };
    let runner = Runner::new(NonZeroUsize::new(threads), &Silent);
    let keep = |_, at: usize, outcome: &Outcome| metric_values(&scenarios[at], outcome);
    draw(&[set], Draws { number, seed: 1 }, &runner, keep).unwrap().remove(0)
}

fn outcomes(scenarios: &[Scenario]) -> Vec<Vec<Outcome>> {
    let run = |scenario| SEEDS.map(|seed| wakelab_sim::run(scenario, seed).unwrap()).to_vec();
    scenarios.iter().map(run).collect()
}

fn names() -> [String; 2] {
    ["linux-4.15".to_owned(), "linux-4.15 --cost tick=0".to_owned()]
}

fn json(comparison: &Comparison<'_>) -> Value {
    let json = serde_json::to_value(comparison.document(None)).unwrap();
    validate(include_str!("../../../docs/schema/compare.schema.json"), &json);
    json
}

/// A tick of 0.05 to 0.2 ms gains 5.3 to 25 % where it is left out. 16 draws lie in the middles of 16 equal parts of
/// the range, so that their 5th and 95th percentiles stand at places 0.75 and 14.25: ticks of 0.0555 and 0.184 ms,
/// gains of 5.9 and 22.6 %. The wake-up does nothing, because nobody sleeps.
#[test]
fn two_figures_with_a_known_gain() {
    let scenarios = scenarios();
    let drawn = drawn(&scenarios, 16, 2);
    let figures: Vec<(&str, &str, &str)> =
        drawn.figures.iter().map(|of| (of.figure.as_str(), of.low.as_str(), of.high.as_str())).collect();
    assert_eq!(figures, [("wakeup_ns", "500", "2000"), ("tick_ns", "50000", "200000")]);
    for (positions, kept) in drawn.positions.iter().zip(&drawn.kept) {
        let at = f64::from(positions[1]) / 65_536.0;
        let tick = if at < 0.5 { 50_000.0 + 100_000.0 * at } else { 100_000.0 + 200_000.0 * (at - 0.5) };
        let gain = kept[1][0][0].unwrap() / kept[0][0][0].unwrap() - 1.0;
        assert!((gain - tick / (1e6 - tick)).abs() < 0.003, "{gain} with a tick of {tick} ns");
    }
    let outcomes = outcomes(&scenarios);
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let comparison = comparison.with_uncertainty(Draws { number: 16, seed: 1 }, &drawn);
    let spread = comparison.metrics[0].policies[1].spread.as_ref().unwrap();
    let [low, high] = spread.range_percent.unwrap();
    assert!((low - 5.9).abs() < 0.3 && (high - 22.6).abs() < 0.5, "{low} {high}");
    assert_eq!((spread.sign_held_percent, spread.undecided), (Some(100.0), false));
    assert_eq!(comparison.verdicts()[0].decided, Decided::Better);
    let json = json(&comparison);
    let deciding = json["uncertainty"]["deciding"][0]["figures"].as_array().unwrap();
    assert_eq!((deciding.len(), &deciding[0]["figure"]), (1, &Value::from("tick_ns")));
    assert!(deciding[0]["share_percent"].as_f64().unwrap() > 99.0);
    let [low, high] = ["gain_low_percent", "gain_high_percent"].map(|key| deciding[0][key].as_f64().unwrap());
    assert!(low < 11.1 && high > 11.2, "{low} {high}");
}

#[test]
fn threads_change_no_draw() {
    let scenarios = scenarios();
    let one = drawn(&scenarios, 8, 1);
    assert_eq!(one, drawn(&scenarios, 8, 2));
    assert_eq!(one, drawn(&scenarios, 8, 5));
}

/// Draws made by hand: the rate gains in `gaining` of 8, and loses in the others. All other rows are the same in all.
fn contradicting(
    scenarios: &[Scenario],
    outcomes: &[Vec<Outcome>],
    gaining: usize,
) -> Drawn<Vec<Option<f64>>> {
    let as_run: Vec<Vec<Vec<Option<f64>>>> = scenarios
        .iter()
        .zip(outcomes)
        .map(|(scenario, runs)| runs.iter().map(|run| metric_values(scenario, run)).collect())
        .collect();
    let of_draw = |draw: usize| {
        let mut kept = as_run.clone();
        for run in &mut kept[1] {
            run[0] = as_run[0][0][0].map(|base| base * if draw < gaining { 1.1 } else { 0.95 });
        }
        kept
    };
    let figure = DrawnFigure {
        figure: "tick_ns".into(),
        unit: "ns",
        low: "50000".into(),
        value: "100000".into(),
        high: "200000".into(),
        rule: "estimate",
        source: "estimate: test".into(),
    };
    // The draws with a loss are those in which the figure is low.
    let positions = (0..8_u16).rev().map(|at| vec![at * 8_192 + 4_096]).collect();
    Drawn { figures: vec![figure], positions, kept: (0..8).map(of_draw).collect() }
}

#[test]
fn a_sign_that_does_not_hold_is_undecided() {
    let scenarios = scenarios();
    let outcomes = outcomes(&scenarios);
    let draws = Draws { number: 8, seed: 1 };
    let compared = |gaining| {
        let drawn = contradicting(&scenarios, &outcomes, gaining);
        Comparison::new(&scenarios, &names(), &outcomes).unwrap().with_uncertainty(draws, &drawn)
    };
    // 6 of 8 are 75 %.
    let comparison = compared(6);
    let verdict = &comparison.verdicts()[0];
    assert_eq!(verdict.decided, Decided::Undecided);
    let sentence = &verdict.sentences[0];
    assert!(
        sentence.starts_with("rate: undecided: 11.1 % better with the model's figures as they are"),
        "{sentence}"
    );
    assert!(
        sentence.ends_with("but its sign holds in 75 % of 8 draws of the model's figures, and 90 % of them are between -5.0 and +10.0 %."),
        "{sentence}"
    );
    let text = comparison.text(&Style::default());
    let row = text.lines().find(|line| line.starts_with("rate ")).expect("a row");
    assert!(row.contains("(undecided)") && !row.contains('*'), "{row}");
    let cells = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.lines().any(|line| cells(line) == "rate undecided -5.0 to +10.0 0 % 75 %"), "{text}");
    assert!(
        text.contains("tick_ns (from 50000 to 200000 ns, by estimate): gain +2.5 % where it is low, +10.0 % where it is high"),
        "{text}"
    );
    let json = json(&comparison);
    let rate = &json["metrics"][0]["policies"][1];
    assert_eq!(rate["marked"], false);
    assert_eq!(rate["uncertainty"]["undecided"], true);
    assert_eq!(json["verdicts"][0]["decided"], "undecided");
    assert_eq!(json["metrics"][0]["policies"][0]["uncertainty"], Value::Null, "the first policy has no gain");
    let csv = comparison.csv();
    assert!(
        csv.contains("one+tick_ns=0,linux-4.15 --cost tick=0,,,rate_per_s_gain,percent,undecided\n"),
        "{csv}"
    );
    assert!(csv.contains(",,,rate_per_s_gain_low,percent,-5\n"), "{csv}");
    assert!(csv.contains(",,,rate_per_s_sign_held,percent,75\n"), "{csv}");
    // 7 of 8 are enough, and the star stays.
    let comparison = compared(7);
    assert_eq!(comparison.verdicts()[0].decided, Decided::Better);
    assert!(comparison.verdicts()[0].sentences[1].starts_with("Its sign holds in 88 % of 8 draws"));
    assert!(comparison.text(&Style::default()).contains("(+11.1%) *"));
}

/// Without draws nothing says anything about them.
#[test]
fn without_draws_there_is_nothing_new() {
    let scenarios = scenarios();
    let outcomes = outcomes(&scenarios);
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    assert!(!json(&comparison).to_string().contains("\"uncertainty\":"));
    assert!(!comparison.text(&Style::default()).contains("draws"));
    assert!(!comparison.csv().contains("_gain"));
}
