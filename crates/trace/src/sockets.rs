// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages over sockets, where a recording has them: exact channels instead of one signal for each recorded wait.
//!
//! Three tracepoints tell the flow. `sock:sk_data_ready` comes in the sender's context when data has arrived,
//! `sock:sock_send_length` at the end of the sender's call, with its socket, and `sock:sock_recv_length` at the end of
//! the receiver's, with *its* socket. `perf script` does not print the receiver's socket of sk_data_ready. So it is
//! found by votes: whom a message woke, and what the wakee read next. A connection has two ends, so the votes of one
//! are worth as much for the other.
//!
//! What one task reads from a socket becomes a channel. Each call that sent puts one message in, when the data was
//! ready. A call that received takes the messages that its bytes complete. A wait that one of these messages ended
//! becomes part of the receive. A wait for room (the reader woke the sender, which then sends to that reader) becomes
//! part of the send: the channel holds as many messages as it ever held in the recording, and its writers are woken at
//! the free room at which they were woken there.
//!
//! Worked example. A sends 100 bytes three times; the first wakes B, which waited, and B receives 100 and then 200:
//! ```text
//!     A: send, send, send          B: receive (where it waited), receive, receive
//! ```
//!
//! No deadlock: a channel has one reader, and each message is sent, in the recording, before it is taken; so what one
//! order of execution can do, all can (crates/trace/src/flows.rs), if there is room. A limit could stop another order
//! for ever: a writer may fill the room that the reader needs from another one. So a full channel takes one message
//! more when nothing else could happen.
//!
//! Not modelled: which of several tasks reads a message from a socket that they share; datagram sockets that send to
//! several peers, unless the recording tells the receivers; a task that waits for the first of several sockets reads
//! them in the recorded order.
//!
//! Cost: time and memory in proportion to the socket events.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use wakelab_workload::{Channel, Op, TaskIndex};

use crate::causal::Position;
use crate::flows::{FlowCount, INBOX, Wakeup};
use crate::program::{Step, Tracked};
use crate::quantile::quantile;

/// Most wake-ups of a task since its last socket call that are kept: a call makes fewer.
const WAKES_MAX: usize = 16;

/// The votes before and after a message that tell which socket it reached.
const NEAR_VOTES: usize = 8;

/// Where a task was in its work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) task: TaskIndex,
    pub(crate) position: Position,
    /// The task's work until then.
    pub(crate) units: u64,
}

/// A call that sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: At,
    /// The sender's socket.
    from: Option<u64>,
    /// The receiver's socket, if an event told it.
    to: Option<u64>,
    /// `None` if no event told it.
    bytes: Option<u64>,
}

/// A call that received.
#[derive(Clone, Copy, Debug)]
struct Received {
    at: At,
    socket: u64,
    bytes: u64,
}

/// What made a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Via {
    /// The call that sent, as an index.
    Sent(usize),
    /// The call that received, as an index.
    Received(usize),
}

/// What a task did since its last socket call ended.
#[derive(Clone, Debug, Default)]
struct Call {
    /// Its first data that became ready, and where.
    ready: Option<(At, Option<u64>)>,
    /// Its wake-ups.
    wakes: Vec<Position>,
}

/// The socket events of a recording.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    sent: Vec<Sent>,
    received: Vec<Received>,
    /// Whether the recording has sock_send_length.
    sends_told: bool,
    /// By task; never iterated over.
    calls: FxHashMap<TaskIndex, Call>,
    /// Wake-ups that a socket call made, by the waker's place.
    made: Vec<(Position, Via)>,
}

/// What the sockets of a recording are in the workload.
#[derive(Debug, Default)]
pub(crate) struct Exact {
    pub(crate) channels: Vec<Channel>,
    pub(crate) count: FlowCount,
}

impl Sockets {
    /// Data is ready for a socket, in the sender's context.
    pub(crate) fn ready(&mut self, at: At, to: Option<u64>) {
        if !self.sends_told && self.calls.get(&at.task).is_some_and(|call| call.ready.is_some()) {
            self.end_call_unsent(at.task);
        }
        self.calls.entry(at.task).or_default().ready.get_or_insert((at, to));
    }

    /// A task wakes another.
    pub(crate) fn woke(&mut self, waker: TaskIndex, position: Position) {
        if let Some(call) = self.calls.get_mut(&waker) {
            if call.wakes.len() == WAKES_MAX {
                call.wakes.remove(0);
            }
            call.wakes.push(position);
        }
    }

