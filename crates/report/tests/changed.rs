// SPDX-License-Identifier: GPL-2.0-or-later
//! Ablation and sensitivity of outcomes made by hand: values, tables, JSON against its schema, refusals.

mod common;

use serde_json::{Value, json};
use wakelab_lab::{
    AblationCase, FigureOutcomes, RoundTrip, SensitivityOutcomes, Trip, TripDifference, TripFacts,
};
use wakelab_machine::Machine;
use wakelab_report::{Ablation, ReportError, Sensitivity, Style, round_trip_document, round_trip_text};
use wakelab_sim::{Ending, HostProfile, Outcome, Scenario};
use wakelab_workload::Workload;

use crate::common::validate;

fn scenario(machine: &str, policy: &str) -> Scenario {
    Scenario {
        machine: Machine::preset(machine).unwrap().into(),
        workload: Workload::parse_spec("hackbench:groups=1,fds=1,loops=2").unwrap().into(),
        policy: policy.parse().unwrap(),
        host: HostProfile::Mainline,
        limit_ns: 60_000_000_000,
        limit_events: wakelab_sim::LIMIT_EVENTS,
    }
}

/// Two seeds.
fn runs(makespans_ns: [u64; 2]) -> Vec<Outcome> {
    let outcome =
        |(seed, makespan_ns)| Outcome { seed, elapsed_ns: makespan_ns, makespan_ns, ..Outcome::default() };
    (1..).zip(makespans_ns).map(outcome).collect()
}

const TERMS: [(&str, &str); 3] =
    [("smt", "threads share"), ("ticks", "the tick"), ("futexes", "locks that sleep")];

/// On smp-8: without smt 20 % shorter with both seeds, without ticks 1 % shorter with one of them, without futexes the
/// same. On the Xeon: without smt one run never ends.
#[test]
fn ablation_of_two_machines() {
    let base = runs([100_000, 100_000]);
    let (shorter, a_little) = (runs([80_000, 80_000]), runs([98_000, 100_000]));
    let mut endless = runs([90_000, 90_000]);
    endless[1].ending = Ending::LimitReached;
    let case = |machine, without| AblationCase {
        scenario: scenario(machine, "linux-4.15"),
        with_all: base.clone(),
        without,
    };
    let cases = [
        case("smp-8", vec![shorter, a_little, base.clone()]),
        case("xeon-2s22c2t", vec![endless, base.clone(), base.clone()]),
    ];
    let ablation = Ablation::new("linux-4.15", &TERMS, &cases).unwrap();
    insta::assert_snapshot!("ablation", ablation.text(&Style::default()));
    let document = serde_json::to_value(ablation.document()).unwrap();
    validate(include_str!("../../../docs/schema/ablation.schema.json"), &document);
    let first = &document["cases"][0]["without"];
    assert_eq!(first[0]["term"], "smt");
    assert_eq!(first[0]["gain_percent"], 20.0);
    assert_eq!(first[0]["marked"], true);
    assert_eq!(first[1]["gain_percent"], 1.0);
    assert_eq!(first[1]["marked"], false, "2 % and 0 % are no clear gain");
    let second = &document["cases"][1]["without"][0];
    assert_eq!(
        (&second["gain_percent"], &second["values"][1]),
        (&Value::Null, &json!({ "seed": 2, "value": null }))
    );
    assert_eq!(
        (&document["cases"][1]["machine"], &document["cases"][1]["cpus"]),
        (&"xeon-2s22c2t".into(), &88.into())
    );
    assert_eq!(document["cases"][0]["with_all"]["values"][0], json!({ "seed": 1, "value": 100_000 }));
}

#[test]
fn ablations_that_do_not_fit_together() {
    let base = runs([100_000, 100_000]);
    let one = base[..1].to_vec();
    let case =
        |without| AblationCase { scenario: scenario("smp-8", "linux-4.15"), with_all: base.clone(), without };
    assert!(matches!(Ablation::new("p", &TERMS, &[]), Err(ReportError::Empty)));
    let too_few = [case(vec![base.clone()])];
    assert!(matches!(Ablation::new("p", &TERMS, &too_few), Err(ReportError::Lengths { .. })));
    let other_seeds = [case(vec![base.clone(), one, base.clone()])];
    assert!(matches!(Ablation::new("p", &TERMS, &other_seeds), Err(ReportError::Seeds { .. })));
}

fn figure(name: &str, halved: &[&[Outcome]], doubled: &[&[Outcome]]) -> FigureOutcomes {
    let of = |lists: &[&[Outcome]]| lists.iter().map(|runs| runs.to_vec()).collect();
    let source = "estimate: a guess".into();
    FigureOutcomes { figure: name.into(), source, halved: of(halved), doubled: of(doubled) }
}

