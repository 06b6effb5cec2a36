// SPDX-License-Identifier: GPL-2.0-or-later
//! What was read from one socket, pipe or eventfd: which call took which message, and how many messages there is room
//! for.
//!
//! Worked example, a pipe that holds 64 KiB. A writes 96 KiB in one call: 64 KiB fit, and A waits. B reads 32 KiB three
//! times; the first read makes room and wakes A. The call becomes three messages of 32 KiB, because B's calls divide it
//! so: two where the call began, the third where A was woken. Two messages fill the pipe, and each that B takes is room
//! for one more.
//!
//! A pipe without a recorded wait for room has the limit that its size and the mean length of its messages make, in
//! pages as the kernel counts. A pipe with several readers has none: each reader then has a separate channel, with the
//! messages that it read in the recording.
//!
//! Cost: in proportion to the calls; dividing a message takes as long as there are unread ones behind it.

use std::collections::{BTreeMap, BTreeSet};

use wakelab_workload::{Channel, Op, TaskIndex};

use super::{At, Messages, Queue, Received, Sent};
use crate::causal::Position;
use crate::flows::{FlowKind, INBOX, Wakeup};
use crate::program::{Step, Tracked};
use crate::quantile::quantile;

/// What a pipe holds unless a call has told otherwise, in bytes.
const PIPE_BYTES: u64 = 1 << 16;
/// A page of a pipe, in bytes. A message of no more than that is written all at once (PIPE_BUF), and is in one page.
const PAGE_BYTES: u64 = 1 << 12;

/// A wait for a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) wakeup: Wakeup,
    /// The call that sent it.
    pub(super) ended_by: usize,
}

/// A wait for room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) wakeup: Wakeup,
    /// The call that received and made the room; `None` if another writer passed it on.
    pub(super) by: Option<usize>,
}

/// An index of a [`Flow`].
pub(super) type FlowIndex = usize;

/// All flows.
pub(super) struct Flows {
    pub(super) all: Vec<Flow>,
    /// By queue: flows by the places where they end, in order.
    of_queue: BTreeMap<Queue, Vec<(Position, FlowIndex)>>,
    /// The flow of each call that received.
    pub(super) of_received: Vec<FlowIndex>,
}

impl Flows {
    /// One flow for each reader of a socket. Where another task reads a socket, a connection was handed over, or the
    /// kernel used an address again. A pipe and an eventfd have one number for all time.
    pub(super) fn new(received: &[Received]) -> Flows {
        let mut flows = Flows { all: Vec::new(), of_queue: BTreeMap::new(), of_received: Vec::new() };
        for (index, call) in received.iter().enumerate() {
            let of_queue = flows.of_queue.entry(call.from).or_default();
            let is_same = |flow: &Flow| matches!(call.from, Queue::Channel(_)) || flow.reader == call.at.task;
            let flow = match of_queue.last_mut().filter(|(_, flow)| is_same(&flows.all[*flow])) {
                Some((end, flow)) => {
                    *end = call.at.position;
                    *flow
                }
                None => {
                    of_queue.push((call.at.position, flows.all.len()));
                    flows.all.push(Flow::new(call.from, call.at.task));
                    flows.all.len() - 1
                }
            };
            flows.all[flow].received.push(index);
            flows.of_received.push(flow);
        }
        flows
    }

    /// The flow of a message to `queue` at a time: the first whose reader reads after that.
    pub(super) fn at(&self, queue: Queue, at: Position) -> Option<FlowIndex> {
        let of_queue = self.of_queue.get(&queue)?;
        let next = of_queue.partition_point(|&(end, _)| end <= at);
        of_queue.get(next.min(of_queue.len() - 1)).map(|&(_, flow)| flow)
    }
}

/// What was read from one queue; by one task, if it is a socket.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) queue: Queue,
    /// The task that read first.
    pub(super) reader: TaskIndex,
    /// Indices of the calls that sent.
    pub(super) sent: Vec<usize>,
    /// Indices of the calls that received, in order.
    pub(super) received: Vec<usize>,
    /// Waits, by the call that received afterwards.
    pub(super) waits: BTreeMap<usize, Wait>,
    /// Waits for room, by the call that sent.
    pub(super) room: BTreeMap<usize, Vec<Room>>,
}

/// What a flow added to the programs.
#[derive(Debug, Default)]
pub(super) struct Added {
    pub(super) messages: u64,
    /// The signals of the waits that are part of receives.
    pub(super) waited: BTreeSet<u32>,
    /// Those that are part of sends.
    pub(super) room: BTreeSet<u32>,
}

/// What one call sent, or a part of it.
#[derive(Clone, Copy, Debug)]
struct Message {
    at: At,
    bytes: Option<u64>,
    /// Its reader had read all before it.
    found_empty: bool,
}

