// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of trace-cmd's files: small ones made by hand, and real ones against `trace-cmd report`.

use std::fs::File;
use std::path::Path;

use super::*;
use crate::event::{Context, Event, What};
use crate::format;
use crate::raw::same::{assert_fixture, assert_same, printed, refused, shared};
use crate::trace_dat::written::{Order, small};

/// What the text has as well: without flags, so without interrupts.
fn words(event: &Event<'_>) -> String {
    format!("{} [{}] {:?}", event.time_ns, event.cpu, event.what)
}

/// Returns the name of a file that no other test uses.
fn temporary(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("wakelab-{}-{name}.dat", std::process::id()))
}

/// Returns what trace-cmd prints with `-l`. One run in about forty of its 3.1.6 writes all times as bare integers
/// (`0.....201453727896:`), which our reader refuses because it cannot know their unit; such a run is made again.
fn with_flags(name: &str) -> Vec<u8> {
    let has_seconds = |line: &str| {
        let time = line.split_once(':').and_then(|(head, _)| head.split_whitespace().last());
        time.is_some_and(|time| time.contains('.') && time.parse::<f64>().is_ok())
    };
    let is_right = |text: &Vec<u8>| String::from_utf8_lossy(text).lines().any(has_seconds);
    let run = || printed(&["trace-cmd", "report", "-t", "-l", name]).expect("it was there");
    (0..5).map(|_| run()).find(is_right).expect("times in seconds in one run of five")
}

/// Compares a file, as it is and in version 7, with the text that trace-cmd makes of it.
fn assert_is_what_trace_cmd_prints(path: &Path, items_min: u64) {
    let name = path.display().to_string();
    let Some(text) = printed(&["trace-cmd", "report", "-t", &name]) else { return };
    let compare = |path: &Path| {
        let mut binary = format::reader_of_file(File::open(path).expect("a file"), "f").expect("a recording");
        let mut text = format::reader(&text[..], "t").expect("a recording");
        assert!(assert_same(&mut *binary, &mut *text, words) >= items_min);
    };
    compare(path);
    let with_flags = with_flags(&name);
    let mut binary = format::reader_of_file(File::open(path).expect("a file"), "f").expect("a recording");
    let mut text = format::reader(&with_flags[..], "t").expect("a recording");
    let words = |event: &Event<'_>| format!("{} {:?}", words(event), event.context);
    assert!(assert_same(&mut *binary, &mut *text, words) >= items_min);
    for packing in ["none", "zstd"] {
        let converted = temporary(&format!("{items_min}-{packing}"));
        let output = converted.display().to_string();
        let command = ["trace-cmd", "convert", "-i", &name, "-o", &output, "--file-version", "7"];
        printed(&[&command[..], &["--compression", packing]].concat()).expect("it was there");
        compare(&converted);
        std::fs::remove_file(converted).expect("removed");
    }
}

#[test]
fn juno_is_what_trace_cmd_prints() {
    if let Some(path) = shared("juno-rtapp.trace.dat") {
        assert_is_what_trace_cmd_prints(&path, 7_820);
    }
}

#[test]
fn hackbench_is_what_trace_cmd_prints() {
    let Some(archive) = shared("ryzen_hackbench_400.trace.dat.tgz") else { return };
    let archive = archive.display().to_string();
    let Some(bytes) = printed(&["tar", "xzOf", &archive, "--wildcards", "*/trace.dat"]) else { return };
    let path = temporary("hackbench");
    std::fs::write(&path, bytes).expect("a file");
    assert_is_what_trace_cmd_prints(&path, 138_092);
    std::fs::remove_file(path).expect("removed");
}

/// The events of a file: time, CPU, and what tells most.
fn story(bytes: Vec<u8>) -> Vec<String> {
    let mut reader = Reader::new(Store::of_memory(bytes, "f", None)).expect("a head");
    let mut story = Vec::new();
    while let Some(item) = reader.next_item().expect("an item") {
        story.push(match item {
            Item::Lost { count, .. } => format!("lost {count}"),
            Item::Event(event) => {
                let what = match event.what {
                    What::Switch { prev, why, next } => format!("{} {why:?} {}", prev.comm, next.comm),
                    What::Waking { task, last_cpu, .. } => format!("{} {last_cpu}", task.comm),
                    other => format!("{other:?}"),
                };
                let by = match event.context {
                    Context::Task => event.current.comm.to_owned(),
                    other => format!("{other:?}"),
                };
                format!("{} {} {by}: {what}", event.time_ns - 1_000_000_000, event.cpu)
            }
            _ => continue,
        });
    }
    story
}

#[test]
fn a_small_file_in_either_byte_order() {
    let expected = [
        "0 0 <idle>: swapper/0 Runnable sh",
        "1000 0 sh: sleep-sleep-sl? 1",
        "2000 1 <idle>: swapper/1 Runnable sleep-sleep-sl?",
        "5000 0 sh: sh Blocked swapper/0",
        "8000 1 sleep-sleep-sl?: sleep-sleep-sl? Blocked swapper/1",
        "9000 0 Interrupt(Unknown): sh 0",
        "9500 0 <idle>: swapper/0 Runnable sh",
        "12000 0 Interrupt(Device): Other",
        "13000 0 sh: Other",
        "20000 0 sh: sh Exited swapper/0",
        "lost 3",
        "300000000 1 Interrupt(Unknown): sleep-sleep-sl? 1",
        "300000500 1 <idle>: swapper/1 Runnable sleep-sleep-sl?",
        "900100000 1 sleep-sleep-sl?: sleep-sleep-sl? Exited swapper/1",
    ];
    assert_eq!(story(small(Order::Little)), expected);
    assert_eq!(story(small(Order::Big)), expected);
}

#[test]
fn the_fixture_is_the_small_file() {
    let path = assert_fixture("small.trace.dat", &small(Order::Little));
    assert_is_what_trace_cmd_prints(&path, 14);
}

#[test]
fn what_is_wrong_is_named_with_its_byte() {
    let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = small(Order::Little);
        change(&mut bytes);
        refused(Reader::new(Store::of_memory(bytes, "f", None)).map(|reader| Box::new(reader) as _))
    };
    assert_eq!(
        refusal(&|bytes| bytes[10] = b'5'),
        "f: byte 10: expected a trace-cmd file of version 6 or 7, found version 5"
    );
    assert_eq!(
        refusal(&|bytes| bytes.truncate(9000)),
        "f: byte 8192: expected 8192 bytes of events of CPU 1, found the end of the file at byte 9000"
    );
    assert_eq!(
        refusal(&|bytes| bytes.truncate(300)),
        "f: byte 264: expected 51 bytes of header_event, found the end of the file at byte 300"
    );
    assert_eq!(
        refusal(&|bytes| bytes[4096 + 10] = 1),
        "f: byte 4096: expected a page with at most 4080 bytes of events, found 65920"
    );
    let of_switch = "f: byte 4116: expected sched_switch with ==> next_comm= next_pid=, found";
    let refused = refusal(&|bytes| bytes[4096 + 16 + 4 + 59] = 0xff);
    assert!(refused.starts_with(of_switch), "{refused}");
}
