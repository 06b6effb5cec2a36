// SPDX-License-Identifier: GPL-2.0-or-later
//! The steady part of a series: its start-up and its tail are cut by a rule, and its mean gets an interval from batch
//! means.
//!
//! *Cut.* MSER-5 (White, "An Effective Truncation Heuristic for Bias Reduction in Simulation Output", Simulation 69,
//! 1997; White, Cobb and Spratt, "A Comparison of Five Steady-State Truncation Heuristics for Simulation", Winter
//! Simulation Conference 2000): observations are averaged by five. Of all parts of that series, the one is kept whose
//! mean has the least estimated squared error, the sum of squared deviations from its mean divided by the square of its
//! length. A start-up or a tail that differs from the rest adds more to the sum than it adds to the length. The
//! published rule cuts the start only; a run that ends when its tasks end has a tail, too, so both ends are chosen
//! together. More than half must be kept: a minimum at that limit means that the series never was steady (the same
//! limit as in the published rule).
//!
//! *Interval.* Batch means (Schmeiser, "Batch Size Effects in the Analysis of Simulation Output", Operations Research
//! 30, 1982: 10 to 30 batches serve all run lengths): the kept part in 20 batches, whose means are treated as
//! independent. Whether they are is tested by von Neumann's ratio (Fishman, "Principles of Discrete Event Simulation",
//! 1978, 5.4): C = 1 - sum of squared successive differences / (2 * sum of squared deviations), which has the deviation
//! sqrt((k - 2) / (k^2 - 1)) for k independent means. If C exceeds 1.645 of them, 10 batches are taken, then 5. The
//! interval is mean +- t * s / sqrt(k). A part whose interval is wider than 10 % of its mean on either side is not
//! steady: the series goes back and forth in periods that are long for it.
//!
//! Worked example: batches of five 0, 0, 10 ... 10 (eight of them). Keeping all has a sum of squares of 160 over ten
//! squared, 1.6; without the first, 88.9 over 9 squared, 1.1; without two it is 0, and what follows is cut no further.
//!
//! It fails where the steady state itself moves in periods longer than the run.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::gain::{mean, round_percent};

/// The number of observations that are averaged before the cut.
const AVERAGED: usize = 5;
/// The least number of averages: one for each batch of the interval.
const AVERAGES_MIN: usize = 20;
/// The numbers of batches, in the order in which they are tried.
const BATCHES: [usize; 3] = [20, 10, 5];
/// Batch means are correlated if C exceeds this many of its deviations (5 %, one side).
const CORRELATED: f64 = 1.645;

/// A part with a wider interval, in percent of its mean on either side, is not steady.
const HALF_MAX_PERCENT: f64 = 10.0;

/// The steady part of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// The mean of the observations in it.
    pub mean: f64,
    /// Half of the 95 % interval of the mean, in percent of it.
    pub half_percent: f64,
    /// The first observation in it.
    pub start: usize,
    /// The first observation after it.
    pub end: usize,
}

impl Steady {
    /// Finds the steady part. `None` if no part of more than half is steady, if its interval is too wide, or if there
    /// are fewer than 100 observations, or nothing but zeros.
    pub fn of(observations: &[f64]) -> Option<Steady> {
        let averages: Vec<f64> = observations.chunks_exact(AVERAGED).map(mean).collect();
        let (start, end) = kept(&averages)?;
        let part = &averages[start..end];
        let center = mean(part);
        let half = half_interval(part)?;
        let half_percent = round_percent(100.0 * half / center.abs());
        (center != 0.0 && half_percent <= HALF_MAX_PERCENT).then(|| Steady {
            mean: center,
            half_percent,
            start: start * AVERAGED,
            end: end * AVERAGED,
        })
    }
}

/// Returns the part that is kept; of equals the longest, then the first.
fn kept(averages: &[f64]) -> Option<(usize, usize)> {
    let nr = averages.len();
    if nr < AVERAGES_MIN {
        return None;
    }
    // Deviations from the whole mean keep the sums small, so that their differences are exact enough.
    let center = mean(averages);
    let mut sums = vec![(0.0, 0.0)];
    for average in averages {
        let (sum, squares) = sums[sums.len() - 1];
        let deviation = average - center;
        sums.push((sum + deviation, squares + deviation * deviation));
    }
    let least = nr.div_ceil(2);
    let mut best = (f64::INFINITY, 0, nr);
    for length in (least..=nr).rev() {
        for start in 0..=nr - length {
            let (from, to) = (sums[start], sums[start + length]);
            let (sum, squares) = (to.0 - from.0, to.1 - from.1);
            let deviations = (squares - sum * sum / length as f64).max(0.0);
            let error = deviations / (length * length) as f64;
            if error < best.0 {
                best = (error, start, start + length);
            }
        }
    }
    (best.2 - best.1 > least).then_some((best.1, best.2))
}

/// Returns half of the 95 % interval of the mean of a part of at least ten averages.
fn half_interval(part: &[f64]) -> Option<f64> {
    let batches_of = |number: usize| {
        let size = part.len() / number;
        let skipped = part.len() - size * number;
        (size > 0).then(|| part[skipped..].chunks_exact(size).map(mean).collect::<Vec<f64>>())
    };
    let mut found = None;
    for means in BATCHES.into_iter().filter_map(batches_of) {
        let (half, correlated) = of_batches(&means)?;
        found = Some(half);
        if !correlated {
            break;
        }
    }
    found
}

