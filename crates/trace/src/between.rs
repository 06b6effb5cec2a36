// SPDX-License-Identifier: GPL-2.0-or-later
//! What tasks do between two messages, and what that tells of the kernel's costs.
//!
//! A task takes some CPU time from one message event to the next. If it wakes a task between them, sleeps, or is
//! preempted, it takes more. A recording with messages shows both in one program, and the difference of the means is
//! what a wake-up, a sleep, or a switch costs, all of it. Other events tell parts: a wake-up begins before sched_waking
//! and goes on after sched_wakeup.
//!
//! Pairs of events are told apart by task name and by the kinds of both events, because what a program does between
//! differs by kind. The differences of all kinds are joined, weighted by the numbers of pairs in which something
//! happened.
//!
//! Worked example: a program takes 450 ns from one message that it sends to the next, and 1,380 in 30 pairs where it
//! wakes a task; and 2,000 ns from a message that it reads to one that it sends, and 3,330 in 10 pairs with a wake-up.
//! A wake-up costs (30 * 930 + 10 * 1,330) / 40 = 1,030 ns.
//!
//! Only short pairs count ([`SHORT_NS`]): in a long one something is more likely to happen the longer it takes, so the
//! two kinds differ in the program's own work.
//!
//! It fails where a program does other work in pairs in which it wakes or sleeps.

use std::collections::BTreeMap;

/// The fewest samples that teach a figure.
pub(crate) const FEWEST: usize = 20;

/// A wake-up has three events: sched_waking, sched_stat_runtime and sched_wakeup.
pub(crate) const EVENTS_OF_WAKE: u64 = 3;

/// A switch has two: sched_stat_runtime and sched_switch.
const EVENTS_OF_SWITCH: u64 = 2;

/// The longest usual time from one message to the next that tells what the kernel costs.
const SHORT_NS: u64 = 6_000;

/// The kind of a message event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// A message was queued for its receiver.
    Ready,
    /// A message was sent.
    Sent,
    /// A message was received.
    Received,
    /// A task asked for a message, and there was none.
    Nothing,
}

/// CPU times from one message event to the next, by what happened between them. The two kinds of switch are those
/// between threads of a process, or from idle, and those between processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// Those between which nothing happened.
    pub at_once_ns: Vec<u64>,
    /// The task woke another one on its own CPU.
    pub after_wake_ns: Vec<u64>,
    /// It slept once, by the kind of the switch back.
    pub after_sleep_ns: [Vec<u64>; 2],
    /// It was preempted once, by the kind of the switch back.
    pub after_preemption_ns: [Vec<u64>; 2],
}

/// [`Between`] by task name and the kinds of both events.
pub type Pairs = BTreeMap<(String, Mark, Mark), Between>;

impl Between {
    /// Adds the samples of another task.
    pub(crate) fn join(&mut self, other: Between) {
        self.at_once_ns.extend(other.at_once_ns);
        self.after_wake_ns.extend(other.after_wake_ns);
        for kind in [0, 1] {
            self.after_sleep_ns[kind].extend(&other.after_sleep_ns[kind]);
            self.after_preemption_ns[kind].extend(&other.after_preemption_ns[kind]);
        }
    }

    /// Takes off what the recorder's events cost: those of a wake-up, and those of a sleep's or a preemption's switch.
    pub(crate) fn without_recorder(&mut self, event_cost_ns: u64) {
        let less = |samples_ns: &mut Vec<u64>, events: u64| {
            samples_ns.iter_mut().for_each(|ns| *ns = ns.saturating_sub(events * event_cost_ns));
        };
        less(&mut self.after_wake_ns, EVENTS_OF_WAKE);
        for kind in [0, 1] {
            less(&mut self.after_sleep_ns[kind], EVENTS_OF_SWITCH);
            less(&mut self.after_preemption_ns[kind], EVENTS_OF_SWITCH);
        }
    }
}

/// Returns what a wake-up costs, and the number of pairs that tell.
pub(crate) fn wake_ns(pairs: &Pairs) -> Option<(usize, u64)> {
    more_ns(pairs, |between| between.after_wake_ns.clone())
}

/// Returns what a sleep costs beside its switch, and the number of pairs that tell. `switches_ns`: what the two kinds
/// of switch cost.
pub(crate) fn sleep_ns(pairs: &Pairs, switches_ns: [u64; 2]) -> Option<(usize, u64)> {
    more_ns(pairs, |between| {
        let kinds = between.after_sleep_ns.iter().zip(switches_ns);
        kinds.flat_map(|(ns, switch_ns)| ns.iter().map(move |ns| ns.saturating_sub(switch_ns))).collect()
    })
}

