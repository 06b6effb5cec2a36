// SPDX-License-Identifier: GPL-2.0-or-later
//! What a simulated run looks like from a kernel's trace points: puts what an observer sees into the order and the form
//! of kernel events, and passes them to a [`Sink`], which writes a format or collects them.
//!
//! A simulated task may already run elsewhere while the CPU that it left still looks for another one. In the events,
//! that CPU is idle meanwhile, so that no task runs on two CPUs. Task n of the workload has the id n + 1 in every
//! format, because 0 is the idle task. A task without parent begins with a wake-up by a timer.

use std::io;

use wakelab_machine::Distance;
use wakelab_workload::{Source, TaskIndex, Workload};

use crate::kernel::prio_of_weight;

/// How a task leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It was preempted, or it yielded.
    Runnable,
    /// It waits for a wake-up.
    Blocked,
    /// It has ended.
    Exited,
}

/// Where and when something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Time since the begin of the run.
    pub time_ns: u64,
    /// The CPU where it happens.
    pub cpu: u32,
    /// The current task there; `None` is the idle task.
    pub current: Option<TaskIndex>,
    /// It happens in an interrupt, or is one.
    pub in_interrupt: bool,
}

/// A CPU that the policy chose, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The CPU.
    pub cpu: u32,
    /// The reason, as the policy names it.
    pub reason: &'static str,
    /// Why the search began where it did.
    pub affine_reason: &'static str,
    /// Where the search began; `None` if there was no search.
    pub target: Option<u32>,
    /// The number of times that other CPUs' state was read, by distance.
    pub reads: [u32; Distance::COUNT],
    /// Idle CPUs that another wake-up claimed first.
    pub lost_claims: u32,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum KernelEvent<'a> {
    /// The run begins.
    Begin,
    /// The run ends.
    End,
    /// Another task is current from now on; `None` is the idle task.
    Switch {
        /// The task that was current, and how it leaves.
        prev: Option<(TaskIndex, Left)>,
        /// The one that is.
        next: Option<TaskIndex>,
    },
    /// A wake-up begins.
    Waking {
        /// The task that is woken.
        task: TaskIndex,
        /// The CPU where it is or ran last.
        last_cpu: u32,
        /// The waker says that it is about to wait.
        sync: bool,
    },
    /// The policy chose a CPU for a task.
    Decision {
        /// The task.
        task: TaskIndex,
        /// The answer.
        choice: &'a Choice,
    },
    /// A wake-up is done: the task is queued on `cpu`.
    Wakeup {
        /// The task.
        task: TaskIndex,
        /// Where it is queued.
        cpu: u32,
        /// It was forked and is queued for the first time.
        is_new: bool,
    },
    /// A timer or device interrupts.
    Interrupt {
        /// Its kind.
        source: Source,
        /// It begins; otherwise it ends.
        enters: bool,
    },
    /// A task has used the CPU and will be switched out.
    Runtime {
        /// The task.
        task: TaskIndex,
        /// CPU time since its switch-in.
        ran_ns: u64,
    },
    /// A task creates another one.
    Fork {
        /// The one that is current.
        parent: TaskIndex,
        /// The new one.
        child: TaskIndex,
    },
    /// The current task executes another program.
    Exec {
        /// The task.
        task: TaskIndex,
    },
    /// The current task exits.
    Exit {
        /// The task.
        task: TaskIndex,
    },
    /// A queued task moves.
    Migrate {
        /// The task.
        task: TaskIndex,
        /// The CPU that it leaves.
        from: u32,
        /// Its new CPU.
        to: u32,
    },
}

/// Takes the events of a run, in the order of time.
pub trait Sink {
    /// What is left at the end.
    type Out;
    /// Takes an event.
    fn event(&mut self, at: At, event: KernelEvent<'_>);
    /// Ends.
    ///
    /// # Errors
    /// The first error of any write.
    fn finish(self) -> io::Result<Self::Out>;
}

/// What events tell about a task beside its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name, without control characters.
    pub comm: String,
    /// The number of its process.
    pub process: u32,
    /// Its priority as the kernel has it: 120 at nice 0.
    pub prio: i32,
}

impl Named {
    /// Returns what events tell about each task of a workload.
    pub fn all(workload: &Workload) -> Vec<Named> {
        let named = |task: &wakelab_workload::Task| Named {
            comm: task.name.chars().map(|c| if c.is_control() { '?' } else { c }).collect(),
            process: task.process,
            prio: prio_of_weight(task.weight),
        };
        workload.tasks.iter().map(named).collect()
    }
}

