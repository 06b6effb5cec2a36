// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of perf's files: small ones and, where perf can record, a new one, against the text of `perf script`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::event::{Context, Event, What};
use crate::format;
use crate::raw::same::{assert_same, printed, refused};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn reader(path: &Path) -> Box<dyn EventSource> {
    format::reader_of_file(File::open(path).expect("a file"), "f").expect("a recording")
}

/// What the text has as well: without interrupts, and without a socket, which this version of perf does not print.
fn words(event: &Event<'_>) -> String {
    let what = match event.what {
        What::DataReady { .. } => What::DataReady { to: None },
        what => what,
    };
    format!("{} [{}] {:?} {what:?}", event.time_ns, event.cpu, event.current.process)
}

/// Compares a file with the text that perf makes of it; returns the number of items.
fn assert_is_what_perf_prints(path: &Path) -> u64 {
    let name = path.display().to_string();
    let command = ["perf", "script", "--ns", "-F", "+pid", "--show-lost-events", "-i", &name];
    let Some(text) = printed(&command) else { return 0 };
    let mut text = format::reader(&text[..], "t").expect("a recording");
    assert_same(&mut *reader(path), &mut *text, words)
}

#[test]
fn the_fixture_is_its_text() {
    let mut text = reader(&fixture("sleep.perf.txt"));
    assert!(assert_same(&mut *reader(&fixture("sleep.perf.data")), &mut *text, words) > 100);
}

#[test]
fn what_was_written_to_a_pipe_is_what_perf_prints() {
    assert_is_what_perf_prints(&fixture("sleep-pipe.perf.data"));
}

#[test]
fn flags_tell_interrupts() {
    let mut reader = reader(&fixture("sleep.perf.data"));
    let (mut in_interrupts, mut of_tasks) = (0, 0);
    while let Some(item) = reader.next_item().expect("an item") {
        let Item::Event(Event { context, what: What::Waking { .. }, .. }) = item else { continue };
        in_interrupts += u32::from(matches!(context, Context::Interrupt(_)));
        of_tasks += u32::from(context == Context::Task);
    }
    assert!(in_interrupts > 0 && of_tasks > 0, "{in_interrupts} {of_tasks}");
}

/// Records messages over sockets, with buffers as small as possible, so that several rounds are needed, but none is
/// lost: perf's text does not tell all losses. `None` if perf may not. The caller removes the file.
fn recorded(name: &str, options: &[&str]) -> Option<PathBuf> {
    let path = std::env::temp_dir().join(format!("wakelab-{name}-{}.perf.data", std::process::id()));
    let events = "sched:sched_switch,sched:sched_waking,sched:sched_process_fork,sched:sched_stat_runtime,\
                  sock:sk_data_ready,sock:sock_send_length,sock:sock_recv_length";
    let output = path.display().to_string();
    for pages in ["16", "256", "4096"] {
        let record = ["record", "-a", "-m", pages, "-e", events, "-o", &output];
        let work = ["--", "perf", "bench", "sched", "messaging", "-g", "1", "-l", "20"];
        match Command::new("perf").args(record).args(options).args(work).output() {
            Ok(output) if output.status.success() => {}
            _ => break,
        }
        let mut reader = reader(&path);
        let mut items = std::iter::from_fn(|| reader.next_item().expect("an item").map(is_loss));
        if !items.any(|is_loss| is_loss) {
            return Some(path);
        }
        std::fs::remove_file(&path).expect("removed");
    }
    eprintln!("skipped: perf does not record all of these events here");
    None
}

fn is_loss(item: Item<'_>) -> bool {
    matches!(item, Item::Lost { .. })
}

#[test]
fn what_perf_records_is_what_perf_prints() {
    let Some(path) = recorded("plain", &[]) else { return };
    let items = assert_is_what_perf_prints(&path);
    std::fs::remove_file(path).expect("removed");
    assert!(items > 1000, "{items}");
}

#[test]
fn what_perf_packs_is_what_perf_prints() {
    // It has less than a window of zstd.
    assert_is_what_perf_prints(&fixture("sleep-z.perf.data"));
    // This has several, unless perf has too old a version.
    let Some(path) = recorded("packed", &["-z"]) else { return };
    let items = assert_is_what_perf_prints(&path);
    std::fs::remove_file(path).expect("removed");
    assert!(items > 1000, "{items}");
}

/// All records of a part of a file.
fn records(store: &Store, begin: u64, end: u64) -> Vec<Vec<u8>> {
    let mut records = Records::new(begin, end);
    let mut all = Vec::new();
    while records.next(store).expect("a record").is_some() {
        all.push(records.record().to_vec());
    }
    all
}

/// perf 6.16 and newer write the length of what is packed, and pad the record.
#[test]
fn packed_records_may_be_padded() {
    let bytes = std::fs::read(fixture("sleep-z.perf.data")).expect("a fixture");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes")) as usize;
    let (begin, end) = (word(40), word(40) + word(48));
    let (mut padded, mut at, mut changed) = (Vec::new(), begin, 0);
    while at < end {
        let record = &bytes[at..at + records::length_of(&bytes[at..])];
        at += record.len();
        if record[0] != 81 {
            padded.extend(record);
            continue;
        }
        let data = &record[8..];
        let length = 16 + data.len().next_multiple_of(8);
        padded.extend([83, 0, 0, 0, 0, 0]);
        padded.extend((length as u16).to_le_bytes());
        padded.extend((data.len() as u64).to_le_bytes());
        padded.extend(data);
        padded.resize(padded.len() + length - 16 - data.len(), 0);
        changed += 1;
    }
    let length = padded.len() as u64;
    let padded = records(&Store::of_memory(padded, "f", None), 0, length);
    assert!(changed > 1 && padded.len() > 100, "{changed} {}", padded.len());
    assert!(padded == records(&Store::of_memory(bytes, "f", None), begin as u64, end as u64));
}

/// The refusal of the fixture after a change.
fn refusal(change: impl Fn(&mut Vec<u8>)) -> String {
    let mut bytes = std::fs::read(fixture("sleep.perf.data")).expect("a fixture");
    change(&mut bytes);
    refused(Reader::new(Store::of_memory(bytes, "f", None)).map(|reader| Box::new(reader) as _))
}

#[test]
fn what_is_wrong_is_named_with_its_byte() {
    let refused = refusal(|bytes| bytes[8] = 1);
    assert_eq!(refused, "f: byte 8: expected a header of 104 or 16 bytes, found 1");
    let refused = refusal(|bytes| bytes.truncate(3000));
    assert!(refused.contains("bytes of records, found the end of the file at byte 3000"), "{refused}");
    let refused = refusal(|bytes| bytes[72] = 0);
    assert!(refused.starts_with("f: byte 72: expected the layouts of the kernel's events"), "{refused}");
    // The place of the first record, whose length becomes 0.
    let refused = refusal(|bytes| {
        let first = u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes")) as usize;
        bytes[first + 6..first + 8].fill(0);
    });
    assert!(refused.ends_with(": expected a record of 8 bytes or more, found 0"), "{refused}");
    // A record that seems to be packed.
    let refused = refusal(|bytes| {
        let first = u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes")) as usize;
        bytes[first] = 81;
    });
    assert!(refused.contains("expected records packed with zstd, found "), "{refused}");
}
