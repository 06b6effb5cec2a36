// SPDX-License-Identifier: GPL-2.0-or-later
//! Operations on one-shot signals and gates.

use wakelab_workload::Op;

use crate::programs::Programs;
use crate::programs::next::{Next, Wakee, Wakees};
use crate::programs::sync::Signal;

impl Programs<'_> {
    /// Raises a signal and those that directly follow it, because a recording does not tell apart wake-ups by one
    /// system call and wake-ups at the same point of a task's work.
    pub(super) fn raise(&mut self, task: u32) -> Next {
        let mut wakees = Wakees::new();
        while let Some(&Op::Signal { signal, sync }) = self.op(task) {
            let before = std::mem::replace(&mut self.signals[signal as usize], Signal::Raised);
            if let Signal::Awaited(waiter) = before {
                wakees.push(Wakee::new(waiter, sync));
            }
            self.pass(task);
            if !wakees.is_empty() && self.is_exiting(task) {
                break;
            }
        }
        Next::wake(wakees)
    }

    pub(super) fn wait_for_signal(&mut self, task: u32, signal: u32) -> Next {
        match self.signals[signal as usize] {
            Signal::Raised => self.done(task),
            Signal::Unset => {
                if let Some(leaving) = self.leave(task) {
                    return leaving;
                }
                self.signals[signal as usize] = Signal::Awaited(task);
                Next::Wait
            }
            Signal::Awaited(other) => {
                Next::Broken(format!("task {other} waits for signal {signal} already; expected one waiter"))
            }
        }
    }

    /// Opens the gate for good, and wakes all tasks that wait there.
    pub(super) fn open_gate(&mut self, task: u32, gate: u32) -> Next {
        let gate = &mut self.gates[gate as usize];
        gate.open = true;
        let waiting = std::mem::take(&mut gate.waiting);
        self.pass(task);
        Next::wake(waiting.into_iter().map(|task| Wakee::new(task, false)).collect())
    }

    pub(super) fn wait_at_gate(&mut self, task: u32, gate: u32) -> Next {
        let gate = &mut self.gates[gate as usize];
        if gate.open {
            return self.done(task);
        }
        gate.waiting.push(task);
        Next::Wait
    }
}
