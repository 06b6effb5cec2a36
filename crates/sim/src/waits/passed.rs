// SPDX-License-Identifier: GPL-2.0-or-later
//! Whose waiting a blocked task pays for: waits along who waits for whom.
//!
//! A task that is blocked loses no time to the scheduler by itself, but the task that will wake it may. So each
//! instant in which a judged task A is blocked is attributed like this: follow A to the task that ends its
//! blocking, and from there, as long as that one is blocked at this instant too, to the task that ends that. The
//! last task of this chain is not blocked at this instant, and the instant is charged
//!
//! - to *work*, if that task runs;
//! - to its *waiting*, if it is runnable and does not run: by its name, and by the cause of its wait (mod.rs);
//! - to *outside*, if the chain ends in a sleep that a timer or a device ends, or in a task that has not begun.
//!
//! A task that its parent makes in this time leads to its parent before. Every nanosecond of blocking is charged
//! exactly once, so that the three add up to the time for which judged tasks were blocked until they were woken.
//! Two tasks that are blocked for one pay both. A chain has no circle: a task that wakes another one runs then, and
//! so was woken earlier.
//!
//! Worked example: A asks B at 0 and is blocked until B answers at 90. B, which was woken at 0, waits behind C
//! until 30, runs until 40, and asks D, which waits for an idle exit until 55, runs until 70 and answers; B runs
//! until 90 and answers. Of the 90 ns of A, 30 are waiting of B behind C, 15 are waiting of D for an idle exit, and
//! 45 are work. The waiting of D before 40, if it had any, would not count: B was not ready for its answer then.
//!
//! Who will wake a task is not known before it happens. So all changes are noted, and at the end of the run a sweep
//! goes back in time. It keeps, for each task, how many blocked judged tasks lead to it. Cost: a note of 24 bytes
//! for each change of a task, and for each change of a CPU for which tasks wait; in the sweep, for each time that a
//! task blocks and is woken, a step for each link of its chain.

use crate::waits::outcome::{Cause, Passed};

/// What a task or a CPU did up to a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    /// The task has ended, or is never woken again.
    Away,
    /// It has not begun; the workload begins it, or this task does.
    Unborn,
    ChildOf(u32),
    /// It is blocked until a timer or a device wakes it, or until this task does.
    Outside,
    Until(u32),
    Runs,
    /// It waits, and is in no queue; for this cause.
    Waits(Cause),
    /// It waits on its way to this CPU.
    ComesTo(u32),
    /// It waits in the queue of this CPU.
    Queued(u32),
    /// What tasks in the CPU's queue wait for.
    Does(Cause),
}

/// A change of a task, or of a CPU.
#[derive(Clone, Copy)]
struct Note {
    time_ns: u64,
    /// The task, or the CPU.
    subject: u32,
    was: Was,
}

/// All changes of a run, in order.
#[derive(Default)]
pub(crate) struct Notes {
    all: Vec<Note>,
    begin_ns: u64,
}

impl Notes {
    /// The measured part begins: what was before does not count.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.all.clear();
        self.begin_ns = now_ns;
    }

    /// Notes what a task or a CPU did until now.
    pub(crate) fn push(&mut self, time_ns: u64, subject: u32, was: Was) {
        self.all.push(Note { time_ns, subject, was });
    }

    /// The task that was just noted to become runnable is woken by another one.
    pub(crate) fn woken_by(&mut self, waker: u32) {
        if let Some(Note { was, .. }) = self.all.last_mut()
            && *was == Was::Outside
        {
            *was = Was::Until(waker);
        }
    }
}

#[derive(Clone, Copy)]
struct Task {
    state: Was,
    /// The number of blocked judged tasks that lead here; with itself, if it is one.
    count: u64,
    /// Accounted down to here.
    since_ns: u64,
}

#[derive(Clone, Copy)]
struct Cpu {
    does: Cause,
    /// The sums of the counts of tasks on their way, and in the queue.
    coming: u64,
    queued: u64,
    since_ns: u64,
}

/// What is known at the end of a run.
pub(crate) struct End<'a> {
    /// The states of all tasks.
    pub(crate) tasks: Vec<Was>,
    /// What tasks in the queues of all CPUs wait for.
    pub(crate) cpus: Vec<Cause>,
    /// The number of each task's name.
    pub(crate) who_of: &'a [u32],
    /// Whether a name's tasks are judged.
    pub(crate) judged: Vec<bool>,
}

/// The sweep back in time.
struct Sweep<'a> {
    now_ns: u64,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    who_of: &'a [u32],
    judged: Vec<bool>,
    work_ns: u64,
    outside_ns: u64,
    by_who_ns: Vec<u64>,
    by_cause_ns: [u64; 5],
    behind_ns: Vec<u64>,
    /// A chain was longer than there are tasks.
    circle: bool,
}

/// Causes that are no task, in the order of the sweep's sums.
const CAUSES: [Cause; 5] =
    [Cause::Interrupt, Cause::IdleExit, Cause::Throttled, Cause::WakeUp, Cause::Schedule];

