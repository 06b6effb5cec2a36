// SPDX-License-Identifier: GPL-2.0-or-later
//! Work that a CPU does slowly, because it has idled: caches, TLB and branch predictors have lost what they held. The
//! simulator charges it, and imports of recordings take it off the work.
//!
//! Worked example: the next 25 us of work take 20 % longer. Then 10 us of work take 12 us of CPU time, 25 take 30, and
//! 35 take 40.

use crate::IdleState;

/// How much work a CPU does slowly once it has left an idle state, in ns. Measured on a VM of two CPUs (AMD EPYC):
/// after 50 us of idling, 1.9 us of system calls took 0.42 us longer than their repetition, 25 us took 6.4 us, and 57
/// us took 5.5 us. So a fifth is lost up to 25 us, and nothing more beyond.
pub const COLD_WORK_NS: u64 = 25_000;

/// What a CPU does slowly next; nothing by default. Work and CPU time are in any unit, the same for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cold {
    /// How much work that is.
    work: u64,
    /// How much longer it takes, in percent.
    percent: u32,
}

impl IdleState {
    /// Returns what a CPU does slowly after this state, in units of which a nanosecond has `units_per_ns`.
    pub fn cold(&self, units_per_ns: u64) -> Cold {
        let work = if self.cold_percent > 0 { COLD_WORK_NS * units_per_ns } else { 0 };
        Cold { work, percent: self.cold_percent }
    }
}

impl Cold {
    /// The CPU does this much work. Returns how much longer that takes.
    #[inline(always)]
    pub fn take(&mut self, work: u64) -> u64 {
        if self.work == 0 {
            return 0;
        }
        let slow = work.min(self.work);
        self.work -= slow;
        slow * u64::from(self.percent) / 100
    }

    /// Returns the work that is done in some CPU time.
    pub fn work_in(&self, cpu_time: u64) -> u64 {
        let all = self.work + { *self }.take(self.work);
        match cpu_time.checked_sub(all) {
            Some(warm) => self.work + warm,
            None => (u128::from(cpu_time) * 100 / u128::from(100 + self.percent)) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_cpu_by_hand() {
        let cold = IdleState { cold_percent: 20, ..IdleState::default() }.cold(1);
        for (work, cpu_time) in [(0, 0), (10_000, 12_000), (25_000, 30_000), (35_000, 40_000)] {
            let mut left = cold;
            assert_eq!((work + left.take(work), cold.work_in(cpu_time)), (cpu_time, work));
            assert_eq!(left.work, 25_000 - work.min(25_000));
        }
        let warm = IdleState::default().cold(1_024);
        assert_eq!((warm, warm.work_in(7), { warm }.take(7)), (Cold::default(), 7, 0));
    }
}
