// SPDX-License-Identifier: GPL-2.0-or-later
//! Dependencies that left no event: what a task would have waited for, had it come earlier.
//!
//! Scheduler events show a wait only where it happened. Of the messages of a service, most find their receiver awake
//! and leave no trace. A model of the recorded waits alone lets a receiver run ahead of its senders: it answers what
//! was not asked, bursts merge, and wake-ups vanish. So what the recorded waits say of each pair of tasks is applied to
//! the moments without a wait, too. The following kinds of pairs are told apart.
//!
//! **Request and response.** Nearly all waits of a client are ended by one server. Then each of these waits is for an
//! answer, and the client asked before it: where no wake-up of the server shows the question, it is added just before
//! the client's wait (as long before as the questions that are seen), and the server needs it for what it does after
//! its last answer.
//!
//! Worked example: a client runs from 0 to 10, waits, is answered at 40, runs from 40 to 50, waits, is answered at 80.
//! It woke the server at 9; its second question woke nobody, because the server was still at work. The second question
//! is put 1 before the second wait, at 49, and the server waits for it once it has done what it had done by then.
//!
//! A client asks after it was woken. Where it does more between a wake-up that would be a question and its next wait
//! than it usually does between two waits, that was no question: a task that writes into a pipe wakes the reader with
//! the first page into an empty pipe, writes 15 more, and waits for room; then it writes one page for each that the
//! reader takes.
//!
//! The client may have got an answer without a wait, too: the server preempted it as soon as it was asked, and the
//! answer was there before the client went on. Then the client asks twice, and waits for nothing in between; yet the
//! server, which slept between the two, has answered the first question. Two tasks that hand a byte to and fro on one
//! CPU do nearly nothing else. So an answer is added as long before the server's sleep as the answers that are seen,
//! and the client needs it as long before its next question as it usually does after an answer. Without them, the
//! client asked again and again, and the server answered all at once: a replay of `perf bench sched pipe` had a tenth
//! of the wake-ups.
//!
//! A server of several clients answers the one that asks first (flows/servers.rs).
//!
//! **A stream.** A consumer is woken by one or several producers again and again, interchangeably. When it blocks, it
//! has consumed all that they made. Between a wake-up and the next block it consumed what its producers made meanwhile:
//! their work, divided by the work that lies between two items; but no more items than its own work has room for, if
//! the median of its bursts is one item. Items become messages in a channel of the consumer, the
//! woken ones and the others: it may not go on until as many were put in.
//!
//! Worked example: a producer wakes a consumer at 100 and at 110 of its work, and an item takes 10. Then it works on
//! until 150 while the consumer works for 80, where 16 is usual, and blocks. So it made items at 120, 130, 140 and 150,
//! and the consumer takes them after 16, 32, 48 and 64 of its work, or when they were made if that was later.
//!
//! A task that waits for its children's exits waits for each of them, so a child is a producer only if it wakes its
//! parent again and again. No items are added for children: a compressor that waits for the blocks of its threads had
//! many times its wake-ups with them.
//!
//! **A barrier.** Three tasks or more wait for each other, again and again, and the last one wakes the others
//! (flows/barriers.rs).
//!
//! **A mutex**, where the recording has the calls of futex(2) (flows/locks.rs, flows/retries.rs,
//! flows/unseen.rs).
//!
//! **A handshake**: a task wakes another in vain until that waits (flows/handshakes.rs).
//!
//! **An interpreter's lock**, which its threads have while they run, too (flows/interpreter.rs).
//!
//! **Anything else** (other locks, children that exit, few wake-ups) keeps one signal for each recorded wait.
//!
//! No deadlock: questions and items stand where their task was running, or was just woken; each is made, in the
//! recording's order, before it is needed; and each channel has one consumer. So the recorded order remains possible,
//! and what one order of execution can do, all can (crates/trace/src/causal.rs).
//!
//! Cost: time in proportion to wake-ups and added items, times at most [`PRODUCERS_MAX`] producers; 2 operations for
//! each item, at most [`ITEMS_PER_WAKEUP`] times the wake-ups.

mod barriers;
mod handshakes;
mod interpreter;
mod locks;
mod requests;
mod retries;
mod servers;
mod unseen;

pub(crate) use locks::Called;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use wakelab_workload::{Barrier, Channel, Lock, Op, TaskIndex};

use crate::causal::Position;
use crate::program::{Step, Tracked};
use crate::quantile::quantile;
use crate::rescale::UNITS;
use requests::Pair;
use servers::Added;

