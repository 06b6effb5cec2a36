// SPDX-License-Identifier: GPL-2.0-or-later
//! Rebuilds the policy's state from events alone, as if the events of all CPUs came one after the other.
//!
//! A native policy is told every event of the log in order of time, and answers every question from the state that it
//! has then. If there were only one CPU, all answers would be the same. In a kernel, CPUs act at the same time: while
//! one CPU changes state, another reads parts of it before the change and parts after it, and an event's time is taken
//! a moment before its effect becomes visible. If a decision differs, the first value that the kernel read differently
//! names the race.
//!
//! The idle mask is the kernel's own. It is rebuilt from events: a bit is set when a CPU goes idle, or looks for work
//! and finds none; it is cleared when the CPU turns busy, is claimed, or gets a task queued.

use std::collections::{BTreeMap, VecDeque};

use wakelab_policy::{Decision, Dispatch, DispatchDo, Enqueue, EventKind, Field, Need};
use zerocopy::IntoBytes;

use crate::mirror::{WL_TASK_BYTES, WL_TASK_FIELDS};
use crate::verify::{asked, to_native};
use crate::{Counts, Error, Log, Logged, Note, NoteKind, Record, fields};

/// The reason why an answer differs: the kind of state that was read with another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Race {
    /// Another CPU claimed an idle CPU, or gave it back, at that moment.
    Claim,
    /// A CPU was turning busy or idle.
    Busy,
    /// A task was joining or leaving a queue, which changes numbers and loads.
    Queue,
    /// A running task was being charged or switched, which changes vtimes, deadlines and their sums.
    Vtime,
    /// Bitmaps and hints of idle CPUs, and counters of busy CPUs.
    IdleWords,
    /// Marks that balancing is due, and `overloaded`.
    Marks,
    /// Averages of times that have no event: idle periods, scans.
    Averages,
    /// What groups weigh or received.
    Groups,
    /// The task's own record.
    Task,
    /// No value that was read: events of the same time in another order, or lost records.
    Other,
}

impl Race {
    /// All kinds of races.
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

    /// A description for reports.
    pub fn meaning(self) -> &'static str {
        match self {
            Race::Claim => "an idle CPU was claimed or given back by another CPU meanwhile",
            Race::Busy => "a CPU was turning busy or idle",
            Race::Queue => "a task was joining or leaving a queue",
            Race::Vtime => "a running task was being charged or switched",
            Race::IdleWords => "bitmaps, hints and counters of idle CPUs were being updated",
            Race::Marks => "a mark for balancing was being set or cleared",
            Race::Averages => "an average of times was different",
            Race::Groups => "what groups weigh or have received was changing",
            Race::Task => "the task's own record was different",
            Race::Other => "no value that was read differs: the order of events, or lost records",
        }
    }

    /// The race that belongs to the place that was read differently.
    fn of(kind: u32, place: &str) -> Race {
        if kind == NoteKind::Claim as u32 {
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
        // `cpu[3].exact.first.v`: after the CPU comes the field, and its part if it is a struct.
        let path = place.split_once("].").map_or(place, |(_, path)| path);
        let mut parts = path.split('.');
        match (parts.next().unwrap_or(path), parts.next().unwrap_or("")) {
            ("state", _) => Race::Busy,
            ("nr_queued" | "nr_running" | "load" | "total" | "buddies" | "wait", _)
            | ("exact", "first" | "has_first")
            | ("exact_llc", "waiting" | "others_wait") => Race::Queue,
            ("exact", "curr_slot" | "best" | "has_best")
            | ("exact_llc", "clock")
            | ("queue" | "queues", _) => Race::Vtime,
            ("scan_llc" | "nearest_llc" | "rotor", _) => Race::IdleWords,
            (
                "avg_idle_ns" | "avg_scan_ns" | "scan_room_ns" | "scan_room_tick" | "util" | "util_stamp_ns"
                | "idle_since_ns",
                _,
            ) => Race::Averages,
            (
                "overloaded" | "balance_marked" | "times" | "newly_idle" | "next_balance_ns"
                | "balance_failed" | "newly_idle_left" | "push" | "taken_turns" | "exact",
                _,
            ) => Race::Marks,
            _ => Race::Other,
        }
    }
}

/// The result of rebuilding.
#[derive(Clone, Debug, Default)]
pub struct Rebuilt {
    /// Counts by kind of question; `cut` is always 0.
    pub kinds: Vec<(EventKind, Counts)>,
    /// How many answers differ because of each race; races without any are left out.
    pub races: Vec<(Race, u64)>,
}

impl Rebuilt {
    /// The number of questions, and of those with the same answer.
    pub fn total(&self) -> (u64, u64) {
        let add = |(a, b), (_, counts): &(EventKind, Counts)| (a + counts.questions, b + counts.agreed);
        self.kinds.iter().fold((0, 0), add)
    }

    /// Questions with the same answer, in percent; `None` if nothing was asked.
    pub fn agreed_percent(&self) -> Option<f64> {
        let (questions, agreed) = self.total();
        (questions > 0).then(|| agreed as f64 * 100.0 / questions as f64)
    }
}

/// The native policy and its tasks while a log is replayed.
struct State {
    native: Logged,
    /// Indices of tasks' records in the instance, by id.
    tasks: BTreeMap<u64, usize>,
}

