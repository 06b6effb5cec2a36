// SPDX-License-Identifier: GPL-2.0-or-later
//! A run as ftrace text: an observer passes what it sees to the writer of crates/trace.

use std::io::{BufWriter, Write};

use wakelab_policy::WAKE_SYNC;
use wakelab_sim::{Observer, Outcome, Scenario};
use wakelab_trace::ftrace_write::{Left, Writer};
use wakelab_workload::Source;

use crate::error::LabError;
use crate::scenario::describe;

/// Observes a run and writes it as ftrace text.
pub struct Exporter<W> {
    writer: Writer<W>,
    /// By task: it was forked and is not queued yet.
    forked: Vec<bool>,
    /// By task: it has exited.
    exited: Vec<bool>,
}

impl<W: Write> Exporter<W> {
    /// An exporter of a run of `scenario` into `out`.
    pub fn new(out: W, scenario: &Scenario) -> Exporter<W> {
        let (nr_cpus, nr_tasks) = (scenario.machine.topology.nr_cpus(), scenario.workload.tasks.len());
        Exporter {
            writer: Writer::new(out, &scenario.workload, nr_cpus as u32),
            forked: vec![false; nr_tasks],
            exited: vec![false; nr_tasks],
        }
    }

    /// Writes the end of the run and returns `out`.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn finish(self, elapsed_ns: u64) -> std::io::Result<W> {
        self.writer.finish(elapsed_ns)
    }
}

impl<W: Write> Observer for Exporter<W> {
    fn start(&mut self, now_ns: u64, _cpu: u32, task: u32) {
        self.writer.start(now_ns, task);
    }

    fn wake(&mut self, now_ns: u64, cpu: u32, _waker: Option<u32>, wakee: u32, flags: u32) {
        self.writer.wake(now_ns, cpu, wakee, flags & WAKE_SYNC != 0);
    }

    fn woken(&mut self, now_ns: u64, by_cpu: Option<u32>, cpu: u32, task: u32) {
        let Some(by_cpu) = by_cpu else { return };
        if std::mem::take(&mut self.forked[task as usize]) {
            self.writer.wakeup_new(now_ns, by_cpu, cpu, task);
        } else {
            self.writer.wakeup(now_ns, by_cpu, cpu, task);
        }
    }

    fn switch_in(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.writer.switch_in(now_ns, cpu, task);
    }

    fn stopped(&mut self, now_ns: u64, cpu: u32, task: u32, ran_ns: u64) {
        self.writer.stopped(now_ns, cpu, task, ran_ns);
    }

    fn switch_out(&mut self, now_ns: u64, cpu: u32, task: u32, runnable: bool) {
        let left = match (self.exited[task as usize], runnable) {
            (true, _) => Left::Exited,
            (false, true) => Left::Runnable,
            (false, false) => Left::Blocked,
        };
        self.writer.switch_out(now_ns, cpu, task, left);
    }

    fn interrupt_enter(&mut self, now_ns: u64, cpu: u32, source: Source) {
        self.writer.interrupt_enter(now_ns, cpu, source);
    }

    fn interrupt_exit(&mut self, now_ns: u64, cpu: u32) {
        self.writer.interrupt_exit(now_ns, cpu);
    }

    fn migrate(&mut self, now_ns: u64, task: u32, from: u32, to: u32) {
        // The CPU that pulls a task does the work of the migration.
        self.writer.migrate(now_ns, to, task, from, to);
    }

    fn fork(&mut self, now_ns: u64, cpu: u32, parent: u32, child: u32) {
        self.forked[child as usize] = true;
        self.writer.fork(now_ns, cpu, parent, child);
    }

    fn exit(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.exited[task as usize] = true;
        self.writer.exit(now_ns, cpu, task);
    }
}

/// Runs a scenario and writes its events to `out` as ftrace text. Returns the outcome and `out`, flushed.
///
/// # Errors
/// A run that fails, or a write that fails.
pub fn export_events<W: Write>(scenario: &Scenario, seed: u64, out: W) -> Result<(Outcome, W), LabError> {
    let mut exporter = Exporter::new(BufWriter::with_capacity(1 << 16, out), scenario);
    let outcome = wakelab_sim::run_observed(scenario, seed, &mut exporter)
        .map_err(|error| LabError::Run { name: describe(scenario), seed, error })?;
    let written = exporter.finish(outcome.elapsed_ns).and_then(|out| out.into_inner().map_err(Into::into));
    Ok((outcome, written.map_err(LabError::Write)?))
}