    /// A call that sent ends.
    pub(crate) fn sent(&mut self, at: At, from: u64, bytes: u64) {
        self.sends_told = true;
        let call = self.calls.entry(at.task).or_default();
        let (at, to) = call.ready.take().unwrap_or((at, None));
        if bytes > 0 {
            self.end_call(at.task, Via::Sent(self.sent.len()));
            self.sent.push(Sent { at, from: Some(from), to, bytes: Some(bytes) });
        }
    }

    /// A call that received ends.
    pub(crate) fn received(&mut self, at: At, socket: u64, bytes: u64) {
        if !self.sends_told {
            self.end_call_unsent(at.task);
        }
        self.calls.entry(at.task).or_default();
        if bytes > 0 {
            self.end_call(at.task, Via::Received(self.received.len()));
            self.received.push(Received { at, socket, bytes });
        }
    }

    /// Takes data that was ready as a message of unknown length.
    fn end_call_unsent(&mut self, task: TaskIndex) {
        let Some((at, to)) = self.calls.get_mut(&task).and_then(|call| call.ready.take()) else { return };
        if to.is_some() {
            self.end_call(task, Via::Sent(self.sent.len()));
            self.sent.push(Sent { at, from: None, to, bytes: None });
        }
    }

    fn end_call(&mut self, task: TaskIndex, via: Via) {
        if let Some(call) = self.calls.get_mut(&task) {
            self.made.extend(call.wakes.drain(..).map(|position| (position, via)));
        }
    }

    /// Adds the sockets to the programs of `tasks`, and takes the wake-ups that they explain out of `wakeups`, which
    /// are in the order of the recording.
    pub(crate) fn resolve(mut self, tasks: &mut [Tracked], wakeups: &mut Vec<Wakeup>) -> Exact {
        if self.received.is_empty() || self.sent.is_empty() {
            return Exact::default();
        }
        self.made.sort_by_key(|&(position, _)| position);
        // A ready place may be earlier than the places of calls that ended before it.
        let readers = by_task(self.received.iter().map(|received| received.at));
        let writers = by_task(self.sent.iter().map(|sent| sent.at));
        let votes = self.votes(wakeups, &readers);
        let mut flows = Flows::new(&self.received);
        let to: Vec<Option<FlowIndex>> = self
            .sent
            .iter()
            .map(|sent| {
                let socket = sent.to.or_else(|| votes.peer(sent.from?, sent.at.position))?;
                flows.at(socket, sent.at.position)
            })
            .collect();
        for (index, to) in to.iter().enumerate() {
            if let Some(to) = to {
                flows.all[*to].sent.push(index);
            }
        }
        for flow in &mut flows.all {
            flow.sent.sort_by_key(|&index| self.sent[index].at.position);
        }
        for wakeup in wakeups.iter() {
            match self.via(wakeup) {
                Some(Via::Sent(index)) => {
                    let next = next_of(&readers, wakeup.wakee, wakeup.at.max(wakeup.blocked));
                    if let (Some(to), Some(next)) = (to[index], next)
                        && flows.of_received[next] == to
                    {
                        let wait = Wait { wakeup: *wakeup, ended_by: index };
                        flows.all[to].waits.entry(next).or_insert(wait);
                    }
                }
                Some(Via::Received(index)) => {
                    let next = next_of(&writers, wakeup.wakee, wakeup.at.max(wakeup.blocked))
                        .and_then(|next| to[next]);
                    let flow = flows.of_received[index];
                    if next == Some(flow) {
                        flows.all[flow].room.push((index, wakeup.signal));
                    }
                }
                None => {}
            }
        }
        let mut exact = Exact::default();
        let mut explained = BTreeSet::new();
        let mut pairs = BTreeSet::new();
        for flow in flows.all.iter().filter(|flow| !flow.sent.is_empty()) {
            let channel = exact.channels.len() as u32;
            let waits = explained.len();
            exact.channels.push(flow.add_to(tasks, &self, channel, &mut explained));
            exact.count.added += (flow.sent.len() - (explained.len() - waits).min(flow.sent.len())) as u64;
            explained.extend(flow.room.iter().map(|&(_, signal)| signal));
            pairs.extend(flow.sent.iter().map(|&index| (self.sent[index].at.task, flow.reader)));
        }
        exact.count.pairs = pairs.len() as u64;
        exact.count.wakeups = explained.len() as u64;
        for task in tasks.iter_mut() {
            task.steps.retain(|step| match step.op {
                Op::Signal { signal, .. } | Op::Wait { signal } => !explained.contains(&signal),
                _ => true,
            });
        }
        wakeups.retain(|wakeup| !explained.contains(&wakeup.signal));
        exact
    }