/// The fewest wake-ups that show what a pair is.
const FEWEST: usize = 8;
/// Most items that are added for each recorded wake-up, on average.
const ITEMS_PER_WAKEUP: u64 = 64;
/// Most producers whose work is looked at for one consumer: those that wake it most often.
const PRODUCERS_MAX: usize = 64;
/// Most items of one producer that are looked at, for each that the consumer has room for.
const MADE_FOR_ROOM: u64 = 64;

/// A channel of items that hold nothing, so that it costs nothing and is never full.
pub(crate) const INBOX: Channel = Channel {
    capacity_bytes: 1,
    overhead_bytes: 0,
    wake_room_bytes: 0,
    wakes_all_writers: false,
    wakes_when_full: false,
    elastic: false,
    answered_in: None,
    sync: false,
    loopback: false,
    send_lines: 0,
    recv_lines: 0,
};

/// A wake-up of a task by a task, which ended a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakeup {
    pub(crate) waker: TaskIndex,
    pub(crate) wakee: TaskIndex,
    pub(crate) signal: u32,
    /// When it was made.
    pub(crate) at: Position,
    /// The waker's work then.
    pub(crate) waker_units: u64,
    /// When the wait began.
    pub(crate) blocked: Position,
    /// The wakee's work then.
    pub(crate) wakee_units: u64,
}

/// What was inferred of the tasks of two names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowCount {
    /// Pairs of a waker and a wakee.
    pub pairs: u64,
    /// Their recorded wake-ups.
    pub wakeups: u64,
    /// Dependencies that were added.
    pub added: u64,
}

/// The kind of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowKind {
    /// Messages over a socket, as recorded.
    Socket,
    /// Messages over a pipe or an eventfd, as recorded.
    Pipe,
    /// A client asks a server.
    Request,
    /// A server answers.
    Response,
    /// A producer feeds a consumer.
    Stream,
    /// Tasks wait for each other; `pairs` counts the barriers, and `added` arrivals without a wait.
    Barrier,
    /// A task wakes another in vain until that waits; `added` counts meetings for which the wakee did not sleep.
    Handshake,
    /// Tasks share a mutex; `pairs` counts the mutexes, and `added` holds of tasks that found it free.
    Mutex,
    /// One signal for each recorded wait.
    Signal,
}

/// What was inferred, by kind.
pub type FlowCounts = BTreeMap<FlowKind, FlowCount>;

/// What the inference adds to the workload.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    pub(crate) channels: Vec<Channel>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) locks: Vec<Lock>,
    pub(crate) counts: FlowCounts,
}

/// Adds to `flows` and to `tasks` the dependencies that `wakeups` and `calls` of futexes, in the order of the
/// recording, imply, and takes those of mutexes and barriers out. `signals` is the number of signals, and rises.
pub(crate) fn infer(
    flows: &mut Flows,
    tasks: &mut [Tracked],
    wakeups: &mut Vec<Wakeup>,
    calls: &[Called],
    signals: &mut u32,
    end: Position,
) {
    let mut of_task: Vec<Vec<Called>> = vec![Vec::new(); tasks.len()];
    for call in calls {
        of_task[call.task as usize].push(*call);
    }
    let spinners = handshakes::take_handshakes(flows, tasks, wakeups, &of_task);
    locks::take_locks(flows, tasks, wakeups, &of_task);
    let interpreters = interpreter::take_wakeups(tasks, wakeups, &of_task);
    barriers::take_barriers(flows, tasks, wakeups, &of_task);
    let known = Known::new(tasks.len(), wakeups, spinners);
    let mut kinds: BTreeMap<(TaskIndex, TaskIndex), FlowKind> = BTreeMap::new();
    let mut pairs = Vec::new();
    for (client, &server) in known.servers.iter().enumerate() {
        let client = client as TaskIndex;
        if let Some(server) = server {
            kinds.insert((client, server), FlowKind::Request);
            kinds.insert((server, client), FlowKind::Response);
            let pair = Pair { client, server };
            let before = *signals;
            let asked = requests::add_questions(tasks, &known, pair, signals);
            flows.counts.entry(FlowKind::Request).or_default().added += asked;
            let between = *signals;
            let answered = requests::add_answers(tasks, &known, pair, signals);
            flows.counts.entry(FlowKind::Response).or_default().added += answered;
            pairs.push(Added { of: pair, questions: before..between, answers: between..*signals });
        }
    }
    let mut channel_of = BTreeMap::new();
    servers::take_servers(flows, tasks, &known, &pairs, &mut channel_of);
    let budget = ITEMS_PER_WAKEUP * wakeups.len() as u64;
    let mut stream = Streams { known: &known, end, left: budget };
    for consumer in 0..tasks.len() as TaskIndex {
        let Some(of) = stream.of_consumer(tasks, consumer) else { continue };
        let channel = flows.channels.len() as u32;
        flows.channels.push(INBOX);
        for &waker in &of.producers {
            kinds.insert((waker, consumer), FlowKind::Stream);
        }
        channel_of.extend(of.wakeups.iter().map(|wakeup| (wakeup.signal, channel)));
        flows.counts.entry(FlowKind::Stream).or_default().added += stream.add_items(tasks, &of, channel);
    }
    for task in tasks.iter_mut() {
        use_channels(task, &channel_of);
    }
    locks::end_all_before_waits(flows, tasks);
    interpreter::write(flows, tasks, &interpreters);
    for (pair, wakeups) in &known.pairs {
        let kind = kinds.get(pair).copied().unwrap_or(FlowKind::Signal);
        let count = flows.counts.entry(kind).or_default();
        count.pairs += 1;
        count.wakeups += wakeups.len() as u64;
    }
}

