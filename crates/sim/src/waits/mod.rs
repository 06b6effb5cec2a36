// SPDX-License-Identifier: GPL-2.0-or-later
//! What tasks wait for: each nanosecond in which a task is runnable and does not run is attributed to one cause.
//!
//! A wait begins when a wake-up or a fork of the task begins, or when the task must give way, and ends when the task is
//! switched in. Its cause at each moment follows from where the task is:
//!
//! - on its way to a queue: the wake-up, or the idle exit of the CPU that was chosen;
//! - in the queue of a CPU: what that CPU does. It runs a task or a system call of it, handles a timer or a tick,
//!   leaves its idle state, or is in schedule() or about to be notified;
//! - in no queue because its group is throttled: the quota.
//!
//! passed.rs adds whose waiting the tasks pay for that are blocked meanwhile.
//!
//! Beside that, *idle elsewhere* is the part of the time behind tasks and interrupts during which a CPU stood idle and
//! unclaimed on which the task may run.
//!
//! Worked example: B is woken at 0, queued at 10, and CPU 3, where it is queued, runs A until 50, handles a tick until
//! 60, runs A until 90, is in schedule() until 95 and switches to B then: 10 ns wake-up, 40 + 30 behind A, 10
//! interrupt, 5 schedule().
//!
//! These books are an observer, so that runs that do not ask for them pay nothing. The checker compares each wait and
//! all sums with the engine's own (`ledger/`). Cost: a change of what a CPU does takes a step for each task in its
//! queue.

mod idle;
mod outcome;
mod passed;

use std::collections::BTreeMap;

use wakelab_policy::{Decision, EnqueueWhy, WAKE_IRQ};

use crate::observer::{Activity, Observer, WaitSums};
use crate::scenario::Scenario;
use crate::waits::idle::IdleTimes;
pub use crate::waits::outcome::{Cause, NameWaits, Passed, Placed, Wait, Waits, Who};
use crate::waits::passed::{End, Notes, Was};

/// Where a task is that waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It does not wait.
    Nowhere,
    /// Woken, or just put back, and not queued; on its way to this CPU, if that is known.
    OnItsWay(Option<u32>),
    Queued(u32),
    /// Its group is throttled.
    Parked,
}

/// One task.
struct Waiting {
    place: Place,
    /// What it does if it does not wait.
    other: Was,
    /// Since when it is blocked, if it is.
    blocked_since_ns: u64,
    since_ns: u64,
    /// The time up to which the wait is attributed to causes.
    until_ns: u64,
    causes: Vec<(Cause, u64)>,
    /// The same time, by the clock of idle CPUs.
    idle_until_ns: u64,
    idle_elsewhere_ns: u64,
    woken_by: Option<u32>,
    placed: Option<Placed>,
}

/// The sums of the tasks of one name.
#[derive(Clone, Default)]
struct Sums {
    waits: u64,
    sum_ns: u64,
    idle_elsewhere_ns: u64,
    causes: BTreeMap<Cause, u64>,
}

/// One CPU.
struct Cpu {
    does: Activity,
    /// Tasks that wait for it: in its queue, or on their way.
    tasks: Vec<u32>,
}

/// The books of a run.
pub(crate) struct Books {
    who: Vec<Who>,
    /// The number of each task's name in `who`.
    who_of: Vec<u32>,
    tasks: Vec<Waiting>,
    cpus: Vec<Cpu>,
    idle: IdleTimes,
    sums: Vec<Sums>,
    all_waits: u64,
    all_ns: u64,
    longest_max: usize,
    longest: Vec<Wait>,
    notes: Notes,
    /// When the measured part began.
    begin_ns: u64,
    /// How long judged tasks were blocked until they were woken.
    blocked_ns: u64,
    passed: Passed,
    failure: Option<String>,
}

impl Cpu {
    /// What those wait for that are in its queue.
    fn cause(&self, who_of: &[u32]) -> Cause {
        match self.does {
            Activity::Task(other) => Cause::Behind(who_of[other as usize]),
            Activity::Interrupt => Cause::Interrupt,
            Activity::IdleExit => Cause::IdleExit,
            Activity::Idle | Activity::Ipi | Activity::Schedule | Activity::Path(_) => Cause::Schedule,
        }
    }
}

