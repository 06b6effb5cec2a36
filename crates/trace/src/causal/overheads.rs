// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's part of a task's CPU time. With [`crate::Options::recorded_on`] it is taken off the task's work,
//! because a replay charges it again.
//!
//! What is taken off is what a replay charges again, and no more: a replay on the same machine must take the same CPU
//! time.
//!
//! Measured, if the recording tells:
//! - placing and queueing: from sched_waking to its sched_wakeup on the same CPU (for a fork, to sched_wakeup_new), or
//!   the machine's cost of a wake-up, if that is more, but at most twice that time;
//! - an interrupt that wakes a task, and a tick: from its entry to its exit. A replay has no other interrupts, so these
//!   stay in the work of the task that they hit;
//! - looking for another task: from the scheduler's last account (sched_stat_runtime) to the switch-out of a task that
//!   goes to sleep. Where it is preempted, yields or has exited, a replay charges nothing for that, so that it stays in
//!   its work.
//!
//! Of a measured time, at most [`MOST`] times the machine's cost is taken off, if that is known: a longer time holds
//! something else, such as a host that took the CPU.
//!
//! Otherwise taken from the costs of the recorded machine: the switch, refilling caches, placing and queueing, sending
//! interrupts to idle CPUs that queue their tasks themselves, handling interrupts that preempt, interrupts known by
//! flags alone, ticks, fork, exec, exit, the call before a sleep, and balancing before idling. It is not known what
//! decisions and balancing read, so that stays in the work.
//!
//! Offsets in a task's work never go back. What would move them back is taken off what follows until the task leaves
//! its CPU: a read that has slept returns before as much time has passed as a switch costs, because a part of what a
//! sleep costs comes later. What is left then is not taken off, but counted (`overhead_clamped_ns`), except for the
//! sleep that begins there (`sleep_ns`): a poll() that slept looks at its descriptors again afterwards, so the rest of
//! that is taken off what the task does next.

use wakelab_machine::Cold;
use wakelab_workload::{Op, TaskIndex};

use super::calls::SAME_CALL_NS;
use super::{Cause, Model, OnCpu, Waker};
use crate::event::{Context, Event, SwitchedOut, TaskName, What};
use crate::learnt::{CALL_NS_MAX, Next, WakingInterrupt};
use crate::program::Step;
use crate::rescale::{Recorded, UNITS};

/// How much longer than its cost a path of the kernel may take.
const MOST: u64 = 8;

/// Returns the most of a measured time that is taken off for a path of the kernel that costs `cost_ns`.
fn most_ns(cost_ns: u64) -> u64 {
    if cost_ns == 0 { u64::MAX } else { cost_ns.saturating_mul(MOST) }
}

/// A wake-up in progress on a CPU, until the first event there that is not about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waking {
    /// The waker.
    task: TaskIndex,
    wakee_tid: u32,
    since_ns: u64,
    /// Where the wakee goes, as far as it is known.
    target: u32,
    /// That CPU idles.
    idles: bool,
    /// When the waker had queued the wakee.
    queued_ns: Option<u64>,
    /// The wakee is new.
    forks: bool,
}

impl Model {
    /// Takes `ns` off the work of `task`, by a cost of the machine.
    pub(super) fn charge_kernel(&mut self, task: TaskIndex, ns: u64) {
        self.task(task).kernel_units += ns * UNITS;
    }

    /// Takes off the work of `task`, which runs on `cpu`, all that it did since `since_ns`, if that costs about
    /// `cost_ns`; 0: not known. What events cost there is taken off already.
    fn charge_kernel_since(&mut self, cpu: u32, task: TaskIndex, since_ns: u64, cost_ns: u64) {
        let since_ns = since_ns.max(self.tasks[task as usize].burst_since_ns);
        let took_ns = self.took_ns(cpu, since_ns).min(most_ns(cost_ns));
        let task = self.task(task);
        task.kernel_units += took_ns * u64::from(task.speed);
    }

