// SPDX-License-Identifier: GPL-2.0-or-later
//! Learns what a wake-up costs its waker, all of it (`wakeup_ns`).
//!
//! From sched_waking to sched_wakeup is only a part: a wake-up begins before the first and ends after the second. A
//! task that sends one message after the other takes more CPU time from one to the next if the first wakes somebody. A
//! recording with messages shows both kinds, in one task. The difference of their medians is what a wake-up costs.
//!
//! Worked example: from one message to the next a task takes 450 ns of CPU time where nobody is woken, and 1,380 where
//! one task is woken on the sender's CPU: a wake-up costs 930 ns, of which 650 are between its two events.
//!
//! Only pairs of messages count between which the task does nothing else that an event shows: no sleep, no interrupt,
//! no preemption, no wake-up on another CPU.

use super::{Model, OnCpu};
use crate::event::{Event, What};

/// What a task has done since it sent a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinceSent {
    /// Its CPU time then.
    cpu_ns: u64,
    wakes: u32,
}

impl Model {
    /// Follows what the current task of a CPU does between two messages that it sends. To be called after the event was
    /// noted, and at a switch before.
    pub(super) fn learn_send(&mut self, event: &Event<'_>) {
        let OnCpu::Task(index) = self.cpu(event.cpu).on else { return };
        let now_ns = self.now_ns;
        let task = &mut self.tasks[index as usize];
        match event.what {
            What::Sent { .. } | What::Writes { .. } => {
                task.charge_until(now_ns);
                let since = task.since_sent.replace(SinceSent { cpu_ns: task.cpu_ns, wakes: 0 });
                let Some(since) = since else { return };
                let took_ns = task.cpu_ns - since.cpu_ns;
                let sends = self.learnt.sends.entry(task.name.clone()).or_default();
                match since.wakes {
                    0 => sends.at_once_ns.push(took_ns),
                    1 => sends.after_wake_ns.push(took_ns),
                    _ => {}
                }
            }
            What::Waking { .. } => {
                if let Some(since) = &mut task.since_sent {
                    since.wakes += 1;
                }
            }
            What::Wakeup { cpu, .. } if cpu == event.cpu => {}
            What::DataReady { .. } | What::Runtime { .. } => {}
            _ => task.since_sent = None,
        }
    }
}
