// SPDX-License-Identifier: GPL-2.0-or-later
//! Wake-ups: what causes them, and which wait each of them ends.

use wakelab_workload::{Op, Source, TaskIndex};

use super::{Cause, Model, OnCpu, Position, State, Wake, Waker};
use crate::event::{Context, Event, TaskName};
use crate::explained::Gap;
use crate::flows::Wakeup;
use crate::loops::Slept;
use crate::program::Step;

impl Model {
    /// Returns what causes the current event on `cpu`. A task that seems to wake itself was woken by an interrupt,
    /// because it sleeps already.
    pub(super) fn cause(&mut self, cpu: u32, context: Context, wakee: Option<TaskIndex>) -> Cause {
        if let Context::Interrupt(source) = context {
            return Cause::Outside(source);
        }
        let on = self.cpu(cpu).on;
        match on {
            OnCpu::Unknown => Cause::Unknown,
            OnCpu::Idle => Cause::Outside(Source::Unknown),
            OnCpu::Task(index) if wakee == Some(index) => Cause::Outside(Source::Unknown),
            OnCpu::Task(index) if self.tasks[index as usize].is_recorder => Cause::Outside(Source::Unknown),
            OnCpu::Task(task) => Cause::Task(self.waker(task)),
        }
    }

    /// The place of the current event.
    pub(super) fn position(&self) -> Position {
        Position { time_ns: self.now_ns, event: self.events }
    }

    pub(super) fn waker(&mut self, task: TaskIndex) -> Waker {
        let now_ns = self.now_ns;
        Waker { task, work_units: self.task(task).work_until(now_ns), position: self.position() }
    }

    pub(super) fn wake(&mut self, event: &Event<'_>, name: &TaskName<'_>, last_cpu: u32, sync: bool) {
        self.highest_cpu = self.highest_cpu.max(last_cpu);
        if name.tid == 0 {
            return;
        }
        self.wakes += 1;
        self.cpu(event.cpu).woke_ns = self.now_ns;
        let found = self.living(name);
        let cause = self.cause(event.cpu, event.context, found);
        self.explained.soft_interrupt_wakes +=
            u64::from(event.context == Context::Soft && matches!(cause, Cause::Task(_)));
        if let Cause::Task(waker) = cause {
            let gap_ns = self.cpu(event.cpu).in_call.filter(|call| call.0 == waker.task).map(|call| call.1);
            self.calls.woke(waker.position, waker.task, waker.work_units, gap_ns);
            self.charge_waking(event.cpu, waker.task, name.tid, last_cpu, false);
            self.messages.woke(waker.task, waker.position);
        }
        let time_ns = if let Cause::Outside(_) = cause { self.due_ns(event) } else { self.now_ns };
        let wake = Wake { time_ns, seen_ns: self.now_ns, cause, sync };
        let woken_from = Some((event.cpu, self.now_ns));
        let woken_by = if let Cause::Task(waker) = cause { Some(waker.task) } else { None };
        let Some(index) = found else {
            let index = self.woken_from_before(name, &wake, last_cpu);
            let task = self.task(index);
            (task.woken_from, task.woken_by) = (woken_from, woken_by);
            return;
        };
        let task = self.task(index);
        (task.woken_from, task.woken_by) = (woken_from, woken_by);
        task.rename(name);
        task.last_cpu.get_or_insert(last_cpu);
        match task.state {
            State::Blocked { since_ns, position } => {
                self.note_woken_on(last_cpu, index);
                self.end_wait(index, &wake, since_ns, position);
            }
            // The task may be about to leave the CPU with its state changed already. Then this wake-up ends the wait
            // that has not begun yet. The next switch-in shows whether it is so (see end_unseen_wait).
            State::Running { .. } => task.wake_while_running = Some(wake),
            State::Born { .. } | State::Runnable | State::Exited => {}
        }
    }

    /// Reads a sched_wakeup. Where sched_waking is recorded, too, it only confirms the wake-up.
    pub(super) fn wakeup(&mut self, event: &Event<'_>, name: &TaskName<'_>, cpu: u32) {
        self.note_queued(cpu);
        if !self.waking_seen {
            self.wake(event, name, cpu, false);
            return;
        }
        self.highest_cpu = self.highest_cpu.max(cpu);
        self.charge_wakeup(event, name.tid, cpu);
        let Some(&index) = self.by_tid.get(&name.tid) else { return };
        self.learn_queueing(event.cpu, index);
        let task = &self.tasks[index as usize];
        if let State::Blocked { since_ns, position } = task.state {
            if let Some(wake) = task.wake_while_running {
                self.end_wait(index, &wake, since_ns, position);
            } else {
                self.gap(Gap::MissedWaking);
                self.wake(event, name, cpu, false);
            }
        }
    }

