// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes a run as ftrace text with nanoseconds, as the kernel's `trace` file would show it.
//!
//! Tools that read ftrace text read this, and so does [`crate::read`]. Importing an export is the only test of an
//! importer in which the truth is known. The text has three things that no kernel writes, and that other tools ignore:
//! - `# wakelab-task:` comments with the affinity and the working set of a task, and whether it is judged and awaited,
//!   which are in no event;
//! - `sync=1` at the end of a sched_waking if the waker is about to wait;
//! - markers (`tracing_mark_write`) at time 0 and at the end, so that nothing is cut off.
//!
//! The policy's decisions are not in it. [`crate::kernel_events`] says which id a task has, and how it begins:
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
use crate::kernel_events::{At, KernelEvent, Left, Named, Sink};

/// Writes events as text. The first error is kept for the end, and nothing is written after it.
pub struct FtraceText<W> {
    out: W,
    tasks: Vec<Named>,
    error: Option<io::Error>,
}

const TASK: &str = "d..2.";
const IN_INTERRUPT: &str = "d.h2.";
const OUTSIDE_SCHEDULER: &str = ".....";

const HEADER: &str = "\
# tracer: nop
#
#                                          _-----=> irqs-off
#                                         / _----=> need-resched
#                                        | / _---=> hardirq/softirq
#                                        || / _--=> preempt-depth
#                                        ||| / _-=> migrate-disable
#           TASK-PID       TGID     CPU#  |||||     TIMESTAMP   FUNCTION
#              | |           |        |   |||||        |           |
";

impl<W: Write> FtraceText<W> {
    /// Returns a writer to `out` that has written the header and the comments on tasks.
    pub fn new(out: W, workload: &Workload) -> Self {
        let mut text = HEADER.to_owned();
        for (task, spec) in workload.tasks.iter().enumerate() {
            let cpus =
                spec.allowed.as_deref().map(|cpus| format!(" cpus={}", cpu_list(cpus))).unwrap_or_default();
            let judged = if spec.judged { " judged=1" } else { "" };
            let awaited = if spec.awaited { " awaited=1" } else { "" };
            let bytes = spec.footprint_bytes;
            let slice = spec.slice_ns.map(|slice_ns| format!(" slice_ns={slice_ns}")).unwrap_or_default();
            text +=
                &format!("{TOLD} pid={}{cpus}{slice} footprint_bytes={bytes}{judged}{awaited}\n", task + 1);
        }
        let mut writer = FtraceText { out, tasks: Named::all(workload), error: None };
        let result = writer.out.write_all(text.as_bytes());
        writer.note(result);
        writer
    }

    /// Writes one line.
    fn line(&mut self, at: At, event: &KernelEvent<'_>) -> io::Result<()> {
        let Some(name) = name(event) else { return Ok(()) };
        let flags = flags(at, event);
        let (comm, pid, process) = match at.current {
            Some(task) => {
                let Named { comm, process, .. } = &self.tasks[task as usize];
                (comm.as_str(), task + 1, *process)
            }
            None => ("<idle>", 0, 0),
        };
        let (seconds, fraction, cpu) = (at.time_ns / 1_000_000_000, at.time_ns % 1_000_000_000, at.cpu);
        write!(
            self.out,
            "{comm:>16}-{pid:<7} ({process:>7}) [{cpu:03}] {flags} {seconds:>5}.{fraction:09}: {name}: "
        )?;
        self.fields(at, event)?;
        self.out.write_all(b"\n")
    }

    fn fields(&mut self, at: At, event: &KernelEvent<'_>) -> io::Result<()> {
        match *event {
            KernelEvent::Decision { .. } => Ok(()),
            KernelEvent::Begin => write!(self.out, "wakelab: begin"),
            KernelEvent::End => write!(self.out, "wakelab: end"),
            KernelEvent::Switch { prev, next } => self.switch(at.cpu, prev, next),
            KernelEvent::Waking { task, last_cpu, sync } => {
                self.task(task)?;
                write!(self.out, " target_cpu={last_cpu:03}{}", if sync { " sync=1" } else { "" })
            }
            KernelEvent::Wakeup { task, cpu, .. } => {
                self.task(task)?;
                write!(self.out, " target_cpu={cpu:03}")
            }
            KernelEvent::Interrupt { source: Source::Timer, enters: true } => {
                write!(self.out, "hrtimer=0 function=wakelab now={}", at.time_ns)
            }
            KernelEvent::Interrupt { source: Source::Timer, enters: false } => write!(self.out, "hrtimer=0"),
            KernelEvent::Interrupt { enters: true, .. } => write!(self.out, "irq=0 name=wakelab"),
            KernelEvent::Interrupt { enters: false, .. } => write!(self.out, "irq=0 ret=handled"),
            KernelEvent::Runtime { task, ran_ns } => {
                let comm = &self.tasks[task as usize].comm;
                write!(self.out, "comm={comm} pid={} runtime={ran_ns} [ns]", task + 1)
            }
            KernelEvent::Fork { parent, child } => {
                let [from, to] = [parent, child].map(|task| &self.tasks[task as usize].comm);
                write!(self.out, "comm={from} pid={} child_comm={to} child_pid={}", parent + 1, child + 1)
            }
            KernelEvent::Exec { task } => {
                let comm = &self.tasks[task as usize].comm;
                write!(self.out, "filename={comm} pid={pid} old_pid={pid}", pid = task + 1)
            }
            KernelEvent::Exit { task } => self.task(task),
            KernelEvent::Migrate { task, from, to } => {
                self.task(task)?;
                write!(self.out, " orig_cpu={from} dest_cpu={to}")
            }
        }
    }

