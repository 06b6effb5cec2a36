// SPDX-License-Identifier: GPL-2.0-or-later
//! The slices of runs as a table in Parquet, each with the wake-up that led to it.
//!
//! Columns have the names and meanings of Perfetto's trace processor where it has them: `ts` and `dur` in nanoseconds,
//! `cpu`, `tid` (the place of the task in the workload, from 1), `thread_name`, `end_state` (R: it gave way, S: it
//! waits, X: it ended, null: the run ended), `priority`. Beside them are the machine, the policy and the seed of the
//! run, `wait` before the slice, and of the wake-up `waker_tid`, `waker_cpu` and the `reason` of the placement, null
//! where there is none.

use std::io::Write;
use std::sync::Arc;

use wakelab_lab::{Slice, Timeline, Wake, Waker};
use wakelab_trace::kernel_events::{Left, Named};

use crate::columns::{Column, Values, write_parquet};
use crate::comparison::Comparison;

/// A slice of a run, with what its columns are made of.
struct Row<'a> {
    slice: &'a Slice,
    wake: Option<&'a Wake>,
    task: &'a Named,
}

impl Comparison<'_> {
    /// Writes the slices of all runs with the first seed to `out`; `timelines` are those runs.
    ///
    /// # Errors
    /// A write that fails.
    pub fn write_slices(&self, timelines: &[Timeline], out: impl Write + Send) -> std::io::Result<()> {
        write_parquet("slices", self.slices(timelines), out)
    }

    /// Returns the slices of each run with the first seed as a table; `timelines` are those runs.
    pub fn slices<'s>(&'s self, timelines: &'s [Timeline]) -> impl Iterator<Item = Vec<Column>> + 's {
        self.scenarios.iter().zip(&self.policies).zip(timelines).map(|((scenario, policy), timeline)| {
            let tasks = Named::all(&scenario.workload);
            let rows: Vec<Row<'_>> =
                timeline.slices.iter().map(|slice| row(slice, timeline, &tasks)).collect();
            columns((scenario.machine.name.as_str(), policy.name.as_str(), self.seeds[0]), &rows)
        })
    }
}

fn row<'a>(slice: &'a Slice, timeline: &'a Timeline, tasks: &'a [Named]) -> Row<'a> {
    let wake = slice.wake.map(|wake| &timeline.wakes[wake as usize]);
    Row { slice, wake, task: &tasks[slice.task as usize] }
}

/// Returns the columns of a run.
fn columns<'a>((machine, policy, seed): (&'a str, &'a str, u64), rows: &[Row<'a>]) -> Vec<Column> {
    // A run has few different texts, and each is kept once.
    let mut known = std::collections::BTreeMap::<&'a str, Arc<str>>::new();
    let mut texts = |of: &dyn Fn(&Row<'a>) -> Option<&'a str>| {
        let mut shared = |text: &'a str| Arc::clone(known.entry(text).or_insert_with(|| Arc::from(text)));
        Values::Texts(rows.iter().map(|row| of(row).map(&mut shared)).collect())
    };
    let ints = |of: &dyn Fn(&Row<'a>) -> Option<u32>| Values::Ints(rows.iter().map(of).collect());
    let longs = |of: &dyn Fn(&Row<'a>) -> u64| Values::Longs(rows.iter().map(|row| Some(of(row))).collect());
    vec![
        Column::required("machine", texts(&|_| Some(machine))),
        Column::required("policy", texts(&|_| Some(policy))),
        Column::required("seed", Values::Seeds(rows.iter().map(|_| seed).collect())),
        Column::required("ts", longs(&|row| row.slice.begin_ns)),
        Column::required("dur", longs(&|row| row.slice.end_ns - row.slice.begin_ns)),
        Column::required("cpu", ints(&|row| Some(row.slice.cpu))),
        Column::required("tid", ints(&|row| Some(row.slice.task + 1))),
        Column::required("thread_name", texts(&|row| Some(&row.task.comm))),
        Column::required("priority", ints(&|row| Some(row.task.prio as u32))),
        Column::optional(
            "end_state",
            texts(&|row| {
                row.slice.left.map(|left| match left {
                    Left::Runnable => "R",
                    Left::Blocked => "S",
                    Left::Exited => "X",
                })
            }),
        ),
        Column::required("wait", longs(&|row| row.slice.wait_ns)),
        Column::optional(
            "waker_tid",
            ints(&|row| match row.wake?.by {
                Waker::Task(task) | Waker::Parent(task) => Some(task + 1),
                Waker::Interrupt(_) | Waker::Idle => None,
            }),
        ),
        Column::optional("waker_cpu", ints(&|row| row.wake.map(|wake| wake.cpu))),
        Column::optional(
            "reason",
            texts(&|row| row.wake.map(|wake| wake.reason).filter(|reason| !reason.is_empty())),
        ),
    ]
}
