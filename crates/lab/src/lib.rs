// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs batches of scenarios on threads, for the command and for every other program that uses wakelab.
//!
//! Each kind of batch has a plan (plain data), a function that runs it, and a result (plain data, serialisable):
//! [`ablate`], [`sense`], [`map`], [`round_trips`], [`run_experiments`], [`bench`](bench()). [`export_events`] writes
//! what one run does as ftrace text, [`export_perfetto`] what several runs do in Perfetto's format, and
//! [`demo_recording`] is a small recording to try things with. A [`Runner`] has the threads and reports progress; the
//! results do not depend on the number of threads.
//!
//! The crate prints nothing, reads no arguments and keeps no state. Tables and JSON are made by wakelab-report.

mod ablation;
mod batch;
mod bench;
mod breakdown;
mod check;
mod demo;
mod design;
mod error;
mod experiments;
mod export;
mod load;
mod map;
mod round_trip;
mod runner;
mod scenario;
mod sensitivity;
mod shuffle;
mod steady;
mod timeline;
mod uncertainty;
mod why;

pub use ablation::{AblationCase, AblationPlan, ablate};
pub use bench::{BENCH_COSTS_OF, BENCH_GROWTH_CPUS, BenchPlan, BenchResult, bench, bench_runs};
pub use breakdown::{CostsByPart, Part, PartCosts, costs_by_part, has_parts};
pub use check::{Replay, machine_without_recorder, observe_replays, recorded_machine, replay_on_itself};
pub use demo::{DEMO_NAME, demo_recording};
pub use error::LabError;
pub use experiments::{
    ExperimentDraws, ExperimentOutcomes, draw_experiments, lengthen_experiments, plan_experiments,
    run_experiments,
};
pub use export::{export_events, export_perfetto, observe_events};
pub use load::{Load, TaskTemplate};
pub use map::{MapCell, MapPlan, map};
pub use round_trip::{RoundTrip, Trip, TripDifference, TripFacts, round_trip, round_trips};
pub use runner::{Progress, RunFailure, Runner, Silent};
pub use scenario::{Kernel, consecutive_seeds, scenarios};
pub use sensitivity::{FigureOutcomes, SensitivityOutcomes, SensitivityPlan, sense};
pub use steady::{run_until_steady, steady_part};
pub use timeline::{Slice, Timeline, Wake, Waker, observe_timeline};
pub use uncertainty::{DrawSet, Drawn, DrawnFigure, Draws, draw};
pub use why::{Axes, Axis, Mix, WhyOutcomes, why};
