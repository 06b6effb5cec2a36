// SPDX-License-Identifier: GPL-2.0-or-later
//! Maps of signs from outcomes made by hand: cells, findings, JSON, SVG, refusals.

mod common;

use std::sync::Arc;

use wakelab_lab::MapCell;
use wakelab_report::{MapAxes, ReportError, SignMap, Style};
use wakelab_sim::Outcome;
use wakelab_workload::Workload;

use crate::common::validate;

/// Two seeds with the same makespan, so that each gain is certain.
fn runs(makespan_ns: u64) -> Vec<Outcome> {
    let outcome = |seed| Outcome { seed, elapsed_ns: makespan_ns, makespan_ns, ..Outcome::default() };
    vec![outcome(1), outcome(2)]
}

fn axes() -> MapAxes {
    MapAxes {
        workload: "hackbench:groups={tasks/4}".into(),
        machines: vec![("small".into(), 8), ("large".into(), 88)],
        loads: vec!["1/4".into(), "1".into()],
        policies: vec!["base".into(), "a<b".into()],
        metric: None,
        over_best: false,
    }
}

/// A cell of a small workload, with these outcomes by policy.
fn cell(machine: usize, load: usize, outcomes: &[&[Outcome]]) -> MapCell {
    let workload = Arc::new(Workload::parse_spec("hackbench:groups=1,fds=1,loops=2").unwrap());
    MapCell { machine, load, workload, outcomes: outcomes.iter().map(|runs| runs.to_vec()).collect() }
}

/// Gains of `a<b` over 1000 ns: small at 1/4 has none (too few tasks), at 1 +10 %; large at 1/4 -5 %, at 1 +0.5 %.
fn cells() -> Vec<MapCell> {
    let others = [(0, 1, 900), (1, 0, 1050), (1, 1, 995)];
    others.map(|(machine, load, ns)| cell(machine, load, &[&runs(1000), &runs(ns)])).into()
}

