// SPDX-License-Identifier: GPL-2.0-or-later
//! fork, exec, join and exit.

use wakelab_workload::Op;

use crate::programs::Programs;
use crate::programs::next::{Here, Next, Wakee, Wakees};
use crate::programs::task::Stage;
use crate::time_use::TimeKind;

impl Programs<'_> {
    pub(super) fn fork(&mut self, task: u32, child: u32) -> Next {
        let t = &mut self.tasks[task as usize];
        if t.stage == Stage::Begin {
            t.stage = Stage::Middle;
            return Next::run_ns(TimeKind::ForkExit, self.costs.fork_ns);
        }
        t.children += 1;
        self.done_with(task, Next::Fork { child })
    }

    pub(super) fn exec(&mut self, task: u32) -> Next {
        let t = &mut self.tasks[task as usize];
        if t.stage == Stage::Begin {
            t.stage = Stage::Middle;
            return Next::run_ns(TimeKind::ForkExit, self.costs.exec_ns);
        }
        self.done_with(task, Next::Exec)
    }

    /// Waits until all children have exited.
    pub(super) fn join(&mut self, task: u32) -> Next {
        let t = &mut self.tasks[task as usize];
        if t.children == 0 {
            return self.done(task);
        }
        t.joining = true;
        Next::Wait
    }

    /// The work of an exit, for a task that does more after it.
    pub(super) fn begin_exit(&mut self, task: u32) -> Next {
        self.advance(task);
        self.tasks[task as usize].exiting = true;
        Next::run_ns(TimeKind::ForkExit, self.costs.exit_ns)
    }

    /// Whether the task has begun to exit.
    pub(crate) fn is_exiting(&self, task: u32) -> bool {
        self.tasks[task as usize].exiting
    }

    /// Whether an exiting task is about to wake another one. A child of vfork() wakes its parent when it leaves the
    /// parent's memory, and again when it is gone.
    pub(crate) fn wakes_next(&self, task: u32) -> bool {
        matches!(self.op(task), Some(Op::Signal { .. } | Op::Compute { .. }))
            && self.tasks[task as usize].program[self.pc(task) as usize..]
                .iter()
                .any(|op| matches!(op, Op::Signal { .. }))
    }

    /// Whether what the task does next begins outside the kernel: it takes a lock, or it begins another call, to read,
    /// to poll, to wait, to sleep or to yield. A call that wakes a task and then waits itself (fsync) counts as two,
    /// because a recording does not tell.
    #[cold]
    pub(crate) fn has_left_call(&self, task: u32) -> bool {
        let is_begun = self.tasks[task as usize].stage != Stage::Begin;
        !is_begun
            && matches!(
                self.op(task),
                Some(
                    Op::Lock { .. }
                        | Op::Poll { .. }
                        | Op::Recv { .. }
                        | Op::Sleep { .. }
                        | Op::SleepUntil { .. }
                        | Op::Wait { .. }
                        | Op::Yield
                )
            )
    }

    pub(super) fn exit(&mut self, here: Here) -> Next {
        let t = &mut self.tasks[here.task as usize];
        match t.stage {
            Stage::Begin if !t.exiting => {
                t.stage = Stage::Middle;
                Next::run_ns(TimeKind::ForkExit, self.costs.exit_ns)
            }
            Stage::Begin | Stage::Middle => {
                t.stage = Stage::End;
                Next::Exit(self.parent_to_wake(here.task))
            }
            _ => Next::Gone,
        }
    }

    /// exit() wakes a parent that waits for its last child; with `sync` if the child is a process, without it if the
    /// child is a thread of the parent.
    fn parent_to_wake(&mut self, task: u32) -> Wakees {
        let spec = &self.workload.tasks[task as usize];
        let Some(parent) = spec.parent else { return Wakees::new() };
        let p = &mut self.tasks[parent as usize];
        p.children -= 1;
        if p.children > 0 || !std::mem::replace(&mut p.joining, false) {
            return Wakees::new();
        }
        let sync = self.workload.tasks[parent as usize].process != spec.process;
        [Wakee::new(parent, sync)].into_iter().collect()
    }
}
