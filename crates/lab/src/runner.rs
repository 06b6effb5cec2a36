// SPDX-License-Identifier: GPL-2.0-or-later
//! Threads. Which thread runs what changes no result: a run is a pure function of scenario and seed, and results are
//! put back in order.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use wakelab_sim::{Outcome, Scenario, SimError};

use crate::error::LabError;

/// Stack of each thread: that of a main thread on Linux, because the calling thread works too.
const STACK_BYTES: usize = 8 << 20;

/// Receives the progress of a batch. Its functions are called from all threads.
pub trait Progress: Sync {
    /// A batch of `runs` runs begins.
    fn begin(&self, runs: usize);
    /// One run of the batch has ended.
    fn run_done(&self);
    /// The batch has ended.
    fn end(&self);
    /// The system refused to start more threads. The batch goes on with `running` threads instead of `wanted`.
    fn fewer_threads(&self, running: usize, wanted: usize, error: &io::Error);
}

/// Shows no progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _runs: usize) {}
    fn run_done(&self) {}
    fn end(&self) {}
    fn fewer_threads(&self, _running: usize, _wanted: usize, _error: &io::Error) {}
}

/// Runs things side by side on a number of threads, the calling thread among them.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    threads: NonZeroUsize,
    stack_bytes: usize,
    progress: &'a dyn Progress,
}

/// A run that failed, and how to repeat it.
#[derive(Debug)]
pub struct RunFailure {
    /// Index of the scenario.
    pub scenario: usize,
    /// The seed of the run.
    pub seed: u64,
    /// The reason.
    pub error: SimError,
}

impl RunFailure {
    /// The error, with the scenario's name in words.
    pub fn named(self, name: impl Into<String>) -> LabError {
        LabError::Run { name: name.into(), seed: self.seed, error: self.error }
    }
}

impl<'a> Runner<'a> {
    /// A runner with `threads` threads; `None`: one for each CPU that this process may use.
    pub fn new(threads: Option<NonZeroUsize>, progress: &'a dyn Progress) -> Runner<'a> {
        let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Runner { threads: threads.unwrap_or_else(all), stack_bytes: STACK_BYTES, progress }
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads.get()
    }

    /// Runs every scenario with every seed. Returns outcomes by scenario, then by seed, in the order given.
    ///
    /// # Errors
    /// The first run, in that order by seed, that failed.
    pub fn run_all(&self, scenarios: &[Scenario], seeds: &[u64]) -> Result<Vec<Vec<Outcome>>, RunFailure> {
        self.run_all_by(scenarios, seeds, wakelab_sim::run)
    }

    /// Like [`Runner::run_all`], and each outcome says what tasks waited for, with its `longest` longest waits.
    ///
    /// # Errors
    /// Like [`Runner::run_all`].
    pub fn run_all_explained(
        &self,
        scenarios: &[Scenario],
        seeds: &[u64],
        longest: usize,
    ) -> Result<Vec<Vec<Outcome>>, RunFailure> {
        self.run_all_by(scenarios, seeds, |scenario, seed| {
            wakelab_sim::run_explained(scenario, seed, longest)
        })
    }

    fn run_all_by(
        &self,
        scenarios: &[Scenario],
        seeds: &[u64],
        run: impl Fn(&Scenario, u64) -> Result<Outcome, SimError> + Sync,
    ) -> Result<Vec<Vec<Outcome>>, RunFailure> {
        let total = scenarios.len() * seeds.len();
        let place = |job: usize| (job / scenarios.len(), job % scenarios.len());
        let results = self.in_parallel(total, |job| {
            let (seed, scenario) = place(job);
            run(&scenarios[scenario], seeds[seed])
        });
        let mut outcomes: Vec<Vec<Outcome>> =
            scenarios.iter().map(|_| Vec::with_capacity(seeds.len())).collect();
        for (job, result) in results.into_iter().enumerate() {
            let (seed, scenario) = place(job);
            let failed = |error| RunFailure { scenario, seed: seeds[seed], error };
            outcomes[scenario].push(result.map_err(failed)?);
        }
        Ok(outcomes)
    }

    /// Calls `run(0)` to `run(total - 1)` side by side and returns the results in order.
    ///
    /// Where the system refuses more threads (a limit on processes), fewer threads do the work.
    pub fn in_parallel<T: Send>(&self, total: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
        self.progress.begin(total);
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<T>>> = (0..total).map(|_| Mutex::new(None)).collect();
        let work = || {
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                if job >= total {
                    break;
                }
                let result = run(job);
                *results[job].lock().expect("no thread panics while it holds this lock") = Some(result);
                self.progress.run_done();
            }
        };
        let wanted = self.threads.get().min(total.max(1));
        std::thread::scope(|scope| {
            for running in 1..wanted {
                let thread = std::thread::Builder::new().stack_size(self.stack_bytes);
                if let Err(error) = thread.spawn_scoped(scope, work) {
                    self.progress.fewer_threads(running, wanted, &error);
                    break;
                }
            }
            work();
        });
        self.progress.end();
        let done = |result: Mutex<Option<T>>| {
            result.into_inner().expect("no thread panicked").expect("every job was run")
        };
        results.into_iter().map(done).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Count {
        begun: AtomicUsize,
        done: AtomicUsize,
        ended: AtomicUsize,
        refused: AtomicUsize,
    }

    impl Progress for Count {
        fn begin(&self, runs: usize) {
            self.begun.fetch_add(runs, Ordering::Relaxed);
        }
        fn run_done(&self) {
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        fn end(&self) {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
        fn fewer_threads(&self, running: usize, wanted: usize, _error: &io::Error) {
            assert_eq!((running, wanted), (1, 4));
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// No address space holds such stacks, so that the system refuses every thread.
    #[test]
    fn without_more_threads_the_calling_thread_does_the_work() {
        let count = Count::default();
        let runner =
            Runner { threads: NonZeroUsize::new(4).unwrap(), stack_bytes: 1 << 47, progress: &count };
        assert_eq!(runner.in_parallel(5, |job| job + 1), [1, 2, 3, 4, 5]);
        assert_eq!(count.refused.into_inner(), 1);
        assert_eq!(count.done.into_inner(), 5);
    }

    #[test]
    fn results_are_in_order_and_progress_is_whole() {
        for threads in [1, 2, 7, 100] {
            let count = Count::default();
            let runner = Runner::new(NonZeroUsize::new(threads), &count);
            assert_eq!(runner.in_parallel(10, |job| job * job), [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]);
            let counts = [count.begun, count.done, count.ended].map(AtomicUsize::into_inner);
            assert_eq!(counts, [10, 10, 1], "{threads} threads");
        }
        assert_eq!(Runner::new(None, &Silent).in_parallel(0, |job| job), [0; 0]);
    }
}
