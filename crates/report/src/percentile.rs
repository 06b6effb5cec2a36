// SPDX-License-Identifier: GPL-2.0-or-later
//! Percentiles of an outcome's histograms.

use wakelab_sim::Histogram;
use wakelab_stats::percentile;

/// Returns the value that at least `permille` thousandths of all values do not exceed
/// ([`wakelab_stats::percentile`]). `None` if the histogram is empty.
pub fn percentile_ns(histogram: &Histogram, permille: u32) -> Option<u64> {
    fine_percentile_ns(histogram, permille.min(1000) * 100)
}

/// Returns the same as [`percentile_ns`] for thousandths of a percent.
pub(crate) fn fine_percentile_ns(histogram: &Histogram, milli_percent: u32) -> Option<u64> {
    percentile(&histogram.buckets, histogram.count, histogram.max_ns, milli_percent)
}
