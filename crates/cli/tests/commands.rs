// SPDX-License-Identifier: GPL-2.0-or-later
//! What a user types and sees. Each file of `cmd/` is a session; `TRYCMD=overwrite cargo test -p wakelab-cli` renews them.

use std::process::Command;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hackbench.perf.txt");

#[test]
fn sessions() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd").env("NO_COLOR", "1").env("COLUMNS", "100");
}

fn wakelab(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_wakelab")).args(arguments).output().expect("the command was built")
}

const RUN: [&str; 9] = [
    "compare",
    "hackbench:groups=1,fds=3,loops=4",
    "--machine",
    "smp-8",
    "--policy",
    "linux-4.15",
    "--policy",
    "linux-4.15+idle=smt-balance",
    "--format=json",
];

#[test]
fn threads_change_nothing() {
    let json = |threads| {
        let output = wakelab(&[&RUN[..], &["--seeds", "5", "--threads", threads]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let one = json("1");
    assert_eq!(one, json("2"));
    assert_eq!(one, json("7"));
}

#[test]
fn a_result_can_be_run_again() {
    let first = wakelab(&[&RUN[..], &["--seeds", "2"]].concat());
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), &first.stdout).expect("the temporary file can be written");
    let path = file.path().to_str().expect("temporary paths are UTF-8");
    let again = wakelab(&["compare", "--scenario", path, "--format", "json"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(first.stdout, again.stdout);
}

#[test]
fn nothing_but_the_result_is_written_in_a_pipe() {
    let output = wakelab(&RUN);
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok());
}

#[test]
fn a_recording_is_replayed_and_explained() {
    let output =
        wakelab(&["compare", FIXTURE, "--machine", "smp-8", "--policy", "linux-4.15", "--seeds", "1"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("waits explained"), "{text}");
    assert!(text.contains("Why each CPU was chosen"), "{text}");
}

/// A recording cut in the middle of a line, shuffled, empty, or binary: exit code 2, a place, and no output.
#[test]
fn damaged_recordings_are_refused() {
    let whole = std::fs::read_to_string(FIXTURE).expect("the fixture is text");
    let lines: Vec<&str> = whole.lines().collect();
    let (first, last) = lines.split_at(lines.len() / 2);
    let shuffled = [last, first].concat().join("\n");
    let cases: [(&str, Vec<u8>, &str); 4] = [
        ("cut", whole.as_bytes()[..whole.len() * 2 / 3].to_vec(), "line"),
        ("shuffled", shuffled.into_bytes(), "backwards"),
        ("empty", Vec::new(), "empty"),
        ("binary", vec![0x7f, b'E', b'L', b'F', 0, 1, 2, 0xff], "byte"),
    ];
    for (name, content, expected) in cases {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), content).expect("the temporary file can be written");
        let path = file.path().to_str().expect("temporary paths are UTF-8");
        let output = wakelab(&["compare", path, "--machine", "smp-8", "--policy", "linux-4.15"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(output.stdout.is_empty(), "{name}");
        assert!(error.contains(expected), "{name}: {error}");
    }
}