    /// Returns the time on `cpu` since `since_ns`, less what is taken off for events there.
    fn took_ns(&self, cpu: u32, since_ns: u64) -> u64 {
        self.now_ns.saturating_sub(since_ns).saturating_sub(self.recorder_ns_since(cpu, since_ns))
    }

    /// Sets the speeds of the core of `cpu`, which may have become busy or idle.
    pub(super) fn update_speeds(&mut self, cpu: u32) {
        let is_busy = matches!(self.cpu(cpu).on, OnCpu::Task(_));
        self.neighbours.set_busy(cpu, is_busy, self.now_ns);
        let OnCpu::Task(_) = self.cpu(cpu).on else {
            if let Some(recorded) = &mut self.recorded
                && recorded.set_busy(cpu, false)
            {
                self.set_speeds(cpu);
            }
            return;
        };
        if let Some(recorded) = &mut self.recorded {
            recorded.set_busy(cpu, true);
            self.set_speeds(cpu);
        }
    }

    fn set_speeds(&mut self, cpu: u32) {
        let Some(recorded) = self.recorded.take() else { return };
        let now_ns = self.now_ns;
        for &sibling in recorded.siblings(cpu) {
            if let OnCpu::Task(index) = self.cpu(sibling).on {
                let task = self.task(index);
                task.charge_until(now_ns);
                task.speed = recorded.speed(sibling);
            }
        }
        self.recorded = Some(recorded);
    }

    /// Whether a switch from `prev` to `task` changes the address space.
    pub(super) fn changes_process(&self, prev: Option<TaskIndex>, task: TaskIndex) -> bool {
        let process = |index: TaskIndex| {
            let task = &self.tasks[index as usize];
            task.process.unwrap_or(task.tid)
        };
        prev.is_some_and(|prev| process(prev) != process(task))
    }

    /// Charges a switch on `cpu` from `prev` to `task`. `from` is the CPU where `task` ran last, if it left something
    /// of use in the caches there.
    pub(super) fn charge_switch(
        &mut self,
        cpu: u32,
        task: TaskIndex,
        prev: Option<TaskIndex>,
        from: Option<u32>,
    ) {
        let footprint_bytes = self.footprint_bytes(task);
        let changes_process = self.changes_process(prev, task);
        self.cpu(cpu).switched = Some((self.now_ns, changes_process));
        self.note_switch_back(task, changes_process);
        let Some(recorded) = &mut self.recorded else { return };
        let refill_ns = recorded.refill_ns(task, cpu, from, footprint_bytes);
        let costs = &recorded.costs;
        let switch_ns = if changes_process { costs.switch_process_ns } else { costs.switch_thread_ns };
        self.charge_kernel(task, switch_ns + refill_ns);
    }

    /// Charges the placement of a task that `task` forks or wakes on `cpu`, and that ran on `target` last.
    pub(super) fn charge_waking(
        &mut self,
        cpu: u32,
        task: TaskIndex,
        wakee_tid: u32,
        target: u32,
        forks: bool,
    ) {
        if let Some(wake_ns) = self.recorded.as_ref().map(Recorded::wake_ns) {
            self.charge_kernel(task, wake_ns);
        }
        let (since_ns, idles) = (self.now_ns, self.idles(target));
        let waking = Waking { task, wakee_tid, since_ns, target, idles, queued_ns: None, forks };
        self.cpu(cpu).waking = Some(waking);
    }

    /// Whether a recorder made the recording. Others may be exports of a simulation, where a system call takes as
    /// little time as the machine's costs say, so that time does not tell calls apart.
    pub(super) fn is_recorded(&self) -> bool {
        self.header.as_ref().is_some_and(|header| !header.made_by.is_empty())
    }

