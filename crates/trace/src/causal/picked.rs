// SPDX-License-Identifier: GPL-2.0-or-later
//! When a task was switched in on an idle CPU, from the scheduler's account of it.
//!
//! An account (sched_stat_runtime) begins when the CPU picks the task. The switch is logged later: between both the
//! kernel starts the tick and other timers, which takes a virtual machine 10,000 ns and more. Where the switch was not
//! recorded, its time is the beginning of the account and the median of what other idle CPUs took between both.
//!
//! Worked example: CPU 0 switches from idle to A at 112 us. At 130 us A's account is 28 us, so it began at 102, and the
//! switch came 10 us later. CPU 1 is idle, and its next event, at 217, is one of B. At 230 B's account is 28 us: it
//! began at 202, and B was switched in at 212.
//!
//! It fails where the CPUs whose switches were recorded differ from the others.

use crate::quantile::quantile;

/// The switches that count are the latest ones, because what they take changes with the host's load.
const LATEST: usize = 63;

/// The fewest switches that tell.
const FEWEST: usize = 20;

/// Times from the beginnings of accounts to switches from idle.
#[derive(Clone, Debug)]
pub(super) struct Picked {
    latest_ns: [u64; LATEST],
    seen: usize,
}

impl Default for Picked {
    fn default() -> Self {
        Picked { latest_ns: [0; LATEST], seen: 0 }
    }
}

impl Picked {
    /// Adds a switch from idle.
    pub(super) fn add(&mut self, gap_ns: u64) {
        self.latest_ns[self.seen % LATEST] = gap_ns;
        self.seen += 1;
    }

    /// Returns how long after the beginning of its account a task is switched in: the median, or 0 if too few switches
    /// tell.
    pub(super) fn gap_ns(&self) -> u64 {
        if self.seen < FEWEST {
            return 0;
        }
        quantile(self.latest_ns[..self.seen.min(LATEST)].iter().copied(), 50).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_latest_counts() {
        let mut picked = Picked::default();
        (1..FEWEST).for_each(|_| picked.add(10));
        assert_eq!(picked.gap_ns(), 0);
        picked.add(10);
        assert_eq!(picked.gap_ns(), 10);
        (0..LATEST).for_each(|_| picked.add(30));
        assert_eq!(picked.gap_ns(), 30);
    }
}
