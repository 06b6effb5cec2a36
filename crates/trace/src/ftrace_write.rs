// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes a run as ftrace text with nanoseconds, as the kernel's `trace` file would show it.
//!
//! Tools that read ftrace text read this, and so does [`crate::read`]. Importing an export is the only test of an
//! importer in which the truth is known. The text has three things that no kernel writes, and that other tools ignore:
//! - `# wakelab-task:` comments with the affinity and the working set of a task, and whether it is judged, which are in
//!   no event;
//! - `sync=1` at the end of a sched_waking if the waker is about to wait;
//! - markers (`tracing_mark_write`) at time 0 and at the end, so that nothing is cut off.
//!
//! Task n of the workload has the id n + 1, because 0 is the idle task. A task without parent begins with a wake-up by
//! a timer.
//! ```text
//!     <idle>-0       (      0) [000] d.h2.     0.000000000: hrtimer_expire_entry: hrtimer=0 function=wakelab now=0
//!     <idle>-0       (      0) [000] d.h2.     0.000000000: sched_waking: comm=a pid=1 prio=120 target_cpu=000
//!     <idle>-0       (      0) [000] d.h2.     0.000000000: hrtimer_expire_exit: hrtimer=0
//!     <idle>-0       (      0) [000] d..2.     0.000000700: sched_switch: prev_comm=swapper/0 ... ==> next_comm=a ...
//! ```

use std::io::{self, Write};

use wakelab_machine::cpu_list;
use wakelab_workload::{Source, TaskIndex, Workload};

use crate::ftrace::TOLD;
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

struct Task {
    comm: String,
    process: u32,
    prio: i32,
    /// The CPU where it is or ran last.
    cpu: u32,
    /// It is the current task there.
    runs: bool,
    /// It was woken since its switch-in.
    woken: bool,
}

/// Writes events as they happen, in the order of time. CPUs and tasks have the numbers of the machine and the workload.
/// The first error is kept for [`Writer::finish`], and nothing is written after it.
pub struct Writer<W> {
    out: W,
    tasks: Vec<Task>,
    /// The current task of each CPU; `None` is the idle task.
    current: Vec<Option<TaskIndex>>,
    /// The source of the interrupt that each CPU is in.
    interrupted: Vec<Option<Source>>,
    /// A switch-out that waits for its switch-in: its time, CPU, task and kind.
    left: Option<(u64, u32, TaskIndex, Left)>,
    error: Option<io::Error>,
}

const TASK: &str = "d..2.";
const IN_INTERRUPT: &str = "d.h2.";
const OUTSIDE_SCHEDULER: &str = ".....";

impl<W: Write> Writer<W> {
    /// Returns a writer to `out` that has written the header and the comments on tasks.
    pub fn new(out: W, workload: &Workload, nr_cpus: u32) -> Self {
        let tasks = workload.tasks.iter().map(|task| Task {
            comm: task.name.chars().map(|c| if c.is_control() { '?' } else { c }).collect(),
            process: task.process,
            prio: prio_of_weight(task.weight),
            cpu: task.last_cpu.unwrap_or(0),
            runs: false,
            woken: false,
        });
        let mut writer = Writer {
            out,
            tasks: tasks.collect(),
            current: vec![None; nr_cpus as usize],
            interrupted: vec![None; nr_cpus as usize],
            left: None,
            error: None,
        };
        writer.header(workload);
        writer.line(0, 0, OUTSIDE_SCHEDULER, "tracing_mark_write", |out, _| write!(out, "wakelab: begin"));
        writer
    }

    fn header(&mut self, workload: &Workload) {
        let mut text = "\
# tracer: nop
#
#                                          _-----=> irqs-off
#                                         / _----=> need-resched
#                                        | / _---=> hardirq/softirq
#                                        || / _--=> preempt-depth
#                                        ||| / _-=> migrate-disable
#           TASK-PID       TGID     CPU#  |||||     TIMESTAMP   FUNCTION
#              | |           |        |   |||||        |           |
"
        .to_owned();
        for (task, spec) in workload.tasks.iter().enumerate() {
            let cpus =
                spec.allowed.as_deref().map(|cpus| format!(" cpus={}", cpu_list(cpus))).unwrap_or_default();
            let judged = if spec.judged { " judged=1" } else { "" };
            let bytes = spec.footprint_bytes;
            text += &format!("{TOLD} pid={}{cpus} footprint_bytes={bytes}{judged}\n", task + 1);
        }
        let result = self.out.write_all(text.as_bytes());
        self.note(result);
    }

    /// Writes that a task without parent becomes runnable for the first time.
    pub fn start(&mut self, time_ns: u64, task: TaskIndex) {
        self.settle();
        let cpu = self.tasks[task as usize].cpu;
        let outer = self.interrupted[cpu as usize].replace(Source::Timer);
        self.bracket(time_ns, cpu, Source::Timer, true);
        self.wake(time_ns, cpu, task, false);
        self.bracket(time_ns, cpu, Source::Timer, false);
        self.interrupted[cpu as usize] = outer;
    }

