// SPDX-License-Identifier: GPL-2.0-only
//! What the BPF side counted: a slot a CPU, summed and printed as the difference since the last time.

use std::fmt;

use wakelab_machine::Distance;
use wakelab_policy::{AffineReason, BalanceWhy, Reason};

use super::types::cpu_stats;

/// Sums over all CPUs, in the order of `struct cpu_stats`.
#[derive(Clone)]
pub(crate) struct Stats(cpu_stats);

impl Stats {
    /// What the first `nr_cpus` slots hold now.
    pub(crate) fn read(slots: &[cpu_stats], nr_cpus: usize) -> Stats {
        let mut sum = cpu_stats::default();
        for slot in &slots[..nr_cpus] {
            // SAFETY: a live reference. The kernel's CPUs go on counting meanwhile, but each number is read whole: it is
            // aligned and of the machine's word size. That the numbers of a slot are not of one instant does no harm.
            #[allow(unsafe_code)]
            let slot = unsafe { std::ptr::read_volatile(slot) };
            combine(&mut sum, &slot, |a, b| a + b);
        }
        Stats(sum)
    }

    /// What was counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Stats) -> Stats {
        let mut difference = self.0;
        combine(&mut difference, &earlier.0, |a, b| a.saturating_sub(b));
        Stats(difference)
    }

    /// With `--bench search`: how often the policy and the kernel's default search placed a task, and what that took in ns a
    /// time, without looking at the clock.
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

/// Rounded to the nearest; 0 of nothing.
fn mean(sum: u64, n: u64) -> u64 {
    (sum + n / 2).checked_div(n).unwrap_or(0)
}

fn combine(into: &mut cpu_stats, from: &cpu_stats, with: impl Fn(u64, u64) -> u64) {
    let arrays =
        |into: &mut [u64], from: &[u64]| into.iter_mut().zip(from).for_each(|(a, b)| *a = with(*a, *b));
    arrays(&mut into.reason, &from.reason);
    arrays(&mut into.affine_reason, &from.affine_reason);
    arrays(&mut into.select_reads, &from.select_reads);
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
    numbers.into_iter().for_each(|(a, b)| *a = with(*a, b));
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.0;
        let mean_ns = mean(s.select_ns, s.selects);
        writeln!(
            f,
            "decisions {}  mean {mean_ns} ns  searches {}  lost claims {}",
            s.selects, s.searches, s.lost_claims
        )?;
        line(f, "  reason", Reason::ALL.iter().map(|reason| reason.name()), &s.reason)?;
        line(f, "  wake-affine", AffineReason::ALL.iter().map(|reason| reason.name()), &s.affine_reason)?;
        line(f, "  reads", Distance::ALL.iter().map(|distance| distance.name()), &s.select_reads)?;
        writeln!(
            f,
            "switches in {}  migrations {}  enqueues {}  preemptions {}",
            s.switches_in, s.migrations, s.enqueues, s.preempts
        )?;
        let why = || BalanceWhy::ALL.iter().map(|why| why.name());
        line(f, "  pulls tried", why(), &s.pull_tries)?;
        line(f, "  tasks pulled", why(), &s.pulled)?;
        writeln!(f, "  lost races {}  rescued {}  global queue {}", s.pull_races, s.rescued, s.global)
    }
}

/// `  title  name number  name number`, those that are 0 left out.
fn line(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    names: impl Iterator<Item = &'static str>,
    numbers: &[u64],
) -> fmt::Result {
    write!(f, "{title}")?;
    for (name, number) in names.zip(numbers).filter(|(_, number)| **number > 0) {
        write!(f, "  {name} {number}")?;
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_summed_and_differences_shown() {
        let mut slots = vec![cpu_stats::default(), cpu_stats::default(), cpu_stats::default()];
        slots[0].selects = 3;
        slots[0].select_ns = 700;
        slots[0].reason[Reason::TargetIdle as usize] = 3;
        let earlier = Stats::read(&slots, 2);
        slots[1].selects = 4;
        slots[1].select_ns = 1000;
        slots[1].reason[Reason::IdleCore as usize] = 4;
        slots[2].selects = 99; // beyond the machine
        let now = Stats::read(&slots, 2);
        let text = now.to_string();
        assert!(text.starts_with("decisions 7  mean 243 ns"), "{text}");
        assert!(text.contains("  reason  target-idle 3  idle-core 4\n"), "{text}");
        let text = now.since(&earlier).to_string();
        assert!(text.starts_with("decisions 4  mean 250 ns"), "{text}");
        assert!(text.contains("  reason  idle-core 4\n"), "{text}");
    }

    #[test]
    fn what_searches_took_is_without_the_clock() {
        let mut slots = vec![cpu_stats::default(), cpu_stats::default()];
        // 10 of the policy in 3,000 ns, 8 of the kernel in 2,000 ns, and one more of each that another CPU's turn was in; a look
        // at the clock takes 450 / 9 = 50 ns.
        (slots[0].timed, slots[0].timed_ns, slots[0].clock_ns) = ([5, 3], [1000, 500], 100);
        (slots[1].timed, slots[1].timed_ns, slots[1].clock_ns) = ([6, 6], [2000, 1500], 350);
        (slots[0].turned, slots[1].turned) = ([1, 0], [0, 1]);
        assert_eq!(
            Stats::read(&slots, 2).search(),
            "search: policy 10 times 250 ns, default 8 times 200 ns, clock 50 ns, left out 2"
        );
    }
}
