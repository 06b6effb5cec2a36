// SPDX-License-Identifier: GPL-2.0-or-later
//! How much of a recording is understood, and what is not: counted by kind, with the first line of each.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::loops::LoopCount;

/// Something in a recording that cannot be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// The wait is taken to have ended from outside, when the task was switched in.
    #[error("a task that waited was switched in, and no wake-up of it was seen")]
    SwitchInUnwoken,
    /// The task that was believed to run is taken to have run until the CPU's event before this one.
    #[error("another task runs on the CPU than the one that was switched in last")]
    MissedSwitch,
    /// It is taken to have run since it became runnable.
    #[error("a task runs on a CPU that was idle, and neither its switch-in nor its run time was seen")]
    SwitchInUnseen,
    /// It is taken to have left the other CPU at that CPU's last event.
    #[error("a task runs on two CPUs at once")]
    RunsTwice,
    /// The wake-up is taken to have come from outside.
    #[error("a wake-up on a CPU of which it is not known who runs there")]
    UnknownWaker,
    /// The wake-up is taken to be the work of the task that was current where it was done.
    #[error("sched_wakeup of a waiting task without the sched_waking that the recording has for others")]
    MissedWaking,
    /// The task that was current at the first wake-up is taken to be the parent.
    #[error("the first wake-up of a new task without its sched_process_fork")]
    MissedFork,
    /// The new task starts by itself at that time.
    #[error("a new task of which it is not known who made it")]
    UnknownParent,
    /// It is taken to have ended, and another one begins.
    #[error("a new task has the id of one whose exit was not seen")]
    MissedExit,
    /// Another task of that id is taken to have begun.
    #[error("a task runs or is woken after its exit")]
    AfterExit,
    /// What follows may be explained wrongly.
    #[error("the recorder lost events")]
    LostEvents,
}

/// How often one kind of [`Gap`] was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GapCount {
    /// How often.
    pub count: u64,
    /// The first time: line in the recording, from 1.
    pub first_line: u64,
}

/// How much of a recording is understood.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// Waits that ended within the recording: by a task, from outside, or unexplained.
    pub waits: u64,
    /// Of which by a wake-up that is put down to a task.
    pub by_task: u64,
    /// Of which by a wake-up on an idle CPU or, where the recording knows, by an interrupt.
    pub from_outside: u64,
    /// Of those from outside, the ones of which nobody knows whether a timer or a device did it.
    pub source_unknown: u64,
    /// Of which nobody knows by what.
    pub unexplained: u64,
    /// Wake-ups in soft interrupts of unknown kind. They are put down to the task that was current.
    pub soft_interrupt_wakes: u64,
    /// Waits that had not ended when the recording did. They are dropped.
    pub open_at_end: u64,
    /// Wake-ups that ended no wait: the task ran, or was runnable already.
    pub redundant_wakes: u64,
    /// Switch-ins on an idle CPU that were not recorded, but whose time follows from sched_stat_runtime.
    pub switch_ins_inferred: u64,
    /// What [`crate::Options::recorded_on`] would have taken off work, but that so much work was not there, in ns.
    pub overhead_clamped_ns: u64,
    /// Tasks that were there before the recording began.
    pub tasks_from_before: u64,
    /// Tasks born in the recording.
    pub tasks_born: u64,
    /// Tasks that exited in the recording.
    pub tasks_exited: u64,
    /// Tasks of a real-time class; they become the heaviest fair tasks.
    pub realtime_tasks: u64,
    /// Kernel threads that belong to one CPU, by their name and by where they ran.
    pub pinned_kernel_threads: u64,
    /// Events that the recorder says it lost.
    pub lost_events: u64,
    /// The recording brackets interrupts or flags what happens in them. If not, what an interrupt woke is put down to
    /// the task that it interrupted.
    pub interrupts_known: bool,
    /// The recording says which threads share a process. If not, each thread is a process of its own.
    pub processes_known: bool,
    /// Wake-ups are those of sched_waking. If not, of sched_wakeup, which may be logged on the wakee's CPU.
    pub wakers_known: bool,
    /// The recorder named tasks by other ids than the events do (perf inside a container); its ids were not used.
    pub foreign_ids: bool,
    /// Who was woken from outside, by name: in open or in closed loops.
    pub loops: BTreeMap<String, LoopCount>,
    /// What cannot be explained.
    pub gaps: BTreeMap<Gap, GapCount>,
}

impl Explained {
    /// Waits whose end is explained, per thousand waits that ended, rounded down; 1000 if there were none.
    pub fn permille(&self) -> u64 {
        (self.waits - self.unexplained).saturating_mul(1000).checked_div(self.waits).unwrap_or(1000)
    }
}
