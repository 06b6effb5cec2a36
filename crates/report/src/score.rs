// SPDX-License-Identifier: GPL-2.0-or-later
//! How good predictions of gains are: signs, rank correlation, errors; and what guessing would have scored.
//!
//! - *Signs*: over the rows whose published change exceeds its noise, the share that was predicted with the published
//!   sign. The noise of a row is sqrt(b^2 + a^2) with the published standard deviations before and after in percent,
//!   one that was not published being 0. `all_rows_percent` counts the other rows as right, whatever was predicted.
//!   Of the rows beyond their noise, the *certain* ones are counted apart: the interval of their prediction has no 0 in
//!   it, so that other seeds would hardly give the other sign.
//! - *Rank correlation*: Spearman's, Pearson's correlation of the ranks with ties at their mean rank
//!   (<https://www.itl.nist.gov/div898/software/dataplot/refman2/auxillar/rankcorr.htm>).
//! - *Errors*: absolute differences of predicted and published gain in percentage points, over all scored rows.
//! - *Guesses*: the same gain for each row. The best of all constants by mean absolute error is the median of the
//!   published gains; "no change" is 0, and has no sign.
//!
//! A row whose prediction is missing (its runs did not complete) counts as predicted with 0.

use serde::Serialize;

use wakelab_stats::{mean, round_percent};

/// A published gain and its prediction, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    pub(crate) published: f64,
    pub(crate) noise: f64,
    pub(crate) predicted: f64,
    /// The prediction's interval lies on one side of 0.
    pub(crate) certain: bool,
}

impl Pair {
    /// Whether the published change exceeds its noise.
    pub(crate) fn exceeds_noise(&self) -> bool {
        self.published.abs() > self.noise
    }

    pub(crate) fn sign_is_right(&self) -> bool {
        self.published * self.predicted > 0.0
    }

    fn error(&self) -> f64 {
        (self.predicted - self.published).abs()
    }
}

/// The score of some rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Score {
    /// Rows with a published gain that are to be scored.
    pub(crate) rows: usize,
    /// Of these, the ones whose published change exceeds its noise.
    pub(crate) rows_beyond_noise: usize,
    /// Of these, the ones predicted with the published sign.
    pub(crate) signs_right: usize,
    /// `signs_right` in percent of `rows_beyond_noise`.
    pub(crate) signs_percent: Option<f64>,
    /// Rows beyond their noise whose prediction exceeds its own interval.
    pub(crate) rows_certain: usize,
    /// Of these, the ones predicted with the published sign.
    pub(crate) certain_signs_right: usize,
    /// Right signs over all rows, those within noise counted as right.
    pub(crate) all_rows_percent: Option<f64>,
    pub(crate) spearman: Option<f64>,
    pub(crate) median_absolute_error: Option<f64>,
    pub(crate) mean_absolute_error: Option<f64>,
    /// `mean_absolute_error` divided by that of the best constant guess.
    pub(crate) error_ratio: Option<f64>,
    pub(crate) best_constant: Option<Guess>,
    pub(crate) no_change: Option<Guess>,
}

/// What guessing the same gain for each row scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Guess {
    pub(crate) gain_percent: f64,
    pub(crate) signs_percent: Option<f64>,
    pub(crate) median_absolute_error: Option<f64>,
    pub(crate) mean_absolute_error: Option<f64>,
}

impl Score {
    pub(crate) fn new(pairs: &[Pair]) -> Score {
        let published: Vec<f64> = pairs.iter().map(|pair| pair.published).collect();
        let predicted: Vec<f64> = pairs.iter().map(|pair| pair.predicted).collect();
        let (beyond, right) = signs(pairs);
        let certain: Vec<Pair> = pairs.iter().copied().filter(|pair| pair.certain).collect();
        let (rows_certain, certain_signs_right) = signs(&certain);
        let mean_absolute_error = mean_error(pairs);
        let best_constant = median(&published).map(|gain| Guess::new(pairs, gain));
        let best =
            best_constant.as_ref().and_then(|guess| guess.mean_absolute_error).filter(|&best| best > 0.0);
        Score {
            rows: pairs.len(),
            rows_beyond_noise: beyond,
            signs_right: right,
            signs_percent: share(right, beyond),
            rows_certain,
            certain_signs_right,
            all_rows_percent: share(right + pairs.len() - beyond, pairs.len()),
            spearman: spearman(&published, &predicted),
            median_absolute_error: median_error(pairs),
            mean_absolute_error,
            error_ratio: mean_absolute_error.zip(best).map(|(error, best)| round_percent(error / best)),
            best_constant,
            no_change: (!pairs.is_empty()).then(|| Guess::new(pairs, 0.0)),
        }
    }
}

impl Guess {
    fn new(pairs: &[Pair], gain: f64) -> Guess {
        let pairs: Vec<Pair> = pairs.iter().map(|pair| Pair { predicted: gain, ..*pair }).collect();
        let (beyond, right) = signs(&pairs);
        Guess {
            gain_percent: round_percent(gain),
            signs_percent: share(right, beyond),
            median_absolute_error: median_error(&pairs),
            mean_absolute_error: mean_error(&pairs),
        }
    }
}

