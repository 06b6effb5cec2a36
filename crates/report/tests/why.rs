// SPDX-License-Identifier: GPL-2.0-or-later
//! Comparisons axis by axis, of outcomes made by hand: shares, sentences, and the JSON against its schema.

mod common;

use std::collections::BTreeMap;

use wakelab_lab::{Axis, DEMO_NAME, WhyOutcomes, demo_recording};
use wakelab_machine::Machine;
use wakelab_report::{Comparison, ReplayErrors, Style, Why};
use wakelab_sim::{HostProfile, Outcome, Scenario};
use wakelab_trace::{Observations, Observed, Options, Recording, read_from};
use wakelab_workload::Workload;

use crate::common::validate;

const MS: u64 = 1_000_000;

fn scenario(policy: &str) -> Scenario {
    Scenario {
        machine: Machine::preset("smp-8").unwrap().into(),
        workload: Workload::parse_spec("hackbench").unwrap().into(),
        policy: policy.parse().unwrap(),
        host: HostProfile::Mainline,
        limit_ns: 60_000 * MS,
        limit_events: wakelab_sim::LIMIT_EVENTS,
    }
}

/// Two seeds whose makespans are this many milliseconds.
fn runs(makespan_ms: u64) -> Vec<Outcome> {
    [1, 2].map(|seed| Outcome { seed, makespan_ns: makespan_ms * MS, ..Outcome::default() }).into()
}

/// 20 ms without axes; `a` alone gains 6 ms, `b` 2 ms, and both 10 ms: 7 ms are from `a` and 3 ms from `b`. `c` changes
/// nothing.
fn outcomes(orders: Option<Vec<Vec<usize>>>) -> WhyOutcomes {
    let axis = |name: &str| Axis { name: name.into(), from: "old".into(), to: "new".into() };
    let ms = [
        (0b000, 20),
        (0b001, 14),
        (0b010, 18),
        (0b011, 10),
        (0b100, 20),
        (0b101, 14),
        (0b110, 18),
        (0b111, 10),
    ];
    WhyOutcomes {
        axes: ["a", "b", "c"].map(axis).into(),
        live: vec![0, 1],
        orders,
        sides: ["linux-4.15", "linux-6.12"].map(scenario),
        runs: ms.map(|(set, ms)| (set, runs(ms))).into_iter().collect::<BTreeMap<_, _>>(),
    }
}

#[test]
fn shares_by_hand() {
    for orders in [None, Some(vec![vec![0, 1], vec![1, 0]])] {
        let found = outcomes(orders);
        let both = [0, 0b111].map(|set| found.runs[&set].clone());
        let names = ["first", "second"].map(str::to_owned);
        let comparison = Comparison::new(&found.sides, &names, &both).unwrap();
        let why = Why::new(&found, comparison, None).unwrap();
        let document = serde_json::to_value(why.document(why.comparison.document(None), Vec::new())).unwrap();
        validate(include_str!("../../../docs/schema/why.schema.json"), &document);
        let shares: Vec<(&str, f64)> = document["axes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|axis| (axis["axis"].as_str().unwrap(), axis["share_percent"].as_f64().unwrap()))
            .collect();
        assert_eq!(shares, [("a", 70.0), ("b", 30.0), ("c", 0.0)]);
        assert_eq!(document["axes"][0]["alone"]["mean"], 14 * MS);
        assert_eq!(document["axes"][0]["without"]["mean"], 18 * MS);
        let sentences = why.sentences();
        assert!(sentences[0].contains("better, 10.00 ms instead of 20.00 ms"), "{sentences:?}");
        assert!(
            sentences[1].starts_with("Of the change come 70 % from a (old to new), 30 % from b (old to new)")
        );
        assert!(
            sentences[2].starts_with("Alone, the axes make 80 % of the change together"),
            "{sentences:?}"
        );
        assert!(sentences[3].starts_with("c changes nothing: identical runs"), "{sentences:?}");
        assert!(why.text(&Style::default()).contains("Axis by axis"));
    }
}

/// What no axis alone changes, and no axis alone takes back, is told.
#[test]
fn a_rest_is_told() {
    let mut found = outcomes(None);
    found.live = vec![0];
    let both = [0, 0b111].map(|set| found.runs[&set].clone());
    let names = ["first", "second"].map(str::to_owned);
    let comparison = Comparison::new(&found.sides, &names, &both).unwrap();
    let why = Why::new(&found, comparison, Some("result")).unwrap();
    assert!(why.sentences().iter().any(|line| line.starts_with("40 % of the change is not attributed")));
    let comparison = Comparison::new(&found.sides, &names, &both).unwrap();
    let refused = Why::new(&found, comparison, Some("p98")).err().expect("no such metric");
    assert!(refused.to_string().contains("p98"), "{refused}");
}

/// The gain is 50 %, a ratio of 2. Replays that take 1.9 times as long are less far off than that, those that take half
/// as long are as far off.
#[test]
fn a_gain_is_told_beside_the_replay_error() {
    let seen = |done_ns| Observations {
        by_comm: [("a".to_owned(), Observed { done_ns, ..Observed::default() })].into(),
        ..Observations::default()
    };
    let demo = read_from(demo_recording(), DEMO_NAME, DEMO_NAME, &Options::default()).unwrap();
    let recording = Recording { observed: seen(1_000), ..demo };
    let found = outcomes(None);
    let both = [0, 0b111].map(|set| found.runs[&set].clone());
    let names = ["first", "second"].map(str::to_owned);
    for (replayed, says, percent) in [
        (1_900, "That is more than replays of this recording are off in it (x1.9).", 90.0),
        (500, "That is not more than replays of this recording are off in it (±50.0%), so that", -50.0),
    ] {
        let errors = ReplayErrors::new(&recording, &[seen(replayed)], "m", "p");
        let comparison = Comparison::new(&found.sides, &names, &both).unwrap().with_replay_errors(errors);
        let why = Why::new(&found, comparison, Some("makespan_ns")).unwrap();
        assert!(why.sentences()[1].starts_with(says), "{:?}", why.sentences());
        let document = serde_json::to_value(why.document(why.comparison.document(None), Vec::new())).unwrap();
        let error = document["replay_error_percent"].as_f64().unwrap();
        assert!((error - percent).abs() < 1e-9, "{error}");
    }
}
