// SPDX-License-Identifier: GPL-2.0-or-later
//! Programs: what tasks do. Each operation becomes segments, waits and wake-ups.
//!
//! [`Programs::step`] executes one operation, or one stage of it, and returns what the task does next; it changes
//! nothing outside. An operation has stages so that a task can be interrupted, preempted or made to wait inside it and
//! continue where it was. A task that was woken tries its operation again. All tasks that one operation wakes are woken
//! in one kernel path: the waker gives way, and handles interrupts, after the last of them.

mod barrier;
pub(crate) mod channel;
pub(crate) mod deadlock;
mod life;
mod lock;
mod loops;
mod messages;
pub(crate) mod next;
mod polling;
mod quick;
mod rounds;
mod signals;
mod stream;
pub(crate) mod sync;
pub(crate) mod task;
#[cfg(test)]
mod tests;

use wakelab_machine::{Costs, Distances};
use wakelab_workload::{Op, Workload};

use crate::ids::NONE;
use crate::programs::channel::Channel;
use crate::programs::next::{Here, Next};
use crate::programs::quick::Quick;
use crate::programs::sync::{Barrier, Gate, Lock, Signal};
use crate::programs::task::{Stage, Task};
use crate::rng::{Purpose, Stream as Random};
use crate::time_use::TimeKind;

/// All programs, and what they share.
pub(crate) struct Programs<'a> {
    workload: &'a Workload,
    costs: &'a Costs,
    distances: &'a Distances,
    /// The node of each CPU; empty on a machine whose memory has no limits.
    nodes: Vec<u32>,
    tasks: Vec<Task<'a>>,
    /// The programs with loops, one after the other.
    quick: Vec<Quick>,
    /// Whether some task may wait in several channels at once.
    polls: bool,
    channels: Vec<Channel>,
    signals: Vec<Signal>,
    gates: Vec<Gate>,
    locks: Vec<Lock>,
    barriers: Vec<Barrier>,
    /// Made when it is asked for first.
    actors: Option<Box<deadlock::Actors>>,
}

