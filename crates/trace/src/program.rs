// SPDX-License-Identifier: GPL-2.0-or-later
//! One task while a recording is read, and the programs of all tasks at the end.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use wakelab_machine::Cold;
use wakelab_workload::{DEFAULT_FOOTPRINT_BYTES, End, GroupIndex, Measure, Op, Task, TaskIndex, Workload};

use crate::MAX_CPUS;
use crate::causal::{Position, Since, State, Wake};
use crate::event::{Place, TaskName, Told};
use crate::explained::Explained;
use crate::joined::Recorded;
use crate::kernel;
use crate::loops::{Loops, Slept, fits};
use crate::observed::{Observed, Watched};
use crate::rescale::UNITS;

/// An operation at an offset in a task's work. Steps are not made in the order of the recording, because a later event
/// may show that a wake-up ended a wait; `position` is that order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) position: Position,
    /// The task's work until then, in 1/1024 ns.
    pub(crate) at_units: u64,
    pub(crate) op: Op,
}

/// What ftrace prints instead of a name that it has forgotten.
pub(crate) const UNKNOWN_COMM: &str = "<...>";

/// What a comment of a recording says of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The CPUs where it may run, shared by all tasks with the same set; `None` means all.
    allowed: Option<Rc<[u32]>>,
    pub(crate) slice_ns: Option<u32>,
    pub(crate) footprint_bytes: u64,
    pub(crate) judged: bool,
    pub(crate) awaited: bool,
}

/// What comments of a recording say of tasks.
#[derive(Debug, Default)]
pub(crate) struct KnownTasks {
    by_tid: BTreeMap<u32, Known>,
    /// All different sets of CPUs.
    sets: BTreeSet<Rc<[u32]>>,
}

impl KnownTasks {
    /// Notes a comment on a task, unless there was one before.
    pub(crate) fn note(&mut self, told: &Told<'_>) {
        if told.cpus.is_none() && told.slice_ns.is_none() && told.footprint_bytes.is_none() {
            return;
        }
        let Entry::Vacant(entry) = self.by_tid.entry(told.tid) else { return };
        let allowed = told.cpus.and_then(cpus).map(|cpus| {
            let shared = self.sets.get(&cpus[..]).cloned().unwrap_or_else(|| cpus.into());
            self.sets.insert(Rc::clone(&shared));
            shared
        });
        let footprint_bytes = told.footprint_bytes.unwrap_or(DEFAULT_FOOTPRINT_BYTES);
        let Told { slice_ns, judged, awaited, .. } = *told;
        entry.insert(Known { allowed, slice_ns, footprint_bytes, judged, awaited });
    }

    /// Notes that a new task may run where its parent may, and has its slice, unless a comment says otherwise.
    pub(crate) fn inherit(&mut self, parent_tid: u32, child_tid: u32) {
        if let Some(parent) = self.by_tid.get(&parent_tid).cloned() {
            self.by_tid.entry(child_tid).or_insert(parent);
        }
    }

    /// Whether a comment says anything of a task.
    pub(crate) fn any(&self) -> bool {
        !self.by_tid.is_empty()
    }

    pub(crate) fn get(&self, tid: u32) -> Option<&Known> {
        self.by_tid.get(&tid)
    }
}

/// Returns the CPUs of a list like `0-3,8`, in ascending order; `None` if there are none below [`MAX_CPUS`]. Memory
/// grows with the length of the text and with [`MAX_CPUS`], however often the list names a CPU.
pub(crate) fn cpus(list: &str) -> Option<Vec<u32>> {
    let mut ranges = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        ranges.push((first, last.min(MAX_CPUS - 1)));
    }
    ranges.sort_unstable();
    let mut cpus = Vec::new();
    for (first, last) in ranges {
        let next = cpus.last().map_or(0, |&cpu| cpu + 1);
        cpus.extend(first.max(next)..=last);
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// The CPUs on which a task ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RanOn {
    None,
    One(u32),
    Several,
}

/// Work of a task between a switch-in and a switch-out, in 1/1024 ns.
#[derive(Clone, Copy, Debug)]
struct Burst {
    from_ns: u64,
    until_ns: u64,
    from_units: u64,
    until_units: u64,
}