/// Takes signals out of the programs, and their wake-ups out of `wakeups`, because something else stands for them now.
pub(crate) fn drop_explained(tasks: &mut [Tracked], wakeups: &mut Vec<Wakeup>, explained: &BTreeSet<u32>) {
    for task in tasks {
        task.steps.retain(|step| match step.op {
            Op::Signal { signal, .. } | Op::Wait { signal } => !explained.contains(&signal),
            _ => true,
        });
    }
    wakeups.retain(|wakeup| !explained.contains(&wakeup.signal));
}

/// Wake-ups by wakee, waker and pair.
struct Known<'a> {
    /// By wakee, in order.
    ended: Vec<Vec<&'a Wakeup>>,
    /// By waker, in order.
    made: Vec<Vec<&'a Wakeup>>,
    /// By waker and wakee, in order.
    pairs: BTreeMap<(TaskIndex, TaskIndex), Vec<&'a Wakeup>>,
    /// The server of each client.
    servers: Vec<Option<TaskIndex>>,
    /// Wakers of handshakes: nothing is added to what they do, or need, while they spin.
    spinners: BTreeSet<TaskIndex>,
}

impl<'a> Known<'a> {
    fn new(tasks: usize, wakeups: &'a [Wakeup], spinners: BTreeSet<TaskIndex>) -> Known<'a> {
        let mut known = Known {
            ended: vec![Vec::new(); tasks],
            made: vec![Vec::new(); tasks],
            pairs: BTreeMap::new(),
            servers: vec![None; tasks],
            spinners,
        };
        for wakeup in wakeups {
            known.ended[wakeup.wakee as usize].push(wakeup);
            known.made[wakeup.waker as usize].push(wakeup);
            known.pairs.entry((wakeup.waker, wakeup.wakee)).or_default().push(wakeup);
        }
        known.find_servers();
        known
    }

    fn pair(&self, waker: TaskIndex, wakee: TaskIndex) -> &[&'a Wakeup] {
        self.pairs.get(&(waker, wakee)).map_or(&[], Vec::as_slice)
    }

    /// Whether one of two tasks is the waker of a handshake.
    fn spins(&self, one: TaskIndex, other: TaskIndex) -> bool {
        self.spinners.contains(&one) || self.spinners.contains(&other)
    }

    /// A task is a client of another if that ends four in five of its waits, and is woken by it at least once, as
    /// late as a question must come. Of two that are each other's clients, the one that waits more often is the client.
    fn find_servers(&mut self) {
        for (&(server, client), answers) in &self.pairs {
            let waits = self.ended[client as usize].len();
            let asked = self.pair(client, server).len();
            let is_client = !self.spins(server, client)
                && answers.len() >= FEWEST
                && answers.len() * 5 >= waits * 4
                && asked > 0
                && requests::asks_late(self.pair(client, server), answers);
            let back = self.servers[server as usize] == Some(client);
            if is_client && (!back || answers.len() > asked) {
                self.servers[client as usize] = Some(server);
                if back {
                    self.servers[server as usize] = None;
                }
            }
        }
    }
}

/// Finds streams and adds their items.
struct Streams<'a> {
    known: &'a Known<'a>,
    end: Position,
    /// The number of items that may still be added.
    left: u64,
}

/// What a consumer is fed by.
struct Stream<'a> {
    consumer: TaskIndex,
    producers: BTreeSet<TaskIndex>,
    /// Wake-ups of the consumer by its producers, in order.
    wakeups: Vec<&'a Wakeup>,
}

