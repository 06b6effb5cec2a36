// SPDX-License-Identifier: GPL-2.0-or-later
//! Work that a CPU does slowly, because it has idled ([`wakelab_machine::IdleState`]). What it lost is taken off the
//! work of the tasks that run there next, because a replay charges it again where it idles.
//!
//! Worked example: the next 25 us of work take 20 % longer. Of 12 us of CPU time 10 were work, of 30 us 25, and of 40
//! us 35.

use crate::program::scaled;

/// What a CPU does slowly next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cold {
    /// How much work that is, in 1/1024 ns.
    pub(crate) work_units: u64,
    /// How much longer it takes, in percent.
    pub(crate) percent: u32,
}

impl Cold {
    /// Returns the CPU time that some work takes by that, in 1/1024 ns.
    pub(crate) fn slowed(&self, units: u64) -> u64 {
        units + scaled(units.min(self.work_units), self.percent.into(), 100)
    }

    /// Returns the work that was done in some CPU time, in 1/1024 ns.
    pub(crate) fn work_in(&self, units: u64) -> u64 {
        let all_units = self.slowed(self.work_units);
        match units.checked_sub(all_units) {
            Some(warm_units) => self.work_units + warm_units,
            None => scaled(units, 100, 100 + u64::from(self.percent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_cpu_by_hand() {
        let cold = Cold { work_units: 25_000, percent: 20 };
        for (work_units, cpu_units) in [(0, 0), (10_000, 12_000), (25_000, 30_000), (35_000, 40_000)] {
            assert_eq!((cold.slowed(work_units), cold.work_in(cpu_units)), (cpu_units, work_units));
        }
    }
}