    /// Writes that an interrupt begins on `cpu`. It is the waker of all tasks that are woken there until its end.
    pub fn interrupt_enter(&mut self, time_ns: u64, cpu: u32, source: Source) {
        self.settle();
        self.interrupted[cpu as usize] = Some(source);
        self.bracket(time_ns, cpu, source, true);
    }

    /// Writes that the interrupt on `cpu` ends.
    pub fn interrupt_exit(&mut self, time_ns: u64, cpu: u32) {
        self.settle();
        if let Some(source) = self.interrupted[cpu as usize] {
            self.bracket(time_ns, cpu, source, false);
        }
        self.interrupted[cpu as usize] = None;
    }

    /// Writes an event that tells the kind of an interrupt. An unknown one has no event, only flags.
    fn bracket(&mut self, time_ns: u64, cpu: u32, source: Source, enters: bool) {
        let (event, fields) = match (source, enters) {
            (Source::Timer, true) => {
                ("hrtimer_expire_entry", format!("hrtimer=0 function=wakelab now={time_ns}"))
            }
            (Source::Timer, false) => ("hrtimer_expire_exit", "hrtimer=0".to_owned()),
            (Source::Device, true) => ("irq_handler_entry", "irq=0 name=wakelab".to_owned()),
            (Source::Device, false) => ("irq_handler_exit", "irq=0 ret=handled".to_owned()),
            (Source::Unknown, _) => return,
        };
        self.line(time_ns, cpu, IN_INTERRUPT, event, |out, _| out.write_all(fields.as_bytes()));
    }

    /// Writes that a wake-up begins on `cpu`, by its current task or by the interrupt that it is in. `sync` is true if
    /// the waker says that it is about to wait.
    pub fn wake(&mut self, time_ns: u64, cpu: u32, wakee: TaskIndex, sync: bool) {
        self.settle();
        self.tasks[wakee as usize].woken = true;
        self.line(time_ns, cpu, self.flags(cpu), "sched_waking", |out, tasks| {
            let Task { comm, prio, cpu, .. } = &tasks[wakee as usize];
            write!(out, "comm={comm} pid={} prio={prio} target_cpu={cpu:03}", wakee + 1)?;
            if sync { write!(out, " sync=1") } else { Ok(()) }
        });
    }

    /// Writes that a wake-up is done by `by_cpu`: the task is queued on `cpu`.
    pub fn wakeup(&mut self, time_ns: u64, by_cpu: u32, cpu: u32, task: TaskIndex) {
        self.queued(time_ns, by_cpu, cpu, task, "sched_wakeup");
    }

    /// Writes that a forked task is queued on `cpu`; its parent runs on `parent_cpu`.
    pub fn wakeup_new(&mut self, time_ns: u64, parent_cpu: u32, cpu: u32, task: TaskIndex) {
        self.tasks[task as usize].cpu = cpu;
        self.queued(time_ns, parent_cpu, cpu, task, "sched_wakeup_new");
    }

    fn queued(&mut self, time_ns: u64, by_cpu: u32, cpu: u32, task: TaskIndex, event: &str) {
        self.settle();
        self.line(time_ns, by_cpu, self.flags(by_cpu), event, |out, tasks| {
            let Task { comm, prio, .. } = &tasks[task as usize];
            write!(out, "comm={comm} pid={} prio={prio} target_cpu={cpu:03}", task + 1)
        });
    }