/// An item that was made without waking the consumer.
struct Item {
    producer: TaskIndex,
    made: Position,
    at_units: u64,
}

impl<'a> Streams<'a> {
    /// Returns the stream that feeds `consumer`, if there is one.
    fn of_consumer(&self, tasks: &[Tracked], consumer: TaskIndex) -> Option<Stream<'a>> {
        let known = self.known;
        let servers = &known.servers;
        let is_pair = |waker: TaskIndex| {
            servers[consumer as usize] == Some(waker) || servers[waker as usize] == Some(consumer)
        };
        let mut producers = BTreeSet::new();
        for wakeup in &known.ended[consumer as usize] {
            let waker = wakeup.waker;
            let (to, from) = (known.pair(waker, consumer).len(), known.pair(consumer, waker).len());
            // A child's exit ends a wait for that child, and no other.
            let may_exit = tasks[waker as usize].parent == Some(consumer) && to < FEWEST;
            // Where data and room flow in opposite directions, data wakes more often.
            let spins = known.spins(waker, consumer);
            if !is_pair(waker) && (to, waker) > (from, consumer) && !may_exit && !spins {
                producers.insert(waker);
            }
        }
        let wakeups: Vec<&Wakeup> = known.ended[consumer as usize]
            .iter()
            .copied()
            .filter(|wakeup| producers.contains(&wakeup.waker))
            .collect();
        (wakeups.len() >= FEWEST && !self.is_lock(&producers)).then_some(Stream {
            consumer,
            producers,
            wakeups,
        })
    }

    /// Whether the producers wake each other, too: then all of them share a lock.
    fn is_lock(&self, producers: &BTreeSet<TaskIndex>) -> bool {
        let wakeups = producers.iter().flat_map(|&producer| &self.known.made[producer as usize]);
        let among = wakeups.filter(|wakeup| producers.contains(&wakeup.wakee));
        let pairs: BTreeSet<(TaskIndex, TaskIndex)> =
            among.map(|wakeup| (wakeup.waker.min(wakeup.wakee), wakeup.waker.max(wakeup.wakee))).collect();
        pairs.len() * 3 > producers.len() * (producers.len() - 1) / 2
    }

    /// The work of `producer` between two items for `consumer`. Seen directly, it is a multiple of it, because items in
    /// between may have woken nobody; so a low quantile counts. Where a producer serves several consumers in turn, the
    /// work between its wake-ups of any of them tells, too.
    fn spacing_units(&self, producer: TaskIndex, consumer: TaskIndex) -> Option<u64> {
        let gaps = |wakeups: &[&Wakeup]| {
            let gaps = wakeups.windows(2).map(|pair| pair[1].waker_units.saturating_sub(pair[0].waker_units));
            quantile(gaps.filter(|&gap| gap > 0), 25)
        };
        let own = gaps(self.known.pair(producer, consumer));
        let made = &self.known.made[producer as usize];
        let consumers = made.iter().map(|wakeup| wakeup.wakee).collect::<BTreeSet<_>>().len() as u64;
        let shared =
            if made.len() >= FEWEST { gaps(made).map(|gap| gap.saturating_mul(consumers)) } else { None };
        own.into_iter().chain(shared).min()
    }

    /// Adds items to a stream. Returns their number.
    fn add_items(&mut self, tasks: &mut [Tracked], of: &Stream<'_>, channel: u32) -> u64 {
        let mut sources: Vec<Source> = Vec::new();
        let mut producers: Vec<TaskIndex> = of.producers.iter().copied().collect();
        producers.sort_by_key(|&producer| Reverse(self.known.pair(producer, of.consumer).len()));
        producers.truncate(PRODUCERS_MAX);
        for producer in producers {
            if tasks[producer as usize].parent == Some(of.consumer) {
                continue;
            }
            if let Some(spacing_units) = self.spacing_units(producer, of.consumer) {
                sources.push(Source {
                    producer,
                    next_units: 0,
                    spacing_units: whole(spacing_units).max(UNITS),
                });
            }
        }
        let usual_units = of.usual_burst_units();
        let mut added = 0;
        for (index, wakeup) in of.wakeups.iter().enumerate() {
            let until = of.wakeups.get(index + 1).map_or(self.end, |next| next.blocked);
            let consumer = &tasks[of.consumer as usize];
            let done_units =
                consumer.work_at(until.time_ns).saturating_sub(consumer.work_at(wakeup.at.time_ns));
            let room = (done_units / usual_units).saturating_sub(1).min(self.left);
            let mut items = Vec::new();
            for source in &mut sources {
                source.make(&tasks[source.producer as usize], wakeup, until, room, &mut items);
            }
            items.sort_by_key(|item| (item.made, item.producer));
            let items = thinned(items, room as usize);
            self.left -= items.len() as u64;
            added += items.len() as u64;
            place(tasks, of.consumer, &items, wakeup.at.time_ns, until.time_ns, channel);
        }
        added
    }
}

