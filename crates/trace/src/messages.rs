// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages over sockets, pipes and eventfds, where a recording has them: exact channels instead of one signal for each
//! recorded wait.
//!
//! Of sockets, three tracepoints tell the flow. `sock:sk_data_ready` comes in the sender's context when data has
//! arrived, `sock:sock_send_length` at the end of the sender's call, with its socket, and `sock:sock_recv_length` at
//! the end of the receiver's, with *its* socket. `perf script` does not print the receiver's socket of sk_data_ready.
//! So it is found by votes (votes.rs): whom a message woke, and what the wakee read next. Of pipes and eventfds,
//! `wakelab record` writes a line where a call begins to write and where one has read, and both name the channel.
//!
//! What one task reads from a socket, a pipe or an eventfd becomes a channel. Each call that sent puts one message in,
//! when the data was ready; several, if its reader waited for the rest meanwhile. A call that received takes the
//! messages that its bytes complete. A wait that one of these messages ended becomes part of the receive. A wait for
//! room (the reader, or another writer, woke the sender) becomes part of the send: the channel holds as many messages
//! as were there when senders began to wait, and its writers are woken at the free room at which they were woken there.
//! flow.rs has the rules, also for streams of bytes.
//!
//! Worked example. A sends 100 bytes three times; the first wakes B, which waited, and B receives 100 and then 200:
//! ```text
//!     A: send, send, send          B: receive (where it waited), receive, receive
//! ```
//!
//! No deadlock: a channel has one reader, and each message is sent, in the recording, before it is taken; so what one
//! order of execution can do, all can (crates/trace/src/flows.rs), if there is room. A limit could stop another order
//! for ever: a writer may fill the room that the reader needs from another one. So a full channel takes one message
//! more when its writer would wait for ever (crates/sim/src/programs/deadlock.rs).
//!
//! Not modelled: which of several tasks reads a message from what they share, because each gets what it read in the
//! recording; datagram sockets that send to several peers, unless the recording tells the receivers. A task that waits
//! for the first of several sockets takes messages as they come (pollers.rs).
//!
//! Cost: time and memory in proportion to the events.

pub(crate) mod answers;
mod flow;
mod pollers;
pub(crate) mod turns;
mod votes;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use wakelab_workload::{Channel, TaskIndex};

use crate::causal::Position;
use crate::flows::{FlowCount, FlowCounts, FlowKind, Wakeup, drop_explained};
use crate::program::Tracked;
use flow::{FlowIndex, Flows, Room, Wait};
use votes::Votes;

/// Most reads of a task that polls until it comes to the message that woke it.
const READS_MAX: usize = 64;
/// Most wake-ups of a task since its last call that are kept: a call makes fewer.
const WAKES_MAX: usize = 16;

/// Where a task was in its work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) task: TaskIndex,
    pub(crate) position: Position,
    /// The task's work until then.
    pub(crate) units: u64,
}

/// What messages are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Queue {
    /// A socket, by its address.
    Socket(u64),
    /// A pipe or an eventfd, by its number.
    Channel(u64),
}

/// A call that sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: At,
    /// The sender's socket.
    from: Option<u64>,
    /// What it sent to, if an event told it.
    to: Option<Queue>,
    /// `None` if no event told it, and for an eventfd, whose reader takes whatever is there.
    bytes: Option<u64>,
    /// What the pipe holds, if an event told it.
    capacity_bytes: Option<u64>,
}

/// A call that received.
#[derive(Clone, Copy, Debug)]
struct Received {
    at: At,
    from: Queue,
    bytes: u64,
}

/// What made a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Via {
    /// The call that sent, as an index.
    Sent(usize),
    /// The call that received, as an index.
    Received(usize),
}

/// What a task did since its last call ended.
#[derive(Clone, Debug, Default)]
struct Call {
    /// Its first data that became ready, and where.
    ready: Option<(At, Option<u64>)>,
    /// Its wake-ups.
    wakes: Vec<Position>,
    /// The call that began to write to a pipe or an eventfd, as an index; its end is not recorded.
    writes: Option<usize>,
}