/// What a call that received took.
struct Taken {
    received: usize,
    /// The messages that calls before it took.
    before: u64,
    messages: u64,
}

/// The messages of a flow, in order, and who took them.
#[derive(Default)]
struct Taking {
    messages: Vec<Message>,
    taken: Vec<Taken>,
    /// The most messages that were there at a time.
    most: u64,
}

impl Flow {
    fn new(queue: Queue, reader: TaskIndex) -> Flow {
        Flow {
            queue,
            reader,
            sent: Vec::new(),
            received: Vec::new(),
            waits: BTreeMap::new(),
            room: BTreeMap::new(),
        }
    }

    pub(super) fn kind(&self) -> FlowKind {
        match self.queue {
            Queue::Socket(_) => FlowKind::Socket,
            Queue::Channel(_) => FlowKind::Pipe,
        }
    }

    /// Puts the messages into the programs, the channels into `channels`, and the pairs of sender and receiver into
    /// `pairs`.
    pub(super) fn add_to(
        &self,
        tasks: &mut [Tracked],
        all: &Messages,
        channels: &mut Vec<Channel>,
        pairs: &mut BTreeSet<(TaskIndex, TaskIndex)>,
    ) -> Added {
        let mut step = |place: At, op: Op| {
            let step = Step { position: place.position, at_units: place.units, op };
            tasks[place.task as usize].steps.push(step);
        };
        let taking = self.take(all);
        let mut added = Added { messages: taking.messages.len() as u64, ..Added::default() };
        let reader = |received: usize| all.received[received].at.task;
        let readers: BTreeSet<TaskIndex> = self.received.iter().map(|&received| reader(received)).collect();
        let first = channels.len() as u32;
        let channel_of: BTreeMap<TaskIndex, u32> = readers.iter().copied().zip(first..).collect();
        let channel = if readers.len() == 1 { self.channel(&taking, all) } else { self.unlimited() };
        channels.extend(readers.iter().map(|_| channel));

        let mut messages = taking.messages.iter();
        for taken in &taking.taken {
            let of_reader = &all.received[taken.received].at;
            let channel = channel_of[&of_reader.task];
            let receive = Op::Recv { channel, work_ns: 0 };
            for message in messages.by_ref().take(taken.messages as usize) {
                pairs.insert((message.at.task, of_reader.task));
                step(message.at, Op::Send { channel, bytes: 0, work_ns: 0 });
            }
            let mut left = taken.messages;
            let there = |wakeup: &Wakeup| {
                let sent = |message: &Message| message.at.position <= wakeup.at;
                taking.messages.partition_point(sent) as u64 > taken.before
            };
            let wait = self.waits.get(&taken.received);
            // Of damaged recordings, a message that was there when the task was woken may have been taken before.
            if let Some(Wait { wakeup, .. }) = wait.filter(|wait| left > 0 && there(&wait.wakeup)) {
                let (task, position, units) = (wakeup.wakee, wakeup.blocked, wakeup.wakee_units);
                step(At { task, position, units }, receive);
                added.waited.insert(wakeup.signal);
                left -= 1;
            }
            for _ in 0..left {
                step(*of_reader, receive);
            }
        }
        // Nobody has read these.
        let last = self.received.last().map_or(first, |&received| channel_of[&reader(received)]);
        for message in messages {
            step(message.at, Op::Send { channel: last, bytes: 0, work_ns: 0 });
        }
        added.room.extend(self.room.values().flatten().map(|room| room.wakeup.signal));
        added
    }

