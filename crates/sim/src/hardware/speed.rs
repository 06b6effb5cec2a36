// SPDX-License-Identifier: GPL-2.0-or-later
//! How fast a CPU works, and how long work takes there. Nearly every event asks for that, and what comes
//! next depends on the answer, so it is a multiplication and no division, which takes three times as long.
//!
//! For a speed s, the inverse i is 2^63 / s, rounded up: 2^63 = i s - e, with e < s. Then n i / 2^63 = n / s + n e / (s
//! 2^63), which exceeds n / s by less than 1 / s if n e < 2^63. So both have the same whole part. As speeds are 1024 at
//! most, this holds for n below 2^52; for more work, which takes more than an hour, there is a division.
//!
//! Example: 1,000 units at speed 600 take 1,000 / 600 ns, rounded up: that is (1,000 + 599) / 600, rounded down, 2 ns.

use crate::ids::UNITS;

/// Up to here, the inverse gives what a division gives.
const EXACT_BELOW: u64 = 1 << 52;

/// Work done per nanosecond, in 1/1024 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speed {
    /// At least 1.
    units: u32,
    inverse: u64,
}

impl Speed {
    /// That of the machine's fastest core with no busy sibling.
    pub(crate) const FULL: Speed = Speed::new(UNITS as u32);

    /// From 1 to 1024.
    pub(crate) const fn new(units: u32) -> Speed {
        Speed { units, inverse: (1u64 << 63).div_ceil(units as u64) }
    }

    pub(crate) const fn units(self) -> u64 {
        self.units as u64
    }

    /// The time in nanoseconds that `work`, in 1/1024 ns, takes; rounded up.
    #[inline(always)]
    pub(crate) fn ns(self, work: u64) -> u64 {
        let up = work + (self.units() - 1);
        if up >= EXACT_BELOW {
            return up / self.units();
        }
        ((u128::from(up) * u128::from(self.inverse)) >> 63) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_as_long_as_a_division_says() {
        assert_eq!(Speed::new(600).ns(1_000), 2);
        assert_eq!(Speed::FULL.ns(1_025), 2);
        for units in 1..=1024 {
            let speed = Speed::new(units);
            let last = (EXACT_BELOW - u64::from(units)) / u64::from(units) * u64::from(units);
            for near in [0, u64::from(units), 614_400, last, EXACT_BELOW, 1 << 60] {
                for work in near.saturating_sub(2)..near + 3 {
                    assert_eq!(speed.ns(work), work.div_ceil(u64::from(units)), "{work} at {units}");
                }
            }
        }
    }
}
