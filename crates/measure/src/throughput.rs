// SPDX-License-Identifier: GPL-2.0-or-later
//! How fast threads of one core are beside each other, and how much memory moves.

use std::fs;
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use crate::pin;
use crate::timing::ns;

/// Speed of a thread alone, as machine files have it.
const FULL_SPEED: u64 = 1024;
/// Entries of a table that fits into a core's second-level cache: 256 KiB.
const ENTRIES: usize = 1 << 15;
/// Rounds between two looks at the clock.
const ROUNDS: u64 = 4096;
/// Smallest array of a copy.
const LEAST_BYTES: u64 = 4 << 20;
/// What a slow thread copies, at least; MB/s are bytes a microsecond.
const SLOW_MB_PER_S: u64 = 1_000;
/// Copies that a thread makes at least.
const LEAST_COPIES: u64 = 2;

/// What threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Four chains of shifts, which do not wait for each other.
    Compute,
    /// A chain of loads from the second-level cache.
    Loads,
}

impl Work {
    pub(crate) const ALL: [Work; 2] = [Work::Compute, Work::Loads];
}

/// Speeds of a thread, in 1/1024 of one alone, with 1, 2, .. of the core's threads busy.
pub(crate) fn speeds(threads: &[u32], work: Work, time: Duration) -> io::Result<Vec<u64>> {
    let time = time / threads.len() as u32;
    let mut rates = Vec::new();
    for busy in 1..=threads.len() {
        let each = pin::all(&threads[..busy], |_| Ok(()), |()| rounds_per_s(work, time))?;
        rates.push(each.iter().sum::<u64>() / busy as u64);
    }
    Ok(relative(&rates))
}

/// Rates in 1/1024 of the first, none more than those before it.
fn relative(rates: &[u64]) -> Vec<u64> {
    let (alone, mut last) = (rates.first().copied().unwrap_or(0).max(1), FULL_SPEED);
    let one = |rate: &u64| {
        last = last.min(rate * FULL_SPEED / alone).max(1);
        last
    };
    rates.iter().map(one).collect()
}

fn rounds_per_s(work: Work, time: Duration) -> u64 {
    // A cycle through all entries: the step is odd, and the number of entries a power of two.
    let table: Vec<u32> = (0..ENTRIES as u32).map(|at| (at + 12_345) % ENTRIES as u32).collect();
    let (mut chains, mut at) = ([1_u64, 2, 3, 4], 0_u32);
    let (begin, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || begin.elapsed() < time {
        for _ in 0..ROUNDS {
            match work {
                Work::Compute => {
                    for x in &mut chains {
                        *x ^= *x << 13;
                        *x ^= *x >> 7;
                        *x ^= *x << 17;
                    }
                }
                Work::Loads => at = table[at as usize],
            }
        }
        rounds += ROUNDS;
        black_box((&mut chains, &mut at));
    }
    per_s(rounds, ns(begin.elapsed()))
}

fn per_s(count: u64, in_ns: u64) -> u64 {
    (u128::from(count) * 1_000_000_000 / u128::from(in_ns.max(1))) as u64
}

/// Size of a thread's two arrays: four times the caches that all threads have, at most an eighth of the memory that is
/// free, and no more than can be written and copied in that time.
pub(crate) fn array_bytes(caches_bytes: u64, threads: usize, time: Duration) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let in_time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).saturating_mul(SLOW_MB_PER_S);
    array_bytes_of(caches_bytes, threads as u64, available_bytes(&text)).min(in_time.max(LEAST_BYTES))
}

fn array_bytes_of(caches_bytes: u64, threads: u64, available: Option<u64>) -> u64 {
    let wanted = (4 * caches_bytes / (2 * threads)).max(LEAST_BYTES);
    wanted.min((available.unwrap_or(0) / (8 * 2 * threads)).max(LEAST_BYTES))
}

/// `MemAvailable` of /proc/meminfo.
fn available_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What these CPUs copy together, in MB/s of reads and writes. Each has two arrays of that size in memory that the CPU
/// at its place in `homes` touched first.
pub(crate) fn copied_mb_per_s(cpus: &[u32], homes: &[u32], bytes: u64, time: Duration) -> io::Result<u64> {
    let prepare = |at: usize| {
        pin::to(homes[at])?;
        let arrays = (vec![1_u64; bytes as usize / 8], vec![0_u64; bytes as usize / 8]);
        // Memory of zeros has no pages before it is written.
        let arrays = (arrays.0, {
            let mut to = arrays.1;
            to.fill(2);
            to
        });
        pin::to(cpus[at]).map(|()| arrays)
    };
    let copy = |(from, mut to): (Vec<u64>, Vec<u64>)| {
        let (begin, mut copies) = (Instant::now(), 0);
        while copies < LEAST_COPIES || begin.elapsed() < time {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
            copies += 1;
        }
        // Bytes a microsecond are MB/s.
        (u128::from(2 * copies * bytes) * 1000 / u128::from(ns(begin.elapsed()).max(1))) as u64
    };
    Ok(pin::all(cpus, prepare, copy)?.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_by_hand() {
        assert_eq!(relative(&[2000, 1250, 700]), [1024, 640, 358]);
        // Two threads that are faster than one, each: noise.
        assert_eq!(relative(&[1000, 1100, 500, 600]), [1024, 1024, 512, 512]);
        assert_eq!(relative(&[0, 0]), [1, 1]);
        assert_eq!(per_s(3, 1_500), 2_000_000);
    }

    #[test]
    fn arrays_are_larger_than_caches_and_fit_into_memory() {
        // 4 x 64 MiB over 2 threads with 2 arrays each; an eighth of 1 GiB over the same.
        assert_eq!(array_bytes_of(64 << 20, 2, Some(64 << 30)), 64 << 20);
        assert_eq!(array_bytes_of(64 << 20, 2, Some(1 << 30)), 32 << 20);
        assert_eq!(array_bytes_of(64 << 20, 2, None), LEAST_BYTES);
        assert_eq!(available_bytes("MemFree: 1 kB\nMemAvailable:   3 kB\n"), Some(3072));
        assert_eq!(available_bytes("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn copies_and_rounds_are_counted() {
        let cpu = pin::allowed(1024).unwrap()[0];
        assert!(copied_mb_per_s(&[cpu], &[cpu], 1 << 16, Duration::ZERO).unwrap() > 0);
        for work in Work::ALL {
            let speeds = speeds(&[cpu, cpu], work, Duration::ZERO).unwrap();
            assert_eq!((speeds.len(), speeds[0]), (2, FULL_SPEED));
        }
    }
}