impl Waiting {
    /// What it does.
    fn was(&self) -> Was {
        match self.place {
            Place::Nowhere => self.other,
            Place::OnItsWay(None) => Was::Waits(Cause::WakeUp),
            Place::OnItsWay(Some(cpu)) => Was::ComesTo(cpu),
            Place::Queued(cpu) => Was::Queued(cpu),
            Place::Parked => Was::Waits(Cause::Throttled),
        }
    }
}

impl Books {
    pub(crate) fn new(scenario: &Scenario, longest_max: usize) -> Books {
        let tasks = &scenario.workload.tasks;
        let all = !tasks.iter().any(|task| task.judged);
        let mut known: BTreeMap<(&str, bool), u32> = BTreeMap::new();
        let (mut who, mut who_of) = (Vec::new(), Vec::with_capacity(tasks.len()));
        for task in tasks {
            let judged = all || task.judged;
            who_of.push(*known.entry((&task.name, judged)).or_insert_with(|| {
                who.push(Who { name: task.name.clone(), judged });
                who.len() as u32 - 1
            }));
        }
        let waiting = || Waiting {
            place: Place::Nowhere,
            other: Was::Unborn,
            blocked_since_ns: 0,
            since_ns: 0,
            until_ns: 0,
            causes: Vec::new(),
            idle_until_ns: 0,
            idle_elsewhere_ns: 0,
            woken_by: None,
            placed: None,
        };
        let nr_cpus = scenario.machine.topology.nr_cpus();
        let cpu = || Cpu { does: Activity::Idle, tasks: Vec::new() };
        Books {
            sums: vec![Sums::default(); who.len()],
            who,
            who_of,
            tasks: tasks.iter().map(|_| waiting()).collect(),
            cpus: (0..nr_cpus).map(|_| cpu()).collect(),
            idle: IdleTimes::new(nr_cpus, tasks.iter().map(|task| task.allowed.as_deref())),
            all_waits: 0,
            all_ns: 0,
            longest_max,
            longest: Vec::new(),
            notes: Notes::default(),
            begin_ns: 0,
            blocked_ns: 0,
            passed: Passed::default(),
            failure: None,
        }
    }

    /// Returns what the books say at the end.
    pub(crate) fn waits(self) -> Waits {
        let all = self.sums.into_iter().enumerate();
        let of_name = |(who, sums): (usize, Sums)| NameWaits {
            who: who as u32,
            waits: sums.waits,
            sum_ns: sums.sum_ns,
            idle_elsewhere_ns: sums.idle_elsewhere_ns,
            causes: sums.causes.into_iter().collect(),
        };
        let by_name = all.filter(|(who, _)| self.who[*who].judged).map(of_name).collect();
        Waits { by_name, longest: self.longest, passed: self.passed, who: self.who }
    }

