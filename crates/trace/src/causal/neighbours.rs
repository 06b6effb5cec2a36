// SPDX-License-Identifier: GPL-2.0-or-later
//! Follows how long tasks work with and without a busy sibling, for [`crate::beside`].
//!
//! Each CPU has sums of the time in which just one of its siblings was busy, and in which several were. A piece of work
//! goes from one event of a task to the next; what the sums of its CPU grow by meanwhile tells its parts. A piece goes
//! on after a preemption, because a long one is more likely to be preempted, and would be missed.
//!
//! A CPU is busy from the switch-in of a task to its switch-out. A switch that was not seen ends a piece in vain.

use rustc_hash::FxHashMap;
use wakelab_workload::TaskIndex;

use super::between::mark;
use super::{Model, OnCpu};
use crate::beside::{Edge, Kinds, Piece, Pieces, siblings};
use crate::event::{Context, Event, SwitchedOut, What};

/// Times of a CPU, or of a piece of work there.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// All of it.
    ns: u64,
    /// With one busy sibling.
    beside_ns: u64,
    /// With several.
    crowded_ns: u64,
}

impl Times {
    fn since(self, before: Times) -> Times {
        Times {
            ns: self.ns.saturating_sub(before.ns),
            beside_ns: self.beside_ns - before.beside_ns,
            crowded_ns: self.crowded_ns - before.crowded_ns,
        }
    }

    fn and(self, more: Times) -> Times {
        Times {
            ns: self.ns + more.ns,
            beside_ns: self.beside_ns + more.beside_ns,
            crowded_ns: self.crowded_ns + more.crowded_ns,
        }
    }
}

/// A CPU with siblings.
#[derive(Clone, Debug, Default)]
struct Thread {
    siblings: Vec<u32>,
    is_busy: bool,
    busy_siblings: u32,
    /// Until now, from the beginning of the recording.
    times: Times,
}

/// A piece of work in progress.
#[derive(Clone, Copy, Debug)]
struct Begun {
    edge: Edge,
    /// A sibling was busy when it began.
    beside: bool,
    /// Before the task was switched in last.
    before: Times,
    /// The times of its CPU since when it has gone on there; `None` while the task waits for a CPU.
    from: Option<(u32, Times)>,
}

/// All CPUs, if some have siblings.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    threads: Vec<Thread>,
    begun: FxHashMap<TaskIndex, Begun>,
    pieces: FxHashMap<(TaskIndex, Edge, Edge), Pieces>,
}

impl Thread {
    /// Its times until `now_ns`.
    fn settle(&mut self, now_ns: u64) -> Times {
        let passed_ns = now_ns.saturating_sub(self.times.ns);
        match self.busy_siblings {
            0 => {}
            1 => self.times.beside_ns += passed_ns,
            _ => self.times.crowded_ns += passed_ns,
        }
        self.times.ns = now_ns;
        self.times
    }
}

impl Neighbours {
    /// `siblings` has those of each CPU.
    pub(super) fn new(siblings: Vec<Vec<u32>>) -> Self {
        let alone = siblings.iter().all(Vec::is_empty);
        let thread = |siblings| Thread { siblings, ..Thread::default() };
        let threads = if alone { Vec::new() } else { siblings.into_iter().map(thread).collect() };
        Neighbours { threads, ..Neighbours::default() }
    }

    pub(super) fn set_busy(&mut self, cpu: u32, is_busy: bool, now_ns: u64) {
        let Some(thread) = self.threads.get_mut(cpu as usize) else { return };
        if std::mem::replace(&mut thread.is_busy, is_busy) == is_busy {
            return;
        }
        let siblings = std::mem::take(&mut thread.siblings);
        for &sibling in &siblings {
            let other = &mut self.threads[sibling as usize];
            other.settle(now_ns);
            other.busy_siblings = if is_busy { other.busy_siblings + 1 } else { other.busy_siblings - 1 };
        }
        self.threads[cpu as usize].siblings = siblings;
    }