/// Returns `value` x `part` / `whole`, and `value` if `whole` is 0.
pub(crate) fn scaled(value: u64, part: u64, whole: u64) -> u64 {
    match whole {
        0 => value,
        whole => (u128::from(value) * u128::from(part) / u128::from(whole)) as u64,
    }
}

/// A running task whose switch-in was not seen, and whose run time no event has told yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsure {
    /// It cannot have been switched in before this time.
    pub(crate) earliest_ns: u64,
    /// The assumed time of its switch-in.
    pub(crate) guessed_ns: u64,
    /// Its work until then.
    pub(crate) base_units: u64,
    /// The position of the event that showed it running.
    pub(crate) position: Position,
    /// The index of its first step since then.
    pub(crate) first_step: usize,
    /// That step is a sleep until the assumed time, because no wake-up was seen either.
    pub(crate) slept: bool,
    /// The line of the gap, if its run time stays unknown.
    pub(crate) gap_at: Option<Place>,
}

/// By how much a task's work moves, because it was switched in earlier or later than was assumed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correction {
    /// The event that showed it running. What it did before stays.
    pub(crate) since: Position,
    /// Its work before the switch-in.
    base_units: u64,
    more_units: u64,
    less_units: u64,
    /// The time assumed was a guess.
    pub(crate) was_guessed: bool,
}

impl Correction {
    /// Returns the corrected work.
    fn moved(&self, units: u64) -> u64 {
        (units + self.more_units).saturating_sub(self.less_units).max(self.base_units)
    }