#[derive(Clone, Copy, Default)]
struct Task {
    /// The CPU where it is or ran last.
    cpu: u32,
    /// It is the current task there.
    runs: bool,
    /// It was woken since its switch-in.
    woken: bool,
}

/// Passes events on as they happen, in the order of time. CPUs and tasks have the numbers of the machine and the
/// workload.
pub struct KernelEvents<S> {
    sink: S,
    tasks: Vec<Task>,
    /// The current task of each CPU; `None` is the idle task.
    current: Vec<Option<TaskIndex>>,
    /// The source of the interrupt that each CPU is in.
    interrupted: Vec<Option<Source>>,
    /// A switch-out that waits for its switch-in: its time, CPU, task and kind.
    left: Option<(u64, u32, TaskIndex, Left)>,
}

impl<S: Sink> KernelEvents<S> {
    /// Begins a run of `workload` at time 0.
    pub fn new(sink: S, workload: &Workload, nr_cpus: u32) -> Self {
        let task =
            |task: &wakelab_workload::Task| Task { cpu: task.last_cpu.unwrap_or(0), ..Task::default() };
        let mut events = KernelEvents {
            sink,
            tasks: workload.tasks.iter().map(task).collect(),
            current: vec![None; nr_cpus as usize],
            interrupted: vec![None; nr_cpus as usize],
            left: None,
        };
        events.pass(0, 0, false, KernelEvent::Begin);
        events
    }

    /// A task without parent becomes runnable for the first time.
    pub fn start(&mut self, time_ns: u64, task: TaskIndex) {
        self.settle();
        let cpu = self.tasks[task as usize].cpu;
        let outer = self.interrupted[cpu as usize].replace(Source::Timer);
        self.bracket(time_ns, cpu, Source::Timer, true);
        self.wake(time_ns, cpu, task, false);
        self.bracket(time_ns, cpu, Source::Timer, false);
        self.interrupted[cpu as usize] = outer;
    }

    /// An interrupt begins on `cpu`. It is the waker of all tasks that are woken there until its end.
    pub fn interrupt_enter(&mut self, time_ns: u64, cpu: u32, source: Source) {
        self.settle();
        self.interrupted[cpu as usize] = Some(source);
        self.bracket(time_ns, cpu, source, true);
    }

    /// The interrupt on `cpu` ends.
    pub fn interrupt_exit(&mut self, time_ns: u64, cpu: u32) {
        self.settle();
        if let Some(source) = self.interrupted[cpu as usize] {
            self.bracket(time_ns, cpu, source, false);
        }
        self.interrupted[cpu as usize] = None;
    }

    fn bracket(&mut self, time_ns: u64, cpu: u32, source: Source, enters: bool) {
        self.pass(time_ns, cpu, true, KernelEvent::Interrupt { source, enters });
    }

    /// A wake-up begins on `cpu`, by its current task or by the interrupt that it is in. `sync` is true if the waker
    /// says that it is about to wait.
    pub fn wake(&mut self, time_ns: u64, cpu: u32, wakee: TaskIndex, sync: bool) {
        self.settle();
        let task = &mut self.tasks[wakee as usize];
        task.woken = true;
        let waking = KernelEvent::Waking { task: wakee, last_cpu: task.cpu, sync };
        self.pass(time_ns, cpu, self.is_interrupted(cpu), waking);
    }

    /// The policy, asked by `cpu`, chose a CPU for `task`.
    pub fn decision(&mut self, time_ns: u64, cpu: u32, task: TaskIndex, choice: &Choice) {
        self.settle();
        self.pass(time_ns, cpu, self.is_interrupted(cpu), KernelEvent::Decision { task, choice });
    }

    /// A wake-up is done by `by_cpu`: the task is queued on `cpu`.
    pub fn wakeup(&mut self, time_ns: u64, by_cpu: u32, cpu: u32, task: TaskIndex) {
        self.settle();
        let wakeup = KernelEvent::Wakeup { task, cpu, is_new: false };
        self.pass(time_ns, by_cpu, self.is_interrupted(by_cpu), wakeup);
    }

    /// A forked task is queued on `cpu`; its parent runs on `parent_cpu`.
    pub fn wakeup_new(&mut self, time_ns: u64, parent_cpu: u32, cpu: u32, task: TaskIndex) {
        self.tasks[task as usize].cpu = cpu;
        self.settle();
        let wakeup = KernelEvent::Wakeup { task, cpu, is_new: true };
        self.pass(time_ns, parent_cpu, self.is_interrupted(parent_cpu), wakeup);
    }

