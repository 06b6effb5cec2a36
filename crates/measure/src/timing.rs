// SPDX-License-Identifier: GPL-2.0-or-later
//! Batches of operations until a time is over.

use std::time::{Duration, Instant};

/// Batches that are made however short the time is.
const LEAST: usize = 5;
/// Batches that are enough for a percentile.
const MOST: usize = 2000;

/// Runs batches until `time` is over, the first of them to warm up, and returns how long each took per operation, in
/// ps.
pub(crate) fn batches_ps(time: Duration, operations: u64, mut batch: impl FnMut()) -> Vec<u64> {
    let begin = Instant::now();
    batch();
    let mut found = Vec::new();
    while found.len() < LEAST || (found.len() < MOST && begin.elapsed() < time) {
        let from = Instant::now();
        batch();
        found.push(ps(from.elapsed()) / operations);
    }
    found
}

/// The same in ns.
pub(crate) fn batches_ns(time: Duration, operations: u64, batch: impl FnMut()) -> Vec<u64> {
    batches_ps(time, operations, batch).into_iter().map(|ps| ps / 1000).collect()
}

pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn ps(duration: Duration) -> u64 {
    ns(duration).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_nothing_still_has_batches() {
        let mut calls = 0;
        let found = batches_ns(Duration::ZERO, 1_000_000, || calls += 1);
        assert_eq!((found.len(), calls), (LEAST, LEAST + 1));
        assert_eq!(ps(Duration::from_nanos(3)), 3000);
    }
}