    /// Corrects the work that the task had done at a position.
    pub(crate) fn apply(&self, position: Position, units: &mut u64) {
        if position >= self.since {
            *units = self.moved(*units);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) tid: u32,
    pub(crate) state: State,
    /// CPU time until it was charged last.
    pub(crate) cpu_ns: u64,
    /// The same by the speed of the CPUs, in 1/1024 ns.
    cpu_units: u64,
    /// The kernel's part of `cpu_units` that has not been taken off yet.
    pub(crate) kernel_units: u64,
    /// The task's work when it was computed last: the offset of the step at that time.
    pub(crate) work_units: u64,
    /// The kernel's part that could not be taken off, because there was less work.
    pub(crate) clamped_units: u64,
    /// What of `kernel_units` is for the sleep that begins now.
    pub(crate) sleep_units: u64,
    /// The speed of its CPU, in 1/1024.
    pub(crate) speed: u32,
    /// What it does slowly since it was switched in, because its CPU had idled, in 1/1024 ns; and its work until then.
    cold: Cold,
    cold_since_units: u64,
    /// The time of its last switch-in.
    pub(crate) burst_since_ns: u64,
    /// Its CPU time until then.
    pub(crate) burst_cpu_ns: u64,
    /// Its CPU time until its last fork.
    pub(crate) forked_cpu_ns: Option<u64>,
    /// The time of the scheduler's last account of it.
    pub(crate) accounted_ns: Option<u64>,
    /// The CPU where it had run, by its last sched_waking.
    pub(crate) woken_on: Option<u32>,
    /// It recorded, so it is left out.
    pub(crate) is_recorder: bool,
    /// A task that recorded forked it.
    pub(crate) of_recorder: bool,
    /// It is the recorded command, or descends from it.
    pub(crate) of_command: bool,
    /// It belongs to the service, which the recording tells.
    pub(crate) judged: bool,
    /// The service is done when such tasks are.
    pub(crate) awaited: bool,
    /// It reads from several channels as messages come.
    pub(crate) polls: bool,
    /// What its event loop does after each sleep (messages/turns.rs).
    pub(crate) after_sleep_ns: u64,
    /// The group in which it began.
    pub(crate) first_group: Option<GroupIndex>,
    /// The group in which it is.
    pub(crate) group: Option<GroupIndex>,
    /// Its exit was seen, and the cost of it was taken off.
    pub(crate) exit_seen: bool,
    /// The CPU and the time of its last wake-up.
    pub(crate) woken_from: Option<(u32, u64)>,
    /// The task that made it, if a task did.
    pub(crate) woken_by: Option<TaskIndex>,
    /// What it has done since its last message event, if no more than between.rs asks for.
    pub(crate) since_message: Option<Since>,
    pub(crate) steps: Vec<Step>,
    /// From where to where of its work it did what a replay does by itself, where it must; in any order.
    pub(crate) left_out: Vec<(u64, u64)>,
    /// The sleeps that ended from outside, in the order of time.
    pub(crate) slept: Vec<Slept>,
    /// It has called sched_yield since it was switched in.
    pub(crate) yielded: bool,
    /// The last wake-up since it was switched in.
    pub(crate) wake_while_running: Option<Wake>,
    pub(crate) unsure: Option<Unsure>,
    /// When it was switched in on an idle CPU, if the switch was seen and no account has come since.
    pub(crate) picked_by_idle: Option<u64>,
    /// It has run since this time by the scheduler's account, though it was not seen on a CPU.
    pub(crate) ran_from_ns: Option<u64>,
    /// When it left a CPU or became runnable last; it cannot have been switched in before.
    pub(crate) ready_ns: u64,
    pub(crate) parent: Option<TaskIndex>,
    pub(crate) start_ns: u64,
    /// The CPU where it was before its first switch-in.
    pub(crate) last_cpu: Option<u32>,
    pub(crate) process: Option<u32>,
    pub(crate) watched: Watched,
    /// Where its work was done, in the order of time.
    bursts: Vec<Burst>,
    pub(crate) name: String,
    prio: Option<i32>,
    pub(crate) ran_on: RanOn,
    /// It became runnable on a busy CPU while another one idled, and has not run since.
    pub(crate) beside_idle: bool,
    /// How often it did so and then ran on the same CPU as before, since it came there.
    pub(crate) stayed: u32,
    /// The CPU to which it is bound by that (causal/bound.rs).
    pub(crate) stays_on: Option<u32>,
    pub(crate) runs_on: Option<u32>,
}

impl Tracked {
    pub(crate) fn new(name: &TaskName<'_>, state: State, start_ns: u64) -> Self {
        Tracked {
            tid: name.tid,
            state,
            cpu_ns: 0,
            cpu_units: 0,
            kernel_units: 0,
            is_recorder: false,
            of_recorder: false,
            of_command: false,
            judged: false,
            awaited: false,
            polls: false,
            after_sleep_ns: 0,
            first_group: None,
            group: None,
            exit_seen: false,
            work_units: 0,
            clamped_units: 0,
            sleep_units: 0,
            speed: UNITS as u32,
            cold: Cold::default(),
            cold_since_units: 0,
            burst_since_ns: 0,
            burst_cpu_ns: 0,
            forked_cpu_ns: None,
            accounted_ns: None,
            woken_on: None,
            woken_from: None,
            woken_by: None,
            since_message: None,
            steps: Vec::new(),
            left_out: Vec::new(),
            slept: Vec::new(),
            yielded: false,
            wake_while_running: None,
            unsure: None,
            picked_by_idle: None,
            ran_from_ns: None,
            ready_ns: 0,
            parent: None,
            start_ns,
            last_cpu: None,
            process: None,
            watched: Watched::default(),
            bursts: Vec::new(),
            name: name.comm.to_owned(),
            prio: name.prio,
            ran_on: RanOn::None,
            beside_idle: false,
            stayed: 0,
            stays_on: None,
            runs_on: None,
        }
    }

    /// Counts the CPU time since it was switched in or charged last.
    pub(crate) fn charge_until(&mut self, now_ns: u64) {
        if let State::Running { since_ns, .. } = &mut self.state {
            let ran_ns = now_ns.saturating_sub(*since_ns);
            *since_ns += ran_ns;
            self.cpu_ns += ran_ns;
            self.cpu_units += ran_ns * u64::from(self.speed);
        }
    }

    /// Returns the CPU time from its switch-in until `now_ns`.
    pub(crate) fn ran_until(&mut self, now_ns: u64) -> u64 {
        self.charge_until(now_ns);
        self.cpu_ns.saturating_sub(self.burst_cpu_ns)
    }

    /// Returns the work done until `now_ns`, in 1/1024 ns. It never goes back, however large the kernel's part is: more
    /// than there was is taken off what follows.
    pub(crate) fn work_until(&mut self, now_ns: u64) -> u64 {
        self.charge_until(now_ns);
        self.work_units = self.work_units.max(self.done_units());
        self.work_units
    }

