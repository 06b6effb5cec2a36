// SPDX-License-Identifier: GPL-2.0-or-later
//! How single exits from idle differ, by a recording's wake-ups of idle CPUs, or by those that `wakelab record` made.
//!
//! The exit latency of a state is a median. A replay in which each exit took just that would have the recorded median,
//! but neither the recorded mean nor the recorded tail: on a virtual machine, one wake-up in fifty waits for the host.
//! So each wake-up's exit is set in relation to its state's, and the distribution of these percentages is that state's.
//! A state with fewer than [`MANY`] wake-ups, or whose wake-ups do not tell its exit, is as far from its median, in ns,
//! as the state with most wake-ups is. A percentile that few wake-ups tell is as the last one that enough of them do
//! ([`ExitSpread::known_by`]): else a single hiccup among 100 exits would be one in a hundred.
//!
//! Worked example: placing, queueing, and the interrupt take 1,000 ns, and a state's exit is 10,000. Of 100 wake-ups,
//! 96 take 11,000 ns, and four 31,000. The percentiles up to 95 are 100 %; the others are 300 %. A deeper state, of
//! 20,000 ns, has two wake-ups. Its other percentiles are 200 %, because 20,000 ns are added there, too.
//!
//! It fails where wake-ups take long for another cause, which the replay simulates, too: it is then charged twice.

use wakelab_machine::{ExitSpread, IdleState};

use crate::learnt::IdleWake;
use crate::measured::MeasuredWake;

/// The fewest wake-ups that teach a distribution.
const MANY: usize = 100;

/// Sets how exits from these states differ, shallowest first. `told`: do wake-ups tell a state's exit?
/// `before_ns`: what of a wake-up's latency is no exit. Returns whether the recording tells how exits differ.
pub(crate) fn learn(states: &mut [IdleState], told: &[bool], wakes: &[IdleWake], before_ns: u64) -> bool {
    let mut of_states = vec![Vec::new(); states.len()];
    for wake in wakes {
        let at = states.partition_point(|state| state.after_ns <= wake.idled_ns);
        let Some(at) = at.checked_sub(1).filter(|&at| states[at].exit_latency_ns > 0) else { continue };
        let exit_ns = wake.latency_ns.saturating_sub(before_ns);
        of_states[at].push(exit_ns.saturating_mul(100) / states[at].exit_latency_ns);
    }
    let of_states = of_states.into_iter().zip(told).map(|(percents, &told)| {
        let percents = Some(percents).filter(|percents| told && percents.len() >= MANY)?;
        let count = percents.len() as u64;
        Some((count, ExitSpread::of(percents)?.known_by(count)))
    });
    set(states, of_states.collect())
}

/// Sets how exits from these states differ by what `wakelab record` measured after as much idleness.
pub(crate) fn measured(states: &mut [IdleState], wakes: &[&MeasuredWake], before_ns: u64) {
    let of_states = states.iter().zip(wakes).map(|(state, wake)| {
        let exit_ns = Some(state.exit_latency_ns).filter(|&ns| ns > 0 && wake.samples >= MANY as u64)?;
        let percent = |ns: u64| ns.saturating_sub(before_ns).saturating_mul(100) / exit_ns;
        let spread = ExitSpread::from(wake.latency_percentiles_ns?.map(percent));
        Some((wake.samples, spread.known_by(wake.samples)))
    });
    set(states, of_states.collect());
}

/// Sets the distributions of states, which are given with their numbers of samples. A state without one gets what the
/// state with most samples adds, in ns. Returns false if no state has one.
fn set(states: &mut [IdleState], of_states: Vec<Option<(u64, ExitSpread)>>) -> bool {
    let most = states.iter().zip(&of_states).filter_map(|(state, of)| Some((state.exit_latency_ns, (*of)?)));
    let Some((usual_ns, (_, of_usual))) = most.max_by_key(|(_, (count, _))| *count) else { return false };
    for (state, of_state) in states.iter_mut().zip(of_states) {
        let moved = || of_usual.moved(usual_ns, state.exit_latency_ns);
        state.exit_percent = of_state.map_or_else(moved, |(_, spread)| spread);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(exits_ns: [u64; 2]) -> [IdleState; 2] {
        [(0, exits_ns[0]), (50_000, exits_ns[1])].map(|(after_ns, exit_latency_ns)| IdleState {
            after_ns,
            exit_latency_ns,
            ..IdleState::default()
        })
    }

    fn wakes(idled_ns: u64, of: &[(usize, u64)]) -> Vec<IdleWake> {
        let repeated = |&(count, latency_ns)| std::iter::repeat_n(IdleWake { idled_ns, latency_ns }, count);
        of.iter().flat_map(repeated).collect()
    }

    /// The worked example above.
    #[test]
    fn exits_are_set_in_relation_to_their_state() {
        let mut both = states([10_000, 20_000]);
        let shallow = wakes(0, &[(96, 11_000), (4, 31_000)]);
        let deep = wakes(50_000, &[(2, 101_000)]);
        assert!(learn(&mut both, &[true; 2], &[shallow, deep].concat(), 1_000));
        let with_tail = |percent| [[100; 6].as_slice(), &[percent; 5]].concat();
        assert_eq!(both.map(|state| state.exit_percent.percents().to_vec()), [300, 200].map(with_tail));
    }

    #[test]
    fn few_wake_ups_and_exits_of_nothing_teach_nothing() {
        let mut both = states([10_000, 20_000]);
        assert!(!learn(&mut both, &[true; 2], &wakes(0, &[(MANY - 1, 31_000)]), 1_000));
        assert!(!learn(&mut both, &[false; 2], &wakes(0, &[(MANY, 31_000)]), 1_000));
        let mut free = states([0, 0]);
        assert!(!learn(&mut free, &[true; 2], &wakes(0, &[(2 * MANY, 31_000)]), 1_000));
        assert_eq!((both, free), (states([10_000, 20_000]), states([0, 0])));
    }
}
