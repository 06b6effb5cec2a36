// SPDX-License-Identifier: GPL-2.0-or-later
//! Follows what tasks do between two messages, for [`crate::between`]; and how a task leaves its CPU to sleep.
//!
//! Only pairs of message events count between which one thing happens, or nothing: one wake-up on the task's own CPU,
//! one sleep, or one preemption. Pairs with an interrupt, or with anything else that an event shows, do not. A soft
//! interrupt that carries a message over loopback is a part of sending it.
//!
//! Without messages, the look for another task alone is learnt: from the scheduler's last account of a task that goes
//! to sleep (sched_stat_runtime) to the switch to another one. Where the CPU goes idle it takes longer, because the CPU
//! looks for work on others first; the difference is what that costs (`balance_ns`).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use wakelab_workload::TaskIndex;

use super::{Model, OnCpu};
use crate::between::{Between, Mark, Pairs};
use crate::event::{Context, Event, SwitchedOut, What};

/// What a task has done since its last message event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    mark: Mark,
    /// Its CPU time then.
    cpu_ns: u64,
    wakes: u32,
    /// Those of the wake-ups that it queued on its own CPU.
    queued: u32,
    sleeps: u32,
    preemptions: u32,
    /// The last switch back was from another process's task.
    from_other_process: bool,
}

/// The kind of a message event.
pub(super) fn mark(what: &What<'_>) -> Option<Mark> {
    Some(match what {
        What::DataReady { .. } => Mark::Ready,
        What::Sent { .. } | What::Writes { .. } => Mark::Sent,
        What::Received { bytes, .. } | What::Read { bytes, .. } if *bytes > 0 => Mark::Received,
        What::Received { .. } | What::Read { .. } => Mark::Nothing,
        _ => return None,
    })
}

impl Model {
    /// The task is switched in.
    pub(super) fn note_switch_back(&mut self, task: TaskIndex, changes_process: bool) {
        if let Some(since) = &mut self.task(task).since_message {
            since.from_other_process = changes_process;
        }
    }

    /// Follows what the current task of a CPU does between two messages. To be called after the event was noted, and at
    /// a switch before.
    pub(super) fn learn_between(&mut self, event: &Event<'_>) {
        let OnCpu::Task(index) = self.cpu(event.cpu).on else { return };
        let now_ns = self.now_ns;
        let task = &mut self.tasks[index as usize];
        if let Some(mark) = mark(&event.what) {
            task.charge_until(now_ns);
            let cpu_ns = task.cpu_ns;
            let next = Since {
                mark,
                cpu_ns,
                wakes: 0,
                queued: 0,
                sleeps: 0,
                preemptions: 0,
                from_other_process: false,
            };
            let Some(since) = task.since_message.replace(next) else { return };
            // An account of the scheduler may have taken CPU time back.
            let Some(took_ns) = cpu_ns.checked_sub(since.cpu_ns) else { return };
            let pair = self.between.entry((index, since.mark, mark)).or_default();
            let kind = usize::from(since.from_other_process);
            let samples_ns = match (since.wakes, since.queued, since.sleeps, since.preemptions) {
                (0, 0, 0, 0) => &mut pair.at_once_ns,
                (1, 1, 0, 0) => &mut pair.after_wake_ns,
                (0, 0, 1, 0) => &mut pair.after_sleep_ns[kind],
                (0, 0, 0, 1) => &mut pair.after_preemption_ns[kind],
                _ => return,
            };
            samples_ns.push(took_ns);
            return;
        }
        if let What::Switch { why: SwitchedOut::Blocked, next, .. } = event.what
            && let Some(at_ns) = task.accounted_ns.filter(|&at_ns| at_ns >= task.burst_since_ns)
        {
            self.learnt.leaving_ns[usize::from(next.tid == 0)].push(now_ns - at_ns);
        }
        let interrupts = event.interrupt_since_ns.is_some()
            || event.interrupt_ended_ns.is_some()
            || matches!(event.context, Context::Interrupt(_));
        let Some(since) = &mut task.since_message else { return };
        match event.what {
            _ if interrupts => task.since_message = None,
            What::Switch { why: SwitchedOut::Blocked, .. } => since.sleeps += 1,
            What::Switch { why: SwitchedOut::Runnable, .. } => since.preemptions += 1,
            What::Waking { .. } => since.wakes += 1,
            What::Wakeup { cpu, .. } => since.queued += u32::from(cpu == event.cpu),
            What::Runtime { .. } | What::Migrate { .. } | What::Other => {}
            _ => task.since_message = None,
        }
    }

    /// Takes the pairs of all tasks, by name.
    pub(super) fn take_pairs(&mut self) -> Pairs {
        let between = std::mem::take(&mut self.between);
        self.by_name(between, Between::join)
    }

    /// Joins what was seen of tasks between two events of some kinds, by the tasks' names; always in the same order.
    pub(super) fn by_name<Kind: Ord + Copy, Seen: Default>(
        &self,
        of_tasks: FxHashMap<(TaskIndex, Kind, Kind), Seen>,
        join: impl Fn(&mut Seen, Seen),
    ) -> BTreeMap<(String, Kind, Kind), Seen> {
        let mut of_tasks: Vec<_> = of_tasks.into_iter().collect();
        of_tasks.sort_unstable_by_key(|(key, _)| *key);
        let mut joined: BTreeMap<_, Seen> = BTreeMap::new();
        for ((index, from, to), seen) in of_tasks {
            let name = self.tasks[index as usize].name.clone();
            join(joined.entry((name, from, to)).or_default(), seen);
        }
        joined
    }
}
