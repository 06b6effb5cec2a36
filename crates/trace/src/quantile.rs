// SPDX-License-Identifier: GPL-2.0-or-later
//! Quantiles of a few numbers.

/// Returns the least of the values that at least `percent` of them do not exceed: for 50, the median, and the lower one
/// of two middle values. `None` if there are no values.
pub(crate) fn quantile(values: impl IntoIterator<Item = u64>, percent: usize) -> Option<u64> {
    let mut values: Vec<u64> = values.into_iter().collect();
    let rank = (values.len() * percent).div_ceil(100).max(1) - 1;
    (rank < values.len()).then(|| *values.select_nth_unstable(rank).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_of_two_middle_values() {
        assert_eq!(quantile([4, 1, 3, 2], 50), Some(2));
        assert_eq!(quantile([4, 1, 3], 50), Some(3));
        assert_eq!((quantile([4, 1, 3, 2], 25), quantile([4, 1, 3, 2], 100)), (Some(1), Some(4)));
        assert_eq!((quantile([7], 0), quantile([], 50)), (Some(7), None));
    }
}
