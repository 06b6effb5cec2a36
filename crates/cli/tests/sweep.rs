// SPDX-License-Identifier: GPL-2.0-or-later
//! Sweeps that are killed at any moment, and that threads change nothing in.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// 6 cases of 2 policies with 3 to 8 seeds: intervals of 0.5 % are wide for most of them.
const SWEEP: &str = r#"
workload = "hackbench:groups={groups},loops={loops}"
machine = "smp-8@l3:{llcs} core:4"
policy = ["linux-4.15", "linux-6.12"]
[parameters]
groups = [1, 2]
llcs = [1, 2, 3]
loops = [20]
[seeds]
min = 3
max = 8
narrow_percent = 0.5
"#;

const MOMENTS: usize = 20;

fn wakelab(folder: &Path, output: &str, threads: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wakelab"));
    command.current_dir(folder).args(["sweep", "sweep.toml", "-o", output, "--threads", threads]);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn folder(sweep: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("sweep.toml"), sweep).expect("a file");
    folder
}

/// The runs in a journal: each a case, a policy and a seed. Panics if one is there twice.
fn runs(journal: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(journal).unwrap_or_default();
    // The last line may be cut off.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut runs = BTreeSet::new();
    for line in whole.lines().skip(1) {
        let row: serde_json::Value = serde_json::from_str(line).expect("a row");
        let run = format!("{} {} {}", row["case"], row["policy"], row["seed"]);
        assert!(runs.insert(run.clone()), "run {run} is there twice");
    }
    runs
}

#[test]
fn a_killed_sweep_goes_on_without_a_lost_or_repeated_run() {
    let folder = folder(SWEEP);
    let path = |name: &str| folder.path().join(name);
    let whole = wakelab(folder.path(), "whole.parquet", "1").output().expect("a run");
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    let expected = fs::read(path("whole.parquet")).expect("the result");
    assert!(text(&whole.stdout).contains("cases got more seeds"), "{}", text(&whole.stdout));
    assert!(!path("whole.parquet.runs").exists());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut before = BTreeSet::new();
    for moment in 0..MOMENTS {
        let mut child = wakelab(folder.path(), "killed.parquet", "2")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a run");
        let more = 1 + random.next_u64() as usize % 3;
        while runs(&path("killed.parquet.runs")).len() < before.len() + more {
            assert!(child.try_wait().expect("a state").is_none(), "moment {moment}: it has ended by itself");
            std::thread::sleep(Duration::from_micros(300));
        }
        std::thread::sleep(Duration::from_micros(random.next_u64() % 10_000));
        child.kill().expect("it can be killed");
        child.wait().expect("it has ended");
        let after = runs(&path("killed.parquet.runs"));
        assert!(after.is_superset(&before), "moment {moment}: runs were lost");
        before = after;
        if moment % 5 == 4 {
            // As a write that a kill cut off.
            let mut bytes = fs::read(path("killed.parquet.runs")).expect("the journal");
            bytes.extend(b"{\"case\":0,\"pol");
            fs::write(path("killed.parquet.runs"), bytes).expect("the journal");
        }
    }
    let rest = wakelab(folder.path(), "killed.parquet", "2").output().expect("a run");
    assert!(rest.status.success(), "{}", text(&rest.stderr));
    assert_eq!(rest.stdout, whole.stdout);
    assert!(fs::read(path("killed.parquet")).expect("the result") == expected, "the bytes differ");
    assert!(!path("killed.parquet.runs").exists());
}

#[test]
fn another_sweep_or_a_second_process_is_refused() {
    let folder = folder(SWEEP);
    let path = |name: &str| folder.path().join(name);
    let mut command = wakelab(folder.path(), "a.parquet", "1");
    let mut first = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a run");
    while runs(&path("a.parquet.runs")).is_empty() {
        assert!(first.try_wait().expect("a state").is_none(), "it has ended before its first run was seen");
        std::thread::sleep(Duration::from_millis(1));
    }
    let second = wakelab(folder.path(), "a.parquet", "1").output().expect("a run");
    assert_eq!(second.status.code(), Some(2), "{}", text(&second.stderr));
    assert!(text(&second.stderr).contains("another process is at this sweep"), "{}", text(&second.stderr));
    first.kill().expect("it runs");
    first.wait().expect("it has ended");
    fs::write(path("sweep.toml"), SWEEP.replace("[20]", "[21]")).expect("a file");
    let other = wakelab(folder.path(), "a.parquet", "1").output().expect("a run");
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("has the runs of another sweep"), "{}", text(&other.stderr));
}

#[test]
fn wrong_files_are_refused_with_their_line() {
    for (from, to, found) in [
        ("policy = [", "polcy = [", "sweep.toml:4: unknown field `polcy`"),
        ("linux-6.12", "linux-6.13", "linux-6.13"),
        ("{groups}", "4", "no text has the parameter 'groups'"),
        ("smp-8@", "smp-9@", "did you mean 'smp-2'"),
        ("max = 8", "max = 2", "[seeds]: min 3, max 2"),
        ("narrow_percent = 0.5", "", "`narrow_percent` above 0 together"),
        ("groups = [1, 2]", "groups = []", "parameter 'groups': no values"),
        ("hackbench:", "hackbensh:", "did you mean 'hackbench'"),
        ("min = 3", "min = 3\nmetric = \"p98\"", "metric 'p98'; expected one of"),
        ("[seeds]", "[design]\nkind = \"halton\"\n[seeds]", "expected the number of `points`"),
    ] {
        let folder = folder(&SWEEP.replacen(from, to, 1));
        let refused = wakelab(folder.path(), "a.parquet", "1").output().expect("a run");
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(found), "{found}: {error}");
        assert!(!folder.path().join("a.parquet.runs").exists(), "{found}");
    }
}

/// A case that cannot run has a row that says why, and the others run.
#[test]
fn a_case_that_fails_stops_no_other() {
    let sweep = SWEEP.replace("groups = [1, 2]", "groups = [1, -1]");
    let folder = folder(&sweep);
    let done = wakelab(folder.path(), "a.parquet", "2").args(["--format", "json"]).output().expect("a run");
    assert!(done.status.success(), "{}", text(&done.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!((summary["cases"].as_u64(), summary["failed"].as_u64()), (Some(6), Some(18)));
    assert_eq!(summary["found"][0]["unknown"].as_u64(), Some(3));
}
