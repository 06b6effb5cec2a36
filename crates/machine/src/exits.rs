// SPDX-License-Identifier: GPL-2.0-or-later
//! How much single exits from an idle state differ: a distribution, in percent of the state's `exit_latency_ns`.
//!
//! It is given at a few percentiles, and linear between them. What is below the first of them is as at the first, and
//! what is above the last as at the last. Recordings teach it; machine files may have it.
//!
//! The points are close where hiccups begin: on a virtual machine, 95 % of exits are within a fifth of the median, and
//! 2 % take six times as long. With only 95 and 99, as many as 4 % would be between.
//!
//! Worked example: `[80, 90, 100, 120, 150, 200, 300, 320, 400, 600, 1000]` of an exit of 10 us. An exit that is longer
//! than half of all takes 10 us, one that is longer than 25 % takes 9. One that is longer than 96 % is half-way between
//! the percentiles 95 and 97, which are 20 and 30 us: 25.

use serde::{Deserialize, Serialize};

use crate::IdleState;
use crate::costs::MAX_COST_NS;

/// What is drawn for an exit is below this.
pub const EXIT_DRAWS: u32 = 1_000_000;

/// The number of percentiles of [`ExitSpread`].
pub const NR_PERCENTILES: usize = 11;

/// The percentiles of [`ExitSpread`], of [`EXIT_DRAWS`]: 5, 25, 50, 75, 90, 95, 97, 98, 99, 99.5 and 99.9 %.
const PERCENTILES: [u32; NR_PERCENTILES] =
    [50_000, 250_000, 500_000, 750_000, 900_000, 950_000, 970_000, 980_000, 990_000, 995_000, 999_000];

/// The largest percentage: a hiccup of the host may be a thousand times as long as a shallow exit.
pub(crate) const MAX_EXIT_PERCENT: u32 = 1_000_000;

/// The fewest samples beyond a percentile that tell it.
const FEWEST_BEYOND: u64 = 2;

/// How single exits from an idle state differ, in percent of its `exit_latency_ns`, at the percentiles 5, 25, 50, 75,
/// 90, 95, 97, 98, 99, 99.5 and 99.9. By default all are alike: 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExitSpread([u32; NR_PERCENTILES]);

impl Default for ExitSpread {
    fn default() -> ExitSpread {
        ExitSpread([100; NR_PERCENTILES])
    }
}

impl ExitSpread {
    /// Returns the distribution of these exits, which are in percent; `None` if there are none.
    pub fn of(percents: Vec<u64>) -> Option<ExitSpread> {
        at_percentiles(percents).map(ExitSpread::from)
    }

    /// Returns the same distances from 100 %, in ns, for a state whose exit takes `to_ns` instead of `from_ns`: what
    /// delays an exit does not know how long it takes.
    pub fn moved(&self, from_ns: u64, to_ns: u64) -> ExitSpread {
        let scaled = |far: u32| u128::from(far) * u128::from(from_ns) / u128::from(to_ns.max(1));
        ExitSpread(self.0.map(|percent| {
            let far = scaled(percent.abs_diff(100)).min(MAX_EXIT_PERCENT.into()) as u32;
            if percent < 100 { 100u32.saturating_sub(far) } else { (100 + far).min(MAX_EXIT_PERCENT) }
        }))
    }

    /// Returns what this number of samples tells: a percentile with fewer than [`FEWEST_BEYOND`] of them beyond it is
    /// as the last one with more. The longest of a few hundred exits may be a host's hiccup of milliseconds, and would
    /// be one in a thousand exits.
    pub fn known_by(self, samples: u64) -> ExitSpread {
        let beyond = |millionths: u32| samples * u64::from(EXIT_DRAWS - millionths) / u64::from(EXIT_DRAWS);
        let known = PERCENTILES.iter().take_while(|&&at| beyond(at) >= FEWEST_BEYOND).count();
        let last = self.0[known.saturating_sub(1)];
        ExitSpread(std::array::from_fn(|at| if at < known { self.0[at] } else { last }))
    }

    /// Do exits differ?
    pub fn varies(&self) -> bool {
        *self != ExitSpread::default()
    }

    /// The percentages, by percentile.
    pub fn percents(&self) -> [u32; NR_PERCENTILES] {
        self.0
    }

