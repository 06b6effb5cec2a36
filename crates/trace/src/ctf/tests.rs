// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of LTTng's traces: a small one made here, and one by others, against the text that babeltrace2 makes of it.

use std::path::Path;

use super::*;
use crate::event::{Context, Event};
use crate::format;
use crate::raw::same::{assert_fixture, printed, refused, shared};

/// Returns the files of the fixture, by their names, and checks that the fixture has their bytes.
fn fixture() -> Vec<(&'static str, Vec<u8>)> {
    let [one, two] = written::streams();
    let files = vec![("metadata", written::metadata()), ("channel0_0", one), ("channel0_1", two)];
    for (name, bytes) in &files {
        assert_fixture(&format!("small.ctf/{name}"), bytes);
    }
    files
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/small.ctf")
}

/// Returns a tar of files in a folder.
fn tar_of(folder: &str, files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder
            .append_data(&mut header, format!("{folder}/{name}"), &bytes[..])
            .expect("vectors take everything");
    }
    builder.into_inner().expect("vectors take everything")
}

fn all(reader: &mut dyn EventSource, words: impl Fn(&Event<'_>) -> Option<String>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(item) = reader.next_item().unwrap_or_else(|error| panic!("{error}")) {
        match item {
            Item::Event(event) => all.extend(words(&event)),
            Item::Lost { count, .. } => all.push(format!("lost {count}")),
            _ => {}
        }
    }
    all
}

/// What babeltrace2 has of an event, too.
fn words(event: &Event<'_>) -> Option<String> {
    let what = match event.what {
        What::Switch { prev, why, next } => {
            format!(
                "switch {:?} {} {:?} {why:?} {:?} {} {:?}",
                prev.comm, prev.tid, prev.prio, next.comm, next.tid, next.prio
            )
        }
        What::Waking { task, last_cpu: cpu, .. } => {
            format!("waking {:?} {} {:?} {cpu}", task.comm, task.tid, task.prio)
        }
        What::Wakeup { task, cpu } => format!("wakeup {:?} {} {:?} {cpu}", task.comm, task.tid, task.prio),
        What::WakeupNew { task, cpu } => {
            format!("wakeup_new {:?} {} {:?} {cpu}", task.comm, task.tid, task.prio)
        }
        What::Fork { parent, child } => {
            format!("fork {:?} {} {:?} {}", parent.comm, parent.tid, child.comm, child.tid)
        }
        _ => return None,
    };
    Some(format!("{} [{}] {what}", event.time_ns, event.cpu))
}

/// The same of a line of `babeltrace2 --clock-cycles`.
fn words_of_line(line: &str) -> Option<String> {
    let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (before, fields) = rest.split_once(": { cpu_id = ")?;
    let (cpu, fields) = fields.split_once(" }, { ")?;
    let value = |key: &str| -> String {
        let key = format!("{key} = ");
        let at =
            if fields.starts_with(&key) { 0 } else { fields.find(&format!(", {key}")).expect("a field") + 2 };
        let rest = &fields[at + key.len()..];
        match rest.strip_prefix('"') {
            Some(text) => format!("\"{}\"", &text[..text.find('"').expect("the end of a text")]),
            None => rest[..rest.find([',', ' ']).expect("the end of a number")].to_owned(),
        }
    };
    let prio = |key: &str| Some(value(key).parse::<i32>().expect("a priority") + 100);
    let task = || format!("{} {} {:?} {}", value("comm"), value("tid"), prio("prio"), value("target_cpu"));
    let what = match before.rsplit(' ').next()? {
        "sched_switch" => {
            let comm = value("prev_comm");
            let why = state_of_bits(value("prev_state").parse().expect("a state"), &comm);
            let (prev, next) =
                ((comm, value("prev_tid"), prio("prev_prio")), (value("next_comm"), value("next_tid")));
            format!(
                "switch {} {} {:?} {why:?} {} {} {:?}",
                prev.0,
                prev.1,
                prev.2,
                next.0,
                next.1,
                prio("next_prio")
            )
        }
        "sched_waking" => format!("waking {}", task()),
        "sched_wakeup" => format!("wakeup {}", task()),
        "sched_wakeup_new" => format!("wakeup_new {}", task()),
        "sched_process_fork" => {
            let names = ["parent_comm", "parent_tid", "child_comm", "child_tid"].map(value);
            format!("fork {}", names.join(" "))
        }
        _ => return None,
    };
    let time: u64 = time.parse().expect("a number of cycles");
    Some(format!("{time} [{cpu}] {what}"))
}

