// SPDX-License-Identifier: GPL-2.0-or-later
//! The first sentence answers the question: how long the service takes, not how long the recording is.
//!
//! In a recording of a running service, the last event is that of a `sleep`, a kernel thread or a timer, on each
//! machine and under each policy. What is true here is read from the events of the same runs (`wakelab run --events`):
//! the service takes from its first switch-in until its last switch-out.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const SERVICE: [&str; 2] = ["postgres", "pgbench"];
const HACKBENCH: [&str; 1] = ["hackbench"];
/// Two give intervals of 50 %.
const SEEDS: [&str; 4] = ["1", "2", "3", "4"];
/// The service beside what goes on until the recording ends.
const WORKLOAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/input/service.toml");
/// The recording that is built in.
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hackbench.perf.txt");

/// Runs the command and returns what it prints.
fn wakelab(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_wakelab")).args(arguments).output().expect("the command was built");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// When the tasks of these names ran first, when they were done, and when the last event was, in milliseconds.
fn times_ms(events: &str, names: &[&str]) -> [f64; 3] {
    let pid = |event: &str, side: &str| -> Option<u64> {
        let key = if side.is_empty() { " pid=".to_owned() } else { format!(" {side}_pid=") };
        event.split_once(&key)?.1.split(' ').next()?.parse().ok()
    };
    let of_service = |event: &str| {
        let is = |name: &&str| event.contains(&format!("sched_switch: prev_comm={name} "));
        names.iter().any(is).then(|| pid(event, "prev")).flatten()
    };
    // A task may have had another name before.
    let pids: BTreeSet<u64> = events.lines().filter_map(of_service).collect();
    let (mut begin_ms, mut done_ms, mut end_ms) = (None, 0.0, 0.0);
    for line in events.lines().filter(|line| !line.starts_with('#')) {
        let (head, event) = line.split_once(": ").expect("a time");
        let seconds: f64 = head.rsplit(' ').next().and_then(|time| time.parse().ok()).expect("a time");
        end_ms = seconds * 1e3;
        let is = |side: &str| pid(event, side).is_some_and(|pid| pids.contains(&pid));
        if is("next") {
            begin_ms.get_or_insert(end_ms);
        }
        // A run ends with the exit of its last task, which is not switched out any more.
        let exits = event.starts_with("sched_process_exit: ") && is("");
        if is("prev") || exits {
            done_ms = end_ms;
        }
    }
    [begin_ms.expect("a switch-in"), done_ms, end_ms]
}

/// A recording of the service on a machine, as the kernel would show it.
fn record(folder: &Path, foreign: u32) -> String {
    let path = folder.join("recording.txt").to_str().expect("text").to_owned();
    let workload = format!("{WORKLOAD}:foreign={foreign}");
    wakelab(&["run", &workload, "--machine", "smp-2", "--policy", "linux-6.12", "--events", &path]);
    path
}

/// When the service is done in a replay, as the replay's own events show it: the mean over the seeds.
fn replayed_ms(folder: &Path, recording: &str, [machine, policy]: [&str; 2], names: &[&str]) -> f64 {
    let path = folder.join("replay.txt");
    let done = SEEDS.map(|seed| {
        let side = ["--machine", machine, "--policy", policy, "--seed", seed];
        wakelab(&[&["run", recording, "--events", path.to_str().expect("text")][..], &side].concat());
        let [begin_ms, done_ms, _] =
            times_ms(&std::fs::read_to_string(&path).expect("it was written"), names);
        done_ms - begin_ms
    });
    done.iter().sum::<f64>() / SEEDS.len() as f64
}

/// The sentences that come first of all in a comparison, one for each column but the first.
fn first_sentences(text: &str) -> Vec<String> {
    let mut lines = text.lines();
    let heads = |line: &str| line.starts_with("linux-") && line.ends_with(':');
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if heads(line) {
            found.push(lines.next().expect("a sentence").trim().to_owned());
        }
    }
    found
}

