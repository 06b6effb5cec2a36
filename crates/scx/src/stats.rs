// SPDX-License-Identifier: GPL-2.0-only
//! What the BPF side counted: a slot a CPU, summed and named.

use wakelab_machine::Distance;
use wakelab_policy::{AffineReason, BalanceWhy, Reason};

use super::types::cpu_stats;
use crate::metrics::{Counts, Metrics, mean};

/// Sums over all CPUs.
pub(crate) struct Stats(cpu_stats);

impl Stats {
    /// What the first `nr_cpus` slots hold now.
    pub(crate) fn read(slots: &[cpu_stats], nr_cpus: usize) -> Stats {
        let mut sum = cpu_stats::default();
        for slot in &slots[..nr_cpus] {
            // SAFETY: a live reference. The kernel's CPUs go on counting meanwhile, but each number is read whole: it
            // is aligned and of the machine's word size. That the numbers of a slot are not of one instant does no
            // harm.
            #[allow(unsafe_code)]
            let slot = unsafe { std::ptr::read_volatile(slot) };
            add(&mut sum, &slot);
        }
        Stats(sum)
    }

    /// By name. What only the loader knows is left at 0.
    pub(crate) fn metrics(&self) -> Metrics {
        let s = &self.0;
        let why = || BalanceWhy::ALL.iter().map(|why| why.name());
        let distance = || Distance::ALL.iter().map(|distance| distance.name());
        let bucket = |(at, &count): (usize, &u64)| (count > 0).then_some((1 << at, count));
        Metrics {
            decisions: s.selects,
            decision_ns: s.select_ns,
            reasons: named(Reason::ALL.iter().map(|reason| reason.name()), &s.reason),
            wake_affine: named(AffineReason::ALL.iter().map(|reason| reason.name()), &s.affine_reason),
            reads: named(distance(), &s.select_reads),
            searches: s.searches,
            search_ns: s.search_ns,
            searches_from_ns: s.search_times.iter().enumerate().filter_map(bucket).collect(),
            lost_claims: s.lost_claims,
            switches_in: s.switches_in,
            migrations: s.migrations,
            migrations_by_distance: named(distance(), &s.moved),
            enqueues: s.enqueues,
            preemptions: s.preempts,
            dispatches: s.dispatches,
            pulls_tried: named(why(), &s.pull_tries),
            tasks_pulled: named(why(), &s.pulled),
            pull_races: s.pull_races,
            rescued: s.rescued,
            global_queue: s.global,
            ..Metrics::default()
        }
    }

    /// With `--bench search`: how often the policy and the kernel's default search placed a task, and what that took in
    /// ns a time, without looking at the clock.
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

/// Those above 0.
fn named(names: impl Iterator<Item = &'static str>, counts: &[u64]) -> Counts {
    let counted = names.zip(counts).filter(|(_, count)| **count > 0);
    counted.map(|(name, count)| (name.to_owned(), *count)).collect()
}

fn add(into: &mut cpu_stats, from: &cpu_stats) {
    let arrays = |into: &mut [u64], from: &[u64]| into.iter_mut().zip(from).for_each(|(a, b)| *a += b);
    arrays(&mut into.reason, &from.reason);
    arrays(&mut into.affine_reason, &from.affine_reason);
    arrays(&mut into.select_reads, &from.select_reads);
    arrays(&mut into.search_times, &from.search_times);
    arrays(&mut into.moved, &from.moved);
    arrays(&mut into.pull_tries, &from.pull_tries);
    arrays(&mut into.pulled, &from.pulled);
    arrays(&mut into.timed, &from.timed);
    arrays(&mut into.timed_ns, &from.timed_ns);
    arrays(&mut into.turned, &from.turned);
    let numbers = [
        (&mut into.selects, from.selects),
        (&mut into.searches, from.searches),
        (&mut into.lost_claims, from.lost_claims),
        (&mut into.select_ns, from.select_ns),
        (&mut into.search_ns, from.search_ns),
        (&mut into.clock_ns, from.clock_ns),
        (&mut into.enqueues, from.enqueues),
        (&mut into.preempts, from.preempts),
        (&mut into.dispatches, from.dispatches),
        (&mut into.pull_races, from.pull_races),
        (&mut into.switches_in, from.switches_in),
        (&mut into.migrations, from.migrations),
        (&mut into.rescued, from.rescued),
        (&mut into.global, from.global),
    ];
    numbers.into_iter().for_each(|(a, b)| *a += b);
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
