// SPDX-License-Identifier: GPL-2.0-or-later
//! Methods of the policy's answers that hosts need.

use crate::mirror::{
    AffineReason, BalanceWhy, Decision, Dispatch, DispatchDo, Enqueue, LINE_BLOCK, LINE_COUNTER,
    LINE_IDLE_LLCS, LINE_LLC, MAX_CPUS, Pick, Preempt, Reads, Reason, Seen, SeenStep, Step,
};

/// `hweight` of a task of weight 1: [`Task::hweight`](crate::Task::hweight) is in 1/1024 of a weight.
pub const HWEIGHT_ONE: u32 = 1024;

impl Reads {
    /// The number of reads at all distances.
    pub fn total(&self) -> u64 {
        self.at.iter().map(|&n| u64::from(n)).sum()
    }
}

impl Decision {
    /// Why the CPU was chosen.
    pub fn reason(&self) -> Reason {
        Reason::from_raw(self.reason)
    }

    /// Why the target was chosen.
    pub fn affine_reason(&self) -> AffineReason {
        AffineReason::from_raw(self.affine_reason)
    }
}

impl Dispatch {
    /// What to do.
    pub fn what(&self) -> DispatchDo {
        DispatchDo::from_raw(self.what)
    }

    /// The kind of balancing that was tried, if any.
    pub fn why(&self) -> BalanceWhy {
        BalanceWhy::from_raw(self.why)
    }

    /// How the host should choose from the CPU's own queue.
    pub fn pick(&self) -> Pick {
        Pick::from_raw(self.pick)
    }
}

impl Enqueue {
    /// Whether the running task gives way.
    pub fn preempt(&self) -> Preempt {
        Preempt::from_raw(self.preempt)
    }
}

impl SeenStep {
    /// The part of the search that began.
    pub fn step(&self) -> Step {
        Step::from_raw(self.step)
    }
}

impl Seen {
    /// The number of the first block's line, in the numbering of [`Seen::updated()`].
    pub const FIRST_BLOCK: usize = LINE_BLOCK - LINE_COUNTER;
    /// The number of the first LLC's line.
    pub const FIRST_LLC: usize = LINE_LLC - LINE_COUNTER;
    /// The number of the first line with bits for LLCs.
    pub const FIRST_IDLE_LLCS: usize = LINE_IDLE_LLCS - LINE_COUNTER;
    /// One more than the greatest number of a line that is updated atomically.
    pub const END: usize = Seen::FIRST_IDLE_LLCS + MAX_CPUS.div_ceil(512);

    /// The lines that were updated atomically, in order, each with the distance, as an index, of the farthest other CPU
    /// that held it (0: none did). Lines are numbered: a counter by its index, a block (`idle=nearest`) from
    /// [`Seen::FIRST_BLOCK`] on, an LLC's summary from [`Seen::FIRST_LLC`] on by the LLC's lowest CPU, and an LLC's bit
    /// from [`Seen::FIRST_IDLE_LLCS`] on by a 512th of the LLC's number.
    pub fn updated(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let nr = self.nr_updated as usize;
        self.updated[..nr].iter().copied().zip(self.updated_from[..nr].iter().copied())
    }

    /// The steps of the idle search in the order in which they began; none if there was no search.
    pub fn steps(&self) -> &[SeenStep] {
        &self.steps[..self.nr_steps as usize]
    }
}
