// SPDX-License-Identifier: GPL-2.0-or-later
//! Percentiles of histograms.

/// Thousandths of a percent in the whole.
const WHOLE_MILLI_PERCENT: u32 = 100_000;

/// The value that at least `milli_percent` thousandths of a percent of all values do not exceed, for instance 99,500
/// for the 99.5th percentile.
///
/// `buckets` are pairs of the highest value of a bucket and the number of values in it, in ascending order; `count` is
/// the number of all values and `max` the largest of them. The result is the highest value of the first bucket at which
/// the running count reaches ceil(count * milli_percent / 100,000), as hdrhistogram defines percentiles, but at most
/// `max`. `None` if the histogram is empty.
pub fn percentile(buckets: &[(u64, u64)], count: u64, max: u64, milli_percent: u32) -> Option<u64> {
    let part = u128::from(milli_percent.min(WHOLE_MILLI_PERCENT));
    let wanted = (u128::from(count) * part).div_ceil(u128::from(WHOLE_MILLI_PERCENT)).max(1);
    let mut seen = 0_u128;
    for &(highest, in_bucket) in buckets {
        seen += u128::from(in_bucket);
        if seen >= wanted {
            return Some(highest.min(max));
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
        let buckets = [(1, 1), (3, 2), (7, 5), (20, 2)];
        for (permille, value) in
            [(0, 1), (100, 1), (101, 3), (300, 3), (500, 7), (800, 7), (801, 17), (1000, 17)]
        {
            assert_eq!(percentile(&buckets, 10, 17, permille * 100), Some(value), "{permille}");
        }
        assert_eq!(percentile(&[], 0, 0, 50_000), None);
    }

    #[test]
    fn tails_by_hand() {
        // 10,000 values: the 99.95th percentile is the 9,995th, the 99.99th the 9,999th, the 99.991st the last.
        let buckets = [(1, 9_994), (2, 1), (3, 4), (4, 1)];
        for (milli, value) in [(99_940, 1), (99_950, 2), (99_951, 3), (99_990, 3), (99_991, 4), (100_000, 4)]
        {
            assert_eq!(percentile(&buckets, 10_000, 4, milli), Some(value), "{milli}");
        }
    }
}
