// SPDX-License-Identifier: GPL-2.0-or-later
//! `--events FILE`: a run as ftrace text. An observer tells the writer of crates/trace what it sees; the file appears
//! when it is whole, or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use wakelab_policy::WAKE_SYNC;
use wakelab_sim::{Observer, Outcome, Scenario};
use wakelab_trace::ftrace_write::{Left, Writer};
use wakelab_workload::Source;

use crate::resolve::bad_input;
use crate::runner::RunError;

/// Writes what it observes.
pub(crate) struct Exporter<W> {
    writer: Writer<W>,
    /// Tasks that were forked and are not queued yet.
    forked: Vec<bool>,
    /// Tasks that have ended.
    exited: Vec<bool>,
}

impl<W: Write> Exporter<W> {
    pub(crate) fn new(out: W, scenario: &Scenario) -> Exporter<W> {
        let (nr_cpus, nr_tasks) = (scenario.machine.topology.nr_cpus(), scenario.workload.tasks.len());
        Exporter {
            writer: Writer::new(out, &scenario.workload, nr_cpus as u32),
            forked: vec![false; nr_tasks],
            exited: vec![false; nr_tasks],
        }
    }

    /// The run is over.
    pub(crate) fn finish(self, elapsed_ns: u64) -> std::io::Result<W> {
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
        // All pulling happens on the CPU that pulls.
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

/// Runs a scenario and writes its events to `path`, replacing what is there once all is written.
pub(crate) fn export(scenario: &Scenario, seed: u64, path: &Path, name: &str) -> Result<Outcome> {
    let refuse = |error: std::io::Error| bad_input(format!("--events {}: {error}", path.display()));
    // Devices and pipes cannot be replaced, and need not be: nobody takes them for a whole file.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        let out = File::options().write(true).open(path).map_err(refuse)?;
        let (outcome, written) = run_into(out, scenario, seed, name)?;
        written.map_err(refuse)?;
        return Ok(outcome);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".wakelab-events-");
    #[cfg(unix)]
    temporary.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = temporary.tempfile_in(folder).map_err(refuse)?;
    let (outcome, written) = run_into(file, scenario, seed, name)?;
    let file = written.map_err(refuse)?;
    file.persist(path).map_err(|error| refuse(error.error))?;
    Ok(outcome)
}

/// Runs a scenario and writes its events to `out`, which comes back unless writing failed.
fn run_into<W: Write>(
    out: W,
    scenario: &Scenario,
    seed: u64,
    name: &str,
) -> Result<(Outcome, std::io::Result<W>)> {
    let mut exporter = Exporter::new(BufWriter::with_capacity(1 << 16, out), scenario);
    let outcome = wakelab_sim::run_observed(scenario, seed, &mut exporter)
        .map_err(|error| RunError { scenario: 0, seed, error }.told(name))?;
    let written = exporter.finish(outcome.elapsed_ns).and_then(|out| out.into_inner().map_err(Into::into));
    Ok((outcome, written))
}
