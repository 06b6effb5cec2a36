// SPDX-License-Identifier: GPL-2.0-or-later
//! What tasks do: programs over a small set of operations, from workload files or from a recording.
//!
//! program.rs defines the data. file.rs, steps.rs, expr.rs, expr_parse.rs and expand.rs make it from a workload file
//! (docs/guide/workloads.md describes the format). spec.rs finds the file. check.rs and held.rs refuse what cannot run.

mod check;
mod error;
mod expand;
mod expr;
mod expr_parse;
mod file;
mod groups;
mod held;
mod limits;
mod program;
mod spec;
mod steps;

pub use check::CheckError;
pub use error::WorkloadError;
pub use file::{Allowed, Description, Param, ValueRange, WorkloadFile};
pub use limits::{
    GROUPS_MAX, HELD_LOCKS_MAX, LOOP_DEPTH_MAX, MEMORY_BYTES_MAX, OPS_MAX, SHARES_MIN, SLICES_NS, TASKS_MAX,
    TIME_NS_MAX, WEIGHT_MAX,
};
pub use program::{
    Barrier, BarrierIndex, Channel, ChannelIndex, DEFAULT_FOOTPRINT_BYTES, End, GateIndex, Group, GroupIndex,
    Home, Lock, LockIndex, Measure, Op, Quota, SignalIndex, Source, Task, TaskIndex, Workload,
};
pub use spec::{Setting, describe, presets, settings, with_settings};
