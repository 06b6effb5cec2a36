// SPDX-License-Identifier: GPL-2.0-or-later
//! How much of its working set a task still finds in a core's own caches (L1 and L2, shared by the core's threads) when
//! it comes back to the core.
//!
//! The least recently used set is evicted first. A task with a working set of F bytes comes back to a core whose caches
//! hold C bytes. Since it left, other tasks used working sets of D bytes there, each counted once. Then D + F - C of
//! the task's bytes are missing, but at least 0 and at most F. (This is exact for a fully associative cache, which
//! still holds a line if fewer than C bytes of other lines were used since.)
//!
//! Worked example, C = 256 KiB. A (192 KiB) runs, then B (128 KiB), then A: 128 + 192 - 256 = 64 KiB are missing. B
//! again: 192 + 128 - 256 = 64 KiB. If A has 96 KiB, both fit, and nothing is ever missing, however often they take
//! turns.
//!
//! Cost: a walk over the sets used since. Only the sets that fill the caches are kept. The model leaves out which lines
//! of a set are used, how ways collide, and what else goes through the caches (messages, the kernel).

/// The working sets in a core's caches, the most recently used one first.
#[derive(Clone, Debug, Default)]
pub struct CoreCache {
    sets: Vec<(u32, u64)>,
}

impl CoreCache {
    /// Makes `owner`'s working set of `bytes` the most recently used one, in caches of `capacity_bytes`. Returns how
    /// many of its bytes are missing. A set that is used for the first time counts as if it had been there before all
    /// others.
    pub fn use_set(&mut self, owner: u32, bytes: u64, capacity_bytes: u64) -> u64 {
        let bytes = bytes.min(capacity_bytes);
        if bytes == 0 {
            return 0;
        }
        // Most often a task leaves that was the last to come.
        if let Some((first, used_bytes)) = self.sets.first_mut()
            && *first == owner
        {
            *used_bytes = bytes;
            return 0;
        }
        let mut others_bytes = 0u64;
        // Each set that was used since the owner's moves by one place; nearly always there is one.
        let mut moving = (owner, bytes);
        let mut kept = self.sets.len();
        for at in 0..self.sets.len() {
            let (other, used_bytes) = std::mem::replace(&mut self.sets[at], moving);
            moving = (other, used_bytes);
            if other == owner {
                break;
            }
            others_bytes += used_bytes;
            if others_bytes >= capacity_bytes {
                // Older sets are evicted.
                kept = at + 1;
                break;
            }
        }
        if moving.0 != owner || kept == 0 {
            self.sets.truncate(kept);
            self.sets.push(moving);
        }
        (others_bytes + bytes).saturating_sub(capacity_bytes).min(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    #[test]
    fn worked_example() {
        let mut cache = CoreCache::default();
        let mut missing = |owner, kib: u64| cache.use_set(owner, kib * KIB, 256 * KIB) / KIB;
        // The first A has the caches to itself. The first B counts as if it had been there before A.
        assert_eq!([missing(0, 192), missing(1, 128), missing(0, 192), missing(1, 128)], [0, 64, 64, 64]);
        let mut cache = CoreCache::default();
        for owner in [0, 1, 0, 1, 0, 0, 1] {
            assert_eq!(cache.use_set(owner, [96, 128][owner as usize] * KIB, 256 * KIB), 0);
        }
    }

    /// Each of three sets fits beside one other, but not beside two. In turn, A, B and C each lose as much as the other
    /// two use of the caches.
    #[test]
    fn three_sets_in_turn_all_lose() {
        let mut cache = CoreCache::default();
        for round in 0..3 {
            for owner in 0..3 {
                let missing = cache.use_set(owner, 100, 200);
                assert_eq!(missing, if round == 0 && owner < 2 { 0 } else { 100 });
            }
        }
    }

    /// B and C take turns a hundred times while A is away, and but each counts once: 60 + 60 + 100 - 200 = 20.
    #[test]
    fn a_set_that_comes_again_counts_once() {
        let mut cache = CoreCache::default();
        cache.use_set(0, 100, 200);
        for _ in 0..100 {
            cache.use_set(1, 60, 200);
            cache.use_set(2, 60, 200);
        }
        assert_eq!(cache.use_set(0, 100, 200), 20);
    }

    #[test]
    fn keeps_no_more_sets_than_fill_the_caches() {
        let mut cache = CoreCache::default();
        for owner in 0..1000 {
            cache.use_set(owner, 64, 256);
        }
        assert!(cache.sets.len() <= 5, "{}", cache.sets.len());
        assert_eq!(cache.use_set(0, 64, 256), 64, "gone");
        assert_eq!(cache.use_set(5, 0, 256), 0, "nothing has nothing to lose");
        assert_eq!(cache.use_set(5, 1000, 256), 256, "at most what the caches hold");
    }
}
