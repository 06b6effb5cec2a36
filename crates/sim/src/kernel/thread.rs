// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's state for each task, as plain data. The task's program is in programs/task.rs, and the policy's state
//! for it in the policy's own record.

use std::ops::{Deref, DerefMut};

use wakelab_policy::Task as PolicyTask;

use crate::hardware::segment::{Segment, Stream};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Does not exist yet.
    Unborn,
    /// Waits for something.
    Blocked,
    /// Woken, queued or running.
    Runnable,
    /// Has ended.
    Exited,
}

/// One task as the kernel sees it.
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// What is left of the segment that was interrupted or preempted; nothing while the task executes it.
    pub(crate) left: Segment,
    /// What is left of its cache refill, in 1/1024 ns; it comes before `left`.
    pub(crate) refill: u64,
    /// When its wake-up or its wait in a queue began.
    pub(crate) waits_since_ns: u64,
    /// From when its judged latency counts: the beginning of its wake-up, or of the waker's batch.
    pub(crate) latency_since_ns: u64,
    /// When it was switched in.
    pub(crate) runs_since_ns: u64,
    /// Until when its groups' quotas were charged.
    pub(crate) charged_ns: u64,
    /// The CPU on which it ran last, or from which it starts.
    pub(crate) cpu: u32,
    pub(crate) life: Life,
    /// Whether the wait that ends at the next switch-in began with a wake-up.
    pub(crate) woken: bool,
    /// Whether its CPU mask excludes CPUs.
    pub(crate) limited: bool,
    /// As in its workload: whether it belongs to what is judged.
    pub(crate) judged: bool,
    /// Whether it sleeps, or is being woken, and is still in the queue of `cpu`.
    pub(crate) delayed: bool,
    /// Whether it has run on `cpu`.
    pub(crate) ran: bool,
    /// Whether it moved at exec, so that no cache has anything that it needs now.
    pub(crate) is_cold: bool,
    /// The number of its address space.
    pub(crate) process: u32,
    pub(crate) footprint_bytes: u64,
    pub(crate) cpu_time_ns: u64,
    /// sched_ext: what is left of its slice at `slice_since_ns`.
    pub(crate) slice_ns: u64,
    pub(crate) slice_since_ns: u64,
    /// The stream through memory that was interrupted or preempted, if `left` is one.
    pub(crate) stream: Stream,
    /// When it began a batch of wake-ups; `u64::MAX`: it has no batches.
    pub(crate) batch_since_ns: u64,
    /// Its group.
    pub(crate) group: Option<u32>,
    /// Its CPU time when it joined the group.
    pub(crate) group_since_ns: u64,
}

impl Thread {
    /// A task that does not exist yet.
    pub(crate) fn new(spec: &wakelab_workload::Task, nr_cpus: usize) -> Thread {
        Thread {
            left: Segment::EMPTY,
            refill: 0,
            waits_since_ns: 0,
            latency_since_ns: 0,
            runs_since_ns: 0,
            charged_ns: 0,
            cpu: spec.last_cpu.unwrap_or(0),
            life: Life::Unborn,
            woken: false,
            limited: spec.allowed.as_ref().is_some_and(|allowed| allowed.len() < nr_cpus),
            judged: spec.judged,
            delayed: false,
            ran: spec.last_cpu.is_some(),
            is_cold: false,
            process: spec.process,
            footprint_bytes: spec.footprint_bytes,
            cpu_time_ns: 0,
            slice_ns: 0,
            slice_since_ns: 0,
            stream: Stream::default(),
            batch_since_ns: u64::MAX,
            group: None,
            group_since_ns: 0,
        }
    }

    /// Takes the time since the last call off the slice.
    pub(crate) fn charge_slice(&mut self, now_ns: u64) {
        self.slice_ns = self.slice_ns.saturating_sub(now_ns - self.slice_since_ns);
        self.slice_since_ns = now_ns;
    }
}

/// The policy's record of a task, at the beginning of a cache line: its first two lines are the hot ones.
#[derive(Clone, Default)]
#[repr(align(64))]
pub(crate) struct Record(PolicyTask);

impl Deref for Record {
    type Target = PolicyTask;

    fn deref(&self) -> &PolicyTask {
        &self.0
    }
}

impl DerefMut for Record {
    fn deref_mut(&mut self) -> &mut PolicyTask {
        &mut self.0
    }
}
