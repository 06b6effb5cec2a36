// SPDX-License-Identifier: GPL-2.0-or-later
//! The runs that a sweep needs next, one by one for threads and in chunks for workers that are far away.
//!
//! The last run of a case's round adds the next round, before all other cases, so that few cases are open at once.
//!
//! A chunk is as long as asked by the measured times: those of the case, or, where it has none, the mean of the latest
//! runs. Before anything was measured, a chunk is one run. Near the end chunks are shorter, a half of a worker's share
//! of what is left, so that no worker is left with a long one.
//!
//! Worked example: runs take 100 ms, chunks shall last 1 s, and 2 workers share 60 runs: the chunks have 10, 10, 10, 7
//! (a quarter of 30), 5, 4, 3 and so on to 1.
//!
//! It fails to be even where one run takes longer than a chunk: then a chunk is one run.

use std::collections::{BTreeMap, VecDeque};

use super::{Job, Row, Sweep};

/// The weight of the newest run in the mean of the latest ones.
const NEWEST: f64 = 0.1;

/// Runs that wait for a worker.
#[derive(Debug, Default)]
pub struct SweepQueue {
    jobs: VecDeque<Job>,
    /// How many runs of its round each open case lacks.
    lacks: BTreeMap<usize, usize>,
    known: usize,
    /// The sum of measured times and their number, by case.
    measured: BTreeMap<usize, (f64, f64)>,
    latest_ns: Option<f64>,
}

impl SweepQueue {
    /// All runs that a sweep lacks.
    pub fn new(sweep: &Sweep) -> SweepQueue {
        let mut queue = SweepQueue::default();
        queue.begin_again(sweep);
        queue
    }

    /// Takes all runs that a sweep lacks, whatever was under way. Measured times stay.
    pub fn begin_again(&mut self, sweep: &Sweep) {
        self.jobs.clear();
        self.lacks.clear();
        for case in 0..sweep.plan.cases.len() {
            let missing = sweep.missing(case);
            if !missing.is_empty() {
                self.lacks.insert(case, missing.len());
            }
            self.jobs.extend(missing);
        }
        self.known = sweep.len() + self.jobs.len();
    }

    /// The number of runs that are known to be needed, with those that are done; more may follow.
    pub fn known(&self) -> usize {
        self.known
    }

    /// The case of the next run.
    pub fn next_case(&self) -> Option<usize> {
        self.jobs.front().map(|job| job.case)
    }

    /// Takes the next run.
    pub fn take(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    /// Takes the next runs for one of `workers`, to last for `target_ns`; none if none is waiting.
    pub fn take_chunk(&mut self, target_ns: f64, workers: usize) -> Vec<Job> {
        let left_ns = self.jobs.len() as f64 * self.latest_ns.unwrap_or(0.0);
        let limit_ns = target_ns.min(left_ns / (2 * workers.max(1)) as f64);
        let (mut chunk, mut sum_ns) = (Vec::new(), 0.0);
        while let Some(&job) = self.jobs.front() {
            let run_ns = self.expected_ns(job.case).unwrap_or(f64::INFINITY);
            if !chunk.is_empty() && sum_ns + run_ns > limit_ns {
                break;
            }
            sum_ns += run_ns;
            chunk.push(job);
            self.jobs.pop_front();
        }
        chunk
    }

    /// How long a run of a case takes, as far as that was measured.
    fn expected_ns(&self, case: usize) -> Option<f64> {
        self.measured.get(&case).map(|(sum_ns, runs)| sum_ns / runs).or(self.latest_ns)
    }

    /// Puts runs back that were taken and not done. They come first.
    pub fn give_back(&mut self, jobs: impl DoubleEndedIterator<Item = Job>) {
        jobs.rev().for_each(|job| self.jobs.push_front(job));
    }

    /// Notes how long a run took.
    pub fn measure(&mut self, case: usize, run_ns: f64) {
        let (sum_ns, runs) = self.measured.entry(case).or_default();
        *sum_ns += run_ns;
        *runs += 1.0;
        self.latest_ns = Some(self.latest_ns.map_or(run_ns, |mean| mean + NEWEST * (run_ns - mean)));
    }

    /// Puts a row into the sweep, and adds the next round of its case if it was the last of the present one. Returns
    /// false if the run was done already.
    pub fn done(&mut self, sweep: &mut Sweep, row: Row) -> bool {
        let case = row.job.case;
        if !sweep.put(row) {
            return false;
        }
        let Some(lacks) = self.lacks.get_mut(&case) else { return true };
        *lacks -= 1;
        if *lacks == 0 {
            let more = sweep.missing(case);
            self.known += more.len();
            *lacks = more.len();
            self.give_back(more.into_iter());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(runs: u64) -> SweepQueue {
        let jobs = (0..runs).map(|seed| Job { case: 0, policy: 0, seed }).collect();
        SweepQueue { jobs, ..SweepQueue::default() }
    }

    #[test]
    fn chunks_by_hand() {
        let mut queue = queue(60);
        assert_eq!(queue.take_chunk(1e9, 2).len(), 1, "nothing is measured yet");
        queue.give_back([Job { case: 0, policy: 0, seed: 0 }].into_iter());
        queue.measure(0, 100e6);
        let sizes: Vec<usize> = std::iter::from_fn(|| Some(queue.take_chunk(1e9, 2).len()))
            .take_while(|size| *size > 0)
            .collect();
        assert_eq!(sizes[..7], [10, 10, 10, 7, 5, 4, 3]);
        assert_eq!((sizes.iter().sum::<usize>(), sizes.last()), (60, Some(&1)));
    }

    /// The second case takes 10 times as long as the latest runs; a run that is longer than a chunk is a chunk.
    #[test]
    fn a_case_has_its_own_time() {
        let of = |case: usize| (0..40).map(move |seed| Job { case, policy: 0, seed });
        let mut queue = SweepQueue { jobs: of(0).chain(of(1)).collect(), ..SweepQueue::default() };
        queue.measure(1, 1e9);
        (0..100).for_each(|_| queue.measure(0, 100e6));
        assert_eq!(queue.take_chunk(1e9, 1).len(), 10);
        (0..3).for_each(|_| drop(queue.take_chunk(1e9, 1)));
        assert_eq!(queue.take_chunk(1e9, 1).iter().map(|job| job.case).collect::<Vec<_>>(), [1]);
        assert_eq!(queue.take_chunk(0.5e9, 1).len(), 1);
    }
}
