// SPDX-License-Identifier: GPL-2.0-or-later
//! Damaged recordings: slices of the fixtures and of our own exports, with lines deleted, doubled, swapped and
//! rewritten, bytes flipped, and the end cut off. The importer must not panic or hang; it must return an error with a
//! place, or a workload that ends.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use wakelab_machine::Machine;
use wakelab_trace::{Options, TraceError, read_from};
use wakelab_workload::Workload;

use crate::executor::execute;
use crate::pipes::written_and_read;
use crate::round_trip::export;
use crate::sockets::asked_and_answered;

/// Number of lines of each slice.
const LINES: usize = 250;

/// Slices from the beginning of one fixture, where tasks are born, and from the end of the other, where they exit; and
/// the same slices of two exports as ftrace text, with timers, interrupts and comments on tasks; and a conversation
/// over sockets and one over a pipe.
static SLICES: LazyLock<[Vec<String>; 6]> = LazyLock::new(|| {
    let lines = |name: &str| -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
        std::fs::read_to_string(path).expect("the fixture").lines().map(str::to_owned).collect()
    };
    let pgbench = lines("pgbench.perf.txt");
    let machine = Machine::preset("smp-8").expect("a preset");
    let ftrace = |workload: &str| -> Vec<String> {
        let workload = Workload::parse_spec(workload).expect("a workload");
        let (_, text) = export(&machine, workload);
        String::from_utf8(text).expect("our exports are text").lines().map(str::to_owned).collect()
    };
    let (timers, messages) =
        (ftrace("schbench:runtime-ms=200,threads=4"), ftrace("hackbench:groups=2,fds=6,loops=50"));
    [
        lines("hackbench.perf.txt")[..LINES].to_vec(),
        pgbench[pgbench.len() - LINES..].to_vec(),
        timers[..LINES].to_vec(),
        messages[messages.len() - LINES..].to_vec(),
        asked_and_answered(20).text.lines().take(LINES).map(str::to_owned).collect(),
        written_and_read(40).text.lines().take(LINES).map(str::to_owned).collect(),
    ]
});

#[derive(Clone, Debug)]
enum Mutation {
    Delete(Index),
    Double(Index),
    Swap(Index, Index),
    /// Everything after the time of two lines.
    SwapEvents(Index, Index),
    /// The CPU and the task of two lines.
    SwapPlaces(Index, Index),
    /// Another number instead of one of the line's.
    Number(Index, Index, u64),
    Flip(Index, Index, u8),
    Cut(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let number = prop_oneof![Just(0), Just(1), 0..5000u64, Just(u64::from(u32::MAX)), Just(u64::MAX)];
    let index = any::<Index>;
    prop_oneof![
        4 => index().prop_map(Mutation::Delete),
        2 => index().prop_map(Mutation::Double),
        1 => (index(), index()).prop_map(|(a, b)| Mutation::Swap(a, b)),
        6 => (index(), index()).prop_map(|(a, b)| Mutation::SwapEvents(a, b)),
        4 => (index(), index()).prop_map(|(a, b)| Mutation::SwapPlaces(a, b)),
        1 => (index(), index(), number).prop_map(|(a, b, n)| Mutation::Number(a, b, n)),
        1 => (index(), index(), any::<u8>()).prop_map(|(a, b, n)| Mutation::Flip(a, b, n)),
        1 => index().prop_map(Mutation::Cut),
    ]
}

/// A line's beginning up to `]`, its time, and the rest.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (place, rest) = line.split_once(']')?;
    let (time, event) = rest.split_once(": ")?;
    Some((place, time, event))
}

