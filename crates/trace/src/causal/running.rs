// SPDX-License-Identifier: GPL-2.0-or-later
//! Who runs on which CPU, and since when: context switches, and what follows from the other events where switches were
//! not recorded.

use wakelab_workload::TaskIndex;

use super::{Ids, Model, OnCpu, State, SwitchIn};
use crate::event::{Current, SwitchedOut, TaskName};
use crate::explained::{Explained, Gap};
use crate::program::Unsure;

impl Model {
    /// The first switch shows whether the recorder's ids can be believed. Before it only wake-ups and forks can have
    /// been put down to wrong ids; they are forgotten.
    pub(super) fn decide_ids(&mut self, current: &Current<'_>, prev_tid: u32) {
        let (Ids::Undecided, Some(tid)) = (self.ids, current.tid) else { return };
        if tid == prev_tid {
            self.ids = Ids::Same;
            return;
        }
        self.ids = Ids::Foreign;
        self.tasks.clear();
        self.by_tid.clear();
        self.cpus.clear();
        self.signals = 0;
        self.wakes = 0;
        self.useful_wakes = 0;
        self.first_gap = self.first_gap.filter(|&(gap, _)| gap == Gap::LostEvents);
        self.explained.gaps.retain(|&gap, _| gap == Gap::LostEvents);
        self.explained = Explained {
            interrupts_known: self.explained.interrupts_known,
            lost_events: self.explained.lost_events,
            gaps: std::mem::take(&mut self.explained.gaps),
            ..Explained::default()
        };
    }

    /// Who was current at an event other than a switch, in the recorder's words. `ran_ns`: how long it has run, if the
    /// event says.
    pub(super) fn current(&mut self, cpu: u32, current: &Current<'_>, ran_ns: Option<u64>) {
        if self.ids == Ids::Foreign {
            return;
        }
        if let Some(tid) = current.tid {
            self.found_running(cpu, &TaskName { comm: current.comm, tid, prio: None }, ran_ns);
        }
        self.note_process(current);
    }

    /// The scheduler says how long a task has run: from that follows when it was switched in, where that was not
    /// recorded. Returns it if the task is the current one.
    pub(super) fn runtime(&mut self, name: &TaskName<'_>, ran_ns: u64, current: &Current<'_>) -> Option<u64> {
        let now_ns = self.now_ns;
        if let Some(&index) = self.by_tid.get(&name.tid) {
            let task = self.task(index);
            task.accounted_ns = Some(now_ns);
            match task.state {
                State::Running { .. } => {
                    if task.correct_since(now_ns, now_ns.saturating_sub(ran_ns)) {
                        self.explained.switch_ins_inferred += 1;
                    }
                }
                // It runs already, says the scheduler, though nothing else has said so yet.
                _ => {
                    task.ran_from_ns.get_or_insert(now_ns.saturating_sub(ran_ns));
                }
            }
        }
        (current.tid == Some(name.tid)).then_some(ran_ns)
    }

    pub(super) fn note_process(&mut self, current: &Current<'_>) {
        if self.ids != Ids::Foreign
            && let (Some(tid), Some(process)) = (current.tid, current.process)
            && let Some(&index) = self.by_tid.get(&tid)
        {
            self.task(index).process = Some(process);
            self.explained.processes_known = true;
        }
    }

    /// `name` runs on `cpu`, says the event; for so long, if it says.
    ///
    /// The first event on a CPU says it for the first time: perf begins to record one CPU after the other (both
    /// fixtures begin like this). Later it may contradict what was believed. Where the CPU was idle, its idle task's
    /// switch was not recorded: on the machine of the fixtures the idle task of CPU 1 never leaves an event.
    pub(super) fn found_running(&mut self, cpu: u32, name: &TaskName<'_>, ran_ns: Option<u64>) {
        let believed = self.cpu(cpu).on;
        let agrees = match believed {
            OnCpu::Unknown => false,
            OnCpu::Idle => name.tid == 0,
            OnCpu::Task(index) => self.tasks[index as usize].tid == name.tid,
        };
        if agrees {
            return;
        }
        if let OnCpu::Task(_) = believed {
            self.gap(Gap::MissedSwitch);
            self.vacate(cpu);
        }
        self.run(cpu, name, &SwitchIn::Unseen { was_idle: believed == OnCpu::Idle, ran_ns });
    }

    /// Whoever runs on `cpu` is taken off it at the last event there, since nobody knows when it left.
    pub(super) fn vacate(&mut self, cpu: u32) {
        let entry = self.cpu(cpu);
        let last_ns = entry.last_ns;
        if let OnCpu::Task(index) = std::mem::take(&mut entry.on) {
            self.stop(index, last_ns, State::Runnable);
        }
        self.occupancy(cpu);
    }

