// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab verify` on logs written here: what it prints, and its exit code.

use std::path::Path;
use std::process::{Command, Output};

use wakelab_log::{Header, LogHead, Logged, Writer, record_bytes};
use wakelab_machine::Machine;
use wakelab_policy::{Answer, Event, EventKind, PolicySpec, Tables};

/// A log of two wake-ups of one task on an idle machine of 2 CPUs: both go to CPU 1, where the task was.
fn log(path: &Path) -> Vec<u8> {
    let topology = Machine::preset("smp-2").unwrap().topology;
    let spec: PolicySpec = "linux-4.15".parse().unwrap();
    let tables = Tables::build(&topology, &spec).unwrap();
    let mut live = Logged::new(&spec, &tables, 4_000_000, 0, 1).unwrap();
    let mut log = Writer::new(Vec::new(), &Header::new(&spec, &topology, 4_000_000, 0)).unwrap();
    let mut call = |seq: u64, kind: EventKind, arguments: Event| {
        let is_question = kind.is_question();
        let event = Event { kind: kind as u32, this_cpu: 1, now_ns: 1000 * seq, ..arguments };
        let head = LogHead { seq, task: 77, task_at: live.task_at(0) as u32, event, ..LogHead::default() };
        live.set_idle(1, true);
        let task = live.task(0).to_vec();
        let mut answer = Answer::default();
        let (notes, _) = live.live(&event, Some(0), None, 100, &mut answer);
        let notes = if is_question { &notes[..] } else { &[] };
        log.record(&record_bytes(head, &answer, is_question.then_some(&task), None, notes)).unwrap();
    };
    let idle = Event { cpu: 1, ..Event::default() };
    let wakeup = Event { prev_cpu: 1, ..Event::default() };
    call(0, EventKind::TaskInit, Event { value: 77, weight: 1024, ..Event::default() });
    call(1, EventKind::Idle, idle);
    call(2, EventKind::Select, wakeup);
    call(3, EventKind::Idle, idle);
    call(4, EventKind::Select, wakeup);
    let bytes = log.end(3).unwrap();
    std::fs::write(path, &bytes).unwrap();
    bytes
}

fn verify(path: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wakelab"));
    command.arg("verify").arg(path).args(arguments).output().expect("the command was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_log_of_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.log");
    log(&path);
    let output = verify(&path, &["--no-events"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let expected = "linux-4.15 on 2 CPUs, tick 4000000 ns: 5 records, 3 lost\n\n\
        Answered again from what was read:\n  \
          select             2 asked         2 alike  100.00 %\n  \
          all                2 asked         2 alike  100.00 %\n";
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn another_answer_is_named_and_the_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.log");
    let mut bytes = log(&path);
    // The last wake-up before the end: its head, then the answer, whose first field is the CPU.
    let log = wakelab_log::Log::parse(&bytes).unwrap();
    let at = log.records().last().unwrap().offset as usize;
    bytes[at + 80] = 0;
    std::fs::write(&path, &bytes).unwrap();
    let output = verify(&path, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "wakelab: 1 of 2 answers differ\n");
    let named = format!("record 5 (byte {at}), CPU 1 at 4000 ns, select of task 77: cpu: log 0, native 1\n");
    assert!(text(&output.stdout).ends_with(&named), "{}", text(&output.stdout));
    let json: serde_json::Value =
        serde_json::from_slice(&verify(&path, &["--format", "json"]).stdout).unwrap();
    assert_eq!((&json["differences"][0]["field"], &json["lost"]), (&"cpu".into(), &3.into()));
}

#[test]
fn what_is_no_log_is_refused_with_its_byte_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.log");
    let mut bytes = log(&path);
    let log = wakelab_log::Log::parse(&bytes).unwrap();
    let (at, header) = (log.record(2).offset as usize, log.record(0).offset as usize);
    // The CPU where it happened.
    let this_cpu = at + std::mem::offset_of!(LogHead, event) + std::mem::offset_of!(Event, this_cpu);
    bytes[this_cpu] = 9;
    std::fs::write(&path, &bytes).unwrap();
    let output = verify(&path, &[]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
    let expected = format!(
        "wakelab: {}: byte {}: CPU 9; expected one below 2, as many as the machine has\n",
        path.display(),
        this_cpu
    );
    assert_eq!(text(&output.stderr), expected);
    // A log cut off after its header has nothing to verify.
    std::fs::write(&path, &bytes[..header]).unwrap();
    let output = verify(&path, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("without a whole record; expected records"),
        "{}",
        text(&output.stderr)
    );
    std::fs::write(&path, "nothing of the kind").unwrap();
    let output = verify(&path, &[]);
    assert!(text(&output.stderr).contains("byte 0: no log of scx_wakelab"), "{}", text(&output.stderr));
}
