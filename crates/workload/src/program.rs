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

/// Index into [`Workload::locks`].
pub type LockIndex = u32;
/// Index into [`Workload::barriers`].
pub type BarrierIndex = u32;
/// Index into [`Workload::groups`].
pub type GroupIndex = u32;

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
    /// Locks.
    #[serde(default)]
    pub locks: Vec<Lock>,
    /// Barriers.
    #[serde(default)]
    pub barriers: Vec<Barrier>,
    /// Task groups (cgroups).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// When the run ends.
    pub end: End,
    /// What the run is judged by.
    pub measure: Measure,
}

impl Workload {
    /// A workload without tasks and objects, which ends when all tasks have exited: to be filled in.
    pub fn empty(name: impl Into<String>, measure: Measure) -> Workload {
        Workload {
            name: name.into(),
            tasks: Vec::new(),
            channels: Vec::new(),
            signals: 0,
            gates: 0,
            locks: Vec::new(),
            barriers: Vec::new(),
            groups: Vec::new(),
            end: End::AllExited,
            measure,
        }
    }
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
    /// The 99th percentile of the wake-up latencies of the tasks that are [`Task::judged`], from [`Op::MarkBegin`] (or
    /// 0) on; lower is better.
    WakeupLatency,
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
    /// Its working set: what it has in the caches when it has run for a while, and fetches again where it does not find
    /// it.
    #[serde(default = "default_footprint_bytes")]
    pub footprint_bytes: u64,
    /// Its wake-up latencies are what [`Measure::WakeupLatency`] looks at.
    #[serde(default)]
    pub judged: bool,
    /// Nobody knows what it does after its program (a recording ends there): falling off the end costs nothing, wakes
    /// nobody and is no exit; the task is just seen no more.
    #[serde(default)]
    pub cut_off: bool,
    /// The group it begins in; `None`: outside any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupIndex>,
    /// What it does. Falling off the end is [`Op::Exit`], unless it is `cut_off`.
    pub program: Vec<Op>,
}

impl Task {
    /// A task of nice 0 that runs `program` from time 0 on any CPU, in a process of its own number, with
    /// [`DEFAULT_FOOTPRINT_BYTES`]; no parent, no group, not judged.
    pub fn new(name: impl Into<String>, process: u32, program: Vec<Op>) -> Task {
        Task {
            name: name.into(),
            parent: None,
            start_ns: 0,
            process,
            weight: 1024,
            allowed: None,
            last_cpu: None,
            footprint_bytes: DEFAULT_FOOTPRINT_BYTES,
            judged: false,
            cut_off: false,
            group: None,
            program,
        }
    }
}

/// The footprint of a task of which nothing is known: 32 KiB, an L1 data cache (estimate).
pub const DEFAULT_FOOTPRINT_BYTES: u64 = 32 << 10;

fn default_footprint_bytes() -> u64 {
    DEFAULT_FOOTPRINT_BYTES
}

/// A mutex as a futex makes it: who finds it taken spins for a while, then sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// How long a task spins for it before it sleeps; 0: not at all (a plain futex), `u64::MAX`: always (a spinlock).
    pub spin_ns: u64,
    /// Unlocking gives it to the first who sleeps for it. Else it is free, the first is woken and tries again, and
    /// somebody who comes by in between may be faster.
    pub handoff: bool,
}

/// All of `parties` tasks wait here for each other, again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Barrier {
    /// How many.
    pub parties: u32,
    /// How long a task spins there before it sleeps; 0: not at all, `u64::MAX`: always.
    pub spin_ns: u64,
}

/// A task group: its tasks and child groups divide what it receives, by their weights and shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// For people, e.g. `a` or `worker[3]`.
    pub name: String,
    /// The group in which it is; `None`: below the root.
    pub parent: Option<GroupIndex>,
    /// What it is due, compared with its siblings' shares and with the weights of tasks beside it; 1024 as a task at
    /// nice 0.
    pub shares: u32,
}

/// Where the memory lies that a task streams through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// On the node where the task began its first such operation, as Linux places pages by default.
    FirstTouch,
    /// On this node.
    Node(u32),
}

