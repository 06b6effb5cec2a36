// SPDX-License-Identifier: GPL-2.0-only
//! The BPF side's counts: read from one slot per CPU, summed, and named by the table in metrics.rs.

use std::collections::BTreeMap;

use wakelab_machine::Distance;
use wakelab_policy::{AffineReason, BalanceWhy, Reason};

use super::types::cpu_stats;
use crate::metrics::{Counts, Metrics, counters, mean};

/// Sums of the counters over all CPUs.
pub(crate) struct Stats(cpu_stats);

impl Stats {
    /// Returns the sums of the first `nr_cpus` slots as they are now.
    pub(crate) fn read(slots: &[cpu_stats], nr_cpus: usize) -> Stats {
        let mut sum = cpu_stats::default();
        for slot in &slots[..nr_cpus] {
            // SAFETY: a live reference. The CPUs continue to count during the read, but each number is aligned and as
            // wide as the machine's word, so it is read whole. The numbers of a slot may be of different instants.
            #[allow(unsafe_code)]
            let slot = unsafe { std::ptr::read_volatile(slot) };
            add(&mut sum, &slot);
        }
        Stats(sum)
    }

    /// Returns the line of `--bench search`: how many tasks the policy and the kernel's default search placed, and the
    /// mean time of each in ns, less the time that reading the clock takes.
    pub(crate) fn search(&self) -> String {
        let s = &self.0;
        let clock_ns = mean(s.clock_ns, s.timed[1]);
        let [n, default_n] = [0, 1].map(|at| s.timed[at] - s.turned[at]);
        let policy = mean(s.timed_ns[0], n).saturating_sub(clock_ns);
        let default = mean(s.timed_ns[1], default_n).saturating_sub(clock_ns);
        let turned = s.turned[0] + s.turned[1];
        format!(
            "search: policy {n} times {policy} ns, default {default_n} times {default} ns, clock {clock_ns} ns, left out {turned}"
        )
    }
}

/// Returns the counts above 0 by name.
fn named(names: impl Iterator<Item = &'static str>, counts: &[u64]) -> Counts {
    let counted = names.zip(counts).filter(|(_, count)| **count > 0);
    counted.map(|(name, count)| (name.to_owned(), *count)).collect()
}

/// A counter, or an array of them.
trait Sum {
    fn add(&mut self, other: &Self);
}

impl Sum for u64 {
    fn add(&mut self, other: &u64) {
        *self += other;
    }
}

impl<const N: usize> Sum for [u64; N] {
    fn add(&mut self, other: &[u64; N]) {
        self.iter_mut().zip(other).for_each(|(sum, count)| *sum += count);
    }
}

macro_rules! define_reading {
    (
        numbers { $($number:ident = $number_field:ident, $number_desc:literal;)* }
        named { $($named:ident = $named_field:ident by $by:ident, $named_desc:literal;)* }
        times { $($times:ident = $times_field:ident, $times_desc:literal;)* }
        bench { $($bench:ident)* }
    ) => {
        fn add(into: &mut cpu_stats, from: &cpu_stats) {
            $(into.$number_field.add(&from.$number_field);)*
            $(into.$named_field.add(&from.$named_field);)*
            $(into.$times_field.add(&from.$times_field);)*
            $(into.$bench.add(&from.$bench);)*
        }

        impl Stats {
            /// Returns the counts by name. What only the loader knows is left at 0.
            pub(crate) fn metrics(&self) -> Metrics {
                Metrics {
                    $($number: self.0.$number_field,)*
                    $($named: named($by::ALL.iter().map(|value| value.name()), &self.0.$named_field),)*
                    $($times: by_time(&self.0.$times_field),)*
                    ..Metrics::default()
                }
            }
        }
    };
}

counters!(define_reading);

/// Returns the histogram's counts above 0 by the least time of their bucket in ns: bucket b begins at 2^b.
fn by_time(buckets: &[u64]) -> BTreeMap<u64, u64> {
    let counted = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    counted.map(|(bucket, count)| (1 << bucket, *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_summed_and_named() {
        let mut slots = vec![cpu_stats::default(), cpu_stats::default(), cpu_stats::default()];
        slots[0].selects = 3;
        slots[0].select_ns = 700;
        slots[0].reason[Reason::TargetIdle as usize] = 3;
        slots[0].search_times[9] = 1;
        slots[1].selects = 4;
        slots[1].select_ns = 1000;
        slots[1].reason[Reason::IdleCore as usize] = 4;
        slots[1].search_times[9] = 2;
        slots[1].moved[Distance::Llc as usize] = 5;
        slots[2].selects = 99; // beyond the machine
        let metrics = Stats::read(&slots, 2).metrics();
        assert_eq!((metrics.decisions, metrics.decision_ns), (7, 1700));
        assert_eq!(metrics.reasons, [("target-idle".to_owned(), 3), ("idle-core".to_owned(), 4)].into());
        // 512 to 1023 ns.
        assert_eq!(metrics.searches_from_ns, [(512, 3)].into());
        assert_eq!(metrics.migrations_by_distance, [("llc".to_owned(), 5)].into());
    }

    #[test]
    fn what_searches_took_is_without_the_clock() {
        let mut slots = vec![cpu_stats::default(), cpu_stats::default()];
        // 10 of the policy in 3,000 ns, 8 of the kernel in 2,000 ns, and one more of each that another CPU's turn was
        // in; a look at the clock takes 450 / 9 = 50 ns.
        (slots[0].timed, slots[0].timed_ns, slots[0].clock_ns) = ([5, 3], [1000, 500], 100);
        (slots[1].timed, slots[1].timed_ns, slots[1].clock_ns) = ([6, 6], [2000, 1500], 350);
        (slots[0].turned, slots[1].turned) = ([1, 0], [0, 1]);
        assert_eq!(
            Stats::read(&slots, 2).search(),
            "search: policy 10 times 250 ns, default 8 times 200 ns, clock 50 ns, left out 2"
        );
    }
}