/// Compares a folder with the text that babeltrace2 makes of it; returns the number of events.
fn assert_is_what_babeltrace_prints(folder: &Path) -> usize {
    let shown = folder.display().to_string();
    let Some(text) = printed(&["babeltrace2", "--clock-cycles", &shown]) else { return 0 };
    let expected: Vec<String> = String::from_utf8_lossy(&text).lines().filter_map(words_of_line).collect();
    let mut reader = format::reader_of_folder(folder, "f").unwrap_or_else(|error| panic!("{error}"));
    let found: Vec<String> =
        all(&mut *reader, words).into_iter().filter(|words| !words.starts_with("lost")).collect();
    let differ = found.iter().zip(&expected).position(|(one, other)| one != other);
    assert_eq!(differ.map(|at| (&found[at], &expected[at])), None);
    assert_eq!(found.len(), expected.len());
    found.len()
}

#[test]
fn all_of_the_small_trace() {
    let files = fixture();
    let found = all(&mut *format::reader_of_folder(&folder(), "f").expect("a trace"), |event| {
        words(event).map(|words| format!("{words} by {:?} {:?}", event.current.tid, event.context))
    });
    let begin: u64 = (1 << 40) + (1 << 27) - 500;
    let cut = "\u{41e}\u{431}\u{440}\u{430}\u{431}\u{43e}\u{442}?";
    let expected = [
        (
            100,
            "[0] switch \"swapper/0\" 0 Some(120) Runnable \"a\" 7 Some(120) by Some(0) Unknown".to_owned(),
        ),
        (600, "[0] fork \"a\" 7 \"a\" 8 by Some(7) Unknown".to_owned()),
        (700, format!("[0] waking {cut:?} 8 Some(50) 1 by Some(7) Unknown")),
        (800, format!("[1] switch \"swapper/0\" 0 Some(120) Runnable {cut:?} 8 Some(50) by Some(0) Unknown")),
        (5000, "[1] waking \"a\" 7 Some(120) 0 by Some(8) Unknown".to_owned()),
        (9000, format!("[1] switch {cut:?} 8 Some(50) Exited \"swapper/0\" 0 Some(120) by Some(8) Unknown")),
        (
            1 << 28,
            "[0] switch \"a\" 7 Some(120) Blocked \"swapper/0\" 0 Some(120) by Some(7) Unknown".to_owned(),
        ),
    ];
    let mut expected: Vec<String> =
        expected.iter().map(|(after, words)| format!("{} {words}", begin + after)).collect();
    expected.push("lost 3".to_owned());
    let source = wakelab_workload::Source::Timer;
    let last = format!("[0] waking \"a\" 7 Some(120) 0 by Some(0) {:?}", Context::Interrupt(source));
    expected.push(format!("{} {last}", begin + (1 << 29) + 10));
    assert_eq!(found, expected);
    // A tar has the same, wherever the trace is in it, and packed.
    for folder in [".", "session/kernel"] {
        let tar = tar_of(folder, &files);
        let found = all(&mut *format::reader(&tar[..], "f").expect("a trace"), words);
        assert_eq!(found.len(), expected.len());
    }
}

#[test]
fn processes_are_those_of_forks() {
    let mut reader = format::reader_of_folder(&folder(), "f").expect("a trace");
    let mut processes = Vec::new();
    while let Some(item) = reader.next_item().expect("an item") {
        if let Item::Event(event) = item {
            processes.push((event.current.tid, event.current.process));
        }
    }
    assert!(processes.contains(&(Some(8), Some(7))) && processes.contains(&(Some(7), None)), "{processes:?}");
}

