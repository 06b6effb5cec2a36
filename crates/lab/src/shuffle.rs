// SPDX-License-Identifier: GPL-2.0-or-later
//! A random order, for draws and for orders of axes.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

/// Puts the items in a random order (Fisher and Yates); the bias of the multiplication is below N / 2^64.
pub(crate) fn shuffle(items: &mut [usize], random: &mut Xoshiro256PlusPlus) {
    for last in (1..items.len()).rev() {
        let other = ((u128::from(random.next_u64()) * (last as u128 + 1)) >> 64) as usize;
        items.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn every_order_comes_about_as_often() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6_000 {
            let mut items = [0, 1, 2];
            shuffle(&mut items, &mut random);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        // Five standard deviations of 1,000.
        assert!(seen.values().all(|&times| (850..1_150).contains(&times)), "{seen:?}");
    }
}
