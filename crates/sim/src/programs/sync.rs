// SPDX-License-Identifier: GPL-2.0-or-later
//! What tasks wait at, as plain data: locks (lock.rs), barriers (barrier.rs), gates and signals (signals.rs).

use std::collections::VecDeque;

use wakelab_workload::{Barrier as BarrierSpec, Lock as LockSpec};

use crate::hardware::line::Line;
use crate::ids::NONE;

/// A mutex.
pub(crate) struct Lock {
    pub(crate) spec: LockSpec,
    pub(crate) line: Line,
    /// The task that has it, or `NONE`.
    pub(crate) owner: u32,
    /// A task has found it taken, or slept for it, since it was taken.
    pub(crate) marked: bool,
    /// Tasks that spin, in the order in which they began; some may be preempted.
    pub(crate) spinners: VecDeque<u32>,
    /// Tasks that sleep, in the order in which they will be woken.
    pub(crate) sleepers: VecDeque<u32>,
}

impl Lock {
    pub(crate) fn new(spec: LockSpec) -> Lock {
        Lock {
            spec,
            line: Line::new(),
            owner: NONE,
            marked: false,
            spinners: VecDeque::new(),
            sleepers: VecDeque::new(),
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        self.owner == NONE
    }

    /// Whether its unlocking, which has just happened, wakes a sleeper.
    pub(crate) fn wakes(&mut self) -> bool {
        let marked = std::mem::take(&mut self.marked);
        (marked || !self.spec.recorded) && !self.sleepers.is_empty()
    }
}

/// A barrier that can be used again and again.
pub(crate) struct Barrier {
    pub(crate) spec: BarrierSpec,
    pub(crate) line: Line,
    pub(crate) arrived: u32,
    /// The number of rounds that are over, modulo 2^32.
    pub(crate) round: u32,
    pub(crate) spinners: VecDeque<u32>,
    pub(crate) sleepers: VecDeque<u32>,
    /// The line of the counter from which [`wakelab_workload::Op::LoopShared`] takes rounds.
    pub(crate) shared_line: Line,
    /// The number of rounds taken.
    pub(crate) taken: u64,
    /// Sleepers of rounds that are over. The last task of their round, still in the kernel, will wake them.
    pub(crate) released: VecDeque<u32>,
}

impl Barrier {
    pub(crate) fn new(spec: BarrierSpec) -> Barrier {
        Barrier {
            spec,
            line: Line::new(),
            arrived: 0,
            round: 0,
            spinners: VecDeque::new(),
            sleepers: VecDeque::new(),
            shared_line: Line::new(),
            taken: 0,
            released: VecDeque::new(),
        }
    }

    /// Whether the round in which a task arrived is over.
    pub(crate) fn is_over(&self, round: u32) -> bool {
        self.round != round
    }
}

/// A gate: closed until it is opened for good.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    pub(crate) open: bool,
    pub(crate) waiting: Vec<u32>,
}

/// A one-shot signal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Unset,
    Raised,
    /// This task waits for it.
    Awaited(u32),
}

/// Takes a task out of a list that has it, most likely in front.
pub(crate) fn leave(list: &mut VecDeque<u32>, task: u32) {
    if let Some(at) = list.iter().position(|&other| other == task) {
        list.remove(at);
    }
}
