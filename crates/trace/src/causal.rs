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

mod missing;
mod overheads;
mod recorder;
mod running;

use std::num::NonZeroU32;

use rustc_hash::FxHashMap;
use wakelab_workload::{Op, Source, TaskIndex};

use crate::event::{Context, Event, EventSource, Item, Place, TaskName, What};
use crate::explained::{Explained, Gap, GapCount};
use crate::flows::{self, FlowKind, Flows, Wakeup};
use crate::header::Header;
use crate::joined::joined;
use crate::learnt::Learnt;
use crate::loops::{Loops, Slept};
use crate::program::{KnownTasks, Step, Tracked, workload};
use crate::rescale::{Recorded, UNITS};
use crate::sockets::{At, Sockets};
use crate::{Options, Recording, TraceError};

/// Reads all of `source`. The workload is called `name`.
///
/// # Errors
/// Those of the source; with [`Options::strict`], the first [`Gap`]; options that do not fit the recording.
pub fn model(source: &mut dyn EventSource, name: &str, options: &Options) -> Result<Recording, TraceError> {
    let recorded = options.recorded_on.as_ref().map(Recorded::new);
    let mut model = Model { recorded, ..Model::default() };
    loop {
        let more = match source.next_item()? {
            Some(item) => {
                model.item(&item);
                true
            }
            None => {
                model.end();
                false
            }
        };
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    on: OnCpu,
    /// The time of the last event there.
    last_ns: u64,
    /// The task that was switched out for the current one.
    prev: Option<TaskIndex>,
    /// When it went idle last.
    idle_since_ns: u64,
    /// A wake-up in progress.
    waking: Option<overheads::Waking>,
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

#[derive(Default)]
struct Model {
    tasks: Vec<Tracked>,
    /// The latest task of each id. It is looked up several times for each event, and never iterated over.
    by_tid: FxHashMap<u32, TaskIndex>,
    /// What comments of the recording say of tasks.
    told: KnownTasks,
    /// What they say of the recording.
    header: Option<Header>,
    cpus: Vec<Cpu>,
    /// The recorded machine, from [`Options::recorded_on`].
    recorded: Option<Recorded>,
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
    /// Wake-ups of tasks by tasks that ended a wait.
    wakeups: Vec<Wakeup>,
    sockets: Sockets,
}

impl Model {
    fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(event) => self.event(event),
            Item::Lost { place, count } => {
                self.place = *place;
                self.explained.lost_events = self.explained.lost_events.saturating_add(*count);
                self.gap(Gap::LostEvents);
            }
            Item::Told(told) => self.told.note(told),
            Item::Header(line) => self.header.get_or_insert_default().add(line),
            Item::Unfinished => {}
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        let first_ns = *self.first_ns.get_or_insert(event.time_ns);
        self.now_ns = event.time_ns - first_ns;
        self.place = event.place;
        self.events += 1;
        self.highest_cpu = self.highest_cpu.max(event.cpu);
        if self.highest_cpu >= self.recorded.as_ref().map_or(u32::MAX, Recorded::nr_cpus) {
            return;
        }
        self.note_events_on(event.cpu);
        self.confirm_runs_twice(event.cpu);
        self.charge_interrupt(event);
        self.explained.interrupts_known |=
            event.context != Context::Unknown && event.context != Context::Soft;

        match event.what {
            What::Switch { prev, why, next } => {
                self.decide_ids(&event.current, prev.tid);
                self.note_running(event.cpu, &prev, None);
                self.note_process(&event.current);
                self.switch_out(event.cpu, &prev, why, &next);
                self.run(event.cpu, &next, &SwitchIn::Seen);
            }
            _ => {
                let ran_ns = match event.what {
                    What::Runtime { task, ran_ns } => self.note_runtime(&task, ran_ns, &event.current),
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
                    What::DataReady { .. } | What::Sent { .. } | What::Received { .. } => {
                        self.socket_event(event)
                    }
                    What::Migrate { task, from_cpu, to_cpu } => self.migrate(&task, from_cpu, to_cpu),
                    What::Switch { .. } | What::Runtime { .. } | What::Other => {}
                }
            }
        }
        self.cpu(event.cpu).last_ns = self.now_ns;
    }

    fn socket_event(&mut self, event: &Event<'_>) {
        let Cause::Task(waker) = self.cause(event.cpu, event.context, None) else { return };
        let at = At { task: waker.task, position: waker.position, units: waker.work_units };
        match event.what {
            What::DataReady { to } => self.sockets.ready(at, to),
            What::Sent { from, bytes } => self.sockets.sent(at, from, bytes),
            What::Received { socket, bytes } => self.sockets.received(at, socket, bytes),
            _ => {}
        }
    }

    fn migrate(&mut self, name: &TaskName<'_>, from_cpu: u32, to_cpu: u32) {
        self.highest_cpu = self.highest_cpu.max(from_cpu).max(to_cpu);
        if let Some(&index) = self.by_tid.get(&name.tid) {
            self.task(index).last_cpu.get_or_insert(from_cpu);
        }
    }

    // ------------------------------------------------------------ waking

    /// Returns what causes the current event on `cpu`. A task that seems to wake itself was woken by an interrupt,
    /// because it sleeps already.
    fn cause(&mut self, cpu: u32, context: Context, wakee: Option<TaskIndex>) -> Cause {
        if let Context::Interrupt(source) = context {
            return Cause::Outside(source);
        }
        let on = self.cpu(cpu).on;
        match on {
            OnCpu::Unknown => Cause::Unknown,
            OnCpu::Idle => Cause::Outside(Source::Unknown),
            OnCpu::Task(index) if wakee == Some(index) => Cause::Outside(Source::Unknown),
            OnCpu::Task(index) if self.tasks[index as usize].is_recorder => Cause::Outside(Source::Unknown),
            OnCpu::Task(task) => Cause::Task(self.waker(task)),
        }
    }

    /// The place of the current event.
    fn position(&self) -> Position {
        Position { time_ns: self.now_ns, event: self.events }
    }

    fn waker(&mut self, task: TaskIndex) -> Waker {
        let now_ns = self.now_ns;
        Waker { task, work_units: self.task(task).work_until(now_ns), position: self.position() }
    }

    fn wake(&mut self, event: &Event<'_>, name: &TaskName<'_>, last_cpu: u32, sync: bool) {
        self.highest_cpu = self.highest_cpu.max(last_cpu);
        if name.tid == 0 {
            return;
        }
        self.wakes += 1;
        let found = self.living(name);
        let cause = self.cause(event.cpu, event.context, found);
        self.explained.soft_interrupt_wakes +=
            u64::from(event.context == Context::Soft && matches!(cause, Cause::Task(_)));
        if let Cause::Task(waker) = cause {
            self.charge_waking(event.cpu, waker.task, name.tid);
            self.sockets.woke(waker.task, waker.position);
        }
        let time_ns = if let Cause::Outside(_) = cause { self.due_ns(event) } else { self.now_ns };
        let wake = Wake { time_ns, seen_ns: self.now_ns, cause, sync };
        let woken_from = Some((event.cpu, self.now_ns));
        let woken_by = if let Cause::Task(waker) = cause { Some(waker.task) } else { None };
        let Some(index) = found else {
            let index = self.woken_from_before(name, &wake, last_cpu);
            let task = self.task(index);
            (task.woken_from, task.woken_by) = (woken_from, woken_by);
            return;
        };
        let task = self.task(index);
        (task.woken_from, task.woken_by) = (woken_from, woken_by);
        task.rename(name);
        task.last_cpu.get_or_insert(last_cpu);
        match task.state {
            State::Blocked { since_ns, position } => self.end_wait(index, &wake, since_ns, position),
            // The task may be about to leave the CPU with its state changed already. Then this wake-up ends the wait
            // that has not begun yet. The next switch-in shows whether it is so (see end_unseen_wait).
            State::Running { .. } => task.wake_while_running = Some(wake),
            State::Born { .. } | State::Runnable | State::Exited => {}
        }
    }

    /// Reads a sched_wakeup. Where sched_waking is recorded, too, it only confirms the wake-up.
    fn wakeup(&mut self, event: &Event<'_>, name: &TaskName<'_>, cpu: u32) {
        self.note_queued(cpu);
        if !self.waking_seen {
            self.wake(event, name, cpu, false);
            return;
        }
        self.highest_cpu = self.highest_cpu.max(cpu);
        self.charge_wakeup(event, name.tid, cpu);
        let Some(&index) = self.by_tid.get(&name.tid) else { return };
        self.learn_queueing(event.cpu, index);
        let task = &self.tasks[index as usize];
        if let State::Blocked { since_ns, position } = task.state {
            if let Some(wake) = task.wake_while_running {
                self.end_wait(index, &wake, since_ns, position);
            } else {
                self.gap(Gap::MissedWaking);
                self.wake(event, name, cpu, false);
            }
        }
    }

    /// Adds a task that waited when the recording began and is woken now. If it is woken from outside, it begins now;
    /// if by a task, it begins with a wait.
    fn woken_from_before(&mut self, name: &TaskName<'_>, wake: &Wake, last_cpu: u32) -> TaskIndex {
        let start_ns = if matches!(wake.cause, Cause::Task(_)) { 0 } else { wake.time_ns };
        let index = self.add_task(name, None, start_ns);
        self.task(index).last_cpu = Some(last_cpu);
        if let Cause::Task(_) = wake.cause {
            self.end_wait(index, wake, 0, Position::default());
            return index;
        }
        self.useful_wakes += 1;
        self.task(index).watched.woken(wake.seen_ns);
        if let Cause::Unknown = wake.cause {
            self.gap(Gap::UnknownWaker);
        }
        index
    }

    /// Ends the wait of a task that was switched in without a wake-up since its switch-out. If there was one just
    /// before, while the task still ran, it ended this wait: the waker logs its sched_waking first and then spins until
    /// the wakee has left its CPU (this happens in the hackbench fixture).
    fn end_unseen_wait(&mut self, index: TaskIndex, until_ns: u64) {
        let task = &self.tasks[index as usize];
        let State::Blocked { since_ns, position } = task.state else { return };
        if self.end_recorders_wait(index, until_ns) {
            return;
        }
        let task = &self.tasks[index as usize];
        if let Some(wake) = task.wake_while_running {
            self.end_wait(index, &wake, since_ns, position);
            return;
        }
        self.gap(Gap::SwitchInUnwoken);
        self.explained.waits += 1;
        self.explained.unexplained += 1;
        self.sleep(index, Source::Unknown, since_ns, position, until_ns);
    }

    fn end_wait(&mut self, index: TaskIndex, wake: &Wake, since_ns: u64, position: Position) {
        if self.end_recorders_wait(index, wake.time_ns) {
            return;
        }
        self.explained.waits += 1;
        self.useful_wakes += 1;
        self.task(index).watched.woken(wake.seen_ns);
        match wake.cause {
            Cause::Task(waker) => {
                let signal = self.signals;
                self.signals += 1;
                self.explained.by_task += 1;
                let op = Op::Signal { signal, sync: wake.sync };
                self.task(waker.task).steps.push(Step {
                    position: waker.position,
                    at_units: waker.work_units,
                    op,
                });
                let task = self.task(index);
                task.steps.push(Step { position, at_units: task.work_units, op: Op::Wait { signal } });
                let wakee_units = task.work_units;
                task.state = State::Runnable;
                task.ready_ns = task.ready_ns.max(wake.time_ns);
                self.wakeups.push(Wakeup {
                    waker: waker.task,
                    wakee: index,
                    signal,
                    at: waker.position,
                    waker_units: waker.work_units,
                    blocked: position,
                    wakee_units,
                });
            }
            Cause::Outside(source) => {
                self.explained.from_outside += 1;
                self.explained.source_unknown += u64::from(source == Source::Unknown);
                let slept = Slept { position, since_ns, until_ns: wake.time_ns };
                self.task(index).slept.push(slept);
                self.sleep(index, source, since_ns, position, wake.time_ns);
            }
            Cause::Unknown => {
                self.gap(Gap::UnknownWaker);
                self.explained.unexplained += 1;
                self.sleep(index, Source::Unknown, since_ns, position, wake.time_ns);
            }
        }
    }

    fn sleep(&mut self, index: TaskIndex, source: Source, since_ns: u64, position: Position, until_ns: u64) {
        let task = self.task(index);
        let op = Op::Sleep { delay_ns: until_ns.saturating_sub(since_ns), source };
        task.steps.push(Step { position, at_units: task.work_units, op });
        task.state = State::Runnable;
        task.ready_ns = task.ready_ns.max(until_ns);
    }

    // ------------------------------------------------------------ birth and death

    fn fork(&mut self, cpu: u32, parent: &TaskName<'_>, child: &TaskName<'_>) {
        self.end_previous(child.tid);
        self.charge_call(cpu, |recorded| recorded.costs.fork_ns);
        self.told.inherit(parent.tid, child.tid);
        let by_recorder = self.is_recorder(parent.tid);
        let parent = match self.cause(cpu, Context::Task, None) {
            Cause::Task(waker) => Some(waker),
            Cause::Outside(_) | Cause::Unknown if by_recorder => None,
            Cause::Outside(_) | Cause::Unknown => self.living(parent).map(|index| self.waker(index)),
        };
        if let Some(parent) = parent {
            self.charge_waking(cpu, parent.task, child.tid);
        }
        let index = self.add_task(child, Some(State::Born { parent }), self.now_ns);
        self.task(index).of_recorder = by_recorder;
    }

    fn wakeup_new(&mut self, event: &Event<'_>, name: &TaskName<'_>, cpu: u32) {
        self.highest_cpu = self.highest_cpu.max(cpu);
        self.note_queued(cpu);
        self.charge_wakeup(event, name.tid, cpu);
        let cause = self.cause(event.cpu, Context::Task, None);
        let here = if let Cause::Task(waker) = cause { Some(waker) } else { None };
        let child = self.by_tid.get(&name.tid).copied();
        if let Some(index) = child
            && let State::Born { parent } = self.tasks[index as usize].state
        {
            self.start_child(index, here.or(parent));
            return;
        }
        self.gap(Gap::MissedFork);
        self.end_previous(name.tid);
        let index = self.add_task(name, Some(State::Born { parent: here }), self.now_ns);
        self.start_child(index, here);
    }

    /// Makes a forked task runnable, which its parent forks at that point; without a parent it begins by itself.
    fn start_child(&mut self, index: TaskIndex, parent: Option<Waker>) {
        let now_ns = self.now_ns;
        let task = self.task(index);
        task.state = State::Runnable;
        task.ready_ns = now_ns;
        task.watched.ready(now_ns);
        if let Some(parent) = parent {
            task.parent = Some(parent.task);
            let op = Op::Fork { task: index };
            self.task(parent.task).steps.push(Step {
                position: parent.position,
                at_units: parent.work_units,
                op,
            });
        } else {
            task.start_ns = now_ns;
            if !task.of_recorder {
                self.gap(Gap::UnknownParent);
            }
        }
    }

    /// Reads a sched_process_exec of the current task.
    fn exec(&mut self, cpu: u32, tid: u32) {
        self.charge_call(cpu, |recorded| recorded.costs.exec_ns);
        if let Cause::Task(waker) = self.cause(cpu, Context::Task, None)
            && self.tasks[waker.task as usize].tid == tid
        {
            let step = Step { position: waker.position, at_units: waker.work_units, op: Op::Exec };
            let task = self.task(waker.task);
            task.steps.push(step);
            task.forget_caches();
        }
    }

    /// Returns the task of this id. One that has exited without a later fork of that id is a gap, and another one
    /// begins.
    fn living(&mut self, name: &TaskName<'_>) -> Option<TaskIndex> {
        let index = *self.by_tid.get(&name.tid)?;
        if self.tasks[index as usize].state != State::Exited {
            return Some(index);
        }
        self.gap(Gap::AfterExit);
        Some(self.add_task(name, Some(State::Runnable), self.now_ns))
    }

    /// Ends the task of this id, because a new task gets the id.
    fn end_previous(&mut self, tid: u32) {
        let Some(&index) = self.by_tid.get(&tid) else { return };
        match self.tasks[index as usize].state {
            State::Exited => return,
            State::Running { cpu, .. } => self.vacate(cpu),
            State::Born { parent } => self.start_child(index, parent),
            State::Runnable | State::Blocked { .. } => {}
        }
        self.gap(Gap::MissedExit);
        self.task(index).state = State::Exited;
    }

    /// Adds a task; `state` is `None` for one from before the recording.
    fn add_task(&mut self, name: &TaskName<'_>, state: Option<State>, start_ns: u64) -> TaskIndex {
        // There is at most one for each line, and no file has 2^32 lines.
        let index = self.tasks.len() as TaskIndex;
        match state {
            None => self.explained.tasks_from_before += 1,
            Some(_) => self.explained.tasks_born += 1,
        }
        let is_recorder = self.is_recorder(name.tid);
        let mut task = Tracked::new(name, state.unwrap_or(State::Runnable), start_ns);
        task.is_recorder = is_recorder;
        self.tasks.push(task);
        self.by_tid.insert(name.tid, index);
        index
    }

    // ------------------------------------------------------------ the end

    /// Cuts bursts and drops waits where the recording ends.
    fn end(&mut self) {
        for index in 0..self.tasks.len() as TaskIndex {
            let now_ns = self.now_ns;
            match self.tasks[index as usize].state {
                State::Running { .. } => self.stop(index, now_ns, State::Runnable),
                State::Blocked { .. } if self.tasks[index as usize].is_recorder => {}
                State::Blocked { .. } => self.explained.open_at_end += 1,
                State::Born { parent } => self.start_child(index, parent),
                State::Runnable | State::Exited => {}
            }
        }
        self.find_silent_cpus();
        self.explained.wakers_known = self.waking_seen;
        self.explained.foreign_ids = self.ids == Ids::Foreign;
        // With both events, a sched_wakeup may confirm a sched_waking that counts already.
        self.explained.redundant_wakes = self.wakes.saturating_sub(self.useful_wakes);
    }

    fn recording(mut self, name: &str, file: &str, options: &Options) -> Result<Recording, TraceError> {
        let nr_cpus = self.highest_cpu + 1;
        let (busy_ns, recorder_ns) = self.cpu_ns();
        let clamped_units: u64 = self.tasks.iter().map(|task| task.clamped_units).sum();
        self.explained.overhead_clamped_ns = clamped_units / UNITS;
        let observed = self.observations();
        let flows = if options.recorded_waits_only { Flows::default() } else { self.infer_flows() };
        let mut loops = Loops::new(options);
        let (mut once, recorded) =
            workload(name, self.tasks, &self.told, nr_cpus, &mut loops, &mut self.explained);
        once.signals = self.signals;
        once.channels = flows.channels;
        self.explained.flows = flows.counts;
        self.explained.loops = loops.done(file)?;
        let runs = options.repeat.map_or(1, NonZeroU32::get);
        let workload =
            joined(once, &recorded, self.now_ns, runs).map_err(|too_many| TraceError::TooManyRuns {
                file: file.to_owned(),
                runs,
                tasks: too_many.tasks,
                ops: too_many.ops,
                most: too_many.most,
            })?;
        Ok(Recording {
            workload,
            runs,
            nr_cpus,
            duration_ns: self.now_ns,
            events: self.events,
            busy_ns,
            explained: self.explained,
            observed,
            learnt: self.learnt,
            header: self.header,
            recorder_ns,
        })
    }

    /// Adds messages over sockets, and dependencies that left no event.
    fn infer_flows(&mut self) -> Flows {
        // The wake-ups of a task that had not yet left its CPU are noted late.
        self.wakeups.sort_by_key(|wakeup| wakeup.at);
        let sockets = std::mem::take(&mut self.sockets).resolve(&mut self.tasks, &mut self.wakeups);
        let end = Position::after(self.now_ns);
        let mut flows = Flows { channels: sockets.channels, ..Flows::default() };
        flows::infer(&mut flows, &mut self.tasks, &self.wakeups, &mut self.signals, end);
        if sockets.count.pairs > 0 {
            flows.counts.insert(FlowKind::Socket, sockets.count);
        }
        flows
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
