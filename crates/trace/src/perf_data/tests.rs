// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of perf's files: small ones and, where perf can record, a new one, against the text of `perf script`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::event::{Context, Event, What};
use crate::format;
use crate::raw::same::{assert_same, printed};

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

/// Records messages over sockets with small buffers, so that several rounds are needed.
#[test]
fn what_perf_records_is_what_perf_prints() {
    let path = std::env::temp_dir().join(format!("wakelab-{}.perf.data", std::process::id()));
    let events = "sched:sched_switch,sched:sched_waking,sched:sched_process_fork,sched:sched_stat_runtime,\
                  sock:sk_data_ready,sock:sock_send_length,sock:sock_recv_length";
    let output = path.display().to_string();
    let record = ["record", "-a", "-m", "16", "-e", events, "-o", &output];
    let work = ["--", "perf", "bench", "sched", "messaging", "-g", "1", "-l", "50"];
    match Command::new("perf").args(record).args(work).output() {
        Ok(output) if output.status.success() => {}
        _ => return eprintln!("skipped: perf does not record these events here"),
    }
    let items = assert_is_what_perf_prints(&path);
    std::fs::remove_file(path).expect("removed");
    assert!(items > 1000, "{items}");
}

/// The refusal of the fixture after a change.
fn refusal(change: impl Fn(&mut Vec<u8>)) -> String {
    let mut bytes = std::fs::read(fixture("sleep.perf.data")).expect("a fixture");
    change(&mut bytes);
    let mut reader = match Reader::new(Store::of_memory(bytes, "f", None)) {
        Ok(reader) => reader,
        Err(error) => return error.to_string(),
    };
    loop {
        match reader.next_item() {
            Ok(None) => panic!("accepted"),
            Ok(Some(_)) => {}
            Err(error) => return error.to_string(),
        }
    }
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
    // Packed records.
    let refused = refusal(|bytes| {
        let first = u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes")) as usize;
        bytes[first] = 81;
    });
    assert!(refused.contains("found one packed with zstd (perf record -z)"), "{refused}");
}