    /// Returns the work that it has done by its CPU time and the kernel's part of that, in 1/1024 ns.
    fn done_units(&self) -> u64 {
        let units = self.cpu_units.saturating_sub(self.kernel_units);
        let before_units = units.min(self.cold_since_units);
        before_units + self.cold.work_in(units - before_units)
    }

    /// Notes what it does slowly from now on.
    pub(crate) fn begin_cold(&mut self, cold: Cold) {
        (self.cold, self.cold_since_units) = (cold, self.work_units);
    }

    /// Takes what it lost because its CPU had idled off its work for good. Returns what is left for the next task.
    fn end_cold(&mut self) -> Cold {
        let done_units = self.done_units();
        let mut cold = std::mem::take(&mut self.cold);
        self.kernel_units += self.cpu_units.saturating_sub(self.kernel_units) - done_units;
        cold.take(done_units.saturating_sub(self.cold_since_units));
        cold
    }

    /// Ends what is taken off for the kernel where the task leaves its CPU: more than it did is not taken off what it
    /// does later, but for what a sleep costs, because a part of that comes after it.
    fn drop_excess(&mut self) {
        let least = self.work_units + self.kernel_units;
        let excess = least.saturating_sub(self.cpu_units).min(self.kernel_units);
        let dropped = excess.saturating_sub(std::mem::take(&mut self.sleep_units));
        self.kernel_units -= dropped;
        self.clamped_units += dropped;
    }

    /// Corrects its switch-in to the time at which it was picked and `gap_ns` later, but not to a time after the event
    /// that showed it running. Moves its steps since then. Returns what else must move, if the switch-in was unsure.
    pub(crate) fn correct_since(&mut self, now_ns: u64, picked_ns: u64, gap_ns: u64) -> Option<Correction> {
        let State::Running { .. } = self.state else { return None };
        let unsure = self.unsure.take()?;
        self.charge_until(now_ns);
        let said_ns = (picked_ns + gap_ns).min(unsure.position.time_ns).max(picked_ns);
        let (from_ns, to_ns) = (unsure.guessed_ns, said_ns.max(unsure.earliest_ns));
        let (more_ns, less_ns) = (from_ns.saturating_sub(to_ns), to_ns.saturating_sub(from_ns));
        let speed = u64::from(self.speed);
        let (more_units, less_units) = (more_ns * speed, less_ns * speed);
        let correction = Correction {
            since: unsure.position,
            base_units: unsure.base_units,
            more_units: self.cold.work_in(more_units),
            less_units: self.cold.work_in(less_units),
            was_guessed: unsure.gap_at.is_some(),
        };
        let steps = &mut self.steps[unsure.first_step..];
        if unsure.slept
            && let Some(Step { position, op: Op::Sleep { delay_ns, .. }, .. }) = steps.first_mut()
        {
            *delay_ns = (*delay_ns + less_ns).saturating_sub(more_ns);
            if let Some(slept) = self.slept.last_mut().filter(|slept| slept.position == *position) {
                slept.until_ns = slept.since_ns + *delay_ns;
            }
        }
        for step in steps {
            correction.apply(step.position, &mut step.at_units);
        }
        self.work_units = correction.moved(self.work_units);
        self.cpu_units = (self.cpu_units + more_units).saturating_sub(less_units).max(self.work_units);
        self.cpu_ns = (self.cpu_ns + more_ns).saturating_sub(less_ns).max(self.burst_cpu_ns);
        self.burst_since_ns = to_ns;
        self.watched.correct_switch_in(to_ns);
        if let Some(burst) = self.bursts.last_mut() {
            burst.from_ns = to_ns;
        }
        Some(correction)
    }

    /// Sets its name and priority, which may change (exec, nice); the last ones count.
    pub(crate) fn rename(&mut self, name: &TaskName<'_>) {
        if self.name != name.comm && name.comm != UNKNOWN_COMM {
            name.comm.clone_into(&mut self.name);
        }
        self.prio = name.prio.or(self.prio);
    }

