// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a running task gives way to a task that has just been queued: the answers "preempt if it would run next" and
//! "if it would, once the sleepers before it have left".
//!
//! Linux looks which task it would choose. A scheduler of sched_ext would have to find the record of each task that
//! waits, with the queue's lock held. So `scx_wakelab` (is_next() in crates/scx/src/bpf/state.bpf.h) looks only if what
//! a DSQ has of a task tells the answer, and if the task was woken or forked, and queued on the CPU on which it was
//! placed. Otherwise the running task gives way, dispatch chooses, and the choice may be a third task.

use wakelab_policy::{EnqueueWhy, MAX_BEFORE, Preempt};

use crate::engine::Engine;
use crate::kernel::profile::Look;
use crate::observer::Observer;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// Whether the running task of `cpu` gives way to a task that has just been queued there, after it was placed on
    /// `placed`.
    pub(crate) fn preempts(
        &mut self,
        cpu: u32,
        queued: u32,
        answer: Preempt,
        placed: u32,
        why: EnqueueWhy,
    ) -> bool {
        match (answer, self.kernel.looks) {
            (Preempt::No | Preempt::Yes, _) | (_, Look::Never) => answer != Preempt::No,
            (_, Look::AtRecords) => self.would_run(cpu, queued, answer == Preempt::IfFirstAwake),
            (_, Look::InQueue) => {
                let arrives = matches!(why, EnqueueWhy::Wakeup | EnqueueWhy::Fork) && cpu == placed;
                !arrives || self.may_be_next(cpu, queued)
            }
        }
    }

    /// Whether the policy would choose this task of `cpu`'s queue. `wakes`: sleepers before it that would be chosen
    /// leave.
    fn would_run(&mut self, cpu: u32, queued: u32, wakes: bool) -> bool {
        let now_ns = self.hardware.now_ns;
        let mut at = 0;
        while let Some(task) = self.kernel.runqueues[cpu as usize].get(at) {
            let is_allowed = self.is_allowed(task, cpu);
            let record = &mut self.kernel.records[task as usize];
            if !is_allowed || !self.kernel.host.may_run(record, cpu, now_ns) {
                at += 1;
            } else if wakes && self.kernel.threads[task as usize].delayed {
                self.dequeue_sleeper(cpu, at, task);
                at = 0;
            } else {
                return task == queued;
            }
        }
        false
    }

    /// Whether this task of `cpu`'s queue would be chosen, or the queue does not tell.
    fn may_be_next(&mut self, cpu: u32, queued: u32) -> bool {
        let now_ns = self.hardware.now_ns;
        if !self.kernel.host.chooses(cpu, now_ns) {
            return true;
        }
        for at in 0..=MAX_BEFORE {
            let Some(entry) = self.kernel.runqueues[cpu as usize].entry(at) else { return true };
            if entry.task == queued {
                return true;
            }
            if !self.is_allowed(entry.task, cpu) {
                continue;
            }
            let slice_ns = self.kernel.threads[entry.task as usize].slice_ns;
            let weight = self.kernel.records[entry.task as usize].weight;
            match self.kernel.host.may_run_told(cpu, entry.key, slice_ns, weight, now_ns) {
                Some(true) => return false,
                Some(false) => {}
                None => return true,
            }
        }
        true
    }
}
