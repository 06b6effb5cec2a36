// SPDX-License-Identifier: GPL-2.0-or-later
//! Which task runs on which CPU, and since when: from context switches, and from other events where switches were not
//! recorded.

use wakelab_workload::TaskIndex;

use super::{Cpu, Ids, Model, OnCpu, State, SwitchIn};
use crate::event::{Current, SwitchedOut, TaskName};
use crate::explained::{Explained, Gap};
use crate::learnt::{CALL_NS_MAX, IdleWake, Learnt};
use crate::program::{Correction, Unsure};

impl Model {
    /// Decides at the first switch whether the recorder's ids are right. If not, the wake-ups and forks before it were
    /// attributed to wrong tasks and are forgotten.
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
        self.learnt = Learnt::default();
        self.wakeups.clear();
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

    /// Notes the current task at an event other than a switch, as the recorder names it. `ran_ns` is how long it has
    /// run, if the event tells.
    pub(super) fn note_current(&mut self, cpu: u32, current: &Current<'_>, ran_ns: Option<u64>) {
        if self.ids == Ids::Foreign {
            return;
        }
        if let Some(tid) = current.tid {
            self.note_running(cpu, &TaskName { comm: current.comm, tid, prio: None }, ran_ns);
        }
        self.note_process(current);
    }

    /// Notes how long a task has run by the scheduler's account, which tells when it was switched in if that was not
    /// recorded. Returns the time if the task is the current one.
    pub(super) fn note_runtime(
        &mut self,
        cpu: u32,
        name: &TaskName<'_>,
        ran_ns: u64,
        current: &Current<'_>,
    ) -> Option<u64> {
        let now_ns = self.now_ns;
        let is_current = self.ids != Ids::Same || current.tid.is_none_or(|tid| tid == name.tid);
        if let Some(&index) = self.by_tid.get(&name.tid) {
            let unsure = self.tasks[index as usize].unsure;
            let gap_ns = self.gap_ns(unsure.is_some_and(|unsure| unsure.gap_at.is_some()));
            let task = self.task(index);
            let picked_ns = now_ns.saturating_sub(ran_ns);
            match task.state {
                // Another task is current there, which `note_current` will find. This one ran no longer than until the
                // CPU's last event.
                State::Running { cpu: on, .. } if on == cpu && !is_current => {}
                State::Running { .. } => {
                    if let Some(burst_since_ns) = task.picked_by_idle.take() {
                        self.picked.add(burst_since_ns.saturating_sub(picked_ns));
                    } else if let Some(correction) = task.correct_since(now_ns, picked_ns, gap_ns) {
                        self.explained.switch_ins_inferred += u64::from(correction.was_guessed);
                        self.correct(index, &correction);
                    }
                }
                // It runs already, though no other event has told it yet.
                _ => {
                    task.ran_from_ns.get_or_insert(picked_ns);
                }
            }
            self.note_account(index, ran_ns);
        }
        (current.tid == Some(name.tid)).then_some(ran_ns)
    }

