// SPDX-License-Identifier: GPL-2.0-or-later
//! How far published gains lie outside the ranges of draws: what the model lacks, and what no figure of it can say.
//!
//! - A range is widened by the publication's own noise: each end moves to the root of the sum of the squares of its
//!   distance from the gain and of 1.645 standard deviations, the 95th percentile of the normal distribution.
//! - A published gain lies *outside* a range by its distance from the nearer end, which is negative inside.
//! - The *model's error* is the distance that 90 % of such rows do not exceed: of n distances the ceil(0.9 (n +
//!   1))-th, at least 0. A range that is widened by it at both ends has the next row inside in 90 % of cases, if
//!   that row misses as those do (conformalised ranges: Romano, Patterson and Candes, 2019). Fewer than 9 rows
//!   cannot say.

/// The share of rows that a range has inside.
const INSIDE: f64 = 0.9;
/// The 95th percentile of the normal distribution, in standard deviations.
const NOISE_REACH: f64 = 1.645;

/// Returns the range with the noise of a publication, in percent, added in squares.
pub fn with_noise(gain: f64, [low, high]: [f64; 2], noise: f64) -> [f64; 2] {
    let reach = |distance: f64| distance.max(0.0).hypot(NOISE_REACH * noise);
    [gain - reach(gain - low), gain + reach(high - gain)]
}

/// Returns by how much a value lies outside a range; inside, it is negative.
pub fn outside(value: f64, [low, high]: [f64; 2]) -> f64 {
    (low - value).max(value - high)
}

/// Returns what 90 % of the distances do not exceed; `None` if they are too few.
pub fn model_error(outside: &[f64]) -> Option<f64> {
    let mut sorted = outside.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (INSIDE * (sorted.len() + 1) as f64).ceil() as usize;
    sorted.get(rank.checked_sub(1)?).map(|error| error.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1.645 * 4 = 6.58. Of a range from 2 to 17 around 5 the low end is 3 away, so sqrt(9 + 43.2964) = 7.2316; the
    /// high end 12, so sqrt(144 + 43.2964) = 13.6856. A gain below its range is in it afterwards.
    #[test]
    fn noise_by_hand() {
        let [low, high] = with_noise(5.0, [2.0, 17.0], 4.0);
        assert!((low - (5.0 - 7.2316)).abs() < 1e-3 && (high - (5.0 + 13.6856)).abs() < 1e-3, "{low} {high}");
        assert_eq!(with_noise(5.0, [2.0, 17.0], 0.0), [2.0, 17.0]);
        assert_eq!(with_noise(1.0, [2.0, 17.0], 0.0), [1.0, 17.0]);
    }

    #[test]
    fn distances_have_a_sign() {
        let range = [2.0, 17.0];
        assert_eq!([-1.0, 3.0, 16.0, 20.0].map(|value| outside(value, range)), [3.0, -1.0, -1.0, 3.0]);
    }

    /// Of 9 distances the ceil(0.9 * 10) = 9th, of 19 the 18th. 8 are too few. If all are inside there is no error.
    #[test]
    fn ninety_percent_by_hand() {
        let up_to = |last: i32| (1..=last).rev().map(f64::from).collect::<Vec<_>>();
        assert_eq!(model_error(&up_to(9)), Some(9.0));
        assert_eq!(model_error(&up_to(19)), Some(18.0));
        assert_eq!(model_error(&up_to(8)), None);
        assert_eq!(model_error(&[-3.0; 9]), Some(0.0));
    }
}
