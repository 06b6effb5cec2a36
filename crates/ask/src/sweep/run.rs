// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a sweep on the threads of a runner. Each thread takes the next run that is needed.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use wakelab_lab::Runner;

use super::{Job, Journal, Row, Scenarios, Sweep, SweepQueue};
use crate::error::AskError;

/// How far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Runs whose rows are there.
    pub runs_done: usize,
    /// Runs that are known to be needed; more may follow.
    pub runs_known: usize,
}

struct State<'a> {
    sweep: &'a mut Sweep,
    journal: Option<&'a mut Journal>,
    queue: SweepQueue,
    under_way: usize,
    /// Scenarios of the cases that have runs under way, with how many.
    open: BTreeMap<usize, (Arc<Scenarios>, usize)>,
    error: Option<AskError>,
}

/// Runs all that is missing, and adds each row to the journal when its run has ended. `tell` is called after each run.
///
/// # Errors
/// A journal that cannot be written.
pub fn run_sweep(
    sweep: &mut Sweep,
    journal: Option<&mut Journal>,
    runner: &Runner<'_>,
    tell: &(dyn Fn(Tally) + Sync),
) -> Result<(), AskError> {
    let queue = SweepQueue::new(sweep);
    tell(Tally { runs_done: sweep.len(), runs_known: queue.known() });
    let (plan, columns) = (sweep.plan.clone(), sweep.columns.clone());
    let state = State { sweep, journal, queue, under_way: 0, open: BTreeMap::new(), error: None };
    let (state, changed) = (Mutex::new(state), Condvar::new());
    let scenarios = |case: usize| plan.scenarios_or_error(case);
    let work = |_thread: usize| {
        while let Some((job, own)) = next(&state, &changed, &scenarios) {
            let row = plan.run(&columns, &own, job);
            done(&mut state.lock().expect("no thread panics while it holds this lock"), row, tell);
            changed.notify_all();
        }
    };
    runner.in_parallel(runner.threads(), work);
    match state.into_inner().expect("no thread panicked").error {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Takes a run, or waits until there is one; `None` if there will be none.
fn next(
    state: &Mutex<State<'_>>,
    changed: &Condvar,
    scenarios: &dyn Fn(usize) -> Scenarios,
) -> Option<(Job, Arc<Scenarios>)> {
    let mut held = state.lock().expect("no thread panics while it holds this lock");
    loop {
        if held.error.is_some() {
            return None;
        }
        if let Some(job) = held.queue.take() {
            held.under_way += 1;
            // Making a workload takes less time than most runs, and other threads may then share it.
            let open = held.open.entry(job.case).or_insert_with(|| (Arc::new(scenarios(job.case)), 0));
            open.1 += 1;
            return Some((job, Arc::clone(&open.0)));
        }
        if held.under_way == 0 {
            return None;
        }
        held = changed.wait(held).expect("no thread panics while it holds this lock");
    }
}

fn done(state: &mut State<'_>, row: Row, tell: &(dyn Fn(Tally) + Sync)) {
    let case = row.job.case;
    state.under_way -= 1;
    if let Some(journal) = &mut state.journal
        && let Err(error) = journal.add(&row)
    {
        state.error = Some(error);
        return;
    }
    state.queue.done(state.sweep, row);
    let open = state.open.get_mut(&case).expect("a run keeps its case open");
    open.1 -= 1;
    if open.1 == 0 && state.queue.next_case() != Some(case) {
        state.open.remove(&case);
    }
    tell(Tally { runs_done: state.sweep.len(), runs_known: state.queue.known() });
}
