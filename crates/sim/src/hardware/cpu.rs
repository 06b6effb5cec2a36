// SPDX-License-Identifier: GPL-2.0-or-later
//! The state of a simulated CPU and of a core, as plain data. segments.rs executes on it.

use wakelab_machine::CoreCache;

use crate::hardware::segment::{Segment, Stream};
use crate::hardware::speed::Speed;
use crate::time_use::TimeKind;

/// What a CPU does, which decides what happens at the end of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Nothing. This segment has no end.
    Idle,
    /// Leaves its idle state; then takes what is pending.
    IdleExit,
    /// Executes the current task's own segment.
    Task,
    /// Is in a kernel path whose end has no effect: what is pending comes next.
    Kernel,
    /// Makes a placement decision; then starts its wake-up.
    Select,
    /// Makes a placement decision at exec; then the task stays or goes.
    SelectExec,
    /// Takes its task off the CPU; then the task joins another queue.
    Push,
    /// Makes a wake-up; then the wakee joins a queue.
    Wakeup,
    /// Sends an interrupt; then the interrupt is in flight.
    SendIpi,
    /// Handles interrupts from other CPUs; then takes over its wake list.
    HandleIpi,
    /// Handles a timer's or a device's interrupt; then wakes its task.
    Interrupt,
    /// Handles a tick; then carries out the policy's answer.
    Tick,
    /// Handles the policy's timer; then carries out the policy's answer.
    PolicyTimer,
    /// Handles a timer of bandwidth control; then queues tasks that may run again.
    QuotaTimer,
    /// Takes a task that sleeps off its queue; then looks for the next one.
    Dequeue,
    /// Balances inside schedule(); then pulls and asks again, or picks a task.
    Balance,
    /// Balances inside a tick; then pulls and asks again, or is done.
    TickBalance,
}

/// One CPU. The fields that every event touches come first.
#[repr(C, align(64))]
pub(crate) struct Cpu {
    /// The part of the segment that is left at `since_ns`, in 1/1024 ns; for a stream, its traffic (stream.rs).
    pub(crate) remaining: u64,
    /// The time up to which the CPU's time is accounted.
    pub(crate) since_ns: u64,
    /// The length of the segment's tail, in 1/1024 ns.
    pub(crate) tail: u64,
    pub(crate) speed: Speed,
    pub(crate) kind: TimeKind,
    pub(crate) tail_kind: TimeKind,
    pub(crate) doing: Doing,
    /// Whether it counts among its core's executing threads.
    pub(crate) executing: bool,
    /// Whether it has a share of the memory's bandwidth.
    pub(crate) streams: bool,
    pub(crate) core: u32,
    pub(crate) capacity: u32,
    pub(crate) llc: u32,
    /// Its stream, if it streams.
    pub(crate) pace: Pace,
}

/// A stream, and how fast it advances.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pace {
    pub(crate) stream: Stream,
    /// In units of traffic per nanosecond.
    pub(crate) rate: u64,
    /// Whether the rate is at least what the work needs.
    pub(crate) by_work: bool,
}

impl Cpu {
    /// An idle CPU.
    pub(crate) fn new(core: u32, capacity: u32, llc: u32) -> Cpu {
        Cpu {
            remaining: 0,
            since_ns: 0,
            tail: 0,
            speed: Speed::FULL,
            kind: TimeKind::Idle,
            tail_kind: TimeKind::Idle,
            doing: Doing::Idle,
            executing: false,
            streams: false,
            core,
            capacity,
            llc,
            pace: Pace::default(),
        }
    }

    /// Sets the next segment, `units` long (1/1024 ns).
    #[inline]
    pub(crate) fn set(&mut self, doing: Doing, kind: TimeKind, units: u64) {
        self.doing = doing;
        self.kind = kind;
        self.remaining = units;
        self.tail = 0;
    }

    /// Sets the current task's segment.
    #[inline]
    pub(crate) fn set_task_segment(&mut self, segment: Segment) {
        self.doing = Doing::Task;
        self.kind = segment.kind;
        self.remaining = segment.units;
        self.tail = segment.tail.min(segment.units);
        self.tail_kind = segment.tail_kind;
    }

    /// Lengthens the segment that was just set by a tail, `units` long (1/1024 ns).
    #[inline]
    pub(crate) fn add_tail(&mut self, kind: TimeKind, units: u64) {
        debug_assert_eq!(self.tail, 0, "a segment has one tail");
        self.remaining += units;
        self.tail = units;
        self.tail_kind = kind;
    }

    /// The part of the segment that is left. The CPU must be settled: its time is accounted up to now.
    pub(crate) fn left(&self) -> Segment {
        Segment { units: self.remaining, tail: self.tail, kind: self.kind, tail_kind: self.tail_kind }
    }
}

/// A core: its CPUs, the number of them that execute, and since when none does.
pub(crate) struct Core {
    pub(crate) cpus: Vec<u32>,
    pub(crate) executing: u32,
    pub(crate) idle_since_ns: u64,
    pub(crate) caches: CoreCache,
}

impl Core {
    pub(crate) fn new(cpus: Vec<u32>) -> Core {
        Core { cpus, executing: 0, idle_since_ns: 0, caches: CoreCache::default() }
    }

    /// The time in nanoseconds for which the whole core has been idle: the busiest thread sets the core's idle state.
    pub(crate) fn idle_ns(&self, now_ns: u64) -> u64 {
        if self.executing > 0 { 0 } else { now_ns - self.idle_since_ns }
    }
}
