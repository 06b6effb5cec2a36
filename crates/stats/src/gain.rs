// SPDX-License-Identifier: GPL-2.0-or-later
//! Gains over a baseline, paired by seed (or by block, for runs on a live kernel), and how much they vary.
//!
//! The gain of one seed is its improvement in percent of the baseline's mean over all seeds. The gain g is the mean
//! over the seeds; it equals the gain of the means. (Percent of the baseline's value with the same seed would let one
//! seed with a small value outweigh all others, and the gain could contradict the means printed beside it.) The
//! interval is that of a paired t test: g +- t * s / sqrt(n), where s is the standard deviation of the n gains (divisor
//! n - 1) and t is the 97.5 % quantile of Student's distribution with n - 1 degrees of freedom
//! (<https://www.itl.nist.gov/div898/handbook/eda/section3/eda352.htm>). The interval says how much other seeds would
//! change the result. It says nothing about errors of the model.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::metric::Direction;

/// A difference is marked only if it exceeds both this and its interval.
const MARK_MIN_PERCENT: f64 = 1.0;

/// A gain over the baseline; positive is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gain {
    /// Mean over seeds; `None` if it is not defined for every seed.
    pub gain_percent: Option<f64>,
    /// 95 % interval, lower and upper end; `None` with one seed.
    pub ci_percent: Option<[f64; 2]>,
    /// The gain exceeds both its interval and 1 %.
    pub marked: bool,
}

/// The gain of one draw of the model's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DrawGain {
    /// Mean over seeds; `None` if it is not defined for every seed.
    pub gain_percent: Option<f64>,
    /// Standard error of that mean; `None` with one seed.
    pub error_percent: Option<f64>,
}

/// The gain of `values` over `baseline` as [`paired_gain`] has it, with its standard error.
pub fn draw_gain(baseline: &[Option<f64>], values: &[Option<f64>], direction: Direction) -> DrawGain {
    let Some(gains) = gains(baseline, values, direction) else { return DrawGain::default() };
    let gain_percent = over_seeds(&gains, direction).gain_percent;
    let number = gains.len() as f64;
    let error = || (variance(&gains) / number).sqrt();
    DrawGain { gain_percent, error_percent: (gains.len() > 1 && gain_percent.is_some()).then(error) }
}

/// The gain of `values` over `baseline`, paired by index. The gain is empty ([`Gain::default`]) if any value is missing
/// or the baseline's mean is 0.
pub fn paired_gain(baseline: &[Option<f64>], values: &[Option<f64>], direction: Direction) -> Gain {
    gains(baseline, values, direction).map_or_else(Gain::default, |gains| over_seeds(&gains, direction))
}

/// How far a gain moved, in percentage points: from the gain of `values` over `baseline` to the gain of `moved_values`
/// over `moved_baseline`, all paired by index. Empty if either gain is empty.
pub fn paired_move(
    [baseline, values]: [&[Option<f64>]; 2],
    [moved_baseline, moved_values]: [&[Option<f64>]; 2],
    direction: Direction,
) -> Gain {
    let before = gains(baseline, values, direction);
    let after = gains(moved_baseline, moved_values, direction);
    let (Some(before), Some(after)) = (before, after) else { return Gain::default() };
    if before.len() != after.len() {
        return Gain::default();
    }
    let moves: Vec<f64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    over_seeds(&moves, direction)
}

/// The gain of each seed, in percent of the baseline's mean. `None` if there is no gain.
fn gains(baseline: &[Option<f64>], values: &[Option<f64>], direction: Direction) -> Option<Vec<f64>> {
    let complete = |values: &[Option<f64>]| values.iter().copied().collect::<Option<Vec<f64>>>();
    let (baseline, values) = (complete(baseline)?, complete(values)?);
    let whole = mean(&baseline);
    if baseline.len() != values.len() || whole == 0.0 {
        return None;
    }
    let sign = match direction {
        Direction::Higher | Direction::Neutral => 100.0,
        Direction::Lower => -100.0,
    };
    Some(baseline.iter().zip(&values).map(|(base, value)| (value - base) / whole * sign).collect())
}