    /// Attributes the time of a task's wait until now to its cause.
    fn account(&mut self, task: u32, now_ns: u64) {
        let t = &mut self.tasks[task as usize];
        let passed_ns = now_ns - std::mem::replace(&mut t.until_ns, now_ns);
        if passed_ns == 0 {
            return;
        }
        let idle_ns = self.idle.time_ns(task, now_ns);
        let idle_passed_ns = idle_ns - std::mem::replace(&mut t.idle_until_ns, idle_ns);
        let cpus = &self.cpus;
        let cause = match t.place {
            Place::Nowhere => return,
            Place::Parked => Cause::Throttled,
            Place::OnItsWay(Some(cpu)) if cpus[cpu as usize].does == Activity::IdleExit => Cause::IdleExit,
            Place::OnItsWay(_) => Cause::WakeUp,
            Place::Queued(cpu) => cpus[cpu as usize].cause(&self.who_of),
        };
        if let Cause::Behind(_) | Cause::Interrupt = cause {
            t.idle_elsewhere_ns += idle_passed_ns;
        }
        match t.causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, ns)) => *ns += passed_ns,
            None => t.causes.push((cause, passed_ns)),
        }
    }

    /// The task, whose wait is accounted until now, goes elsewhere.
    fn go(&mut self, now_ns: u64, task: u32, to: Place) {
        let t = &mut self.tasks[task as usize];
        self.notes.push(now_ns, task, t.was());
        let from = std::mem::replace(&mut t.place, to);
        let cpu_of = |place| match place {
            Place::Queued(cpu) | Place::OnItsWay(Some(cpu)) => Some(cpu as usize),
            _ => None,
        };
        if let Some(cpu) = cpu_of(from) {
            self.cpus[cpu].tasks.retain(|&other| other != task);
            // What it does while nobody waits for it is not noted.
            if self.cpus[cpu].tasks.is_empty() {
                let cause = self.cpus[cpu].cause(&self.who_of);
                self.notes.push(now_ns, cpu as u32, Was::Does(cause));
            }
        }
        if let Some(cpu) = cpu_of(to) {
            self.cpus[cpu].tasks.push(task);
        }
    }

    /// Returns whose waiting the blocked tasks paid for.
    fn passed_on(&mut self) -> Result<Passed, String> {
        let state = |task: &Waiting| if task.was() == Was::Outside { Was::Away } else { task.was() };
        let end = End {
            tasks: self.tasks.iter().map(state).collect(),
            cpus: self.cpus.iter().map(|cpu| cpu.cause(&self.who_of)).collect(),
            who_of: &self.who_of,
            judged: self.who.iter().map(|who| who.judged).collect(),
        };
        let passed = std::mem::take(&mut self.notes).passed(end)?;
        let (blocked_ns, sum_ns) = (self.blocked_ns, passed.blocked_ns());
        if blocked_ns != sum_ns {
            return Err(format!(
                "tasks were blocked for {blocked_ns} ns, and what others did meanwhile adds up to {sum_ns} ns"
            ));
        }
        Ok(passed)
    }

    /// Keeps the wait if it is one of the longest; of waits of one length, those that ended first.
    fn keep_longest(&mut self, task: u32, cpu: u32, waited_ns: u64) {
        let at = self.longest.partition_point(|other| other.waited_ns >= waited_ns);
        if at >= self.longest_max {
            return;
        }
        let t = &self.tasks[task as usize];
        let mut causes = t.causes.clone();
        causes.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        self.longest.truncate(self.longest_max - 1);
        let wait = Wait {
            task,
            who: self.who_of[task as usize],
            since_ns: t.since_ns,
            waited_ns,
            cpu,
            causes,
            idle_elsewhere_ns: t.idle_elsewhere_ns,
            woken_by: t.woken_by,
            placed: t.placed.clone(),
        };
        self.longest.insert(at, wait);
    }
}

impl Observer for Books {
    fn wait(&mut self, now_ns: u64, task: u32) {
        let t = &mut self.tasks[task as usize];
        (t.since_ns, t.until_ns) = (now_ns, now_ns);
        t.idle_until_ns = self.idle.time_ns(task, now_ns);
        t.causes.clear();
        t.idle_elsewhere_ns = 0;
        t.woken_by = None;
        t.placed = None;
        self.go(now_ns, task, Place::OnItsWay(None));
    }

    fn wake(&mut self, now_ns: u64, _cpu: u32, waker: Option<u32>, wakee: u32, flags: u32) {
        let t = &mut self.tasks[wakee as usize];
        t.woken_by = waker.map(|waker| self.who_of[waker as usize]);
        if self.who[self.who_of[wakee as usize] as usize].judged {
            self.blocked_ns += now_ns - t.blocked_since_ns.max(self.begin_ns);
        }
        // The task that an interrupt finds running has nothing to do with what the interrupt wakes.
        if let Some(waker) = waker.filter(|_| flags & WAKE_IRQ == 0) {
            self.notes.woken_by(waker);
        }
    }

    fn fork(&mut self, _now_ns: u64, _cpu: u32, parent: u32, child: u32) {
        self.tasks[child as usize].other = Was::ChildOf(parent);
    }

    fn stopped(&mut self, now_ns: u64, _cpu: u32, task: u32, _ran_ns: u64) {
        self.notes.push(now_ns, task, Was::Runs);
        let t = &mut self.tasks[task as usize];
        t.other = Was::Outside;
        t.blocked_since_ns = now_ns;
    }

    fn decision(&mut self, now_ns: u64, this_cpu: u32, wakee: u32, decision: &Decision) {
        // An exec asks where a task that runs should go on; that is no wait yet.
        if self.tasks[wakee as usize].place == Place::Nowhere {
            return;
        }
        if self.longest_max > 0 {
            self.tasks[wakee as usize].placed = Some(Placed {
                by_cpu: this_cpu,
                cpu: decision.cpu as u32,
                reason: decision.reason().name(),
                reads: decision.reads.at.iter().map(|&reads| u64::from(reads)).sum(),
                idle: self.idle.idle_cpus(),
            });
        }
        self.account(wakee, now_ns);
        if (decision.cpu as usize) < self.cpus.len() {
            self.go(now_ns, wakee, Place::OnItsWay(Some(decision.cpu as u32)));
        }
    }