    fn task(&mut self, task: TaskIndex) -> io::Result<()> {
        let Named { comm, prio, .. } = &self.tasks[task as usize];
        write!(self.out, "comm={comm} pid={} prio={prio}", task + 1)
    }

    fn switch(
        &mut self,
        cpu: u32,
        prev: Option<(TaskIndex, Left)>,
        next: Option<TaskIndex>,
    ) -> io::Result<()> {
        self.side("prev", cpu, prev.map(|(prev, _)| prev))?;
        let state = match prev.map_or(Left::Runnable, |(_, left)| left) {
            Left::Runnable => "R",
            Left::Blocked => "S",
            Left::Exited => "X",
        };
        write!(self.out, " prev_state={state} ==> ")?;
        self.side("next", cpu, next)
    }

    /// Writes one of the tasks of a switch.
    fn side(&mut self, which: &str, cpu: u32, task: Option<TaskIndex>) -> io::Result<()> {
        match task {
            Some(task) => {
                let Named { comm, prio, .. } = &self.tasks[task as usize];
                write!(self.out, "{which}_comm={comm} {which}_pid={} {which}_prio={prio}", task + 1)
            }
            None => write!(self.out, "{which}_comm=swapper/{cpu} {which}_pid=0 {which}_prio=120"),
        }
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}

/// Returns ftrace's letters for an event.
pub(crate) fn flags(at: At, event: &KernelEvent<'_>) -> &'static str {
    match event {
        _ if at.in_interrupt => IN_INTERRUPT,
        KernelEvent::Begin
        | KernelEvent::End
        | KernelEvent::Fork { .. }
        | KernelEvent::Exec { .. }
        | KernelEvent::Exit { .. } => OUTSIDE_SCHEDULER,
        _ => TASK,
    }
}

/// Returns the kernel's name of an event; `None` if it has none. An interrupt of an unknown kind shows in flags only.
pub(crate) fn name(event: &KernelEvent<'_>) -> Option<&'static str> {
    Some(match event {
        KernelEvent::Decision { .. } | KernelEvent::Interrupt { source: Source::Unknown, .. } => return None,
        KernelEvent::Begin | KernelEvent::End => "tracing_mark_write",
        KernelEvent::Switch { .. } => "sched_switch",
        KernelEvent::Waking { .. } => "sched_waking",
        KernelEvent::Wakeup { is_new: true, .. } => "sched_wakeup_new",
        KernelEvent::Wakeup { is_new: false, .. } => "sched_wakeup",
        KernelEvent::Interrupt { source: Source::Timer, enters: true } => "hrtimer_expire_entry",
        KernelEvent::Interrupt { source: Source::Timer, enters: false } => "hrtimer_expire_exit",
        KernelEvent::Interrupt { source: Source::Device, enters: true } => "irq_handler_entry",
        KernelEvent::Interrupt { source: Source::Device, enters: false } => "irq_handler_exit",
        KernelEvent::Runtime { .. } => "sched_stat_runtime",
        KernelEvent::Fork { .. } => "sched_process_fork",
        KernelEvent::Exec { .. } => "sched_process_exec",
        KernelEvent::Exit { .. } => "sched_process_exit",
        KernelEvent::Migrate { .. } => "sched_migrate_task",
    })
}

impl<W: Write> Sink for FtraceText<W> {
    type Out = W;

    fn event(&mut self, at: At, event: KernelEvent<'_>) {
        if self.error.is_none() {
            let result = self.line(at, &event);
            self.note(result);
        }
    }

    fn finish(mut self) -> io::Result<W> {
        let flushed = self.out.flush();
        self.note(flushed);
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }
}
