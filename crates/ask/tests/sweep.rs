// SPDX-License-Identifier: GPL-2.0-or-later
//! Sweeps without files: which runs are needed next, and that where and when they run changes nothing.

use wakelab_ask::{Job, Row, Sweep, SweepPlan, SweepSummary, read_row, run_sweep, write_row};
use wakelab_lab::{Runner, Silent};

const SWEEP: &str = r#"
workload = "hackbench:groups={groups},loops=5"
machine = "smp-2"
policy = ["linux-4.15", "linux-6.12"]
[parameters]
groups = [1, 2]
[seeds]
first = 7
min = 2
max = 5
narrow_percent = 1.0
"#;

fn sweep() -> Sweep {
    Sweep::new(SweepPlan::new(SWEEP, "sweep.toml").expect("a plan"))
}

/// A row with this makespan.
fn row(sweep: &Sweep, job: Job, makespan_ns: f64) -> Row {
    let value = |name: &str| (name == "makespan_ns").then_some(makespan_ns);
    let values = sweep.columns.iter().map(|column| value(&column.name)).collect();
    let (ending, result) = (Some("completed".to_owned()), Some("makespan_ns".to_owned()));
    Row { job, ending, result, values, error: None }
}

fn seeds(jobs: &[Job]) -> Vec<u64> {
    let mut seeds: Vec<u64> = jobs.iter().map(|job| job.seed).collect();
    seeds.dedup();
    seeds
}

/// 2 seeds, 3 and 5 (4.5, rounded up) while the second policy differs by another amount with each seed.
#[test]
fn rounds_by_hand() {
    let mut sweep = sweep();
    for (expected, last) in [(vec![7, 8], 8), (vec![9], 9), (vec![10, 11], 11)] {
        let missing = sweep.missing(0);
        assert_eq!((seeds(&missing), missing.len()), (expected.clone(), 2 * expected.len()));
        for job in missing {
            let makespan = 100.0 + if job.policy == 1 { (job.seed % 3) as f64 * 40.0 - 40.0 } else { 0.0 };
            let own = row(&sweep, job, makespan);
            assert!(sweep.put(own.clone()));
            assert!(!sweep.put(own), "a run counts once");
        }
        assert!(sweep.has(Job { case: 0, policy: 1, seed: last }));
    }
    assert!(sweep.missing(0).is_empty());
    // The other case differs by the same amount with each seed, so that its interval has no width.
    for job in sweep.missing(1) {
        sweep.put(row(&sweep, job, if job.policy == 1 { 90.0 } else { 100.0 }));
    }
    assert!(sweep.missing(1).is_empty());
    let summary = SweepSummary::new(&sweep);
    assert_eq!((summary.cases, summary.runs, summary.widened), (2, 14, 1));
    let in_all = &summary.found[0];
    assert_eq!((in_all.better, in_all.worse, in_all.unknown), (1, 0, 0));
    assert_eq!(summary.found[2].median_gain_percent, Some(10.0));
    assert_eq!(summary.found[2].value.as_deref(), Some("2"));
}

#[test]
fn a_row_of_another_sweep_is_refused() {
    let mut sweep = sweep();
    let known = row(&sweep, Job { case: 0, policy: 0, seed: 7 }, 1.0);
    for job in [Job { case: 2, policy: 0, seed: 7 }, Job { case: 0, policy: 2, seed: 7 }] {
        assert!(!sweep.put(Row { job, ..known.clone() }));
    }
    assert!(!sweep.put(Row { values: Vec::new(), ..known }));
    assert!(sweep.is_empty());
}

/// Runs done elsewhere, last first, and carried as text, give the table of runs done here on several threads.
#[test]
fn where_and_when_runs_are_done_changes_nothing() {
    let mut here = sweep();
    run_sweep(&mut here, None, &Runner::new(std::num::NonZeroUsize::new(3), &Silent), &|_| {}).expect("runs");
    let mut elsewhere = sweep();
    let packed = elsewhere.plan.pack().expect("text");
    let worker = SweepPlan::unpack(&packed).expect("a plan");
    loop {
        let jobs: Vec<Job> = (0..2).flat_map(|case| elsewhere.missing(case)).collect();
        if jobs.is_empty() {
            break;
        }
        for job in jobs.into_iter().rev() {
            let line = write_row(&worker.run(&elsewhere.columns, &worker.scenarios_or_error(job.case), job));
            elsewhere.put(read_row(&line.expect("text")).expect("a row"));
        }
    }
    assert_eq!(here.table(), elsewhere.table());
    let mut bytes = [Vec::new(), Vec::new()];
    here.write_parquet(&mut bytes[0]).expect("a file");
    elsewhere.write_parquet(&mut bytes[1]).expect("a file");
    assert!(bytes[0] == bytes[1] && bytes[0].len() > 1000);
}

#[test]
fn the_summary_is_as_the_schema_says() {
    let mut sweep = sweep();
    run_sweep(&mut sweep, None, &Runner::new(None, &Silent), &|_| {}).expect("runs");
    let document = serde_json::to_value(SweepSummary::new(&sweep)).expect("JSON");
    let schema =
        serde_json::from_str(include_str!("../../../docs/schema/sweep.schema.json")).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}