/// Returns half of the 95 % interval of batch means, and whether they are correlated.
fn of_batches(means: &[f64]) -> Option<(f64, bool)> {
    let (number, center) = (means.len() as f64, mean(means));
    let deviations: f64 = means.iter().map(|value| (value - center) * (value - center)).sum();
    let successive: f64 = means.windows(2).map(|pair| (pair[1] - pair[0]) * (pair[1] - pair[0])).sum();
    let quantile = StudentsT::new(0.0, 1.0, number - 1.0).ok()?.inverse_cdf(0.975);
    let half = quantile * (deviations / (number - 1.0) / number).sqrt();
    let ratio = if deviations > 0.0 { 1.0 - successive / (2.0 * deviations) } else { 0.0 };
    Some((half, ratio > CORRELATED * ((number - 2.0) / (number * number - 1.0)).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` observations of each value, which make one average for each five.
    fn series(parts: &[(f64, usize)]) -> Vec<f64> {
        parts.iter().flat_map(|&(value, averages)| vec![value; averages * AVERAGED]).collect()
    }

    /// Noise of mean 0 and deviation 1 (the sum of twelve numbers from 0 to 1, less 6).
    fn noise(state: &mut u64) -> f64 {
        let mut sum = 0.0;
        for _ in 0..12 {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            sum += (*state >> 11) as f64 / (1_u64 << 53) as f64;
        }
        sum - 6.0
    }

    /// The worked example, twice as long: of 20 averages the first four are cut.
    #[test]
    fn a_step_by_hand() {
        let found = Steady::of(&series(&[(0.0, 4), (10.0, 16)])).unwrap();
        assert_eq!(found, Steady { mean: 10.0, half_percent: 0.0, start: 20, end: 100 });
    }

    #[test]
    fn the_errors_of_the_worked_example() {
        // Ten averages: 160 / 100, 88.889 / 81, 0 / 64.
        let error = |zeros: f64, tens: f64| zeros * tens * 100.0 / (zeros + tens).powi(3);
        assert_eq!([error(2.0, 8.0), error(0.0, 8.0)], [1.6, 0.0]);
        assert!((error(1.0, 8.0) - 1.097_394).abs() < 1e-6);
    }

    #[test]
    fn a_tail_is_cut_as_a_start_up_is() {
        let observations = series(&[(2.0, 5), (10.0, 30), (1.0, 5)]);
        let found = Steady::of(&observations).unwrap();
        assert_eq!((found.mean, found.start, found.end), (10.0, 25, 175));
    }

    #[test]
    fn what_never_was_steady_has_no_part() {
        assert_eq!(Steady::of(&series(&[(1.0, 19)])), None, "19 averages");
        assert_eq!(Steady::of(&series(&[(0.0, 40)])), None, "nothing was done");
        let rises: Vec<f64> = (0..200).map(|at| f64::from(at) * f64::from(at)).collect();
        assert_eq!(Steady::of(&rises), None);
        assert_eq!(Steady::of(&series(&[(1.0, 30), (9.0, 30)])), None, "half of each");
        assert_eq!(Steady::of(&series(&[(1.0, 30), (2.0, 20), (1.0, 30)])), None, "two states");
        assert!(Steady::of(&series(&[(3.0, 20)])).is_some(), "constant");
    }

    /// Means 9, 11, 9, 11, 10: mean 10, squares 4, s^2 = 1, t(4) = 2.776445. Successive differences 2, -2, 2, -1: 13,
    /// and C = 1 - 13 / 8. Means 8, 9, 10, 11, 12: squares 10, differences 4, C = 0.8 > 1.645 * sqrt(3 / 24).
    #[test]
    fn five_batches_by_hand() {
        let (half, correlated) = of_batches(&[9.0, 11.0, 9.0, 11.0, 10.0]).unwrap();
        assert!((half - 2.776_445 / 5.0_f64.sqrt()).abs() < 1e-5, "{half}");
        assert!(!correlated);
        assert!(of_batches(&[8.0, 9.0, 10.0, 11.0, 12.0]).unwrap().1);
    }

    /// An AR(1) series, x' = 0.8 x + noise, around 100, which starts at 40 and gets there over about 50 observations.
    /// The mean of all is 3 too low. The steady part begins after the start, and its interval has the true mean in it
    /// about as often as it says.
    #[test]
    fn a_correlated_series_with_a_known_start() {
        let (mut state, mut inside, mut late, mut bias) = (7, 0, 0, 0.0);
        for _ in 0..200 {
            let mut x = 0.0;
            let observations: Vec<f64> = (0..1000)
                .map(|at| {
                    x = 0.8 * x + noise(&mut state);
                    100.0 + x - 60.0 * (-f64::from(at) / 50.0).exp()
                })
                .collect();
            let found = Steady::of(&observations).expect("a steady part");
            inside += usize::from((found.mean - 100.0).abs() <= found.mean * found.half_percent / 100.0);
            late += usize::from((60..400).contains(&found.start));
            bias += (found.mean - 100.0) / 200.0;
            assert!(found.start < found.end && found.end <= 1000);
        }
        assert!(inside >= 160, "{inside} of 200 intervals have the mean");
        assert!(late >= 190, "{late} of 200 parts begin after the start-up");
        assert!(bias.abs() < 0.3, "{bias}");
    }
}
