// SPDX-License-Identifier: GPL-2.0-or-later
//! What tasks do, as plain data: programs over a small set of operations.
//!
//! The simulator executes these operations and nothing else. Both a workload file (TOML) and a recording become a
//! [`Workload`], which does not say where it came from.

use serde::{Deserialize, Serialize};

/// Index into [`Workload::tasks`].
pub type TaskIndex = u32;
/// Index into [`Workload::channels`].
pub type ChannelIndex = u32;
/// A one-shot event from one task to another; below [`Workload::signals`].
pub type SignalIndex = u32;
/// A gate, opened once for all tasks that wait; below [`Workload::gates`].
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
    /// Name, e.g. `hackbench:groups=16` or the recording's file name.
    pub name: String,
    /// All tasks that ever exist. Those without `parent` exist at time 0.
    pub tasks: Vec<Task>,
    /// Pipes and sockets.
    pub channels: Vec<Channel>,
    /// Number of one-shot signals.
    pub signals: u32,
    /// Number of gates.
    pub gates: u32,
    /// Mutexes and spinlocks.
    #[serde(default)]
    pub locks: Vec<Lock>,
    /// Barriers, at which tasks wait for each other.
    #[serde(default)]
    pub barriers: Vec<Barrier>,
    /// Task groups (cgroups).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// When the run ends.
    pub end: End,
    /// The figure by which the run is judged.
    pub measure: Measure,
}

impl Workload {
    /// Returns a workload without tasks and objects, to be filled in. It ends when all tasks have exited.
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
    /// The run ends when the last task has exited.
    AllExited,
    /// The run ends after a given simulated time.
    After {
        /// Length of the run, from time 0.
        duration_ns: u64,
    },
}

/// The figure by which a run is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Time from [`Op::MarkBegin`] (or 0) to [`Op::MarkEnd`]; without a mark to the end of the last task that is
    /// [`Task::awaited`], or else [`Task::judged`], if there are such tasks, or to the end; lower is better.
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
    /// Name, like the kernel's `comm`; tasks of one kind share it.
    pub name: String,
    /// The task that forks this one by [`Op::Fork`]. `None`: the task exists from the beginning and is woken at
    /// `start_ns`.
    pub parent: Option<TaskIndex>,
    /// Time at which a task without parent first becomes runnable.
    pub start_ns: u64,
    /// Process: tasks with the same number share an address space.
    pub process: u32,
    /// Load weight; 1024 at nice 0.
    pub weight: u32,
    /// The slice that the task asks for by sched_setattr(), as Linux knows it from 6.12 on; `None` means that of all
    /// tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ns: Option<u32>,
    /// CPUs that the task may run on, sorted; `None` means all.
    pub allowed: Option<Vec<u32>>,
    /// The CPU that a task without parent last ran on. `None`: the host spreads such tasks over the CPUs.
    pub last_cpu: Option<u32>,
    /// Size of the working set, which is in the caches once the task has run for a while. The task fetches it again
    /// where it is missing.
    #[serde(default = "default_footprint_bytes")]
    pub footprint_bytes: u64,
    /// Whether [`Measure::WakeupLatency`] includes the task's wake-up latencies, and [`Measure::Makespan`] ends with
    /// it.
    #[serde(default)]
    pub judged: bool,
    /// Whether its end counts for [`Measure::Makespan`], if it is judged. Where no judged task is awaited, the end of
    /// each counts. Otherwise only a part of them tells when the work is done: the rest (a server, its housekeeping)
    /// goes on afterwards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaited: bool,
    /// Whether it is unknown what the task does after its program, because the recording ends there. Then the end of
    /// the program costs nothing, wakes no task and is no exit; the task just does nothing more.
    #[serde(default)]
    pub cut_off: bool,
    /// Whether it takes messages from several channels as they come (`poll()`, `epoll_wait()`). Where it would wait in
    /// an [`Op::Recv`], it first does the part of its program that begins with a later one, if there is a message for
    /// that and none is asked for before; a part ends before the next [`Op::Recv`]. If there is none, it waits for the
    /// first message to any of these channels.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub polls: bool,
    /// Work before the first message that a task which polls takes after a sleep, whatever number of messages it finds
    /// then: its event loop's own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after_sleep_ns: u64,
    /// The group in which the task begins; `None` means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupIndex>,
    /// What the task does. The end of the program is an [`Op::Exit`], unless the task is `cut_off`.
    pub program: Vec<Op>,
}

