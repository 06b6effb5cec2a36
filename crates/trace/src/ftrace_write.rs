// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes a run as ftrace text, with nanoseconds: what the kernel's `trace` file would say, had a kernel run it.
//!
//! Tools that read ftrace text read this, and so does [`crate::read`]: importing an export is the one test of an importer
//! whose truth is known. Three things are in it that no kernel writes, all of them ignored by other tools:
//! - `# wakelab-task:` comments with what no event says of a task: its affinity and its working set;
//! - `sync=1` at the end of a sched_waking whose waker is about to wait;
//! - markers (`tracing_mark_write`) at time 0 and at the end, so that nothing is cut off.
//!
//! Task n of the workload has the id n + 1, since 0 is the idle task. A task without parent begins by a timer's wake-up.
//! ```text
//!     <idle>-0       (      0) [000] d.h2.     0.000000000: hrtimer_expire_entry: hrtimer=0 function=wakelab now=0
//!     <idle>-0       (      0) [000] d.h2.     0.000000000: sched_waking: comm=a pid=1 prio=120 target_cpu=000
//!     <idle>-0       (      0) [000] d.h2.     0.000000000: hrtimer_expire_exit: hrtimer=0
//!     <idle>-0       (      0) [000] d..2.     0.000000700: sched_switch: prev_comm=swapper/0 ... ==> next_comm=a ...
//! ```

use std::io::{self, Write};

use wakelab_workload::{Source, TaskIndex, Workload};

use crate::ftrace::TOLD;
use crate::kernel::prio_of_weight;

/// Who wakes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WokenBy {
    /// The CPU's current task; `sync`: it says that it is about to wait.
    Task {
        /// The wake-up says so.
        sync: bool,
    },
    /// An interrupt on that CPU.
    Interrupt(Source),
}

/// How a task leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It could go on.
    Runnable,
    /// It waits.
    Blocked,
    /// It has ended.
    Exited,
}

struct Task {
    comm: String,
    process: u32,
    prio: i32,
    /// Where it is or ran last.
    cpu: u32,
}

/// Writes events as they happen, in the order of time. CPUs and tasks are numbered as the machine and the workload
/// number them. The first error is kept for [`Writer::finish`], and nothing is written after it.
pub struct Writer<W> {
    out: W,
    tasks: Vec<Task>,
    /// Whom each CPU runs; `None`: the idle task.
    current: Vec<Option<TaskIndex>>,
    /// A switch-out that waits for its switch-in: when, where, whom, and how.
    left: Option<(u64, u32, TaskIndex, Left)>,
    error: Option<io::Error>,
}

const TASK: &str = "d..2.";
const IN_INTERRUPT: &str = "d.h2.";
const OUTSIDE_SCHEDULER: &str = ".....";

impl<W: Write> Writer<W> {
    /// Begins with the header, and with what no event says about the tasks.
    pub fn new(out: W, workload: &Workload, nr_cpus: u32) -> Self {
        let tasks = workload.tasks.iter().map(|task| Task {
            comm: task.name.chars().map(|c| if c.is_control() { '?' } else { c }).collect(),
            process: task.process,
            prio: prio_of_weight(task.weight),
            cpu: task.last_cpu.unwrap_or(0),
        });
        let mut writer = Writer {
            out,
            tasks: tasks.collect(),
            current: vec![None; nr_cpus as usize],
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
                spec.allowed.as_deref().map(|cpus| format!(" cpus={}", list(cpus))).unwrap_or_default();
            text += &format!("{TOLD} pid={}{cpus} footprint_bytes={}\n", task + 1, spec.footprint_bytes);
        }
        let result = self.out.write_all(text.as_bytes());
        self.note(result);
    }

    /// A task without parent becomes runnable for the first time.
    pub fn start(&mut self, time_ns: u64, task: TaskIndex) {
        let cpu = self.tasks[task as usize].cpu;
        self.wake(time_ns, cpu, task, WokenBy::Interrupt(Source::Timer));
    }

    /// A wake-up begins on `cpu`.
    pub fn wake(&mut self, time_ns: u64, cpu: u32, wakee: TaskIndex, by: WokenBy) {
        self.settle();
        let (flags, bracket, sync) = match by {
            WokenBy::Task { sync } => (TASK, None, sync),
            WokenBy::Interrupt(Source::Timer) => (IN_INTERRUPT, Some(true), false),
            WokenBy::Interrupt(Source::Device) => (IN_INTERRUPT, Some(false), false),
            WokenBy::Interrupt(Source::Unknown) => (IN_INTERRUPT, None, false),
        };
        match bracket {
            Some(true) => self.line(time_ns, cpu, flags, "hrtimer_expire_entry", |out, _| {
                write!(out, "hrtimer=0 function=wakelab now={time_ns}")
            }),
            Some(false) => {
                self.line(time_ns, cpu, flags, "irq_handler_entry", |out, _| {
                    write!(out, "irq=0 name=wakelab")
                });
            }
            None => {}
        }
        self.line(time_ns, cpu, flags, "sched_waking", |out, tasks| {
            let Task { comm, prio, cpu, .. } = &tasks[wakee as usize];
            write!(out, "comm={comm} pid={} prio={prio} target_cpu={cpu:03}", wakee + 1)?;
            if sync { write!(out, " sync=1") } else { Ok(()) }
        });
        match bracket {
            Some(true) => {
                self.line(time_ns, cpu, flags, "hrtimer_expire_exit", |out, _| write!(out, "hrtimer=0"))
            }
            Some(false) => {
                self.line(time_ns, cpu, flags, "irq_handler_exit", |out, _| write!(out, "irq=0 ret=handled"));
            }
            None => {}
        }
    }