    /// It is switched in.
    pub(crate) fn begin_burst(&mut self, at_ns: u64) {
        self.yielded = false;
        let units = self.work_units;
        self.bursts.push(Burst { from_ns: at_ns, until_ns: u64::MAX, from_units: units, until_units: units });
    }

    /// It leaves its CPU. Returns what the next task there does slowly.
    pub(crate) fn end_burst(&mut self, at_ns: u64) -> Cold {
        let cold = self.end_cold();
        self.drop_excess();
        let units = self.work_units;
        if let Some(burst) = self.bursts.last_mut().filter(|burst| burst.until_ns == u64::MAX) {
            (burst.until_ns, burst.until_units) = (at_ns.max(burst.from_ns), units);
        }
        cold
    }

    /// Returns when it was on a CPU, in order: from and until.
    pub(crate) fn on_cpu(&self) -> impl Iterator<Item = (u64, u64)> {
        self.bursts.iter().map(|burst| (burst.from_ns, burst.until_ns))
    }

    /// Returns its work at a time, as if it had been done evenly in each burst; whole nanoseconds inside a burst.
    pub(crate) fn work_at(&self, time_ns: u64) -> u64 {
        let next = self.bursts.partition_point(|burst| burst.from_ns <= time_ns);
        let Some(burst) = next.checked_sub(1).map(|index| &self.bursts[index]) else { return 0 };
        let units = burst.until_units.saturating_sub(burst.from_units);
        let (done_ns, length_ns) =
            (time_ns.min(burst.until_ns) - burst.from_ns, burst.until_ns - burst.from_ns);
        burst.from_units
            + if done_ns == length_ns { units } else { scaled(units, done_ns, length_ns) / UNITS * UNITS }
    }

    /// Returns where it had done that work: inside a burst, before the task leaves its CPU. `None` if no burst has
    /// room.
    pub(crate) fn position_of(&self, units: u64) -> Option<Position> {
        let next = self.bursts.partition_point(|burst| burst.until_units < units);
        let burst = self.bursts.get(next).filter(|burst| burst.from_ns < burst.until_ns)?;
        Some(Position::after(self.time_of(units).min(burst.until_ns - 1)))
    }

    /// Returns when it had done that work: the earliest time.
    pub(crate) fn time_of(&self, units: u64) -> u64 {
        let next = self.bursts.partition_point(|burst| burst.until_units < units);
        let Some(burst) = self.bursts.get(next) else {
            return self.bursts.last().map_or(0, |last| last.until_ns);
        };
        let done = units.saturating_sub(burst.from_units);
        burst.from_ns + scaled(burst.until_ns - burst.from_ns, done, burst.until_units - burst.from_units)
    }

    /// Returns where it left its CPU, in order, except the last time, with its work until then.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (Position, u64)> {
        let all = self.bursts.len().saturating_sub(1);
        self.bursts[..all].iter().map(|burst| (Position::after(burst.until_ns), burst.until_units))
    }

    /// Whether it was on a CPU then.
    pub(crate) fn runs_at(&self, time_ns: u64) -> bool {
        let next = self.bursts.partition_point(|burst| burst.until_ns <= time_ns);
        self.bursts.get(next).is_some_and(|burst| burst.from_ns <= time_ns)
    }

    /// Whether it had run for the first time then, and had not yet run for the last time.
    pub(crate) fn lives_at(&self, time_ns: u64) -> bool {
        self.begun_ns().is_some_and(|begun_ns| begun_ns <= time_ns)
            && self.bursts.last().is_some_and(|last| time_ns < last.until_ns)
    }

    /// When it was put on a CPU for the last time before `time_ns`; 0 if it was not.
    pub(crate) fn last_begun_ns(&self, time_ns: u64) -> u64 {
        let next = self.bursts.partition_point(|burst| burst.from_ns < time_ns);
        next.checked_sub(1).map_or(0, |last| self.bursts[last].from_ns)
    }

    /// When it ran first.
    pub(crate) fn begun_ns(&self) -> Option<u64> {
        self.bursts.first().map(|burst| burst.from_ns)
    }

    /// Takes what was seen of it, with its name.
    pub(crate) fn watched(&mut self) -> (&str, Observed) {
        let observed = std::mem::take(&mut self.watched.observed);
        let (cpu_ns, done_ns, awaited) = (self.cpu_ns, self.ready_ns, self.awaited);
        (&self.name, Observed { tasks: 1, cpu_ns, done_ns, awaited, ..observed })
    }

