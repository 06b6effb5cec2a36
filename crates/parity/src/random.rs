// SPDX-License-Identifier: GPL-2.0-or-later
//! Randomness of the tests: one seed gives the same sequence on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A random sequence.
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Returns sequence number `stream` of `seed`.
    pub(crate) fn new(seed: u64, stream: u64) -> Random {
        // The generator's own SplitMix64 spreads the two over the seed.
        Random(Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream))
    }

    /// Returns any value.
    pub(crate) fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns 0 up to but not including `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.any()) * end as u128) >> 64) as usize
    }

    /// Returns true in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `items`.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Returns 0 up to about 2^`bits_max`, with every magnitude equally likely.
    pub(crate) fn magnitude(&mut self, bits_max: usize) -> u64 {
        let bits = self.below(bits_max + 1);
        self.any() & ((1 << bits) - 1)
    }

    /// Puts `items` into random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_sequence_again_and_streams_differ() {
        let take = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.any(), random.any(), random.any()]
        };
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(1, 1));
        assert_ne!(take(1, 0), take(2, 0));
    }

    #[test]
    fn below_reaches_every_value_and_no_other() {
        let mut random = Random::new(7, 0);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.below(5)] = true;
        }
        assert_eq!(seen, [true; 5]);
    }
}
