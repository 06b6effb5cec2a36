// SPDX-License-Identifier: GPL-2.0-or-later
//! A recording beside replays made by hand: values, verdict, the JSON against its schema.

use wakelab_lab::{DEMO_NAME, demo_recording};
use wakelab_report::{Check, Style};
use wakelab_trace::{Observations, Observed, Options, Recording, Service, read_from};

fn demo() -> Recording {
    read_from(demo_recording(), DEMO_NAME, DEMO_NAME, &Options::default()).expect("the demo reads")
}

/// Ten wake-ups of 1 to 10 us, each of a task `service`; wake-ups of kernel threads beside them.
fn seen(factor: u64) -> Observations {
    let latency_ns: Vec<u64> = (1..=40).map(|index| index * 1_000 * factor).collect();
    let service = Observed {
        tasks: 2,
        cpu_ns: 1_000_000,
        done_ns: 2_000_000 * factor,
        wakeups: 40,
        switches: 40,
        wakeup_latency_ns: latency_ns.clone(),
        run_delay_ns: latency_ns,
        ..Observed::default()
    };
    let kernel = Observed { wakeups: 1_000, ..Observed::default() };
    let judged = [("service".to_owned(), service.clone())].into();
    let by_comm = [("service".to_owned(), service), ("kworker/0:1".to_owned(), kernel)].into();
    Observations { by_comm, judged }
}

