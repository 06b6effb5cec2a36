// SPDX-License-Identifier: GPL-2.0-or-later
//! The differences between the two host profiles. Each has a name here, so that the kernel's paths read the same for
//! both.
//!
//! | | `sched_ext` (Linux 6.12) | `mainline` |
//! |---|---|---|
//! | a task that may run on one CPU only | never reaches select | reaches select like any other |
//! | an idle CPU that a search chose | is claimed until the task is queued | not claimed by Linux's own searches: another wake-up may choose it in the meantime |
//! | wake-up to a CPU behind another LLC | the waker queues the task | the waker sends an interrupt, the target queues the task |
//! | a look at another CPU | reads one line, the policy's | reads those of its runqueue that Linux compares (traits.h) |
//! | a task is woken while its CPU still leaves it | placed like any other | queued there by that CPU, which would idle next |
//! | the running task's slice | the host's; ends at ticks only; dispatch is not called before | the policy's; its answer to a tick |
//! | schedule() with the previous task runnable | dispatch first; the task is put back only if another one was found | the task is put back first, and may be picked again |
//! | a lone task whose slice ended | continues with 20 ms, unseen by the policy | continues |
//! | preempt | the running task's slice is zeroed, the CPU kicked | the CPU is told to reschedule |
//! | a task that sleeps while the policy wants it to stay queued | leaves its queue | stays queued until it wakes or would run |
//! | preempt if first | the host looks in the queue whether the task would run next, if that tells; otherwise the same as preempt (preempt.rs) | the host looks whether the task would run next |
//! | exec | never reaches select | the policy may move the task |
//! | a CPU is told to push its running task | no effect: a lone task is never put back | the task is put back, and queued where the policy says |
//! | a task that waits for long | ejects the scheduler, so the policy bounds waiting (`wait-max-ns`) | waits; unless the policy sets a bound |
//! | a group has a quota (cpu.max) | no effect | its tasks are parked when it is used up |
//! | schedule() after a wake-up that made the CPU reschedule | charges tasks by the time of the switch | charges them by the time of the wake-up (clock.rs) |
//! | balancing that a tick found due | in the next dispatch | in the tick |

use wakelab_policy::{Straight, Traits};

use crate::scenario::{HostProfile, Scenario};

/// SCX_SLICE_DFL: the slice that sched_ext gives a task by itself.
pub(crate) const DEFAULT_SLICE_NS: u64 = 20_000_000;

impl HostProfile {
    /// Whether the host counts down the running task's slice.
    pub(crate) fn owns_slices(self) -> bool {
        self == HostProfile::SchedExt
    }

    /// Whether a search claims the CPU that it chose until the task is queued. Linux's searches, and the published
    /// changes to them, only check that a CPU runs its idle task with nothing queued and nothing in its wake list. That
    /// stays true until the task is queued, so two wakers may choose the same CPU (idle_cpu() in kernel/sched/core.c).
    /// In "sched: Clear ttwu_pending after enqueue_task()", 2022, that time was long, and schbench's tail with it.
    pub(crate) fn claims(self, policy: Traits) -> bool {
        self == HostProfile::SchedExt || policy.claims != 0
    }

    /// Whether the policy also places tasks that may run on only one CPU.
    pub(crate) fn selects_for_pinned(self) -> bool {
        self == HostProfile::Mainline
    }

    /// Whether the target CPU finishes a wake-up from another LLC.
    pub(crate) fn has_wake_list(self) -> bool {
        self == HostProfile::Mainline
    }

    /// Whether schedule() puts the previous task back before it asks for the next.
    pub(crate) fn puts_back_first(self) -> bool {
        self == HostProfile::Mainline
    }

    /// Whether the policy places a task that execs.
    pub(crate) fn places_exec(self) -> bool {
        self == HostProfile::Mainline
    }

    /// Whether a lone running task can be put back, so that the policy may queue it elsewhere.
    pub(crate) fn can_push(self) -> bool {
        self == HostProfile::Mainline
    }

    /// Whether a task that sleeps can stay in its queue. A DSQ holds runnable tasks only.
    pub(crate) fn queues_sleepers(self) -> bool {
        self == HostProfile::Mainline
    }

    /// How the host finds out, when a task is queued, whether it would run next.
    pub(crate) fn looks(self, policy: Traits) -> Look {
        match self {
            HostProfile::Mainline => Look::AtRecords,
            HostProfile::SchedExt if policy.straight == Straight::MayRun as u32 => Look::InQueue,
            HostProfile::SchedExt => Look::Never,
        }
    }

    /// Whether the host ejects a scheduler under which a task waits for long.
    pub(crate) fn has_watchdog(self) -> bool {
        self == HostProfile::SchedExt
    }

    /// Whether groups have quotas: bandwidth control is part of the fair class.
    pub(crate) fn limits_groups(self) -> bool {
        self == HostProfile::Mainline
    }

    /// Whether schedule() charges tasks by the clock of the wake-up that made the CPU reschedule.
    pub(crate) fn skips_clock(self) -> bool {
        self == HostProfile::Mainline
    }

    /// Whether balancing runs inside the tick.
    pub(crate) fn balances_in_tick(self) -> bool {
        self == HostProfile::Mainline
    }
}

impl Scenario {
    /// How many cache lines a look at another CPU reads: on Linux those of its runqueue, as many as the policy's kernel
    /// compares; a sched_ext scheduler keeps one line for each CPU.
    pub(crate) fn lines_of_cpu(&self) -> u32 {
        match self.host {
            HostProfile::Mainline => self.policy.traits().lines_of_cpu,
            HostProfile::SchedExt => 1,
        }
    }
}

/// What a host looks at to find out whether a task that was queued would run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing: it does not find out.
    Never,
    /// What the queue has of each task.
    InQueue,
    /// The policy's record of each task.
    AtRecords,
}

/// Ways to break the kernel on purpose, so that tests can see the checker fail. Nothing is broken by default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// The number of interrupts between CPUs that the kernel wanted to send.
    pub(crate) ipis: u64,
    /// The interrupt with this number, from 1 on, is never sent.
    pub(crate) lost_ipi: u64,
    /// The interrupt with this number is sent, and never arrives.
    pub(crate) stuck_ipi: u64,
}
