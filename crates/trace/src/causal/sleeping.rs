// SPDX-License-Identifier: GPL-2.0-or-later
//! Learns what a task pays to go to sleep and to go on after it (`sleep_ns`).
//!
//! A task that reads one message after the other takes more CPU time from one to the next if it sleeps between: a call
//! that finds nothing, the look for another task, the switch, and the way out of the call. A recording with messages
//! shows both kinds of reads, in one task. The difference of their medians is what a sleep costs, with the switch.
//!
//! Worked example: from one message to the next, a task takes 2,800 ns of CPU time where it does not sleep, and 6,500
//! where it sleeps once. A switch costs 1,000: going to sleep costs 2,700.
//!
//! Only pairs of reads count between which the task does nothing else that an event shows: no message sent, no wake-up,
//! no interrupt, no preemption.
//!
//! Without such reads, the look for another task alone is learnt: from the scheduler's last account of a task that goes
//! to sleep (sched_stat_runtime) to the switch to another one.

use wakelab_workload::TaskIndex;

use super::{Model, OnCpu};
use crate::event::{Event, SwitchedOut, What};

/// What a task has done since it read a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinceRead {
    /// Its CPU time when it had read it.
    cpu_ns: u64,
    sleeps: u32,
    /// The last sleep ended with a switch from another process's task.
    from_other_process: bool,
}

impl Model {
    /// The task is switched in.
    pub(super) fn note_switch_after_sleep(&mut self, task: TaskIndex, changes_process: bool) {
        if let Some(since) = &mut self.task(task).since_read {
            since.from_other_process = changes_process;
        }
    }

    /// Follows what the current task of a CPU does between two messages that it reads. To be called after the event was
    /// noted, and at a switch before.
    pub(super) fn learn_sleep(&mut self, event: &Event<'_>) {
        let OnCpu::Task(index) = self.cpu(event.cpu).on else { return };
        let now_ns = self.now_ns;
        let task = &mut self.tasks[index as usize];
        match event.what {
            What::Received { bytes, .. } | What::Read { bytes, .. } if bytes > 0 => {
                task.charge_until(now_ns);
                let since = task.since_read.replace(SinceRead {
                    cpu_ns: task.cpu_ns,
                    sleeps: 0,
                    from_other_process: false,
                });
                let Some(since) = since else { return };
                let took_ns = task.cpu_ns - since.cpu_ns;
                let reads = self.learnt.reads.entry(task.name.clone()).or_default();
                match since.sleeps {
                    0 => reads.at_once_ns.push(took_ns),
                    1 => reads.after_sleep_ns[usize::from(since.from_other_process)].push(took_ns),
                    _ => {}
                }
            }
            What::Switch { why: SwitchedOut::Blocked, next, .. } => {
                if let Some(since) = &mut task.since_read {
                    since.sleeps += 1;
                }
                if next.tid != 0
                    && let Some(at_ns) = task.accounted_ns.filter(|&at_ns| at_ns >= task.burst_since_ns)
                {
                    self.learnt.leaving_ns.push(now_ns - at_ns);
                }
            }
            What::Runtime { .. } => {}
            _ => task.since_read = None,
        }
    }
}
