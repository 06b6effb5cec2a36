// SPDX-License-Identifier: GPL-2.0-or-later
//! Exits from idle states. A thread sleeps on a CPU for as long as a state is meant for, and another CPU wakes it: what
//! passes from before that call until the thread runs is the wake-up with the exit. cpuidle's counters tell whether the
//! CPU was in that state. Then the thread works, for crates/measure/src/cold.rs.

use std::hint::spin_loop;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex::{Flags, wake};

use crate::cold::{ColdWork, Took};
use crate::futexes::wait_while;
use crate::pin;
use crate::timing::ns;

/// The governor's state that polls. It does not count beside others, because the kernel leaves it soon.
const POLL: &str = "POLL";
/// Sleeps before those that count, from which the governor learns.
const FIRST: usize = 10;
/// Sleeps that are measured at least.
const LEAST: usize = 10;
const MOST: usize = 1000;
/// A sleep of the shallowest state, and of the deepest at most.
const SHORTEST_NS: u64 = 20_000;
const LONGEST_NS: u64 = 20_000_000;

const MINE: u32 = 0;
const THINE: u32 = 1;
const STOP: u32 = 2;

/// An idle state of a CPU, as sysfs has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) name: String,
    /// The state is meant for sleeps from here on; 0 of the first.
    pub(crate) after_ns: u64,
    /// What the driver says of its exit.
    pub(crate) latency_ns: u64,
    usage: PathBuf,
}

/// The states of a CPU that are in use, shallowest first; none if sysfs does not have them.
pub(crate) fn states(root: &Path, cpu: u32) -> Vec<State> {
    let folder = root.join(format!("devices/system/cpu/cpu{cpu}/cpuidle"));
    let mut found: Vec<State> =
        (0..16).map_while(|at| state(&folder.join(format!("state{at}")))).flatten().collect();
    if found.len() > 1 {
        found.retain(|state| state.name != POLL);
    }
    if let Some(first) = found.first_mut() {
        first.after_ns = 0;
    }
    found
}

/// The state of this folder; `None` if there is none, and within if it is switched off or cannot be read.
fn state(folder: &Path) -> Option<Option<State>> {
    let text = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
    let name = text("name")?.trim().to_owned();
    let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
    if number("disable").is_some_and(|disabled| disabled != 0) {
        return Some(None);
    }
    let of = |residency: u64, latency: u64| State {
        name,
        after_ns: residency.saturating_mul(1000),
        latency_ns: latency.saturating_mul(1000),
        usage: folder.join("usage"),
    };
    Some(number("residency").zip(number("latency")).map(|(residency, latency)| of(residency, latency)))
}

/// How long a CPU sleeps to be in the state at this place: twice as long as it must be for that, and not as long as the
/// next state needs.
pub(crate) fn sleep_ns(states: &[State], at: usize) -> u64 {
    let own = states[at].after_ns;
    let twice = (2 * own).clamp(SHORTEST_NS, LONGEST_NS);
    match states.get(at + 1) {
        Some(next) if twice >= next.after_ns => own.midpoint(next.after_ns),
        _ => twice,
    }
}

/// What was measured of a state.
pub(crate) struct Exits {
    /// From before the call until the thread ran, in ns, one by one.
    pub(crate) wakes_ns: Vec<u64>,
    /// How often the CPU entered the state during that.
    pub(crate) entered: u64,
    /// By how many percent the thread's first work took longer than the same work again, one by one.
    pub(crate) cold_percent: Vec<u64>,
}

