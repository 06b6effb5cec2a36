// SPDX-License-Identifier: GPL-2.0-or-later
//! What a CPU executes next, or what is left of it, as plain data.

use crate::ids::UNITS;
use crate::time_use::TimeKind;

/// A stretch of CPU time of one kind. Its last part, the *tail*, may be of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The whole length including the tail, in 1/1024 ns; for a stream ([`TimeKind::Memory`]) its traffic (stream.rs).
    pub(crate) units: u64,
    /// The length of the tail, in 1/1024 ns.
    pub(crate) tail: u64,
    pub(crate) kind: TimeKind,
    pub(crate) tail_kind: TimeKind,
}

impl Segment {
    /// Nothing to execute.
    pub(crate) const EMPTY: Segment = Segment::of_units(TimeKind::Work, 0);

    /// A segment of one kind, of this many units.
    pub(crate) const fn of_units(kind: TimeKind, units: u64) -> Segment {
        Segment { units, tail: 0, kind, tail_kind: kind }
    }

    /// A segment of one kind.
    #[inline(always)]
    pub(crate) fn new(kind: TimeKind, ns: u64) -> Segment {
        Segment::of_units(kind, ns * UNITS)
    }

    /// A segment that ends in a tail of another kind. Both lengths are in nanoseconds.
    #[inline(always)]
    pub(crate) fn with_tail(head: (TimeKind, u64), tail: (TimeKind, u64)) -> Segment {
        Segment { units: (head.1 + tail.1) * UNITS, tail: tail.1 * UNITS, kind: head.0, tail_kind: tail.0 }
    }
}

/// A segment that streams through memory (stream.rs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    /// All of its work, in 1/1024 ns.
    pub(crate) work: u64,
    /// The part of the work that is not done yet, in 1/1024 ns.
    pub(crate) work_left: u64,
    /// All of its traffic, in 1/64,000 of a byte.
    pub(crate) traffic: u64,
    /// The node whose memory it uses.
    pub(crate) home: u32,
    /// Percent of the traffic that the last-level cache serves.
    pub(crate) llc_percent: u32,
}