impl Task {
    /// Returns a task of nice 0 that runs `program` from time 0 on any CPU, in process `process`, with
    /// [`DEFAULT_FOOTPRINT_BYTES`]. It has no parent and no group, and is neither judged nor
    /// awaited.
    pub fn new(name: impl Into<String>, process: u32, program: Vec<Op>) -> Task {
        Task {
            name: name.into(),
            parent: None,
            start_ns: 0,
            process,
            weight: 1024,
            slice_ns: None,
            allowed: None,
            last_cpu: None,
            footprint_bytes: DEFAULT_FOOTPRINT_BYTES,
            judged: false,
            awaited: false,
            cut_off: false,
            polls: false,
            after_sleep_ns: 0,
            group: None,
            program,
        }
    }
}

/// Footprint of a task about which nothing is known: 32 KiB, the size of an L1 data cache (estimate).
pub const DEFAULT_FOOTPRINT_BYTES: u64 = 32 << 10;

fn default_footprint_bytes() -> u64 {
    DEFAULT_FOOTPRINT_BYTES
}

/// A mutex made of a futex: a task that finds it taken spins for a while, then sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// How long a task spins before it sleeps. 0 means that it does not spin (a plain futex), `u64::MAX` that it never
    /// sleeps (a spinlock).
    pub spin_ns: u64,
    /// Whether unlocking gives the lock to the first sleeper. If not, the lock is free then, and the first sleeper is
    /// woken and tries again; another task may take the lock in between.
    pub handoff: bool,
    /// Whether it is a mutex of a recording: its tasks' work contains what taking it and giving it back cost, and
    /// unlocking wakes a sleeper only if a task has found the lock taken, or slept for it, since it was taken.
    #[serde(default)]
    pub recorded: bool,
    /// What a task runs that was woken for such a mutex and finds it taken again, before it sleeps again.
    #[serde(default)]
    pub retry_ns: u64,
}

/// A barrier: `parties` tasks wait here for each other, again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Barrier {
    /// Number of tasks that wait for each other.
    pub parties: u32,
    /// How long a task spins before it sleeps. 0 means that it does not spin, `u64::MAX` that it never sleeps.
    pub spin_ns: u64,
    /// The work of its tasks has the update of its line and its system calls, as in a recording.
    #[serde(default)]
    pub recorded: bool,
}

/// A task group: its tasks and child groups divide what it receives, by their weights and shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Name, e.g. `a` or `worker[3]`.
    pub name: String,
    /// The group that this group is in; `None` means the root.
    pub parent: Option<GroupIndex>,
    /// Weight of the group among its siblings and the tasks beside it. 1024 is worth as much as a task of nice 0.
    pub shares: u32,
    /// How much CPU time all of it may use; `None` means that nothing limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

/// A limit of CPU time (`cpu.max`): so much in each period, on all CPUs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// CPU time in a period.
    pub quota_ns: u64,
    /// The length of a period.
    pub period_ns: u64,
}

