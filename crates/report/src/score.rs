// SPDX-License-Identifier: GPL-2.0-or-later
//! How good predictions of gains are: signs, rank correlation, errors; and what guessing would have scored.
//!
//! - *Signs*: over the rows whose published change exceeds its noise, the share that was predicted with the published
//!   sign. The noise of a row is sqrt(b^2 + a^2) with the published standard deviations before and after in percent,
//!   one that was not published being 0. `all_rows_percent` counts the other rows as right, whatever was predicted.
//!   Of the rows beyond their noise, the *certain* ones are counted apart: the interval of their prediction has no 0 in
//!   it, so that other seeds would hardly give the other sign.
//! - *Rank correlation*: Spearman's.
//! - *Errors*: absolute differences of predicted and published gain in percentage points, over all scored rows.
//! - *Guesses*: the same gain for each row. The best of all constants by mean absolute error is the median of the
//!   published gains; "no change" is 0, and has no sign.
//! - *Model*: of the scored rows whose model's figures were drawn from their ranges, the share whose published gain
//!   is inside the range of 90 % of the draws, and inside that range with the model's error; the share that is
//!   undecided, and of the decided ones beyond their noise
//!   the share of signs that are right.
//!
//! A row whose prediction is missing (its runs did not complete) counts as predicted with 0.

use serde::Serialize;

use wakelab_stats::{mean, round_percent, spearman};

/// A published gain and its prediction, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    pub(crate) published: f64,
    pub(crate) noise: f64,
    pub(crate) predicted: f64,
    /// The prediction's interval lies on one side of 0.
    pub(crate) certain: bool,
    /// What draws of the model's figures say, if there were any.
    pub(crate) model: Option<Model>,
}

/// What draws of the model's figures say about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    /// The sign does not hold.
    pub(crate) undecided: bool,
    /// More than half of the spread of the draws is chance of the seeds.
    pub(crate) by_chance: bool,
    /// The published gain is inside the range of 90 % of the draws.
    pub(crate) inside: bool,
    /// It is inside that range with its publication's noise and the model's error, if that is known.
    pub(crate) inside_with_error: Option<bool>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelScore>,
}

/// The score of ranges over draws of the model's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ModelScore {
    /// Scored rows with draws.
    pub(crate) rows: usize,
    /// Of these, the ones whose published gain is inside the range.
    pub(crate) inside_range: usize,
    pub(crate) inside_range_percent: Option<f64>,
    /// Of `rows`, the ones whose model's error is known.
    pub(crate) rows_with_error: usize,
    /// Of these, the ones whose published gain is inside the range with that error.
    pub(crate) inside_with_error: usize,
    pub(crate) inside_with_error_percent: Option<f64>,
    /// Of `rows`, the ones that are undecided.
    pub(crate) undecided: usize,
    pub(crate) undecided_percent: Option<f64>,
    /// Undecided rows beyond their noise.
    pub(crate) undecided_beyond_noise: usize,
    /// `undecided_beyond_noise` in percent of all rows beyond their noise.
    pub(crate) undecided_beyond_noise_percent: Option<f64>,
    /// Undecided rows of whose spread more than half is chance of the seeds.
    pub(crate) undecided_by_chance: usize,
    /// Decided rows beyond their noise.
    pub(crate) decided_beyond_noise: usize,
    /// Of these, the ones predicted with the published sign.
    pub(crate) decided_signs_right: usize,
    pub(crate) decided_signs_percent: Option<f64>,
}

impl ModelScore {
    fn new(pairs: &[Pair]) -> Option<ModelScore> {
        let drawn: Vec<(Pair, Model)> = pairs.iter().filter_map(|pair| Some((*pair, pair.model?))).collect();
        let count = |is: fn(&Model) -> bool| drawn.iter().filter(|(_, model)| is(model)).count();
        let (inside_range, undecided) = (count(|model| model.inside), count(|model| model.undecided));
        let rows_with_error = count(|model| model.inside_with_error.is_some());
        let inside_with_error = count(|model| model.inside_with_error == Some(true));
        let decided: Vec<Pair> =
            drawn.iter().filter(|(_, model)| !model.undecided).map(|(pair, _)| *pair).collect();
        let (decided_beyond_noise, decided_signs_right) = signs(&decided);
        let beyond = drawn.iter().filter(|(pair, _)| pair.exceeds_noise()).count();
        let undecided_beyond_noise = beyond - decided_beyond_noise;
        (!drawn.is_empty()).then(|| ModelScore {
            rows: drawn.len(),
            inside_range,
            inside_range_percent: share(inside_range, drawn.len()),
            rows_with_error,
            inside_with_error,
            inside_with_error_percent: share(inside_with_error, rows_with_error),
            undecided,
            undecided_percent: share(undecided, drawn.len()),
            undecided_beyond_noise,
            undecided_beyond_noise_percent: share(undecided_beyond_noise, beyond),
            undecided_by_chance: count(|model| model.undecided && model.by_chance),
            decided_beyond_noise,
            decided_signs_right,
            decided_signs_percent: share(decided_signs_right, decided_beyond_noise),
        })
    }
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
            model: ModelScore::new(pairs),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(published: f64, noise: f64, predicted: f64) -> Pair {
        Pair { published, noise, predicted, certain: false, model: None }
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
            model: None,
        };
        assert_eq!(Score::new(&pairs), expected);
    }

    /// The same rows and draws of all but the last. 4 is inside its range, -2 is undecided, 1 is decided and within its
    /// noise: of the decided only 4 is beyond its noise, and right, so that of two beyond their noise one is undecided.
    /// With the model's error 1 is inside, too.
    #[test]
    fn the_model_by_hand() {
        let with = |pair: Pair, undecided, inside| Pair {
            model: Some(Model { undecided, by_chance: true, inside, inside_with_error: Some(true) }),
            ..pair
        };
        let pairs = [
            with(pair(4.0, 1.0, 6.0), false, true),
            with(pair(-2.0, 1.0, 1.0), true, true),
            with(pair(1.0, 3.0, -1.0), false, false),
            pair(10.0, 0.0, 4.0),
        ];
        let expected = ModelScore {
            rows: 3,
            inside_range: 2,
            inside_range_percent: Some(66.666667),
            rows_with_error: 3,
            inside_with_error: 3,
            inside_with_error_percent: Some(100.0),
            undecided: 1,
            undecided_percent: Some(33.333333),
            undecided_beyond_noise: 1,
            undecided_beyond_noise_percent: Some(50.0),
            undecided_by_chance: 1,
            decided_beyond_noise: 1,
            decided_signs_right: 1,
            decided_signs_percent: Some(100.0),
        };
        assert_eq!(Score::new(&pairs).model, Some(expected));
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
