// SPDX-License-Identifier: GPL-2.0-or-later
//! How much of a recording is explained, and what is missing: counted by kind, with the place of the first of each.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::event::Place;
use crate::flows::FlowCounts;
use crate::loops::LoopCount;

/// Something in a recording that cannot be explained. Each says what the model assumes instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// The model ends the wait from outside, when the task was switched in.
    #[error("a task that waited was switched in, and no wake-up of it was seen")]
    SwitchInUnwoken,
    /// The task that was switched in last ran until the CPU's event before this one.
    #[error("another task runs on the CPU than the one that was switched in last")]
    MissedSwitch,
    /// The task ran since it became runnable.
    #[error("a task runs on a CPU that was idle, and neither its switch-in nor its run time was seen")]
    SwitchInUnseen,
    /// The task left the other CPU at that CPU's last event.
    #[error("a task runs on two CPUs at once")]
    RunsTwice,
    /// The wake-up came from outside.
    #[error("a wake-up on a CPU where the current task is not known")]
    UnknownWaker,
    /// The task that was current on the CPU of the sched_wakeup is the waker.
    #[error("a waiting task has a sched_wakeup, but not the sched_waking that others have")]
    MissedWaking,
    /// The task that was current at the first wake-up is the parent.
    #[error("the first wake-up of a new task without its sched_process_fork")]
    MissedFork,
    /// The new task starts by itself at that time.
    #[error("a new task without a known parent")]
    UnknownParent,
    /// The earlier task has exited, and another one begins.
    #[error("a new task has the id of an earlier task that was not seen to exit")]
    MissedExit,
    /// Another task of that id has begun.
    #[error("a task runs or is woken after its exit")]
    AfterExit,
    /// What follows may be explained wrongly.
    #[error("the recorder lost events")]
    LostEvents,
}

/// How often one kind of [`Gap`] occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GapCount {
    /// The number of times.
    pub count: u64,
    /// Where the first one stands.
    #[serde(flatten)]
    pub first: Place,
}

/// How much of a recording is explained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// Waits that ended within the recording. The next ones say how.
    pub waits: u64,
    /// Waits that ended by a wake-up attributed to a task.
    pub by_task: u64,
    /// Waits that ended by a wake-up on an idle CPU or in an interrupt.
    pub from_outside: u64,
    /// Those of `from_outside` that may have ended by a timer or by a device.
    pub source_unknown: u64,
    /// Waits that ended in an unknown way.
    pub unexplained: u64,
    /// Wake-ups in soft interrupts of unknown kind. They are attributed to the current task.
    pub soft_interrupt_wakes: u64,
    /// Waits that had not ended when the recording did. They are dropped.
    pub open_at_end: u64,
    /// Wake-ups that ended no wait, because the task was running or runnable.
    pub redundant_wakes: u64,
    /// Switch-ins on an idle CPU that were not recorded. Their time follows from sched_stat_runtime.
    pub switch_ins_inferred: u64,
    /// CPU time, in ns, that sched_stat_runtime does not account to the task that seems to run: the clock jumped, or
    /// others ran. It is in the model as work.
    pub unaccounted_ns: u64,
    /// Time of CPUs, in ns, in which tasks were switched unseen. It is in no task's work.
    pub unseen_ns: u64,
    /// Wake-ups of all kinds but first ones.
    pub wakeups: u64,
    /// CPUs without events, and the number of wake-ups by which tasks are known to have run there.
    pub silent_cpus: BTreeMap<u32, u64>,
    /// CPUs whose idle tasks have no events, and how often such a CPU left its idle task for another one. Wake-ups by
    /// interrupts of an idle CPU are not in the recording then.
    pub silent_idle: BTreeMap<u32, u64>,
    /// Kernel time, in ns, that [`crate::Options::recorded_on`] could not take off work because there was less work.
    pub overhead_clamped_ns: u64,
    /// Work, in ns, that is left out, because a replay does it again where it has to: spins at barriers, and what
    /// tasks do that are woken for a mutex and find it taken again.
    pub left_out_ns: u64,
    /// Tasks that were there before the recording began.
    pub tasks_from_before: u64,
    /// Tasks that were forked in the recording.
    pub tasks_born: u64,
    /// Tasks that exited in the recording.
    pub tasks_exited: u64,
    /// Tasks of a real-time class; they become fair tasks of nice -20.
    pub realtime_tasks: u64,
    /// Task groups with a quota of CPU time (`cpu.max`).
    pub limited_groups: u64,
    /// Kernel threads that are bound to one CPU, as their names say and the recording does not contradict.
    pub pinned_kernel_threads: u64,
    /// Tasks that stayed on one CPU while others idled, and are bound there, because the recording does not tell where
    /// tasks may run.
    pub bound_tasks: u64,
    /// Events that the recorder says it lost or overwrote.
    pub lost_events: u64,
    /// The recording tells interrupts from tasks, by events or by flags. If not, wake-ups by an interrupt are
    /// attributed to the interrupted task.
    pub interrupts_known: bool,
    /// The recording says which threads share a process. If not, each thread is a separate process.
    pub processes_known: bool,
    /// Wake-ups are known from sched_waking. If not, from sched_wakeup, which may stand on the wakee's CPU.
    pub wakers_known: bool,
    /// The recorder's task ids differ from those in the events (perf inside a container) and were not used.
    pub foreign_ids: bool,
    /// Tasks that were woken from outside, by name, in open or in closed loops.
    pub loops: BTreeMap<String, LoopCount>,
    /// Pairs of a waker and a wakee by kind, and dependencies that were added because the kind implies them.
    pub flows: FlowCounts,
    /// What cannot be explained, by kind.
    pub gaps: BTreeMap<Gap, GapCount>,
}

impl Explained {
    /// Returns the attributed waits per thousand waits that ended, rounded down; 1000 if none ended.
    pub fn permille(&self) -> u64 {
        (self.waits - self.unexplained).saturating_mul(1000).checked_div(self.waits).unwrap_or(1000)
    }
}