    /// A wake-up is done: the task is queued on `cpu`.
    pub fn wakeup(&mut self, time_ns: u64, cpu: u32, task: TaskIndex) {
        self.queued(time_ns, cpu, task, "sched_wakeup");
    }

    /// A forked task is queued on `cpu`, on which its parent may not be.
    pub fn wakeup_new(&mut self, time_ns: u64, parent_cpu: u32, cpu: u32, task: TaskIndex) {
        self.settle();
        self.tasks[task as usize].cpu = cpu;
        self.line(time_ns, parent_cpu, TASK, "sched_wakeup_new", |out, tasks| {
            let Task { comm, prio, .. } = &tasks[task as usize];
            write!(out, "comm={comm} pid={} prio={prio} target_cpu={cpu:03}", task + 1)
        });
    }

    fn queued(&mut self, time_ns: u64, cpu: u32, task: TaskIndex, event: &str) {
        self.settle();
        self.line(time_ns, cpu, TASK, event, |out, tasks| {
            let Task { comm, prio, .. } = &tasks[task as usize];
            write!(out, "comm={comm} pid={} prio={prio} target_cpu={cpu:03}", task + 1)
        });
    }

    /// `parent`, current on `cpu`, makes `child`.
    pub fn fork(&mut self, time_ns: u64, cpu: u32, parent: TaskIndex, child: TaskIndex) {
        self.settle();
        self.tasks[child as usize].cpu = cpu;
        self.line(time_ns, cpu, OUTSIDE_SCHEDULER, "sched_process_fork", |out, tasks| {
            let (from, to) = (&tasks[parent as usize].comm, &tasks[child as usize].comm);
            write!(out, "comm={from} pid={} child_comm={to} child_pid={}", parent + 1, child + 1)
        });
    }

    /// `task`, current on `cpu`, executes another program.
    pub fn exec(&mut self, time_ns: u64, cpu: u32, task: TaskIndex) {
        self.settle();
        self.line(time_ns, cpu, OUTSIDE_SCHEDULER, "sched_process_exec", |out, tasks| {
            write!(out, "filename={} pid={pid} old_pid={pid}", tasks[task as usize].comm, pid = task + 1)
        });
    }

    /// `task`, current on `cpu`, ends. It is switched out by [`Left::Exited`] later.
    pub fn exit(&mut self, time_ns: u64, cpu: u32, task: TaskIndex) {
        self.settle();
        self.line(time_ns, cpu, OUTSIDE_SCHEDULER, "sched_process_exit", |out, tasks| {
            let Task { comm, prio, .. } = &tasks[task as usize];
            write!(out, "comm={comm} pid={} prio={prio}", task + 1)
        });
    }

    /// `task`, queued on `from`, is queued on `to` now; `cpu` moved it.
    pub fn migrate(&mut self, time_ns: u64, cpu: u32, task: TaskIndex, from: u32, to: u32) {
        self.settle();
        self.line(time_ns, cpu, TASK, "sched_migrate_task", |out, tasks| {
            let Task { comm, prio, .. } = &tasks[task as usize];
            write!(out, "comm={comm} pid={} prio={prio} orig_cpu={from} dest_cpu={to}", task + 1)
        });
    }

    /// `task` leaves `cpu`, for the idle task unless [`Writer::switch_in`] follows at once.
    pub fn switch_out(&mut self, time_ns: u64, cpu: u32, task: TaskIndex, left: Left) {
        self.settle();
        self.left = Some((time_ns, cpu, task, left));
    }

    /// `task` is current on `cpu` from now on.
    pub fn switch_in(&mut self, time_ns: u64, cpu: u32, task: TaskIndex) {
        if !matches!(self.left, Some((at_ns, from, ..)) if (at_ns, from) == (time_ns, cpu)) {
            self.settle();
        }
        let prev = self.left.take().map(|(_, _, prev, left)| (prev, left));
        self.switch(time_ns, cpu, prev, Some(task));
        self.tasks[task as usize].cpu = cpu;
    }

    /// A switch-out that no switch-in followed was one to the idle task.
    fn settle(&mut self) {
        if let Some((time_ns, cpu, prev, left)) = self.left.take() {
            self.switch(time_ns, cpu, Some((prev, left)), None);
        }
    }

    fn switch(&mut self, time_ns: u64, cpu: u32, prev: Option<(TaskIndex, Left)>, next: Option<TaskIndex>) {
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

    /// The run is over at `time_ns`.
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

    /// One line: whoever is current on `cpu`, the event, and its fields.
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

/// Sorted CPUs as the kernel lists them: `0-3,8`.
fn list(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let range = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(list(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(list(&[5]), "5");
        assert_eq!(list(&[]), "");
    }
}
