// SPDX-License-Identifier: GPL-2.0-or-later
//! A histogram of delays, with its exact largest value and sum.

use hdrhistogram::Histogram as Hdr;

use crate::outcome::Histogram;

/// The number of digits that the histograms keep.
const SIGNIFICANT_DIGITS: u8 = 3;

/// A histogram of delays.
pub(crate) struct Delays {
    histogram: Hdr<u64>,
    max_ns: u64,
    sum_ns: u64,
}

impl Delays {
    pub(crate) fn new() -> Delays {
        Delays::with_digits(SIGNIFICANT_DIGITS)
    }

    pub(crate) fn with_digits(digits: u8) -> Delays {
        let mut histogram = Hdr::new(digits).expect("up to 5 digits are in range");
        histogram.auto(true);
        Delays { histogram, max_ns: 0, sum_ns: 0 }
    }

    pub(crate) fn record(&mut self, value_ns: u64) {
        self.histogram.record(value_ns).expect("the histogram grows as needed");
        self.max_ns = self.max_ns.max(value_ns);
        self.sum_ns += value_ns;
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub(crate) fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    pub(crate) fn histogram(&self) -> Histogram {
        Histogram {
            buckets: self
                .histogram
                .iter_recorded()
                .map(|v| (v.value_iterated_to(), v.count_at_value()))
                .collect(),
            count: self.histogram.len(),
            max_ns: self.max_ns,
            sum_ns: self.sum_ns,
        }
    }
}