    fn flags(&self, cpu: u32) -> &'static str {
        if self.interrupted[cpu as usize].is_some() { IN_INTERRUPT } else { TASK }
    }

    /// Writes that `task` has used `cpu` for `ran_ns` since its switch-in and will be switched out. The time until then
    /// is the scheduler's.
    pub fn stopped(&mut self, time_ns: u64, cpu: u32, task: TaskIndex, ran_ns: u64) {
        self.settle();
        self.line(time_ns, cpu, TASK, "sched_stat_runtime", |out, tasks| {
            write!(out, "comm={} pid={} runtime={ran_ns} [ns]", tasks[task as usize].comm, task + 1)
        });
    }

    /// Writes that `parent`, current on `cpu`, forks `child`.
    pub fn fork(&mut self, time_ns: u64, cpu: u32, parent: TaskIndex, child: TaskIndex) {
        self.settle();
        self.tasks[child as usize].cpu = cpu;
        self.line(time_ns, cpu, OUTSIDE_SCHEDULER, "sched_process_fork", |out, tasks| {
            let (from, to) = (&tasks[parent as usize].comm, &tasks[child as usize].comm);
            write!(out, "comm={from} pid={} child_comm={to} child_pid={}", parent + 1, child + 1)
        });
    }

    /// Writes that `task`, current on `cpu`, executes another program.
    pub fn exec(&mut self, time_ns: u64, cpu: u32, task: TaskIndex) {
        self.settle();
        self.line(time_ns, cpu, OUTSIDE_SCHEDULER, "sched_process_exec", |out, tasks| {
            write!(out, "filename={} pid={pid} old_pid={pid}", tasks[task as usize].comm, pid = task + 1)
        });
    }

    /// Writes that `task`, current on `cpu`, exits. Its switch-out with [`Left::Exited`] comes later.
    pub fn exit(&mut self, time_ns: u64, cpu: u32, task: TaskIndex) {
        self.settle();
        self.line(time_ns, cpu, OUTSIDE_SCHEDULER, "sched_process_exit", |out, tasks| {
            let Task { comm, prio, .. } = &tasks[task as usize];
            write!(out, "comm={comm} pid={} prio={prio}", task + 1)
        });
    }

    /// Writes that `cpu` moved `task` from the queue of CPU `from` to that of CPU `to`.
    pub fn migrate(&mut self, time_ns: u64, cpu: u32, task: TaskIndex, from: u32, to: u32) {
        self.settle();
        self.line(time_ns, cpu, TASK, "sched_migrate_task", |out, tasks| {
            let Task { comm, prio, .. } = &tasks[task as usize];
            write!(out, "comm={comm} pid={} prio={prio} orig_cpu={from} dest_cpu={to}", task + 1)
        });
    }

    /// Notes that `task` leaves `cpu`: for the idle task, unless [`Writer::switch_in`] follows at once.
    pub fn switch_out(&mut self, time_ns: u64, cpu: u32, task: TaskIndex, left: Left) {
        self.settle();
        self.left = Some((time_ns, cpu, task, left));
    }

    /// Writes that `task` is current on `cpu` from now on.
    ///
    /// A simulated task may already run elsewhere while the CPU that it left still looks for another one. In the text,
    /// that CPU is idle meanwhile.
    pub fn switch_in(&mut self, time_ns: u64, cpu: u32, task: TaskIndex) {
        let Task { runs, woken, cpu: from, .. } = self.tasks[task as usize];
        // It may have left several CPUs that still look for another task. Only the one where the text has it counts.
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
        let task = &mut self.tasks[task as usize];
        (task.cpu, task.runs, task.woken) = (cpu, true, false);
    }

    /// Writes a switch-out without a following switch-in as one to the idle task.
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
        self.line(time_ns, cpu, TASK, "sched_switch", |out, tasks| {
            write!(out, "prev_comm=")?;
            let state = match prev {
                Some((prev, left)) => {
                    let Task { comm, prio, .. } = &tasks[prev as usize];
                    write!(out, "{comm} prev_pid={} prev_prio={prio}", prev + 1)?;
                    match left {
                        Left::Runnable => "R",
                        Left::Blocked => "S",
                        Left::Exited => "X",
                    }
                }
                None => {
                    write!(out, "swapper/{cpu} prev_pid=0 prev_prio=120")?;
                    "R"
                }
            };
            write!(out, " prev_state={state} ==> next_comm=")?;
            match next {
                Some(next) => {
                    let Task { comm, prio, .. } = &tasks[next as usize];
                    write!(out, "{comm} next_pid={} next_prio={prio}", next + 1)
                }
                None => write!(out, "swapper/{cpu} next_pid=0 next_prio=120"),
            }
        });
        self.current[cpu as usize] = next;
    }

    /// Ends the text at `time_ns` and returns the output.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(mut self, time_ns: u64) -> io::Result<W> {
        self.settle();
        self.line(time_ns, 0, OUTSIDE_SCHEDULER, "tracing_mark_write", |out, _| write!(out, "wakelab: end"));
        let flushed = self.out.flush();
        self.note(flushed);
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }

    /// Writes one line: the current task of `cpu`, the event, and its fields.
    fn line(
        &mut self,
        time_ns: u64,
        cpu: u32,
        flags: &str,
        event: &str,
        fields: impl FnOnce(&mut W, &[Task]) -> io::Result<()>,
    ) {
        if self.error.is_some() {
            return;
        }
        let current = self.current[cpu as usize];
        let result = self.head(current, time_ns, cpu, flags, event).and_then(|()| {
            fields(&mut self.out, &self.tasks)?;
            self.out.write_all(b"\n")
        });
        self.note(result);
    }

    fn head(
        &mut self,
        current: Option<TaskIndex>,
        time_ns: u64,
        cpu: u32,
        flags: &str,
        event: &str,
    ) -> io::Result<()> {
        let (comm, pid, process) = match current {
            Some(task) => {
                let Task { comm, process, .. } = &self.tasks[task as usize];
                (comm.as_str(), task + 1, *process)
            }
            None => ("<idle>", 0, 0),
        };
        let (seconds, fraction) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        write!(
            self.out,
            "{comm:>16}-{pid:<7} ({process:>7}) [{cpu:03}] {flags} {seconds:>5}.{fraction:09}: {event}: "
        )
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}
