// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole comparisons of outcomes made by hand: the table, the JSON against its schema, and refusals.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use wakelab_experiment::Experiment;
use wakelab_lab::{DEMO_NAME, demo_recording};
use wakelab_machine::{Machine, presets};
use wakelab_policy::PolicySpec;
use wakelab_report::{
    Comparison, Decided, Limit, ReplayErrors, ReportError, Style, list, read_replay_errors, read_scenarios,
};
use wakelab_sim::{Ending, GroupTime, Histogram, HostProfile, NameOutcome, Outcome, Scenario};
use wakelab_trace::{Observations, Observed, Options, Recording, WhatIf, read_from};
use wakelab_workload::Workload;

use crate::common::validate;

const BASELINE: &str = "linux-4.15";
const OTHER: &str = "linux-4.15+idle=smt-balance";

fn scenario(workload: &str, policy: &str) -> Scenario {
    Scenario {
        machine: Machine::preset("smp-8").unwrap().into(),
        workload: Workload::parse_spec(workload).unwrap().into(),
        policy: policy.parse::<PolicySpec>().unwrap(),
        host: HostProfile::Mainline,
        limit_ns: 60_000_000_000,
        limit_events: wakelab_sim::LIMIT_EVENTS,
    }
}

/// `count` values up to `median`, as many up to four times that.
fn histogram(median: u64, count: u64) -> Histogram {
    let buckets = vec![(median, count), (4 * median, count)];
    Histogram { buckets, count: 2 * count, max_ns: 4 * median, sum_ns: 5 * median * count }
}

/// A run of 100 us on 8 CPUs: half work, a quarter idle, the rest overheads.
fn outcome(seed: u64, makespan_ns: u64) -> Outcome {
    let mut outcome = Outcome {
        seed,
        elapsed_ns: 100_000,
        makespan_ns,
        wakeup_latency: histogram(2000, 10),
        idle_while_runnable_ns: 4000,
        migrations: [0, 0, 0, 30, 0, 0, 0, 0],
        select_reads: [10, 0, 0, 60, 0, 0, 0, 0],
        select_misses: [0, 0, 0, 40, 0, 0, 0, 0],
        reasons: BTreeMap::from([("target-idle".to_owned(), 30), ("idle-cpu".to_owned(), 10)]),
        affine_reasons: BTreeMap::from([("prev".to_owned(), 40)]),
        task_cpu_time_ns: vec![400_000],
        ..Outcome::default()
    };
    outcome.counts.selects = 40;
    outcome.counts.searches = 10;
    outcome.counts.search_reads = 45;
    outcome.time.work_ns = 400_000;
    outcome.time.idle_ns = 200_000;
    outcome.time.switch_ns = 80_000;
    outcome.time.select_ns = 40_000;
    outcome.time.slowdown_ns = 79_999;
    outcome.time.tick_ns = 1;
    outcome
}

/// The other policy: 10, 12 and 14 % of 100 us shorter, latency halved, no migrations, fewer reads.
fn faster(seed: u64, makespan_ns: u64) -> Outcome {
    let mut outcome = outcome(seed, makespan_ns);
    outcome.wakeup_latency = histogram(1000, 10);
    outcome.migrations = [0; 8];
    outcome.select_reads = [10, 0, 0, 20, 0, 0, 0, 0];
    outcome.counts.search_reads = 15;
    outcome.reasons = BTreeMap::from([("target-idle".to_owned(), 20), ("balance-moved".to_owned(), 20)]);
    outcome.time.select_ns = 20_000;
    outcome.time.idle_ns = 220_000;
    outcome
}

fn three_seeds() -> Vec<Vec<Outcome>> {
    vec![
        vec![outcome(1, 100_000), outcome(2, 110_000), outcome(3, 90_000)],
        vec![faster(1, 90_000), faster(2, 98_000), faster(3, 76_000)],
    ]
}

fn names() -> Vec<String> {
    vec![BASELINE.to_owned(), OTHER.to_owned()]
}

fn two_scenarios(workload: &str) -> Vec<Scenario> {
    vec![scenario(workload, BASELINE), scenario(workload, OTHER)]
}

const HACKBENCH: &str = "hackbench:groups=1,fds=1,loops=2";

#[test]
fn the_table_of_three_seeds() {
    let (scenarios, outcomes) = (two_scenarios(HACKBENCH), three_seeds());
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    insta::assert_snapshot!("three_seeds", comparison.text(&Style::default()));
}

