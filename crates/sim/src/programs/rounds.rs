// SPDX-License-Identifier: GPL-2.0-or-later
//! Event loops: tasks that poll, take what is there, and answer it before they poll again (`Channel::answered_in`).
//!
//! A call to `epoll_wait()` returns the connections that have a message. The task reads each of them once, answers,
//! and calls again; what comes meanwhile waits for the next call. So its work has *rounds*. When the task stands at an
//! `Op::Recv`, owes no answer and has taken all of its round, the next round begins: the channels that have a message
//! now. Of these it takes one message each, in the order of its program. The part of the program that begins with such
//! an `Op::Recv` is put before what the task stands at. It ends before the next `Op::Recv`, and before an answer to
//! another question, because that must not come before its question. After the last message of the round come the
//! answers that the task owes: each `Op::Send`, with the work before it, is put first, unless another message of the
//! same question comes before it. If no channel has a message, the task waits in all of them.
//!
//! Worked example: recv A, recv B, compute 4, send a, compute 6, send b, where a answers A and b answers B. There is a
//! message in A only. The task takes it, and owes an answer in a. compute 4 and send a come next, then recv B, compute
//! 6, send b. With messages in both, the program stays as it is.
//!
//! What moves, and how far, is as in polling.rs. It fails where work before an answer belongs to other messages: then
//! the task does that too early.
//!
//! Cost: for each message and each answer a search over at most [`WINDOW`] operations.

use std::ops::Range;

use wakelab_workload::Op;

use crate::programs::Programs;
use crate::programs::next::Next;
use crate::programs::polling::{WINDOW, moves};

impl Programs<'_> {
    /// Finds the tasks that work in rounds, and what their answers answer.
    pub(super) fn find_rounds(&mut self) {
        for question in 0..self.channels.len() {
            if let Some(answer) = self.channels[question].answered_in() {
                self.channels[answer as usize].set_answers(question as u32);
            }
        }
        for (spec, task) in self.workload.tasks.iter().zip(&mut self.tasks) {
            let is_answered = |op: &Op| match op {
                Op::Recv { channel, .. } => self.channels[*channel as usize].answered_in().is_some(),
                _ => false,
            };
            task.in_rounds = spec.polls && task.program.iter().any(is_answered);
        }
    }

    /// A task that works in rounds stands at an `Op::Recv` of `channel`. Returns what it does instead; `None` if it
    /// takes a message there.
    pub(super) fn follow_round(&mut self, task: u32, channel: u32) -> Option<Next> {
        let t = &self.tasks[task as usize];
        if t.round_of.is_empty() && t.owes.is_empty() {
            self.tasks[task as usize].round_of = self.ready_channels(task);
        }
        let t = &mut self.tasks[task as usize];
        if let Some(at) = t.round_of.iter().position(|&of| of == channel) {
            t.round_of.swap_remove(at);
            return None;
        }
        if let Some(part) = self.find_of_round(task) {
            self.put_first(task, &part);
            return Some(Next::Continue);
        }
        self.tasks[task as usize].round_of.clear();
        if let Some(part) = self.find_owed(task) {
            self.put_first(task, &part);
            return Some(Next::Continue);
        }
        self.tasks[task as usize].owes.clear();
        let next_round = self.ready_channels(task);
        if next_round.is_empty() {
            return Some(self.wait_for_message(task, channel));
        }
        self.tasks[task as usize].round_of = next_round;
        Some(Next::Continue)
    }

    /// The operations that the task may do next, with their places.
    fn ahead(&self, task: u32) -> impl Iterator<Item = (usize, &Op)> {
        let t = &self.tasks[task as usize];
        t.program.iter().enumerate().skip(t.pc as usize).take(WINDOW).take_while(|(_, op)| moves(op))
    }

    /// The channels that have a message for the task, in the order of its program.
    fn ready_channels(&self, task: u32) -> Vec<u32> {
        let mut ready = Vec::new();
        for (_, op) in self.ahead(task) {
            if let &Op::Recv { channel, .. } = op
                && self.channels[channel as usize].is_ready()
                && !ready.contains(&channel)
            {
                ready.push(channel);
            }
        }
        ready
    }

    /// Returns the part that begins with the first `Op::Recv` of the task's round.
    fn find_of_round(&self, task: u32) -> Option<Range<usize>> {
        let round_of = &self.tasks[task as usize].round_of;
        let mut ahead = self.ahead(task);
        let (begin, question) = ahead.find_map(|(at, op)| match op {
            &Op::Recv { channel, .. } if round_of.contains(&channel) => Some((at, channel)),
            _ => None,
        })?;
        let ends = |op: &Op| match op {
            Op::Recv { .. } => true,
            &Op::Send { channel, .. } => {
                self.channels[channel as usize].answers().is_some_and(|of| of != question)
            }
            _ => false,
        };
        let end = ahead.take_while(|(_, op)| !ends(op)).last().map_or(begin, |(at, _)| at);
        Some(begin..end + 1)
    }

    /// Returns the first answer that the task owes, with the work before it.
    fn find_owed(&self, task: u32) -> Option<Range<usize>> {
        let owes = &self.tasks[task as usize].owes;
        let (mut asks, mut begin) = (Vec::new(), self.tasks[task as usize].pc as usize);
        for (at, op) in self.ahead(task) {
            match *op {
                Op::Compute { .. } => continue,
                Op::Recv { channel, .. } => asks.push(channel),
                Op::Send { channel, .. } => {
                    let is_due = |&(question, answer)| answer == channel && !asks.contains(&question);
                    if owes.iter().any(is_due) {
                        return Some(begin..at + 1);
                    }
                }
                _ => {}
            }
            begin = at + 1;
        }
        None
    }
}
