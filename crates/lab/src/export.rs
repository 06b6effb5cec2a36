// SPDX-License-Identifier: GPL-2.0-or-later
//! A run as the events of a kernel: an observer passes what it sees to crates/trace, which writes ftrace text or
//! Perfetto's format.

use std::io::{BufWriter, Write};

use wakelab_policy::{Decision, WAKE_SYNC};
use wakelab_sim::{Observer, Outcome, Scenario};
use wakelab_trace::ftrace_write::FtraceText;
use wakelab_trace::kernel_events::{Choice, KernelEvents, Left, Sink};
use wakelab_trace::perfetto_write::{PerfettoFile, PerfettoRun};
use wakelab_workload::Source;

use crate::error::LabError;
use crate::scenario::describe;

/// Observes a run for a sink.
struct Exporter<S> {
    events: KernelEvents<S>,
    /// By task: it was forked and is not queued yet.
    forked: Vec<bool>,
    /// By task: it has exited.
    exited: Vec<bool>,
}

impl<S: Sink> Observer for Exporter<S> {
    fn start(&mut self, now_ns: u64, _cpu: u32, task: u32) {
        self.events.start(now_ns, task);
    }

    fn wake(&mut self, now_ns: u64, cpu: u32, _waker: Option<u32>, wakee: u32, flags: u32) {
        self.events.wake(now_ns, cpu, wakee, flags & WAKE_SYNC != 0);
    }

    fn decision(&mut self, now_ns: u64, this_cpu: u32, wakee: u32, decision: &Decision) {
        let choice = Choice {
            cpu: u32::try_from(decision.cpu).unwrap_or_default(),
            reason: decision.reason().name(),
            affine_reason: decision.affine_reason().name(),
            target: u32::try_from(decision.target).ok(),
            reads: decision.reads.at,
            lost_claims: decision.lost_claims,
        };
        self.events.decision(now_ns, this_cpu, wakee, &choice);
    }

    fn woken(&mut self, now_ns: u64, by_cpu: Option<u32>, cpu: u32, task: u32) {
        let Some(by_cpu) = by_cpu else { return };
        if std::mem::take(&mut self.forked[task as usize]) {
            self.events.wakeup_new(now_ns, by_cpu, cpu, task);
        } else {
            self.events.wakeup(now_ns, by_cpu, cpu, task);
        }
    }

    fn switch_in(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.events.switch_in(now_ns, cpu, task);
    }

    fn stopped(&mut self, now_ns: u64, cpu: u32, task: u32, ran_ns: u64) {
        self.events.stopped(now_ns, cpu, task, ran_ns);
    }

    fn switch_out(&mut self, now_ns: u64, cpu: u32, task: u32, runnable: bool) {
        let left = match (self.exited[task as usize], runnable) {
            (true, _) => Left::Exited,
            (false, true) => Left::Runnable,
            (false, false) => Left::Blocked,
        };
        self.events.switch_out(now_ns, cpu, task, left);
    }

    fn interrupt_enter(&mut self, now_ns: u64, cpu: u32, source: Source) {
        self.events.interrupt_enter(now_ns, cpu, source);
    }

    fn interrupt_exit(&mut self, now_ns: u64, cpu: u32) {
        self.events.interrupt_exit(now_ns, cpu);
    }

    fn migrate(&mut self, now_ns: u64, task: u32, from: u32, to: u32) {
        // The CPU that pulls a task does the work of the migration.
        self.events.migrate(now_ns, to, task, from, to);
    }

    fn fork(&mut self, now_ns: u64, cpu: u32, parent: u32, child: u32) {
        self.forked[child as usize] = true;
        self.events.fork(now_ns, cpu, parent, child);
    }

    fn exit(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.exited[task as usize] = true;
        self.events.exit(now_ns, cpu, task);
    }
}

/// Runs a scenario and passes its events to `sink`. Returns the outcome and what the sink made of them.
///
/// # Errors
/// A run that fails, or a write that fails.
pub fn observe_events<S: Sink>(
    scenario: &Scenario,
    seed: u64,
    sink: S,
) -> Result<(Outcome, S::Out), LabError> {
    let (nr_cpus, nr_tasks) = (scenario.machine.topology.nr_cpus(), scenario.workload.tasks.len());
    let mut exporter = Exporter {
        events: KernelEvents::new(sink, &scenario.workload, nr_cpus as u32),
        forked: vec![false; nr_tasks],
        exited: vec![false; nr_tasks],
    };
    let outcome = wakelab_sim::run_observed(scenario, seed, &mut exporter)
        .map_err(|error| LabError::Run { name: describe(scenario), seed, error })?;
    let out = exporter.events.finish(outcome.elapsed_ns).map_err(LabError::Write)?;
    Ok((outcome, out))
}

/// Runs a scenario and writes its events to `out` as ftrace text. Returns the outcome and `out`, flushed.
///
/// # Errors
/// A run that fails, or a write that fails.
pub fn export_events<W: Write>(scenario: &Scenario, seed: u64, out: W) -> Result<(Outcome, W), LabError> {
    let text = FtraceText::new(BufWriter::with_capacity(1 << 16, out), &scenario.workload);
    let (outcome, out) = observe_events(scenario, seed, text)?;
    Ok((outcome, out.into_inner().map_err(|error| LabError::Write(error.into_error()))?))
}

/// Runs each scenario with one seed and writes their events to `out` in Perfetto's format: each scenario is a machine,
/// called by its name in `names`. Returns the outcomes.
///
/// # Errors
/// A run that fails, or a write that fails.
pub fn export_perfetto<W: Write>(
    scenarios: &[Scenario],
    names: &[String],
    seed: u64,
    out: W,
) -> Result<Vec<Outcome>, LabError> {
    let mut file = PerfettoFile::new(out);
    let mut outcomes = Vec::with_capacity(scenarios.len());
    for (scenario, name) in scenarios.iter().zip(names) {
        let nr_cpus = scenario.machine.topology.nr_cpus() as u32;
        let run = PerfettoRun::new(file, name, &scenario.workload, nr_cpus);
        let (outcome, written) = observe_events(scenario, seed, run)?;
        file = written;
        outcomes.push(outcome);
    }
    file.finish().map_err(LabError::Write)?;
    Ok(outcomes)
}
