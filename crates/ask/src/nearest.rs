// SPDX-License-Identifier: GPL-2.0-or-later
//! The policy of a recording that does not tell its kernel: the one whose replay is nearest to what was recorded.
//!
//! Kernels differ most in how often a wakee preempts, and so in how often a task finds that what it waits for has come.
//! So each of [`KERNELS`] replays the recording, and its distance is by how much it has more or less wake-ups, switches
//! and preemptions of the service together, in relation to the recorded switches: the median over [`SEEDS`]. The first
//! of the list wins unless another one is nearer by more than [`CHANCE`], because seeds alone change the counts.
//!
//! Worked example: 32,059 wake-ups, 60,010 switches and 27,948 preemptions were recorded. A replay under linux-6.12 has
//! 43,000, 60,011 and 17,010: (10,941 + 1 + 10,938) / 60,010 = 0.365. One under linux-6.17 has 32,135, 60,010 and
//! 27,884: 0.002. So it is linux-6.17.
//!
//! Cost: three replays for each kernel. It fails where the kernel's patches, and not its version, decide where wakees
//! go.

use std::sync::Arc;

use wakelab_lab::{Kernel, Replay, Runner, observe_replays, replay_on_itself};
use wakelab_machine::Machine;
use wakelab_sim::Ending;
use wakelab_trace::observed::total;
use wakelab_trace::{Observations, Observed, Recording};

use crate::error::AskError;
use crate::input::{DEFAULT_KERNEL, Note, policy, recorded_policy};

/// The kernels that are tried: queues and preemption that differ, from 2018 on.
const KERNELS: [&str; 5] = [DEFAULT_KERNEL, "linux-6.17", "linux-6.6", "linux-5.12", "linux-4.15"];
/// By how much a later one must be nearer: a count that is a twentieth of the switches.
const CHANCE: f64 = 0.05;
/// Those of the replays.
const SEEDS: [u64; 3] = [1, 2, 3];
/// Fewer wake-ups do not tell kernels apart.
const WAKEUPS_MIN: u64 = 1000;

/// Returns the policy nearest to the recorded kernel's, and why it was chosen.
///
/// # Errors
/// A replay that fails.
pub(crate) fn nearest(
    recording: &Recording,
    machine: &Arc<Machine>,
    kernel: Kernel,
    runner: &Runner<'_>,
    note: Note<'_>,
) -> Result<(String, Option<String>), AskError> {
    let recorded = of_service(recording, &recording.observed);
    let (name, why) = recorded_policy(recording);
    if why.is_some() || recorded.wakeups < WAKEUPS_MIN {
        return Ok((name, why));
    }
    let mut all = Vec::with_capacity(KERNELS.len());
    for name in KERNELS {
        let scenario = replay_on_itself(recording, machine, policy(name, note)?, kernel);
        let far = |replay: &Replay| match replay.ending {
            Ending::Completed => distance(&recorded, &of_service(recording, &replay.seen)),
            // One that a limit ends has fewer of everything.
            _ => f64::INFINITY,
        };
        let mut apart: Vec<f64> = observe_replays(&scenario, &SEEDS, runner)?.iter().map(far).collect();
        apart.sort_by(f64::total_cmp);
        all.push((name, apart[SEEDS.len() / 2]));
    }
    let (_, default) = all[0];
    let (name, least) = all.into_iter().min_by(|(_, a), (_, b)| a.total_cmp(b)).expect("one for each kernel");
    if least.is_infinite() || default - least <= CHANCE {
        return Ok((DEFAULT_KERNEL.to_owned(), None));
    }
    let why = format!(
        "policy {name}: the recording does not tell its kernel; of the replays under {}, this one has the wake-ups, \
         switches and preemptions nearest to the recorded ones",
        KERNELS.join(", ")
    );
    Ok((name.to_owned(), Some(why)))
}

fn of_service(recording: &Recording, seen: &Observations) -> Observed {
    total(recording.of_service(seen).map(|(_, observed)| observed))
}

/// How far a replay is from what was recorded.
fn distance(recorded: &Observed, replayed: &Observed) -> f64 {
    let counts = |seen: &Observed| [seen.wakeups, seen.switches, seen.preemptions];
    let apart: u64 = counts(recorded).into_iter().zip(counts(replayed)).map(|(a, b)| a.abs_diff(b)).sum();
    apart as f64 / recorded.switches.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let seen = |wakeups, switches, preemptions| Observed {
            wakeups,
            switches,
            preemptions,
            ..Observed::default()
        };
        let recorded = seen(32_059, 60_010, 27_948);
        assert!((distance(&recorded, &seen(43_000, 60_011, 17_010)) - 0.365).abs() < 0.0005);
        assert!((distance(&recorded, &seen(32_135, 60_010, 27_884)) - 0.002).abs() < 0.0005);
        assert_eq!(distance(&recorded, &recorded), 0.0);
        assert!(distance(&Observed::default(), &recorded).is_finite());
    }
}
