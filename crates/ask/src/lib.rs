// SPDX-License-Identifier: GPL-2.0-or-later
//! What the command and the Python package ask, and the answers.
//!
//! An [`Ask`] names an input as a user does: a recording or a workload, how to read it, and what-ifs. Here names become
//! machines, policies and scenarios ([`question`]), and each kind of question has a function that runs it and an answer
//! that owns its runs: [`Compared`], [`Checked`], [`Explained`], [`Mapped`], [`Published`], [`Sweep`]. An answer makes
//! the JSON of docs/schema, so that every caller has the same bytes.
//!
//! The crate prints nothing: notes for the reader go to a [`Note`], progress to the runner's.

mod check;
mod compare;
mod error;
mod experiments;
mod input;
mod map;
mod nearest;
mod score;
mod suggest;
mod sweep;
mod why;

pub use check::{CheckAsk, Checked, check};
pub use compare::{Compared, Replayed, again, explained, replayed, timelines};
pub use error::{AskError, bad_input};
pub use experiments::{ExperimentsAsk, LONGER_MAX, Published, experiments};
pub use input::{
    Ask, DEFAULT_KERNEL, Import, MachineChoice, Note, Question, Source, change, explanation, input, machine,
    machine_of, machines, name_of, note_unused, note_without_slices, policies, policy, policy_meant,
    question, recorded, recorded_on_itself, recorded_work, replayed_on_itself, what_if_options, with_costs,
    workload, workload_meant, workloads,
};
pub use map::{MapAsk, Mapped, map};
pub use score::{CaseMetric, CaseScore, MetricScore, ScoreAsk, Scored, Scorer, Weighted};
pub use suggest::did_you_mean;
pub use sweep::{
    Found, Job, Journal, Row, Scenarios, Sweep, SweepCase, SweepPlan, SweepQueue, SweepSummary, Tally,
    read_row, run_sweep, write_row,
};
pub use why::{Explained, WhyAsk, why};
