// SPDX-License-Identifier: GPL-2.0-or-later
//! What every reader delivers, whatever the format: scheduling events in the order of time.
//!
//! A further format is a further [`EventSource`]; the causal model never learns which one it was.

use wakelab_workload::Source;

use crate::TraceError;

/// A stream of events in the order of time.
pub trait EventSource {
    /// The next one; `None` at the end. It borrows from the reader's line buffer.
    ///
    /// # Errors
    /// What the format says in [`TraceError`].
    fn next_item(&mut self) -> Result<Option<Item<'_>>, TraceError>;

    /// What errors call the recording.
    fn file(&self) -> &str;
}

/// One thing that a recording says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Something happened.
    Event(Event<'a>),
    /// The recorder could not keep up; what happened is not known.
    Lost {
        /// Where it says so, from 1.
        line: u64,
        /// How many events.
        count: u64,
    },
    /// What our own exports say about a task, before its first event.
    Told(Told<'a>),
    /// Nothing yet: the event goes on in the next line, so ask again.
    Unfinished,
}

/// What no event says about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    /// Its id, which no other task of the recording has.
    pub tid: u32,
    /// Where it may run, as a list like `0-3,8`; `None`: everywhere.
    pub cpus: Option<&'a str>,
    /// Its working set.
    pub footprint_bytes: u64,
}

/// Something that happened on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Where it stands, from 1.
    pub line: u64,
    /// When, on the recorder's clock. Never less than that of the event before.
    pub time_ns: u64,
    /// Where, below [`crate::MAX_CPUS`].
    pub cpu: u32,
    /// The task that was current, in the event's own words.
    pub current: Current<'a>,
    /// Whether an interrupt made it happen.
    pub context: Context,
    /// When the interrupt began that the CPU is in; `None`: in none, or only flags tell.
    pub interrupt_since_ns: Option<u64>,
    /// With this event an interrupt ended that began then.
    pub interrupt_ended_ns: Option<u64>,
    /// What.
    pub what: What<'a>,
}

/// The task that was current on an event's CPU, in the recorder's words and not necessarily in those of the event: perf
/// inside a container writes the container's ids here and the machine's ids in the event's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current<'a> {
    /// Its name.
    pub comm: &'a str,
    /// Its id; 0 is the idle task. `None`: it was exiting and had none any more.
    pub tid: Option<u32>,
    /// Its process, if the recording says.
    pub process: Option<u32>,
}

/// In what the CPU was when an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The recording does not say. Then the current task is taken to have done it.
    Unknown,
    /// The current task did it.
    Task,
    /// It happened in a soft interrupt whose kind the recording does not say. It may be the current task's own doing
    /// (sending over loopback) or not (a timer).
    Soft,
    /// An interrupt did it; the current task has nothing to do with it.
    Interrupt(Source),
}

/// A task as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskName<'a> {
    /// Its name.
    pub comm: &'a str,
    /// Its id; 0 is the idle task.
    pub tid: u32,
    /// The kernel's priority: 120 is nice 0, below 100 is real time. `None`: the event does not say.
    pub prio: Option<i32>,
}

/// Why a task was switched out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchedOut {
    /// It could go on: preempted, or it yielded.
    Runnable,
    /// It waits for a wake-up.
    Blocked,
    /// It is gone.
    Exited,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A context switch.
    Switch {
        /// Who ran.
        prev: TaskName<'a>,
        /// Why no longer.
        why: SwitchedOut,
        /// Who runs now.
        next: TaskName<'a>,
    },
    /// A wake-up begins, on the waker's CPU.
    Waking {
        /// The wakee.
        task: TaskName<'a>,
        /// Where it ran last.
        last_cpu: u32,
        /// The waker said that it is about to wait. Only our own exports know this.
        sync: bool,
    },
    /// A wake-up is done. This may happen on the wakee's CPU, so it says less about the waker.
    Wakeup {
        /// The wakee.
        task: TaskName<'a>,
        /// Where it is queued now.
        cpu: u32,
    },
    /// A new task is woken for the first time, by its parent.
    WakeupNew {
        /// The new task.
        task: TaskName<'a>,
        /// Where it is queued.
        cpu: u32,
    },
    /// A new task exists, but is not runnable yet.
    Fork {
        /// Who made it.
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
        /// Which.
        task: TaskName<'a>,
        /// From where.
        from_cpu: u32,
        /// To where.
        to_cpu: u32,
    },
    /// The scheduler's own account of a running task's CPU time: since the last such event, or since its switch-in.
    Runtime {
        /// Which.
        task: TaskName<'a>,
        /// How much.
        ran_ns: u64,
    },
    /// The interrupt of the CPU's own timer begins (x86): the tick is among what was recorded.
    Tick,
    /// Something that says nothing about who waits for whom. Its time and its current task still count.
    Other,
}
