// SPDX-License-Identifier: GPL-2.0-or-later
//! Ranks, and Spearman's correlation: Pearson's of the ranks, with ties at their mean rank
//! (<https://www.itl.nist.gov/div898/software/dataplot/refman2/auxillar/rankcorr.htm>).

use crate::gain::{mean, round_percent};

/// Returns Spearman's rank correlation; `None` if one side has no two different values.
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
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
}
