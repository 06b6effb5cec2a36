// SPDX-License-Identifier: GPL-2.0-or-later
//! How a gain spreads over draws of figures that are not known exactly, and which of the figures decide.
//!
//! - *Range*: the 5th and the 95th percentile of the draws' gains, interpolated between neighbours: of n sorted gains
//!   the p-th percentile stands at place (n - 1) * p / 100.
//! - *Chance*: a draw's gain is a mean over seeds, and has a standard error. The mean of the squares of these errors,
//!   divided by the variance of the gains over the draws, is the share of the spread that other seeds would change; the
//!   rest is of the figures.
//! - *Without chance*: each gain moves towards the mean of all, by the root of the rest's share, so that what is left
//!   spreads as much as the figures make it spread (Louis, "Estimating a Population of Parameter Values Using Bayes
//!   and Empirical Bayes Methods", Journal of the American Statistical Association 79, 1984). Draws have different
//!   seeds, so the mean's own error is the root of the mean square of the errors, divided by that of the number of
//!   draws.
//! - *Sign*: the share of draws whose gain without chance has the sign of the gain with the figures as they are, and
//!   exceeds 1.96 of the mean's errors. A draw without a gain does not hold it. A gain of nothing has no sign.
//! - *Undecided*: the sign holds in less than 80 % of the draws, and less than 80 % of the draws are within 1 % with
//!   these errors, which is taken for no difference. Chance only spreads gains, so it is no difference, too, if 80 % of
//!   the draws are within 1 % with their chance. That counts where one draw has most of the error of all.
//! - *What decides*: for each figure, the rank correlation of its position with the gain. Its square is the share of
//!   the spread that the figure explains alone. With n draws of k figures, chance gives the largest of k correlations
//!   more than r in one case of twenty, where atanh(r) * sqrt(n - 3) is the (1 - 0.05/2k) quantile of the normal
//!   distribution (Fisher's transform, Bonferroni's correction). A figure decides only beyond that.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

use crate::gain::{DrawGain, mean, round_percent};
use crate::rank::spearman;

/// A sign must hold in this share of the draws.
const HELD_MIN_PERCENT: f64 = 80.0;
/// A gain within plus and minus this is no difference.
const NOTHING_PERCENT: f64 = 1.0;
/// The mean of all draws lies within this many of its errors in 95 of 100 cases.
const ERRORS: f64 = 1.96;
/// The ends of the range, in percent of the draws.
const RANGE: [f64; 2] = [5.0, 95.0];
/// The chance that a figure which decides nothing is said to decide.
const CHANCE: f64 = 0.05;

/// How a gain spreads over draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Number of draws.
    pub draws: usize,
    /// The range of 90 % of the draws' gains; `None` if no draw has a gain.
    pub range_percent: Option<[f64; 2]>,
    /// How much of the spread is of the seeds, in percent; `None` if draws have one seed each.
    pub chance_percent: Option<f64>,
    /// In how many percent of the draws the sign holds; `None` if it has none.
    pub sign_held_percent: Option<f64>,
    /// The draws contradict each other.
    pub undecided: bool,
}

/// A figure that decides, and the gains where it is low and where it is high.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deciding {
    /// Index of the figure.
    #[serde(skip)]
    pub figure: usize,
    /// The share of the spread that it explains alone, in percent.
    pub share_percent: f64,
    /// Mean gain of the draws in the lower half of its range.
    pub gain_low_percent: f64,
    /// Mean gain of the draws in the upper half.
    pub gain_high_percent: f64,
}

