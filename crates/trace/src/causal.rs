// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns scheduling events into what each task did and what ended its waits.
//!
//! A task is bursts of work with waits between them. Work is the CPU time between switch-in and switch-out. Preemption
//! is no wait, so the bursts on both sides of it are one. A wait ends
//! - by a wake-up from another task, at an offset in *that* task's work: the waker raises a signal there;
//! - or from outside, because the waker's CPU was idle or an interrupt is known: this is a sleep, of the same length or
//!   until the same time, as crates/trace/src/loops.rs decides for each task at the end.
//!
//! Worked example. A runs from 0 to 100, wakes B at 60, and waits; B was waiting, runs from 70 to 100 and exits:
//! ```text
//!     A: compute 60, signal 0, compute 40      B: wait 0, compute 30
//! ```
//! The scheduler decided that B ran at 70 and not at 61, and on which CPU, so neither is in the model.
//!
//! Why a replay cannot deadlock. Give each operation a position in the recording: a wait completes at its switch-out or
//! its wake-up, whichever is later; a signal, a fork and every other operation stand where they were recorded. In each
//! program these positions rise; each signal stands at or before the completion of its wait, and each fork before its
//! child's beginning. So the order of positions is one possible order of execution. Signals stay raised, so what is
//! possible in one order of execution is possible in all.

mod between;
mod bound;
mod calls;
mod finish;
mod lives;
mod missing;
mod neighbours;
mod overheads;
mod picked;
mod recorder;
mod running;
mod waking;

pub(crate) use between::Since;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use wakelab_machine::{Cold, Topology};
use wakelab_workload::{Source, TaskIndex};

use crate::between::{Between, Mark};
use crate::event::{Context, Event, EventSource, Item, Place, SwitchedOut, TaskName, What};
use crate::explained::{Explained, Gap, GapCount};
use crate::flows::{Called, Wakeup};
use crate::groups::Groups;
use crate::header::Header;
use crate::learnt::Learnt;
use crate::messages::{At, Messages};
use crate::program::{KnownTasks, Tracked};
use crate::rescale::Recorded;
use crate::window::{Part, Window};
use crate::{Options, Recording, TraceError};

/// Reads all of `source`. The workload is called `name`.
///
/// # Errors
/// Those of the source; with [`Options::strict`], the first [`Gap`]; options that do not fit the recording.
pub fn model(source: &mut dyn EventSource, name: &str, options: &Options) -> Result<Recording, TraceError> {
    let recorded = options.recorded_on.as_ref().map(Recorded::new);
    let event_cost_ns = options.event_cost_ns.unwrap_or(0);
    let recorded_times = options.recorded_times;
    let topology =
        options.recorded_on.as_ref().map(|machine| &machine.topology).or(options.topology.as_ref());
    let topology = topology.cloned();
    let mut model = Model { recorded, event_cost_ns, recorded_times, topology, ..Model::default() };
    let mut window = options.time.map(Window::new);
    loop {
        let more = match source.next_item()? {
            Some(item) => model.item_in(&item, window.as_mut()),
            None => false,
        };
        if !more {
            window.as_ref().map_or(Ok(()), |window| window.check(source.file()))?;
            model.end();
        }
        if let Some(recorded) = &model.recorded
            && model.highest_cpu >= recorded.nr_cpus()
        {
            return Err(TraceError::RecordedOn {
                file: source.file().to_owned(),
                place: model.place,
                cpu: model.highest_cpu,
                machine: recorded.name.clone(),
                nr_cpus: recorded.nr_cpus(),
            });
        }
        match model.first_gap {
            Some((gap, place)) if options.strict => {
                return Err(TraceError::Unexplained { file: source.file().to_owned(), place, gap });
            }
            _ if !more => return model.recording(name, source.file(), options),
            _ => {}
        }
    }
}

/// A place in the recording. Events come in the order of their positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position {
    /// Since the recording began.
    pub(crate) time_ns: u64,
    /// The number of the event, from 1.
    event: u64,
}

