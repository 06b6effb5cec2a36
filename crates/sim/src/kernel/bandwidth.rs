// SPDX-License-Identifier: GPL-2.0-or-later
//! The books of bandwidth control (cpu.max): how much CPU time each limited group may still use. quota.rs acts on them.
//!
//! A group with a quota has a pool, which its period's timer fills up to the quota. A CPU takes slices of 5 ms out of
//! the pool ([`SLICE_NS`], sched_cfs_bandwidth_slice_us) and charges its tasks' time to what it has. If it has used
//! that up and the pool is empty, the group is throttled there: its tasks do not run on that CPU. When the pool is
//! filled, throttled CPUs get what they lack and 1 ns, in the order in which they were throttled, as far as the pool
//! reaches; who has more than nothing may run, and takes a slice when it is charged next. Time is charged at ticks and
//! switches, so that a CPU may use up to a tick more than it has. It owes that to the next period.
//!
//! - A CPU on which no task of the group is left keeps 1 ms ([`KEPT_NS`]) and gives the rest back. If other CPUs are
//!   throttled and the pool has more than a slice then, they get it 5 ms later ([`SLACK_NS`]), unless the period ends
//!   within 7 ms.
//! - The timer stops after a period in which nothing was taken and nothing is throttled. It starts when something is
//!   taken, on the grid of its periods.
//! - A group in a group is charged to both, and runs where neither is throttled.
//!
//! Worked example: 30 ms in each 100 ms, one CPU, a task that only computes, ticks every 4 ms. The CPU takes 5 ms when
//! the task is queued, and has 1 ms at 4 ms. At 8 ms it has -3 ms and takes 8, so that it has 5 again; the pool has 17.
//! So it goes on until the pool has 1 ms left, at 24 ms. At 32 ms the CPU has -3 ms, takes that, and the group is
//! throttled with -2 ms. When the pool is filled, it gets 2 ms and 1 ns, and the task runs. Over many periods it gets
//! 30 ms in each.
//!
//! This is the mechanism of kernel/sched/fair.c (account_cfs_rq_runtime, distribute_cfs_runtime,
//! do_sched_cfs_period_timer, do_sched_cfs_slack_timer). Bursts (cpu.max.burst) are absent.

use std::collections::VecDeque;

use wakelab_workload::{Group, GroupIndex};

/// What a CPU takes out of the pool: it has this much afterwards.
pub(crate) const SLICE_NS: i64 = 5_000_000;
/// What a CPU keeps on which no task of the group is left: min_cfs_rq_runtime.
const KEPT_NS: i64 = 1_000_000;
/// How much later what was given back is given out: cfs_bandwidth_slack_period.
const SLACK_NS: u64 = 5_000_000;
/// Nothing is given out if the period ends within this: min_bandwidth_expiration.
const EXPIRES_NS: u64 = 2_000_000;

/// The pool of one limited group.
struct Pool {
    group: GroupIndex,
    quota_ns: i64,
    period_ns: u64,
    left_ns: i64,
    /// When its timer fires next. Times before the first start count, too: they are the grid.
    fires_ns: u64,
    /// Whether the timer runs.
    is_active: bool,
    /// Whether nothing was taken since the timer fired.
    is_idle: bool,
    /// When what was given back is given out.
    slack_ns: Option<u64>,
    /// The CPUs on which the group is throttled, in the order in which that happened.
    throttled: VecDeque<u32>,
    /// The CPU whose taking started the timer: it handles it.
    cpu: u32,
    /// For all CPUs together: how long the group was throttled.
    throttled_ns: u64,
}

/// What a limited group has on a CPU.
#[derive(Clone, Copy, Default)]
struct Local {
    left_ns: i64,
    throttled_since_ns: Option<u64>,
}

/// All limited groups.
pub(crate) struct Bandwidth {
    pools: Vec<Pool>,
    /// By pool and CPU.
    locals: Vec<Local>,
    nr_cpus: usize,
    /// For each group: the pools of itself and the groups above, innermost first.
    chains: Vec<Vec<usize>>,
}

/// A CPU on which a group is no longer throttled, and the CPU whose timer did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) cpu: u32,
    pub(crate) by: u32,
}