/// The larger effect comes first, whatever its sign; what moves nothing is named below.
#[test]
fn sensitivity_of_one_policy() {
    let scenarios = vec![scenario("smp-8", "linux-4.15")];
    let names = ["linux-4.15".to_owned()];
    let base = vec![runs([100_000, 100_000])];
    let (small, large) = (runs([99_000, 99_000]), runs([150_000, 150_000]));
    let figures = vec![
        figure("wakeup_ns", &[&small], &[&base[0]]),
        figure("tick_ns", &[&base[0]], &[&base[0]]),
        figure("select_ns", &[&base[0]], &[&large]),
    ];
    let outcomes = SensitivityOutcomes { scenarios, base, figures };
    let sensitivity = Sensitivity::new(&names, &outcomes).unwrap();
    insta::assert_snapshot!("sensitivity_one", sensitivity.text(&Style::default()));
    let document = serde_json::to_value(sensitivity.document()).unwrap();
    validate(include_str!("../../../docs/schema/sensitivity.schema.json"), &document);
    let order: Vec<&Value> =
        document["figures"].as_array().unwrap().iter().map(|figure| &figure["figure"]).collect();
    assert_eq!(order, ["select_ns", "wakeup_ns", "tick_ns"]);
    assert_eq!(document["figures"][0]["doubled"]["policies"][0]["gain_percent"], -50.0);
    assert_eq!(document["figures"][0]["doubled"]["moved"], Value::Null);
}

/// 100 and 90 us: a gain of 10 %. With wakeup_ns doubled 200 and 180 us: both twice as long, the gain unmoved. With
/// select_ns doubled 100 and 120 us: the gain turns into a loss of 20 %, 30 points down.
#[test]
fn sensitivity_of_a_gain() {
    let scenarios = vec![scenario("smp-8", "linux-4.15"), scenario("smp-8", "linux-4.15+idle=smt-balance")];
    let names = ["linux-4.15".to_owned(), "smt-balance".to_owned()];
    let base = vec![runs([100_000, 100_000]), runs([90_000, 90_000])];
    let (first, second) = (runs([200_000, 200_000]), runs([180_000, 180_000]));
    let turned = runs([120_000, 120_000]);
    let figures = vec![
        figure("wakeup_ns", &[&base[0], &base[1]], &[&first, &second]),
        figure("select_ns", &[&base[0], &base[1]], &[&base[0], &turned]),
    ];
    let outcomes = SensitivityOutcomes { scenarios, base, figures };
    let sensitivity = Sensitivity::new(&names, &outcomes).unwrap();
    insta::assert_snapshot!("sensitivity_two", sensitivity.text(&Style::default()));
    let document = serde_json::to_value(sensitivity.document()).unwrap();
    validate(include_str!("../../../docs/schema/sensitivity.schema.json"), &document);
    assert_eq!(document["policies"][1]["base"]["gain_percent"], 10.0);
    let select = &document["figures"][0];
    assert_eq!(select["figure"], "select_ns");
    assert_eq!(select["doubled"]["gain"]["gain_percent"], -20.0);
    assert_eq!(select["doubled"]["moved"]["gain_percent"], -30.0);
    let second = &select["doubled"]["policies"][1];
    assert_eq!(second["policy"], "smt-balance");
    assert_eq!(second["values"], json!([{ "seed": 1, "value": 120_000 }, { "seed": 2, "value": 120_000 }]));
    assert_eq!(document["figures"][1]["doubled"]["moved"]["gain_percent"], 0.0);
}

#[test]
fn sensitivities_that_do_not_fit_together() {
    let names = ["linux-4.15".to_owned()];
    let runs = runs([100_000, 100_000]);
    let refusal = |base: &[Outcome], figures| {
        let scenarios = vec![scenario("smp-8", "linux-4.15")];
        let outcomes = SensitivityOutcomes { scenarios, base: vec![base.to_vec()], figures };
        Sensitivity::new(&names, &outcomes).unwrap_err()
    };
    let too_few = vec![figure("a", &[], &[&runs])];
    assert!(matches!(refusal(&runs, too_few), ReportError::Lengths { .. }));
    let other_seeds = vec![figure("a", &[&runs[..1]], &[&runs])];
    assert!(matches!(refusal(&runs, other_seeds), ReportError::Seeds { .. }));
    assert!(matches!(refusal(&[], Vec::new()), ReportError::Empty));
}

/// Free: the same. With costs: the first CPU to differ, 10 % longer, a switch in four more, and as many wake-ups.
#[test]
fn round_trips_as_text_and_json() {
    let facts = |elapsed_ns, switches| TripFacts { elapsed_ns, wakeups: 3, switches };
    let same = Trip { original: facts(1000, 4), replay: facts(1000, 4), exact: true, first_difference: None };
    let other = Trip {
        original: facts(2000, 4),
        replay: facts(2200, 5),
        exact: false,
        first_difference: Some(TripDifference { time_ns: 1_500_000, cpu: 1 }),
    };
    let (workload, machine) = ("pingpong".to_owned(), "smp-8".to_owned());
    let trips = [RoundTrip { workload, machine, free: same, costed: other }];
    let document = serde_json::to_value(round_trip_document("linux-4.15", 1, &trips)).unwrap();
    validate(include_str!("../../../docs/schema/round-trip.schema.json"), &document);
    let text = round_trip_text("linux-4.15", 1, &trips, &Style::default());
    let row = text.lines().find(|line| line.starts_with("pingpong on smp-8")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().skip(3).collect();
    assert_eq!(cells, ["4", "yes", "4", "until", "1.500", "ms", "+10.00%", "+25.00%", "="]);
    assert!(text.contains("1 of 1 exact where nothing costs anything."), "{text}");
}
