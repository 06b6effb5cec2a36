// SPDX-License-Identifier: GPL-2.0-or-later
//! The median of what was measured, and its range: from the 10th to the 90th percentile.

use serde::Serialize;

/// A median and its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The 10th percentile.
    pub low: u64,
    /// The median; between the two middle values it is their mean, rounded down.
    pub median: u64,
    /// The 90th percentile.
    pub high: u64,
    /// How many values there were; 0 of what is known from elsewhere.
    pub samples: usize,
}

impl Spread {
    /// The spread of these values, by nearest rank; `None` if there are none.
    pub fn of(mut values: Vec<u64>) -> Option<Spread> {
        values.sort_unstable();
        let n = values.len();
        let ranked = |percent: usize| values.get((n * percent).div_ceil(100).max(1) - 1).copied();
        let (lower, upper) = (*values.get(n.checked_sub(1)? / 2)?, *values.get(n / 2)?);
        Some(Spread { low: ranked(10)?, median: lower.midpoint(upper), high: ranked(90)?, samples: n })
    }

    /// The spread less something that was measured elsewhere, at least 0: the low end less the high end of that, and
    /// the high end less the low end.
    #[must_use]
    pub fn less(self, other: Spread) -> Spread {
        Spread {
            low: self.low.saturating_sub(other.high),
            median: self.median.saturating_sub(other.median),
            high: self.high.saturating_sub(other.low),
            samples: fewer(self.samples, other.samples),
        }
        .ordered()
    }

    /// The spread of the sum of two.
    #[must_use]
    pub fn plus(self, other: Spread) -> Spread {
        Spread {
            low: self.low + other.low,
            median: self.median + other.median,
            high: self.high + other.high,
            samples: fewer(self.samples, other.samples),
        }
    }

    /// Each figure times this ratio, rounded down.
    #[must_use]
    pub fn times(self, numerator: u64, denominator: u64) -> Spread {
        let scaled = |value: u64| {
            u64::try_from(u128::from(value) * u128::from(numerator) / u128::from(denominator))
                .unwrap_or(u64::MAX)
        };
        Spread { low: scaled(self.low), median: scaled(self.median), high: scaled(self.high), ..self }
    }

    /// Each figure at least this.
    #[must_use]
    pub fn at_least(self, least: u64) -> Spread {
        Spread {
            low: self.low.max(least),
            median: self.median.max(least),
            high: self.high.max(least),
            ..self
        }
    }

    /// A figure that another source has, with this range around it.
    pub fn known(low: u64, median: u64, high: u64) -> Spread {
        Spread { low, median, high, samples: 0 }.ordered()
    }

    fn ordered(self) -> Spread {
        Spread { low: self.low.min(self.median), high: self.high.max(self.median), ..self }
    }
}

/// The fewer of two numbers of values, of those that were measured.
fn fewer(a: usize, b: usize) -> usize {
    if a == 0 || b == 0 { a.max(b) } else { a.min(b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(low: u64, median: u64, high: u64, samples: usize) -> Spread {
        Spread { low, median, high, samples }
    }

    #[test]
    fn medians_and_ranges_by_hand() {
        assert_eq!(Spread::of(vec![]), None);
        assert_eq!(Spread::of(vec![7]), Some(spread(7, 7, 7, 1)));
        assert_eq!(Spread::of(vec![9, 4]), Some(spread(4, 6, 9, 2)));
        // 20 values: the 2nd and the 18th, and the mean of the 10th and the 11th.
        let values: Vec<u64> = (1..=20).map(|i| i * 10).rev().collect();
        assert_eq!(Spread::of(values), Some(spread(20, 105, 180, 20)));
    }

    #[test]
    fn differences_keep_the_median_inside() {
        let (whole, part) = (spread(90, 100, 150, 5), spread(20, 30, 40, 9));
        assert_eq!(whole.less(part), spread(50, 70, 130, 5));
        assert_eq!(part.less(whole), spread(0, 0, 0, 5));
        assert_eq!(whole.plus(part), spread(110, 130, 190, 5));
        assert_eq!(part.times(3, 2), spread(30, 45, 60, 9));
        assert_eq!(part.at_least(25), spread(25, 30, 40, 9));
        assert_eq!(Spread::known(5, 4, 3), spread(4, 4, 4, 0));
        assert_eq!(part.plus(Spread::known(1, 2, 3)), spread(21, 32, 43, 9));
    }
}