impl Position {
    /// The place after all events of a time.
    pub(crate) fn after(time_ns: u64) -> Position {
        Position { time_ns, event: u64::MAX }
    }

    /// The place right after this one.
    pub(crate) fn next(self) -> Position {
        Position { event: self.event.saturating_add(1), ..self }
    }

    /// The place right before this one.
    pub(crate) fn previous(self) -> Position {
        Position { event: self.event.saturating_sub(1), ..self }
    }
}

/// What a task is doing, as far as the events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Forked by this parent, if it is known, and not started yet.
    Born { parent: Option<Waker> },
    /// Waiting for a CPU.
    Runnable,
    /// On a CPU.
    Running { cpu: u32, since_ns: u64 },
    /// Waiting for a wake-up; `position` of its switch-out.
    Blocked { since_ns: u64, position: Position },
    /// It has exited.
    Exited,
}

/// A task in the middle of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waker {
    task: TaskIndex,
    /// The work that it had done, in 1/1024 ns.
    work_units: u64,
    position: Position,
}

/// A wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    /// When it was due.
    time_ns: u64,
    /// When it was seen.
    seen_ns: u64,
    cause: Cause,
    /// The waker said that it is about to wait.
    sync: bool,
}

/// What ends a wait or starts a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Task(Waker),
    Outside(Source),
    Unknown,
}

/// What is known of a CPU's current task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OnCpu {
    /// Nothing, because no event was seen there yet.
    #[default]
    Unknown,
    Idle,
    Task(TaskIndex),
}

/// How it is known that a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SwitchIn {
    /// By the switch, which is the current event.
    Seen,
    /// By a later event, which may tell how long the task has run. Before it the CPU was idle, or nothing was known of
    /// it.
    Unseen { was_idle: bool, ran_ns: Option<u64> },
}

/// The events of a CPU whose times are kept: an interrupt with its timers has fewer.
const RECENT: usize = 12;

/// What recording an event took from the task that caused it.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    at_ns: u64,
    ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    on: OnCpu,
    /// What its next task does slowly, because it has idled, in 1/1024 ns.
    cold: Cold,
    /// The time of the last event there.
    last_ns: u64,
    /// The costs of the last events there, the latest one first; only if they are taken off.
    recent: [Cost; RECENT],
    /// The task that was switched out for the current one.
    prev: Option<TaskIndex>,
    /// When it went idle last.
    idle_since_ns: u64,
    /// A waker has told it since then that a task waits.
    notified: bool,
    /// When it left its idle task last, and when the wake-up was due that made it do so; if neither was recorded.
    left_idle: Option<(u64, u64)>,
    /// When it woke a task last.
    woke_ns: u64,
    /// The current task was switched in then, by the last event there, and that changed the process.
    switched: Option<(u64, bool)>,
    /// A wake-up in progress.
    waking: Option<overheads::Waking>,
    /// The current event is a wake-up by this task, this time after the end of its last one.
    in_call: Option<(TaskIndex, u64)>,
    /// The wake-ups that the interrupt in progress has made, those of them that this CPU queued itself, and whether it
    /// is a tick.
    irq_wakes: u32,
    irq_queued: u32,
    irq_ticks: bool,
    /// When the last tick began.
    ticked_ns: Option<u64>,
    /// The line at which a task that ran there turned up elsewhere. This is no gap if the CPU has no later event.
    left_at: Option<Place>,
    target: missing::Target,
}

/// Whether the recorder's task ids are those of the events; the first switch tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ids {
    #[default]
    Undecided,
    Same,
    /// perf ran inside a container: it names tasks by the container's ids, and the events name them by the machine's.
    Foreign,
}

