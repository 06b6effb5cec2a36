// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that take messages from several channels as they come (`poll()`, `epoll_wait()`).
//!
//! The program of such a task stands in one order: that of a recording. Where the task finds no message, it looks
//! further on in its program for an `Op::Recv` with one. The part that begins there, and ends before the next
//! `Op::Recv`, is put before what the task waits for. Of each channel only the first `Op::Recv` counts, so that
//! messages of one channel keep their order. If there is no message at all, the task waits in all of these channels.
//!
//! Worked example: recv A, compute 3, send a, recv B, compute 5, send b, recv A. There is a message in B only, so the
//! program becomes: recv B, compute 5, send b, recv A, compute 3, send a, recv A.
//!
//! Tasks that answer what they take before they wait again do this in rounds: rounds.rs.
//!
//! Nothing but work, messages and signals changes places: the search ends at whatever else the task does (sleeps,
//! forks, locks, ..) and after [`WINDOW`] operations.
//!
//! Cost: a search over at most [`WINDOW`] operations where the task would wait.

use std::ops::Range;

use wakelab_workload::Op;

use crate::programs::Programs;

/// How many operations a task looks ahead.
pub(super) const WINDOW: usize = 1_024;

impl Programs<'_> {
    /// The task stands at an `Op::Recv` without a message. Puts the part of its program before that for which there is
    /// one. Returns whether there is such a part.
    pub(super) fn bring_forward(&mut self, task: u32) -> bool {
        let Some(part) = self.find_ready(task, &mut Vec::new()) else { return false };
        self.put_first(task, &part);
        true
    }

    /// Puts a part of the task's program before what it stands at.
    pub(super) fn put_first(&mut self, task: u32, part: &Range<usize>) {
        let t = &mut self.tasks[task as usize];
        t.program.to_mut()[t.pc as usize..part.end].rotate_right(part.len());
        t.stand_at(&self.quick, t.pc);
        (t.retries, t.leaving) = (false, false);
    }

    /// The task, which found no message, waits in all channels from which it may take one next.
    pub(super) fn wait_in_all(&mut self, task: u32, in_front: bool) {
        let mut asked = Vec::new();
        self.find_ready(task, &mut asked);
        for &channel in &asked {
            self.channels[channel as usize].wait_to_read(task, in_front);
        }
        self.tasks[task as usize].waits_in = asked;
    }

    /// The task was woken in one of the channels where it waited, and leaves the lists of the others.
    #[cold]
    pub(super) fn stop_waiting_in_all(&mut self, task: u32) {
        for channel in std::mem::take(&mut self.tasks[task as usize].waits_in) {
            self.channels[channel as usize].stop_reading(task);
        }
    }

    /// Returns the part that begins with the first `Op::Recv` for which there is a message. `asked` gets the channels
    /// of those before it, each once.
    fn find_ready(&self, task: u32, asked: &mut Vec<u32>) -> Option<Range<usize>> {
        let t = &self.tasks[task as usize];
        let ops = t.program.iter().enumerate().skip(t.pc as usize).take(WINDOW);
        let mut ahead = ops.take_while(|(_, op)| moves(op));
        let begin = ahead.find_map(|(at, op)| {
            let &Op::Recv { channel, .. } = op else { return None };
            if asked.contains(&channel) {
                return None;
            }
            let is_ready = self.channels[channel as usize].is_ready();
            if !is_ready {
                asked.push(channel);
            }
            is_ready.then_some(at)
        })?;
        let own = ahead.take_while(|(_, op)| !matches!(op, Op::Recv { .. }));
        Some(begin..own.last().map_or(begin, |(at, _)| at) + 1)
    }
}

/// Whether an operation may change places with others.
pub(super) fn moves(op: &Op) -> bool {
    matches!(
        op,
        Op::Compute { .. } | Op::Send { .. } | Op::Recv { .. } | Op::Signal { .. } | Op::Count { .. }
    )
}