/// Rebuilds the state of a log's policy from its events, and compares its decisions.
///
/// # Errors
/// If the header's policy cannot be built.
pub fn rebuild(log: &Log<'_>) -> Result<Rebuilt, Error> {
    let mut order: Vec<usize> = (0..log.len()).collect();
    order.sort_by_key(|&index| log.record(index).head.event.now_ns);
    let mut tasks = BTreeMap::new();
    for record in log.records() {
        for id in [Some(record.head.task), record.waker.map(id_of)].into_iter().flatten() {
            let next = tasks.len();
            tasks.entry(id).or_insert(next);
        }
    }
    let mut state = State { native: log.header.instance(tasks.len().max(1))?, tasks };
    let mut counts = vec![Counts::default(); EventKind::COUNT];
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
    let kinds =
        EventKind::ALL.iter().copied().zip(counts).filter(|(_, counts)| counts.questions > 0).collect();
    Ok(Rebuilt { kinds, races: races.into_iter().collect() })
}

/// The id in a task's record.
fn id_of(task: &[u8]) -> u64 {
    number_of(task, "id")
}

/// A field of a task's record.
fn task_field(name: &str) -> &'static Field {
    WL_TASK_FIELDS.iter().find(|field| field.name == name).expect("a field of a task")
}

/// A number in a task's record.
fn number_of(task: &[u8], name: &str) -> u64 {
    let field = task_field(name);
    let mut bytes = [0; 8];
    bytes[..field.size].copy_from_slice(&task[field.offset..field.offset + field.size]);
    u64::from_le_bytes(bytes)
}

impl State {
    fn task(&self, record: &Record<'_>) -> Option<usize> {
        (record.head.task != 0).then(|| self.tasks[&record.head.task])
    }

    /// Tells the policy an event.
    fn tell(&mut self, record: &Record<'_>) {
        let task = self.task(record);
        let cpu = record.head.event.cpu;
        match record.kind {
            EventKind::Busy => self.native.set_idle(cpu, false),
            EventKind::Idle => self.native.set_idle(cpu, true),
            // The host writes the mask itself; the event says that it has done so.
            EventKind::Affinity => {
                if let (Some(task), Some(after)) = (task, record.task) {
                    let at = task_field("allowed").offset;
                    let mut bytes = self.native.task(task).to_vec();
                    bytes[at..].copy_from_slice(&after[at..]);
                    self.native.set_task(task, &bytes);
                }
            }
            _ => {}
        }
        if task.is_none() && record.kind.call().task == Need::Always {
            return;
        }
        let mut answer = record.answer;
        self.native.live(&record.head.event, task, None, 0, &mut answer);
    }

    /// Asks a question. Returns `None` if the answer decides the same.
    fn ask(&mut self, record: &Record<'_>) -> Option<Race> {
        let task = self.task(record);
        let waker = record.waker.map(|waker| self.tasks[&id_of(waker)]);
        let task_before = task.map(|task| self.native.task(task).to_vec());
        let mut answer = asked(record);
        let most = record.notes().len() * 2 + 1024;
        let (notes, _) = self.native.live(&record.head.event, task, waker, most, &mut answer);
        let (live, native) = (record.answer.as_bytes(), answer.as_bytes());
        let race = fields::of(record.kind)
            .iter()
            .any(|field| field.decides && !field.is_equal(live, native))
            .then(|| self.race(record, &notes, task_before.as_deref()));
        self.follow(record, &notes);
        race
    }

    /// Finds the first value that was read differently, in the kernel's order.
    fn race(&self, record: &Record<'_>, native: &[Note], task_before: Option<&[u8]>) -> Race {
        let mut ours = BTreeMap::<(u32, u32), VecDeque<u64>>::new();
        for note in native {
            ours.entry((note.kind, note.what)).or_default().push_back(note.value);
        }
        for note in record.notes() {
            let is_lookup = note.is_lookup();
            let what = self.what_of(record, &note);
            match ours.get_mut(&(note.kind, what)).and_then(VecDeque::pop_front) {
                Some(value) if value == note.value || (is_lookup && (value == 0) == (note.value == 0)) => {}
                Some(_) => return Race::of(note.kind, &self.native.name(&Note { what, ..note })),
                // The reads differ from here on, and no value that was read says why.
                None => break,
            }
        }
        if let (Some(before), Some(live)) = (task_before, record.task) {
            let differs = |name: &str| {
                let field = task_field(name);
                let bytes = field.offset..field.offset + field.size;
                before[bytes.clone()] != live[bytes]
            };
            if ["entity", "place", "weight", "sum_exec_ns"].into_iter().any(differs) {
                return Race::Task;
            }
        }
        Race::Other
    }

    /// Like to_native(), with this instance's place of the task.
    fn what_of(&self, record: &Record<'_>, note: &Note) -> u32 {
        let what = to_native(&self.native, record, note);
        let first = self.native.task_at(0) as u32;
        match self.task(record) {
            Some(task) if note.is_read() && (what.wrapping_sub(first) as usize) < WL_TASK_BYTES => {
                what - first + self.native.task_at(task) as u32
            }
            _ => what,
        }
    }

    /// Makes the idle mask follow what happened, not what this policy would have done.
    fn follow(&mut self, record: &Record<'_>, native: &[Note]) {
        let is_claim = |note: &&Note| note.kind == NoteKind::Claim as u32 && note.value != 0;
        for note in native.iter().filter(is_claim) {
            self.native.set_idle(note.what, true);
        }
        let clear = |native: &mut Logged, cpu: i32| {
            if usize::try_from(cpu).is_ok_and(|cpu| cpu < native.nr_cpus()) {
                native.set_idle(cpu.cast_unsigned(), false);
            }
        };
        match record.kind {
            EventKind::Select => {
                let decision: Decision = record.answer.get();
                if decision.claimed != 0 {
                    clear(&mut self.native, decision.cpu);
                }
            }
            EventKind::Enqueue => clear(&mut self.native, record.answer.get::<Enqueue>().cpu),
            EventKind::Dispatch if record.answer.get::<Dispatch>().what == DispatchDo::Nothing as u32 => {
                self.native.set_idle(record.head.event.cpu, true);
            }
            _ => {}
        }
    }
}
