// SPDX-License-Identifier: GPL-2.0-or-later
//! What the native host saw of one call: the mirrors of host_lines.h.

use crate::ffi::{MAX_CPUS, Reads};

/// `enum wl_step`: parts of an idle search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Looking at target, prev and the recent CPU.
    Front,
    /// Looking for an idle core.
    Core,
    /// Looking for an idle CPU, one by one.
    Cpu,
    /// All else: the LLC's flag, idle siblings, a descent.
    Rest,
}

impl Step {
    /// How many there are.
    pub const COUNT: usize = 4;
}

/// `struct wl_seen_step`: a step that began, and what its call had read before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SeenStep {
    step: u32,
    /// As [`Seen::hits`].
    pub hits: Reads,
    /// As [`Seen::misses`].
    pub misses: Reads,
}

impl SeenStep {
    /// Which.
    pub fn step(&self) -> Step {
        [Step::Front, Step::Core, Step::Cpu, Step::Rest][self.step as usize]
    }
}

/// `struct wl_seen_taken`: the longest that the writes of one call waited for CPUs that had what they wrote to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Taken {
    /// The distance of the farthest of those CPUs, as an index; 0 (the CPU itself) if there was none.
    pub from: u32,
    /// The distance from which a miss that is counted fetched that line already, as an index; else 0.
    pub had: u32,
}

/// `struct wl_seen`: what one call read and updated, and whether other CPUs had written it since (host_lines.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Seen {
    /// Reads of lines that nobody else wrote since this CPU last had them, by distance.
    pub hits: Reads,
    /// Reads of all others.
    pub misses: Reads,
    /// What its writes waited for.
    pub taken: Taken,
    nr_updated: u32,
    nr_steps: u32,
    pub(crate) updated: [u32; SEEN_UPDATES],
    pub(crate) updated_from: [u32; SEEN_UPDATES],
    pub(crate) steps: [SeenStep; 8],
}

/// `WL_SEEN_UPDATES`: of more updates in one call nothing is known.
const SEEN_UPDATES: usize = 15;

impl Seen {
    /// See [`Seen::updated`]. Counters are two a CPU at most.
    pub const FIRST_BLOCK: usize = 2 * MAX_CPUS;
    /// See [`Seen::updated`].
    pub const FIRST_LLC: usize = 3 * MAX_CPUS;
    /// See [`Seen::updated`].
    pub const FIRST_IDLE_LLCS: usize = 4 * MAX_CPUS;
    /// One more than the largest number of a line that is updated atomically.
    pub const END: usize = Seen::FIRST_IDLE_LLCS + MAX_CPUS.div_ceil(512);

    /// The lines that were updated atomically, in order, each with the distance, as an index, of the farthest other CPU
    /// that had it (0: none had). The lines' numbers: that of a counter, from [`Seen::FIRST_BLOCK`] on that of a block
    /// (`idle=nearest`), from [`Seen::FIRST_LLC`] on the lowest CPU of an LLC, for its summary, and from
    /// [`Seen::FIRST_IDLE_LLCS`] on a 512th of the number of an LLC, for its bit.
    pub fn updated(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let nr = self.nr_updated as usize;
        self.updated[..nr].iter().copied().zip(self.updated_from[..nr].iter().copied())
    }

    /// The steps of the idle search in the order in which they began; none if there was no search.
    pub fn steps(&self) -> &[SeenStep] {
        &self.steps[..self.nr_steps as usize]
    }
}
