// SPDX-License-Identifier: GPL-2.0-or-later
//! State rebuilt from events alone: what a scheduler knows if all CPUs' events come one behind the other.
//!
//! A native policy is told every event of the log in the order of their times, and asked every question from the state
//! that it has then. On one CPU it would answer all alike. In a kernel CPUs act at the same time: a decision reads some
//! of what another CPU is just changing before the change and some after it, and an event's time is taken a moment
//! before its effect is seen. Where an answer differs in what it decides, the first thing that the kernel read
//! otherwise says which race it was.
//!
//! The idle mask is the kernel's. It is rebuilt from what is known: set when a CPU goes idle, or looks for work and
//! finds none; cleared when it turns busy, is claimed, or gets a task queued.

use std::collections::{BTreeMap, VecDeque};

use wakelab_policy::{DispatchDo, LogKind, Logged, Note, task_fields};

use crate::verify::to_native;
use crate::{Counts, Error, Log, Record, fields};

/// Why an answer differs: what was different of all that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Race {
    /// An idle CPU was claimed, or given back, by another CPU at that moment.
    Claim,
    /// A CPU was turning busy or idle.
    Busy,
    /// A task was joining or leaving a queue: numbers and loads.
    Queue,
    /// A running task was being charged or switched: vtimes, deadlines, their sums.
    Vtime,
    /// Words and hints of which CPUs idle, counters of busy CPUs.
    IdleWords,
    /// Marks that balancing is due, and `overloaded`.
    Marks,
    /// Averages of times, which have no event of their own: idle periods, scans.
    Averages,
    /// What groups weigh or received.
    Groups,
    /// The task's own record.
    Task,
    /// Nothing that was read: events of the same time in another order, or records that were lost.
    Other,
}

impl Race {
    /// All of them.
    pub const ALL: [Race; 10] = [
        Race::Claim,
        Race::Busy,
        Race::Queue,
        Race::Vtime,
        Race::IdleWords,
        Race::Marks,
        Race::Averages,
        Race::Groups,
        Race::Task,
        Race::Other,
    ];

    /// The word used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Race::Claim => "claim",
            Race::Busy => "busy",
            Race::Queue => "queue",
            Race::Vtime => "vtime",
            Race::IdleWords => "idle-words",
            Race::Marks => "marks",
            Race::Averages => "averages",
            Race::Groups => "groups",
            Race::Task => "task",
            Race::Other => "other",
        }
    }

    /// What it is, for reports.
    pub fn meaning(self) -> &'static str {
        match self {
            Race::Claim => "an idle CPU was claimed or given back by another CPU meanwhile",
            Race::Busy => "a CPU was turning busy or idle",
            Race::Queue => "a task was joining or leaving a queue",
            Race::Vtime => "a running task was being charged or switched",
            Race::IdleWords => "words, hints and counters of idle CPUs were being updated",
            Race::Marks => "a mark for balancing was on its way",
            Race::Averages => "an average of times was another one",
            Race::Groups => "what groups weigh or received was changing",
            Race::Task => "the task's own record was another one",
            Race::Other => "nothing that was read: the order of events, or lost records",
        }
    }

    /// Of the place that was read differently.
    fn of(kind: u32, place: &str) -> Race {
        if kind == Note::CLAIM {
            return Race::Claim;
        }
        if place.starts_with("group") || place.starts_with("loaded") {
            return Race::Groups;
        }
        if place.starts_with("task") {
            return Race::Task;
        }
        if place.starts_with("block") || place.starts_with("counter") {
            return Race::IdleWords;
        }
        // `cpu[3].exact.first.v`: behind the CPU, the field, and the part of it if it is a struct.
        let path = place.split_once("].").map_or(place, |(_, path)| path);
        let mut parts = path.split('.');
        match (parts.next().unwrap_or(path), parts.next().unwrap_or("")) {
            ("state", _) => Race::Busy,
            ("nr_queued" | "nr_running" | "load" | "total" | "buddies", _)
            | ("exact", "first" | "has_first")
            | ("exact_llc", "waiting" | "others_wait") => Race::Queue,
            ("exact", "curr_slot" | "best" | "has_best")
            | ("exact_llc", "clock")
            | (
                "curr_weight" | "min_vtime" | "curr_vtime" | "curr_start_ns" | "vtime_sum" | "curr_renewed"
                | "fair",
                _,
            ) => Race::Vtime,
            ("scan_llc" | "nearest_llc" | "rotor", _) => Race::IdleWords,
            ("avg_idle_ns" | "avg_scan_ns" | "util" | "util_stamp_ns" | "idle_since_ns", _) => Race::Averages,
            (
                "overloaded" | "balance_marked" | "next_balance_ns" | "balance_failed" | "newly_idle_left"
                | "push" | "taken_turns" | "exact",
                _,
            ) => Race::Marks,
            _ => Race::Other,
        }
    }
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Rebuilt {
    /// By kind of question; `cut` is 0 always.
    pub kinds: Vec<(LogKind, Counts)>,
    /// How many answers differ by each race; those without any are left out.
    pub races: Vec<(Race, u64)>,
}