    /// Whether a CPU idles, and knows of no task; one without events so far does. Its switch to a task that was woken
    /// for it may not have been recorded, so that it does not idle any more.
    fn idles(&self, cpu: u32) -> bool {
        let cpu = self.cpus.get(cpu as usize);
        cpu.is_none_or(|cpu| match cpu.on {
            OnCpu::Idle => !cpu.notified,
            OnCpu::Unknown => cpu.last_ns == 0,
            OnCpu::Task(_) => false,
        })
    }

    /// Follows a wake-up on the CPU of this event, before anything else is made of the event. The waker's part ends at
    /// the first event that is not about the wake-up. If the wakee's CPU idled, the waker has sent an interrupt then.
    pub(super) fn follow_waking(&mut self, event: &Event<'_>) {
        let Some(cpu) = self.cpus.get_mut(event.cpu as usize) else { return };
        cpu.in_call = None;
        let Some(waking) = cpu.waking else { return };
        match event.what {
            What::Migrate { task, to_cpu, .. } if task.tid == waking.wakee_tid => {
                let idles = self.idles(to_cpu);
                self.cpu(event.cpu).waking = Some(Waking { target: to_cpu, idles, ..waking });
                return;
            }
            // The end of queueing, which `charge_wakeup` reads.
            What::Wakeup { task, .. } | What::WakeupNew { task, .. } if task.tid == waking.wakee_tid => {
                return;
            }
            // Queueing brings the account of the queue's current task up to date.
            What::Runtime { task, .. } if task.tid != self.tasks[waking.task as usize].tid => return,
            What::Runtime { .. } if waking.queued_ns.is_none() && waking.target == event.cpu => {
                if !waking.forks && !matches!(event.context, Context::Interrupt(_)) {
                    self.learnt.accounting_ns.push(self.now_ns - waking.since_ns);
                }
                return;
            }
            _ => {}
        }
        self.cpu(event.cpu).waking = None;
        if self.cpu(event.cpu).on != OnCpu::Task(waking.task) {
            return;
        }
        let is_queued = waking.queued_ns.is_some();
        if let (What::Waking { .. }, Some(queued_ns)) = (&event.what, waking.queued_ns)
            && !waking.forks
            && self.is_recorded()
            && self.now_ns - queued_ns <= SAME_CALL_NS
        {
            self.cpu(event.cpu).in_call = Some((waking.task, self.now_ns - queued_ns));
        }
        let sends = waking.target != event.cpu && waking.idles;
        if sends {
            self.cpu(waking.target).notified = true;
        }
        // A waker that queues its wakee sends the interrupt before it logs that, so the measured time contains it.
        if let Some(recorded) = &self.recorded
            && sends
            && !is_queued
        {
            let (send_ns, wakeup_ns) = (recorded.costs.ipi_send_ns, recorded.costs.wakeup_ns);
            let leaves_queueing = recorded.is_in_another_llc(event.cpu, waking.target);
            self.charge_kernel(waking.task, send_ns);
            if leaves_queueing {
                let task = self.task(waking.task);
                task.kernel_units = task.kernel_units.saturating_sub(wakeup_ns * UNITS);
            }
        }
        let is_local = waking.target == event.cpu && is_queued;
        if (sends || is_local) && !matches!(event.context, Context::Interrupt(_)) {
            let took_ns = self.now_ns - waking.since_ns;
            if took_ns > CALL_NS_MAX {
                return;
            }
            self.learnt.after_wakes.entry(Next::of(&event.what)).or_default().add(sends, took_ns);
        }
    }