    /// The socket call that made a wake-up.
    fn via(&self, wakeup: &Wakeup) -> Option<Via> {
        let at = self.made.binary_search_by_key(&wakeup.at, |&(position, _)| position).ok()?;
        Some(self.made[at].1)
    }

    /// Which sockets the messages reached, as far as wake-ups tell.
    fn votes(&self, wakeups: &[Wakeup], readers: &ByTask) -> Votes {
        let mut votes = Votes::default();
        for wakeup in wakeups {
            let Some(Via::Sent(index)) = self.via(wakeup) else { continue };
            let Some(next) = next_of(readers, wakeup.wakee, wakeup.at) else { continue };
            let (from, to) = (self.sent[index].from, self.received[next].socket);
            if let Some(from) = from.filter(|&from| from != to) {
                votes.forth.entry(from).or_default().push((wakeup.at, to));
                votes.back.entry(to).or_default().push((wakeup.at, from));
            }
        }
        votes
    }
}

/// Which sockets messages of a socket reached, in the order of time.
#[derive(Debug, Default)]
struct Votes {
    forth: BTreeMap<u64, Vec<(Position, u64)>>,
    /// The same by the receiving socket.
    back: BTreeMap<u64, Vec<(Position, u64)>>,
}

impl Votes {
    /// The other end of a socket at a time: where four in five of the nearest votes agree, or those for messages in the
    /// other direction do. A client that waits for many servers often reads another one's answer first; its servers
    /// read only its questions.
    fn peer(&self, socket: u64, at: Position) -> Option<u64> {
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

/// The task's first place after `position`.
fn next_of(places: &ByTask, task: TaskIndex, position: Position) -> Option<usize> {
    let places = places.get(&task)?;
    let next = places.partition_point(|&(at, _)| at <= position);
    places.get(next).map(|&(_, index)| index)
}

/// A wait for a message.
#[derive(Clone, Copy, Debug)]
struct Wait {
    wakeup: Wakeup,
    /// The call that sent it.
    ended_by: usize,
}

/// An index of a [`Flow`].
type FlowIndex = usize;

/// The flows of all sockets.
struct Flows {
    all: Vec<Flow>,
    /// By socket: flows by the places where they end, in order.
    of_socket: BTreeMap<u64, Vec<(Position, FlowIndex)>>,
    /// The flow of each call that received.
    of_received: Vec<FlowIndex>,
}

impl Flows {
    /// One flow for each reader of a socket. Where another task reads a socket, a connection was handed over, or the
    /// kernel used an address again.
    fn new(received: &[Received]) -> Flows {
        let mut flows = Flows { all: Vec::new(), of_socket: BTreeMap::new(), of_received: Vec::new() };
        for (index, call) in received.iter().enumerate() {
            let of_socket = flows.of_socket.entry(call.socket).or_default();
            let last = of_socket.last_mut().filter(|(_, flow)| flows.all[*flow].reader == call.at.task);
            let flow = match last {
                Some((end, flow)) => {
                    *end = call.at.position;
                    *flow
                }
                None => {
                    of_socket.push((call.at.position, flows.all.len()));
                    flows.all.push(Flow { reader: call.at.task, ..Flow::default() });
                    flows.all.len() - 1
                }
            };
            flows.all[flow].received.push(index);
            flows.of_received.push(flow);
        }
        flows
    }

    /// The flow of a message to `socket` at a time: the first whose reader reads after that.
    fn at(&self, socket: u64, at: Position) -> Option<FlowIndex> {
        let of_socket = self.of_socket.get(&socket)?;
        let next = of_socket.partition_point(|&(end, _)| end <= at);
        of_socket.get(next.min(of_socket.len() - 1)).map(|&(_, flow)| flow)
    }
}

/// What one task read from one socket.
#[derive(Debug, Default)]
struct Flow {
    reader: TaskIndex,
    /// Indices of the calls that sent, in order.
    sent: Vec<usize>,
    /// Indices of the calls that received, in order.
    received: Vec<usize>,
    /// Waits, by the call that received afterwards.
    waits: BTreeMap<usize, Wait>,
    /// Calls that received and gave room to a sender that waited, with the signals of these wake-ups.
    room: Vec<(usize, u32)>,
}

/// What a call that received took.
struct Taken {
    received: usize,
    /// The messages that calls before it took.
    before: u64,
    messages: u64,
    /// The messages that it left.
    left: u64,
}

impl Flow {
    /// Puts the messages into the programs, and adds the signals of the waits that they replace to `explained`. Returns
    /// the channel.
    fn add_to(
        &self,
        tasks: &mut [Tracked],
        sockets: &Sockets,
        channel: u32,
        explained: &mut BTreeSet<u32>,
    ) -> Channel {
        let mut step = |place: At, op: Op| {
            let step = Step { position: place.position, at_units: place.units, op };
            tasks[place.task as usize].steps.push(step);
        };
        for &index in &self.sent {
            step(sockets.sent[index].at, Op::Send { channel, bytes: 0, work_ns: 0 });
        }
        let (all_taken, most) = self.taken(sockets);
        let receive = Op::Recv { channel, work_ns: 0 };
        for taken in &all_taken {
            let mut messages = taken.messages;
            let there = |wakeup: &Wakeup| {
                let sent = |&index: &usize| sockets.sent[index].at.position <= wakeup.at;
                self.sent.partition_point(sent) as u64 > taken.before
            };
            let wait = self.waits.get(&taken.received);
            // Of damaged recordings, a message that was there when the task was woken may have been taken before.
            if let Some(Wait { wakeup, .. }) = wait.filter(|wait| messages > 0 && there(&wait.wakeup)) {
                let (task, position, units) = (wakeup.wakee, wakeup.blocked, wakeup.wakee_units);
                step(At { task, position, units }, receive);
                explained.insert(wakeup.signal);
                messages -= 1;
            }
            for _ in 0..messages {
                step(sockets.received[taken.received].at, receive);
            }
        }
        self.channel(&all_taken, most)
    }

    /// What each call that received took, and the most messages that were in the socket.
    fn taken(&self, sockets: &Sockets) -> (Vec<Taken>, u64) {
        let ended_waits: BTreeSet<usize> = self.waits.values().map(|wait| wait.ended_by).collect();
        let lengths_known = self.sent.iter().all(|&index| sockets.sent[index].bytes.is_some());
        let one_for_one = self.sent.len() == self.received.len();
        let mut sent = self.sent.iter().map(|&index| (index, sockets.sent[index])).peekable();
        // The number of bytes up to the end of each message.
        let mut ends_bytes: Vec<u64> = Vec::new();
        let (mut read_bytes, mut done, mut most) = (0, 0, 0);
        let mut all_taken = Vec::with_capacity(self.received.len());
        for &received in &self.received {
            let Received { at, bytes, .. } = sockets.received[received];
            while let Some((index, message)) = sent.next_if(|(_, message)| message.at.position < at.position)
            {
                let end_bytes = ends_bytes.last().copied().unwrap_or(0);
                if ended_waits.contains(&index) {
                    // The reader had read all.
                    read_bytes = end_bytes;
                }
                ends_bytes.push(end_bytes + message.bytes.unwrap_or(0));
                most = most.max(ends_bytes.len() as u64 - done);
            }
            let there = ends_bytes.len() as u64;
            let until = if lengths_known {
                // What was sent before the recording began is not known.
                read_bytes = ends_bytes.last().map_or(0, |&end_bytes| end_bytes.min(read_bytes + bytes));
                let before = ends_bytes.partition_point(|&end_bytes| end_bytes < read_bytes) as u64;
                there.min(before + 1)
            } else if one_for_one {
                there.min(done + 1)
            } else {
                there
            };
            let messages = until.saturating_sub(done);
            let before = done;
            done += messages;
            all_taken.push(Taken { received, before, messages, left: there - done });
        }
        (all_taken, most)
    }

    /// A channel without a limit if no sender waited for room; else one that holds `most` messages.
    fn channel(&self, all_taken: &[Taken], most: u64) -> Channel {
        let gave_room: BTreeSet<usize> = self.room.iter().map(|&(received, _)| received).collect();
        let left =
            all_taken.iter().filter(|taken| gave_room.contains(&taken.received)).map(|taken| taken.left);
        match quantile(left, 50) {
            Some(left) if most > 0 => Channel {
                capacity_bytes: most,
                overhead_bytes: 1,
                wake_room_bytes: most.saturating_sub(left),
                elastic: true,
                sync: true,
                ..INBOX
            },
            _ => Channel { sync: true, ..INBOX },
        }
    }
}