#[test]
fn gains_signs_and_flips() {
    let cells = cells();
    let text = SignMap::new(axes(), &cells).unwrap().text(&Style::default());
    for part in [
        "hackbench:groups={tasks/4}, over base, 2 seeds from 1 to 2\n",
        "  helps in 1 of 3 cells, most on small at load 1: +10.00 %\n",
        "  hurts in 1 of 3 cells, most on large at load 1/4: -5.00 %\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // No machine and no load has both signs.
    assert!(!text.contains("flips"), "{text}");
    let row = |name: &str| {
        text.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(row("small"), ["small", "(8)", "%", ".", "+10.00", "±0.00", "*"]);
    assert_eq!(row("large"), ["large", "(88)", "%", "-5.00", "±0.00", "*", "+0.50", "±0.00"]);
}

#[test]
fn both_signs_on_a_machine_or_at_a_load_are_a_flip() {
    let mut cells = cells();
    let slow = runs(1200);
    cells.push(cell(0, 0, &[&runs(1000), &slow]));
    // Now small has -20 % at 1/4 and +10 % at 1, and at 1/4 both machines lose.
    let text = SignMap::new(axes(), &cells).unwrap().text(&Style::default());
    assert!(text.contains("  sign flips with the load on small: + at 1; - at 1/4\n"), "{text}");
    assert!(!text.contains("between machines"), "{text}");
    cells[2].outcomes[1] = slow;
    let text = SignMap::new(axes(), &cells).unwrap().text(&Style::default());
    assert!(text.contains("  sign flips between machines at load 1: + on small; - on large\n"), "{text}");
}

#[test]
fn the_json_keeps_its_schema() {
    let cells = cells();
    let map = SignMap::new(axes(), &cells).unwrap();
    let json = serde_json::to_value(map.document()).unwrap();
    let cell = &json["cells"][0];
    let names = ["machine", "load", "policy", "baseline"].map(|key| cell[key].as_str().unwrap());
    assert_eq!(names, ["small", "1", "a<b", "base"]);
    assert_eq!(cell["after"]["gain_percent"], 10.0);
    assert_eq!(cell["after"]["values"][1], serde_json::json!({ "seed": 2, "value": 900 }));
    validate(include_str!("../../../docs/schema/sign-map.schema.json"), &json);
}

/// Three cells, of which one is not marked: no fill. Before them the three of the legend.
#[test]
fn the_figure_has_a_cell_each() {
    let cells = cells();
    let svg = SignMap::new(axes(), &cells).unwrap().svg();
    let fills: Vec<&str> = svg.lines().filter(|line| line.contains("fill-opacity")).collect();
    let expected = [
        "#0072b2\" fill-opacity=\"1.00\"",
        "#d55e00\" fill-opacity=\"1.00\"",
        "fill-opacity=\"0.00\"",
        "#0072b2\" fill-opacity=\"0.50\"",
        "#d55e00\" fill-opacity=\"0.25\"",
        "fill-opacity=\"0.00\"",
    ];
    assert_eq!(fills.len(), expected.len());
    for (fill, part) in fills.iter().zip(expected) {
        assert!(fill.contains(part), "{part} in {fill}");
    }
    for word in ["helps", "hurts", "grey: "] {
        assert!(svg.contains(word), "no legend");
    }
    assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

/// Two columns are 124 wide; the title has more than 40 characters of 7, so the page has to be wider than both.
#[test]
fn the_figure_is_as_wide_as_its_title() {
    let name = "a-workload-whose-name-is-much-longer-than-its-map:with=1,several=2,parameters=3";
    let cells = cells();
    let svg = SignMap::new(MapAxes { workload: name.to_owned(), ..axes() }, &cells).unwrap().svg();
    let view_box = svg.split("viewBox=\"0 0 ").nth(1).unwrap();
    let width: f64 = view_box.split(' ').next().unwrap().parse().unwrap();
    assert!(width >= 8.0 + 7.0 * name.len() as f64, "{width}");
}

/// 400 ns idle with something waiting instead of 1,000: 60 % better, whatever the makespan says.
#[test]
fn another_metric_can_be_mapped() {
    let idle = |ns| {
        runs(1000).into_iter().map(|run| Outcome { idle_while_runnable_ns: ns, units: 3, ..run }).collect()
    };
    let (base, other): (Vec<Outcome>, Vec<Outcome>) = (idle(1000), idle(400));
    let cell = [cell(0, 0, &[&base, &other])];
    let of = |name: &str| MapAxes { metric: Some(name.into()), ..axes() };
    let text = SignMap::new(of("idle_while_runnable_ns"), &cell).unwrap().text(&Style::default());
    assert!(text.starts_with("idle_while_runnable_ns of hackbench:groups={tasks/4}, over base, "), "{text}");
    assert!(text.contains("helps in 1 of 1 cells, most on small at load 1/4: +60.00 %"), "{text}");
    // What workloads of another measure are judged by: 3 units in a makespan of 1,000 ns are 3,000,000 /s.
    let rate = serde_json::to_value(SignMap::new(of("rate_per_s"), &cell).unwrap().document()).unwrap();
    assert_eq!(rate["cells"][0]["unit"], "per_s");
    assert_eq!(rate["cells"][0]["before"]["mean"].as_f64(), Some(3e6));
    let error = SignMap::new(of("p99"), &cell).unwrap_err().to_string();
    assert!(error.starts_with("no metric is called 'p99'; expected one of "), "{error}");
}

/// 1000 ns and 800 ns, and a third policy with 840 ns: 16 % over the first and -5 % over the best. On the other machine
/// the first is the best, and 900 ns are +10 %.
#[test]
fn one_policy_over_the_best_of_the_others() {
    let [first, second, third, slow, fast] = [1000, 800, 840, 1100, 900].map(runs);
    let cells = [cell(0, 0, &[&first, &second, &third]), cell(1, 0, &[&first, &slow, &fast])];
    let policies = ["a", "b", "c"].map(String::from).to_vec();
    let map = SignMap::new(MapAxes { policies, over_best: true, ..axes() }, &cells).unwrap();
    let text = map.text(&Style::default());
    for part in [
        "hackbench:groups={tasks/4}, over the best of a, b, 2 seeds from 1 to 2\n\nc\n",
        "  helps in 1 of 2 cells, most on large at load 1/4: +10.00 %\n",
        "  hurts in 1 of 2 cells, most on small at load 1/4: -5.00 %\n",
        "  worse on small at load 1/4 than b: -5.00 ±0.00 %\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let json = serde_json::to_value(map.document()).unwrap();
    assert_eq!((&json["cells"][0]["baseline"], &json["cells"][1]["baseline"]), (&"b".into(), &"a".into()));
    validate(include_str!("../../../docs/schema/sign-map.schema.json"), &json);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut cells = cells();
    let one_policy = MapAxes { policies: vec!["base".into()], ..axes() };
    assert!(matches!(SignMap::new(one_policy, &cells), Err(ReportError::Empty)));
    assert!(matches!(SignMap::new(axes(), &[]), Err(ReportError::Empty)));
    cells[0].outcomes.pop();
    assert!(matches!(SignMap::new(axes(), &cells), Err(ReportError::Lengths { .. })));
    let one_seed = runs(5)[..1].to_vec();
    cells[0].outcomes.push(one_seed);
    assert!(matches!(SignMap::new(axes(), &cells), Err(ReportError::Seeds { .. })));
}