/// What is known of a recording so far.
#[derive(Default)]
pub(crate) struct Model {
    tasks: Vec<Tracked>,
    /// The latest task of each id. It is looked up several times for each event, and never iterated over.
    by_tid: FxHashMap<u32, TaskIndex>,
    /// What comments of the recording say of tasks.
    told: KnownTasks,
    /// What they say of the recording.
    header: Option<Header>,
    groups: Groups,
    /// The tasks, by id, that descend from the recorded command before the part that counts.
    command_before: BTreeSet<u32>,
    /// The recorded command began.
    command_seen: bool,
    cpus: Vec<Cpu>,
    /// The recorded machine, from [`Options::recorded_on`].
    recorded: Option<Recorded>,
    /// From [`Options::event_cost_ns`].
    event_cost_ns: u64,
    /// From [`Options::recorded_times`].
    recorded_times: bool,
    /// Ticks were recorded.
    ticks_seen: bool,
    ids: Ids,
    first_ns: Option<u64>,
    /// Time since the first event.
    now_ns: u64,
    /// Where the current event stands.
    place: Place,
    /// The number of events so far, which is the position of the current one.
    events: u64,
    highest_cpu: u32,
    signals: u32,
    /// The number of wake-ups.
    wakes: u64,
    /// The number of wake-ups that ended a wait or began a task.
    useful_wakes: u64,
    waking_seen: bool,
    first_gap: Option<(Gap, Place)>,
    explained: Explained,
    learnt: Learnt,
    /// What tasks do from one message event to the next.
    between: FxHashMap<(TaskIndex, Mark, Mark), Between>,
    /// Wake-ups of tasks by tasks that ended a wait.
    wakeups: Vec<Wakeup>,
    calls: calls::Calls,
    messages: Messages,
    /// Calls of futex(2).
    futexes: Vec<Called>,
    /// How long idle CPUs take from picking a task to the switch.
    picked: picked::Picked,
    /// From [`Options`], until the first event.
    topology: Option<Topology>,
    neighbours: neighbours::Neighbours,
}

impl Model {
    /// Takes the next item of a recording, or of a part. Returns false where the part ends.
    fn item_in(&mut self, item: &Item<'_>, window: Option<&mut Window>) -> bool {
        let part = match (item, window) {
            (Item::Event(event), Some(window)) => window.part(event),
            // Where they were lost is not known before the part begins.
            (Item::Lost { .. }, Some(_)) if self.first_ns.is_none() => Part::Before,
            _ => Part::Inside,
        };
        match (part, item) {
            (Part::Inside, _) => self.item(item),
            (Part::Before, Item::Event(event)) => self.before_part(event),
            _ => {}
        }
        part != Part::After
    }

    /// Takes an event before the part that counts.
    fn before_part(&mut self, event: &Event<'_>) {
        match event.what {
            What::Fork { parent, child } => {
                let begins = self.is_command(child.tid);
                self.command_seen |= begins;
                if begins || self.is_command(parent.tid) || self.command_before.contains(&parent.tid) {
                    self.command_before.insert(child.tid);
                } else {
                    self.command_before.remove(&child.tid);
                }
                self.told.inherit(parent.tid, child.tid);
                self.groups.forked_before(parent.tid, child.tid);
            }
            What::Switch { prev, why: SwitchedOut::Exited, .. } => {
                self.command_before.remove(&prev.tid);
            }
            What::Moved { tid, hierarchy, path } => self.groups.moved_before(tid, hierarchy, path),
            _ => {}
        }
    }

    /// Takes the next item.
    pub(crate) fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(event) => self.event(event),
            Item::Lost { place, count } => {
                self.place = *place;
                self.explained.lost_events = self.explained.lost_events.saturating_add(*count);
                self.gap(Gap::LostEvents);
            }
            Item::Told(told) => {
                self.told.note(told);
                self.groups.task(told);
            }
            Item::Header(line) => {
                self.header.get_or_insert_default().add(line);
                self.groups.header(line);
            }
            Item::Unfinished => {}
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        if self.first_ns.is_none() {
            self.know_neighbours();
        }
        let first_ns = *self.first_ns.get_or_insert(event.time_ns);
        self.now_ns = event.time_ns - first_ns;
        self.place = event.place;
        self.events += 1;
        self.highest_cpu = self.highest_cpu.max(event.cpu);
        if self.highest_cpu >= self.recorded.as_ref().map_or(u32::MAX, Recorded::nr_cpus) {
            return;
        }
        self.note_events_on(event);
        self.learn_after_switch(event.cpu);
        self.confirm_runs_twice(event.cpu);
        self.follow_waking(event);
        self.charge_interrupt(event);
        self.explained.interrupts_known |=
            event.context != Context::Unknown && event.context != Context::Soft;

