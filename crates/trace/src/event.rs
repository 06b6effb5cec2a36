// SPDX-License-Identifier: GPL-2.0-or-later
//! What each reader delivers, whatever its format: scheduling events in the order of time.
//!
//! A new format is a new [`EventSource`]; the causal model does not learn which one it reads.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;
use wakelab_workload::Source;

use crate::TraceError;
use crate::header::HeaderLine;

/// A stream of events in the order of time.
pub trait EventSource {
    /// Returns the next item, which borrows from the reader's buffer; `None` at the end.
    ///
    /// # Errors
    /// Input that the format cannot read.
    fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError>;

    /// Returns the name that errors give to the recording.
    fn file(&self) -> &str;
}

/// A place in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Place {
    /// A line of text, from 1.
    #[serde(rename = "first_line")]
    Line(u64),
    /// The offset of a byte, from 0.
    #[serde(rename = "first_byte")]
    Byte(u64),
}

impl Default for Place {
    fn default() -> Self {
        Place::Line(0)
    }
}

impl Display for Place {
    /// Writes what comes after the file's name in an error.
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(to, ":{line}"),
            Place::Byte(byte) => write!(to, ": byte {byte}"),
        }
    }
}

/// One statement of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Something happened.
    Event(Event<'a>),
    /// The recorder could not keep up and lost events.
    Lost {
        /// Where the recording says so.
        place: Place,
        /// The number of events.
        count: u64,
    },
    /// What our own recordings and exports say about a task, before its first event.
    Told(Told<'a>),
    /// What our own recordings say about themselves, before the first event.
    Header(HeaderLine<'a>),
    /// Nothing yet: the event goes on in the next line, so ask again.
    Unfinished,
}

/// What no event says about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    /// Its id, which no other task of the recording has.
    pub tid: u32,
    /// The CPUs where it may run, as a list like `0-3,8`; `None` means all.
    pub cpus: Option<&'a str>,
    /// The slice that it has asked for, if it has.
    pub slice_ns: Option<u32>,
    /// The size of its working set, if that is known.
    pub footprint_bytes: Option<u64>,
    /// It belongs to the service. Only our own exports say so of a task.
    pub judged: bool,
    /// The service is done when such tasks are. Only our own exports say so of a task.
    pub awaited: bool,
    /// The control group that it is in, if that is known.
    pub cgroup: Option<&'a str>,
    /// The number and the nice value of its autogroup, if it has one.
    pub session: Option<(u32, i32)>,
    /// It was there before the recording.
    pub from_before: bool,
}

impl Told<'_> {
    /// Returns what is told of a task if nothing is known.
    pub(crate) const fn nothing(tid: u32) -> Told<'static> {
        Told {
            tid,
            cpus: None,
            slice_ns: None,
            footprint_bytes: None,
            judged: false,
            awaited: false,
            cgroup: None,
            session: None,
            from_before: true,
        }
    }
}

/// Something that happened on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Where it stands.
    pub place: Place,
    /// Its time on the recorder's clock, never less than that of the event before.
    pub time_ns: u64,
    /// Its CPU, below [`crate::MAX_CPUS`].
    pub cpu: u32,
    /// The task that was current on that CPU.
    pub current: Current<'a>,
    /// Whether an interrupt caused it.
    pub context: Context,
    /// When the interrupt began that the CPU is in; `None` if it is in none, or if only flags tell.
    pub interrupt_since_ns: Option<u64>,
    /// If this event ends an interrupt, when that interrupt began.
    pub interrupt_ended_ns: Option<u64>,
    /// What happened.
    pub what: What<'a>,
}

/// The task that was current on an event's CPU, as the recorder names it. perf inside a container writes the
/// container's ids here, and the machine's ids in the event's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current<'a> {
    /// Its name.
    pub comm: &'a str,
    /// Its id; 0 is the idle task. `None` if it was exiting and had no id any more.
    pub tid: Option<u32>,
    /// Its process, if the recording says.
    pub process: Option<u32>,
}

/// What a CPU was executing when an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The recording does not say. The event is attributed to the current task.
    Unknown,
    /// The current task.
    Task,
    /// A soft interrupt of unknown kind. The current task may have caused it (by sending over loopback) or not (a
    /// timer).
    Soft,
    /// An interrupt that has nothing to do with the current task.
    Interrupt(Source),
}