/// The mean, interval and mark of the gains, one per seed.
fn over_seeds(gains: &[f64], direction: Direction) -> Gain {
    let gain = mean(gains);
    if !gain.is_finite() {
        return Gain::default();
    }
    let Some(half) = half_interval(gains) else {
        return Gain { gain_percent: Some(round_percent(gain)), ci_percent: None, marked: false };
    };
    Gain {
        gain_percent: Some(round_percent(gain)),
        ci_percent: Some([round_percent(gain - half), round_percent(gain + half)]),
        marked: direction != Direction::Neutral && gain.abs() > half && gain.abs() > MARK_MIN_PERCENT,
    }
}

/// The arithmetic mean; 0 for no values.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Half the width of the 95 % interval of the mean; `None` for fewer than two values.
pub fn half_interval(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let quantile = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(0.975);
    Some(quantile * variance(values).sqrt() / n.sqrt())
}

/// The variance of at least two values, with the divisor n - 1.
fn variance(values: &[f64]) -> f64 {
    let center = mean(values);
    let squares: f64 = values.iter().map(|value| (value - center) * (value - center)).sum();
    squares / (values.len() as f64 - 1.0)
}

/// Returns `percent` rounded to a millionth: further digits come from the mathematics library and differ between
/// machines.
pub fn round_percent(percent: f64) -> f64 {
    let rounded = (percent * 1e6).round() / 1e6;
    // Adding 0 turns a negative zero into a positive one.
    rounded + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    /// Gains 10, 12 and 14 %: s = 2, so the error is 2 / sqrt(3).
    #[test]
    fn a_draw_has_a_standard_error() {
        let draw = draw_gain(&some(&[100.0; 3]), &some(&[110.0, 112.0, 114.0]), Direction::Higher);
        assert_eq!(draw.gain_percent, Some(12.0));
        assert!((draw.error_percent.unwrap() - 1.154701).abs() < 1e-6);
        let one = draw_gain(&some(&[100.0]), &some(&[110.0]), Direction::Higher);
        assert_eq!(one, DrawGain { gain_percent: Some(10.0), error_percent: None });
        assert_eq!(draw_gain(&[None], &some(&[1.0]), Direction::Higher), DrawGain::default());
    }

    #[test]
    fn three_seeds_by_hand() {
        // Gains: 10, 12 and 14 %. Mean 12, s = 2, t(2) = 4.302653, half = 4.302653 * 2 / sqrt(3) = 4.968275.
        let (base, values) = (some(&[100.0, 100.0, 100.0]), some(&[90.0, 88.0, 86.0]));
        let gain = paired_gain(&base, &values, Direction::Lower);
        assert_eq!(
            gain,
            Gain { gain_percent: Some(12.0), ci_percent: Some([7.031725, 16.968275]), marked: true }
        );
        let change = paired_gain(&base, &values, Direction::Neutral);
        assert_eq!(
            change,
            Gain { gain_percent: Some(-12.0), ci_percent: Some([-16.968275, -7.031725]), marked: false }
        );
        // The same changes where more is better.
        let loss = paired_gain(&base, &values, Direction::Higher);
        assert_eq!(
            loss,
            Gain { gain_percent: Some(-12.0), ci_percent: Some([-16.968275, -7.031725]), marked: true }
        );
    }

    #[test]
    fn seeds_count_by_their_size() {
        // Differences 10, 24 and 8 of a mean of 120: 8.333333, 20 and 6.666667 %. Mean 11.666667, and so is the gain of
        // the means, 14 of 120. s^2 = (3.333333^2 + 8.333333^2 + 5^2) / 2 = 52.777778, half = 4.302653 * 7.264832 /
        // sqrt(3).
        let (base, values) = (some(&[100.0, 200.0, 60.0]), some(&[90.0, 176.0, 52.0]));
        let gain = paired_gain(&base, &values, Direction::Lower);
        assert_eq!(gain.gain_percent, Some(11.666667));
        assert_eq!(gain.ci_percent, Some([-6.380175, 29.713509]));
        assert!(!gain.marked);
        // One seed's small baseline does not turn a gain of the means into a loss.
        let gain = paired_gain(&some(&[1.0, 199.0]), &some(&[10.0, 100.0]), Direction::Lower);
        assert_eq!(gain.gain_percent, Some(45.0));
    }

    #[test]
    fn two_seeds_by_hand() {
        // Gains 1 and 3 %: mean 2, s = sqrt(2), t(1) = 12.706205, half = 12.706205 * sqrt(2) / sqrt(2).
        let gain = paired_gain(&some(&[100.0, 100.0]), &some(&[101.0, 103.0]), Direction::Higher);
        assert_eq!(gain.ci_percent, Some([-10.706205, 14.706205]));
        assert!(!gain.marked, "within its interval");
    }

    #[test]
    fn a_zero_among_the_baseline_is_a_value() {
        // Differences -1 and 1 of a mean of 1.
        let gain = paired_gain(&some(&[0.0, 2.0]), &some(&[1.0, 1.0]), Direction::Lower);
        assert_eq!(gain.gain_percent, Some(0.0));
    }

    #[test]
    fn small_but_certain_gains_are_not_marked() {
        let base = some(&[1000.0; 3]);
        let same_percent = |percent: f64| some(&[1000.0 * (1.0 + percent / 100.0); 3]);
        assert!(!paired_gain(&base, &same_percent(0.9), Direction::Higher).marked);
        assert!(paired_gain(&base, &same_percent(1.1), Direction::Higher).marked);
        assert!(paired_gain(&base, &same_percent(1.1), Direction::Lower).marked);
        assert_eq!(
            paired_gain(&base, &base, Direction::Lower),
            Gain { gain_percent: Some(0.0), ci_percent: Some([0.0, 0.0]), marked: false }
        );
    }

    #[test]
    fn one_seed_has_no_interval_and_no_mark() {
        let gain = paired_gain(&some(&[10.0]), &some(&[5.0]), Direction::Lower);
        assert_eq!(gain, Gain { gain_percent: Some(50.0), ci_percent: None, marked: false });
    }

    /// Baseline 100 and 200 (mean 150). Values 90 and 200: gains of 10/150 and 0. Moved: 80 and 170 over the same
    /// baseline: 20/150 and 30/150. The gain moved by 10/150 and 30/150: 13.333333 points, +- 12.7062 x 9.428090 /
    /// sqrt(2).
    #[test]
    fn a_move_is_that_of_the_gains_of_each_seed() {
        let baseline = some(&[100.0, 200.0]);
        let moved = paired_move(
            [&baseline, &some(&[90.0, 200.0])],
            [&baseline, &some(&[80.0, 170.0])],
            Direction::Lower,
        );
        assert_eq!(moved.gain_percent, Some(13.333333));
        let [low, high] = moved.ci_percent.unwrap();
        assert!((low + 71.374698).abs() < 1e-3 && (high - 98.041365).abs() < 1e-3, "{low} {high}");
        assert!(!moved.marked);
        let nothing = paired_move([&baseline, &[None, None]], [&baseline, &baseline], Direction::Lower);
        assert_eq!(nothing, Gain::default());
    }

    #[test]
    fn undefined_gains_are_null() {
        let nothing = Gain::default();
        assert_eq!(paired_gain(&some(&[0.0, 0.0]), &some(&[1.0, 1.0]), Direction::Lower), nothing);
        assert_eq!(paired_gain(&some(&[0.0]), &some(&[0.0]), Direction::Lower), nothing);
        assert_eq!(paired_gain(&[Some(1.0), None], &some(&[1.0, 1.0]), Direction::Lower), nothing);
        assert_eq!(paired_gain(&[], &[], Direction::Lower), nothing);
        assert_eq!(paired_gain(&some(&[1.0]), &some(&[1.0, 1.0]), Direction::Lower), nothing);
    }
}
