// SPDX-License-Identifier: GPL-2.0-or-later
//! Work done over time: units by equal spans of the measured part.
//!
//! There are 1,024 spans at most. When the run outlasts them, each two become one, so that a run of any length has
//! between 512 and 1,024 spans, and the cost of a unit is one addition.
//!
//! Units are those that the programs count. If no program counts any, they are the work itself, of the judged tasks if
//! there are such tasks: a recording says how long its tasks computed, not what for. A burst of work belongs to the
//! span in which it begins.

use wakelab_workload::{Op, Task};

use crate::outcome::Progress;

/// The largest number of spans.
const SPANS: usize = 1024;
/// The first spans take 1.024 us.
const SHIFT_MIN: u32 = 10;
/// Work is counted in units of this many nanoseconds.
const WORK_NS: u64 = 1_000_000;

/// Units by span.
pub(crate) struct Series {
    begin_ns: u64,
    /// A span has 2 to the power of this nanoseconds.
    shift: u32,
    units: Box<[u64]>,
    /// Which work is a unit; empty if programs count.
    works: Box<[bool]>,
}

impl Series {
    pub(crate) fn new(tasks: &[Task]) -> Series {
        let counts = |task: &Task| task.program.iter().any(|op| matches!(op, Op::Count { .. }));
        let some_are_judged = tasks.iter().any(|task| task.judged);
        let works = match tasks.iter().any(counts) {
            true => Box::default(),
            false => tasks.iter().map(|task| task.judged || !some_are_judged).collect(),
        };
        Series { begin_ns: 0, shift: SHIFT_MIN, units: vec![0; SPANS].into(), works }
    }

    /// The measured part begins; what was done until now does not belong to it.
    pub(crate) fn restart(&mut self, now_ns: u64) {
        (self.begin_ns, self.shift) = (now_ns, SHIFT_MIN);
        self.units.fill(0);
    }

    /// Adds units that are done now.
    #[inline(always)]
    pub(crate) fn add(&mut self, now_ns: u64, units: u64) {
        let at = (now_ns - self.begin_ns) >> self.shift;
        match self.units.get_mut(at as usize) {
            Some(sum) => *sum += units,
            None => self.add_later(now_ns, units),
        }
    }

    /// Whether work itself is counted.
    #[inline(always)]
    pub(crate) fn counts_work(&self) -> bool {
        !self.works.is_empty()
    }

    /// Adds the work of a burst that begins now.
    #[cold]
    pub(crate) fn add_work(&mut self, now_ns: u64, task: u32, work_ns: u64) {
        if self.works[task as usize] {
            self.add(now_ns, work_ns);
        }
    }

    /// Adds units after the last span: makes spans longer until it is not.
    #[cold]
    #[inline(never)]
    fn add_later(&mut self, now_ns: u64, units: u64) {
        while (now_ns - self.begin_ns) >> self.shift >= SPANS as u64 {
            for at in 0..SPANS / 2 {
                self.units[at] = self.units[2 * at] + self.units[2 * at + 1];
            }
            self.units[SPANS / 2..].fill(0);
            self.shift += 1;
        }
        self.add(now_ns, units);
    }

    /// Returns the whole spans until the end of the measured part.
    pub(crate) fn until(mut self, end_ns: u64) -> Progress {
        let end_ns = end_ns.max(self.begin_ns);
        // The last spans may have no units.
        self.add_later(end_ns.saturating_sub(1).max(self.begin_ns), 0);
        let whole = ((end_ns - self.begin_ns) >> self.shift) as usize;
        Progress {
            span_ns: 1 << self.shift,
            unit: if self.counts_work() { WORK_NS } else { 1 },
            units: self.units[..whole.min(SPANS)].to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(programs: Vec<Vec<Op>>) -> Series {
        let tasks: Vec<Task> = programs.into_iter().map(|program| Task::new("t", 0, program)).collect();
        Series::new(&tasks)
    }

    /// One unit at 0, 1,023, 1,024 and 3,000 ns: two, one and one. The end at 3,500 leaves three whole spans, of which
    /// the third, until 3,072, has the last.
    #[test]
    fn spans_by_hand() {
        let mut found = series(vec![vec![Op::Count { units: 1 }]]);
        for now_ns in [0, 1023, 1024, 3000] {
            found.add(now_ns, 1);
        }
        let progress = found.until(3500);
        assert_eq!((progress.span_ns, progress.unit, progress.units), (1024, 1, vec![2, 1, 1]));
    }

    #[test]
    fn spans_become_longer_and_nothing_is_lost() {
        let mut found = series(vec![vec![Op::Count { units: 1 }]]);
        let ends = [1 << 20, 1 << 21, 5 << 20, 9 << 30];
        let mut sum = 0;
        for (units, now_ns) in (1..).zip(ends) {
            found.add(now_ns - 1, units);
            sum += units;
            assert_eq!(found.units.iter().sum::<u64>(), sum, "{now_ns}");
        }
        let progress = found.until(10 << 30);
        assert_eq!(progress.span_ns, 1 << 24, "1,024 spans have 16 GiB of nanoseconds, 512 have too few");
        assert_eq!((progress.units.len(), progress.units.iter().sum::<u64>()), (640, sum));
    }

    #[test]
    fn a_restart_forgets_what_was_before() {
        let mut found = series(vec![vec![Op::Count { units: 1 }]]);
        found.add(1 << 40, 5);
        found.restart(1 << 41);
        found.add((1 << 41) + 2000, 7);
        assert_eq!(found.until((1 << 41) + 2048).units, [0, 7]);
    }

    /// Without counts the work of judged tasks is a unit, or that of all.
    #[test]
    fn work_counts_where_nothing_is_counted() {
        let compute = || vec![Op::Compute { work_ns: 10, spread_percent: 0 }];
        let mut all = series(vec![compute(), compute()]);
        assert!(all.counts_work());
        all.add_work(0, 0, 10);
        all.add_work(0, 1, 10);
        assert_eq!((all.units[0], all.until(2000).unit), (20, 1_000_000));
        let mut tasks: Vec<Task> = (0..2).map(|_| Task::new("t", 0, compute())).collect();
        tasks[1].judged = true;
        let mut judged = Series::new(&tasks);
        judged.add_work(0, 0, 10);
        judged.add_work(0, 1, 10);
        assert_eq!(judged.units[0], 10);
        assert!(!series(vec![compute(), vec![Op::Count { units: 1 }]]).counts_work());
    }
}
