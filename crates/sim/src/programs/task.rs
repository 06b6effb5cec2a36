// SPDX-License-Identifier: GPL-2.0-or-later
//! A task's program, and the task's state in it.

use std::borrow::Cow;

use wakelab_workload::Op;

use crate::ids::NONE;
use crate::programs::quick::Quick;
use crate::rng::Stream as Random;

/// The progress of the operation at the program counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing of it is done.
    Begin,
    /// Its first part is done: the work before a message is put in, the wait of a sleep.
    Middle,
    /// A lock was released or a barrier's round ended: the tasks that spun for it have been told.
    Released,
    /// Everything but leaving is done (exit), or the system call before a sleep is over (lock, barrier).
    End,
    /// Spins at a lock or a barrier.
    Spin,
    /// Has what it spun for, and pays for the line.
    Taken,
    /// Sleeps at a lock or a barrier, or was woken there.
    Asleep,
    /// The system call before waking the sleepers is over.
    Wake,
}

/// One task. The fields that every operation touches come first, and fill a cache line.
#[repr(C, align(64))]
pub(crate) struct Task<'a> {
    /// The operation at `pc`.
    pub(super) now: Quick,
    pub(crate) random: Random,
    pub(crate) pc: u32,
    /// Where its program begins among the dense ones, or `NONE`.
    begin: u32,
    /// The bytes of the message that it copies.
    pub(crate) bytes: u32,
    pub(crate) stage: Stage,
    /// Whether it waited in a list and was woken: if it finds nothing, it waits in front.
    pub(crate) retries: bool,
    /// Whether it has paid for going to sleep (`sleep_ns`), and looks once more.
    pub(crate) leaving: bool,
    /// Whether it polls, and answers what it took before it waits (rounds.rs).
    pub(crate) in_rounds: bool,
    /// Whether it has slept since it took a message; of a task that polls.
    pub(crate) slept: bool,
    /// The innermost loop that it is in; `outer_loops` has those around it.
    pub(crate) innermost: Option<Round>,
    /// A task that polls has its own, in which parts change places (polling.rs).
    pub(crate) program: Cow<'a, [Op]>,
    /// Whether it waits in Join.
    pub(crate) joining: bool,
    /// Whether it has done the work of its exit.
    pub(crate) exiting: bool,
    /// The CPU that executes its spin now, or `NONE`.
    pub(crate) spins_on: u32,
    /// The round of the barrier in which it arrived.
    pub(crate) round: u32,
    /// The node of the memory that it touched first, or `NONE`.
    pub(crate) home: u32,
    /// The number of tasks that it forked and that have not exited.
    pub(crate) children: u32,
    pub(crate) outer_loops: Vec<Round>,
    /// The channels where a task that polls waits for a message, if there are several.
    pub(crate) waits_in: Vec<u32>,
    /// The channels of which it takes a message in its present round.
    pub(crate) round_of: Vec<u32>,
    /// The channels of messages that it has not answered, each with the answer's channel.
    pub(crate) owes: Vec<(u32, u32)>,
}

impl<'a> Task<'a> {
    /// A task of this program, which begins at `begin` among the dense ones. It must be told where it stands.
    pub(super) fn new(program: &'a [Op], begin: u32, random: Random) -> Task<'a> {
        Task {
            now: Quick::Other,
            begin,
            program: Cow::Borrowed(program),
            pc: 0,
            stage: Stage::Begin,
            retries: false,
            leaving: false,
            in_rounds: false,
            slept: false,
            joining: false,
            exiting: false,
            bytes: 0,
            spins_on: NONE,
            innermost: None,
            random,
            round: 0,
            home: NONE,
            children: 0,
            outer_loops: Vec::new(),
            waits_in: Vec::new(),
            round_of: Vec::new(),
            owes: Vec::new(),
        }
    }

    /// The task stands at this operation of its program.
    #[inline(always)]
    pub(super) fn stand_at(&mut self, quick: &[Quick], pc: u32) {
        self.pc = pc;
        // Two assignments, because one of either value would go through memory.
        if self.begin != NONE {
            self.now = quick[(self.begin + pc) as usize];
        } else {
            self.now = Quick::of(self.program.get(pc as usize));
        }
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

/// A loop that a task is in.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    /// Where the body begins.
    pub(crate) body: u32,
    /// The number of rounds that follow this one; `None`: it never ends.
    pub(crate) rounds: Option<u64>,
}