impl Notes {
    /// Attributes all blocking of judged tasks.
    ///
    /// # Errors
    /// What does not add up.
    pub(crate) fn passed(self, end: End<'_>) -> Result<Passed, String> {
        let End { tasks, cpus, who_of, judged } = end;
        // Later, no chain leads anywhere.
        let now_ns = self.all.last().map_or(self.begin_ns, |note| note.time_ns);
        let mut sweep = Sweep {
            now_ns,
            tasks: tasks.iter().map(|&state| Task { state, count: 0, since_ns: now_ns }).collect(),
            cpus: cpus.iter().map(|&does| Cpu { does, coming: 0, queued: 0, since_ns: now_ns }).collect(),
            who_of,
            work_ns: 0,
            outside_ns: 0,
            by_who_ns: vec![0; judged.len()],
            by_cause_ns: [0; 5],
            behind_ns: vec![0; judged.len()],
            judged,
            circle: false,
        };
        for note in self.all.iter().rev() {
            sweep.now_ns = note.time_ns;
            match note.was {
                Was::Does(cause) => {
                    sweep.settle_cpu(note.subject);
                    sweep.cpus[note.subject as usize].does = cause;
                }
                was => sweep.change(note.subject, was),
            }
        }
        sweep.now_ns = self.begin_ns;
        (0..sweep.tasks.len() as u32).for_each(|task| sweep.settle(task));
        (0..sweep.cpus.len() as u32).for_each(|cpu| sweep.settle_cpu(cpu));
        sweep.finish()
    }
}

impl Sweep<'_> {
    /// Before now, the task was in this state.
    fn change(&mut self, task: u32, was: Was) {
        let own = u64::from(self.judged[self.who_of[task as usize] as usize]);
        self.settle(task);
        let count = self.tasks[task as usize].count;
        self.lead(task, count, 0);
        let Task { state, count, .. } = &mut self.tasks[task as usize];
        *count -= if is_blocked(*state) { own } else { 0 };
        *state = was;
        *count += if is_blocked(was) { own } else { 0 };
        let count = *count;
        self.lead(task, 0, count);
    }

    /// What the task leads to has this count of it, instead of another.
    fn lead(&mut self, task: u32, from: u64, to: u64) {
        if from == to {
            return;
        }
        let mut at = task;
        for _ in 0..=self.tasks.len() {
            match self.tasks[at as usize].state {
                Was::Until(next) | Was::ChildOf(next) => at = next,
                Was::ComesTo(cpu) => {
                    self.settle_cpu(cpu);
                    let coming = &mut self.cpus[cpu as usize].coming;
                    return *coming = *coming + to - from;
                }
                Was::Queued(cpu) => {
                    self.settle_cpu(cpu);
                    let queued = &mut self.cpus[cpu as usize].queued;
                    return *queued = *queued + to - from;
                }
                _ => return,
            }
            self.settle(at);
            let count = &mut self.tasks[at as usize].count;
            *count = *count + to - from;
        }
        self.circle = true;
    }

    /// Charges what leads to a task, down to now.
    fn settle(&mut self, task: u32) {
        let t = &mut self.tasks[task as usize];
        let ns = (std::mem::replace(&mut t.since_ns, self.now_ns) - self.now_ns) * t.count;
        match t.state {
            Was::Away | Was::ChildOf(_) | Was::Until(_) | Was::Does(_) => {}
            Was::Unborn | Was::Outside => self.outside_ns += ns,
            Was::Runs => self.work_ns += ns,
            Was::ComesTo(_) | Was::Queued(_) => self.by_who_ns[self.who_of[task as usize] as usize] += ns,
            Was::Waits(cause) => {
                self.by_who_ns[self.who_of[task as usize] as usize] += ns;
                self.charge(cause, ns);
            }
        }
    }

    /// Charges what leads to tasks that wait for a CPU, down to now.
    fn settle_cpu(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        let ns = std::mem::replace(&mut c.since_ns, self.now_ns) - self.now_ns;
        let Cpu { does, coming, queued, .. } = *c;
        self.charge(does, queued * ns);
        self.charge(if does == Cause::IdleExit { does } else { Cause::WakeUp }, coming * ns);
    }

    fn charge(&mut self, cause: Cause, ns: u64) {
        match cause {
            Cause::Behind(who) => self.behind_ns[who as usize] += ns,
            other => {
                let at = CAUSES.iter().position(|known| *known == other).expect("all others are in it");
                self.by_cause_ns[at] += ns;
            }
        }
    }

    fn finish(self) -> Result<Passed, String> {
        let waiting_ns = self.by_who_ns.iter().sum();
        let behind = (0..).map(Cause::Behind).zip(self.behind_ns);
        let causes = behind.chain(CAUSES.into_iter().zip(self.by_cause_ns));
        let by_who = (0..).zip(self.by_who_ns).filter(|(_, ns)| *ns > 0).collect();
        let causes: Vec<(Cause, u64)> = causes.filter(|(_, ns)| *ns > 0).collect();
        let by_cause_ns: u64 = causes.iter().map(|(_, ns)| ns).sum();
        if self.circle {
            return Err("tasks that wait for each other's wake-ups lead in a circle".to_owned());
        }
        if by_cause_ns != waiting_ns {
            return Err(format!(
                "blocked tasks led to waits of {waiting_ns} ns, and their causes add up to {by_cause_ns} ns"
            ));
        }
        Ok(Passed { work_ns: self.work_ns, outside_ns: self.outside_ns, waiting_ns, by_who, causes })
    }
}

/// Whether a task in this state waits to be woken, and will be.
fn is_blocked(state: Was) -> bool {
    matches!(state, Was::Outside | Was::Until(_))
}
