// SPDX-License-Identifier: GPL-2.0-or-later
//! Percentiles of a written-out histogram.

use wakelab_sim::Histogram;

/// The value that at least so many thousandths of all values do not exceed: the highest value of the first bucket at
/// which the running count reaches ceil(count * permille / 1000), as hdrhistogram defines it, and never more than the
/// largest value. `None` if the histogram is empty.
pub fn percentile_ns(histogram: &Histogram, permille: u32) -> Option<u64> {
    fine_percentile_ns(histogram, permille.min(1000) * 100)
}

/// As [`percentile_ns`], with thousandths of a percent.
pub(crate) fn fine_percentile_ns(histogram: &Histogram, milli_percent: u32) -> Option<u64> {
    const WHOLE: u32 = 100_000;
    let part = u128::from(milli_percent.min(WHOLE));
    let wanted = (u128::from(histogram.count) * part).div_ceil(u128::from(WHOLE)).max(1);
    let mut seen = 0_u128;
    for &(highest_ns, count) in &histogram.buckets {
        seen += u128::from(count);
        if seen >= wanted {
            return Some(highest_ns.min(histogram.max_ns));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // 10 values: 1, 2 x 3, 5 x 7, 15 and 17 (the last bucket reaches to 20).
        let buckets = vec![(1, 1), (3, 2), (7, 5), (20, 2)];
        let histogram = Histogram { buckets, count: 10, max_ns: 17, sum_ns: 1 + 6 + 35 + 32 };
        for (permille, value) in
            [(0, 1), (100, 1), (101, 3), (300, 3), (500, 7), (800, 7), (801, 17), (1000, 17)]
        {
            assert_eq!(percentile_ns(&histogram, permille), Some(value), "{permille}");
        }
        assert_eq!(percentile_ns(&Histogram::default(), 500), None);
    }

    #[test]
    fn tails_by_hand() {
        // 10,000 values: the 99.95th percentile is the 9,995th, the 99.99th the 9,999th, the 99.991st the last.
        let buckets = vec![(1, 9_994), (2, 1), (3, 4), (4, 1)];
        let histogram = Histogram { buckets, count: 10_000, max_ns: 4, sum_ns: 9_994 + 2 + 12 + 4 };
        for (milli, value) in [(99_940, 1), (99_950, 2), (99_951, 3), (99_990, 3), (99_991, 4), (100_000, 4)]
        {
            assert_eq!(fine_percentile_ns(&histogram, milli), Some(value), "{milli}");
        }
    }
}
