// SPDX-License-Identifier: GPL-2.0-or-later
//! What a user types and sees. Each file in `cmd/` is a session; `TRYCMD=overwrite cargo test -p wakelab-cli` writes
//! them again.

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
fn threads_change_no_draw() {
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/input/small.toml");
    for arguments in [&RUN[..], &["experiments", small, "--format=json"]] {
        let json = |threads| {
            let more = ["--seeds", "2", "--uncertainty=8", "--threads", threads];
            let output = wakelab(&[arguments, &more].concat());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        let one = json("1");
        assert!(String::from_utf8_lossy(&one).contains("sign_held_percent"), "there are draws");
        assert_eq!(one, json("2"));
        assert_eq!(one, json("7"));
    }
}

#[test]
fn threads_change_nothing_in_experiments_and_maps() {
    let json = |arguments: &[&str], threads: &str| {
        let output =
            wakelab(&[arguments, &["--seeds", "2", "--format", "json", "--threads", threads]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let experiments = ["experiments", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/input/small.toml")];
    let map = [
        &["map", "pingpong:pairs={tasks/2},loops=20", "--machine", "smp-8", "--machine", "xeon-2s22c2t"][..],
        &["--policy", "linux-4.15", "--policy", "linux-4.15+idle=smt-balance"],
    ]
    .concat();
    for arguments in [&experiments[..], &map] {
        let one = json(arguments, "1");
        assert_eq!(one, json(arguments, "2"));
        assert_eq!(one, json(arguments, "7"));
    }
}

/// A control that cannot hold makes a quick run fail; a full run only reports it.
#[test]
fn a_quick_run_fails_with_its_controls() {
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/input/small.toml");
    let full = wakelab(&["experiments", small, "--seeds", "2"]);
    assert!(full.status.success(), "{}", String::from_utf8_lossy(&full.stderr));
    assert!(String::from_utf8_lossy(&full.stdout).contains("small/control=never: DOES NOT HOLD"));
    let quick = wakelab(&["experiments", small, "--seeds", "2", "--quick"]);
    assert_eq!(quick.status.code(), Some(1));
    let told = String::from_utf8_lossy(&quick.stderr).into_owned();
    assert!(told.starts_with("wakelab: small/control=never: expected gain, found +0.00 %"), "{told}");
    assert!(String::from_utf8_lossy(&quick.stdout).contains("pingpong:pairs=2,loops=10 on smp-8"));
}

#[test]
fn a_result_can_be_run_again() {
    let first = wakelab(&[&RUN[..], &["--seeds", "2", "--with-scenario"]].concat());
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), &first.stdout).expect("the temporary file can be written");
    let path = file.path().to_str().expect("temporary paths are UTF-8");
    let again = wakelab(&["compare", "--scenario", path, "--format", "json", "--with-scenario"]);
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
    assert!(text.contains("attributed to a task"), "{text}");
    assert!(text.contains("Why each CPU was chosen"), "{text}");
}

/// A recording cut in the middle of a line, shuffled, empty, or binary gives exit code 2, a place, and no output.
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

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = wakelab(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

const SMALL: &str = "hackbench:groups=1,fds=3,loops=4";

/// The scenario has the machine of the run: without its ticks and wake-ups, all other figures are unchanged.
#[test]
fn left_out_terms_are_in_the_scenario() {
    let run = |more: &[&str]| {
        let arguments = ["run", SMALL, "--machine", "smp-8", "--policy", "linux-4.15", "--format", "json"];
        json(&[&arguments[..], &["--with-scenario"], more].concat())
    };
    let (whole, less) = (run(&[]), run(&["--without", "ticks", "--without", "wakeups"]));
    let cost = |result: &serde_json::Value, key: &str| result["scenario"]["machine"]["costs"][key].clone();
    assert_ne!(cost(&whole, "tick_ns"), 0);
    assert_eq!((cost(&less, "tick_ns"), cost(&less, "wakeup_ns")), (0.into(), 0.into()));
    assert_eq!(cost(&less, "select_ns"), cost(&whole, "select_ns"));
    let time =
        |result: &serde_json::Value| result["policies"][0]["runs"][0]["outcome"]["time"]["wakeup_ns"].clone();
    assert_ne!(time(&whole), 0);
    assert_eq!(less["seeds"], serde_json::json!([1]));
}

/// `ablate` reports for a term what `run --without` gives, and a term that nothing uses has no effect.
#[test]
fn ablation_agrees_with_single_runs() {
    let result = json(&[
        "ablate",
        SMALL,
        "--machine",
        "smp-8",
        "--term",
        "idle-exit",
        "--term",
        "futexes",
        "--seeds",
        "2",
        "--format",
        "json",
    ]);
    let case = &result["cases"][0];
    let makespan = |seed: &str, more: &[&str]| {
        let arguments = [
            "run",
            SMALL,
            "--machine",
            "smp-8",
            "--policy",
            "linux-4.15",
            "--format",
            "json",
            "--seed",
            seed,
        ];
        json(&[&arguments[..], more].concat())["metrics"][0]["policies"][0]["values"][0].clone()
    };
    assert_eq!(case["with_all"]["values"], serde_json::json!([makespan("1", &[]), makespan("2", &[])]));
    let without = ["--without", "idle-exit"];
    assert_eq!(
        case["without"][0]["values"],
        serde_json::json!([makespan("1", &without), makespan("2", &without)])
    );
    assert_ne!(case["without"][0]["gain_percent"], 0);
    assert_eq!(case["without"][1]["values"], case["with_all"]["values"]);
}

/// Every estimate has a row, the largest effect comes first, and two policies have a gain that moves.
#[test]
fn sensitivity_has_a_row_for_each_estimate() {
    let sensitivity = |policies: &[&str]| {
        let arguments = ["machines", "smp-8", "--sensitivity", SMALL, "--seeds", "2", "--format", "json"];
        json(&[&arguments[..], policies].concat())
    };
    let one = sensitivity(&[]);
    let machine = wakelab_machine::Machine::load("smp-8").expect("a preset");
    let mut expected: Vec<String> = machine.estimates().iter().map(ToString::to_string).collect();
    let figures = one["figures"].as_array().expect("a list");
    let mut found: Vec<String> =
        figures.iter().map(|row| row["figure"].as_str().unwrap_or_default().into()).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    let effect = |row: &serde_json::Value| {
        ["halved", "doubled"]
            .map(|side| row[side]["policies"][0]["gain_percent"].as_f64().unwrap_or(0.0).abs())
    };
    let sizes: Vec<f64> = figures.iter().map(|row| effect(row).into_iter().fold(0.0, f64::max)).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes[0] > 0.0, "{sizes:?}");
    let two = sensitivity(&["--policy", "linux-4.15", "--policy", "linux-4.15+idle=smt-balance"]);
    assert_eq!(two["policies"].as_array().map(Vec::len), Some(2));
    assert!(two["figures"][0]["halved"]["moved"]["gain_percent"].is_number());
}

/// The sides differ in one axis, so it carries the whole change, and is all that there is of it.
#[test]
fn why_puts_a_change_down_to_its_axis() {
    let mut arguments = RUN.to_vec();
    arguments[0] = "why";
    arguments.extend(["--seeds=2", "--slowest=1"]);
    let output = wakelab(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&document["schema_version"], &document["kind"]), (&1.into(), &"why".into()));
    let axes = document["axes"].as_array().expect("an array");
    assert_eq!((axes.len(), &axes[0]["axis"]), (1, &"idle".into()));
    assert_eq!(document["slowest"].as_array().map(Vec::len), Some(2), "of either side: {document}");

    let output = wakelab(&["why", RUN[1], "--machine=smp-8", "--policy=linux-4.15"]);
    assert_eq!(output.status.code(), Some(2), "there is one side only");
}

/// A small measurement, run once. A test cannot judge the figures, only that there are some.
#[test]
fn bench_measures_each_policy_once_at_least() {
    let output = wakelab(&[
        "bench",
        "--cpus=8",
        "--workload=hackbench:groups=1,fds=2,loops=3",
        "--policy=linux-4.15",
        "--policy=linux-4.15+idle=smt-balance",
        "--seconds=0",
        "--format=json",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&document["schema_version"], &document["kind"]), (&1.into(), &"bench".into()));
    let results = document["results"].as_array().expect("an array");
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!((&result["cpus"], &result["tasks"]), (&8.into(), &5.into()));
        assert!(
            result["events"].as_u64() > Some(12),
            "each of 12 messages is read by a task that runs: {result}"
        );
        assert_eq!(result["run_ns"].as_array().map(Vec::len), Some(1));
        for figure in ["events_per_s", "ns_per_event", "holds_per_event"] {
            assert!(result[figure].as_f64() > Some(0.0), "{figure}: {result}");
        }
    }
}

/// What `bench --breakdown` runs under valgrind: however often it runs, it prints the events of one run.
#[test]
fn bench_counts_the_events_of_one_run() {
    let events = |runs: &str| {
        let workload = "--workload=hackbench:groups=1,fds=2,loops=3";
        let output = wakelab(&["bench", "--cpus=8", workload, "--policy=linux-4.15", "--runs", runs]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let once = events("1");
    assert!(once.trim().parse::<u64>().expect("a number") > 12, "{once}");
    assert_eq!(events("3"), once);
}

/// The events of a run can be replayed. The file appears complete, under its name, and alone. A run that is refused, or
/// a name that cannot be a file, leaves no file and changes nothing.
#[test]
fn events_appear_whole_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("run.txt");
    let shown = path.to_str().expect("temporary paths are UTF-8");
    let base = ["run", SMALL, "--machine", "smp-8", "--policy", "linux-4.15", "--format", "json", "--events"];
    let files = || std::fs::read_dir(folder.path()).expect("it is there").count();
    let first = json(&[&base[..], &[shown]].concat());
    assert_eq!(files(), 1);
    let text = std::fs::read_to_string(&path).expect("it was written");
    assert!(text.starts_with("# tracer: nop\n") && text.ends_with('\n'));
    assert_eq!(json(&base[..base.len() - 1]), first, "watching changes nothing");
    let replay = json(&["run", shown, "--machine", "smp-8", "--policy", "linux-4.15", "--format", "json"]);
    let forks =
        |result: &serde_json::Value| result["policies"][0]["runs"][0]["outcome"]["counts"]["forks"].clone();
    assert_eq!(forks(&replay), forks(&first));
    for refused in [
        [&base[..], &[folder.path().to_str().expect("UTF-8")]].concat(),
        ["run", "lock-server:clients=0", "--machine", "smp-8", "--policy", "linux-4.15", "--events", shown]
            .into(),
    ] {
        let output = wakelab(&refused);
        assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty());
        assert_eq!(files(), 1);
        assert_eq!(std::fs::read_to_string(&path).expect("it is still there"), text);
    }
}

/// Without costs, the replay of a run's own export is the run, switch by switch; with costs it ends within a bound.
/// This covers each workload and each machine.
#[test]
fn round_trips_keep_their_bounds() {
    let workloads = [
        "hackbench:groups=2,fds=8,loops=20",
        "pingpong:pairs=6,loops=100",
        "openmp:threads=20,loops=10,wait-policy=passive",
        "schbench:threads=4,runtime-ms=5",
        "lock-server:clients=6,duration-ms=3",
        "oltp:users=6,duration-ms=3",
        "uperf:threads=3,duration-ms=2",
        "pgbench:clients=3,duration-ms=2",
        "stream:threads=6,times=2,array-bytes=800000",
        "spin:tasks=6,duration-ms=10",
        "pbzip2:threads=4,file-kb=9000,block-us=2000,traffic-kb=9000,memory-kb=6000",
        "pixz:threads=2,file-kb=50000,kb-ns=200,kb-traffic=179",
    ];
    // Recordings do not show an exec, of which kernbench has many, nor task groups.
    let mut presets =
        wakelab_workload::presets().filter(|&name| name != "kernbench" && name != "spin-groups");
    let missing = presets.find(|name| !workloads.iter().any(|spec| spec.starts_with(name)));
    assert_eq!(missing, None, "a workload without a round trip");
    let machines: Vec<&str> = wakelab_machine::presets()
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !["host", "smp-2"].contains(name))
        .collect();
    let mut arguments = [&["round-trip", "--format", "json"], &workloads[..]].concat();
    for machine in &machines {
        arguments.extend(["--machine", machine]);
    }
    let result = json(&arguments);
    let trips = result["trips"].as_array().expect("a list");
    assert_eq!(trips.len(), workloads.len() * machines.len());
    for trip in trips {
        assert_eq!(trip["free"]["exact"], true, "{trip}");
        // The bound that docs/results/round-trip.md states.
        let elapsed_ns = |of: &str| trip["costed"][of]["elapsed_ns"].as_f64().expect("a number");
        let off_percent = 100.0 * (elapsed_ns("replay") / elapsed_ns("original") - 1.0).abs();
        let name = |key: &str| trip[key].as_str().expect("a name");
        let bound_percent = match (name("workload").split(':').next(), name("machine")) {
            (Some("hackbench"), "smp-8") => 50.0,
            (Some("lock-server"), "snapdragon-865") => 66.0,
            _ => 20.0,
        };
        assert!(off_percent <= bound_percent, "{off_percent} % off: {trip}");
    }
}

/// A workload by the path of its file, without parameters; a parameter set on the path works as before.
#[test]
fn a_workload_file_runs_by_its_path() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/input/tokens.toml");
    let output = wakelab(&["run", file, "--machine", "smp-2", "--policy", "linux-4.15", "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["workload"], "tokens");
    // The error is about a workload, and never says to make the file again.
    let set = format!("{file}:n=3");
    let output = wakelab(&["run", &set, "--machine", "smp-2", "--policy", "linux-4.15"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("unknown parameter 'n'; there is none"), "{error}");
}