impl Bandwidth {
    /// `None` if no group has a quota. `phase_ns` says where a group's periods begin.
    pub(crate) fn new(
        groups: &[Group],
        nr_cpus: usize,
        phase_ns: impl Fn(GroupIndex, u64) -> u64,
    ) -> Option<Bandwidth> {
        let limited = groups.iter().enumerate().filter_map(|(group, spec)| Some((group as u32, spec.quota?)));
        let pools: Vec<Pool> = limited
            .map(|(group, quota)| Pool {
                group,
                quota_ns: quota.quota_ns as i64,
                period_ns: quota.period_ns,
                left_ns: quota.quota_ns as i64,
                fires_ns: phase_ns(group, quota.period_ns),
                is_active: false,
                is_idle: true,
                slack_ns: None,
                throttled: VecDeque::new(),
                cpu: 0,
                throttled_ns: 0,
            })
            .collect();
        let chain = |group: usize| {
            let above = std::iter::successors(Some(group as u32), |&at| groups[at as usize].parent);
            above.filter_map(|at| pools.iter().position(|pool| pool.group == at)).collect()
        };
        let chains = (0..groups.len()).map(chain).collect();
        let locals = vec![Local::default(); pools.len() * nr_cpus];
        (!pools.is_empty()).then_some(Bandwidth { pools, locals, nr_cpus, chains })
    }

    /// Charges CPU time to a group and those above. Returns whether one of them is throttled there now.
    pub(crate) fn charge(&mut self, group: GroupIndex, cpu: u32, ran_ns: u64, now_ns: u64) -> bool {
        for at in 0..self.chains[group as usize].len() {
            let pool = self.chains[group as usize][at];
            self.locals[pool * self.nr_cpus + cpu as usize].left_ns -= ran_ns as i64;
        }
        !self.admit(group, cpu, now_ns)
    }

    /// Whether a task of the group may run or wait on `cpu`. Throttles groups that have nothing left there.
    pub(crate) fn admit(&mut self, group: GroupIndex, cpu: u32, now_ns: u64) -> bool {
        let mut may_run = true;
        for at in 0..self.chains[group as usize].len() {
            let pool = self.chains[group as usize][at];
            let local = self.locals[pool * self.nr_cpus + cpu as usize];
            if local.throttled_since_ns.is_none() && local.left_ns <= 0 {
                self.take(pool, cpu, now_ns);
            }
            may_run &= self.locals[pool * self.nr_cpus + cpu as usize].throttled_since_ns.is_none();
        }
        may_run
    }

    /// Whether the group, or one above, is throttled on `cpu`.
    pub(crate) fn is_throttled(&self, group: GroupIndex, cpu: u32) -> bool {
        let local = |pool: &usize| self.locals[pool * self.nr_cpus + cpu as usize];
        self.chains[group as usize].iter().any(|pool| local(pool).throttled_since_ns.is_some())
    }

    /// Takes a slice out of a pool; throttles the CPU if that does not leave it with anything.
    fn take(&mut self, number: usize, cpu: u32, now_ns: u64) {
        let pool = &mut self.pools[number];
        let local = &mut self.locals[number * self.nr_cpus + cpu as usize];
        if !pool.is_active {
            if pool.fires_ns <= now_ns {
                pool.fires_ns += ((now_ns - pool.fires_ns) / pool.period_ns + 1) * pool.period_ns;
            }
            pool.is_active = true;
            pool.cpu = cpu;
        }
        let taken_ns = pool.left_ns.min(SLICE_NS - local.left_ns);
        if taken_ns > 0 {
            pool.left_ns -= taken_ns;
            local.left_ns += taken_ns;
            pool.is_idle = false;
        }
        if local.left_ns <= 0 {
            local.throttled_since_ns = Some(now_ns);
            pool.throttled.push_back(cpu);
        }
    }

    /// No task of the group is left on `cpu`; `is_empty` says the same of the groups above.
    pub(crate) fn leave(
        &mut self,
        group: GroupIndex,
        cpu: u32,
        now_ns: u64,
        mut is_empty: impl FnMut(GroupIndex) -> bool,
    ) {
        for at in 0..self.chains[group as usize].len() {
            let number = self.chains[group as usize][at];
            let pool = &mut self.pools[number];
            let local = &mut self.locals[number * self.nr_cpus + cpu as usize];
            if local.left_ns <= KEPT_NS || !is_empty(pool.group) {
                continue;
            }
            pool.left_ns += local.left_ns - KEPT_NS;
            local.left_ns = KEPT_NS;
            let ends_soon = pool.fires_ns < now_ns + SLACK_NS + EXPIRES_NS;
            if pool.left_ns > SLICE_NS && !pool.throttled.is_empty() && pool.slack_ns.is_none() && !ends_soon
            {
                pool.slack_ns = Some(now_ns + SLACK_NS);
            }
        }
    }

