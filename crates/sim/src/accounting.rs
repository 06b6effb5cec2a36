// SPDX-License-Identifier: GPL-2.0-or-later
//! Sums of a run, and the outcome made of them.

use hdrhistogram::Histogram as Hdr;
use wakelab_machine::Distance;
use wakelab_policy::{
    AffineReason, BalanceWhy, Decision, Dispatch, Reads as PolicyReads, Reason, Tick, Timer,
};

use crate::cpu::{Kind, UNITS};
use crate::engine::Engine;
use crate::observer::Observer;
use crate::outcome::{Counts, Ending, Histogram, Outcome, Reads, TimeUse};
use crate::search::SearchTally;

/// Digits that the histograms keep.
const SIGNIFICANT_DIGITS: u8 = 3;

pub(crate) struct Delays {
    histogram: Hdr<u64>,
    max_ns: u64,
    sum_ns: u64,
}

impl Delays {
    fn new() -> Delays {
        let mut histogram = Hdr::new(SIGNIFICANT_DIGITS).expect("3 digits are in range");
        histogram.auto(true);
        Delays { histogram, max_ns: 0, sum_ns: 0 }
    }

    pub(crate) fn record(&mut self, value_ns: u64) {
        self.histogram.record(value_ns).expect("the histogram grows as needed");
        self.max_ns = self.max_ns.max(value_ns);
        self.sum_ns += value_ns;
    }

    fn written_out(&self) -> Histogram {
        Histogram {
            buckets: self
                .histogram
                .iter_recorded()
                .map(|v| (v.value_iterated_to(), v.count_at_value()))
                .collect(),
            count: self.histogram.len(),
            max_ns: self.max_ns,
            sum_ns: self.sum_ns,
        }
    }
}

pub(crate) struct Tally {
    pub(crate) counts: Counts,
    /// Interrupts that somebody wanted sent, for tests that lose one.
    pub(crate) ipis_asked_for: u64,
    pub(crate) migrations: Reads,
    pub(crate) searches: SearchTally,
    pub(crate) units: u64,
    select_reads: Reads,
    select_misses: Reads,
    enqueue_reads: Reads,
    enqueue_misses: Reads,
    balance_reads: Reads,
    balance_misses: Reads,
    reasons: Vec<u64>,
    affine_reasons: Vec<u64>,
    wakeup_latency: Delays,
    judged_latency: Delays,
    queue_delay: Delays,
    begin_ns: Option<u64>,
    /// When the measured part ended, and how many units there were.
    end: Option<(u64, u64)>,
}

