// SPDX-License-Identifier: GPL-2.0-or-later
//! Which socket is the other end of which: wake-ups tell. A message of socket 1 wakes a task that then reads from
//! socket 2, so 2 is the other end of 1. A connection has two ends, so the votes of one are worth as much for the
//! other.

use std::collections::BTreeMap;

use crate::causal::Position;

/// The votes before and after a message that tell which socket it reached.
const NEAR_VOTES: usize = 8;

/// Which sockets messages of a socket reached, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Votes {
    forth: BTreeMap<u64, Vec<(Position, u64)>>,
    /// The same by the receiving socket.
    back: BTreeMap<u64, Vec<(Position, u64)>>,
}

impl Votes {
    /// A message of `from` woke a task that then read from `to`.
    pub(super) fn add(&mut self, at: Position, from: u64, to: u64) {
        if from != to {
            self.forth.entry(from).or_default().push((at, to));
            self.back.entry(to).or_default().push((at, from));
        }
    }

    /// The other end of a socket at a time: where four in five of the nearest votes agree, or those for messages in the
    /// other direction do. A client that waits for many servers often reads another one's answer first; its servers
    /// read only its questions.
    pub(super) fn peer(&self, socket: u64, at: Position) -> Option<u64> {
        let vote = |votes: &BTreeMap<u64, Vec<(Position, u64)>>| winner(votes.get(&socket)?, at);
        vote(&self.forth).or_else(|| vote(&self.back))
    }
}

/// What four in five of the votes before and after a time agree on.
fn winner(votes: &[(Position, u64)], at: Position) -> Option<u64> {
    let next = votes.partition_point(|&(position, _)| position <= at);
    let near = &votes[next.saturating_sub(NEAR_VOTES)..votes.len().min(next + NEAR_VOTES)];
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for &(_, socket) in near {
        *counts.entry(socket).or_default() += 1;
    }
    counts.into_iter().find(|&(_, count)| count * 5 >= near.len() * 4).map(|(socket, _)| socket)
}
