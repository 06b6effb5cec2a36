// SPDX-License-Identifier: GPL-2.0-or-later
//! Birth and death of tasks: fork, exec, exit, and ids that are used again.

use wakelab_workload::{Op, TaskIndex};

use super::{Cause, Ids, Model, OnCpu, State, Waker};
use crate::event::{Context, Event, FutexCall, TaskName};
use crate::explained::Gap;
use crate::flows::Called;
use crate::program::{Step, Tracked};

impl Model {
    pub(super) fn fork(&mut self, cpu: u32, of: &TaskName<'_>, child: &TaskName<'_>) {
        self.end_previous(child.tid);
        self.learn_fork(cpu);
        self.charge_call(cpu, |recorded| recorded.costs.fork_ns);
        self.told.inherit(of.tid, child.tid);
        let by_recorder = self.is_recorder(of.tid);
        let parent = match self.cause(cpu, Context::Task, None) {
            Cause::Task(waker) => Some(waker),
            Cause::Outside(_) | Cause::Unknown if by_recorder => None,
            Cause::Outside(_) | Cause::Unknown => self.living(of).map(|index| self.waker(index)),
        };
        if let Some(parent) = parent {
            self.charge_waking(cpu, parent.task, child.tid, cpu, true);
        }
        let index = self.add_task(child, Some(State::Born { parent }), self.now_ns);
        let above = self.by_tid.get(&of.tid).map(|above| &self.tasks[*above as usize]);
        let of_command = above.is_some_and(|above| above.of_command);
        let group = self.groups.of_new(child.tid, Some(above.and_then(|above| above.group)));
        let child = self.task(index);
        child.of_recorder = by_recorder;
        child.of_command |= of_command;
        (child.first_group, child.group) = (group, group);
    }

    /// Learns from a fork by the current task how long it can have taken at most.
    fn learn_fork(&mut self, cpu: u32) {
        let OnCpu::Task(index) = self.cpu(cpu).on else { return };
        let now_ns = self.now_ns;
        let task = self.task(index);
        task.charge_until(now_ns);
        let cpu_ns = task.cpu_ns;
        let since_ns = task.forked_cpu_ns.replace(cpu_ns).unwrap_or(0).max(task.burst_cpu_ns);
        self.learnt.before_forks_ns.push(cpu_ns.saturating_sub(since_ns));
    }

    /// Learns from an exec by the current task how long it can have taken at most since the task was switched in: the
    /// parent that waits for it is woken on the way, and may preempt it.
    fn learn_exec(&mut self, cpu: u32) {
        let OnCpu::Task(index) = self.cpu(cpu).on else { return };
        let now_ns = self.now_ns;
        let before_ns = self.task(index).ran_until(now_ns);
        self.learnt.before_execs_ns.push(before_ns);
    }

    /// Reads a cgroup_attach_task: of a whole process, or of one thread that is not its first.
    pub(super) fn moved(&mut self, tid: u32, hierarchy: i64, path: &str) {
        let Some(group) = self.groups.moved_to(hierarchy, path).filter(|_| self.ids != Ids::Foreign) else {
            return;
        };
        let (now_ns, position) = (self.now_ns, self.position());
        for task in self.tasks.iter_mut().filter(|task| task.tid == tid || task.process == Some(tid)) {
            if task.state == State::Exited || task.group == group {
                continue;
            }
            task.group = group;
            let at_units = task.work_until(now_ns);
            if task.is_before_its_work() {
                task.first_group = group;
            } else {
                task.steps.push(Step { position, at_units, op: Op::MoveTo { group } });
            }
        }
    }

    pub(super) fn wakeup_new(&mut self, event: &Event<'_>, name: &TaskName<'_>, cpu: u32) {
        self.highest_cpu = self.highest_cpu.max(cpu);
        self.note_queued(cpu);
        self.charge_wakeup(event, name.tid, cpu);
        let cause = self.cause(event.cpu, Context::Task, None);
        let here = if let Cause::Task(waker) = cause { Some(waker) } else { None };
        let child = self.by_tid.get(&name.tid).copied();
        if let Some(index) = child
            && let State::Born { parent } = self.tasks[index as usize].state
        {
            self.start_child(index, here.or(parent));
            return;
        }
        self.gap(Gap::MissedFork);
        self.end_previous(name.tid);
        let index = self.add_task(name, Some(State::Born { parent: here }), self.now_ns);
        self.start_child(index, here);
    }