fn mutate(lines: &mut Vec<Vec<u8>>, mutation: &Mutation) {
    let text = |line: &Vec<u8>| String::from_utf8_lossy(line).into_owned();
    match mutation {
        Mutation::Delete(at) => {
            lines.remove(at.index(lines.len()));
        }
        Mutation::Double(at) => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at].clone());
        }
        Mutation::Swap(a, b) => {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
        }
        Mutation::SwapEvents(a, b) | Mutation::SwapPlaces(a, b) => {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            let (line_a, line_b) = (text(&lines[a]), text(&lines[b]));
            let (Some(of_a), Some(of_b)) = (parts(&line_a), parts(&line_b)) else { return };
            let events = matches!(mutation, Mutation::SwapEvents(..));
            for (line, mine, other) in [(a, of_a, of_b), (b, of_b, of_a)] {
                let (place, event) = if events { (mine.0, other.2) } else { (other.0, mine.2) };
                lines[line] = format!("{place}]{}: {event}", mine.1).into_bytes();
            }
        }
        Mutation::Number(at, which, number) => {
            let at = at.index(lines.len());
            let line = text(&lines[at]);
            let is_start = |i: &usize| {
                line.as_bytes()[*i].is_ascii_digit() && (*i == 0 || !line.as_bytes()[i - 1].is_ascii_digit())
            };
            let starts: Vec<usize> = (0..line.len()).filter(is_start).collect();
            if starts.is_empty() {
                return;
            }
            let start = *which.get(&starts);
            let rest = line[start..].trim_start_matches(|c: char| c.is_ascii_digit());
            lines[at] = format!("{}{number}{rest}", &line[..start]).into_bytes();
        }
        Mutation::Flip(at, byte, bits) => {
            let at = at.index(lines.len());
            let byte = byte.index(lines[at].len().max(1));
            if let Some(byte) = lines[at].get_mut(byte) {
                *byte ^= bits;
            }
        }
        Mutation::Cut(at) => {
            let at = at.index(lines.len()).max(LINES / 4);
            lines.truncate(at);
        }
    }
}

proptest! {
    #[test]
    fn damaged_recordings_are_refused_or_replayed(
        slice in 0..SLICES.len(),
        mutations in prop::collection::vec(mutation(), 1..12),
        cut_bytes in prop_oneof![9 => Just(0), 1 => 0..500usize],
        strict in any::<bool>(),
        rescaled in any::<bool>(),
        runs in 1..3u32,
    ) {
        let mut lines: Vec<Vec<u8>> = SLICES[slice].iter().map(|line| line.clone().into_bytes()).collect();
        for mutation in &mutations {
            mutate(&mut lines, mutation);
        }
        let mut bytes = lines.join(&b'\n');
        bytes.push(b'\n');
        bytes.truncate(bytes.len().saturating_sub(cut_bytes));

        let recorded_on = rescaled.then(|| Machine::preset("smp-8").expect("a preset"));
        let options = Options { strict, recorded_on, repeat: NonZeroU32::new(runs), ..Options::default() };
        match read_from(&bytes[..], "slice", "slice", &options) {
            Ok(recording) => {
                let ends_ns = execute(&recording.workload);
                prop_assert!(ends_ns.is_ok(), "tasks never end: {:?}", ends_ns);
                prop_assert!(!strict || recording.explained.gaps.is_empty());
                prop_assert!(recording.explained.unexplained <= recording.explained.waits);
                let cpu_time_ns = u128::from(recording.duration_ns) * u128::from(recording.nr_cpus);
                prop_assert!(u128::from(recording.busy_ns) <= cpu_time_ns);
            }
            Err(TraceError::Empty { .. } | TraceError::NoSwitch { .. }) => {
                prop_assert!(false, "a quarter of the slice is always there");
            }
            Err(error) => {
                let text = error.to_string();
                let line = text.strip_prefix("slice:").and_then(|rest| rest.split(':').next());
                prop_assert!(line.is_some_and(|line| line.parse::<u64>().is_ok()), "{}", text);
            }
        }
    }

    #[test]
    fn junk_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        let error = read_from(&bytes[..], "junk", "junk", &Options::default()).unwrap_err();
        prop_assert!(error.to_string().starts_with("junk:"));
    }
}