    /// When [`Bandwidth::expire`] has something to do.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let fires = self.pools.iter().filter(|pool| pool.is_active).map(|pool| pool.fires_ns);
        fires.chain(self.pools.iter().filter_map(|pool| pool.slack_ns)).min()
    }

    /// Timers fire. Returns where groups are no longer throttled.
    pub(crate) fn expire(&mut self, now_ns: u64) -> Vec<Released> {
        let mut released = Vec::new();
        for number in 0..self.pools.len() {
            let pool = &mut self.pools[number];
            if pool.is_active && pool.fires_ns <= now_ns {
                pool.fires_ns += pool.period_ns;
                pool.is_active = !(pool.is_idle && pool.throttled.is_empty());
                pool.is_idle = true;
                pool.left_ns = pool.quota_ns;
                self.give_out(number, now_ns, &mut released);
            }
            let pool = &mut self.pools[number];
            if pool.slack_ns.is_some_and(|at_ns| at_ns <= now_ns) {
                pool.slack_ns = None;
                if pool.left_ns > SLICE_NS && pool.fires_ns >= now_ns + EXPIRES_NS {
                    self.give_out(number, now_ns, &mut released);
                }
            }
        }
        released
    }

    /// Gives throttled CPUs what they lack and 1 ns, as far as the pool reaches.
    fn give_out(&mut self, number: usize, now_ns: u64, released: &mut Vec<Released>) {
        let pool = &mut self.pools[number];
        for _ in 0..pool.throttled.len() {
            let Some(cpu) = pool.throttled.pop_front() else { break };
            let local = &mut self.locals[number * self.nr_cpus + cpu as usize];
            let given_ns = pool.left_ns.min(1 - local.left_ns).max(0);
            pool.left_ns -= given_ns;
            local.left_ns += given_ns;
            if given_ns > 0 {
                pool.is_idle = false;
            }
            if local.left_ns <= 0 {
                pool.throttled.push_back(cpu);
                continue;
            }
            let since_ns = local.throttled_since_ns.take().unwrap_or(now_ns);
            pool.throttled_ns += now_ns - since_ns;
            released.push(Released { cpu, by: pool.cpu });
        }
    }

    /// How long a group was throttled until now, on all CPUs together.
    pub(crate) fn throttled_ns(&self, group: GroupIndex, now_ns: u64) -> u64 {
        let Some(number) = self.pools.iter().position(|pool| pool.group == group) else { return 0 };
        let locals = &self.locals[number * self.nr_cpus..(number + 1) * self.nr_cpus];
        let since = locals.iter().filter_map(|local| local.throttled_since_ns);
        self.pools[number].throttled_ns + since.map(|since_ns| now_ns - since_ns).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use wakelab_workload::Quota;

    use super::*;

    const MS: u64 = 1_000_000;

    fn group(parent: Option<u32>, quota_ms: Option<u64>) -> Group {
        let quota = quota_ms.map(|quota_ms| Quota { quota_ns: quota_ms * MS, period_ns: 100 * MS });
        Group { name: "g".to_owned(), parent, shares: 1024, quota }
    }

    fn books(groups: &[Group], nr_cpus: usize) -> Bandwidth {
        Bandwidth::new(groups, nr_cpus, |_, _| 0).expect("a group has a quota")
    }

    /// What the pool and the CPUs of the first limited group have, in ms.
    fn left(books: &Bandwidth) -> (i64, Vec<i64>) {
        let ms = |ns: i64| ns.div_euclid(MS as i64);
        let locals = books.locals[..books.nr_cpus].iter().map(|local| ms(local.left_ns)).collect();
        (ms(books.pools[0].left_ns), locals)
    }

    /// The header's example.
    #[test]
    fn a_group_uses_its_quota_and_pays_its_debt() {
        let mut books = books(&[group(None, Some(30))], 1);
        assert!(books.admit(0, 0, 0));
        assert_eq!((left(&books), books.next_ns()), ((25, vec![5]), Some(100 * MS)));
        let expected = [(25, 1), (17, 5), (17, 1), (9, 5), (9, 1), (1, 5), (1, 1), (0, -2)];
        for (tick, (pool, local)) in (1..).zip(expected) {
            assert_eq!(books.charge(0, 0, 4 * MS, tick * 4 * MS), tick == 8, "tick {tick}");
            assert_eq!(left(&books), (pool, vec![local]), "tick {tick}");
        }
        assert!(books.is_throttled(0, 0) && !books.admit(0, 0, 50 * MS));
        assert_eq!(books.throttled_ns(0, 50 * MS), 18 * MS);
        assert_eq!(books.expire(100 * MS), [Released { cpu: 0, by: 0 }]);
        assert_eq!(books.locals[0].left_ns, 1);
        assert_eq!((books.pools[0].left_ns, books.throttled_ns(0, 200 * MS)), (27_999_999, 68 * MS));
        // Once more charged, it takes a slice, as at the beginning.
        assert!(!books.charge(0, 0, 4 * MS, 104 * MS));
        assert_eq!(left(&books).1, [5]);
    }

    /// A period without a taker stops the timer; the next taker starts it on the same grid.
    #[test]
    fn the_timer_stops_when_nothing_is_taken() {
        let mut books = books(&[group(None, Some(30))], 1);
        books.admit(0, 0, 250 * MS);
        assert_eq!(books.next_ns(), Some(300 * MS));
        assert_eq!((books.expire(300 * MS), books.next_ns()), (vec![], Some(400 * MS)));
        assert_eq!((books.expire(400 * MS), books.next_ns()), (vec![], None));
        books.charge(0, 0, 6 * MS, 777 * MS);
        assert_eq!(books.next_ns(), Some(800 * MS));
    }

    /// Two CPUs share 10 ms. CPU 1 leaves 4 of its 5 ms, but that is less than a slice; then CPU 0 leaves, too.
    #[test]
    fn what_is_given_back_goes_to_those_that_wait() {
        let mut books = books(&[group(None, Some(20))], 3);
        for cpu in 0..3 {
            assert!(books.admit(0, cpu, 0));
        }
        assert!(!books.charge(0, 2, 4 * MS, 4 * MS) && !books.charge(0, 2, 4 * MS, 8 * MS));
        assert!(books.charge(0, 2, 4 * MS, 12 * MS), "5 + 5 of 12 ms, and the pool is empty");
        assert_eq!(left(&books), (0, vec![5, 5, -2]));
        books.leave(0, 1, 12 * MS, |_| true);
        assert_eq!((left(&books), books.next_ns()), ((4, vec![5, 1, -2]), Some(100 * MS)));
        books.leave(0, 0, 13 * MS, |_| false);
        assert_eq!(left(&books).0, 4, "a task of the group is left there");
        books.leave(0, 0, 14 * MS, |_| true);
        assert_eq!((left(&books), books.next_ns()), ((8, vec![1, 1, -2]), Some(19 * MS)));
        assert_eq!(books.expire(19 * MS), [Released { cpu: 2, by: 0 }]);
        assert_eq!((left(&books), books.throttled_ns(0, 90 * MS)), ((5, vec![1, 1, 0]), 7 * MS));
        // It is not worth it shortly before the period ends.
        books.charge(0, 2, 12 * MS, 93 * MS);
        books.pools[0].left_ns = 0;
        books.charge(0, 2, 12 * MS, 94 * MS);
        books.pools[0].left_ns = 6 * MS as i64;
        books.locals[0].left_ns = 2 * MS as i64;
        books.leave(0, 0, 94 * MS, |_| true);
        assert_eq!(books.next_ns(), Some(100 * MS));
    }

    /// The pool does not reach for both: who was throttled first gets it.
    #[test]
    fn throttled_cpus_get_their_debts_in_order() {
        let mut books = books(&[group(None, Some(10))], 2);
        books.admit(0, 1, 0);
        books.admit(0, 0, 0);
        assert!(books.charge(0, 1, 12 * MS, 12 * MS) && books.charge(0, 0, 13 * MS, 13 * MS));
        assert_eq!(left(&books), (0, vec![-8, -7]));
        assert_eq!(books.expire(100 * MS), [Released { cpu: 1, by: 1 }]);
        assert!(books.is_throttled(0, 0));
        assert_eq!(left(&books), (0, vec![-6, 0]));
        assert_eq!(books.expire(200 * MS), [Released { cpu: 0, by: 1 }]);
    }

    /// Group 1 in group 0: both are charged, and either throttles. Group 2 has no quota and no limit above.
    #[test]
    fn a_group_in_a_group_is_charged_to_both() {
        let mut books = books(&[group(None, Some(8)), group(Some(0), Some(50)), group(None, None)], 1);
        assert!(books.admit(1, 0, 0));
        assert!(!books.charge(1, 0, 4 * MS, 4 * MS));
        assert!(books.charge(1, 0, 4 * MS, 8 * MS), "the group above has used its 8 ms");
        assert!(books.is_throttled(0, 0) && books.is_throttled(1, 0) && !books.is_throttled(2, 0));
        assert_eq!((books.throttled_ns(0, 10 * MS), books.throttled_ns(1, 10 * MS)), (2 * MS, 0));
        assert!(books.admit(2, 0, 8 * MS));
        assert!(Bandwidth::new(&[group(None, None)], 1, |_, _| 0).is_none());
    }
}