impl Rebuilt {
    /// Questions, and those that were answered alike.
    pub fn total(&self) -> (u64, u64) {
        let add = |(a, b), (_, counts): &(LogKind, Counts)| (a + counts.questions, b + counts.agreed);
        self.kinds.iter().fold((0, 0), add)
    }

    /// Answered alike, in percent of all; `None` if nothing was asked.
    pub fn agreed_percent(&self) -> Option<f64> {
        let (questions, agreed) = self.total();
        (questions > 0).then(|| agreed as f64 * 100.0 / questions as f64)
    }
}

/// The native policy and its tasks, on the way through a log.
struct State {
    native: Logged,
    /// Places of tasks' records in the instance, by id.
    tasks: BTreeMap<u64, usize>,
}

/// Rebuilds the state of a log's policy from its events, and compares what it decides.
///
/// # Errors
/// If the header's policy cannot be built.
pub fn rebuild(log: &Log<'_>) -> Result<Rebuilt, Error> {
    let mut order: Vec<usize> = (0..log.len()).collect();
    order.sort_by_key(|&index| log.record(index).head.now_ns);
    let mut tasks = BTreeMap::new();
    for record in log.records() {
        for id in [Some(record.head.task), record.waker.map(id_of)].into_iter().flatten() {
            let next = tasks.len();
            tasks.entry(id).or_insert(next);
        }
    }
    let mut state = State { native: log.header.instance(tasks.len().max(1))?, tasks };
    let mut counts = vec![Counts::default(); LogKind::ALL.len()];
    let mut races = BTreeMap::<Race, u64>::new();
    for index in order {
        let record = log.record(index);
        if !record.kind.is_question() {
            state.tell(&record);
            continue;
        }
        let counts = &mut counts[record.kind as usize];
        counts.questions += 1;
        match state.ask(&record) {
            None => counts.agreed += 1,
            Some(race) => *races.entry(race).or_default() += 1,
        }
    }
    let kinds = LogKind::ALL.iter().copied().zip(counts).filter(|(_, counts)| counts.questions > 0).collect();
    Ok(Rebuilt { kinds, races: races.into_iter().collect() })
}

/// The id in a task's record.
fn id_of(task: &[u8]) -> u64 {
    fields::little_endian(part(task, "id", 8))
}

/// A field of a task's record.
fn part<'a>(task: &'a [u8], name: &str, bytes: usize) -> &'a [u8] {
    let (at, _) = task_fields().iter().find(|(_, its)| *its == name).expect("a field of a task");
    &task[*at..at + bytes]
}

impl State {
    fn task(&self, record: &Record<'_>) -> Option<usize> {
        (record.head.task != 0).then(|| self.tasks[&record.head.task])
    }

    /// An event.
    fn tell(&mut self, record: &Record<'_>) {
        let task = self.task(record);
        let cpu = record.head.args[0] as u32;
        match record.kind {
            LogKind::Busy => self.native.set_idle(cpu, false),
            LogKind::Idle => self.native.set_idle(cpu, true),
            // Its mask is the host's to write; the event says that it was.
            LogKind::Affinity => {
                if let (Some(task), Some(after)) = (task, record.task) {
                    let (at, _) = task_fields()[task_fields().len() - 1];
                    let mut bytes = self.native.task(task).to_vec();
                    bytes[at..].copy_from_slice(&after[at..]);
                    self.native.set_task(task, &bytes);
                }
            }
            _ => {}
        }
        if task.is_none() && of_a_task(record.kind) {
            return;
        }
        let mut answer = record.answer.to_vec();
        self.native.live(&record.head, task, None, 0, &mut answer);
    }