    /// Corrects what is known of a task beside its steps: its calls of futex(2).
    fn correct(&mut self, index: TaskIndex, correction: &Correction) {
        let calls = self.futexes.iter_mut().rev().take_while(|call| call.position >= correction.since);
        for call in calls.filter(|call| call.task == index) {
            correction.apply(call.position, &mut call.units);
        }
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

    /// Notes that an event shows `name` running on `cpu`, and for how long if it tells.
    ///
    /// The first event on a CPU shows its task for the first time, because perf begins to record one CPU after the
    /// other (both fixtures begin like this). Later events may contradict what was known. Where the CPU was idle, the
    /// switch of its idle task was not recorded: on the machine of the fixtures, the idle task of CPU 1 leaves no
    /// events.
    pub(super) fn note_running(&mut self, cpu: u32, name: &TaskName<'_>, ran_ns: Option<u64>) {
        let believed = self.cpu(cpu).on;
        let agrees = match believed {
            OnCpu::Unknown => false,
            OnCpu::Idle => name.tid == 0,
            OnCpu::Task(index) => self.tasks[index as usize].tid == name.tid,
        };
        if agrees {
            return;
        }
        let missed = matches!(believed, OnCpu::Task(_));
        if missed {
            self.gap(Gap::MissedSwitch);
            self.vacate(cpu);
        }
        self.run(cpu, name, &SwitchIn::Unseen { was_idle: believed == OnCpu::Idle, ran_ns });
        if missed {
            self.note_unseen(cpu);
        }
    }

    /// Takes the current task off `cpu` at the last event there, because it is not known when it left.
    pub(super) fn vacate(&mut self, cpu: u32) {
        let entry = self.cpu(cpu);
        let last_ns = entry.last_ns;
        if let OnCpu::Task(index) = std::mem::take(&mut entry.on) {
            self.stop(index, last_ns, State::Runnable);
        }
        self.update_speeds(cpu);
    }

    /// Counts the gap of a task that turned up elsewhere without having left `cpu`, now that an event there shows that
    /// the CPU's recording had not ended. perf ends its recording of one CPU after the other while it runs itself, so
    /// otherwise this is no gap.
    pub(super) fn confirm_runs_twice(&mut self, cpu: u32) {
        if let Some(place) = self.cpu(cpu).left_at.take() {
            self.gap_at(Gap::RunsTwice, place);
            self.note_unseen(cpu);
        }
    }

    /// Takes the task off its CPU and into `state`.
    pub(super) fn stop(&mut self, index: TaskIndex, at_ns: u64, state: State) {
        let task = self.task(index);
        task.work_until(at_ns);
        let cold = task.end_burst(at_ns);
        let before = std::mem::replace(&mut task.state, state);
        task.ready_ns = at_ns;
        if let State::Running { cpu, .. } = before {
            self.cpu(cpu).cold = cold;
        }
        let task = self.task(index);
        if let Some(Unsure { gap_at: Some(place), earliest_ns, position, .. }) = task.unsure.take() {
            self.gap_at(Gap::SwitchInUnseen, place);
            self.explained.unseen_ns += position.time_ns.saturating_sub(earliest_ns);
        }
    }

    /// Returns how long after it was picked a task is switched in, if its CPU was idle and the switch was not seen.
    fn gap_ns(&self, was_idle: bool) -> u64 {
        if was_idle { self.picked.gap_ns() } else { 0 }
    }

    /// A task that turns up on a CPU has left the one on which it was seen last.
    fn leave_other_cpu(&mut self, index: TaskIndex) {
        if let State::Running { cpu: other, .. } = self.tasks[index as usize].state {
            self.vacate(other);
            self.cpu(other).left_at = Some(self.place);
        }
    }

    /// Puts `name` on `cpu`, which is vacant. A task without earlier events was there before the recording; if it is
    /// switched in now, it has waited for a CPU since the recording began.
    pub(super) fn run(&mut self, cpu: u32, name: &TaskName<'_>, how: &SwitchIn) {
        if name.tid == 0 {
            self.idle(cpu);
            return;
        }
        let known = self.living(name);
        let index = known.unwrap_or_else(|| self.add_task(name, None, 0));
        self.leave_other_cpu(index);
        let (now_ns, position, place) = (self.now_ns, self.position(), self.place);
        let cpu_free_ns = self.cpu(cpu).last_ns;
        let was_idle = matches!(how, SwitchIn::Unseen { was_idle: true, .. });
        let gap_ns = self.gap_ns(was_idle);
        let leaves_idle = self.cpu(cpu).on == OnCpu::Idle;
        let cold =
            if leaves_idle { self.cold_after_idle(cpu) } else { std::mem::take(&mut self.cpu(cpu).cold) };
        let task = self.task(index);
        task.picked_by_idle = (leaves_idle && *how == SwitchIn::Seen).then_some(now_ns);
        let earliest_ns = cpu_free_ns.max(task.ready_ns);
        let ran_from_ns = task.ran_from_ns.take();
        let (since_ns, unsure, inferred) = match *how {
            SwitchIn::Seen => (now_ns, None, false),
            SwitchIn::Unseen { was_idle, ran_ns } => {
                let picked_ns = ran_ns.map(|ran_ns| now_ns.saturating_sub(ran_ns)).or(ran_from_ns);
                let said_ns = picked_ns.map(|ns| (ns + gap_ns).min(now_ns));
                // An idle CPU switches at once to a task that was woken for it.
                let guessed_ns = if was_idle && task.state == State::Runnable { earliest_ns } else { now_ns };
                let unsure = Unsure {
                    earliest_ns,
                    guessed_ns,
                    base_units: task.work_units,
                    position,
                    first_step: task.steps.len(),
                    slept: false,
                    gap_at: was_idle.then_some(place),
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
        self.learn_switch_in(cpu, index, since_ns, how, unsure.is_none());
        match self.tasks[index as usize].state {
            State::Born { parent } => self.start_child(index, parent),
            State::Blocked { .. } => self.end_unseen_wait(index, cpu, since_ns),
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
        task.begin_burst(since_ns);
        task.begin_cold(cold);
        task.watched.switched_in(since_ns, cpu);
        let prev = self.cpu(cpu).prev.take();
        self.begin_piece(cpu, index, *how == SwitchIn::Seen, leaves_idle || prev.is_none());
        if *how == SwitchIn::Seen {
            self.charge_switch(cpu, index, prev, from);
        }
        self.update_speeds(cpu);
    }

    /// Puts the idle task on `cpu`.
    fn idle(&mut self, cpu: u32) {
        let now_ns = self.now_ns;
        let entry = self.cpu(cpu);
        entry.on = OnCpu::Idle;
        entry.idle_since_ns = now_ns;
        entry.notified = false;
        entry.prev = None;
        self.update_speeds(cpu);
    }

    /// Learns from a switch-in on `cpu`, whose time is known for sure or guessed, and notes when the CPU left its idle
    /// task.
    fn learn_switch_in(&mut self, cpu: u32, index: TaskIndex, since_ns: u64, how: &SwitchIn, is_sure: bool) {
        if self.cpu(cpu).on == OnCpu::Idle {
            let is_unseen = *how != SwitchIn::Seen;
            let left_idle = is_unseen.then(|| (since_ns, self.due_before_ns(cpu, since_ns)));
            self.cpu(cpu).left_idle = left_idle;
            if is_unseen {
                self.note_left_idle(cpu);
            }
        }
        if is_sure {
            self.learn_idle_exit(cpu, index, since_ns);
        }
        if *how == SwitchIn::Seen {
            self.learn_preemption(cpu, index);
        }
    }

    /// Learns from the switch-in of a task that was woken while `cpu` was idle: from another CPU, or by an interrupt
    /// on this one. One interrupt may wake several tasks; it is left after the last wake-up.
    fn learn_idle_exit(&mut self, cpu: u32, index: TaskIndex, since_ns: u64) {
        let Cpu { idle_since_ns, woke_ns, .. } = *self.cpu(cpu);
        let task = &self.tasks[index as usize];
        if let (OnCpu::Idle, Some((from, woken_ns))) = (self.cpus[cpu as usize].on, task.woken_from)
            && task.state == State::Runnable
            && task.watched.woken_at() == Some(woken_ns)
            && idle_since_ns <= woken_ns
        {
            let latency_ns = since_ns.saturating_sub(woken_ns);
            if from != cpu {
                self.learnt.idle_wakes.push(IdleWake { idled_ns: woken_ns - idle_since_ns, latency_ns });
            } else {
                self.learnt.leaving_interrupt_ns.push(since_ns.saturating_sub(woke_ns));
            }
        }
    }

    /// Learns from the first event after a switch-in on `cpu`.
    pub(super) fn learn_after_switch(&mut self, cpu: u32) {
        if let Some((switched_ns, changes_process)) = self.cpu(cpu).switched.take() {
            let after_ns = self.now_ns - switched_ns;
            self.learnt.after_switches_ns[usize::from(changes_process)].push(after_ns);
        }
    }

    /// Learns from the end of a wake-up that its waker carries out on `cpu`.
    pub(super) fn learn_queueing(&mut self, cpu: u32, wakee: TaskIndex) {
        let task = &self.tasks[wakee as usize];
        if let (Some((from, woken_ns)), Some(waker)) = (task.woken_from, task.woken_by)
            && from == cpu
            && self.cpus[cpu as usize].on == OnCpu::Task(waker)
        {
            self.learnt.queueing_ns.push(self.now_ns - woken_ns);
        }
    }

    /// Learns from the switch-in of a task for which another one, which ran on `cpu`, gives way: its waker, or a task
    /// that a waker on another CPU has interrupted. One that yields gives way by itself. The measured time of that
    /// wake-up contains the interrupt.
    fn learn_preemption(&mut self, cpu: u32, index: TaskIndex) {
        let task = &self.tasks[index as usize];
        let (Some((from, woken_ns)), Some(prev)) = (task.woken_from, self.cpus[cpu as usize].prev) else {
            return;
        };
        let latency_ns = self.now_ns - woken_ns;
        if task.state != State::Runnable
            || task.watched.woken_at() != Some(woken_ns)
            || self.tasks[prev as usize].state != State::Runnable
            || self.tasks[prev as usize].yielded
            || latency_ns > CALL_NS_MAX
        {
            return;
        }
        if from != cpu {
            self.learnt.interrupting_ns.push(latency_ns);
        } else if task.woken_by == Some(prev) {
            self.learnt.preempting_ns.push(latency_ns);
        }
    }

    /// Switches `prev` out on `cpu`, for `next`.
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
        let (now_ns, position) = (self.now_ns, self.position());
        self.task(index).rename(prev);
        let state = match why {
            SwitchedOut::Runnable => State::Runnable,
            SwitchedOut::Blocked => State::Blocked { since_ns: began_ns, position },
            SwitchedOut::Exited => State::Exited,
        };
        self.stop(index, now_ns, state);
        if why == SwitchedOut::Runnable {
            self.task(index).watched.preempted(now_ns);
            if next.tid != 0 {
                self.note_waits(index);
            }
        }
        self.explained.tasks_exited += u64::from(why == SwitchedOut::Exited);
    }
}