/// Where the memory is that a task streams through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// On the node where the task began its first such operation. This is where Linux places pages by default.
    FirstTouch,
    /// On this node.
    Node(u32),
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// A pipe or a socket: bounded, first in, first out. Readers and writers wait in the order in which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// Bytes that the channel holds before a writer blocks.
    pub capacity_bytes: u64,
    /// Capacity that a message takes in addition to its bytes (a socket buffer's overhead).
    pub overhead_bytes: u64,
    /// Free bytes that it takes, beside room for its message, to wake a writer that waits; at most `capacity_bytes`.
    /// Linux wakes a unix socket's writers when at most a quarter of the buffer is used, and a pipe's when a whole page
    /// is free. Without this, every message read from a full channel would wake a writer.
    #[serde(default)]
    pub wake_room_bytes: u64,
    /// Whether room wakes all writers that wait, as a unix socket's does, and not only the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wakes_all_writers: bool,
    /// Whether a reader wakes a writer only if the channel was full, that is, if less room was free than it takes to
    /// wake a writer. The others that wait are woken by the writer before them, if it leaves room. So does a pipe.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wakes_when_full: bool,
    /// Whether the channel takes one message more than it holds, for the first writer that waits, when that
    /// would wait for ever otherwise. A recording tells how much a socket held, not how much it could hold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elastic: bool,
    /// The channel in which its reader, a task that polls, answers a message before it waits again. Then a reader that
    /// finds no further message first sends the answers that it owes, even if its program takes more messages first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_in: Option<ChannelIndex>,
    /// Whether wake-ups by the channel are `sync`, as those of pipes and sockets are.
    pub sync: bool,
    /// Whether this is a socket over the loopback device. Then the protocol's work for both ends is done in the
    /// sender's context (`loopback_ns` of the machine).
    #[serde(default)]
    pub loopback: bool,
    /// Cache lines that a sender fetches from the CPU that last used the channel: its lock, its queue, its counters. 0
    /// with `loopback`, because the protocol's work includes them.
    #[serde(default)]
    pub send_lines: u32,
    /// Cache lines that a receiver fetches from the sender's CPU with each message, beside its bytes: the kernel's
    /// record of the message, and the channel's own lines.
    #[serde(default)]
    pub recv_lines: u32,
}

/// Where a wake-up comes from if no task makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A timer, armed on the CPU where the task went to sleep. Its interrupt arrives there.
    Timer,
    /// A device. Its interrupt arrives on the CPU where the task went to sleep.
    Device,
    /// A recording does not tell. Treated as a device.
    Unknown,
}