/// Wakes a thread on the second CPU from the first, after sleeps of that length.
pub(crate) fn exits(cpus: (u32, u32), state: &State, sleep_ns: u64, time: Duration) -> io::Result<Exits> {
    let usage =
        || std::fs::read_to_string(&state.usage).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let (word, waits, ran_at_ns) = (AtomicU32::new(MINE), AtomicBool::new(false), AtomicU64::new(0));
    let work = ColdWork::new()?;
    let percent = AtomicU64::new(0);
    let begin = Instant::now();
    let sleep = Duration::from_nanos(sleep_ns);
    let waker = || {
        let (mut found, mut cold_percent, mut usage_before) = (Vec::new(), Vec::new(), usage());
        for at in 0.. {
            if at == FIRST {
                usage_before = usage();
            }
            if found.len() >= LEAST && (begin.elapsed() >= time || found.len() >= MOST) {
                break;
            }
            while !waits.swap(false, Ordering::AcqRel) {
                spin_loop();
            }
            let asleep = Instant::now();
            while asleep.elapsed() < sleep {
                spin_loop();
            }
            let from = ns(begin.elapsed());
            word.store(THINE, Ordering::Release);
            let _ = wake(&word, Flags::PRIVATE, 1);
            let ran = loop {
                match ran_at_ns.swap(0, Ordering::AcqRel) {
                    0 => spin_loop(),
                    ran => break ran,
                }
            };
            if at >= FIRST {
                found.push(ran.saturating_sub(from));
                cold_percent.push(percent.load(Ordering::Acquire));
            }
        }
        let entered = usage().zip(usage_before).map_or(0, |(after, before)| after.saturating_sub(before));
        word.store(STOP, Ordering::Release);
        let _ = wake(&word, Flags::PRIVATE, 1);
        Exits { wakes_ns: found, entered, cold_percent }
    };
    let wakee = || {
        loop {
            waits.store(true, Ordering::Release);
            wait_while(&word, MINE);
            if word.load(Ordering::Acquire) == STOP {
                return;
            }
            word.store(MINE, Ordering::Release);
            let ran_ns = ns(begin.elapsed()).max(1);
            percent.store(work.twice().map_or(0, Took::more_percent), Ordering::Release);
            ran_at_ns.store(ran_ns, Ordering::Release);
        }
    };
    pin::pair(cpus, waker, wakee)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder like sysfs with these states of CPU 1: name, residency, latency and whether it is switched off.
    fn sysfs(states: &[(&str, &str, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (at, (name, residency, latency, disable)) in states.iter().enumerate() {
            let folder = root.path().join(format!("devices/system/cpu/cpu1/cpuidle/state{at}"));
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in
                [("name", name), ("residency", residency), ("latency", latency), ("disable", disable)]
            {
                fs::write(folder.join(file), format!("{text}\n")).unwrap();
            }
        }
        root
    }

    #[test]
    fn states_of_sysfs() {
        let root = sysfs(&[
            ("POLL", "0", "0", "0"),
            ("C1", "2", "2", "0"),
            ("C1E", "20", "10", "1"),
            ("C6", "600", "133", "0"),
        ]);
        let found = states(root.path(), 1);
        let shown: Vec<_> = found.iter().map(|s| (s.name.as_str(), s.after_ns, s.latency_ns)).collect();
        assert_eq!(shown, [("C1", 0, 2_000), ("C6", 600_000, 133_000)]);
        assert_eq!((sleep_ns(&found, 0), sleep_ns(&found, 1)), (20_000, 1_200_000));
        assert!(states(root.path(), 0).is_empty());
        let root = sysfs(&[("POLL", "0", "0", "0")]);
        assert_eq!(states(root.path(), 1).len(), 1);
    }

    #[test]
    fn sleeps_stay_below_the_next_state() {
        let root = sysfs(&[("C1", "1", "1", "0"), ("C1E", "4", "2", "0"), ("C6", "50000", "290", "0")]);
        let found = states(root.path(), 1);
        // C1: 20 us is for C1E already, so the middle of 0 and 4 us; C6: no longer than 20 ms, which it would not need.
        assert_eq!([0, 1, 2].map(|at| sleep_ns(&found, at)), [2_000, 20_000, 20_000_000]);
    }
}
