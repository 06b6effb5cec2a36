// SPDX-License-Identifier: GPL-2.0-or-later
//! Watching a run from outside: exporters and tests implement [`Observer`]. The engine is generic over its observer, so
//! that the observer that ignores everything costs nothing.

use wakelab_policy::{Decision, EnqueueWhy};
use wakelab_workload::Source;

/// What a CPU does, as far as it matters to those that wait for the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It has nothing to do.
    Idle,
    /// It leaves its idle state.
    IdleExit,
    /// It runs this task, or switches to it.
    Task(u32),
    /// A kernel path that belongs to what it did before: to an interrupt, or to the current task, if there is one.
    Path(Option<u32>),
    /// It handles a timer, a device, a tick.
    Interrupt,
    /// It handles an interrupt from another CPU.
    Ipi,
    /// It looks for its next task, or switches to its idle task.
    Schedule,
}

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
    /// `task` is runnable from now on and waits until it is switched in: it was woken, begins, or had to give way.
    fn wait(&mut self, now_ns: u64, task: u32) {}
    /// `task`, which had to give way, was chosen again: it did not wait.
    fn keep(&mut self, now_ns: u64, cpu: u32, task: u32) {}
    /// `task` is about to be switched in on `cpu`, `waited_ns` after its wait began.
    fn waited(&mut self, now_ns: u64, cpu: u32, task: u32, waited_ns: u64) {}
    /// The group of `task`, which is in no queue, is throttled on `cpu`: the task waits for its quota.
    fn park(&mut self, now_ns: u64, cpu: u32, task: u32) {}
    /// From now on `cpu` is idle and not claimed by a wake-up, or is not.
    fn idle_bit(&mut self, now_ns: u64, cpu: u32, idle: bool) {}
    /// The measured part begins.
    fn begin(&mut self, now_ns: u64) {}
    /// Whether [`Observer::activity`] is called. That has a cost.
    fn watches_activity(&self) -> bool {
        false
    }
    /// From now on `cpu` does this. It may be what it did before.
    fn activity(&mut self, now_ns: u64, cpu: u32, activity: Activity) {}
    /// The run is over, and its own sums are these. Returns what the observer found wrong.
    fn check(&mut self, sums: &WaitSums) -> Option<String> {
        None
    }
    /// `parent` created `child` on `cpu`.
    fn fork(&mut self, now_ns: u64, cpu: u32, parent: u32, child: u32) {}
    /// `task` ends on `cpu`: it may still wake a parent that waits for it, and is then switched out.
    fn exit(&mut self, now_ns: u64, cpu: u32, task: u32) {}
}

/// How long tasks waited, as the engine's own books have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitSums {
    /// The number of waits that ended.
    pub waits: u64,
    /// Their sum.
    pub sum_ns: u64,
    /// By name of the judged tasks, in the measured part: the number and the sum.
    pub by_name: Vec<(String, u64, u64)>,
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unobserved;

impl Observer for Unobserved {}
