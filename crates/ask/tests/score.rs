// SPDX-License-Identifier: GPL-2.0-or-later
//! Scores of policies on real runs.

use wakelab_ask::{Ask, MachineChoice, ScoreAsk, Scored, Scorer, Source};
use wakelab_lab::{Kernel, Runner, Silent};
use wakelab_sim::{HostProfile, LIMIT_EVENTS};

fn scorer(metrics: &[&str]) -> Scorer {
    scorer_of(&["hackbench:groups=1,loops=20", "pingpong:pairs=2,loops=100"], metrics)
}

fn scorer_of(inputs: &[&str], metrics: &[&str]) -> Scorer {
    let ask = |spec: &&str| Ask { source: Some(Source::Workload((*spec).to_owned())), ..Ask::default() };
    let machine = |name: &str| MachineChoice::Name(name.to_owned());
    let ask = ScoreAsk {
        inputs: &inputs.iter().map(ask).collect::<Vec<_>>(),
        machines: &[machine("smp-2"), machine("smp-8")],
        baseline: "linux-4.15",
        metrics: metrics.iter().map(|metric| metric.parse().expect("a metric")).collect(),
        kernel: Kernel { host: HostProfile::Mainline, limit_ns: 60_000_000_000, limit_events: LIMIT_EVENTS },
    };
    Scorer::new(ask, &|_| {}).expect("cases")
}

fn score(scorer: &mut Scorer, policy: &str) -> Scored {
    scorer.score(policy, &[1, 2, 3], &Runner::new(None, &Silent), &|_| {}).expect("a score")
}

#[test]
fn the_baseline_has_100_and_another_policy_has_the_mean_of_its_cases() {
    let mut scorer = scorer(&["result", "p99", "migrations"]);
    let same = score(&mut scorer, "linux-4.15");
    assert_eq!((same.score, same.ci, same.worse_in), (100.0, Some([100.0, 100.0]), 0));
    let other = score(&mut scorer, "linux-6.12");
    assert_eq!(other.cases.len(), 4);
    assert_ne!(other.score, 100.0);
    // All cases have all metrics, so that the score is also the geometric mean over cases, and that over metrics.
    assert_eq!(other.left_out, 0);
    let mean =
        |scores: Vec<f64>| (scores.iter().map(|score| score.ln()).sum::<f64>() / scores.len() as f64).exp();
    let of_cases = mean(other.cases.iter().filter_map(|case| case.score).collect());
    let of_metrics = mean(other.metrics.iter().filter_map(|metric| metric.score).collect());
    assert!((of_cases - other.score).abs() < 1e-4, "{of_cases} {}", other.score);
    assert!((of_metrics - other.score).abs() < 1e-4, "{of_metrics} {}", other.score);
    // The baseline's runs are kept, and change nothing.
    assert_eq!(score(&mut scorer, "linux-6.12"), other);
    let threads = Runner::new(std::num::NonZeroUsize::new(1), &Silent);
    assert_eq!(scorer.score("linux-6.12", &[1, 2, 3], &threads, &|_| {}).expect("a score"), other);
}

/// The first part of a run has no makespan, but latencies.
#[test]
fn what_the_baseline_lacks_is_left_out_and_without_anything_there_is_no_score() {
    let runner = Runner::new(None, &Silent);
    let mut whole = scorer_of(&["hackbench:groups=1,loops=20"], &["throughput", "p50"]);
    let part = score(&mut whole.first_part(0.5, 1, &runner).expect("a scorer"), "linux-6.12");
    assert_eq!((part.left_out, part.cases.len()), (2, 2));
    assert!(part.cases.iter().all(|case| !case.completed && !case.worse && case.metrics.len() == 1));
    assert_eq!((part.metrics[0].score, part.metrics[1].score), (None, Some(part.score)));
    assert_eq!(score(&mut whole, "linux-6.12").left_out, 0);
    let mut whole = scorer_of(&["hackbench:groups=1,loops=20"], &["throughput"]);
    let nothing =
        whole.first_part(0.5, 1, &runner).expect("a scorer").score("linux-6.12", &[1], &runner, &|_| {});
    assert!(nothing.expect_err("no metric").to_string().contains("a larger --limit-s"));
}

#[test]
fn wrong_metrics_are_refused_with_the_names_that_exist() {
    let wrong = scorer(&["p98"]).score("linux-6.12", &[1], &Runner::new(None, &Silent), &|_| {});
    let message = wrong.expect_err("no metric").to_string();
    assert!(message.contains("'p98'") && message.contains("p99"), "{message}");
}

#[test]
fn the_json_is_as_the_schema_says() {
    let document = serde_json::to_value(score(&mut scorer(&["result=2", "p99"]), "linux-6.12"));
    let schema =
        serde_json::from_str(include_str!("../../../docs/schema/score.schema.json")).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let document = document.expect("JSON");
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}