/// The calls of a recording that sent and received.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    sent: Vec<Sent>,
    received: Vec<Received>,
    /// Whether the recording has sock_send_length.
    sends_told: bool,
    /// By task; never iterated over.
    calls: FxHashMap<TaskIndex, Call>,
    /// Wake-ups that a call may have made, by the waker's place.
    made: Vec<(Position, Via)>,
}

/// What the messages of a recording are in the workload.
#[derive(Debug, Default)]
pub(crate) struct Exact {
    pub(crate) channels: Vec<Channel>,
    pub(crate) counts: FlowCounts,
    /// Where tasks that poll began to wait for messages.
    pub(crate) polled: Polled,
}

/// Places of waits, by task.
pub(crate) type Polled = BTreeMap<TaskIndex, BTreeSet<Position>>;

impl Messages {
    /// Data is ready for a socket, in the sender's context.
    pub(crate) fn ready(&mut self, at: At, to: Option<u64>) {
        if !self.sends_told && self.calls.get(&at.task).is_some_and(|call| call.ready.is_some()) {
            self.end_call_unsent(at.task);
        }
        let call = self.calls.entry(at.task).or_default();
        call.writes = None;
        call.ready.get_or_insert((at, to));
    }

    /// A task wakes another.
    pub(crate) fn woke(&mut self, waker: TaskIndex, position: Position) {
        // The call that makes the wake-up may be the task's first, and its event may come later.
        let call = self.calls.entry(waker).or_default();
        if call.wakes.len() == WAKES_MAX {
            call.wakes.remove(0);
        }
        call.wakes.push(position);
        self.made.extend(call.writes.map(|index| (position, Via::Sent(index))));
    }

    /// A call that sent to a socket ends.
    pub(crate) fn sent(&mut self, at: At, from: u64, bytes: u64) {
        self.sends_told = true;
        let call = self.calls.entry(at.task).or_default();
        call.writes = None;
        let (at, to) = call.ready.take().unwrap_or((at, None));
        if bytes > 0 {
            self.end_call(at.task, Via::Sent(self.sent.len()));
            let to = to.map(Queue::Socket);
            self.sent.push(Sent { at, from: Some(from), to, bytes: Some(bytes), capacity_bytes: None });
        }
    }

    /// A call that received from a socket ends.
    pub(crate) fn received(&mut self, at: At, socket: u64, bytes: u64) {
        if !self.sends_told {
            self.end_call_unsent(at.task);
        }
        self.end_receive(at, Queue::Socket(socket), bytes);
    }

    /// A call begins to write to a pipe, or to an eventfd, which has no `bytes`.
    pub(crate) fn writes(&mut self, at: At, channel: u64, bytes: Option<u64>, capacity_bytes: Option<u64>) {
        let call = self.calls.entry(at.task).or_default();
        call.wakes.clear();
        call.writes = Some(self.sent.len());
        self.sent.push(Sent { at, from: None, to: Some(Queue::Channel(channel)), bytes, capacity_bytes });
    }

    /// A call that read from a pipe or an eventfd ends.
    pub(crate) fn read(&mut self, at: At, channel: u64, bytes: u64) {
        self.end_receive(at, Queue::Channel(channel), bytes);
    }

    fn end_receive(&mut self, at: At, from: Queue, bytes: u64) {
        self.calls.entry(at.task).or_default().writes = None;
        if bytes > 0 {
            self.end_call(at.task, Via::Received(self.received.len()));
            self.received.push(Received { at, from, bytes });
        }
    }

    /// Takes data that was ready as a message of unknown length.
    fn end_call_unsent(&mut self, task: TaskIndex) {
        let Some((at, to)) = self.calls.get_mut(&task).and_then(|call| call.ready.take()) else { return };
        if let Some(to) = to.map(Queue::Socket) {
            self.end_call(task, Via::Sent(self.sent.len()));
            self.sent.push(Sent { at, from: None, to: Some(to), bytes: None, capacity_bytes: None });
        }
    }

    fn end_call(&mut self, task: TaskIndex, via: Via) {
        if let Some(call) = self.calls.get_mut(&task) {
            self.made.extend(call.wakes.drain(..).map(|position| (position, via)));
        }
    }