    /// What the calls sent, in the order in which it was there to be read.
    fn messages(&self, all: &Messages) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::with_capacity(self.sent.len());
        let mut ended: BTreeMap<usize, Vec<&Wakeup>> = BTreeMap::new();
        for wait in self.waits.values() {
            ended.entry(wait.ended_by).or_default().push(&wait.wakeup);
        }
        let mut sum_bytes = 0;
        let read = self.received.iter().map(|&received| {
            sum_bytes = u64::saturating_add(sum_bytes, all.received[received].bytes);
            (all.received[received].at.position, sum_bytes)
        });
        let read: Vec<(Position, u64)> = read.collect();
        let mut written_bytes = 0;
        for &index in &self.sent {
            let first = messages.len();
            self.parts(&all.sent[index], self.room.get(&index), (written_bytes, &read), &mut messages);
            let waits = ended.get(&index).map_or(&[][..], Vec::as_slice);
            if let Queue::Socket(_) = self.queue {
                divide_at_waits(&mut messages, waits, written_bytes, &read);
            }
            written_bytes = u64::saturating_add(written_bytes, all.sent[index].bytes.unwrap_or(0));
            let parts = &mut messages[first..];
            for wakeup in waits {
                let next = parts.partition_point(|part| part.at.position <= wakeup.at);
                let part = &mut parts[next.saturating_sub(1)];
                part.found_empty = true;
                // The event of a call that writes comes at its beginning.
                if let Queue::Channel(_) = self.queue
                    && part.at.position < wakeup.at
                {
                    part.at = At { position: wakeup.at, units: wakeup.waker_units, ..part.at };
                }
            }
        }
        messages.sort_by_key(|message| message.at.position);
        messages
    }

    /// Appends what one call wrote: one message, or several if it waited for room on the way. `written_bytes`: what
    /// calls before it wrote; `read`: the bytes that were read up to the end of each call.
    fn parts(
        &self,
        sent: &Sent,
        rooms: Option<&Vec<Room>>,
        (written_bytes, read): (u64, &[(Position, u64)]),
        messages: &mut Vec<Message>,
    ) {
        let whole = Message { at: sent.at, bytes: sent.bytes, found_empty: false };
        let rooms = match self.queue {
            Queue::Channel(_) => rooms.map_or(&[][..], Vec::as_slice),
            // The event comes at the end of the call, after all waits.
            Queue::Socket(_) => &[],
        };
        let Some(last) = rooms.last() else { return messages.push(whole) };
        let after = |room: &Room| {
            let (position, units) = (room.wakeup.at, room.wakeup.wakee_units);
            Message { at: At { position, units, ..sent.at }, ..whole }
        };
        let bytes = sent.bytes.unwrap_or(0);
        if bytes <= PAGE_BYTES {
            return messages.push(after(last));
        }
        let capacity_bytes = sent.capacity_bytes.unwrap_or(PIPE_BYTES);
        let mut part = whole;
        let mut done_bytes = 0;
        for room in rooms {
            // The pipe was full.
            let read_bytes = read_until(read, room.wakeup.blocked);
            let until_bytes =
                read_bytes.saturating_add(capacity_bytes).saturating_sub(written_bytes).min(bytes);
            if until_bytes > done_bytes {
                messages.push(Message { bytes: Some(until_bytes - done_bytes), ..part });
                done_bytes = until_bytes;
            }
            part = after(room);
        }
        if bytes > done_bytes {
            messages.push(Message { bytes: Some(bytes - done_bytes), ..part });
        }
    }

    /// Finds what each call that received took.
    fn take(&self, all: &Messages) -> Taking {
        let sent = self.messages(all);
        let lengths_known = sent.iter().all(|message| message.bytes.is_some());
        let one_for_one = sent.len() == self.received.len();
        // A stream of bytes is divided where calls divide it.
        let divides = lengths_known && matches!(self.queue, Queue::Channel(_));
        let mut sent = sent.into_iter().peekable();
        let mut taking = Taking::default();
        // The number of bytes up to the end of each message.
        let mut ends_bytes: Vec<u64> = Vec::new();
        let (mut read_bytes, mut done) = (0, 0);
        for &received in &self.received {
            let Received { at, bytes, .. } = all.received[received];
            while let Some(message) = sent.next_if(|message| message.at.position < at.position) {
                let end_bytes = ends_bytes.last().copied().unwrap_or(0);
                if message.found_empty {
                    read_bytes = end_bytes;
                }
                ends_bytes.push(end_bytes.saturating_add(message.bytes.unwrap_or(0)));
                taking.messages.push(message);
                taking.most = taking.most.max(ends_bytes.len() as u64 - done);
            }
            let until = if lengths_known {
                // What was sent before the recording began is not known.
                read_bytes =
                    ends_bytes.last().map_or(0, |&end_bytes| end_bytes.min(read_bytes.saturating_add(bytes)));
                let before = ends_bytes.partition_point(|&end_bytes| end_bytes < read_bytes);
                if divides && ends_bytes.get(before).is_some_and(|&end_bytes| end_bytes > read_bytes) {
                    taking.divide(&mut ends_bytes, before, read_bytes);
                }
                (ends_bytes.len() as u64).min(before as u64 + 1)
            } else if one_for_one {
                (ends_bytes.len() as u64).min(done + 1)
            } else {
                ends_bytes.len() as u64
            };
            let messages = until.saturating_sub(done);
            let before = done;
            done += messages;
            taking.taken.push(Taken { received, before, messages });
        }
        taking.messages.extend(sent);
        taking
    }

    /// A channel without a limit if no sender can wait for room; else one that holds as many messages as there were
    /// when senders began to wait for room, or as a pipe has room for. The medians count, because an event may come
    /// late. A wait beside a pipe that held more than twice as much at another time was for something else, its lock
    /// for example.
    fn channel(&self, taking: &Taking, all: &Messages) -> Channel {
        let pipe = self.pipe_room(taking, all);
        let least = if pipe.is_some() { taking.most / 2 } else { 0 };
        let rooms = || self.room.values().flatten().filter(|room| taking.full(room, all) >= least);
        let full = quantile(rooms().map(|room| taking.full(room, all)), 50);
        let left = quantile(rooms().filter_map(|room| taking.left(room)), 50);
        let (holds, wake_room) = match (full, left) {
            (Some(full), Some(left)) => (full, full.saturating_sub(left)),
            _ => match pipe {
                Some((holds, page)) => (taking.most.max(holds), page),
                None => return self.unlimited(),
            },
        };
        if holds == 0 {
            return self.unlimited();
        }
        Channel {
            capacity_bytes: holds,
            overhead_bytes: 1,
            wake_room_bytes: wake_room,
            elastic: true,
            wakes_when_full: matches!(self.queue, Queue::Channel(_)),
            ..self.unlimited()
        }
    }

    fn unlimited(&self) -> Channel {
        Channel { sync: true, ..INBOX }
    }

    /// How many messages a pipe holds, and how many one of its pages, by their mean length; `None` if it is no pipe.
    fn pipe_room(&self, taking: &Taking, all: &Messages) -> Option<(u64, u64)> {
        let Queue::Channel(_) = self.queue else { return None };
        let bytes = taking
            .messages
            .iter()
            .try_fold(0, |sum, message| Some(u64::saturating_add(sum, message.bytes?)))?;
        let mean_bytes = bytes.checked_div(taking.messages.len() as u64)?.max(1);
        let told_bytes = self.sent.iter().find_map(|&index| all.sent[index].capacity_bytes);
        let capacity_bytes = told_bytes.unwrap_or(PIPE_BYTES);
        let of_page = (PAGE_BYTES / mean_bytes).max(1);
        let holds = if mean_bytes <= PAGE_BYTES {
            capacity_bytes / PAGE_BYTES * of_page
        } else {
            capacity_bytes / mean_bytes
        };
        Some((holds.max(1), of_page))
    }
}

