// SPDX-License-Identifier: GPL-2.0-or-later
//! All randomness of a run: streams derived from (seed, purpose, number), so that one more CPU or task does not change
//! the stream of any other.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// What a stream is for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// The length of a task's work, by task.
    Compute = 1,
    /// The offset of a CPU's ticks, by CPU.
    TickPhase = 2,
    /// The offset of a group's periods of bandwidth control, by group.
    QuotaPhase = 3,
    /// How long exits from idle take, by CPU.
    IdleExit = 4,
}

#[derive(Clone)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    pub(crate) fn new(seed: u64, purpose: Purpose, number: u32) -> Stream {
        // seed_from_u64 runs SplitMix64 over its argument; once more over the number keeps neighbours apart.
        let key = mix(seed) ^ mix((purpose as u64) << 32 | u64::from(number));
        Stream(Xoshiro256PlusPlus::seed_from_u64(key))
    }

    /// Uniform among `count` numbers from `low` on, at most 2^64, by multiplication (Lemire); the bias is below
    /// count / 2^64.
    #[inline(always)]
    pub(crate) fn from(&mut self, low: u64, count: u128) -> u64 {
        low + ((u128::from(self.0.next_u64()) * count) >> 64) as u64
    }

    /// Uniform in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.from(low, u128::from(high - low) + 1)
    }
}

/// The finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, purpose, number| Stream::new(seed, purpose, number).between(0, u64::MAX);
        let drawn = [
            draw(1, Purpose::Compute, 0),
            draw(1, Purpose::Compute, 1),
            draw(1, Purpose::TickPhase, 0),
            draw(2, Purpose::Compute, 0),
        ];
        for (i, a) in drawn.iter().enumerate() {
            assert!(drawn[i + 1..].iter().all(|b| a != b));
        }
        assert_eq!(drawn[0], draw(1, Purpose::Compute, 0));
    }

    #[test]
    fn both_ends_are_reached_and_not_passed() {
        let mut stream = Stream::new(7, Purpose::Compute, 3);
        let drawn: Vec<u64> = (0..1000).map(|_| stream.between(10, 13)).collect();
        assert!((10..=13).all(|value| drawn.contains(&value)));
        assert!(drawn.iter().all(|value| (10..=13).contains(value)));
    }
}