    /// Returns the percentage of an exit that is longer than `draw` of [`EXIT_DRAWS`].
    fn percent(&self, draw: u32) -> u64 {
        let above = PERCENTILES.partition_point(|&at| at <= draw);
        let (Some(low), true) = (above.checked_sub(1), above < NR_PERCENTILES) else {
            return self.0[above.min(NR_PERCENTILES - 1)].into();
        };
        let [from, to] = [low, above].map(|index| u64::from(self.0[index]));
        let [width, part] = [PERCENTILES[above], draw].map(|at| u64::from(at - PERCENTILES[low]));
        from + (to - from) * part / width
    }
}

/// What exits take at each percentile, in percent.
impl From<[u64; NR_PERCENTILES]> for ExitSpread {
    fn from(percents: [u64; NR_PERCENTILES]) -> ExitSpread {
        ExitSpread(percents.map(|percent| percent.min(MAX_EXIT_PERCENT.into()) as u32))
    }
}

/// Returns what these samples are at the percentiles of [`ExitSpread`]; `None` if there are none.
pub fn at_percentiles(mut samples: Vec<u64>) -> Option<[u64; NR_PERCENTILES]> {
    samples.sort_unstable();
    let last = samples.len().checked_sub(1)? as u64;
    let at = |millionths: u32| {
        let rank = (last * u64::from(millionths) + u64::from(EXIT_DRAWS) / 2) / u64::from(EXIT_DRAWS);
        samples[rank as usize]
    };
    Some(PERCENTILES.map(at))
}

impl IdleState {
    /// Returns how long an exit takes that is longer than `draw` of [`EXIT_DRAWS`] of all exits from this state, in ns.
    pub fn exit_ns(&self, draw: u32) -> u64 {
        (self.exit_latency_ns * self.exit_percent.percent(draw) / 100).min(MAX_COST_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example above, with both ends.
    #[test]
    fn exits_by_hand() {
        let exit_percent = ExitSpread([80, 90, 100, 120, 150, 200, 300, 320, 400, 600, 1_000]);
        let state = IdleState { exit_latency_ns: 10_000, exit_percent, ..IdleState::default() };
        let of = [(0, 8_000), (250_000, 9_000), (500_000, 10_000), (960_000, 25_000), (999_999, 100_000)];
        for (draw, exit_ns) in of {
            assert_eq!(state.exit_ns(draw), exit_ns, "{draw}");
        }
    }

    /// 1 us less and 9 us more than 10 us; 40 us have 1 less and 9 more, too, and 0.5 us none and 9 more.
    #[test]
    fn distances_are_kept() {
        let mut percents = [90; 11];
        percents[10] = 190;
        let [of_40, of_half] = [40_000, 500].map(|ns| ExitSpread(percents).moved(10_000, ns).percents());
        assert_eq!((of_40[0], of_40[10]), (98, 122));
        assert_eq!((of_half[0], of_half[10]), (0, 1_900));
    }

    #[test]
    fn exits_that_do_not_differ_are_as_told() {
        let state = IdleState { exit_latency_ns: 777, ..IdleState::default() };
        assert!((0..EXIT_DRAWS).step_by(9_999).all(|draw| state.exit_ns(draw) == 777));
    }

    /// Of 480 samples 2.4 are beyond the percentile 99.5, and 0.48 beyond 99.9; of 240, 2.4 and 1.2 beyond 99 and 99.5.
    #[test]
    fn few_samples_do_not_tell_the_last_percentiles() {
        let spread = ExitSpread([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let known = |samples| spread.known_by(samples).percents()[8..].to_vec();
        assert_eq!([2_000, 480, 240].map(known), [[9, 10, 11], [9, 10, 10], [9, 9, 9]]);
        assert_eq!(spread.known_by(0).percents(), [1; 11]);
    }

    /// Of 0 to 1,000, each once, a percentile is its number times ten.
    #[test]
    fn percentiles_of_samples() {
        let of_each = at_percentiles((0..=1_000).rev().collect());
        assert_eq!(of_each, Some([50, 250, 500, 750, 900, 950, 970, 980, 990, 995, 999]));
        assert_eq!(at_percentiles(vec![7]), Some([7; 11]));
        assert_eq!(at_percentiles(vec![]), None);
        assert_eq!(ExitSpread::from([u64::MAX; 11]).percents(), [MAX_EXIT_PERCENT; 11]);
    }
}