fn add(sums: &mut Reads, reads: &PolicyReads) {
    for (sum, &count) in sums.iter_mut().zip(&reads.at) {
        *sum += u64::from(count);
    }
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally {
            counts: Counts::default(),
            ipis_asked_for: 0,
            migrations: [0; Distance::COUNT],
            searches: SearchTally::default(),
            units: 0,
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
            begin_ns: None,
            end: None,
        }
    }

    pub(crate) fn decision(&mut self, decision: &Decision, misses: &PolicyReads) {
        self.counts.selects += 1;
        self.counts.searches += u64::from(decision.searched != 0);
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

    pub(crate) fn switched_in(&mut self, waited_ns: u64, woken: bool, judged: bool) {
        self.counts.switches_in += 1;
        if woken { &mut self.wakeup_latency } else { &mut self.queue_delay }.record(waited_ns);
        if woken && judged {
            self.judged_latency.record(waited_ns);
        }
    }

    /// The first counts; what was counted before does not.
    pub(crate) fn mark_begin(&mut self, now_ns: u64) {
        if self.begin_ns.is_none() {
            self.begin_ns = Some(now_ns);
            self.units = 0;
            self.judged_latency = Delays::new();
        }
    }

    /// The last counts.
    pub(crate) fn mark_end(&mut self, now_ns: u64) {
        self.end = Some((now_ns, self.units));
    }
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    pub(crate) fn outcome(mut self, ending: Ending, seed: u64) -> Outcome {
        let time = self.time_use();
        let tally = &self.tally;
        let named = |count: &u64, name: &str| (*count > 0).then(|| (name.to_owned(), *count));
        let reasons = tally.reasons.iter().zip(Reason::ALL);
        let affine_reasons = tally.affine_reasons.iter().zip(AffineReason::ALL);
        let (end_ns, units) = tally.end.unwrap_or((self.now_ns, tally.units));
        Outcome {
            seed,
            ending,
            elapsed_ns: self.now_ns,
            makespan_ns: end_ns.saturating_sub(tally.begin_ns.unwrap_or(0)),
            units,
            wakeup_latency: tally.wakeup_latency.written_out(),
            judged_latency: tally.judged_latency.written_out(),
            queue_delay: tally.queue_delay.written_out(),
            idle_while_runnable_ns: self.idle_runnable.sum_ns(self.now_ns),
            migrations: tally.migrations,
            select_reads: tally.select_reads,
            select_misses: tally.select_misses,
            enqueue_reads: tally.enqueue_reads,
            enqueue_misses: tally.enqueue_misses,
            balance_reads: tally.balance_reads,
            balance_misses: tally.balance_misses,
            search_times: tally.searches.written_out(),
            reasons: reasons.filter_map(|(count, reason)| named(count, reason.name())).collect(),
            affine_reasons: affine_reasons
                .filter_map(|(count, reason)| named(count, reason.name()))
                .collect(),
            time,
            counts: tally.counts,
            groups: self.group_times(),
            task_cpu_time_ns: self.tasks.iter().map(|task| task.cpu_time_ns).collect(),
        }
    }

    /// What the CPUs did, in whole nanoseconds; what they took longer is the rest. That the whole is CPUs x elapsed
    /// time is the checker's proof: it saw each nanosecond accounted once.
    fn time_use(&self) -> TimeUse {
        let mut done = [0u128; Kind::COUNT];
        for cpu in &self.cpus {
            for (sum, &units) in done.iter_mut().zip(&cpu.done) {
                *sum += u128::from(units);
            }
        }
        let ns = |kind: Kind| (done[kind as usize] / u128::from(UNITS)) as u64;
        let mut time = TimeUse {
            work_ns: ns(Kind::Work),
            slowdown_ns: 0,
            memory_ns: ns(Kind::Memory),
            cache_refill_ns: ns(Kind::CacheRefill),
            data_ns: ns(Kind::Data),
            protocol_ns: ns(Kind::Protocol),
            spin_ns: ns(Kind::Spin),
            futex_ns: ns(Kind::Futex),
            runqueue_lock_ns: ns(Kind::RunqueueLock),
            atomic_ns: ns(Kind::Atomic),
            switch_ns: ns(Kind::Switch),
            wakeup_ns: ns(Kind::Wakeup),
            select_ns: ns(Kind::Select),
            balance_ns: ns(Kind::Balance),
            ipi_ns: ns(Kind::Ipi),
            interrupt_ns: ns(Kind::Interrupt),
            tick_ns: ns(Kind::Tick),
            fork_exit_ns: ns(Kind::ForkExit),
            idle_exit_ns: ns(Kind::IdleExit),
            idle_ns: ns(Kind::Idle),
        };
        time.slowdown_ns = self.cpus.len() as u64 * self.now_ns - time.total_ns();
        time
    }

    /// Tasks that do not run were charged by the policy for all that they received.
    pub(crate) fn check_policy_charges(&mut self) {
        for (number, (task, record)) in self.tasks.iter().zip(&self.records).enumerate() {
            let runs = self.cpus[task.cpu as usize].curr == number as u32;
            if !runs && record.sum_exec_ns != task.cpu_time_ns {
                let (policy_ns, host_ns) = (record.sum_exec_ns, task.cpu_time_ns);
                self.checker.fail(format!(
                    "the policy charged task {number} {policy_ns} ns, it received {host_ns} ns"
                ));
            }
        }
    }
}