#[test]
fn a_row_by_hand() {
    let (scenarios, outcomes) = (two_scenarios(HACKBENCH), three_seeds());
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let row = |name: &str| {
        let metric = comparison.metrics.iter().find(|metric| metric.name == name).unwrap();
        let of = |index: usize| (metric.policies[index].mean, metric.policies[index].gain);
        (of(0), of(1))
    };
    let ((before, nothing), (after, gain)) = row("makespan_ns");
    assert_eq!((before, after), (Some(100_000.0), Some(88_000.0)));
    assert_eq!((nothing.gain_percent, nothing.ci_percent, nothing.marked), (None, None, false));
    assert_eq!(
        (gain.gain_percent, gain.ci_percent, gain.marked),
        (Some(12.0), Some([7.031725, 16.968275]), true)
    );
    // 60 reads of others' state in 40 decisions, 10 searches; then 20.
    assert_eq!((row("reads_per_decision").0.0, row("reads_per_decision").1.0), (Some(1.5), Some(0.5)));
    assert_eq!((row("reads_per_search").0.0, row("reads_per_search").1.0), (Some(4.5), Some(1.5)));
    // (80,000 + 40,000 + 1) of 800,000.
    assert!((row("scheduler_time_percent").0.0.unwrap() - 15.000125).abs() < 1e-9);
    assert_eq!(row("utilisation_percent").0.0, Some(75.0));
    // Utilisation fell from 75 to 72.5 % for certain, which is neither better nor worse.
    let utilisation = row("utilisation_percent").1.1;
    assert_eq!((utilisation.gain_percent, utilisation.marked), (Some(-3.333333), false));
    // No values at all.
    assert_eq!(row("queue_delay_p50_ns").0.0, None);
    // From 0 there is no gain.
    assert_eq!(row("migrations_smt").1.1.gain_percent, None);
    assert_eq!(row("migrations_llc").1.1.gain_percent, Some(-100.0), "all of them are gone");
    assert_eq!(row("wakeup_latency_p50_ns").1.1.gain_percent, Some(50.0));
}

#[test]
fn colours_change_nothing_but_colours() {
    let (scenarios, outcomes) = (two_scenarios(HACKBENCH), three_seeds());
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let colored = comparison.text(&Style { color: true, width: None });
    let (blue, orange) = ("\x1b[38;5;33m", "\x1b[38;5;208m");
    assert!(colored.contains(&format!("{blue}88.0 (+12.0% ±5.0) *\x1b[0m")), "{colored:?}");
    assert!(!colored.contains(orange), "nothing became worse");
    let mut plain = colored;
    for code in [blue, "\x1b[1m", "\x1b[0m"] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, comparison.text(&Style::default()));
}

#[test]
fn narrow_pages_cut_the_table_and_repeat_the_baseline() {
    let outcomes = vec![vec![outcome(1, 100_000)], vec![outcome(1, 90_000)], vec![outcome(1, 80_000)]];
    let scenarios: Vec<Scenario> =
        [BASELINE, OTHER, BASELINE].map(|policy| scenario(HACKBENCH, policy)).into();
    let names = [BASELINE, OTHER, "third"].map(str::to_owned);
    let comparison = Comparison::new(&scenarios, &names, &outcomes).unwrap();
    let narrow = comparison.text(&Style { color: false, width: Some(70) });
    assert!(narrow.lines().all(|line| line.chars().count() <= 70), "{narrow}");
    let rows: Vec<&str> = narrow.lines().filter(|line| line.starts_with("makespan")).collect();
    assert_eq!(rows.len(), 2, "{narrow}");
    assert!(rows[0].contains("100.0") && rows[0].contains("(+10.00%)"), "{narrow}");
    assert!(rows[1].contains("100.0") && rows[1].contains("(+20.00%)"), "{narrow}");
    let words = narrow.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("one seed: no intervals"), "{narrow}");
    let alone =
        Comparison::new(&scenarios[..1], &names[..1], &outcomes[..1]).unwrap().text(&Style::default());
    assert!(alone.contains("makespan") && !alone.contains("(gain)"), "{alone}");
    let wide = comparison.text(&Style { color: false, width: Some(200) });
    assert_eq!(wide.lines().filter(|line| line.starts_with("makespan")).count(), 1);
}

/// 5 times the makespan and a fifth of the migrations: a loss that is orange, and a change that is neither.
#[test]
fn large_losses_and_changes_are_ratios() {
    let worse = |seed| Outcome {
        makespan_ns: 500_000,
        migrations: [0, 0, 0, 6, 0, 0, 0, 0],
        ..outcome(seed, 100_000)
    };
    let base = |seed| outcome(seed, 100_000);
    let outcomes = vec![vec![base(1), base(2)], vec![worse(1), worse(2)]];
    let scenarios = two_scenarios(HACKBENCH);
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let text = comparison.text(&Style::default());
    let row = |label: &str| text.lines().find(|line| line.starts_with(label)).unwrap();
    assert!(row("makespan").ends_with("(x5.0 worse) *"), "{text}");
    assert!(row("migrations").ends_with("[x0.20]"), "{text}");
    assert!(text.contains("without ±: the same for every seed\n"), "{text}");
    let colored = comparison.text(&Style { color: true, width: None });
    assert!(colored.contains("\x1b[38;5;208m"), "a marked loss is orange: {colored:?}");
}