        match event.what {
            What::Switch { prev, why, next } => {
                self.decide_ids(&event.current, prev.tid);
                self.note_running(event.cpu, &prev, None);
                self.note_process(&event.current);
                self.learn_between(event);
                self.follow_piece(event);
                self.switch_out(event.cpu, &prev, why, &next);
                self.run(event.cpu, &next, &SwitchIn::Seen);
            }
            _ => {
                let ran_ns = match event.what {
                    What::Runtime { task, ran_ns } => {
                        self.note_runtime(event.cpu, &task, ran_ns, &event.current)
                    }
                    _ => None,
                };
                self.note_current(event.cpu, &event.current, ran_ns);
                match event.what {
                    What::Waking { task, last_cpu, sync } => {
                        self.waking_seen = true;
                        self.wake(event, &task, last_cpu, sync);
                        self.note_ran_on(&task, last_cpu);
                    }
                    What::Wakeup { task, cpu } => self.wakeup(event, &task, cpu),
                    What::WakeupNew { task, cpu } => self.wakeup_new(event, &task, cpu),
                    What::Fork { parent, child } => self.fork(event.cpu, &parent, &child),
                    What::Exec { tid } => self.exec(event.cpu, tid),
                    What::Exit => self.charge_exit(event.cpu),
                    What::Tick => self.ticks_seen = true,
                    What::Yield => self.yields(event),
                    What::Futex { address, is_private, call } => {
                        self.calls_futex(event, address, is_private, call)
                    }
                    What::DataReady { .. }
                    | What::Sent { .. }
                    | What::Received { .. }
                    | What::Writes { .. }
                    | What::Read { .. } => self.message_event(event),
                    What::Moved { tid, hierarchy, path } => self.moved(tid, hierarchy, path),
                    What::Migrate { task, from_cpu, to_cpu } => self.migrate(&task, from_cpu, to_cpu),
                    What::Switch { .. } | What::Runtime { .. } | What::Other => {}
                }
                self.learn_between(event);
                self.follow_piece(event);
            }
        }
        self.charge_recorder(event);
        self.cpu(event.cpu).last_ns = self.now_ns;
    }

    fn message_event(&mut self, event: &Event<'_>) {
        let Cause::Task(waker) = self.cause(event.cpu, event.context, None) else { return };
        let at = At { task: waker.task, position: waker.position, units: waker.work_units };
        match event.what {
            What::DataReady { to } => self.messages.ready(at, to),
            What::Sent { from, bytes } => self.messages.sent(at, from, bytes),
            What::Received { socket, bytes } => self.messages.received(at, socket, bytes),
            What::Writes { channel, bytes, capacity_bytes } => {
                self.messages.writes(at, channel, bytes, capacity_bytes)
            }
            What::Read { channel, bytes } => self.messages.read(at, channel, bytes),
            _ => {}
        }
    }

    fn migrate(&mut self, name: &TaskName<'_>, from_cpu: u32, to_cpu: u32) {
        self.highest_cpu = self.highest_cpu.max(from_cpu).max(to_cpu);
        if let Some(&index) = self.by_tid.get(&name.tid) {
            self.task(index).last_cpu.get_or_insert(from_cpu);
        }
    }

    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let at = cpu as usize;
        if self.cpus.len() <= at {
            self.cpus.resize(at + 1, Cpu::default());
        }
        &mut self.cpus[at]
    }

    fn task(&mut self, index: TaskIndex) -> &mut Tracked {
        &mut self.tasks[index as usize]
    }

    fn gap(&mut self, gap: Gap) {
        self.gap_at(gap, self.place);
    }

    fn gap_at(&mut self, gap: Gap, place: Place) {
        self.first_gap.get_or_insert((gap, place));
        let entry = self.explained.gaps.entry(gap).or_insert(GapCount { count: 0, first: place });
        entry.count += 1;
    }
}
