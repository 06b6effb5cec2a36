// SPDX-License-Identifier: GPL-2.0-or-later
//! Sums of a run.

use wakelab_machine::Distance;
use wakelab_policy::{
    AffineReason, BalanceWhy, Decision, Dispatch, Reads as PolicyReads, Reason, Tick, Timer,
};
use wakelab_workload::{Measure, Task};

use crate::ledger::by_name::ByName;
use crate::ledger::delays::Delays;
use crate::ledger::progress::Series;
use crate::ledger::search::SearchTally;
use crate::observer::WaitSums;
use crate::outcome::{Counts, Reads};

/// The sums of a run.
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    pub(crate) migrations: Reads,
    pub(crate) searches: SearchTally,
    pub(crate) units: u64,
    pub(crate) progress: Series,
    pub(crate) select_reads: Reads,
    pub(crate) select_misses: Reads,
    pub(crate) enqueue_reads: Reads,
    pub(crate) enqueue_misses: Reads,
    pub(crate) balance_reads: Reads,
    pub(crate) balance_misses: Reads,
    pub(crate) reasons: Vec<u64>,
    pub(crate) affine_reasons: Vec<u64>,
    pub(crate) wakeup_latency: Delays,
    pub(crate) judged_latency: Delays,
    pub(crate) queue_delay: Delays,
    pub(crate) by_name: ByName,
    pub(crate) begin_ns: Option<u64>,
    /// What was counted before the measured part.
    pub(crate) counts_before: Counts,
    /// When the first judged task ran first.
    pub(crate) judged_begin_ns: Option<u64>,
    /// When the measured part ended, and the number of units then.
    pub(crate) end: Option<(u64, u64)>,
    /// Some judged tasks are awaited, so that the others do not count for the end.
    some_are_awaited: bool,
    /// Judged tasks that count for the end and have not ended.
    judged_left: u64,
    /// When the last of these ended, and the number of units then.
    judged_end: Option<(u64, u64)>,
}

fn add(sums: &mut Reads, reads: &PolicyReads) {
    if *reads == PolicyReads::default() {
        return;
    }
    for (sum, &count) in sums.iter_mut().zip(&reads.at) {
        *sum += u64::from(count);
    }
}

impl Tally {
    pub(crate) fn new(tasks: &[Task]) -> Tally {
        let some_are_awaited = tasks.iter().any(|task| task.judged && task.awaited);
        let counts_for_end = |task: &&Task| task.judged && (task.awaited || !some_are_awaited);
        Tally {
            counts: Counts::default(),
            migrations: [0; Distance::COUNT],
            searches: SearchTally::default(),
            units: 0,
            progress: Series::new(tasks),
            select_reads: [0; Distance::COUNT],
            select_misses: [0; Distance::COUNT],
            enqueue_reads: [0; Distance::COUNT],
            enqueue_misses: [0; Distance::COUNT],
            balance_reads: [0; Distance::COUNT],
            balance_misses: [0; Distance::COUNT],
            reasons: vec![0; Reason::ALL.len()],
            affine_reasons: vec![0; AffineReason::ALL.len()],
            wakeup_latency: Delays::new(),
            judged_latency: Delays::new(),
            queue_delay: Delays::new(),
            by_name: ByName::new(tasks),
            begin_ns: None,
            counts_before: Counts::default(),
            judged_begin_ns: None,
            end: None,
            some_are_awaited,
            judged_left: tasks.iter().filter(counts_for_end).count() as u64,
            judged_end: None,
        }
    }

    pub(crate) fn decision(&mut self, decision: &Decision, misses: &PolicyReads) {
        self.counts.selects += 1;
        if decision.searched != 0 {
            self.counts.searches += 1;
            let remote = decision.reads.at.iter().skip(Distance::Smt.index());
            self.counts.search_reads += remote.map(|&reads| u64::from(reads)).sum::<u64>();
        }
        self.counts.lost_claims += u64::from(decision.lost_claims);
        self.reasons[decision.reason() as usize] += 1;
        self.affine_reasons[decision.affine_reason() as usize] += 1;
        add(&mut self.select_reads, &decision.reads);
        add(&mut self.select_misses, misses);
    }