/// Returns how many predictions exceed their noise, and how many of those have the right sign.
fn signs(pairs: &[Pair]) -> (usize, usize) {
    let beyond = pairs.iter().filter(|pair| pair.exceeds_noise());
    (beyond.clone().count(), beyond.filter(|pair| pair.sign_is_right()).count())
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| round_percent(part as f64 * 100.0 / whole as f64))
}

fn mean_error(pairs: &[Pair]) -> Option<f64> {
    let errors: Vec<f64> = pairs.iter().map(Pair::error).collect();
    (!errors.is_empty()).then(|| round_percent(mean(&errors)))
}

fn median_error(pairs: &[Pair]) -> Option<f64> {
    median(&pairs.iter().map(Pair::error).collect::<Vec<_>>()).map(round_percent)
}

/// Returns the middle value, or the mean of the two middle ones; `None` for no values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

/// Returns Spearman's rank correlation; `None` if one side has no two different values.
fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let (mean_a, mean_b) = (mean(&a), mean(&b));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(&b).map(|(a, b)| of(a - mean_a, b - mean_b)).sum()
    };
    let spread = sum(&|a, _| a * a) * sum(&|_, b| b * b);
    (spread > 0.0).then(|| round_percent(sum(&|a, b| a * b) / spread.sqrt()))
}

/// Returns ranks from 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| other.total_cmp(value).is_lt()).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(published: f64, noise: f64, predicted: f64) -> Pair {
        Pair { published, noise, predicted, certain: false }
    }

    /// Published 4, -2, 1 (within its noise of 3) and 10; predicted 6, 1, -1 and 4.
    /// Signs: 4 right, -2 wrong, 10 right: 2 of 3; with the one within noise 3 of 4.
    /// Errors 2, 3, 2 and 6: mean 3.25, median 2.5.
    /// Best constant (1 + 4) / 2 = 2.5: errors 1.5, 4.5, 1.5, 7.5: mean 3.75, median 3; signs: 4 and 10 right.
    /// No change: errors 4, 2, 1, 10: mean 4.25, median 3.
    /// Certain are -2, 1 and 10; 1 is within its noise: 1 of 2.
    /// Ranks 3 1 2 4 and 4 2 1 3: differences 1 1 1 1, rho = 1 - 6 * 4 / (4 * 15) = 0.6.
    #[test]
    fn four_rows_by_hand() {
        let certain = |pair: Pair| Pair { certain: true, ..pair };
        let pairs = [
            pair(4.0, 1.0, 6.0),
            certain(pair(-2.0, 1.0, 1.0)),
            certain(pair(1.0, 3.0, -1.0)),
            certain(pair(10.0, 0.0, 4.0)),
        ];
        let third = 66.666667;
        let guess = |gain_percent, signs_percent, mean| Guess {
            gain_percent,
            signs_percent: Some(signs_percent),
            median_absolute_error: Some(3.0),
            mean_absolute_error: Some(mean),
        };
        let expected = Score {
            rows: 4,
            rows_beyond_noise: 3,
            signs_right: 2,
            signs_percent: Some(third),
            rows_certain: 2,
            certain_signs_right: 1,
            all_rows_percent: Some(75.0),
            spearman: Some(0.6),
            median_absolute_error: Some(2.5),
            mean_absolute_error: Some(3.25),
            error_ratio: Some(0.866667),
            best_constant: Some(guess(2.5, third, 3.75)),
            no_change: Some(guess(0.0, 0.0, 4.25)),
        };
        assert_eq!(Score::new(&pairs), expected);
    }

    /// Ranks of 1, 2, 2, 3: 1, 2.5, 2.5, 4; against 1, 2, 3, 4. Sums of squares 4.5 and 5, of products 4.5:
    /// 4.5 / sqrt(22.5) = 0.948683.
    #[test]
    fn ties_share_their_rank() {
        assert_eq!(ranks(&[2.0, 1.0, 3.0, 2.0]), [2.5, 1.0, 4.0, 2.5]);
        assert_eq!(spearman(&[1.0, 2.0, 2.0, 3.0], &[5.0, 6.0, 7.0, 8.0]), Some(0.948683));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[9.0, 8.0, 7.0]), Some(-1.0));
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(spearman(&[], &[]), None);
    }

    #[test]
    fn no_rows_have_no_score() {
        let score = Score::new(&[]);
        assert_eq!((score.rows, score.signs_percent, score.mean_absolute_error), (0, None, None));
        assert_eq!((score.best_constant, score.no_change), (None, None));
    }

    /// A prediction of exactly nothing has no sign, and a change of exactly nothing exceeds no noise.
    #[test]
    fn nothing_has_no_sign() {
        assert!(!pair(1.0, 0.0, 0.0).sign_is_right());
        assert!(!pair(0.0, 0.0, 5.0).exceeds_noise());
        assert_eq!(Score::new(&[pair(0.0, 0.0, 5.0)]).all_rows_percent, Some(100.0));
    }
}