    /// A question: `None` if the answer decides alike.
    fn ask(&mut self, record: &Record<'_>) -> Option<Race> {
        let task = self.task(record);
        let waker = record.waker.map(|waker| self.tasks[&id_of(waker)]);
        let task_before = task.map(|task| self.native.task(task).to_vec());
        let mut answer = record.answer.to_vec();
        if record.kind != LogKind::MayMove {
            answer.fill(0);
        }
        let most = record.notes().len() * 2 + 1024;
        let (notes, _) = self.native.live(&record.head, task, waker, most, &mut answer);
        let differs = |field: &&fields::Field| field.decides && field.of(record.answer) != field.of(&answer);
        let race = fields::of(record.kind)
            .iter()
            .any(|field| differs(&field))
            .then(|| self.race(record, &notes, task_before.as_deref()));
        self.follow(record, &notes);
        race
    }

    /// What was read otherwise first, in the kernel's order.
    fn race(&self, record: &Record<'_>, native: &[Note], task_before: Option<&[u8]>) -> Race {
        let mut ours = BTreeMap::<(u32, u32), VecDeque<u64>>::new();
        for note in native {
            ours.entry((note.kind, note.what)).or_default().push_back(note.value);
        }
        for note in record.notes() {
            let is_lookup = matches!(note.kind, Note::GROUP | Note::GROUP_CPU);
            let what = self.what_of(record, &note);
            match ours.get_mut(&(note.kind, what)).and_then(VecDeque::pop_front) {
                Some(value) if value == note.value || (is_lookup && (value == 0) == (note.value == 0)) => {}
                Some(_) => return Race::of(note.kind, &self.native.name(&Note { what, ..note })),
                // The ways part here, and nothing that was read says why.
                None => break,
            }
        }
        if let (Some(before), Some(live)) = (task_before, record.task) {
            let told = |name: &str, bytes| part(before, name, bytes) != part(live, name, bytes);
            if told("vtime", 8) || told("place", 8) || told("weight", 4) || told("sum_exec_ns", 8) {
                return Race::Task;
            }
        }
        Race::Other
    }

    /// As to_native(), with this instance's place of the task.
    fn what_of(&self, record: &Record<'_>, note: &Note) -> u32 {
        let what = to_native(&self.native, record, note);
        let first = self.native.task_at(0) as u32;
        let bytes = Logged::layout().task;
        match self.task(record) {
            Some(task) if note.kind == Note::READ && what.wrapping_sub(first) < bytes => {
                what - first + self.native.task_at(task) as u32
            }
            _ => what,
        }
    }

    /// The idle mask follows what happened, not what this policy would have done.
    fn follow(&mut self, record: &Record<'_>, native: &[Note]) {
        for note in native.iter().filter(|note| note.kind == Note::CLAIM && note.value != 0) {
            self.native.set_idle(note.what, true);
        }
        let number = |name: &str| {
            let field = fields::of(record.kind).iter().find(|field| field.name() == name);
            field.map_or(0, |field| fields::little_endian(field.of(record.answer)))
        };
        let cpu = number("cpu") as usize;
        let exists = cpu < self.nr_cpus();
        match record.kind {
            LogKind::Select if number("claimed") != 0 && exists => self.native.set_idle(cpu as u32, false),
            LogKind::Enqueue if exists => self.native.set_idle(cpu as u32, false),
            LogKind::Dispatch if number("what") == DispatchDo::Nothing as u64 => {
                let cpu = record.head.args[0] as u32;
                self.native.set_idle(cpu, true);
            }
            _ => {}
        }
    }

    fn nr_cpus(&self) -> usize {
        self.native.nr_cpus()
    }
}

/// Is an event of this kind one of a task?
fn of_a_task(kind: LogKind) -> bool {
    use LogKind as K;
    matches!(
        kind,
        K::Running | K::Stopping | K::Quiescent | K::TaskInit | K::Affinity | K::Weight | K::Group | K::Exit
    )
}