#[test]
fn identical_runs_are_one_line() {
    let runs = vec![outcome(1, 100_000), outcome(2, 100_000)];
    let outcomes = vec![runs.clone(), runs];
    let scenarios = two_scenarios(HACKBENCH);
    let text = Comparison::new(&scenarios, &names(), &outcomes).unwrap().text(&Style::default());
    assert!(text.contains("linux-4.15+idle=smt-balance against linux-4.15:\n  identical runs"), "{text}");
    let row = text.lines().find(|line| line.starts_with("makespan")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["makespan", "us", "100.0"], "{text}");
    assert!(!text.contains("(gain)"), "{text}");
}

#[test]
fn names_from_files_are_printed_without_their_escapes() {
    let mut scenarios = two_scenarios(HACKBENCH);
    for scenario in &mut scenarios {
        scenario.workload_mut().name = "evil\x1b[2J".to_owned();
    }
    let outcomes = three_seeds();
    let text = Comparison::new(&scenarios, &names(), &outcomes).unwrap().text(&Style::default());
    assert!(text.starts_with(r"evil\x1b[2J on smp-8"), "{text}");
}

#[test]
fn runs_that_did_not_complete_are_shown_loudly_and_mark_nothing() {
    let (scenarios, mut outcomes) = (two_scenarios(HACKBENCH), three_seeds());
    outcomes[1][1].ending = Ending::Deadlock { waiting: 7 };
    outcomes[1][2].ending = Ending::LimitReached;
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let text = comparison.text(&Style::default());
    assert!(
        text.contains("!! linux-4.15+idle=smt-balance, seed 2: ended in a deadlock, 7 tasks waiting\n"),
        "{text}"
    );
    assert!(text.contains("!! linux-4.15+idle=smt-balance, seed 3: did not end within 60 s\n"), "{text}");
    let makespan = &comparison.metrics[0].policies[1];
    assert_eq!(makespan.values, [Some(90_000.0), None, None]);
    assert_eq!((makespan.mean, makespan.gain.gain_percent), (None, None));
    assert!(comparison.metrics.iter().all(|metric| metric.policies.iter().all(|policy| !policy.gain.marked)));
}

/// Means of three runs: 0.1, 0.2 and 0.3 s, then half of each; in group `a` twice as much.
#[test]
fn what_task_groups_received() {
    let mut outcomes = three_seeds();
    for (policy, runs) in outcomes.iter_mut().enumerate() {
        for (run, outcome) in runs.iter_mut().enumerate() {
            let cpu_time_ns = (run as u64 + 1) * 100_000_000 / (policy as u64 + 1);
            let group = |name: &str, times| {
                let cpu_time_ns = times * cpu_time_ns;
                let throttled_ns = (name == "b").then_some(7_000_000);
                GroupTime { name: name.into(), cpu_time_ns, own_cpu_time_ns: cpu_time_ns, throttled_ns }
            };
            outcome.groups = vec![group("a", 2), group("b", 1), group("c", 0), group("d", 0)];
        }
    }
    let scenarios = two_scenarios("spin-groups");
    let text = Comparison::new(&scenarios, &names(), &outcomes).unwrap().text(&Style::default());
    let table = text.split("CPU time by task group, in seconds").nth(1).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [["a", "s", "0.400", "0.200"], ["b", "s", "0.200", "0.100"], ["d", "s", "0.000", "0.000"]] {
        assert!(rows.contains(&row.to_vec()), "{row:?} in {text}");
    }
    assert!(text.lines().any(|line| line.starts_with("throttled") && line.contains("7.000")), "{text}");
}

#[test]
fn rates_are_better_when_higher() {
    let mut outcomes = three_seeds();
    for run in outcomes.iter_mut().flatten() {
        run.units = if run.select_reads[3] == 60 { 1000 } else { 1500 };
        run.makespan_ns = 500_000_000;
    }
    let scenarios = two_scenarios("pingpong");
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let rate = &comparison.metrics[0];
    assert_eq!(rate.name, "rate_per_s");
    assert_eq!((rate.policies[0].mean, rate.policies[1].mean), (Some(2000.0), Some(3000.0)));
    assert_eq!(rate.policies[1].gain.gain_percent, Some(50.0));
    assert!(rate.policies[1].gain.marked);
}

const COMPARE_SCHEMA: &str = include_str!("../../../docs/schema/compare.schema.json");
const LIST_SCHEMA: &str = include_str!("../../../docs/schema/list.schema.json");