    /// Adds the messages to the programs of `tasks`, and takes the wake-ups that they explain out of `wakeups`, which
    /// are in the order of the recording.
    pub(crate) fn resolve(mut self, tasks: &mut [Tracked], wakeups: &mut Vec<Wakeup>) -> Exact {
        if self.received.is_empty() || self.sent.is_empty() {
            return Exact::default();
        }
        let pollers = pollers::pollers(&self.received);
        for &task in &pollers {
            tasks[task as usize].polls = true;
        }
        self.made.sort_unstable();
        let flows = self.flows(wakeups, pollers.clone());
        let answers = answers::answers(&self, &flows, &pollers, tasks);
        let mut first_channel: BTreeMap<FlowIndex, u32> = BTreeMap::new();
        let mut exact = Exact::default();
        let mut explained = BTreeSet::new();
        for kind in [FlowKind::Socket, FlowKind::Pipe] {
            let mut pairs = BTreeSet::new();
            let mut count = FlowCount::default();
            let of_kind = flows.all.iter().enumerate().filter(|(_, flow)| flow.kind() == kind);
            for (index, flow) in of_kind.filter(|(_, flow)| !flow.sent.is_empty()) {
                first_channel.insert(index, exact.channels.len() as u32);
                let added = flow.add_to(tasks, &self, &mut exact.channels, &mut pairs);
                let waits = added.waited.len() as u64;
                count.added += added.messages.saturating_sub(waits);
                count.wakeups += waits + added.room.len() as u64;
                explained.extend(added.waited.into_iter().chain(added.room));
            }
            count.pairs = pairs.len() as u64;
            if count.pairs > 0 {
                exact.counts.insert(kind, count);
            }
        }
        for (question, answer) in answers {
            // A socket has one reader, so one channel.
            let (question, answer) = (first_channel.get(&question), first_channel.get(&answer));
            if let (Some(&question), Some(&answer)) = (question, answer) {
                exact.channels[question as usize].answered_in = Some(answer);
            }
        }
        for wakeup in wakeups.iter().filter(|wakeup| explained.contains(&wakeup.signal)) {
            if pollers.contains(&wakeup.wakee) {
                exact.polled.entry(wakeup.wakee).or_default().insert(wakeup.blocked);
            }
        }
        drop_explained(tasks, wakeups, &explained);
        exact
    }

    /// Puts the calls into flows, with the waits that they ended.
    fn flows(&self, wakeups: &[Wakeup], pollers: BTreeSet<TaskIndex>) -> Flows {
        // A ready place may be earlier than the places of calls that ended before it.
        let calls = Calls {
            readers: by_task(self.received.iter().map(|received| received.at)),
            writers: by_task(self.sent.iter().map(|sent| sent.at)),
            pollers,
        };
        let votes = self.votes(wakeups, &calls.readers);
        let mut flows = Flows::new(&self.received);
        let to: Vec<Option<FlowIndex>> = self
            .sent
            .iter()
            .map(|sent| {
                let peer = || votes.peer(sent.from?, sent.at.position).map(Queue::Socket);
                flows.at(sent.to.or_else(peer)?, sent.at.position)
            })
            .collect();
        for (index, to) in to.iter().enumerate() {
            if let Some(to) = to {
                flows.all[*to].sent.push(index);
            }
        }
        for wakeup in wakeups {
            for &(_, via) in self.via(wakeup) {
                if self.note(&mut flows, &calls, &to, wakeup, via) {
                    break;
                }
            }
        }
        flows
    }

    /// Notes a wake-up that the call `via` may have made, if the wakee's own calls agree.
    fn note(
        &self,
        flows: &mut Flows,
        calls: &Calls,
        to: &[Option<FlowIndex>],
        wakeup: &Wakeup,
        via: Via,
    ) -> bool {
        let after = wakeup.at.max(wakeup.blocked);
        let (flow, by) = match via {
            Via::Sent(index) => {
                let Some(flow) = to[index] else { return false };
                let is_read = |&next: &usize| flows.of_received[next] == flow;
                if let Some(next) = calls.reads(wakeup.wakee, after).find(is_read) {
                    let wait = Wait { wakeup: *wakeup, ended_by: index };
                    flows.all[flow].waits.entry(next).or_insert(wait);
                    return true;
                }
                (flow, None)
            }
            Via::Received(index) => (flows.of_received[index], Some(index)),
        };
        let writes = match flows.all[flow].queue {
            Queue::Socket(_) if by.is_none() => None,
            // The event of a call comes at its end, so after the wait.
            Queue::Socket(_) => calls.ends_write(wakeup.wakee, after),
            Queue::Channel(_) => calls.in_write(wakeup.wakee, wakeup.blocked),
        };
        let Some(writes) = writes.filter(|&writes| to[writes] == Some(flow)) else { return false };
        flows.all[flow].room.entry(writes).or_default().push(Room { wakeup: *wakeup, by });
        true
    }

