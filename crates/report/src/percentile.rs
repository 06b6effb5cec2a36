// SPDX-License-Identifier: GPL-2.0-or-later
//! Percentiles of a written-out histogram.

use wakelab_sim::Histogram;

/// The value that at least so many thousandths of all values do not exceed: the highest value of the first bucket at
/// which the running count reaches ceil(count * permille / 1000), as hdrhistogram defines it, and never more than the
/// largest value. `None` if the histogram is empty.
pub fn percentile_ns(histogram: &Histogram, permille: u32) -> Option<u64> {
    let wanted = (u128::from(histogram.count) * u128::from(permille.min(1000))).div_ceil(1000).max(1);
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
}