/// The number before a word.
fn before(sentence: &str, word: &str) -> f64 {
    let head = sentence.split(word).next().expect("a beginning");
    head.trim_end()
        .rsplit(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{sentence}"))
}

/// Compares sides, the first of which is the baseline, and checks each first sentence against the events of the runs.
fn check(folder: &Path, recording: &str, names: &[&str], sides: &[[&str; 2]]) -> Vec<String> {
    let unique = |index: usize| {
        let mut all: Vec<&str> = sides.iter().map(|side| side[index]).collect();
        all.dedup();
        all
    };
    let of = names.join(",");
    let seeds = SEEDS.len().to_string();
    let mut arguments = vec!["compare", recording, "--of", &of, "--seeds", &seeds];
    unique(0).iter().for_each(|machine| arguments.extend(["--machine", machine]));
    unique(1).iter().for_each(|policy| arguments.extend(["--policy", policy]));
    let text = wakelab(&arguments);
    let sentences = first_sentences(&text);
    assert_eq!(sentences.len(), sides.len() - 1, "{text}");
    let baseline_ms = replayed_ms(folder, recording, sides[0], names);
    for (sentence, side) in sentences.iter().zip(&sides[1..]) {
        assert!(sentence.starts_with(&format!("done after (service: {}): ", names.join(", "))), "{sentence}");
        let done_ms = replayed_ms(folder, recording, *side, names);
        // Four digits are told.
        let near = |told: f64, ms: f64| (told - ms).abs() <= ms * 1e-3 + 1e-6;
        assert!(near(before(sentence, "ms instead of"), done_ms), "{sentence}: {done_ms}");
        assert!(
            near(before(sentence.split("instead of ").nth(1).expect("a value"), "ms"), baseline_ms),
            "{sentence}: {baseline_ms}"
        );
        let ways = [sentence.contains(" better"), sentence.contains(" worse")];
        if !sentence.contains(": no difference") {
            assert_eq!(
                ways,
                [done_ms < baseline_ms, done_ms > baseline_ms],
                "{sentence}: {done_ms}, {baseline_ms}"
            );
        }
    }
    sentences
}

/// 1 and 2: a second of recording on 2 CPUs, most of it sleep. On its own machine the first sentence has the time of
/// the service; on twice as many CPUs it is done much earlier, though the recording ends when it did.
#[test]
fn a_machine_twice_as_big_helps() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = record(folder.path(), 0);
    let [begin_ms, done_ms, end_ms] =
        times_ms(&std::fs::read_to_string(&recording).expect("it was written"), &SERVICE);
    assert!(end_ms > 1000.0 && begin_ms > 200.0 && done_ms < 400.0, "{begin_ms} to {done_ms} of {end_ms}");
    let seeds = SEEDS.len().to_string();
    let side = ["--machine", "recorded", "--policy", "linux-6.12", "--seeds", &seeds];
    let text = wakelab(&[&["compare", &recording][..], &side].concat());
    let sentence = text.lines().nth(1).expect("a sentence");
    assert!(sentence.starts_with("linux-6.12: done after (service: postgres, pgbench): "), "{text}");
    let replayed = replayed_ms(folder.path(), &recording, ["recorded", "linux-6.12"], &SERVICE);
    assert!((before(sentence, "ms (") - replayed).abs() < replayed * 1e-3, "{sentence}: {replayed}");
    let sides = [["recorded", "linux-6.12"], ["recorded*2", "linux-6.12"]];
    let sentences = check(folder.path(), &recording, &SERVICE, &sides);
    assert!(sentences[0].contains(" better"), "{sentences:?}");
}

/// 3: two policies on 176 CPUs, for the recording of 2 CPUs. They do not differ, and the sentence has the time.
#[test]
fn a_large_machine_has_no_difference() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = record(folder.path(), 0);
    let sides = ["linux-4.15", "linux-6.12"].map(|policy| ["power9-2s22c4t", policy]);
    let sentences = check(folder.path(), &recording, &SERVICE, &sides);
    assert!(sentences[0].contains(": no difference beyond 1 %"), "{sentences:?}");
}

/// 4: two policies on 2 CPUs, beside work that is not the service's. The queue of 6.12 lets the service wait longer.
#[test]
fn a_policy_is_judged_by_the_service_that_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = record(folder.path(), 6);
    let sides =
        ["linux-4.15+balance=load+push=off", "linux-6.12+balance=load"].map(|policy| ["recorded", policy]);
    let sentences = check(folder.path(), &recording, &SERVICE, &sides);
    assert!(sentences[0].contains(" worse"), "{sentences:?}");
}

/// 5: a real recording on the machine that made it. The first sentence has what was recorded and what was replayed.
#[test]
fn a_replay_stands_beside_the_recording() {
    let text = wakelab(&["check", "demo", "--seeds", "1"]);
    let sentence = text.lines().next().expect("a sentence");
    assert!(
        sentence.starts_with("demo replayed on recorded under linux-6.12: the service is done after "),
        "{text}"
    );
    let events = std::fs::read_to_string(DEMO).expect("a fixture");
    let (recorded_ms, replayed_ms) = (before(sentence, "ms ("), before(sentence, "ms, recorded: "));
    let [begin_ms, done_ms, _] = times_ms(&events, &HACKBENCH);
    assert!((recorded_ms - (done_ms - begin_ms)).abs() < 0.1, "{sentence}: {begin_ms} to {done_ms}");
    assert!((0.9..1.1).contains(&(replayed_ms / recorded_ms)), "{sentence}");
}

/// 6: the same on larger machines, which is done earlier on each, though the recording is not shorter.
#[test]
fn larger_machines_help_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let machines = ["recorded", "smp-8", "xeon-x5650-2s", "xeon-2s22c2t"];
    let sides = machines.map(|machine| [machine, "linux-5.2"]);
    let sentences = check(folder.path(), "demo", &HACKBENCH, &sides);
    assert!(sentences.iter().all(|sentence| sentence.contains(" better")), "{sentences:?}");
}

/// A replay that did not complete comes first, because its figures are those of a part.
#[test]
fn a_check_warns_of_a_replay_that_did_not_complete() {
    let text = wakelab(&["check", "demo", "--seeds", "1", "--limit-s", "0.01"]);
    let warning = "under linux-6.12: WARNING: the replay with seed 1 did not end within 10 ms. ";
    assert!(text.lines().next().is_some_and(|first| first.contains(warning)), "{text}");
}