impl<'a> Programs<'a> {
    /// Every task at the beginning of its program.
    pub(crate) fn new(
        workload: &'a Workload,
        costs: &'a Costs,
        distances: &'a Distances,
        nodes: Vec<u32>,
        seed: u64,
    ) -> Programs<'a> {
        let (tasks, quick) = tasks(workload, seed);
        let mut programs = Programs {
            workload,
            costs,
            distances,
            nodes,
            tasks,
            quick,
            polls: workload.tasks.iter().any(|task| task.polls) || polls_by_operation(workload),
            channels: workload.channels.iter().map(|&spec| Channel::new(spec)).collect(),
            signals: vec![Signal::Unset; workload.signals as usize],
            gates: vec![Gate::default(); workload.gates as usize],
            locks: workload.locks.iter().map(|&spec| Lock::new(spec)).collect(),
            barriers: workload.barriers.iter().map(|&spec| Barrier::new(spec)).collect(),
            actors: None,
        };
        programs.find_rounds();
        programs
    }

    /// Executes the operation at the task's program counter, or one stage of it. What tasks do most is inlined into the
    /// only caller, together with the operations on messages, so that its result never goes through memory. The rest is
    /// not, because what it needs would then be prepared at each step.
    #[inline(always)]
    pub(crate) fn step(&mut self, here: &Here) -> Next {
        let task = here.task;
        match self.tasks[task as usize].now {
            Quick::Work { work_ns } => {
                self.advance(task);
                Next::run_ns(TimeKind::Work, work_ns.into())
            }
            Quick::Spread { low_ns, count } => {
                let t = &mut self.tasks[task as usize];
                let work_ns = t.random.from(low_ns.into(), count.into());
                self.advance(task);
                Next::run_ns(TimeKind::Work, work_ns)
            }
            Quick::Send { channel, bytes, work_ns } => self.send(here, channel, bytes, work_ns.into()),
            Quick::Recv { channel, work_ns } => self.receive(here, channel, work_ns.into()),
            Quick::LoopEnd => self.end_loop(task),
            Quick::Count { units } => self.done_with(task, Next::Count { units: units.into() }),
            Quick::Other => self.step_rarer(*here),
        }
    }

    /// The same for all other operations, and after the last one.
    #[inline(never)]
    fn step_rarer(&mut self, here: Here) -> Next {
        let task = here.task;
        let Some(&op) = self.op(task) else {
            let is_cut_off = self.workload.tasks[task as usize].cut_off;
            return if is_cut_off { Next::Gone } else { self.exit(here) };
        };
        match op {
            Op::Compute { work_ns, spread_percent } => self.compute(task, work_ns, spread_percent),
            Op::Send { channel, bytes, work_ns } => self.send(&here, channel, bytes, work_ns),
            Op::Recv { channel, work_ns } => self.receive(&here, channel, work_ns),
            Op::LoopEnd => self.end_loop(task),
            Op::Count { units } => self.done_with(task, Next::Count { units }),
            Op::Poll { first, count, work_ns } => self.poll(task, first..first + count, work_ns),
            Op::WhenReady { channel } => self.when_ready(task, channel),
            Op::Sleep { delay_ns, .. } => self.sleep(task, Some(here.now_ns + delay_ns)),
            Op::SleepUntil { time_ns, .. } => self.sleep(task, Some(time_ns).filter(|&t| t > here.now_ns)),
            Op::Memory { .. } => self.stream(here, op),
            Op::Exec => self.exec(task),
            Op::Lock { lock } => self.lock(here, lock),
            Op::Unlock { lock } => self.unlock(here, lock),
            Op::Barrier { barrier } => self.barrier(here, barrier, true),
            Op::SleepAtBarrier { barrier } => self.barrier(here, barrier, false),
            Op::Fork { task: child } => self.fork(task, child),
            Op::Join => self.join(task),
            Op::Signal { .. } => self.raise(task),
            Op::Wait { signal } => self.wait_for_signal(task, signal),
            Op::OpenGate { gate } => self.open_gate(task, gate),
            Op::WaitGate { gate } => self.wait_at_gate(task, gate),
            Op::LoopBegin { times } => self.begin_loop(task, times),
            Op::LoopShared { barrier, times } => self.loop_shared(here, barrier, times),
            Op::Yield => {
                self.advance(task);
                Next::Yield
            }
            Op::MarkBegin => self.done_with(task, Next::MarkBegin),
            Op::MarkEnd => self.done_with(task, Next::MarkEnd),
            Op::BeginBatch => self.done_with(task, Next::BeginBatch),
            Op::SetShares { group, shares } => self.done_with(task, Next::SetShares { group, shares }),
            Op::MoveTo { group } => self.done_with(task, Next::MoveTo { group }),
            Op::BeginExit => self.begin_exit(task),
            Op::Exit => self.exit(here),
        }
    }

    /// Work that is too long for [`Quick`].
    fn compute(&mut self, task: u32, work_ns: u64, spread_percent: u32) -> Next {
        self.advance(task);
        if spread_percent == 0 {
            return Next::run_ns(TimeKind::Work, work_ns);
        }
        let (low_ns, high_ns) = quick::spread(work_ns, spread_percent);
        let work_ns = self.tasks[task as usize].random.between(low_ns, high_ns);
        Next::run_ns(TimeKind::Work, work_ns)
    }

    /// Sleeps until a time; `None`: the time has passed.
    fn sleep(&mut self, task: u32, until_ns: Option<u64>) -> Next {
        match until_ns {
            Some(until_ns) if self.tasks[task as usize].stage == Stage::Begin => {
                if let Some(leaving) = self.leave(task) {
                    return leaving;
                }
                self.tasks[task as usize].stage = Stage::Middle;
                Next::Sleep { until_ns }
            }
            _ => self.done(task),
        }
    }

    /// The task found nothing and is about to wait. Returns what it must run before it looks again: nothing if it has
    /// just done that, or if going to sleep costs nothing.
    #[inline(always)]
    fn leave(&mut self, task: u32) -> Option<Next> {
        if self.costs.sleep_ns == 0 {
            return None;
        }
        let t = &mut self.tasks[task as usize];
        t.leaving = !t.leaving;
        t.leaving.then(|| Next::run_ns(TimeKind::Switch, self.costs.sleep_ns))
    }

    /// The operation at which the task stands.
    #[inline]
    pub(crate) fn op(&self, task: u32) -> Option<&Op> {
        let t = &self.tasks[task as usize];
        t.program.get(t.pc as usize)
    }

    /// The index of that operation.
    pub(crate) fn pc(&self, task: u32) -> u32 {
        self.tasks[task as usize].pc
    }

    /// A spin of the task runs on `cpu`, or stops running (`NONE`).
    #[inline]
    pub(crate) fn set_spinning(&mut self, task: u32, cpu: u32) {
        self.tasks[task as usize].spins_on = cpu;
    }

    /// Whether a spinning task got what it spins for while it was not running.
    pub(crate) fn spin_is_over(&self, task: u32) -> bool {
        let t = &self.tasks[task as usize];
        t.stage == Stage::Spin
            && match t.program[t.pc as usize] {
                Op::Lock { lock } => self.locks[lock as usize].is_free(),
                Op::Barrier { barrier } => self.barriers[barrier as usize].is_over(t.round),
                _ => false,
            }
    }

    /// The operation is done.
    #[inline(always)]
    fn done(&mut self, task: u32) -> Next {
        self.pass(task);
        Next::Continue
    }

    /// The task stands at the next operation.
    #[inline(always)]
    fn pass(&mut self, task: u32) {
        self.advance(task);
        let t = &mut self.tasks[task as usize];
        (t.stage, t.leaving) = (Stage::Begin, false);
    }

    /// The same, with its stage as it is.
    #[inline(always)]
    fn advance(&mut self, task: u32) {
        let t = &mut self.tasks[task as usize];
        t.stand_at(&self.quick, t.pc + 1);
    }

    /// The operation is done, and the task does `next`.
    #[inline(always)]
    fn done_with(&mut self, task: u32, next: Next) -> Next {
        self.pass(task);
        next
    }
}