/// A pipe or a socket: bounded, first in first out, readers and writers wait in the order in which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// Bytes it holds before a writer blocks.
    pub capacity_bytes: u64,
    /// A message takes this much of the capacity more than its bytes (a socket buffer's overhead).
    pub overhead_bytes: u64,
    /// A writer that waits is woken once its message fits and at least so much is free; 0: once its message fits. Linux
    /// wakes a unix socket's writers when at most a quarter of the buffer is used, and a pipe's when a whole page is
    /// free: without it every message read from a full channel would wake a writer. At most `capacity_bytes`.
    #[serde(default)]
    pub wake_room_bytes: u64,
    /// Whether its wake-ups say `sync`: pipes and sockets do.
    pub sync: bool,
    /// A socket over the loopback device: the sender's context does the protocol's work for both ends
    /// (`loopback_ns` of the machine).
    #[serde(default)]
    pub loopback: bool,
    /// Cache lines that a sender takes over from the CPU that used the channel last: its lock, its queue, its counters.
    /// 0 with `loopback`, whose protocol work has them.
    #[serde(default)]
    pub send_lines: u32,
    /// Cache lines that a receiver fetches from the sender's CPU with each message, beside its bytes: the kernel's
    /// record of it, and the channel's own lines.
    #[serde(default)]
    pub recv_lines: u32,
}

/// Where a wake-up comes from that no task makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A timer, armed on the CPU where the task went to sleep; its interrupt comes there.
    Timer,
    /// A device; its interrupt comes to the CPU where the task went to sleep.
    Device,
    /// A recording does not say what: as a device.
    Unknown,
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
    /// Wait until there is a message in one of several channels (`select()`, `poll()`), and leave it there. Who waits
    /// so is woken by the first message put into any of them; one task at a time may.
    Poll {
        /// The first of them.
        first: ChannelIndex,
        /// How many, from that one on.
        count: u32,
        /// Work of the system call once there is a message.
        work_ns: u64,
    },
    /// Execute the operations up to the matching [`Op::LoopEnd`] once if there is a message in a channel, else go on
    /// after them. Costs nothing: who polled knows it.
    WhenReady {
        /// Which.
        channel: ChannelIndex,
    },
    /// Sleep, then be woken from outside: `delay_ns` after the sleep began.
    Sleep {
        /// Length.
        delay_ns: u64,
        /// By what.
        source: Source,
    },
    /// Sleep until a time of the simulation, then be woken from outside; goes on at once if that is past. What happens
    /// at its own times whatever the scheduler does (open loop).
    SleepUntil {
        /// Since time 0.
        time_ns: u64,
        /// By what.
        source: Source,
    },
    /// Stream through memory: takes as long as the work, or as the memory needs to deliver the bytes if that is longer.
    Memory {
        /// Work, as of [`Op::Compute`]: the least that it takes.
        work_ns: u64,
        /// Bytes read.
        read_bytes: u64,
        /// Bytes written.
        write_bytes: u64,
        /// Whose memory.
        home: Home,
        /// So many percent of the bytes come from the last-level cache and go there: all levels up to it see them, the
        /// memory does not.
        #[serde(default)]
        llc_percent: u32,
    },
    /// Take a lock; spins and sleeps as the lock says while another task has it.
    Lock {
        /// Which.
        lock: LockIndex,
    },
    /// Give it back. Only the task that has it may.
    Unlock {
        /// Which.
        lock: LockIndex,
    },
    /// Wait until all parties of a barrier are there.
    Barrier {
        /// Which.
        barrier: BarrierIndex,
    },
    /// Execute another program: the kernel may place the task anew, its caches are of no use to it.
    Exec,
    /// Start a task whose `parent` is this one.
    Fork {
        /// Which.
        task: TaskIndex,
    },
    /// Wait until all tasks forked by this one have exited.
    Join,
    /// Raise a one-shot signal; if its waiter waits, wake it. Signals that follow each other directly are raised in one
    /// system call: the task gives way after the last.
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
    /// Share out the rounds of a loop among the tasks of a barrier, as OpenMP's schedule(dynamic) does: whoever comes
    /// takes the next round, executes the operations up to the matching [`Op::LoopEnd`], and comes again; goes on after
    /// the loop once all rounds are taken. There are new rounds each time that the barrier opens.
    LoopShared {
        /// Whose.
        barrier: BarrierIndex,
        /// How many rounds, for all tasks together.
        times: u64,
    },
    /// End of a loop.
    LoopEnd,
    /// Give a group other shares from now on.
    SetShares {
        /// Which.
        group: GroupIndex,
        /// How many.
        shares: u32,
    },
    /// The task that executes this goes to a group; `None`: out of any.
    MoveTo {
        /// Which.
        group: Option<GroupIndex>,
    },
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