    /// Whether nothing it did is known yet.
    pub(crate) fn is_before_its_work(&self) -> bool {
        self.work_units == 0 && self.steps.is_empty()
    }

    /// Whether a name, or the beginning of one and `*`, is its own.
    pub(crate) fn is_called(&self, pattern: &str) -> bool {
        fits(pattern, &self.name)
    }

    /// Notes that nothing it left in caches is of use, because it has executed another program.
    pub(crate) fn forget_caches(&mut self) {
        self.runs_on = None;
    }

    /// Notes that it runs on `cpu`. Returns where it ran last, if it left something of use in the caches there.
    pub(crate) fn ran_last_on(&mut self, cpu: u32) -> Option<u32> {
        self.last_cpu.get_or_insert(cpu);
        let from = self.runs_on.replace(cpu);
        let stays = std::mem::take(&mut self.beside_idle);
        self.stayed = if from == Some(cpu) { self.stayed + u32::from(stays) } else { 0 };
        self.ran_on = match self.ran_on {
            RanOn::None => RanOn::One(cpu),
            RanOn::One(other) if other == cpu => RanOn::One(cpu),
            RanOn::One(_) | RanOn::Several => RanOn::Several,
        };
        from
    }

    /// Returns the CPU to which a kernel thread is bound by its name, unless it was seen elsewhere.
    fn bound_cpu(&self, nr_cpus: u32) -> Option<u32> {
        let cpu = kernel::bound_cpu(&self.name).filter(|&cpu| cpu < nr_cpus)?;
        (self.ran_on == RanOn::None || self.ran_on == RanOn::One(cpu)).then_some(cpu)
    }

    /// Puts what is left out in order, each part once. Returns how much work it is, in 1/1024 ns.
    fn order_left_out(&mut self) -> u64 {
        self.left_out.sort_unstable();
        let mut apart: Vec<(u64, u64)> = Vec::with_capacity(self.left_out.len());
        for &(from, to) in &self.left_out {
            let to = to.min(self.work_units);
            let from = apart.last().map_or(from, |&(_, before)| from.max(before));
            if from < to {
                apart.push((from, to));
            }
        }
        self.left_out = apart;
        self.left_out.iter().map(|(from, to)| to - from).sum()
    }

    /// Returns its steps in the order of the recording, with the work between them. `new_index` has the new number of
    /// each task; `open` is true if its sleeps end at recorded times.
    fn program(mut self, new_index: &[TaskIndex], open: bool) -> Vec<Op> {
        self.steps.sort_by_key(|step| step.position);
        // An exit without anything after it is the end of the program.
        let _ = self.steps.pop_if(|last| last.op == Op::BeginExit);
        let mut program = Vec::with_capacity(2 * self.steps.len() + 1);
        let mut done_units = 0;
        let mut left_out = std::mem::take(&mut self.left_out).into_iter().peekable();
        let mut out_units = 0;
        // Parts of a nanosecond are dropped, because the simulator rounds each operation up.
        let mut compute_until = |program: &mut Vec<Op>, at_units: u64| {
            while let Some((from, to)) = left_out.next_if(|&(_, to)| to <= at_units) {
                out_units += to - from;
            }
            let inside_units = left_out.peek().map_or(0, |&(from, _)| at_units.saturating_sub(from));
            let at_units = at_units - out_units - inside_units;
            let work_ns = at_units.saturating_sub(done_units) / UNITS;
            if work_ns > 0 {
                program.push(Op::Compute { work_ns, spread_percent: 0 });
                done_units = at_units;
            }
        };
        let mut slept = self.slept.iter().peekable();
        for step in &self.steps {
            // A gap may have shortened the burst after the step was noted.
            compute_until(&mut program, step.at_units.min(self.work_units));
            program.push(match step.op {
                Op::Fork { task } => Op::Fork { task: new_index[task as usize] },
                // A sleep with an unknown end is not in the list and keeps its length.
                Op::Sleep { source, .. } if open => slept
                    .next_if(|slept| slept.position == step.position)
                    .map_or(step.op, |slept| slept.until(source)),
                op => op,
            });
        }
        compute_until(&mut program, self.work_units);
        program
    }
}

