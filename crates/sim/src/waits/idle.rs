// SPDX-License-Identifier: GPL-2.0-or-later
//! For each set of CPUs on which some task may run: for how long at least one of them stood idle and unclaimed.
//!
//! Tasks with the same set share its clock. A change of a CPU touches the clocks of the sets that hold the CPU.

use std::collections::BTreeMap;

/// A set of CPUs.
#[derive(Default)]
struct Clock {
    nr_idle: u32,
    /// The time with an idle CPU, up to `since_ns`.
    sum_ns: u64,
    since_ns: u64,
}

pub(crate) struct IdleTimes {
    idle: Vec<bool>,
    clocks: Vec<Clock>,
    /// The clock of each task.
    of_task: Vec<u32>,
    /// The clocks of each CPU.
    of_cpu: Vec<Vec<u32>>,
}

impl IdleTimes {
    /// No CPU is idle; `allowed` says for each task where it may run.
    pub(crate) fn new<'a>(nr_cpus: usize, allowed: impl Iterator<Item = Option<&'a [u32]>>) -> IdleTimes {
        let mut times = IdleTimes {
            idle: vec![false; nr_cpus],
            clocks: vec![Clock::default()],
            of_task: Vec::new(),
            of_cpu: vec![vec![0]; nr_cpus],
        };
        let mut known: BTreeMap<&[u32], u32> = BTreeMap::new();
        for allowed in allowed {
            let Some(allowed) = allowed.filter(|allowed| allowed.len() < nr_cpus) else {
                times.of_task.push(0);
                continue;
            };
            let clock = *known.entry(allowed).or_insert_with(|| {
                let clock = times.clocks.len() as u32;
                times.clocks.push(Clock::default());
                let cpus = allowed.iter().filter(|&&cpu| (cpu as usize) < nr_cpus);
                cpus.for_each(|&cpu| times.of_cpu[cpu as usize].push(clock));
                clock
            });
            times.of_task.push(clock);
        }
        times
    }

    /// From now on the CPU is idle and unclaimed, or is not.
    pub(crate) fn set(&mut self, cpu: u32, idle: bool, now_ns: u64) {
        if std::mem::replace(&mut self.idle[cpu as usize], idle) == idle {
            return;
        }
        for &clock in &self.of_cpu[cpu as usize] {
            let clock = &mut self.clocks[clock as usize];
            clock.sum_ns = clock.time_ns(now_ns);
            clock.since_ns = now_ns;
            clock.nr_idle = if idle { clock.nr_idle + 1 } else { clock.nr_idle - 1 };
        }
    }

    /// How long a CPU stood idle on which the task may run, from the beginning of the run to now.
    pub(crate) fn time_ns(&self, task: u32, now_ns: u64) -> u64 {
        self.clocks[self.of_task[task as usize] as usize].time_ns(now_ns)
    }

    /// The CPUs that are idle and unclaimed, in ascending order.
    pub(crate) fn idle_cpus(&self) -> Vec<u32> {
        (0..self.idle.len() as u32).filter(|&cpu| self.idle[cpu as usize]).collect()
    }
}

impl Clock {
    fn time_ns(&self, now_ns: u64) -> u64 {
        self.sum_ns + if self.nr_idle > 0 { now_ns - self.since_ns } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Task 0 may run anywhere, tasks 1 and 2 on CPUs 1 and 2. CPU 0 idles from 10 to 40, CPU 2 from 30 to 50.
    #[test]
    fn two_idle_cpus_count_once() {
        let sets = [None, Some(&[1, 2][..]), Some(&[1, 2][..])];
        let mut times = IdleTimes::new(3, sets.into_iter());
        assert_eq!(times.clocks.len(), 2);
        times.set(0, true, 10);
        times.set(0, true, 20);
        times.set(2, true, 30);
        assert_eq!(times.idle_cpus(), [0, 2]);
        times.set(0, false, 40);
        times.set(2, false, 50);
        assert_eq!([0, 1, 2].map(|task| times.time_ns(task, 100)), [40, 20, 20]);
    }
}