    /// Charges the end of a wake-up: the wakee is queued on `target`.
    pub(super) fn charge_wakeup(&mut self, event: &Event<'_>, wakee_tid: u32, target: u32) {
        let idles = self.idles(target);
        let current = self.cpu(event.cpu).on;
        if let Some(waking) = self.cpu(event.cpu).waking
            && waking.wakee_tid == wakee_tid
            && current == OnCpu::Task(waking.task)
        {
            self.cpu(event.cpu).waking =
                Some(Waking { target, idles, queued_ns: Some(self.now_ns), ..waking });
            if let Some(recorded) = &self.recorded {
                let wake_ns = recorded.wake_ns();
                let sends = idles && target != event.cpu;
                let send_ns = if sends { recorded.costs.ipi_send_ns } else { 0 };
                // The measured time replaces what was charged at the beginning. A wake-up goes on after its last event,
                // but for no longer than it has taken until then.
                let took_ns = self.took_ns(event.cpu, waking.since_ns);
                let task = self.task(waking.task);
                let before_units = task.kernel_units.saturating_sub(wake_ns * UNITS);
                task.kernel_units = before_units;
                self.charge_kernel_since(event.cpu, waking.task, waking.since_ns, wake_ns + send_ns);
                let task = self.task(waking.task);
                let least_units = before_units + wake_ns.min(2 * took_ns) * UNITS;
                task.kernel_units = task.kernel_units.max(least_units);
            }
            return;
        }
        let Some(recorded) = &self.recorded else { return };
        let (handle_ns, wakeup_ns) = (recorded.costs.ipi_handle_ns, recorded.costs.wakeup_ns);
        let woken_from = self.by_tid.get(&wakee_tid).and_then(|&wakee| self.tasks[wakee as usize].woken_from);
        if let Some((from, _)) = woken_from
            && recorded.is_in_another_llc(from, event.cpu)
            && let OnCpu::Task(current) = current
            && event.interrupt_since_ns.is_none()
        {
            // The waker sent an interrupt, so that this CPU queues the wakee.
            self.charge_kernel(current, handle_ns + wakeup_ns);
        }
    }

    /// Charges an interrupt that ended and that a replay has, too; or one that wakes a task and is known by its flag
    /// alone.
    pub(super) fn charge_interrupt(&mut self, event: &Event<'_>) {
        let OnCpu::Task(current) = self.cpus.get(event.cpu as usize).map(|cpu| cpu.on).unwrap_or_default()
        else {
            return;
        };
        let wakes = matches!(event.what, What::Waking { .. });
        let entry = self.cpu(event.cpu);
        if event.interrupt_since_ns.is_some() {
            entry.irq_wakes += u32::from(wakes);
            entry.irq_queued += u32::from(matches!(event.what, What::Wakeup { cpu, .. } if cpu == event.cpu));
            entry.irq_ticks |= event.what == What::Tick;
        }
        if let Some(since_ns) = event.interrupt_ended_ns {
            let (wakes, ticks) = (std::mem::take(&mut entry.irq_wakes), std::mem::take(&mut entry.irq_ticks));
            let is_local = std::mem::take(&mut entry.irq_queued) == wakes;
            let since_ns = since_ns.saturating_sub(self.first_ns.unwrap_or(0));
            let took_ns = self.now_ns.saturating_sub(since_ns);
            if ticks {
                let last_ns = self.cpu(event.cpu).ticked_ns.replace(since_ns);
                self.learnt.between_ticks_ns.extend(last_ns.map(|last_ns| since_ns.saturating_sub(last_ns)));
            }
            match (ticks, wakes) {
                (false, 0) | (true, 1..) => {}
                // An interrupt to another CPU takes long, and is charged apart.
                (false, _) if !is_local => {}
                (false, wakes) => self.learnt.interrupts.push(WakingInterrupt { took_ns, wakes }),
                (true, 0) => self.learnt.ticks_ns.push(took_ns),
            }
            let Some(recorded) = &self.recorded else { return };
            let costs = &recorded.costs;
            let tick_ns = if ticks { costs.tick_ns } else { 0 };
            let wakes_ns = recorded.waking_interrupt_ns(wakes);
            if ticks || wakes > 0 {
                self.charge_kernel_since(event.cpu, current, since_ns, tick_ns + wakes_ns);
            }
        } else if matches!(event.context, Context::Interrupt(_))
            && event.interrupt_since_ns.is_none()
            && wakes
            && let Some(recorded) = &self.recorded
        {
            let flagged_ns = recorded.waking_interrupt_ns(1);
            self.charge_kernel(current, flagged_ns);
        }
    }

