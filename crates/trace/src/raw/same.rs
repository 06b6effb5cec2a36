// SPDX-License-Identifier: GPL-2.0-or-later
//! For tests: whether a binary recording says the same as the text that its own tool makes of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::TraceError;
use crate::event::{Event, EventSource, Item};

/// Returns the path of a recording by others beside the project, which may not be shipped; says so if it is not there.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

/// Returns what a command prints; says so if it is not installed.
pub(crate) fn printed(command: &[&str]) -> Option<Vec<u8>> {
    let Ok(output) = Command::new(command[0]).args(&command[1..]).output() else {
        eprintln!("skipped: {} is not installed", command[0]);
        return None;
    };
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

/// An item in words, and its current task's name and id.
type Said = (String, String, Option<u32>);

/// Returns the next item; `None` at the end.
fn next(source: &mut dyn EventSource, words: impl Fn(&Event<'_>) -> String) -> Option<Said> {
    loop {
        return match source.next_item().unwrap_or_else(|error| panic!("{error}"))? {
            Item::Event(event) => Some((words(&event), event.current.comm.to_owned(), event.current.tid)),
            Item::Lost { count, .. } => Some((format!("lost {count}"), String::new(), None)),
            _ => continue,
        };
    }
}

/// Checks that a binary recording and its text say the same, as far as `words` go; returns the number of items. The
/// text may lack the name or the id of a current task.
pub(crate) fn assert_same(
    binary: &mut dyn EventSource,
    text: &mut dyn EventSource,
    words: impl Fn(&Event<'_>) -> String,
) -> u64 {
    for number in 0.. {
        let (mut one, other) = (next(binary, &words), next(text, &words));
        if let (Some((_, comm, tid)), Some((_, text_comm, text_tid))) = (&mut one, &other) {
            if text_comm == "<...>" || text_comm.starts_with(':') || *tid == Some(0) {
                comm.clone_from(text_comm);
            }
            if text_tid.is_none() {
                *tid = None;
            }
        }
        assert_eq!(one, other, "item {number}");
        if one.is_none() {
            return number;
        }
    }
    0
}

/// Returns why a recording is refused, where it is opened or later.
pub(crate) fn refused(opened: Result<Box<dyn EventSource + '_>, TraceError>) -> String {
    let mut reader = match opened {
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

/// Checks that the fixture `name` has these bytes, and returns its path. With WAKELAB_WRITE_FIXTURES set, writes it.
pub(crate) fn assert_fixture(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    if std::env::var_os("WAKELAB_WRITE_FIXTURES").is_some() {
        std::fs::write(&path, bytes).expect("a file");
    }
    assert!(std::fs::read(&path).expect("a fixture") == bytes, "{name} has other bytes");
    path
}
