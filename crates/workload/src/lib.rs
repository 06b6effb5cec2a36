// SPDX-License-Identifier: GPL-2.0-or-later
//! What tasks do: programs over a small set of operations, from workload files or from a recording.

mod program;

pub use program::{
    Channel, ChannelIndex, End, GateIndex, Measure, Op, SignalIndex, Source, Task, TaskIndex, Workload,
};