/// A task as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskName<'a> {
    /// Its name.
    pub comm: &'a str,
    /// Its id; 0 is the idle task.
    pub tid: u32,
    /// The kernel's priority: 120 is nice 0, below 100 is real time. `None` if the event does not say.
    pub prio: Option<i32>,
}

/// Why a task was switched out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchedOut {
    /// It was preempted, or it yielded.
    Runnable,
    /// It waits for a wake-up.
    Blocked,
    /// It has exited.
    Exited,
}

/// What a task wants of a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexCall {
    /// To sleep until the holder of a mutex wakes it: the value is 2, "held, and others may wait", in the mutexes of
    /// glibc, of Rust's library and of Go (U. Drepper, Futexes Are Tricky, 2011, mutex 2).
    WaitForMutex,
    /// To sleep for another reason.
    Wait,
    /// The same, until some time at the latest.
    WaitUntil,
    /// To wake tasks.
    Wake,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A context switch.
    Switch {
        /// The task that ran until now.
        prev: TaskName<'a>,
        /// Why it was switched out.
        why: SwitchedOut,
        /// The task that runs from now on.
        next: TaskName<'a>,
    },
    /// A wake-up begins, on the waker's CPU.
    Waking {
        /// The wakee.
        task: TaskName<'a>,
        /// The CPU where it ran last.
        last_cpu: u32,
        /// The waker said that it is about to wait. Only our own exports tell this.
        sync: bool,
    },
    /// A wake-up is done. The event may stand on the wakee's CPU, so it does not tell the waker.
    Wakeup {
        /// The wakee.
        task: TaskName<'a>,
        /// The CPU where it is queued now.
        cpu: u32,
    },
    /// A new task is woken for the first time, by its parent.
    WakeupNew {
        /// The new task.
        task: TaskName<'a>,
        /// The CPU where it is queued.
        cpu: u32,
    },
    /// A new task exists, but is not runnable yet.
    Fork {
        /// Its parent.
        parent: TaskName<'a>,
        /// The new task.
        child: TaskName<'a>,
    },
    /// The current task executes another program.
    Exec {
        /// Its id.
        tid: u32,
    },
    /// The current task is exiting, and has not told its parent yet.
    Exit,
    /// A task was moved to another CPU.
    Migrate {
        /// The task.
        task: TaskName<'a>,
        /// The CPU that it left.
        from_cpu: u32,
        /// The CPU where it is now.
        to_cpu: u32,
    },
    /// A process, or one thread, was moved to a control group. Only text has this event.
    Moved {
        /// Its id.
        tid: u32,
        /// The number of the hierarchy.
        hierarchy: i64,
        /// The group.
        path: &'a str,
    },
    /// The scheduler's own account of a running task's CPU time.
    Runtime {
        /// The task.
        task: TaskName<'a>,
        /// CPU time since the last such event, or since its switch-in.
        ran_ns: u64,
    },
    /// Data is ready for a socket, in its sender's context.
    DataReady {
        /// The receiver's socket, if the recording tells: an address in the kernel.
        to: Option<u64>,
    },
    /// A call that sent to a socket ends.
    Sent {
        /// The sender's socket.
        from: u64,
        /// The number of bytes; 0 if it failed.
        bytes: u64,
    },
    /// A call that received from a socket ends.
    Received {
        /// The receiver's socket.
        socket: u64,
        /// The number of bytes; 0 if it failed or only peeked.
        bytes: u64,
    },
    /// A call begins to write to a pipe or to an eventfd.
    Writes {
        /// The number of the pipe or the eventfd.
        channel: u64,
        /// The number of bytes; `None` for an eventfd, whose reader takes whatever was written.
        bytes: Option<u64>,
        /// What the pipe holds, if the recording tells.
        capacity_bytes: Option<u64>,
    },
    /// A call that read from a pipe or from an eventfd ends.
    Read {
        /// The number of the pipe or the eventfd.
        channel: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// The current task gives up its CPU, but could go on (sched_yield).
    Yield,
    /// The current task calls the kernel about a futex.
    Futex {
        /// Its address in the memory of the process, or of all processes that share it.
        address: u64,
        /// The address is that of one process.
        is_private: bool,
        /// What it wants.
        call: FutexCall,
    },
    /// The interrupt of the CPU's own timer begins (x86), so ticks were recorded.
    Tick,
    /// An event that says nothing about waiting. Its time and its current task still count.
    Other,
}