#[test]
fn the_small_trace_is_what_babeltrace_prints() {
    // It prints no name that is cut inside a character as text, so this one is read to its end only.
    let shown = folder().display().to_string();
    let Some(text) = printed(&["babeltrace2", "--clock-cycles", &shown]) else { return };
    let lines = String::from_utf8_lossy(&text).lines().filter_map(words_of_line).count();
    let mut reader = format::reader_of_folder(&folder(), "f").expect("a trace");
    assert_eq!(all(&mut *reader, words).iter().filter(|words| !words.starts_with("lost")).count(), lines);
}

#[test]
fn a_trace_of_many_threads_is_what_babeltrace_prints() {
    let Some(path) = shared("many-threads.ctf.tar.xz") else { return };
    let folder = std::env::temp_dir().join(format!("wakelab-ctf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let to = folder.display().to_string();
    if printed(&["tar", "-xf", &path.display().to_string(), "-C", &to]).is_some() {
        assert!(matches!(assert_is_what_babeltrace_prints(&folder), 0 | 10_000..));
    }
    std::fs::remove_dir_all(folder).expect("removed");
}

/// The refusal of the small trace after a change of its files.
fn refusal(change: impl Fn(&mut Vec<(&'static str, Vec<u8>)>)) -> String {
    let mut files = fixture();
    change(&mut files);
    let tar = tar_of("t", &files);
    refused(format::reader(&tar[..], "f"))
}

fn plain_metadata(files: &mut [(&'static str, Vec<u8>)], from: &str, to: &str) {
    let text = String::from_utf8(metadata_text(&files[0].1).expect("packets")).expect("text");
    assert!(text.contains(from));
    files[0].1 = text.replacen(from, to, 1).into_bytes();
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let refused = refusal(|files| drop(files.remove(0)));
    assert_eq!(
        refused,
        "f: expected a recording, found a tar archive; unpack it, and read the recording in it"
    );
    let refused = refusal(|files| files[0].1.truncate(2000));
    assert!(
        refused.starts_with("f: t/metadata: byte 1280: expected metadata of the Common Trace Format 1.8"),
        "{refused}"
    );
    let refused = refusal(|files| plain_metadata(files, "uint5_t {", "uint6_t {"));
    assert!(
        refused.starts_with("f: t/metadata:26: expected the type `uint6_t` declared before"),
        "{refused}"
    );
    let refused = refusal(|files| plain_metadata(files, "size = 27", "size = 65"));
    assert!(refused.contains("expected an integer of 1 to 64 bits"), "{refused}");
    let refused = refusal(|files| plain_metadata(files, "uint32_t cpu_id;", "uint32_t cpu;"));
    assert!(
        refused.starts_with("f: t/channel0_0: byte 0: expected a packet that tells its CPU"),
        "{refused}"
    );
    let refused = refusal(|files| plain_metadata(files, "id = 40;", "id = 41;"));
    assert!(refused.contains("expected an event that the metadata describe, found id 40"), "{refused}");
    let refused = refusal(|files| files[1].1[0] = 0);
    assert!(refused.starts_with("f: t/channel0_0: byte 0: expected a packet of a CTF stream"), "{refused}");
    let refused = refusal(|files| files[1].1.truncate(560));
    assert!(refused.contains("byte 512: expected the head of a packet"), "{refused}");
    // More bits in use than the packet has.
    let refused = refusal(|files| files[1].1[24 + 16 + 2] = 1);
    assert!(refused.contains("expected a packet inside the file"), "{refused}");
}

#[test]
fn folders_are_found() {
    let base = std::env::temp_dir().join(format!("wakelab-ctf-folders-{}", std::process::id()));
    let kernel = base.join("session/kernel");
    std::fs::create_dir_all(&kernel).expect("a folder");
    assert_eq!(metadata_folder(&base), None);
    std::fs::write(kernel.join("metadata"), "").expect("a file");
    for path in [&kernel, &base.join("session"), &base] {
        assert_eq!(metadata_folder(path).as_deref(), Some(&*kernel));
    }
    std::fs::create_dir_all(base.join("other/kernel")).expect("a folder");
    std::fs::write(base.join("other/kernel/metadata"), "").expect("a file");
    assert_eq!(metadata_folder(&base), None);
    std::fs::remove_dir_all(base).expect("removed");
}