    /// Ends the piece that `task` does on `cpu` at an event, and begins the next one, unless the task sleeps then.
    fn edge(&mut self, cpu: u32, task: TaskIndex, edge: Edge, now_ns: u64) {
        let Some(thread) = self.threads.get_mut(cpu as usize) else { return };
        let times = thread.settle(now_ns);
        let beside = thread.busy_siblings > 0;
        let next = Begun { edge, beside, before: Times::default(), from: Some((cpu, times)) };
        let begun = match edge {
            Edge::Sleep => self.begun.remove(&task),
            _ => self.begun.insert(task, next),
        };
        let Some(Begun { edge: from, beside, before, from: Some((on, since)) }) = begun else { return };
        let of = before.and(times.since(since));
        if on == cpu && of.crowded_ns == 0 {
            let piece = Piece {
                alone_ns: of.ns.saturating_sub(of.beside_ns),
                beside_ns: of.beside_ns,
                begins_beside: beside,
            };
            self.pieces.entry((task, from, edge)).or_default().add(piece);
        }
    }

    /// `task` is preempted on `cpu`.
    fn pause(&mut self, cpu: u32, task: TaskIndex, now_ns: u64) {
        let Some(thread) = self.threads.get_mut(cpu as usize) else { return };
        let times = thread.settle(now_ns);
        let Some(begun) = self.begun.get_mut(&task) else { return };
        match begun.from.take() {
            Some((on, since)) if on == cpu => begun.before = begun.before.and(times.since(since)),
            _ => drop(self.begun.remove(&task)),
        }
    }

    /// `task` is switched in on `cpu`, after a sleep or where it was preempted.
    fn switch_in(&mut self, cpu: u32, task: TaskIndex, edge: Edge, now_ns: u64) {
        let Some(thread) = self.threads.get_mut(cpu as usize) else { return };
        let times = thread.settle(now_ns);
        let beside = thread.busy_siblings > 0;
        let new = Begun { edge, beside, before: Times::default(), from: None };
        self.begun.entry(task).or_insert(new).from = Some((cpu, times));
    }
}

/// The kind of an event of the current task that ends a piece of its work.
fn edge(event: &Event<'_>) -> Option<Edge> {
    if matches!(event.context, Context::Interrupt(_)) || event.interrupt_since_ns.is_some() {
        return None;
    }
    if let Some(mark) = mark(&event.what) {
        return Some(Edge::Message(mark));
    }
    Some(match event.what {
        What::Waking { .. } => Edge::Waking,
        What::Futex { .. } => Edge::Futex,
        What::Yield | What::Fork { .. } | What::Exec { .. } | What::Exit => Edge::Life,
        What::Switch { why: SwitchedOut::Blocked, .. } => Edge::Sleep,
        _ => return None,
    })
}

impl Model {
    /// Begins to follow, with the topology that the options or the recording tell.
    pub(super) fn know_neighbours(&mut self) {
        let told = || self.header.as_ref()?.machine("").ok().flatten();
        let topology = self.topology.take().or_else(|| told().map(|machine| machine.topology));
        self.neighbours = topology.map_or_else(Neighbours::default, |of| Neighbours::new(siblings(&of)));
    }

    /// Follows the work of the current task of a CPU. To be called before a switch is noted, and after other events.
    pub(super) fn follow_piece(&mut self, event: &Event<'_>) {
        if self.neighbours.threads.is_empty() {
            return;
        }
        let OnCpu::Task(index) = self.cpu(event.cpu).on else { return };
        if let What::Switch { why: SwitchedOut::Runnable, .. } = event.what {
            self.neighbours.pause(event.cpu, index, self.now_ns);
        } else if let Some(edge) = edge(event) {
            self.neighbours.edge(event.cpu, index, edge, self.now_ns);
        }
    }

    /// Begins a piece of work, or goes on with one, where a task is switched in.
    pub(super) fn begin_piece(&mut self, cpu: u32, task: TaskIndex, seen: bool, was_idle: bool) {
        if self.neighbours.threads.is_empty() {
            return;
        }
        if seen {
            let edge = if was_idle { Edge::InFromIdle } else { Edge::In };
            self.neighbours.switch_in(cpu, task, edge, self.now_ns);
        } else {
            self.neighbours.begun.remove(&task);
        }
    }

    /// Takes the pieces of all tasks, by name.
    pub(super) fn take_pieces(&mut self) -> Kinds {
        let pieces = std::mem::take(&mut self.neighbours.pieces);
        self.by_name(pieces, Pieces::join)
    }
}