impl Spread {
    /// The spread of `gains`, one for each draw, around `gain`, the one with the figures as they are.
    pub fn new(gain: Option<f64>, gains: &[DrawGain]) -> Spread {
        let mut sorted: Vec<f64> = gains.iter().filter_map(|draw| draw.gain_percent).collect();
        sorted.sort_by(f64::total_cmp);
        let chance = Chance::of(&sorted, gains);
        let share = |count: usize| 100.0 * count as f64 / gains.len().max(1) as f64;
        let sign = gain.filter(|gain| *gain != 0.0).map(f64::signum);
        let without: Vec<f64> = sorted.iter().map(|gain| chance.without(*gain)).collect();
        let held =
            sign.map(|sign| share(without.iter().filter(|gain| **gain * sign > chance.of_mean).count()));
        let within = |gains: &[f64], error: f64| {
            share(gains.iter().filter(|gain| gain.abs() + error <= NOTHING_PERCENT).count())
        };
        let nothing = within(&without, chance.of_mean).max(within(&sorted, 0.0));
        Spread {
            draws: gains.len(),
            range_percent: (!sorted.is_empty())
                .then(|| RANGE.map(|percent| round_percent(quantile(&sorted, percent)))),
            chance_percent: chance.share.map(|share| round_percent(100.0 * share)),
            sign_held_percent: held.map(round_percent),
            undecided: nothing < HELD_MIN_PERCENT && held.unwrap_or(0.0) < HELD_MIN_PERCENT,
        }
    }

    /// Whether more than half of the spread is chance of the seeds.
    pub fn is_mostly_chance(&self) -> bool {
        self.chance_percent.is_some_and(|chance| chance > 50.0)
    }

    /// Whether the sign holds in enough draws to count.
    pub fn sign_holds(&self) -> bool {
        self.sign_held_percent.is_some_and(|held| held >= HELD_MIN_PERCENT)
    }
}

/// What the seeds do to the gains of draws.
struct Chance {
    /// The mean of all gains.
    mean: f64,
    /// Share of the variance, from 0 to 1; `None` if it is not known.
    share: Option<f64>,
    /// How far chance may have moved the mean.
    of_mean: f64,
}

impl Chance {
    fn of(gains: &[f64], draws: &[DrawGain]) -> Chance {
        let number = gains.len() as f64;
        let center = mean(gains);
        let errors: Option<Vec<f64>> =
            draws.iter().filter(|draw| draw.gain_percent.is_some()).map(|draw| draw.error_percent).collect();
        let Some(errors) = errors.filter(|errors| errors.len() > 1) else {
            return Chance { mean: center, share: None, of_mean: 0.0 };
        };
        let noise = errors.iter().map(|error| error * error).sum::<f64>() / number;
        let spread = gains.iter().map(|gain| (gain - center) * (gain - center)).sum::<f64>() / (number - 1.0);
        let share = if spread > 0.0 { (noise / spread).min(1.0) } else { 0.0 };
        Chance { mean: center, share: Some(share), of_mean: ERRORS * (noise / number).sqrt() }
    }

    /// Returns a gain with the spread that the figures alone would give it.
    fn without(&self, gain: f64) -> f64 {
        match self.share {
            Some(share) if share > 0.0 => self.mean + (gain - self.mean) * (1.0 - share).sqrt(),
            _ => gain,
        }
    }
}

/// Returns a percentile of sorted values, of which there is at least one.
fn quantile(sorted: &[f64], percent: f64) -> f64 {
    let place = (sorted.len() - 1) as f64 * percent / 100.0;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor())
}

/// Returns the figures that decide, the largest share first. `positions` are by draw, then by figure; `middle` is where
/// the upper half of a range begins. Draws without a gain are left out.
pub fn deciding(positions: &[Vec<u16>], gains: &[Option<f64>], middle: u16) -> Vec<Deciding> {
    let draws: Vec<(&[u16], f64)> =
        positions.iter().zip(gains).filter_map(|(at, gain)| Some((&at[..], (*gain)?))).collect();
    let figures = positions.first().map_or(0, Vec::len);
    let gains: Vec<f64> = draws.iter().map(|(_, gain)| *gain).collect();
    let Some(least) = chance_correlation(draws.len(), figures) else { return Vec::new() };
    let mut found: Vec<Deciding> = (0..figures)
        .filter_map(|figure| {
            let at: Vec<f64> = draws.iter().map(|(at, _)| at[figure].into()).collect();
            let correlation = spearman(&at, &gains).filter(|found| found.abs() > least)?;
            let of = |high: bool| {
                let half = draws.iter().filter(|(at, _)| (at[figure] >= middle) == high);
                round_percent(mean(&half.map(|(_, gain)| *gain).collect::<Vec<_>>()))
            };
            Some(Deciding {
                figure,
                share_percent: round_percent(100.0 * correlation * correlation),
                gain_low_percent: of(false),
                gain_high_percent: of(true),
            })
        })
        .collect();
    found.sort_by(|a, b| b.share_percent.total_cmp(&a.share_percent));
    found
}

