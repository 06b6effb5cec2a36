// SPDX-License-Identifier: GPL-2.0-or-later
//! Merges streams of events, each in the order of time, into one: at equal times, the stream with the lower number
//! comes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The next event of each stream that has one.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Merge {
    /// Notes the time of the next event of a stream.
    pub(crate) fn add(&mut self, time_ns: u64, stream: usize) {
        self.next.push(Reverse((time_ns, stream)));
    }

    /// Returns the time of the earliest event.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.next.peek().map(|Reverse((time_ns, _))| *time_ns)
    }

    /// Returns the stream with the earliest event, which then has no event noted any more.
    pub(crate) fn take(&mut self) -> Option<usize> {
        self.next.pop().map(|Reverse((_, stream))| stream)
    }
}