/// One operation. Work is in nanoseconds of a core of capacity 1024 whose other threads are idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Use the CPU. If `spread_percent` s is not 0, the work is random by the seed, uniform between (100 - s) % and
    /// (100 + s) % of `work_ns`.
    Compute {
        /// Work in nanoseconds.
        work_ns: u64,
        /// Spread in percent, 0 to 100.
        spread_percent: u32,
    },
    /// Put one message into a channel, and block while it does not fit. Wakes the first reader that waits.
    Send {
        /// The channel written to.
        channel: ChannelIndex,
        /// Size of the message.
        bytes: u32,
        /// Work of the system call before the message is in.
        work_ns: u64,
    },
    /// Take one message out of a channel, and block while there is none. Wakes the first writer that waits, if its
    /// message fits now (see [`Channel::wake_room_bytes`]).
    Recv {
        /// The channel read from.
        channel: ChannelIndex,
        /// Work of the system call after the message is there.
        work_ns: u64,
    },
    /// Wait until there is a message in one of several channels (`select()`, `poll()`), and leave it there. The first
    /// message put into any of them wakes the task. Only one task at a time may wait in this way.
    Poll {
        /// The first of the channels.
        first: ChannelIndex,
        /// Number of channels, from that one on.
        count: u32,
        /// Work of the system call once there is a message.
        work_ns: u64,
    },
    /// If there is a message in a channel, execute the operations up to the matching [`Op::LoopEnd`] once; otherwise go
    /// on after them. Costs nothing, because a task that polled knows the answer.
    WhenReady {
        /// The channel that may have a message.
        channel: ChannelIndex,
    },
    /// Sleep until woken from outside, `delay_ns` after the sleep began.
    Sleep {
        /// Length of the sleep.
        delay_ns: u64,
        /// What wakes the task.
        source: Source,
    },
    /// Sleep until woken from outside at a time of the simulation; go on at once if that is past. This models events
    /// whose times do not depend on the scheduler (open loop).
    SleepUntil {
        /// Time of the wake-up, from time 0.
        time_ns: u64,
        /// What wakes the task.
        source: Source,
    },
    /// Stream through memory. Takes as long as the work, or as long as the memory needs for the bytes if that is
    /// longer.
    Memory {
        /// Work as in [`Op::Compute`]: the least time that the operation takes.
        work_ns: u64,
        /// Number of bytes read.
        read_bytes: u64,
        /// Number of bytes written.
        write_bytes: u64,
        /// The node of the memory.
        home: Home,
        /// Percentage of the bytes that come from the last-level cache and go there. They load all levels up to that
        /// cache, but not the memory.
        #[serde(default)]
        llc_percent: u32,
    },
    /// Take a lock. While another task has it, spin and sleep as the lock says.
    Lock {
        /// The lock to take.
        lock: LockIndex,
    },
    /// Give a lock back. Only the task that has it may do so.
    Unlock {
        /// The lock to give back.
        lock: LockIndex,
    },
    /// Wait until all parties have come to a barrier.
    Barrier {
        /// The barrier to wait at.
        barrier: BarrierIndex,
    },
    /// The same, but sleep at once, however long the barrier's tasks spin.
    SleepAtBarrier {
        /// The barrier to wait at.
        barrier: BarrierIndex,
    },
    /// Execute another program. The kernel may place the task again, and what the task has in the caches is useless
    /// then.
    Exec,
    /// Start a task whose `parent` is this one.
    Fork {
        /// The task to start.
        task: TaskIndex,
    },
    /// Wait until all tasks forked by this one have exited.
    Join,
    /// Raise a one-shot signal, and wake its waiter if it waits. Signals that follow each other directly are raised in
    /// one system call, so a wakee can preempt the task only after the last.
    Signal {
        /// The signal to raise.
        signal: SignalIndex,
        /// Whether the wake-up is `sync`.
        sync: bool,
    },
    /// Wait for a one-shot signal; go on at once if it was raised already.
    Wait {
        /// The signal to wait for.
        signal: SignalIndex,
    },
    /// Open a gate, and wake all tasks that wait there.
    OpenGate {
        /// The gate to open.
        gate: GateIndex,
    },
    /// Wait for a gate; go on at once if it is open.
    WaitGate {
        /// The gate to wait for.
        gate: GateIndex,
    },
    /// Repeat the operations up to the matching [`Op::LoopEnd`]; loops nest.
    LoopBegin {
        /// Number of rounds; `None` means for ever.
        times: Option<u64>,
    },
    /// Share out the rounds of a loop among the tasks of a barrier, as OpenMP's schedule(dynamic) does. A task that
    /// comes takes the next round, executes the operations up to the matching [`Op::LoopEnd`], and comes again. It goes
    /// on after the loop once all rounds are taken. There are new rounds each time that the barrier opens.
    LoopShared {
        /// The barrier whose tasks share the rounds.
        barrier: BarrierIndex,
        /// Number of rounds, for all tasks together.
        times: u64,
    },
    /// End of a loop.
    LoopEnd,
    /// Change the shares of a group from now on.
    SetShares {
        /// The group to change.
        group: GroupIndex,
        /// The new shares.
        shares: u32,
    },
    /// Move the task that executes this to a group; `None` moves it out of all groups.
    MoveTo {
        /// The group to move to.
        group: Option<GroupIndex>,
    },
    /// Give up the CPU, but stay runnable (sched_yield).
    Yield,
    /// Begin the measured part.
    MarkBegin,
    /// End the measured part.
    MarkEnd,
    /// Begin a batch of wake-ups: the judged latency ([`Task::judged`]) of each task that this one wakes from now on is
    /// counted from here, until the next batch begins.
    BeginBatch,
    /// Count units of useful work as done.
    Count {
        /// Number of units.
        units: u64,
    },
    /// End the task.
    Exit,
    /// Do the work of an exit, but stay for what a task does after that: it wakes its parent, for example. The
    /// [`Op::Exit`] that follows costs nothing then.
    BeginExit,
}