#[test]
fn recorded_beside_replayed() {
    let recording = Recording { observed: seen(1), ..demo() };
    // The median of three seeds counts.
    let check = Check::new(&recording, &[seen(1), seen(3), seen(3)], "m", "p");
    let document = serde_json::to_value(check.document(&[1, 2, 3])).unwrap();
    let schema = serde_json::from_str(include_str!("../../../docs/schema/check.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let metrics = document["metrics"].as_array().unwrap();
    let of = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    let row = |name: &str| {
        let metric = of(name);
        (metric["recorded"].as_u64(), metric["replayed"].as_u64(), metric["within"].as_bool())
    };
    assert_eq!(row("wakeups"), (Some(40), Some(40), Some(true)), "kernel threads do not count");
    assert_eq!(row("done_ns"), (Some(2_000_000), Some(6_000_000), Some(false)));
    assert_eq!(row("wakeup_latency_p50_ns"), (Some(20_000), Some(60_000), Some(false)));
    // 40 samples have two beyond p95, which is too few; no preemption was recorded.
    assert_eq!(row("wakeup_latency_p95_ns"), (Some(38_000), Some(114_000), None));
    assert_eq!(row("preemptions"), (Some(0), Some(0), None));
    assert_eq!(of("done_ns")["error_percent"].as_f64().map(f64::round), Some(200.0));
    let text = check.text(&Style::default());
    assert!(text.contains("3 of 6 figures are within their tolerances; furthest off: "), "{text}");
    assert!(text.contains("x3.0") && !text.contains("kworker"), "{text}");
}

#[test]
fn the_verdict_says_first_that_the_recording_cannot_be_trusted() {
    let mut recording = Recording { observed: seen(1), ..demo() };
    recording.explained.silent_cpus = [(3, 2)].into();
    let verdict = Check::new(&recording, &[seen(1)], "m", "p").verdict();
    let warning = recording.warning().expect("a CPU is missing");
    assert_eq!(verdict.matches(&warning).count(), 1, "{verdict}");
    assert!(verdict.starts_with(&warning) && verdict.contains(" figures are within"), "{verdict}");
}

#[test]
fn what_the_recordings_lack_is_data_too() {
    let mut recording = Recording { observed: seen(1), busy_ns: 900, ..demo() };
    let explained = &mut recording.explained;
    explained.silent_cpus = [(1, 4), (3, 2)].into();
    explained.silent_idle = [(2, 9)].into();
    (explained.unaccounted_ns, explained.unseen_ns, explained.lost_events) = (20, 30, 5);
    explained.wakeups = 50;
    let mut truth = Recording { observed: seen(1), ..demo() };
    truth.workload.name = "truth".to_owned();
    let check = Check::against(&recording, &truth, &[seen(1)], "m", "p");
    let document = serde_json::to_value(check.document(&[1])).unwrap();
    let schema = serde_json::from_str(include_str!("../../../docs/schema/check.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let expected = serde_json::json!({
        "input": DEMO_NAME, "cpu_ns": 900, "unaccounted_ns": 20, "unseen_ns": 30, "lost_events": 5, "wakeups": 50,
        "silent_cpus": [{ "cpu": 1, "wakeups": 4 }, { "cpu": 3, "wakeups": 2 }],
        "silent_idle": [{ "cpu": 2, "switches": 9 }],
    });
    assert_eq!(document["missing"][0], expected);
    assert_eq!(document["missing"][1]["input"], "truth");
    assert_eq!(document["missing"][1]["silent_cpus"], serde_json::json!([]));
    assert_eq!(document["warnings"], serde_json::json!([recording.warning().expect("CPUs are missing")]));
    let itself = Check::new(&recording, &[seen(1)], "m", "p");
    let document = serde_json::to_value(itself.document(&[1])).unwrap();
    assert_eq!(document["missing"], serde_json::json!([expected]));
}

#[test]
fn a_what_if_beside_what_came_true() {
    let recording = Recording { observed: seen(1), ..demo() };
    let mut truth = Recording { observed: seen(2), ..demo() };
    truth.workload.name = "truth".to_owned();
    let check = Check::against(&recording, &truth, &[seen(3)], "m", "p");
    let document = serde_json::to_value(check.document(&[1])).unwrap();
    assert_eq!((&document["input"], &document["against"]), (&DEMO_NAME.into(), &"truth".into()));
    let done = &document["metrics"][0];
    assert_eq!((&done["recorded"], &done["replayed"]), (&4_000_000.into(), &6_000_000.into()));
    let text = check.text(&Style::default());
    assert!(text.starts_with("demo replayed on m under p, beside truth: "), "{text}");
}

/// A recording that tells its service is judged by that alone: 20 of 40 wake-ups.
#[test]
fn the_service_is_what_the_recording_tells() {
    let told = |factor: u64| {
        let all = seen(factor);
        let half = Observed { wakeups: 20, tasks: 1, ..all.by_comm["service"].clone() };
        Observations { judged: [("service".to_owned(), half)].into(), ..all }
    };
    let service = Service::Told { command: true, names: vec!["x\u{1b}".to_owned()] };
    let recording = Recording { observed: told(1), service, ..demo() };
    let check = Check::new(&recording, &[told(1)], "m", "p");
    let document = serde_json::to_value(check.document(&[1])).unwrap();
    assert_eq!(document["service"], r"the command, all that it started, and tasks called x\x1b");
    assert_eq!(
        (&document["metrics"][2]["recorded"], &document["tasks"][0]["tasks"]),
        (&20.into(), &1.into())
    );
    // The truth has another service.
    let truth = Recording { observed: seen(1), ..demo() };
    let check = Check::against(&recording, &truth, &[told(1)], "m", "p");
    let document = serde_json::to_value(check.document(&[1])).unwrap();
    let wakeups = &document["metrics"][2];
    assert_eq!((&wakeups["recorded"], &wakeups["replayed"]), (&40.into(), &20.into()));
}

#[test]
fn a_recording_is_like_itself() {
    let recording = demo();
    let check = Check::new(&recording, std::slice::from_ref(&recording.observed), "m", "p");
    let document = serde_json::to_value(check.document(&[1])).unwrap();
    for metric in document["metrics"].as_array().unwrap() {
        assert_eq!(metric["recorded"], metric["replayed"], "{metric}");
        assert_ne!(metric["within"], false, "{metric}");
    }
    // The fixture's README: 765 waits; 755 of them are not perf's or the kernel's, and one is the end of a shell's wait
    // for hackbench. That shell and tokio-rt-worker, which waits once, have too little CPU time to be the service.
    assert_eq!(document["metrics"][2]["recorded"], 753);
}