    fn is_interrupted(&self, cpu: u32) -> bool {
        self.interrupted[cpu as usize].is_some()
    }

    /// `task` has used `cpu` for `ran_ns` since its switch-in and will be switched out. The time until then is the
    /// scheduler's.
    pub fn stopped(&mut self, time_ns: u64, cpu: u32, task: TaskIndex, ran_ns: u64) {
        self.settle();
        self.pass(time_ns, cpu, false, KernelEvent::Runtime { task, ran_ns });
    }

    /// `parent`, current on `cpu`, forks `child`.
    pub fn fork(&mut self, time_ns: u64, cpu: u32, parent: TaskIndex, child: TaskIndex) {
        self.settle();
        self.tasks[child as usize].cpu = cpu;
        self.pass(time_ns, cpu, false, KernelEvent::Fork { parent, child });
    }

    /// `task`, current on `cpu`, executes another program.
    pub fn exec(&mut self, time_ns: u64, cpu: u32, task: TaskIndex) {
        self.settle();
        self.pass(time_ns, cpu, false, KernelEvent::Exec { task });
    }

    /// `task`, current on `cpu`, exits. Its switch-out with [`Left::Exited`] comes later.
    pub fn exit(&mut self, time_ns: u64, cpu: u32, task: TaskIndex) {
        self.settle();
        self.pass(time_ns, cpu, false, KernelEvent::Exit { task });
    }

    /// `cpu` moved `task` from the queue of CPU `from` to that of CPU `to`.
    pub fn migrate(&mut self, time_ns: u64, cpu: u32, task: TaskIndex, from: u32, to: u32) {
        self.settle();
        self.pass(time_ns, cpu, false, KernelEvent::Migrate { task, from, to });
    }

    /// `task` leaves `cpu`: for the idle task, unless [`KernelEvents::switch_in`] follows at once.
    pub fn switch_out(&mut self, time_ns: u64, cpu: u32, task: TaskIndex, left: Left) {
        self.settle();
        self.left = Some((time_ns, cpu, task, left));
    }

    /// `task` is current on `cpu` from now on.
    pub fn switch_in(&mut self, time_ns: u64, cpu: u32, task: TaskIndex) {
        let Task { runs, woken, cpu: from } = self.tasks[task as usize];
        // It may have left several CPUs that still look for another task. Only the one where the events have it counts.
        let leaves_now = matches!(self.left, Some((_, cpu, left, _)) if (cpu, left) == (from, task));
        if runs && !leaves_now {
            self.settle();
            let left = if woken { Left::Blocked } else { Left::Runnable };
            self.switch(time_ns, from, Some((task, left)), None);
        }
        if !matches!(self.left, Some((at_ns, from, ..)) if (at_ns, from) == (time_ns, cpu)) {
            self.settle();
        }
        let prev = self.left.take().map(|(_, _, prev, left)| (prev, left));
        self.switch(time_ns, cpu, prev, Some(task));
        self.tasks[task as usize] = Task { cpu, runs: true, woken: false };
    }

    /// Passes on a switch-out without a following switch-in as one to the idle task.
    fn settle(&mut self) {
        if let Some((time_ns, cpu, prev, left)) = self.left.take() {
            self.switch(time_ns, cpu, Some((prev, left)), None);
        }
    }

    fn switch(&mut self, time_ns: u64, cpu: u32, prev: Option<(TaskIndex, Left)>, next: Option<TaskIndex>) {
        let prev = prev.filter(|&(prev, _)| self.current[cpu as usize] == Some(prev));
        if prev.is_none() && next.is_none() {
            return;
        }
        if let Some((prev, _)) = prev {
            self.tasks[prev as usize].runs = false;
        }
        self.pass(time_ns, cpu, false, KernelEvent::Switch { prev, next });
        self.current[cpu as usize] = next;
    }

    /// Ends the run at `time_ns` and returns what the sink made of it.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(mut self, time_ns: u64) -> io::Result<S::Out> {
        self.settle();
        self.pass(time_ns, 0, false, KernelEvent::End);
        self.sink.finish()
    }

    fn pass(&mut self, time_ns: u64, cpu: u32, in_interrupt: bool, event: KernelEvent<'_>) {
        let current = self.current[cpu as usize];
        self.sink.event(At { time_ns, cpu, current, in_interrupt }, event);
    }
}