/// Returns the workload of all tasks but those that recorded, and further facts about each. Tasks in `told` come first,
/// by their ids; the others are in the order of their first events.
pub(crate) fn workload(
    name: &str,
    tracked: Vec<Tracked>,
    told: &KnownTasks,
    nr_cpus: u32,
    loops: &mut Loops<'_>,
    explained: &mut Explained,
) -> (Workload, Vec<Recorded>) {
    let mut new_index = vec![0; tracked.len()];
    let is_kept = |(_, task): &(usize, Tracked)| !task.is_recorder;
    let mut tracked: Vec<(usize, Tracked)> = tracked.into_iter().enumerate().filter(is_kept).collect();
    // The sort is stable, so tasks that are not in `told` keep their order.
    tracked.sort_by_key(|(_, task)| if told.get(task.tid).is_some() { (0, task.tid) } else { (1, 0) });
    for (new, (old, _)) in tracked.iter().enumerate() {
        new_index[*old] = new as TaskIndex;
    }
    let mut tasks = Vec::with_capacity(tracked.len());
    let mut recorded = Vec::with_capacity(tracked.len());
    let mut left_out_units = 0;
    for (_, mut task) in tracked {
        left_out_units += task.order_left_out();
        let bound_cpu = task.bound_cpu(nr_cpus);
        let open = loops.open(&task.name, &task.slept);
        recorded.push(Recorded { ended_ns: task.ready_ns, open });
        let known = told.get(task.tid);
        explained.pinned_kernel_threads += u64::from(bound_cpu.is_some());
        explained.realtime_tasks += u64::from(task.prio.is_some_and(kernel::is_realtime));
        tasks.push(Task {
            name: task.name.clone(),
            parent: task.parent.map(|parent| new_index[parent as usize]),
            start_ns: if task.parent.is_some() { 0 } else { task.start_ns },
            process: task.process.unwrap_or(task.tid),
            weight: task.prio.map_or(1024, kernel::weight),
            slice_ns: known.and_then(|known| known.slice_ns),
            allowed: bound_cpu
                .or(task.stays_on)
                .map(|cpu| vec![cpu])
                .or_else(|| known.and_then(|known| known.allowed.as_ref().map(|cpus| cpus.to_vec()))),
            last_cpu: if task.parent.is_some() { None } else { task.last_cpu },
            footprint_bytes: known.map_or(DEFAULT_FOOTPRINT_BYTES, |known| known.footprint_bytes),
            judged: task.judged,
            awaited: task.awaited,
            cut_off: task.state != State::Exited && !task.exit_seen,
            polls: task.polls,
            after_sleep_ns: task.after_sleep_ns,
            group: task.first_group,
            program: task.program(&new_index, open),
        });
    }
    explained.left_out_ns = left_out_units / UNITS;
    let workload = Workload {
        name: name.to_owned(),
        tasks,
        channels: Vec::new(),
        signals: 0,
        gates: 0,
        locks: Vec::new(),
        barriers: Vec::new(),
        groups: Vec::new(),
        end: End::AllExited,
        measure: Measure::Makespan,
    };
    (workload, recorded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpus("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpus("8,2-4,3-5,4,0-99999").map(|cpus| cpus.len()), Some(MAX_CPUS as usize));
        assert_eq!(cpus("8,2-4,3-5,4"), Some(vec![2, 3, 4, 5, 8]));
        assert_eq!((cpus("5000"), cpus("3-2"), cpus("1-"), cpus("")), (None, None, None, None));
    }

    #[test]
    fn a_list_that_repeats_itself_takes_no_more_memory() {
        let text = ["0-4095"; 9000].join(",");
        let all = cpus(&text).expect("all CPUs");
        assert!(all.len() == MAX_CPUS as usize && all.capacity() <= 2 * all.len());
        let mut known = KnownTasks::default();
        for tid in 0..100 {
            known.note(&Told { cpus: Some(&text), ..Told::nothing(tid) });
        }
        assert_eq!((known.by_tid.len(), known.sets.len()), (100, 1));
    }
}
