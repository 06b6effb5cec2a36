// SPDX-License-Identifier: GPL-2.0-or-later
//! Rates that are not steady. One taken between two moments of a run says what a longer run has only if it is the same
//! in both halves of that part. Where it is not, a start or an end is measured, and so may be the gain; also where a
//! run has no steady part, so that its rate is that of the whole run.

use wakelab_experiment::{Case, Measure};
use wakelab_lab::steady_part;
use wakelab_sim::Outcome;
use wakelab_stats::{half_interval, mean, round_percent};

use crate::experiment::RowResult;
use crate::metric;

/// A rate that changes by less than this many percent from one half to the other is steady.
const CHANGE_MIN_PERCENT: f64 = 5.0;

/// By how much the rate of the second half of the measured part exceeds that of the first half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Drift {
    /// Means over the seeds, before and after, in percent.
    pub(crate) percent: [f64; 2],
    /// Whether either exceeds [`CHANGE_MIN_PERCENT`] and its 95 % interval over the seeds.
    pub(crate) still_changes: bool,
}

impl Drift {
    /// Returns the drift of the rate that `measure` takes between two moments; `None` for other measures, and if a run
    /// has no such rate.
    pub(crate) fn of(measure: &Measure, outcomes: &[Vec<Outcome>; 2]) -> Option<Drift> {
        let within = measure.within()?;
        let of_side = |side: &Vec<Outcome>| -> Option<Vec<f64>> {
            side.iter().map(|outcome| metric::drift_within(outcome, within.percent())).collect()
        };
        Some(Drift::new([of_side(&outcomes[0])?, of_side(&outcomes[1])?]))
    }

    /// `sides`: the drift of each seed in percent, before and after.
    fn new(sides: [Vec<f64>; 2]) -> Drift {
        let changes = |side: &Vec<f64>| {
            let change = mean(side).abs();
            change > CHANGE_MIN_PERCENT && change > half_interval(side).unwrap_or(0.0)
        };
        Drift {
            still_changes: sides.iter().any(changes),
            percent: sides.each_ref().map(|side| round_percent(mean(side))),
        }
    }
}

/// Returns how many runs have no steady part, before and after; `None` for measures that need none.
pub(crate) fn without_steady_part(measure: &Measure, outcomes: &[Vec<Outcome>; 2]) -> Option<[usize; 2]> {
    let Measure::Rate { within_percent: None, .. } = measure else { return None };
    let of_side = |side: &Vec<Outcome>| side.iter().filter(|outcome| steady_part(outcome).is_none()).count();
    Some(outcomes.each_ref().map(of_side))
}

/// Returns the lines below a table: each case whose rate is not steady, with the name of its first row.
pub(crate) fn unsteady_text(rows: &[RowResult<'_>]) -> String {
    let changing = |row: &RowResult<'_>| {
        let Drift { percent: [before, after], .. } = row.drift.filter(|drift| drift.still_changes)?;
        Some(format!("{before:+.0} % before, {after:+.0} % after"))
    };
    let whole = |row: &RowResult<'_>| {
        let [before, after] = row.without_steady_part.filter(|runs| *runs != [0, 0])?;
        let [all_before, all_after] = row.runs.outcomes.each_ref().map(Vec::len);
        Some(format!("{before} of {all_before} runs before, {after} of {all_after} after"))
    };
    let changing_title = "rates that still change, from the first half of the measured part to the second";
    let whole_title = "rates of whole runs, because no part of a run is steady";
    [by_case(changing_title, rows, &changing), by_case(whole_title, rows, &whole)].concat()
}

/// Returns what there is to tell of cases, each with the name of the first row that tells it, below a title.
fn by_case(title: &str, rows: &[RowResult<'_>], tell: &dyn Fn(&RowResult<'_>) -> Option<String>) -> String {
    let mut cases: Vec<&Case> = Vec::new();
    let mut out = String::new();
    for row in rows {
        let Some(words) = tell(row) else { continue };
        if !cases.iter().any(|known| std::ptr::eq(*known, row.runs.case)) {
            cases.push(row.runs.case);
            out.push_str(&format!("  {}: {words}\n", row.row.id));
        }
    }
    if out.is_empty() { out } else { format!("{title}\n{out}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Means of 10 and 1 %. The interval of 9, 10 and 11 is 4.302653 * 1 / sqrt(3) = 2.5, that of -10, 10 and 30 is 50.
    #[test]
    fn a_rate_still_changes_beyond_its_interval() {
        let steady = vec![0.0, 1.0, 2.0];
        let changes = Drift::new([vec![9.0, 10.0, 11.0], steady.clone()]);
        assert_eq!(changes, Drift { percent: [10.0, 1.0], still_changes: true });
        assert!(Drift::new([steady.clone(), vec![-11.0, -10.0, -9.0]]).still_changes, "it may also fall");
        assert!(!Drift::new([vec![-10.0, 10.0, 30.0], steady.clone()]).still_changes, "chance");
        assert!(!Drift::new([vec![4.0, 4.5, 5.0], steady.clone()]).still_changes, "less than 5 %");
        assert!(Drift::new([vec![10.0], vec![0.0]]).still_changes, "one seed has no interval");
    }
}
