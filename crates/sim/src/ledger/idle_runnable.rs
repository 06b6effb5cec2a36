// SPDX-License-Identifier: GPL-2.0-or-later
//! *Idle while runnable*: CPU time during which a CPU idled, unclaimed, while a task that may run there waited behind
//! another task on a busy CPU. It is the integral over time of the number of such idle CPUs.
//!
//! It is kept incrementally. While a task without affinity limits waits, every idle CPU counts. Otherwise an idle CPU
//! counts if some waiting task with an affinity mask may run there; a count per CPU is kept for such tasks only.

#[derive(Default)]
pub(crate) struct IdleRunnable {
    sum_ns: u64,
    since_ns: u64,
    idle: Vec<bool>,
    nr_idle: u32,
    /// Waiting tasks that may run anywhere.
    unlimited: u32,
    /// Waiting tasks with a mask that holds this CPU.
    limited_on: Vec<u32>,
    /// Idle CPUs whose `limited_on` is not 0.
    nr_idle_wanted: u32,
}

impl IdleRunnable {
    pub(crate) fn new(nr_cpus: usize) -> IdleRunnable {
        IdleRunnable { idle: vec![false; nr_cpus], limited_on: vec![0; nr_cpus], ..IdleRunnable::default() }
    }

    /// The sum up to `now_ns`.
    pub(crate) fn sum_ns(&mut self, now_ns: u64) -> u64 {
        self.advance(now_ns);
        self.sum_ns
    }

    /// From now on the CPU is idle and unclaimed, or is not.
    pub(crate) fn set_idle(&mut self, cpu: u32, idle: bool, now_ns: u64) {
        let cpu = cpu as usize;
        if self.idle[cpu] == idle {
            return;
        }
        self.advance(now_ns);
        self.idle[cpu] = idle;
        let wanted = u32::from(self.limited_on[cpu] > 0);
        if idle {
            self.nr_idle += 1;
            self.nr_idle_wanted += wanted;
        } else {
            self.nr_idle -= 1;
            self.nr_idle_wanted -= wanted;
        }
    }

    /// This number of tasks without affinity limits start waiting on busy CPUs.
    pub(crate) fn add_unlimited(&mut self, tasks: u32, now_ns: u64) {
        self.advance(now_ns);
        self.unlimited += tasks;
    }

    /// This number of them stop waiting.
    pub(crate) fn sub_unlimited(&mut self, tasks: u32, now_ns: u64) {
        self.advance(now_ns);
        self.unlimited -= tasks;
    }

    /// A task that may run only on these CPUs starts waiting on a busy CPU.
    pub(crate) fn add_limited(&mut self, allowed: &[u32], now_ns: u64) {
        self.advance(now_ns);
        for &cpu in allowed {
            let cpu = cpu as usize;
            self.nr_idle_wanted += u32::from(self.idle[cpu] && self.limited_on[cpu] == 0);
            self.limited_on[cpu] += 1;
        }
    }

    /// It stops waiting.
    pub(crate) fn sub_limited(&mut self, allowed: &[u32], now_ns: u64) {
        self.advance(now_ns);
        for &cpu in allowed {
            let cpu = cpu as usize;
            self.limited_on[cpu] -= 1;
            self.nr_idle_wanted -= u32::from(self.idle[cpu] && self.limited_on[cpu] == 0);
        }
    }

    fn advance(&mut self, now_ns: u64) {
        let counted = if self.unlimited > 0 { self.nr_idle } else { self.nr_idle_wanted };
        self.sum_ns += u64::from(counted) * (now_ns - self.since_ns);
        self.since_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs 1 and 2 idle from 10; a task that may run anywhere waits from 15 to 25: 2 CPUs x 10 ns. CPU 1 is claimed at
    /// 20: 5 ns less.
    #[test]
    fn every_idle_cpu_counts_while_an_unlimited_task_waits() {
        let mut waste = IdleRunnable::new(3);
        waste.set_idle(1, true, 10);
        waste.set_idle(2, true, 10);
        waste.add_unlimited(1, 15);
        waste.set_idle(1, false, 20);
        waste.sub_unlimited(1, 25);
        assert_eq!(waste.sum_ns(100), 2 * 5 + 5);
    }

    /// The task that waits from 0 to 30 may run only on CPU 2, which idles from 10 to 20 and from 28 on.
    #[test]
    fn only_allowed_cpus_count_for_a_limited_task() {
        let mut waste = IdleRunnable::new(3);
        waste.set_idle(1, true, 0);
        waste.add_limited(&[0, 2], 0);
        waste.set_idle(2, true, 10);
        waste.set_idle(2, false, 20);
        waste.set_idle(2, true, 28);
        waste.sub_limited(&[0, 2], 30);
        assert_eq!(waste.sum_ns(50), 10 + 2);
    }
}
