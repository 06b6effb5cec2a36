// SPDX-License-Identifier: GPL-2.0-or-later
//! What the books of waits say at the end, as plain data.

/// What a task waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A task of this name (a place in [`Waits::who`]) had the CPU.
    Behind(u32),
    /// The CPU handled timers, devices and ticks, and made the wake-ups that these ask for.
    Interrupt,
    /// The CPU left its idle state.
    IdleExit,
    /// The group of the task had used up its quota.
    Throttled,
    /// The wake-up itself, until the task was queued: placement decision, locks, and an interrupt to the other CPU.
    WakeUp,
    /// The CPU was notified, or in schedule().
    Schedule,
}

/// Tasks of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The name.
    pub name: String,
    /// Whether the workload is judged by them. Where no task is judged, all are.
    pub judged: bool,
}

/// The waits of the judged tasks of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameWaits {
    /// The name, as a place in [`Waits::who`].
    pub who: u32,
    /// The number of waits that ended.
    pub waits: u64,
    /// Their sum, which the causes add up to.
    pub sum_ns: u64,
    /// The part of it behind tasks and interrupts in which another CPU stood idle and unclaimed on which the task may
    /// run.
    pub idle_elsewhere_ns: u64,
    /// By cause.
    pub causes: Vec<(Cause, u64)>,
}

/// A placement decision, and what the policy could have known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The CPU that decided.
    pub by_cpu: u32,
    /// The CPU that was chosen.
    pub cpu: u32,
    /// Why: a name of enum wl_reason.
    pub reason: &'static str,
    /// How often the decision read the state of CPUs.
    pub reads: u64,
    /// The CPUs that stood idle and unclaimed then.
    pub idle: Vec<u32>,
}

/// One wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The task, as a place in the workload.
    pub task: u32,
    /// Its name, as a place in [`Waits::who`].
    pub who: u32,
    /// When the wait began.
    pub since_ns: u64,
    /// How long it was.
    pub waited_ns: u64,
    /// The CPU on which the task then ran.
    pub cpu: u32,
    /// What it waited for, the longest first.
    pub causes: Vec<(Cause, u64)>,
    /// How long it waited behind tasks and interrupts while another CPU stood idle on which it may run.
    pub idle_elsewhere_ns: u64,
    /// The name of the waker, as a place in [`Waits::who`]; `None` without a waker: an interrupt on an idle CPU, a
    /// fork, or a task that had to give way.
    pub woken_by: Option<u32>,
    /// The decision that placed it; `None` if there was none.
    pub placed: Option<Placed>,
}

/// What the time in which judged tasks were blocked, until another task, a timer or a device woke them, depended on
/// (passed.rs).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// The task on which it depended ran.
    pub work_ns: u64,
    /// It depended on a timer or a device, or on a task that had not begun.
    pub outside_ns: u64,
    /// The task on which it depended was runnable and did not run.
    pub waiting_ns: u64,
    /// `waiting_ns` by the name of the task that did not run, as a place in [`Waits::who`].
    pub by_who: Vec<(u32, u64)>,
    /// `waiting_ns` by what that task waited for.
    pub causes: Vec<(Cause, u64)>,
}

impl Passed {
    /// How long judged tasks were blocked.
    pub fn blocked_ns(&self) -> u64 {
        self.work_ns + self.outside_ns + self.waiting_ns
    }
}

/// What tasks waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// All names.
    pub who: Vec<Who>,
    /// Of the judged tasks, in the measured part, in the order of `who`.
    pub by_name: Vec<NameWaits>,
    /// The longest waits of judged tasks in the measured part, the longest first.
    pub longest: Vec<Wait>,
    /// Whose waiting the judged tasks paid for while they were blocked, in the measured part.
    pub passed: Passed,
}
