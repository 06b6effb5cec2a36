// SPDX-License-Identifier: GPL-2.0-or-later
//! The end of a run: the last checks, and the outcome.

use wakelab_policy::{AffineReason, Reason};

use crate::engine::Engine;
use crate::error::SimError;
use crate::ids::{NONE, UNITS};
use crate::ledger::progress::Series;
use crate::observer::Observer;
use crate::outcome::{Ending, Outcome};
use crate::time_use::{TimeKind, TimeUse};

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// Checks the run as a whole, and returns its outcome.
    pub(crate) fn finish(mut self, ending: Ending, seed: u64) -> Result<Outcome, SimError> {
        let now_ns = self.hardware.now_ns;
        self.ledger.checker.clock(now_ns);
        for cpu in 0..self.kernel.cpus.len() as u32 {
            self.settle(cpu);
        }
        let finished = matches!(ending, Ending::Deadlock { .. }) || self.kernel.alive == 0;
        self.check_policy_charges();
        let host = &self.kernel.host;
        self.ledger.checker.run_over(now_ns, finished, |cpu| host.idle_mask(cpu));
        if self.ledger.observer.watches_activity()
            && let Some(what) = self.ledger.observer.check(&self.ledger.tally.wait_sums())
        {
            self.ledger.checker.fail(|| what);
        }
        if let Some(error) = self.error() {
            return Err(error);
        }
        for cpu in &self.kernel.cpus {
            if cpu.curr != NONE {
                let thread = &mut self.kernel.threads[cpu.curr as usize];
                thread.cpu_time_ns += now_ns - thread.runs_since_ns;
            }
        }
        Ok(self.outcome(ending, seed))
    }

    /// Checks that the policy charged each task that does not run for all the CPU time that it received.
    fn check_policy_charges(&mut self) {
        for (number, (thread, record)) in self.kernel.threads.iter().zip(&self.kernel.records).enumerate() {
            let runs = self.kernel.cpus[thread.cpu as usize].curr == number as u32;
            if !runs && record.sum_exec_ns != thread.cpu_time_ns {
                let (policy_ns, host_ns) = (record.sum_exec_ns, thread.cpu_time_ns);
                self.ledger.checker.fail(|| {
                    format!("the policy charged task {number} {policy_ns} ns, it received {host_ns} ns")
                });
            }
        }
    }

    fn outcome(mut self, ending: Ending, seed: u64) -> Outcome {
        let now_ns = self.hardware.now_ns;
        let progress = std::mem::replace(&mut self.ledger.tally.progress, Series::new(&[]));
        let tally = &self.ledger.tally;
        let named = |count: &u64, name: &str| (*count > 0).then(|| (name.to_owned(), *count));
        let reasons = tally.reasons.iter().zip(Reason::ALL);
        let affine_reasons = tally.affine_reasons.iter().zip(AffineReason::ALL);
        let task_cpu_time_ns: Vec<u64> =
            self.kernel.threads.iter().map(|thread| thread.cpu_time_ns).collect();
        let (end_ns, units) = tally.end_of(self.workload.measure).unwrap_or((now_ns, tally.units));
        Outcome {
            seed,
            ending,
            elapsed_ns: now_ns,
            makespan_ns: end_ns.saturating_sub(tally.begin_of(self.workload.measure)),
            units,
            progress: progress.until(end_ns),
            measured_wakeups: tally.counts.wakeups - tally.counts_before.wakeups,
            measured_preemptions: tally.counts.preemptions - tally.counts_before.preemptions,
            wakeup_latency: tally.wakeup_latency.histogram(),
            judged_latency: tally.judged_latency.histogram(),
            queue_delay: tally.queue_delay.histogram(),
            idle_while_runnable_ns: self.ledger.idle_runnable.sum_ns(now_ns),
            migrations: tally.migrations,
            select_reads: tally.select_reads,
            select_misses: tally.select_misses,
            enqueue_reads: tally.enqueue_reads,
            enqueue_misses: tally.enqueue_misses,
            balance_reads: tally.balance_reads,
            balance_misses: tally.balance_misses,
            search_times: tally.searches.sums(),
            reasons: reasons.filter_map(|(count, reason)| named(count, reason.name())).collect(),
            affine_reasons: affine_reasons
                .filter_map(|(count, reason)| named(count, reason.name()))
                .collect(),
            time: self.time_use(),
            counts: tally.counts,
            groups: self.group_times(),
            by_name: tally.by_name.outcome(&task_cpu_time_ns, tally.judged_begin_ns.unwrap_or(0)),
            task_cpu_time_ns,
            waits: None,
        }
    }

    /// The use of CPU time, in whole nanoseconds; the rounded-off rest counts as slowdown. The checker proves that the
    /// sum is CPUs x elapsed time, because it saw each nanosecond accounted once.
    fn time_use(&self) -> TimeUse {
        let mut time = TimeUse::default();
        for kind in TimeKind::ALL {
            *time.ns_mut(kind) = (self.hardware.done[kind as usize] / u128::from(UNITS)) as u64;
        }
        time.slowdown_ns = self.hardware.cpus.len() as u64 * self.hardware.now_ns - time.total_ns();
        time
    }
}