#[test]
fn the_document_keeps_its_schema_and_runs_again() {
    let (scenarios, mut outcomes) = (two_scenarios(HACKBENCH), three_seeds());
    outcomes[0][0].ending = Ending::Deadlock { waiting: 1 };
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let mut workload = Workload::clone(&scenarios[0].workload);
    workload.tasks[0].allowed = Some(vec![8]);
    let what_if = WhatIf {
        nice: vec!["*=5".parse().unwrap()],
        cpus: vec!["0-1".parse().unwrap()],
        ..WhatIf::default()
    };
    let changed = what_if.apply(&mut workload, 8).unwrap();
    let explained = serde_json::json!({ "waits": 3, "folded": changed.folded, "what_if": changed.what_if });
    let text = serde_json::to_string_pretty(&comparison.document_with_scenario(Some(explained))).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    validate(COMPARE_SCHEMA, &document);
    assert_eq!(document["recording"]["what_if"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["recording"]["folded"]["moved"].as_array().map(Vec::len), Some(1));
    // Raw values per seed, null where undefined; whole numbers without a fraction.
    let values = &document["metrics"][0]["policies"][0];
    let of_seeds = r#"[{"seed":1,"value":null},{"seed":2,"value":110000},{"seed":3,"value":90000}]"#;
    assert_eq!(values["values"].to_string(), of_seeds);
    assert_eq!(values["mean"], Value::Null);
    assert_eq!((&values["policy"], &values["machine"]), (&BASELINE.into(), &"smp-8".into()));
    let run = &document["policies"][0]["runs"][1];
    assert_eq!((&run["seed"], &run["outcome"]["seed"]), (&2.into(), &2.into()));
    let task = scenarios[0].workload.tasks[0].name.as_str();
    let of_task = serde_json::json!({ "task": 0, "comm": task, "cpu_time_ns": 400_000 });
    assert_eq!(run["task_cpu_times"][0], of_task);
    assert_eq!(run["outcome"]["select_reads"]["llc"], 60);
    assert_eq!(document["policies"][1]["runs"][0]["wakeup_latency"]["p99_ns"], 4000);
    assert_eq!(document["policies"][1]["runs"][0]["outcome"]["wakeup_latency"]["buckets"][0][0], 1000);
    let (again, seeds) = read_scenarios(&text).unwrap();
    assert_eq!((again, seeds), (scenarios, vec![1, 2, 3]));
}

#[test]
fn one_seed_and_no_recording_keep_the_schema_too() {
    let (scenarios, outcomes) = (two_scenarios(HACKBENCH), vec![vec![outcome(9, 10)], vec![outcome(9, 0)]]);
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let document = serde_json::to_value(comparison.document(None)).unwrap();
    validate(COMPARE_SCHEMA, &document);
    assert_eq!(document["metrics"][0]["policies"][1]["ci_percent"], Value::Null);
    assert_eq!(document["metrics"][0]["policies"][1]["gain_percent"], 100.0);
    assert_eq!(document["recording"], Value::Null);
}

/// Replays that take 25 % longer than the recording and wake as fast, by a kernel thread, which counts, too.
fn errors() -> ReplayErrors {
    let seen = |done_ns| {
        let of = Observed { done_ns, wakeup_latency_ns: vec![1_000, 2_000], ..Observed::default() };
        Observations { by_comm: [("kworker/0:1".to_owned(), of)].into(), ..Observations::default() }
    };
    let demo = read_from(demo_recording(), DEMO_NAME, DEMO_NAME, &Options::default()).unwrap();
    let recording = Recording { observed: seen(100), ..demo };
    // The median of three seeds counts.
    ReplayErrors::new(&recording, &[seen(125), seen(90), seen(700)], "m", "p")
}

/// The gain in makespan is 12 %, less than the error of 25 %. That in wake-up latency is 50 %, and its error is 0.
#[test]
fn gains_within_the_replay_error_are_not_marked() {
    let (scenarios, outcomes) = (two_scenarios(HACKBENCH), three_seeds());
    let before = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let marked = |comparison: &Comparison<'_>, name: &str| {
        let metric = comparison.metrics.iter().find(|metric| metric.name == name).unwrap();
        metric.policies[1].gain.marked
    };
    assert!(marked(&before, "makespan_ns") && marked(&before, "wakeup_latency_p50_ns"));
    let after = before.clone().with_replay_errors(errors());
    assert!(!marked(&after, "makespan_ns") && marked(&after, "wakeup_latency_p50_ns"));

    let text = after.text(&Style::default());
    let row = |label: &str| {
        let line = text.lines().find(|line| line.starts_with(label)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("makespan"), "makespan us 100.0 ±25.0% 88.0 (+12.0% ±5.0)");
    assert!(text.contains("a replay on m under p is from the recording"), "{text}");
    assert_eq!(text.matches("replay error -: not measured").count(), 1, "{text}");
    assert!(!before.text(&Style::default()).contains("replay"));
}

/// Every table of a page that is too narrow for all policies has the baseline and the error.
#[test]
fn the_replay_error_is_in_each_table() {
    let outcomes = vec![vec![outcome(1, 100_000)], vec![outcome(1, 90_000)], vec![outcome(1, 80_000)]];
    let scenarios: Vec<Scenario> =
        [BASELINE, OTHER, BASELINE].map(|policy| scenario(HACKBENCH, policy)).into();
    let names = [BASELINE, OTHER, "third"].map(str::to_owned);
    let comparison = Comparison::new(&scenarios, &names, &outcomes).unwrap().with_replay_errors(errors());
    let narrow = comparison.text(&Style { color: false, width: Some(70) });
    assert!(narrow.lines().all(|line| line.chars().count() <= 70), "{narrow}");
    let rows: Vec<&str> = narrow.lines().filter(|line| line.starts_with("makespan")).collect();
    assert_eq!(rows.len(), 2, "{narrow}");
    assert!(rows.iter().all(|row| row.contains("100.0") && row.contains("±25.0%")), "{narrow}");
    let alone = Comparison::new(&scenarios[..1], &names[..1], &outcomes[..1]).unwrap();
    let alone = alone.with_replay_errors(errors()).text(&Style::default());
    assert!(alone.contains("±25.0%") && !alone.contains("exceeds"), "{alone}");
}

#[test]
fn the_replay_error_is_in_the_document() {
    let (scenarios, outcomes) = (two_scenarios(HACKBENCH), three_seeds());
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let without = serde_json::to_value(comparison.document(None)).unwrap();
    assert_eq!(without["replay_check"], Value::Null);
    assert_eq!(read_replay_errors(&without.to_string()).unwrap(), None);
    let comparison = comparison.with_replay_errors(errors());
    let document = serde_json::to_value(comparison.document(None)).unwrap();
    validate(COMPARE_SCHEMA, &document);
    assert_eq!(document["replay_check"], serde_json::json!({ "machine": "m", "policy": "p" }));
    let percent = |name: &str| {
        let metrics = document["metrics"].as_array().unwrap();
        metrics.iter().find(|metric| metric["name"] == name).unwrap()["replay_error_percent"].as_f64()
    };
    let latency = ["p50", "p95", "p99", "p99_9"].map(|word| percent(&format!("wakeup_latency_{word}_ns")));
    assert_eq!((percent("makespan_ns"), latency), (Some(25.0), [Some(0.0); 4]));
    // Nothing migrated, and a check does not measure queue delay alone.
    assert_eq!([percent("migrations"), percent("queue_delay_p50_ns")], [None; 2]);
    assert_eq!(read_replay_errors(&document.to_string()).unwrap(), Some(errors()));
}

#[test]
fn a_document_that_lacks_something_is_noticed() {
    let (scenarios, outcomes) = (two_scenarios(HACKBENCH), three_seeds());
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let schema: Value = serde_json::from_str(COMPARE_SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut good = serde_json::to_value(comparison.document_with_scenario(None)).unwrap();
    assert!(validator.is_valid(&good));
    good["policies"][0]["scenario"] = serde_json::json!({});
    for pointer in [
        "/seeds",
        "/scenario/machine",
        "/policies/0/scenario",
        "/metrics/0/policies/0/values",
        "/policies/0/runs/0/outcome/time",
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = Value::from("x");
        assert!(!validator.is_valid(&bad), "{pointer}");
    }
}

#[test]
fn foreign_documents_are_refused() {
    for (text, part) in [
        ("", "EOF"),
        ("{}", "missing field `schema_version`"),
        (r#"{"schema_version": 2, "kind": "compare"}"#, "found 'compare' of version 2"),
        (r#"{"schema_version": 1, "kind": "machines"}"#, "found 'machines' of version 1"),
        (r#"{"schema_version": 1, "kind": "compare"}"#, "missing field `seeds`"),
        (r#"{"schema_version": 1, "kind": "compare", "seeds": [], "policies": []}"#, "with --with-scenario"),
    ] {
        let error = read_scenarios(text).unwrap_err().to_string();
        assert!(error.starts_with("no comparison of schema version 1: ") && error.contains(part), "{error}");
    }
}

#[test]
fn what_cannot_be_compared() {
    let (scenarios, mut outcomes) = (two_scenarios(HACKBENCH), three_seeds());
    outcomes[1][0].seed = 5;
    let error = Comparison::new(&scenarios, &names(), &outcomes).unwrap_err();
    assert!(matches!(error, ReportError::Seeds { .. }));
    assert_eq!(
        error.to_string(),
        "policy linux-4.15+idle=smt-balance ran with other seeds than linux-4.15; comparisons are paired by seed"
    );
    outcomes[1].pop();
    assert!(matches!(Comparison::new(&scenarios, &names(), &outcomes), Err(ReportError::Seeds { .. })));
    let outcomes = three_seeds();
    let mut others = scenarios.clone();
    others[1].limit_ns = 1;
    assert!(matches!(Comparison::new(&others, &names(), &outcomes), Err(ReportError::Scenarios { .. })));
    assert!(matches!(
        Comparison::new(&scenarios[..1], &names(), &outcomes),
        Err(ReportError::Lengths { .. })
    ));
    assert!(matches!(Comparison::new(&[], &[], &[]), Err(ReportError::Empty)));
    let nothing = vec![vec![], vec![]];
    assert!(matches!(Comparison::new(&scenarios, &names(), &nothing), Err(ReportError::Empty)));
}

/// A matrix of core-to-core-latency of `cpus` CPUs, all 40 ns apart.
fn lines(cpus: usize) -> String {
    let row = |row: usize| (0..cpus).map(|column| if column < row { "40" } else { "" }).collect::<Vec<_>>();
    (0..cpus).map(|at| row(at).join(",") + "\n").collect()
}

#[test]
fn listings_keep_their_schema() {
    let workloads: Vec<_> =
        wakelab_workload::presets().map(|name| wakelab_workload::describe(name).unwrap()).collect();
    let machine = Machine::preset("smp-8").unwrap();
    let mut figures =
        wakelab_measure::wult("WakeLatency,SilentTime,ReqCState\n1,2,C1\n1,2,C1\n1,2,C1\n", "datapoints.csv")
            .unwrap();
    figures.replace(wakelab_measure::core_to_core(&lines(8), "lines.csv", &machine.topology).unwrap());
    let documents = [
        serde_json::to_value(list::machines(presets())),
        serde_json::to_value(list::machine(&machine)),
        serde_json::to_value(list::policies()),
        serde_json::to_value(list::policy(&BASELINE.parse().unwrap())),
        serde_json::to_value(list::policy(&OTHER.parse().unwrap())),
        serde_json::to_value(list::workloads(&workloads)),
        serde_json::to_value(list::workload(&workloads[0])),
        serde_json::to_value(list::experiments(&[Experiment::load("hackbench").unwrap()])),
        serde_json::to_value(list::measured("smp-8", "host", &figures)),
    ];
    let documents = documents.map(Result::unwrap);
    for document in &documents {
        validate(LIST_SCHEMA, document);
    }
    let named = PolicySpec::named().iter().find(|named| named.name == BASELINE).unwrap();
    assert_eq!(documents[3]["description"], named.description);
    assert_eq!((&documents[4]["name"], &documents[4]["description"]), (&Value::from(OTHER), &Value::Null));
    assert_eq!(documents[6]["workload"]["params"][0]["name"], "groups");
}

/// The fields of an outcome's JSON are those of the table of kinds.
#[test]
fn kinds_of_time_have_the_same_names_in_json() {
    let json = serde_json::to_value(Outcome::default()).unwrap();
    let mut fields: Vec<&String> = json["time"].as_object().unwrap().keys().collect();
    let mut names: Vec<String> =
        wakelab_sim::TimeKind::ALL.into_iter().map(|kind| format!("{}_ns", kind.name())).collect();
    fields.sort_unstable();
    names.sort_unstable();
    assert!(fields.into_iter().eq(&names), "{names:?}");
}

fn verdict(comparison: &Comparison<'_>) -> (Decided, Vec<String>) {
    let [verdict] = &comparison.verdicts()[..] else { panic!("one policy beside the first") };
    assert_eq!(verdict.policy, OTHER);
    (verdict.decided, verdict.sentences.clone())
}

/// Each rule of the verdict: 12 % better than chance; not better than an error of 25 %; 0.5 % is no difference; seeds
/// that scatter; one seed; the same runs.
#[test]
fn verdicts_by_hand() {
    let (scenarios, outcomes) = (two_scenarios(HACKBENCH), three_seeds());
    let of = |outcomes: &[Vec<Outcome>]| verdict(&Comparison::new(&scenarios, &names(), outcomes).unwrap());
    let (decided, sentences) = of(&outcomes);
    assert_eq!(decided, Decided::Better);
    assert_eq!(
        sentences,
        [
            "makespan: 12.0 % ±5.0 better, 88.0 us instead of 100.0 us.",
            "Beside it: wake-up latency p50 50.0 % better.",
            "What moved most with it: migrations 30 to 0 a run; placement decisions 5.0 to 2.5 % of CPU time; \
             balance-moved 0.0 to 50.0 % of placement decisions.",
        ]
    );
    let swapped = [outcomes[1].clone(), outcomes[0].clone()];
    assert_eq!(of(&swapped).0, Decided::Worse);
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap().with_replay_errors(errors());
    let (decided, sentences) = verdict(&comparison);
    assert_eq!(decided, Decided::Undecided);
    assert_eq!(
        sentences[0],
        "makespan: undecided: 12.0 % ±5.0 better, 88.0 us instead of 100.0 us, which is not more than replays of this \
         recording are off (±25.0%)."
    );
    assert!(sentences.last().unwrap().contains("`wakelab check`"), "{sentences:?}");

    let two =
        |a: u64, b: u64| [vec![outcome(1, 100_000), outcome(2, 100_000)], vec![outcome(1, a), outcome(2, b)]];
    let (decided, sentences) = of(&two(99_500, 99_500));
    assert_eq!(decided, Decided::NoDifference);
    assert_eq!(
        sentences,
        [
            "makespan: no difference beyond 1 % and the spread of 2 seeds (+0.5%), 99.5 us instead of 100.0 us."
        ]
    );
    let (decided, sentences) = of(&two(80_000, 110_000));
    assert_eq!((decided, sentences.len()), (Decided::NoDifference, 2), "{sentences:?}");
    assert_eq!(sentences[1], "More --seeds narrow the interval.");
    let (decided, sentences) = of(&[vec![outcome(1, 100_000)], vec![outcome(1, 80_000)]]);
    assert_eq!(decided, Decided::Unknown);
    assert_eq!(sentences[0], "makespan: 20.00 % better, 80.0 us instead of 100.0 us, without an interval.");
    let (decided, sentences) = of(&two(100_000, 100_000));
    assert_eq!((decided, &sentences[0][..]), (Decided::Identical, "identical runs: no decision differed."));
}

/// A short page has the result, the latencies at p50 and p99, and what moved.
#[test]
fn a_short_page_has_what_moved() {
    let (scenarios, outcomes) = (two_scenarios(HACKBENCH), three_seeds());
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let labels = |text: &str| -> Vec<String> {
        let rows = text.lines().filter(|line| line.contains('(') || line.contains('['));
        let words = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        rows.map(words).collect()
    };
    let text = comparison.text_of_moved(&Style::default());
    let all = comparison.text(&Style::default());
    assert!(labels(&text).len() < labels(&all).len(), "{text}");
    assert!(text.contains("wake-up latency p50") && !text.contains("utilisation"), "{text}");
    assert!(!text.contains("Where the time went") && all.contains("Where the time went"), "{text}");
    assert!(text.contains("\n--all shows ") && !all.contains("--all"), "{text}");
    // Nothing moves in one column.
    let alone = Comparison::new(&scenarios[..1], &names()[..1], &outcomes[..1]).unwrap();
    assert_eq!(alone.text_of_moved(&Style::default()), alone.text(&Style::default()));
}

/// The service is done after 88 instead of 100 us; the last of all tasks 300 us later.
#[test]
fn a_service_is_judged_by_itself() {
    let mut scenarios = two_scenarios(HACKBENCH);
    for scenario in &mut scenarios {
        Arc::make_mut(&mut scenario.workload).tasks[0].judged = true;
    }
    let mut outcomes = three_seeds();
    for outcome in outcomes.iter_mut().flatten() {
        outcome.elapsed_ns = outcome.makespan_ns + 300_000;
        let of = |name: &str, cpu_time_ns| NameOutcome {
            name: name.to_owned(),
            tasks: 1,
            cpu_time_ns,
            done_ns: Some(outcome.makespan_ns),
            wakeup_latency: histogram(1000, 10),
            run_delay: histogram(2000, 10),
        };
        outcome.by_name =
            vec![of("small", 1_000), of("large\u{1b}", 50_000), of("third", 900), of("last", 1)];
    }
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let (_, sentences) = verdict(&comparison);
    assert_eq!(
        sentences[0],
        "done after (service: large\\x1b, small and 2 more): 12.0 % ±5.0 better, 88.0 us instead of 100.0 us."
    );
    let text = comparison.text_of_moved(&Style::default());
    let row = |label: &str| text.lines().find(|line| line.starts_with(label)).map(str::to_owned);
    assert!(row("done after").unwrap().contains("(+12.0% ±5.0) *"), "{text}");
    assert!(row("CPU time").unwrap().contains("51.90"), "{text}");
    assert!(row("large\\x1b run delay p99").unwrap().contains("8.000"), "{text}");
    assert!(row("third CPU time").is_some() && row("last CPU time").is_none(), "{text}");
    let makespan = comparison.metrics.iter().find(|metric| metric.name == "makespan_ns").unwrap();
    assert_eq!(makespan.policies[0].mean, Some(400_000.0));
    let document = serde_json::to_value(comparison.document(None)).unwrap();
    validate(COMPARE_SCHEMA, &document);
    assert_eq!(document["verdicts"][0]["decided"], "better");
    assert_eq!(document["policies"][0]["runs"][0]["tasks"][1]["comm"], "large\u{1b}");
}

/// One policy on smp-8 and on 16 CPUs, where one task has its own CPUs.
#[test]
fn machines_are_an_axis() {
    let mut scenarios = vec![scenario(HACKBENCH, BASELINE), scenario(HACKBENCH, BASELINE)];
    scenarios[1].machine = Arc::new(Machine::load("smp-8*2").unwrap());
    Arc::make_mut(&mut scenarios[1].workload).tasks[0].allowed = Some(vec![9]);
    let (names, outcomes) = (vec![BASELINE.to_owned(); 2], three_seeds());
    let comparison = Comparison::new(&scenarios, &names, &outcomes).unwrap();
    let text = comparison.text(&Style::default());
    let begin = "hackbench:groups=1,fds=1,loops=2 on smp-8 (8 CPUs), smp-8*2 (16 CPUs), host mainline, 3 seeds from 1 \
                 to 3\nlinux-4.15 on smp-8*2 against linux-4.15 on smp-8:\n  makespan: 12.0 % ±5.0 better, ";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.lines().any(|line| line.split_whitespace().eq(["smp-8", "smp-8*2"])), "{text}");
    let short = serde_json::to_value(comparison.document(None)).unwrap();
    validate(COMPARE_SCHEMA, &short);
    let machines = [0, 1].map(|column| short["metrics"][0]["policies"][column]["machine"].clone());
    assert_eq!(machines, ["smp-8", "smp-8*2"]);
    assert_eq!((&short["scenario"], &short["policies"][1]["cpus"]), (&Value::Null, &16.into()));
    let document = serde_json::to_string(&comparison.document_with_scenario(None)).unwrap();
    validate(COMPARE_SCHEMA, &serde_json::from_str(&document).unwrap());
    assert_eq!(read_scenarios(&document).unwrap(), (scenarios.clone(), vec![1, 2, 3]));
    // Other tasks are other work. Another CPU on the same machine is a what-if of the same work.
    let mut others = scenarios.clone();
    Arc::make_mut(&mut others[1].workload).tasks.pop();
    assert!(matches!(Comparison::new(&others, &names, &outcomes), Err(ReportError::Scenarios { .. })));
    let mut others = scenarios.clone();
    others[1].machine = Arc::clone(&others[0].machine);
    assert!(Comparison::new(&others, &names, &outcomes).is_ok());
}

/// The makespan is 12 % ±5 worse, and no latency is defined but p50 to p99.9 of all tasks, which double.
#[test]
fn limits_are_broken_by_certain_losses() {
    let scenarios = two_scenarios(HACKBENCH);
    let [slow, fast]: [Vec<Outcome>; 2] = three_seeds().try_into().unwrap();
    let outcomes = [fast, slow];
    let comparison = Comparison::new(&scenarios, &names(), &outcomes).unwrap();
    let broken = |limit: &str| comparison.broken(&[limit.parse().unwrap()]).unwrap();
    assert_eq!(
        broken("p99 > 5%"),
        ["linux-4.15+idle=smt-balance: wake-up latency p99 is x2.0 worse; the limit is 5 %"]
    );
    assert_eq!(broken("p99>100%"), [""; 0], "a doubled latency is 100 % worse");
    assert_eq!(broken("result > 10 %").len(), 1);
    assert_eq!(broken("makespan_ns > 14%"), [""; 0]);
    let better = [outcomes[1].clone(), outcomes[0].clone()];
    let better = Comparison::new(&scenarios, &names(), &better).unwrap();
    assert_eq!(better.broken(&["result > 0%".parse().unwrap()]).unwrap(), [""; 0]);
    // A loss of 10 % in the mean that could be chance.
    let uncertain =
        [vec![outcome(1, 100_000), outcome(2, 100_000)], vec![outcome(1, 140_000), outcome(2, 80_000)]];
    let uncertain = Comparison::new(&scenarios, &names(), &uncertain).unwrap();
    assert_eq!(uncertain.broken(&["result > 5%".parse().unwrap()]).unwrap(), [""; 0]);
    for unknown in ["p98", "migrations", "done_ns"] {
        let error = comparison.broken(&[format!("{unknown} > 1%").parse().unwrap()]).unwrap_err().to_string();
        assert!(
            error.contains(unknown) && error.contains("result, p50, p95, p99, p99.9, makespan_ns"),
            "{error}"
        );
    }
    for bad in ["", "p99", "p99 > 5", "> 5%", "p99 > x%", "p99 > -1%", "p99 > inf%", "p99 < 5%"] {
        assert_eq!(bad.parse::<Limit>(), Err("expected METRIC > N%, such as 'p99 > 5%'".to_owned()), "{bad}");
    }
}