/// Every task at the beginning of its program, and the programs with loops in their dense form.
fn tasks(workload: &Workload, seed: u64) -> (Vec<Task<'_>>, Vec<Quick>) {
    let (mut tasks, mut quick) = (Vec::new(), Vec::new());
    // The program of the last task, and where it begins among the dense ones.
    let (mut last, mut begin): (&[Op], u32) = (&[], NONE);
    for (number, (spec, program)) in (0..).zip(workload.tasks.iter().zip(programs(workload))) {
        if !std::ptr::eq(program, last) {
            begin = NONE;
            if quick::repeats(program) {
                begin = quick.len() as u32;
                Quick::append(&mut quick, program);
            }
            last = program;
        }
        let begin = if spec.polls { NONE } else { begin };
        let mut task = Task::new(program, begin, Random::new(seed, Purpose::Compute, number));
        task.stand_at(&quick, 0);
        tasks.push(task);
    }
    (tasks, quick)
}

/// Whether a program has an operation that waits in several channels.
fn polls_by_operation(workload: &Workload) -> bool {
    let is_poll = |op: &Op| matches!(op, Op::Poll { .. });
    workload.tasks.iter().any(|task| task.program.iter().any(is_poll))
}

/// The tasks' programs. Neighbours with equal programs, such as the senders of one group of hackbench, share the first
/// one's, because what is read most should be in a cache only once.
fn programs(workload: &Workload) -> impl Iterator<Item = &[Op]> {
    let mut last: &[Op] = &[];
    workload.tasks.iter().map(move |spec| {
        if spec.program != last {
            last = &spec.program;
        }
        last
    })
}