    pub(crate) fn enqueue(&mut self, reads: &PolicyReads, misses: &PolicyReads) {
        add(&mut self.enqueue_reads, reads);
        add(&mut self.enqueue_misses, misses);
    }

    pub(crate) fn dispatch(&mut self, dispatch: &Dispatch, misses: &PolicyReads) {
        match dispatch.why() {
            BalanceWhy::None => {}
            BalanceWhy::NewlyIdle => self.counts.newly_idle_balances += 1,
            BalanceWhy::Periodic => self.counts.periodic_balances += 1,
        }
        add(&mut self.balance_reads, &dispatch.reads);
        add(&mut self.balance_misses, misses);
    }

    pub(crate) fn tick(&mut self, tick: &Tick, misses: &PolicyReads) {
        self.counts.ticks += 1;
        add(&mut self.balance_reads, &tick.reads);
        add(&mut self.balance_misses, misses);
    }

    pub(crate) fn timer(&mut self, timer: &Timer, misses: &PolicyReads) {
        add(&mut self.balance_reads, &timer.reads);
        add(&mut self.balance_misses, misses);
    }

    pub(crate) fn switch_in(&mut self, waited_ns: u64, woken: bool) {
        self.counts.switches_in += 1;
        if woken { &mut self.wakeup_latency } else { &mut self.queue_delay }.record(waited_ns);
    }

    /// The same, of a judged task, whose latency counts from `latency_since_ns` if it was woken.
    pub(crate) fn judged_switch_in(
        &mut self,
        task: u32,
        now_ns: u64,
        waited_ns: u64,
        latency_since_ns: Option<u64>,
    ) {
        if let Some(since_ns) = latency_since_ns {
            self.judged_latency.record(now_ns - since_ns);
        }
        self.judged_begin_ns.get_or_insert(now_ns);
        self.by_name.switch_in(task, waited_ns, latency_since_ns.is_some());
    }

    /// How long tasks waited.
    pub(crate) fn wait_sums(&self) -> WaitSums {
        let of = |delays: &Delays| (delays.count(), delays.sum_ns());
        let ((woken, woken_ns), (other, other_ns)) = (of(&self.wakeup_latency), of(&self.queue_delay));
        WaitSums {
            waits: woken + other,
            sum_ns: woken_ns + other_ns,
            by_name: self.by_name.wait_sums().collect(),
        }
    }

    /// The measured part begins, unless it has already begun; what was counted until now does not belong to it.
    pub(crate) fn mark_begin(&mut self, now_ns: u64) {
        if self.begin_ns.is_none() {
            self.begin_ns = Some(now_ns);
            self.units = 0;
            self.progress.restart(now_ns);
            self.counts_before = self.counts;
            self.judged_latency = Delays::new();
            self.by_name.restart();
        }
    }

    /// A judged task has ended.
    pub(crate) fn judged_gone(&mut self, task: u32, awaited: bool, now_ns: u64) {
        self.by_name.gone(task, awaited, now_ns);
        if awaited || !self.some_are_awaited {
            self.judged_left -= 1;
            self.judged_end = Some((now_ns, self.units));
        }
    }

    /// When the measured part began. Without a mark, what judged tasks need begins when the first of them runs, because
    /// a recording may begin before the service does.
    pub(crate) fn begin_of(&self, measure: Measure) -> u64 {
        let of_judged = self.judged_begin_ns.filter(|_| measure == Measure::Makespan && self.end.is_none());
        self.begin_ns.or(of_judged).unwrap_or(0)
    }

    /// When the measured part ended, and the number of units then; `None` if it goes on to the end. Without a mark the
    /// end of the last task that counts ends a makespan: of the awaited ones, or else of the judged ones.
    pub(crate) fn end_of(&self, measure: Measure) -> Option<(u64, u64)> {
        let of_judged = self.judged_end.filter(|_| measure == Measure::Makespan && self.judged_left == 0);
        self.end.or(of_judged)
    }

    /// Units are done.
    #[inline(always)]
    pub(crate) fn count(&mut self, now_ns: u64, units: u64) {
        self.units += units;
        self.progress.add(now_ns, units);
    }

    /// The measured part ends, unless it ends again later.
    pub(crate) fn mark_end(&mut self, now_ns: u64) {
        self.end = Some((now_ns, self.units));
    }
}