    /// There is an event on `cpu`, so its recording has not ended. perf ends with one CPU after the other, and runs
    /// itself meanwhile: that it turns up on a CPU without having left the other one is no gap then.
    pub(super) fn not_ended(&mut self, cpu: u32) {
        if let Some(line) = self.cpu(cpu).left_at_line.take() {
            self.gap_at(Gap::RunsTwice, line);
        }
    }

    /// The task leaves its CPU.
    pub(super) fn stop(&mut self, index: TaskIndex, at_ns: u64, state: State) {
        let task = self.task(index);
        task.work_until(at_ns);
        task.state = state;
        task.ready_ns = at_ns;
        if let Some(Unsure { gap_line: Some(line), .. }) = task.unsure.take() {
            self.gap_at(Gap::SwitchInUnseen, line);
        }
    }

    /// `name` runs on `cpu`, which is vacant. A task that nobody has heard of was there before the recording; if it is
    /// switched in now, it waited for a CPU since the recording began.
    pub(super) fn run(&mut self, cpu: u32, name: &TaskName<'_>, how: &SwitchIn) {
        if name.tid == 0 {
            let now_ns = self.now_ns;
            let entry = self.cpu(cpu);
            entry.on = OnCpu::Idle;
            entry.idle_since_ns = now_ns;
            entry.prev = None;
            self.occupancy(cpu);
            return;
        }
        let known = self.living(name);
        let index = known.unwrap_or_else(|| self.begin(name, None, 0));
        if let State::Running { cpu: other, .. } = self.tasks[index as usize].state {
            self.vacate(other);
            self.cpu(other).left_at_line = Some(self.line);
        }

        let (now_ns, position, line) = (self.now_ns, self.events, self.line);
        let cpu_free_ns = self.cpu(cpu).last_ns;
        let task = self.task(index);
        let earliest_ns = cpu_free_ns.max(task.ready_ns);
        let ran_from_ns = task.ran_from_ns.take();
        let (since_ns, unsure, inferred) = match *how {
            SwitchIn::Seen => (now_ns, None, false),
            SwitchIn::Unseen { was_idle, ran_ns } => {
                let said_ns = ran_ns.map(|ran_ns| now_ns.saturating_sub(ran_ns)).or(ran_from_ns);
                // An idle CPU begins at once with a task that was woken for it.
                let guessed_ns = if was_idle && task.state == State::Runnable { earliest_ns } else { now_ns };
                let gap_line = was_idle.then_some(line);
                let unsure = Unsure {
                    earliest_ns,
                    guessed_ns,
                    base_units: task.work_units,
                    position,
                    first_step: task.steps.len(),
                    gap_line,
                };
                match said_ns {
                    Some(said_ns) => (said_ns.max(earliest_ns), None, was_idle),
                    None => (guessed_ns, Some(unsure), false),
                }
            }
        };
        if known.is_none() && matches!(how, SwitchIn::Unseen { .. }) {
            task.start_ns = since_ns;
        }
        task.unsure = unsure;
        self.explained.switch_ins_inferred += u64::from(inferred);
        match self.tasks[index as usize].state {
            State::Born { parent } => self.start_child(index, parent),
            State::Blocked { .. } => self.woken_unseen(index, since_ns),
            State::Runnable | State::Running { .. } | State::Exited => {}
        }
        self.cpu(cpu).on = OnCpu::Task(index);
        let task = self.task(index);
        task.rename(name);
        let from = task.ran_last_on(cpu);
        task.state = State::Running { cpu, since_ns };
        task.wake_while_running = None;
        task.burst_since_ns = since_ns;
        task.burst_cpu_ns = task.cpu_ns;
        let prev = self.cpu(cpu).prev.take();
        if *how == SwitchIn::Seen {
            self.charge_switch(cpu, index, prev, from);
        }
        self.occupancy(cpu);
    }

    pub(super) fn switch_out(
        &mut self,
        cpu: u32,
        prev: &TaskName<'_>,
        why: SwitchedOut,
        next: &TaskName<'_>,
    ) {
        let OnCpu::Task(index) = self.cpu(cpu).on else { return };
        self.charge_switch_out(cpu, index, why, next);
        let began_ns = self.wait_began_ns(index);
        let entry = self.cpu(cpu);
        entry.on = OnCpu::Unknown;
        entry.prev = Some(index);
        let (now_ns, position) = (self.now_ns, self.events);
        self.task(index).rename(prev);
        let state = match why {
            SwitchedOut::Runnable => State::Runnable,
            SwitchedOut::Blocked => State::Blocked { since_ns: began_ns, position },
            SwitchedOut::Exited => State::Exited,
        };
        self.stop(index, now_ns, state);
        self.explained.tasks_exited += u64::from(why == SwitchedOut::Exited);
    }
}
