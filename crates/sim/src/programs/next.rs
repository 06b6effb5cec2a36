// SPDX-License-Identifier: GPL-2.0-or-later
//! What a task does next, as plain data. The kernel carries it out.

use smallvec::SmallVec;
use wakelab_policy::WAKE_SYNC;

use crate::hardware::segment::{Segment, Stream};
use crate::time_use::TimeKind;

/// Where and when a task executes its program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    pub(crate) cpu: u32,
    pub(crate) task: u32,
    pub(crate) now_ns: u64,
}

/// A task to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wakee {
    pub(crate) task: u32,
    /// The flags of the wake-up, `WL_WAKE_*`.
    pub(crate) flags: u32,
}

impl Wakee {
    /// A blocked task; `sync`: the waker is about to sleep.
    pub(crate) fn new(task: u32, sync: bool) -> Wakee {
        Wakee { task, flags: if sync { WAKE_SYNC } else { 0 } }
    }
}

/// Tasks to wake in this order; nearly always at most two.
pub(crate) type Wakees = SmallVec<[Wakee; 2]>;

/// A task that spins on `cpu` got what it spins for, and needs `cost_ns` to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpinEnd {
    pub(crate) task: u32,
    pub(crate) cpu: u32,
    pub(crate) kind: TimeKind,
    pub(crate) cost_ns: u64,
}

/// What a task does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next operation or the next stage, at once.
    Continue,
    /// Executes a segment, then continues.
    Run(Segment),
    /// Streams through memory, then continues.
    Stream(Stream),
    /// Blocks until another task or an interrupt wakes it.
    Wait,
    /// Blocks until its timer fires.
    Sleep { until_ns: u64 },
    /// Wakes these tasks in one kernel path, then continues.
    Wake(Wakees),
    /// Other tasks stop spinning at once; then it continues.
    EndSpins(SmallVec<[SpinEnd; 1]>),
    /// Gives the CPU to another task if one waits.
    Yield,
    /// Lets the policy move the task, whose old program is gone, then continues.
    Exec,
    /// Creates and wakes this task, then continues.
    Fork { child: u32 },
    /// Counts units of work; continues.
    Count { units: u64 },
    /// The measured part begins; continues.
    MarkBegin,
    /// The measured part ends; continues.
    MarkEnd,
    /// A batch of wake-ups begins; continues.
    BeginBatch,
    /// Changes the shares of a group; continues.
    SetShares { group: u32, shares: u32 },
    /// Joins another group; continues.
    MoveTo { group: Option<u32> },
    /// exit() is done except for leaving: wakes a parent that waits, then continues.
    Exit(Wakees),
    /// Leaves for ever.
    Gone,
    /// The program did something that no program may do.
    Broken(String),
}

impl Next {
    /// Executes this segment if it has a length.
    #[inline(always)]
    pub(crate) fn run(segment: Segment) -> Next {
        if segment.units == 0 { Next::Continue } else { Next::Run(segment) }
    }

    /// Executes for this time, in nanoseconds.
    #[inline(always)]
    pub(crate) fn run_ns(kind: TimeKind, ns: u64) -> Next {
        Next::run(Segment::new(kind, ns))
    }

    /// Wakes up to two tasks.
    #[inline(always)]
    pub(crate) fn wake_two(first: Option<u32>, second: Option<u32>, sync: bool) -> Next {
        if first.is_none() && second.is_none() {
            return Next::Continue;
        }
        let mut wakees = Wakees::new();
        for task in [first, second].into_iter().flatten() {
            wakees.push(Wakee::new(task, sync));
        }
        Next::Wake(wakees)
    }

    /// Wakes these tasks if there are any.
    pub(crate) fn wake(wakees: Wakees) -> Next {
        if wakees.is_empty() { Next::Continue } else { Next::Wake(wakees) }
    }
}
