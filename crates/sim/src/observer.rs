// SPDX-License-Identifier: GPL-2.0-or-later
//! Watching a run from outside: exporters and tests implement [`Observer`].
//!
//! The engine is generic over its observer, so that the one that ignores everything costs nothing.

use wakelab_policy::{Decision, EnqueueWhy};

/// Called at each transition, in order of time. Tasks are indices into the workload's tasks. Every method does nothing
/// unless implemented.
#[allow(unused_variables)]
pub trait Observer {
    /// A wake-up begins on `cpu`: by the task `waker`, or by an interrupt on an idle CPU. Flags are `WL_WAKE_*`.
    fn wake(&mut self, now_ns: u64, cpu: u32, waker: Option<u32>, wakee: u32, flags: u32) {}
    /// The policy chose a CPU for `wakee`. It queues there once the cost is paid.
    fn decision(&mut self, now_ns: u64, this_cpu: u32, wakee: u32, decision: &Decision) {}
    /// `task` joined the queue of `cpu`.
    fn enqueue(&mut self, now_ns: u64, cpu: u32, task: u32, why: EnqueueWhy) {}
    /// `task` is current on `cpu` from now on: the switch begins.
    fn switch_in(&mut self, now_ns: u64, cpu: u32, task: u32) {}
    /// `task` is not current any more; `runnable`: it waits in a queue.
    fn switch_out(&mut self, now_ns: u64, cpu: u32, task: u32, runnable: bool) {}
    /// Balancing moved the queued `task`.
    fn migrate(&mut self, now_ns: u64, task: u32, from: u32, to: u32) {}
    /// `parent` created `child` on `cpu`.
    fn fork(&mut self, now_ns: u64, cpu: u32, parent: u32, child: u32) {}
    /// `task` ended on `cpu`.
    fn exit(&mut self, now_ns: u64, cpu: u32, task: u32) {}
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unobserved;

impl Observer for Unobserved {}
