// SPDX-License-Identifier: GPL-2.0-or-later
//! Watching a run from outside: exporters and tests implement [`Observer`]. The engine is generic over its observer, so
//! that the observer that ignores everything costs nothing.

use wakelab_policy::{Decision, EnqueueWhy};
use wakelab_workload::Source;

/// Called at each transition, in order of time. Tasks are indices into the workload's tasks. Every method does nothing
/// unless implemented.
#[allow(unused_variables)]
pub trait Observer {
    /// `task`, which has no parent, begins; it is placed from `cpu`, and no task wakes it.
    fn start(&mut self, now_ns: u64, cpu: u32, task: u32) {}
    /// A wake-up begins on `cpu`: by the task `waker`, or by an interrupt on an idle CPU. Flags are `WL_WAKE_*`.
    fn wake(&mut self, now_ns: u64, cpu: u32, waker: Option<u32>, wakee: u32, flags: u32) {}
    /// The policy chose a CPU for `wakee`, which joins the queue there when the cost is paid.
    fn decision(&mut self, now_ns: u64, this_cpu: u32, wakee: u32, decision: &Decision) {}
    /// The wake-up or the fork of `task` is done by `by_cpu` (`None`: it started by itself): it is queued on `cpu`.
    fn woken(&mut self, now_ns: u64, by_cpu: Option<u32>, cpu: u32, task: u32) {}
    /// `task` joined the queue of `cpu`.
    fn enqueue(&mut self, now_ns: u64, cpu: u32, task: u32, why: EnqueueWhy) {}
    /// `task` is current on `cpu` from now on: the switch begins.
    fn switch_in(&mut self, now_ns: u64, cpu: u32, task: u32) {}
    /// `task` is no longer charged for what `cpu` does, and had the CPU for `ran_ns`: it waits, has ended, or gives
    /// way. The scheduler looks for another task, and then switches.
    fn stopped(&mut self, now_ns: u64, cpu: u32, task: u32, ran_ns: u64) {}
    /// `task` is no longer current; `runnable`: it waits in a queue.
    fn switch_out(&mut self, now_ns: u64, cpu: u32, task: u32, runnable: bool) {}
    /// The idle task is current on `cpu` from now on: the switch begins.
    fn idle(&mut self, now_ns: u64, cpu: u32) {}
    /// A timer's or device's interrupt for a sleeping task begins on `cpu`. Wake-ups there until its end are its own.
    fn interrupt_enter(&mut self, now_ns: u64, cpu: u32, source: Source) {}
    /// The interrupt ends.
    fn interrupt_exit(&mut self, now_ns: u64, cpu: u32) {}
    /// Balancing moved the queued `task`, or exec the running one.
    fn migrate(&mut self, now_ns: u64, task: u32, from: u32, to: u32) {}
    /// `parent` created `child` on `cpu`.
    fn fork(&mut self, now_ns: u64, cpu: u32, parent: u32, child: u32) {}
    /// `task` ends on `cpu`: it may still wake a parent that waits for it, and is then switched out.
    fn exit(&mut self, now_ns: u64, cpu: u32, task: u32) {}
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unobserved;

impl Observer for Unobserved {}