    /// Adds a task that waited when the recording began and is woken now. If it is woken from outside, it begins now;
    /// if by a task, it begins with a wait.
    fn woken_from_before(&mut self, name: &TaskName<'_>, wake: &Wake, last_cpu: u32) -> TaskIndex {
        let start_ns = if matches!(wake.cause, Cause::Task(_)) { 0 } else { wake.time_ns };
        let index = self.add_task(name, None, start_ns);
        self.task(index).last_cpu = Some(last_cpu);
        if let Cause::Task(_) = wake.cause {
            self.end_wait(index, wake, 0, Position::default());
            return index;
        }
        self.useful_wakes += 1;
        self.task(index).watched.woken(wake.seen_ns);
        if let Cause::Unknown = wake.cause {
            self.gap(Gap::UnknownWaker);
        }
        index
    }

    /// Ends the wait of a task that was switched in without a wake-up since its switch-out. If there was one just
    /// before, while the task still ran, it ended this wait: the waker logs its sched_waking first and then spins until
    /// the wakee has left its CPU (this happens in the hackbench fixture).
    ///
    /// If `cpu` has idled since the wait began, and its idle task's last switch was not recorded either, the wake-up
    /// came while the idle task was current: from outside, as far before that switch as the machine's costs say. One
    /// interrupt may wake several tasks, which then run in turn.
    pub(super) fn end_unseen_wait(&mut self, index: TaskIndex, cpu: u32, until_ns: u64) {
        let task = &self.tasks[index as usize];
        let State::Blocked { since_ns, position } = task.state else { return };
        if self.end_recorders_wait(index, until_ns) {
            return;
        }
        let task = &self.tasks[index as usize];
        if let Some(wake) = task.wake_while_running {
            self.end_wait(index, &wake, since_ns, position);
            return;
        }
        self.gap(Gap::SwitchInUnwoken);
        self.explained.waits += 1;
        let task = self.task(index);
        task.watched.woken_unseen();
        if let Some(unsure) = &mut task.unsure {
            unsure.slept = true;
        }
        let left_idle = self.cpu(cpu).left_idle;
        if let Some((_, due_ns)) = left_idle.filter(|&(left_ns, _)| left_ns >= since_ns) {
            self.explained.from_outside += 1;
            self.explained.source_unknown += 1;
            self.sleep_from_outside(index, Source::Unknown, since_ns, position, due_ns.max(since_ns));
        } else {
            self.explained.unexplained += 1;
            self.sleep(index, Source::Unknown, since_ns, position, until_ns);
        }
    }

    fn end_wait(&mut self, index: TaskIndex, wake: &Wake, since_ns: u64, position: Position) {
        if self.end_recorders_wait(index, wake.time_ns) {
            return;
        }
        self.explained.waits += 1;
        self.useful_wakes += 1;
        self.task(index).watched.woken(wake.seen_ns);
        match wake.cause {
            Cause::Task(_) if self.recorded_times => {
                self.explained.by_task += 1;
                self.sleep_from_outside(index, Source::Unknown, since_ns, position, wake.time_ns);
            }
            Cause::Task(waker) => {
                let signal = self.signals;
                self.signals += 1;
                self.explained.by_task += 1;
                let op = Op::Signal { signal, sync: wake.sync };
                self.task(waker.task).steps.push(Step {
                    position: waker.position,
                    at_units: waker.work_units,
                    op,
                });
                let task = self.task(index);
                task.steps.push(Step { position, at_units: task.work_units, op: Op::Wait { signal } });
                let wakee_units = task.work_units;
                task.state = State::Runnable;
                task.ready_ns = task.ready_ns.max(wake.time_ns);
                self.wakeups.push(Wakeup {
                    waker: waker.task,
                    wakee: index,
                    signal,
                    at: waker.position,
                    waker_units: waker.work_units,
                    blocked: position,
                    wakee_units,
                });
            }
            Cause::Outside(source) => {
                self.explained.from_outside += 1;
                self.explained.source_unknown += u64::from(source == Source::Unknown);
                self.sleep_from_outside(index, source, since_ns, position, wake.time_ns);
            }
            Cause::Unknown => {
                self.gap(Gap::UnknownWaker);
                self.explained.unexplained += 1;
                self.sleep(index, Source::Unknown, since_ns, position, wake.time_ns);
            }
        }
    }

    /// The task slept until something outside woke it.
    fn sleep_from_outside(
        &mut self,
        index: TaskIndex,
        source: Source,
        since_ns: u64,
        position: Position,
        until_ns: u64,
    ) {
        self.task(index).slept.push(Slept { position, since_ns, until_ns });
        self.sleep(index, source, since_ns, position, until_ns);
    }

    fn sleep(&mut self, index: TaskIndex, source: Source, since_ns: u64, position: Position, until_ns: u64) {
        let task = self.task(index);
        let op = Op::Sleep { delay_ns: until_ns.saturating_sub(since_ns), source };
        task.steps.push(Step { position, at_units: task.work_units, op });
        task.state = State::Runnable;
        task.ready_ns = task.ready_ns.max(until_ns);
    }
}
