// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs every scenario with every seed on a number of threads. Which thread runs what changes nothing: a run is a pure
//! function of scenario and seed, and results are put back in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use wakelab_sim::{Outcome, Scenario, SimError};

use crate::resolve::bad_input;

/// Outcomes by scenario, then by seed, in the order given.
pub(crate) fn run_all(
    scenarios: &[Scenario],
    seeds: &[u64],
    threads: usize,
) -> Result<Vec<Vec<Outcome>>, RunError> {
    let total = scenarios.len() * seeds.len();
    // Seed by seed, so that an early stop leaves whole pairs.
    let results = in_parallel(total, threads, |job| {
        let (seed, scenario) = (job / scenarios.len(), job % scenarios.len());
        wakelab_sim::run(&scenarios[scenario], seeds[seed])
    });
    let mut outcomes: Vec<Vec<Outcome>> = scenarios.iter().map(|_| Vec::with_capacity(seeds.len())).collect();
    for (job, result) in results.into_iter().enumerate() {
        let (seed, scenario) = (job / scenarios.len(), job % scenarios.len());
        outcomes[scenario].push(result.map_err(|error| RunError { scenario, seed: seeds[seed], error })?);
    }
    Ok(outcomes)
}

/// The results of `run(0)` to `run(total - 1)`, in order, run side by side. Progress goes to stderr if that is a
/// terminal.
pub(crate) fn in_parallel<T: Send>(total: usize, threads: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let progress = progress_bar(total);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<T>>> = (0..total).map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, total.max(1)) {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    if job >= total {
                        break;
                    }
                    let result = run(job);
                    *results[job].lock().expect("no thread panics while it holds this lock") = Some(result);
                    progress.inc(1);
                }
            });
        }
    });
    progress.finish_and_clear();
    let done = |result: Mutex<Option<T>>| {
        result.into_inner().expect("no thread panicked").expect("every job was run")
    };
    results.into_iter().map(done).collect()
}

/// A run that failed, and how to repeat it.
pub(crate) struct RunError {
    /// Index of the scenario.
    pub(crate) scenario: usize,
    /// The seed it ran with.
    pub(crate) seed: u64,
    /// What went wrong.
    pub(crate) error: SimError,
}

impl RunError {
    /// What the user is told; `name` says which scenario it was.
    pub(crate) fn told(self, name: &str) -> anyhow::Error {
        let RunError { seed, error, .. } = self;
        match error {
            SimError::Invariant { .. } => anyhow!(
                "{name}, seed {seed}: {error}; this is a defect of wakelab, please report it with the command line"
            ),
            error => bad_input(format!("{name}, seed {seed}: {error}")),
        }
    }
}

/// `--threads`, or one a CPU.
pub(crate) fn threads(asked: Option<u32>) -> Result<usize> {
    match asked {
        Some(threads) => Ok(threads as usize),
        None => Ok(std::thread::available_parallelism().context("cannot tell the number of CPUs")?.get()),
    }
}

/// A bar on stderr for so many runs.
pub(crate) fn progress_bar(total: usize) -> ProgressBar {
    // indicatif draws nothing where stderr is not a terminal.
    let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left")
        .expect("the template is a constant that parses");
    bar.with_style(style)
}