    /// Charges what the kernel did before `task` left `cpu` for `next`.
    pub(super) fn charge_switch_out(
        &mut self,
        cpu: u32,
        task: TaskIndex,
        why: SwitchedOut,
        next: &TaskName<'_>,
    ) {
        if why == SwitchedOut::Exited {
            let now_ns = self.now_ns;
            let last_ns = self.task(task).ran_until(now_ns);
            self.learnt.before_exits_ns.push(last_ns);
        }
        let footprint_bytes = self.footprint_bytes(task);
        let Some(recorded) = &mut self.recorded else { return };
        recorded.use_caches(task, cpu, footprint_bytes);
        let costs = &recorded.costs;
        let (exit_ns, handle_ns) = (costs.exit_ns, costs.ipi_handle_ns);
        let balance_ns = if next.tid == 0 { costs.balance_ns } else { 0 };
        let is_blocked = why == SwitchedOut::Blocked;
        let (sleep_ns, dequeue_ns) = if is_blocked { (costs.sleep_ns, costs.dequeue_ns) } else { (0, 0) };
        let most_ns = most_ns(balance_ns.max(dequeue_ns));
        let leaving_units = (dequeue_ns + balance_ns) * UNITS;
        let (period_ns, tick_ns) = (costs.tick_period_ns.max(1), costs.tick_ns);
        let now_ns = self.now_ns;
        let tracked = self.task(task);
        tracked.charge_until(now_ns);
        let ticks = tracked.cpu_ns / period_ns - tracked.burst_cpu_ns / period_ns;
        if !self.ticks_seen {
            self.charge_kernel(task, ticks * tick_ns);
        }
        let tracked = &self.tasks[task as usize];
        let burst_since_ns = tracked.burst_since_ns;
        let kernel_units = match tracked.accounted_ns {
            Some(at_ns) if at_ns >= burst_since_ns && is_blocked => {
                let looked_ns = self.took_ns(cpu, at_ns).min(most_ns);
                (looked_ns * u64::from(tracked.speed)).max(leaving_units)
            }
            _ if why != SwitchedOut::Runnable => leaving_units,
            _ => 0,
        };
        let tracked = self.task(task);
        tracked.sleep_units = sleep_ns * UNITS;
        tracked.kernel_units += tracked.sleep_units + kernel_units;
        if why == SwitchedOut::Exited && !self.tasks[task as usize].exit_seen {
            self.charge_kernel(task, exit_ns);
        }
        let woken_from = self.by_tid.get(&next.tid).and_then(|&next| self.tasks[next as usize].woken_from);
        if why == SwitchedOut::Runnable
            && let Some((from, at_ns)) = woken_from
            && from != cpu
            && at_ns >= burst_since_ns
        {
            self.charge_kernel(task, handle_ns);
        }
    }

    /// Charges the current task of `cpu` with a fork, an exec or an exit, at the cost that `of` returns.
    pub(super) fn charge_call(&mut self, cpu: u32, of: impl Fn(&Recorded) -> u64) {
        if let Some(ns) = self.recorded.as_ref().map(of)
            && let OnCpu::Task(current) = self.cpu(cpu).on
        {
            self.charge_kernel(current, ns);
        }
    }

    /// Charges the exit of the current task, which may still wake its parent: most of an exit's work comes before that.
    pub(super) fn charge_exit(&mut self, cpu: u32) {
        if let OnCpu::Task(current) = self.cpu(cpu).on {
            self.task(current).exit_seen = true;
            self.charge_call(cpu, |recorded| recorded.costs.exit_ns);
            if let Cause::Task(Waker { task, work_units, position }) = self.cause(cpu, Context::Task, None) {
                self.task(task).steps.push(Step { position, at_units: work_units, op: Op::BeginExit });
            }
        }
    }