/// Divides the last message, which one call sent to a socket, where its reader had read all that was there, and waited
/// for the rest of it. `waits`: those that this call ended, in order; `written_bytes`: what calls before it wrote;
/// `read`: the bytes that were read up to the end of each call.
fn divide_at_waits(
    messages: &mut Vec<Message>,
    waits: &[&Wakeup],
    written_bytes: u64,
    read: &[(Position, u64)],
) {
    let mut done_bytes = 0;
    for wakeup in waits {
        let Some(&Message { at, bytes: Some(left_bytes), .. }) = messages.last() else { return };
        let until_bytes = read_until(read, wakeup.blocked).saturating_sub(written_bytes);
        let part_bytes = until_bytes.saturating_sub(done_bytes);
        if part_bytes == 0 || part_bytes >= left_bytes {
            continue;
        }
        done_bytes += part_bytes;
        messages.last_mut().expect("it was there").bytes = Some(part_bytes);
        messages.push(Message {
            at: At { position: wakeup.at, units: wakeup.waker_units, ..at },
            bytes: Some(left_bytes - part_bytes),
            found_empty: true,
        });
    }
}

/// The bytes that were read by calls that had ended then.
fn read_until(read: &[(Position, u64)], at: Position) -> u64 {
    let calls = read.partition_point(|&(end, _)| end <= at);
    calls.checked_sub(1).map_or(0, |last| read[last].1)
}

impl Taking {
    /// How many messages were there when a sender began to wait for room.
    fn full(&self, room: &Room, all: &Messages) -> u64 {
        let blocked = room.wakeup.blocked;
        let sent = self.messages.partition_point(|message| message.at.position <= blocked) as u64;
        let calls = self.taken.partition_point(|taken| all.received[taken.received].at.position <= blocked);
        let done = calls.checked_sub(1).map_or(0, |last| self.taken[last].before + self.taken[last].messages);
        sent.saturating_sub(done)
    }

    /// How many messages were left when it was woken by a call that received.
    fn left(&self, room: &Room) -> Option<u64> {
        let by = room.by?;
        let call = self.taken.binary_search_by_key(&by, |taken| taken.received).ok()?;
        let sent = self.messages.partition_point(|message| message.at.position < room.wakeup.at) as u64;
        Some(sent.saturating_sub(self.taken[call].before + self.taken[call].messages))
    }

    /// Divides message `index`, of which only the bytes up to `read_bytes` of the stream were read.
    fn divide(&mut self, ends_bytes: &mut Vec<u64>, index: usize, read_bytes: u64) {
        let message = self.messages[index];
        let rest_bytes = ends_bytes[index] - read_bytes;
        let first_bytes = message.bytes.map(|bytes| bytes.saturating_sub(rest_bytes));
        ends_bytes.insert(index, read_bytes);
        self.messages[index] = Message { bytes: Some(rest_bytes), found_empty: false, ..message };
        self.messages.insert(index, Message { bytes: first_bytes, ..message });
    }
}
