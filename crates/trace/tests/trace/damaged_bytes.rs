// SPDX-License-Identifier: GPL-2.0-or-later
//! Damaged recordings of each format, binary and packed ones too: the corpus of the fuzz targets (`fuzz/corpus`), with
//! bytes changed, numbers replaced by extreme ones, parts deleted, doubled and moved, and the end cut off. The importer
//! must not panic or hang, and must return an error that begins with the file's name, or a workload that ends.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use wakelab_trace::{Options, read, read_from};

use crate::executor::execute;

/// All files of the corpus, in the order of their names.
static FILES: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    };
    let folders = entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus"));
    let files = folders.iter().flat_map(|folder| entries(folder));
    files.map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
});

#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    /// A number of this many bytes.
    Number(Index, usize, u64),
    Delete(Index, usize),
    Double(Index, usize),
    Move(Index, Index, usize),
    Cut(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<Index>;
    let number = prop_oneof![
        0..300u64,
        (0..64u32).prop_map(|bit| 1 << bit),
        Just(u64::from(u32::MAX)),
        Just(u64::MAX),
        Just(i64::MAX as u64)
    ];
    let size = prop_oneof![Just(1usize), Just(2), Just(4), Just(8)];
    prop_oneof![
        4 => (index(), 1..=255u8).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        4 => (index(), size, number).prop_map(|(at, size, number)| Damage::Number(at, size, number)),
        1 => (index(), 1..100usize).prop_map(|(at, length)| Damage::Delete(at, length)),
        1 => (index(), 1..100usize).prop_map(|(at, length)| Damage::Double(at, length)),
        1 => (index(), index(), 1..100usize).prop_map(|(from, to, length)| Damage::Move(from, to, length)),
        1 => index().prop_map(Damage::Cut),
    ]
}

/// Most bytes of a file say nothing, so half of the damage is done where the first of them stand.
fn place(at: &Index, bytes: &[u8]) -> usize {
    let at = at.index(2 * bytes.len().max(1));
    if at < bytes.len() { at } else { (at - bytes.len()) / 8 }
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let part = |at: usize, length: usize, bytes: &[u8]| at..(at + length).min(bytes.len());
    match damage {
        Damage::Flip(at, bits) => {
            let at = place(at, bytes);
            bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= bits);
        }
        Damage::Number(at, size, number) => {
            let at = place(at, bytes);
            let number = number.to_le_bytes();
            bytes.iter_mut().skip(at).zip(&number[..*size]).for_each(|(byte, &number)| *byte = number);
        }
        Damage::Delete(at, length) => {
            bytes.drain(part(place(at, bytes), *length, bytes));
        }
        Damage::Double(at, length) => {
            let at = place(at, bytes);
            let copy = bytes[part(at, *length, bytes)].to_vec();
            bytes.splice(at..at, copy);
        }
        Damage::Move(from, to, length) => {
            let copy = bytes[part(place(from, bytes), *length, bytes)].to_vec();
            let to = place(to, bytes);
            bytes.iter_mut().skip(to).zip(copy).for_each(|(byte, copied)| *byte = copied);
        }
        Damage::Cut(at) => bytes.truncate(at.index(bytes.len().max(1))),
    }
}

#[test]
fn a_file_and_a_pipe_say_the_same() {
    for (path, bytes) in &*FILES {
        let options = Options::default();
        let name = path.file_name().expect("a name").to_string_lossy();
        let of_file = read(path, &options).expect("a recording");
        let of_pipe = read_from(&bytes[..], &name, &name, &options).expect("a recording");
        assert_eq!(of_file, of_pipe);
        let is_binary = !name.contains(".txt");
        assert!(!is_binary || of_file.explained.interrupts_known, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn damaged_files_are_refused_or_replayed(
        which in any::<Index>(),
        damages in prop::collection::vec(damage(), 1..6),
        strict in any::<bool>(),
    ) {
        let mut bytes = which.get(&FILES).1.clone();
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        match read_from(&bytes[..], "x", "x", &Options { strict, ..Options::default() }) {
            Ok(recording) => {
                let ends_ns = execute(&recording.workload);
                prop_assert!(ends_ns.is_ok(), "tasks never end: {:?}", ends_ns);
            }
            Err(error) => prop_assert!(error.to_string().starts_with("x:"), "{}", error),
        }
    }
}