    /// The calls that may have made a wake-up: the one that was writing, and the one that read next.
    fn via(&self, wakeup: &Wakeup) -> &[(Position, Via)] {
        let begin = self.made.partition_point(|&(position, _)| position < wakeup.at);
        let end = self.made.partition_point(|&(position, _)| position <= wakeup.at);
        &self.made[begin..end]
    }

    /// Which sockets the messages reached, as far as wake-ups tell.
    fn votes(&self, wakeups: &[Wakeup], readers: &ByTask) -> Votes {
        let mut votes = Votes::default();
        for wakeup in wakeups {
            let from = self.via(wakeup).iter().find_map(|&(_, via)| match via {
                Via::Sent(index) => self.sent[index].from,
                Via::Received(_) => None,
            });
            let (Some(from), Some(next)) = (from, next_of(readers, wakeup.wakee, wakeup.at)) else {
                continue;
            };
            if let Queue::Socket(to) = self.received[next].from {
                votes.add(wakeup.at, from, to);
            }
        }
        votes
    }
}

/// The places of each task in order, with their indices.
type ByTask = BTreeMap<TaskIndex, Vec<(Position, usize)>>;

fn by_task(places: impl Iterator<Item = At>) -> ByTask {
    let mut by_task = ByTask::new();
    for (index, place) in places.enumerate() {
        by_task.entry(place.task).or_default().push((place.position, index));
    }
    for places in by_task.values_mut() {
        places.sort_unstable();
    }
    by_task
}

/// The task's places after `position`.
fn after(places: &ByTask, task: TaskIndex, position: Position) -> &[(Position, usize)] {
    let places = places.get(&task).map_or(&[][..], Vec::as_slice);
    &places[places.partition_point(|&(at, _)| at <= position)..]
}

/// The first of them.
fn next_of(places: &ByTask, task: TaskIndex, position: Position) -> Option<usize> {
    after(places, task, position).first().map(|&(_, index)| index)
}

/// The task's last place that is not after `position`.
fn last_of(places: &ByTask, task: TaskIndex, position: Position) -> Option<(Position, usize)> {
    let places = places.get(&task)?;
    let next = places.partition_point(|&(at, _)| at <= position);
    next.checked_sub(1).map(|last| places[last])
}

/// The calls of all tasks.
struct Calls {
    readers: ByTask,
    writers: ByTask,
    /// The tasks that take messages as they come.
    pollers: BTreeSet<TaskIndex>,
}

impl Calls {
    /// What a task read next after `position`. One that polls may have read from others before it came to the message
    /// that woke it.
    fn reads(&self, task: TaskIndex, position: Position) -> impl Iterator<Item = usize> {
        let most = if self.pollers.contains(&task) { READS_MAX } else { 1 };
        after(&self.readers, task, position).iter().take(most).map(|&(_, index)| index)
    }

    /// The call that wrote and in which a task was at `position`, if it ends there: the task reads nothing before. One
    /// that was woken by what its peer read, and then reads a question and answers it, did not wait in that answer.
    fn ends_write(&self, task: TaskIndex, position: Position) -> Option<usize> {
        let &(end, writes) = after(&self.writers, task, position).first()?;
        let reads = after(&self.readers, task, position).first();
        reads.is_none_or(|&(read, _)| read > end).then_some(writes)
    }

    /// The call that began to write and in which a task was at `position`, unless it has read since then.
    fn in_write(&self, task: TaskIndex, position: Position) -> Option<usize> {
        let (began, writes) = last_of(&self.writers, task, position)?;
        let read = last_of(&self.readers, task, position).is_some_and(|(read, _)| read > began);
        (!read).then_some(writes)
    }
}
