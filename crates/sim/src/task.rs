// SPDX-License-Identifier: GPL-2.0-or-later
//! A task as the simulated kernel sees it: where its program stands, and what is left of the segment it was executing.
//! What the policy keeps about it is in the policy's own record.

use std::ops::{Deref, DerefMut};

use wakelab_policy::Task as PolicyTask;
use wakelab_workload::Op;

use crate::cpu::Kind;
use crate::rng::Stream;

/// How far the operation at the program counter got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing of it is done.
    Begin,
    /// Its first part is done: the work before a message is put in, the wait of a sleep, ...
    Middle,
    /// All but leaving is done (exit); the system call before a sleep is over (lock, barrier).
    End,
    /// Spins at a lock or a barrier.
    Spin,
    /// Has what it spun for, and pays for the line.
    Taken,
    /// Sleeps at a lock or a barrier, or was woken there.
    Asleep,
    /// The system call before waking those who sleep is over.
    Wake,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Does not exist yet.
    Unborn,
    /// Waits for something.
    Blocked,
    /// Woken, queued or running.
    Runnable,
    Exited,
}

/// By cache line: what each operation touches, what a segment of work and a switch in touch, the rest.
#[repr(C, align(64))]
pub(crate) struct Task<'a> {
    pub(crate) program: &'a [Op],
    /// The innermost loop that it is in, if any; those round it are in `outer_loops`.
    pub(crate) innermost: Option<Round>,
    pub(crate) pc: u32,
    /// The CPU it ran on last, or starts from.
    pub(crate) cpu: u32,
    pub(crate) life: Life,
    pub(crate) stage: Stage,
    /// The kind of the segment that was interrupted or preempted.
    pub(crate) kind: Kind,
    /// The kind of its last part, if that is another one.
    pub(crate) tail_kind: Kind,
    /// It waited in a channel's or a lock's list and was woken: if in vain, it waits in front.
    pub(crate) retries: bool,
    /// Whether the wait that ends at the next switch-in began with a wake-up.
    pub(crate) woken: bool,
    /// Whether its CPU mask leaves CPUs out.
    pub(crate) limited: bool,
    /// Waits in Join.
    pub(crate) joining: bool,
    /// What is left of that segment, in 1/1024 ns. Of a stream (kind memory) what is left of its traffic.
    pub(crate) remaining: u64,
    /// Left of its cache refill, in 1/1024 ns; comes before its segment.
    pub(crate) refill: u64,
    pub(crate) random: Stream,
    /// Length of that last part, in 1/1024 ns.
    pub(crate) tail: u64,
    /// Number of its address space.
    pub(crate) process: u32,
    /// The group that it is in.
    pub(crate) group: Option<u32>,
    /// Its CPU time when it came there.
    pub(crate) group_since_ns: u64,
    /// Bytes of the message that it is copying.
    pub(crate) bytes: u32,
    /// When its wake-up or its wait in a queue began.
    pub(crate) waits_since_ns: u64,
    /// When it was switched in.
    pub(crate) runs_since_ns: u64,
    pub(crate) cpu_time_ns: u64,
    /// sched_ext: what is left of its slice, as of `slice_since_ns`.
    pub(crate) slice_ns: u64,
    pub(crate) slice_since_ns: u64,
    /// Whether it ran on `cpu`.
    pub(crate) ran: bool,
    /// It moved at exec: nothing of what it needs now is in any cache.
    pub(crate) is_cold: bool,
    /// The round of the barrier that it arrived in.
    pub(crate) round: u32,
    /// The node of what it touched first, or `NONE`.
    pub(crate) home: u32,
    /// Forked by it and not exited.
    pub(crate) children: u32,
    /// Left of the work of its stream through memory, in 1/1024 ns; `remaining` is what is left of the traffic.
    pub(crate) work_left: u64,
    pub(crate) outer_loops: Vec<Round>,
}

impl Task<'_> {
    /// Takes what ran since the last time off the slice.
    pub(crate) fn charge_slice(&mut self, now_ns: u64) {
        self.slice_ns = self.slice_ns.saturating_sub(now_ns - self.slice_since_ns);
        self.slice_since_ns = now_ns;
    }

    /// Enters a loop.
    pub(crate) fn enter(&mut self, inner: Round) {
        self.outer_loops.extend(self.innermost.replace(inner));
    }

    /// Leaves the innermost loop.
    pub(crate) fn leave(&mut self) {
        self.innermost = self.outer_loops.pop();
    }
}

/// A loop that a task is in: where the body begins, and how many more rounds follow this one.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    pub(crate) body: u32,
    pub(crate) rounds: Option<u64>,
}

/// The policy's record of a task, at the beginning of a cache line: what is hot in it are the first two.
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