    fn enqueue(&mut self, now_ns: u64, cpu: u32, task: u32, _why: EnqueueWhy) {
        self.account(task, now_ns);
        self.go(now_ns, task, Place::Queued(cpu));
    }

    fn migrate(&mut self, now_ns: u64, task: u32, _from: u32, to: u32) {
        // An exec moves a task before it is queued.
        if let Place::Queued(_) = self.tasks[task as usize].place {
            self.account(task, now_ns);
            self.go(now_ns, task, Place::Queued(to));
        }
    }

    fn park(&mut self, now_ns: u64, _cpu: u32, task: u32) {
        self.account(task, now_ns);
        self.go(now_ns, task, Place::Parked);
    }

    fn keep(&mut self, now_ns: u64, _cpu: u32, task: u32) {
        self.go(now_ns, task, Place::Nowhere);
        self.tasks[task as usize].other = Was::Runs;
    }

    fn waited(&mut self, now_ns: u64, cpu: u32, task: u32, waited_ns: u64) {
        self.account(task, now_ns);
        self.go(now_ns, task, Place::Nowhere);
        let t = &mut self.tasks[task as usize];
        t.other = Was::Runs;
        let by_cause_ns: u64 = t.causes.iter().map(|(_, ns)| ns).sum();
        if by_cause_ns != waited_ns {
            self.failure.get_or_insert_with(|| {
                format!("task {task} waited for {waited_ns} ns, and its causes add up to {by_cause_ns} ns")
            });
        }
        self.all_waits += 1;
        self.all_ns += by_cause_ns;
        let who = self.who_of[task as usize] as usize;
        let sums = &mut self.sums[who];
        sums.waits += 1;
        sums.sum_ns += by_cause_ns;
        sums.idle_elsewhere_ns += t.idle_elsewhere_ns;
        for &(cause, ns) in &t.causes {
            *sums.causes.entry(cause).or_default() += ns;
        }
        if self.who[who].judged {
            self.keep_longest(task, cpu, waited_ns);
        }
    }

    fn idle_bit(&mut self, now_ns: u64, cpu: u32, idle: bool) {
        self.idle.set(cpu, idle, now_ns);
    }

    fn begin(&mut self, now_ns: u64) {
        self.notes.begin(now_ns);
        (self.begin_ns, self.blocked_ns) = (now_ns, 0);
        self.sums.fill(Sums::default());
        self.longest.clear();
    }

    fn watches_activity(&self) -> bool {
        true
    }

    fn activity(&mut self, now_ns: u64, cpu: u32, activity: Activity) {
        let was = self.cpus[cpu as usize].does;
        let does = match (activity, was) {
            (Activity::Path(_), Activity::Interrupt | Activity::Ipi) => was,
            (Activity::Path(curr), _) => curr.map_or(Activity::Schedule, Activity::Task),
            _ => activity,
        };
        if does == was {
            return;
        }
        let c = &self.cpus[cpu as usize];
        if !c.tasks.is_empty() {
            self.notes.push(now_ns, cpu, Was::Does(c.cause(&self.who_of)));
        }
        for at in 0..self.cpus[cpu as usize].tasks.len() {
            self.account(self.cpus[cpu as usize].tasks[at], now_ns);
        }
        self.cpus[cpu as usize].does = does;
    }

    fn check(&mut self, sums: &WaitSums) -> Option<String> {
        if let Some(failure) = self.failure.take() {
            return Some(failure);
        }
        match self.passed_on() {
            Ok(passed) => self.passed = passed,
            Err(what) => return Some(what),
        }
        let (waits, sum_ns) = (self.all_waits, self.all_ns);
        if (waits, sum_ns) != (sums.waits, sums.sum_ns) {
            let (own, own_ns) = (sums.waits, sums.sum_ns);
            return Some(format!(
                "{own} waits took {own_ns} ns, and the causes of {waits} add up to {sum_ns} ns"
            ));
        }
        let of = |name: &str| self.who.iter().position(|who| who.judged && who.name == name);
        sums.by_name.iter().find_map(|(name, waits, sum_ns)| {
            let own = of(name).map(|who| &self.sums[who]);
            let is_same = own.is_some_and(|own| (own.waits, own.sum_ns) == (*waits, *sum_ns));
            (!is_same).then(|| format!("the waits of {name} and their causes do not add up to the same"))
        })
    }
}