/// Returns what a switch of a kind costs, and the number of pairs that tell.
pub(crate) fn switch_ns(pairs: &Pairs, kind: usize) -> Option<(usize, u64)> {
    more_ns(pairs, |between| between.after_preemption_ns[kind].clone())
}

fn more_ns(pairs: &Pairs, after_ns: impl Fn(&Between) -> Vec<u64>) -> Option<(usize, u64)> {
    let (mut count, mut sum_ns) = (0, 0i128);
    for between in pairs.values() {
        let after_ns = after_ns(between);
        let at_once_ns = usual_mean(&between.at_once_ns).filter(|&ns| ns <= SHORT_NS);
        let (Some(at_once_ns), Some(mean_ns)) = (at_once_ns, usual_mean(&after_ns)) else { continue };
        count += after_ns.len();
        sum_ns += (i128::from(mean_ns) - i128::from(at_once_ns)) * after_ns.len() as i128;
    }
    (count > 0).then(|| (count, u64::try_from(sum_ns / count as i128).unwrap_or(0)))
}

/// Returns the mean of enough samples, without a twentieth of them at either end. Where a cost is taken off the work of
/// tasks, means keep the sum: medians leave what is above them in the work, and a replay that has no such wake-ups and
/// sleeps would keep it.
///
/// Worked example: of 20 samples, nine are 1,000 ns, nine 3,000, one 10, and one 900,000: 2,000.
pub(crate) fn usual_mean(samples_ns: &[u64]) -> Option<u64> {
    if samples_ns.len() < FEWEST {
        return None;
    }
    let mut sorted_ns = samples_ns.to_vec();
    sorted_ns.sort_unstable();
    let ends = sorted_ns.len() / 20;
    let middle_ns = &sorted_ns[ends..sorted_ns.len() - ends];
    let sum_ns: u128 = middle_ns.iter().map(|&ns| u128::from(ns)).sum();
    u64::try_from(sum_ns / middle_ns.len() as u128).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: &[(Mark, Mark, Between)]) -> Pairs {
        of.iter().map(|(from, to, between)| (("t".to_owned(), *from, *to), between.clone())).collect()
    }

    #[test]
    fn usual_means_leave_the_ends_out() {
        let samples_ns = [vec![1_000; 9], vec![3_000; 9], vec![10, 900_000]].concat();
        assert_eq!(usual_mean(&samples_ns), Some(2_000));
        assert_eq!(usual_mean(&samples_ns[1..]), None, "too few");
    }

    /// The worked example above.
    #[test]
    fn differences_of_all_kinds_are_joined() {
        let sends =
            Between { at_once_ns: vec![450; 20], after_wake_ns: vec![1_380; 60], ..Between::default() };
        let answers =
            Between { at_once_ns: vec![2_000; 20], after_wake_ns: vec![3_330; 20], ..Between::default() };
        let both = pairs(&[(Mark::Sent, Mark::Sent, sends), (Mark::Received, Mark::Sent, answers)]);
        assert_eq!(wake_ns(&both), Some((80, 1_030)));
        assert_eq!((sleep_ns(&both, [0, 0]), switch_ns(&both, 0)), (None, None));
    }

    /// 20 pairs with a switch from a thread and 20 from a process, which costs 600 more. Long pairs do not count.
    #[test]
    fn sleeps_are_told_less_their_switches() {
        let reads = Between {
            at_once_ns: vec![2_800; 20],
            after_sleep_ns: [vec![5_900; 20], vec![6_500; 20]],
            after_preemption_ns: [vec![3_200; 20], vec![3_800; 20]],
            ..Between::default()
        };
        let long = Between {
            at_once_ns: vec![SHORT_NS + 1; 20],
            after_preemption_ns: [vec![90_000; 99], vec![]],
            ..Between::default()
        };
        let both = pairs(&[(Mark::Received, Mark::Received, reads), (Mark::Received, Mark::Sent, long)]);
        assert_eq!([0, 1].map(|kind| switch_ns(&both, kind)), [Some((20, 400)), Some((20, 1_000))]);
        assert_eq!(sleep_ns(&both, [400, 1_000]), Some((40, 2_700)));
    }
}