/// Returns the correlation that the largest of `figures` exceeds by chance in one case of twenty; `None` if there are
/// too few draws to say.
fn chance_correlation(draws: usize, figures: usize) -> Option<f64> {
    if draws < 4 || figures == 0 {
        return None;
    }
    let quantile = Normal::new(0.0, 1.0).ok()?.inverse_cdf(1.0 - CHANCE / (2.0 * figures as f64));
    Some((quantile / ((draws - 3) as f64).sqrt()).tanh())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(gains: &[f64]) -> Vec<Option<f64>> {
        gains.iter().copied().map(Some).collect()
    }

    /// Draws with one seed each.
    fn of_one_seed(gains: &[f64]) -> Vec<DrawGain> {
        some(gains).into_iter().map(|gain_percent| DrawGain { gain_percent, error_percent: None }).collect()
    }

    fn with_error(error: f64, gains: &[f64]) -> Vec<DrawGain> {
        of_one_seed(gains).into_iter().map(|draw| DrawGain { error_percent: Some(error), ..draw }).collect()
    }

    /// Gains 0, 1, .. 20: the 5th percentile stands at place 1, the 95th at 19. 20 of 21 are above 0, 95.2 %.
    #[test]
    fn twenty_one_draws_by_hand() {
        let gains = of_one_seed(&(0..=20).map(f64::from).collect::<Vec<_>>());
        let spread = Spread::new(Some(7.0), &gains);
        let expected = Spread {
            draws: 21,
            range_percent: Some([1.0, 19.0]),
            chance_percent: None,
            sign_held_percent: Some(95.238095),
            undecided: false,
        };
        assert_eq!(spread, expected);
        assert!(spread.sign_holds());
        // With the other sign nothing holds it.
        let against = Spread::new(Some(-7.0), &gains);
        assert_eq!((against.sign_held_percent, against.undecided), (Some(0.0), true));
    }

    /// Places between values are interpolated: of -4, 0 and 10, the 5th percentile stands at 0.1, -3.6, the 95th at
    /// 1.9, 9. The sign of +1 holds in one of three.
    #[test]
    fn three_draws_contradict_each_other() {
        let spread = Spread::new(Some(1.0), &of_one_seed(&[10.0, -4.0, 0.0]));
        assert_eq!(spread.range_percent, Some([-3.6, 9.0]));
        assert_eq!((spread.sign_held_percent, spread.undecided), (Some(33.333333), true));
    }

    #[test]
    fn eighty_percent_are_enough() {
        let five = |other: f64| Spread::new(Some(5.0), &of_one_seed(&[5.0, 6.0, 7.0, 8.0, other]));
        assert!(!five(-3.0).undecided, "4 of 5");
        assert!(Spread::new(Some(5.0), &of_one_seed(&[5.0, 6.0, 7.0, -1.5, -3.0])).undecided, "3 of 5");
        // What is nothing in 4 of 5 draws is no difference, whatever its sign.
        let nothing = Spread::new(Some(0.2), &of_one_seed(&[0.5, -0.5, 1.0, -1.0, 3.0]));
        assert!(!nothing.undecided && !nothing.sign_holds());
        assert_eq!(Spread::new(Some(0.0), &of_one_seed(&[0.0, 0.0])).sign_held_percent, None);
        let mut one = of_one_seed(&[5.0]);
        one.push(DrawGain::default());
        let missing = Spread::new(Some(5.0), &one);
        assert_eq!((missing.sign_held_percent, missing.undecided), (Some(50.0), true));
        assert_eq!(Spread::new(Some(5.0), &[DrawGain::default()]).range_percent, None);
    }

    /// Gains -1, 1, 3, 5 and 7 with errors of 2: mean 3, variance 10, of which 4 is chance. The rest has a root of
    /// sqrt(0.6) = 0.7746, so -1 is -0.098 without chance, and 1 is 1.451. Four exceed nothing, but the mean's own
    /// error is 2 / sqrt(5), of which 1.96 are 1.753: three hold the sign, which is undecided. With errors of 1, a
    /// tenth is chance: -0.795 and 1.103, and 1.96 errors are 0.877, so four of five hold it.
    #[test]
    fn chance_by_hand() {
        let gains = [-1.0, 1.0, 3.0, 5.0, 7.0];
        let spread = Spread::new(Some(3.0), &with_error(2.0, &gains));
        assert_eq!((spread.chance_percent, spread.sign_held_percent), (Some(40.0), Some(60.0)));
        assert!(spread.undecided && !spread.is_mostly_chance());
        let better = Spread::new(Some(3.0), &with_error(1.0, &gains));
        assert_eq!((better.chance_percent, better.sign_held_percent), (Some(10.0), Some(80.0)));
        assert!(!better.undecided);
        assert_eq!(spread.range_percent, better.range_percent, "the range has chance in it");
    }

    /// If all of the spread is chance, the mean decides. Of eight draws of 2 +- 2.5 the variance is 7.14. Errors of
    /// 3 explain more, and 1.96 of the mean's are 2.08; with errors of 2.7 they are 1.87, so the sign holds, although
    /// half of the draws have the other one.
    #[test]
    fn a_spread_of_chance_alone() {
        let gains = [4.5, -0.5].repeat(4);
        let of = |error: f64| Spread::new(Some(2.0), &with_error(error, &gains));
        assert_eq!((of(3.0).chance_percent, of(3.0).undecided), (Some(100.0), true));
        assert_eq!((of(2.7).sign_held_percent, of(2.7).undecided), (Some(100.0), false));
        let nothing = Spread::new(Some(0.1), &with_error(0.8, &[0.9, -0.9, 0.5, -0.5].repeat(2)));
        assert!(!nothing.undecided, "all are 0 +- 0.55");
    }

    /// Nine draws of 0.1 and one of 8 +- 8: mean 0.89, variance 6.24, mean square error 6.4, so all is chance, and the
    /// mean's own errors are 1.96 * sqrt(0.64) = 1.57. But nine of ten are within 1 %. With three draws of 8 +- 8 there
    /// are seven: mean 2.47, and its errors are 1.96 * sqrt(1.92) = 2.72.
    #[test]
    fn one_draw_with_all_of_the_error() {
        let of = |wild: usize| {
            let mut draws = with_error(0.0, &vec![0.1; 10 - wild]);
            draws.extend(with_error(8.0, &vec![8.0; wild]));
            Spread::new(Some(0.1), &draws)
        };
        assert_eq!((of(1).chance_percent, of(1).undecided), (Some(100.0), false));
        assert_eq!((of(3).sign_held_percent, of(3).undecided), (Some(0.0), true));
    }

    /// A model of two figures: the gain is three times the first's side, the second does nothing. Of 8 draws the first
    /// is low in 4. Positions 1 to 8 of the first give gains that rise with it: correlation 1, the chance's for 2
    /// figures of 8 draws is tanh(2.241403 / sqrt(5)) = 0.7626.
    #[test]
    fn two_figures_by_hand() {
        let second = [4, 2, 8, 6, 1, 7, 3, 5];
        let positions: Vec<Vec<u16>> =
            (1..=8).zip(second).map(|(first, second)| vec![first, second]).collect();
        let gains = some(&[-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0]);
        let expected =
            Deciding { figure: 0, share_percent: 100.0, gain_low_percent: -2.5, gain_high_percent: 2.5 };
        assert_eq!(deciding(&positions, &gains, 5), [expected]);
        let chance = chance_correlation(8, 2).unwrap();
        assert!((chance - 0.7626).abs() < 1e-4, "{chance}");
        assert_eq!(deciding(&positions[..3], &gains[..3], 5), [], "too few");
        assert_eq!(deciding(&positions, &some(&[1.0; 8]), 5), [], "nothing spreads");
    }
}