    /// Returns when the wait began to which the current switch-out belongs: by the scheduler's account, if there is
    /// one.
    pub(super) fn wait_began_ns(&self, task: TaskIndex) -> u64 {
        let tracked = &self.tasks[task as usize];
        match tracked.accounted_ns {
            Some(at_ns) if self.recorded.is_some() && at_ns >= tracked.burst_since_ns => at_ns,
            _ => self.now_ns,
        }
    }

    /// Returns since when all CPUs of the core of `cpu` have been idle. A CPU without events has always been idle.
    fn core_idle_since_ns(&self, recorded: &Recorded, cpu: u32) -> u64 {
        let siblings = recorded.siblings(cpu).iter().filter_map(|&sibling| self.cpus.get(sibling as usize));
        let idle_since_ns = siblings.map(|cpu| match cpu.on {
            OnCpu::Task(_) => self.now_ns,
            OnCpu::Idle | OnCpu::Unknown => cpu.idle_since_ns,
        });
        idle_since_ns.max().unwrap_or(0)
    }

    /// Returns when the wake-up by an interrupt was due: at the interrupt's beginning, less the exit latency of an idle
    /// core.
    pub(super) fn due_ns(&self, event: &Event<'_>) -> u64 {
        let first_ns = self.first_ns.unwrap_or(0);
        let Some(since_ns) = event.interrupt_since_ns else { return self.now_ns };
        let since_ns = since_ns.saturating_sub(first_ns);
        match (&self.recorded, self.cpus[event.cpu as usize].on) {
            (Some(recorded), OnCpu::Idle) => self.before_exit_ns(recorded, event.cpu, since_ns),
            _ => since_ns,
        }
    }

    /// Returns when `cpu`, which idled until then, began to leave its idle state for an interrupt that it entered at
    /// `entered_ns`.
    fn before_exit_ns(&self, recorded: &Recorded, cpu: u32, entered_ns: u64) -> u64 {
        let idled_ns = entered_ns.saturating_sub(self.core_idle_since_ns(recorded, cpu));
        let of_cpu_ns = entered_ns.saturating_sub(self.cpus[cpu as usize].idle_since_ns);
        entered_ns - recorded.costs.idle_state(idled_ns).exit_latency_ns.min(of_cpu_ns)
    }

    /// Returns what a task does slowly that is switched in now on `cpu`, which has idled until then; in 1/1024 ns.
    pub(super) fn cold_after_idle(&self, cpu: u32) -> Cold {
        let Some(recorded) = &self.recorded else { return Cold::default() };
        let exits_ns = self.before_exit_ns(recorded, cpu, self.now_ns);
        let idled_ns = exits_ns.saturating_sub(self.core_idle_since_ns(recorded, cpu));
        recorded.costs.idle_state(idled_ns).cold(UNITS)
    }

    /// Returns when the wake-up was due after which a task was switched in at `switched_ns` on `cpu`, which idled: as
    /// long before as the exit from idle, the interrupt and the wake-up take, but not before the CPU idled.
    pub(super) fn due_before_ns(&self, cpu: u32, switched_ns: u64) -> u64 {
        let Some(recorded) = &self.recorded else { return switched_ns };
        let handling_ns = recorded.waking_interrupt_ns(1) + recorded.costs.interrupt_exit_ns;
        let entered_ns = switched_ns.saturating_sub(handling_ns).max(self.cpus[cpu as usize].idle_since_ns);
        self.before_exit_ns(recorded, cpu, entered_ns.min(switched_ns))
    }

    fn footprint_bytes(&self, task: TaskIndex) -> u64 {
        let tid = self.tasks[task as usize].tid;
        self.told.get(tid).map_or(wakelab_workload::DEFAULT_FOOTPRINT_BYTES, |known| known.footprint_bytes)
    }
}