    /// Makes a forked task runnable, which its parent forks at that point; without a parent it begins by itself.
    pub(super) fn start_child(&mut self, index: TaskIndex, parent: Option<Waker>) {
        let now_ns = self.now_ns;
        let task = self.task(index);
        task.state = State::Runnable;
        task.ready_ns = now_ns;
        task.watched.ready(now_ns);
        if let Some(parent) = parent {
            task.parent = Some(parent.task);
            let op = Op::Fork { task: index };
            self.task(parent.task).steps.push(Step {
                position: parent.position,
                at_units: parent.work_units,
                op,
            });
        } else {
            task.start_ns = now_ns;
            if !task.of_recorder {
                self.gap(Gap::UnknownParent);
            }
        }
    }

    /// Reads a sched_process_exec of the current task.
    pub(super) fn exec(&mut self, cpu: u32, tid: u32) {
        self.learn_exec(cpu);
        self.charge_call(cpu, |recorded| recorded.costs.exec_ns);
        if let Cause::Task(waker) = self.cause(cpu, Context::Task, None)
            && self.tasks[waker.task as usize].tid == tid
        {
            let step = Step { position: waker.position, at_units: waker.work_units, op: Op::Exec };
            let task = self.task(waker.task);
            task.steps.push(step);
            task.forget_caches();
        }
    }

    /// Reads a call of sched_yield by the current task.
    pub(super) fn yields(&mut self, event: &Event<'_>) {
        if let Cause::Task(Waker { task, work_units, position }) = self.cause(event.cpu, event.context, None)
        {
            let task = self.task(task);
            task.yielded = true;
            task.steps.push(Step { position, at_units: work_units, op: Op::Yield });
        }
    }

    /// Reads a call of futex(2) by the current task.
    pub(super) fn calls_futex(&mut self, event: &Event<'_>, address: u64, is_private: bool, call: FutexCall) {
        if let Cause::Task(Waker { task, work_units: units, position }) =
            self.cause(event.cpu, event.context, None)
        {
            let process = self.tasks[task as usize].process.filter(|_| is_private).unwrap_or(0);
            self.futexes.push(Called { task, position, units, futex: (process, address), call });
        }
    }

    /// Returns the task of this id. One that has exited without a later fork of that id is a gap, and another one
    /// begins.
    pub(super) fn living(&mut self, name: &TaskName<'_>) -> Option<TaskIndex> {
        let index = *self.by_tid.get(&name.tid)?;
        if self.tasks[index as usize].state != State::Exited {
            return Some(index);
        }
        self.gap(Gap::AfterExit);
        Some(self.add_task(name, Some(State::Runnable), self.now_ns))
    }

    /// Ends the task of this id, because a new task gets the id.
    fn end_previous(&mut self, tid: u32) {
        let Some(&index) = self.by_tid.get(&tid) else { return };
        match self.tasks[index as usize].state {
            State::Exited => return,
            State::Running { cpu, .. } => self.vacate(cpu),
            State::Born { parent } => self.start_child(index, parent),
            State::Runnable | State::Blocked { .. } => {}
        }
        self.gap(Gap::MissedExit);
        self.task(index).state = State::Exited;
    }

    /// Adds a task; `state` is `None` for one from before the recording.
    pub(super) fn add_task(&mut self, name: &TaskName<'_>, state: Option<State>, start_ns: u64) -> TaskIndex {
        // There is at most one for each line, and no file has 2^32 lines.
        let index = self.tasks.len() as TaskIndex;
        match state {
            None => self.explained.tasks_from_before += 1,
            Some(_) => self.explained.tasks_born += 1,
        }
        let is_recorder = self.is_recorder(name.tid);
        let mut task = Tracked::new(name, state.unwrap_or(State::Runnable), start_ns);
        task.is_recorder = is_recorder;
        if state.is_none() && self.command_before.contains(&name.tid) {
            task.of_command = true;
        }
        if state.is_none() {
            let group = self.groups.of_new(name.tid, None);
            (task.first_group, task.group) = (group, group);
        }
        if !self.command_seen && self.is_command(name.tid) {
            self.command_seen = true;
            task.of_command = true;
        }
        self.tasks.push(task);
        self.by_tid.insert(name.tid, index);
        index
    }
}
