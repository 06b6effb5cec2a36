// SPDX-License-Identifier: GPL-2.0-or-later
//! What tasks do, as plain data: programs over a small set of operations.
//!
//! The simulator executes these operations and nothing else. A workload file (TOML) expands to a [`Workload`], and so
//! does a recording; after that point nobody knows which it was.

use serde::{Deserialize, Serialize};

/// Index into [`Workload::tasks`].
pub type TaskIndex = u32;
/// Index into [`Workload::channels`].
pub type ChannelIndex = u32;
/// A one-shot event from one task to another; below [`Workload::signals`].
pub type SignalIndex = u32;
/// A gate opened once for all who wait; below [`Workload::gates`].
pub type GateIndex = u32;

/// A set of programs and the objects that they share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Name for people, e.g. `hackbench:groups=16` or the recording's file name.
    pub name: String,
    /// All tasks that ever exist. Those without `parent` exist at time 0.
    pub tasks: Vec<Task>,
    /// Pipes and sockets.
    pub channels: Vec<Channel>,
    /// Number of one-shot signals.
    pub signals: u32,
    /// Number of gates.
    pub gates: u32,
    /// When the run ends.
    pub end: End,
    /// What the run is judged by.
    pub measure: Measure,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// When the last task has exited.
    AllExited,
    /// After so much simulated time.
    After {
        /// Since time 0.
        duration_ns: u64,
    },
}

/// What a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Time from [`Op::MarkBegin`] (or 0) to [`Op::MarkEnd`] (or the end); lower is better.
    Makespan,
    /// Units counted by [`Op::Count`] per second from [`Op::MarkBegin`] (or 0) on; higher is better.
    Rate,
}

/// A task and its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// `comm`, for people; tasks of one kind share it.
    pub name: String,
    /// The task that forks this one by [`Op::Fork`]; `None`: exists and is woken at `start_ns`.
    pub parent: Option<TaskIndex>,
    /// For a task without parent: when it first becomes runnable.
    pub start_ns: u64,
    /// Process: tasks with the same number share an address space.
    pub process: u32,
    /// 1024 at nice 0.
    pub weight: u32,
    /// CPUs it may run on, sorted; `None`: all.
    pub allowed: Option<Vec<u32>>,
    /// The CPU that a task without parent last ran on; `None`: the host spreads them.
    pub last_cpu: Option<u32>,
    /// What it does. Falling off the end is [`Op::Exit`].
    pub program: Vec<Op>,
}

/// A pipe or a socket: bounded, first in first out, readers and writers wait in the order in which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// Bytes it holds before a writer blocks.
    pub capacity_bytes: u64,
    /// A message takes this much of the capacity more than its bytes (a socket buffer's overhead).
    pub overhead_bytes: u64,
    /// A writer that waits is woken once its message fits and at least so much is free; 0: once its message fits.
    /// Linux wakes a unix socket's writers when at most a quarter of the buffer is used, and a pipe's when a whole page is
    /// free: without it every message read from a full channel would wake a writer. At most `capacity_bytes`.
    #[serde(default)]
    pub wake_room_bytes: u64,
    /// Whether its wake-ups say `sync`: pipes and sockets do.
    pub sync: bool,
}

/// Where a wake-up comes from that no task makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A timer, armed on the CPU where the task went to sleep; its interrupt comes there.
    Timer,
    /// A device; its interrupt comes to the CPU where the task went to sleep.
    Device,
}

/// One operation. Work is in nanoseconds of a core of capacity 1024 whose other threads are idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Use the CPU. With `spread_percent` s > 0, uniformly between (100 - s) % and (100 + s) % of it, by the seed.
    Compute {
        /// Work.
        work_ns: u64,
        /// 0 to 100.
        spread_percent: u32,
    },
    /// Put one message in, blocking while it does not fit; wakes the first reader that waits.
    Send {
        /// Where.
        channel: ChannelIndex,
        /// Size.
        bytes: u32,
        /// Work of the system call before the message is in.
        work_ns: u64,
    },
    /// Take one message out, blocking while there is none; wakes the first writer that waits and now fits (see
    /// [`Channel::wake_room_bytes`]).
    Recv {
        /// Where.
        channel: ChannelIndex,
        /// Work of the system call after the message is there.
        work_ns: u64,
    },
    /// Sleep, then be woken from outside: `delay_ns` after the sleep began.
    Sleep {
        /// Length.
        delay_ns: u64,
        /// By what.
        source: Source,
    },
    /// Start a task whose `parent` is this one.
    Fork {
        /// Which.
        task: TaskIndex,
    },
    /// Wait until all tasks forked by this one have exited.
    Join,
    /// Raise a one-shot signal; if its waiter waits, wake it.
    Signal {
        /// Which.
        signal: SignalIndex,
        /// The wake-up says `sync`.
        sync: bool,
    },
    /// Wait for a one-shot signal; goes on at once if it was raised already.
    Wait {
        /// Which.
        signal: SignalIndex,
    },
    /// Open a gate, waking all who wait there.
    OpenGate {
        /// Which.
        gate: GateIndex,
    },
    /// Wait for a gate; goes on at once if it is open.
    WaitGate {
        /// Which.
        gate: GateIndex,
    },
    /// Repeat the operations up to the matching [`Op::LoopEnd`]; loops nest.
    LoopBegin {
        /// How often; `None`: for ever.
        times: Option<u64>,
    },
    /// End of a loop.
    LoopEnd,
    /// Give up the CPU, staying runnable (sched_yield).
    Yield,
    /// The measured part begins.
    MarkBegin,
    /// The measured part ends.
    MarkEnd,
    /// So many units of useful work are done.
    Count {
        /// How many.
        units: u64,
    },
    /// End.
    Exit,
}