impl Stream<'_> {
    /// The consumer's work between two waits: the median, at least 1 ns. It is what one item takes, or more.
    fn usual_burst_units(&self) -> u64 {
        let bursts =
            self.wakeups.windows(2).map(|pair| pair[1].wakee_units.saturating_sub(pair[0].wakee_units));
        quantile(bursts.filter(|&units| units > 0), 50).unwrap_or(0).max(UNITS)
    }
}

/// A producer of a stream.
struct Source {
    producer: TaskIndex,
    /// Its work at its next item.
    next_units: u64,
    /// Its work between two items.
    spacing_units: u64,
}

impl Source {
    /// Appends what it makes after a wake-up of the consumer, until the consumer has consumed all. Of far more items
    /// than the `room` that the consumer has, only some are appended, evenly.
    fn make(&mut self, task: &Tracked, wakeup: &Wakeup, until: Position, room: u64, items: &mut Vec<Item>) {
        self.next_units = if self.producer == wakeup.waker {
            whole(wakeup.waker_units) + self.spacing_units
        } else {
            // Before the wake-up, an item would have woken the consumer.
            self.next_units.max(task.work_at(wakeup.at.time_ns))
        };
        let until_units = task.work_at(until.time_ns);
        let Some(left_units) = until_units.checked_sub(self.next_units) else { return };
        let possible = left_units / self.spacing_units + 1;
        let stride = possible.div_ceil(MADE_FOR_ROOM * (room + 1)) * self.spacing_units;
        let offsets =
            (0..).map(|index| index * stride).take_while(|&offset| offset <= left_units && room > 0);
        items.extend(offsets.filter_map(|offset| {
            let at_units = self.next_units + offset;
            let made = task.position_of(at_units).filter(|made| (wakeup.at..until).contains(made))?;
            Some(Item { producer: self.producer, made, at_units })
        }));
        self.next_units += possible * self.spacing_units;
    }
}

/// Keeps at most `most` of the items, evenly.
fn thinned(items: Vec<Item>, most: usize) -> Vec<Item> {
    let all = items.len();
    if all <= most {
        return items;
    }
    let stays = |index: usize| (index + 1) * most / all > index * most / all;
    items.into_iter().enumerate().filter(|(index, _)| stays(*index)).map(|(_, item)| item).collect()
}

/// Whole nanoseconds of work, because the simulator knows no parts of one.
fn whole(units: u64) -> u64 {
    units / UNITS * UNITS
}

/// Puts items into the programs of their producers, and takes them in the consumer's, evenly over its work between two
/// times, but none before it was made.
fn place(
    tasks: &mut [Tracked],
    consumer: TaskIndex,
    items: &[Item],
    from_ns: u64,
    until_ns: u64,
    channel: u32,
) {
    let (first_units, last_units) =
        (tasks[consumer as usize].work_at(from_ns), tasks[consumer as usize].work_at(until_ns));
    let mut earliest = Position::default();
    for (index, item) in items.iter().enumerate() {
        let part = u128::from(last_units.saturating_sub(first_units)) * (index as u128 + 1)
            / (items.len() as u128 + 1);
        let even_ns = tasks[consumer as usize].time_of(first_units + part as u64);
        let takes = Position::after(even_ns).max(item.made).max(earliest);
        earliest = takes;
        let at_units = tasks[consumer as usize].work_at(takes.time_ns);
        let make = Op::Send { channel, bytes: 0, work_ns: 0 };
        let make = Step { position: item.made, at_units: item.at_units, op: make };
        tasks[item.producer as usize].steps.push(make);
        let take = Step { position: takes, at_units, op: Op::Recv { channel, work_ns: 0 } };
        tasks[consumer as usize].steps.push(take);
    }
}

/// Replaces signals by messages where a wake-up belongs to a stream.
fn use_channels(task: &mut Tracked, channel_of: &BTreeMap<u32, u32>) {
    for step in &mut task.steps {
        step.op = match step.op {
            Op::Signal { signal, .. } if let Some(&channel) = channel_of.get(&signal) => {
                Op::Send { channel, bytes: 0, work_ns: 0 }
            }
            Op::Wait { signal } if let Some(&channel) = channel_of.get(&signal) => {
                Op::Recv { channel, work_ns: 0 }
            }
            op => op,
        };
    }
}
