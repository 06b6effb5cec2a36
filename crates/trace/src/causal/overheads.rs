// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's part of a task's CPU time. With [`crate::Options::recorded_on`] it is taken off the task's work,
//! because a replay charges it again.
//!
//! Measured, if the recording tells:
//! - placing and queueing: from sched_waking to its sched_wakeup on the same CPU (for a fork, to sched_wakeup_new);
//! - an interrupt: from its entry to its exit;
//! - looking for another task: from the scheduler's last account (sched_stat_runtime) to the switch-out.
//!
//! Otherwise taken from the costs of the recorded machine: the switch, refilling caches, placing and queueing, sending
//! interrupts to idle CPUs and handling those that preempt, interrupts known by flags alone, ticks, fork, exec, exit,
//! and balancing before idling. It is not known what decisions and balancing read, so that stays in the work.
//!
//! Offsets in a task's work never go back. Time that would move them back is not taken off, but counted
//! (`overhead_clamped_ns`).

use wakelab_workload::TaskIndex;

use super::{Model, OnCpu};
use crate::event::{Context, Event, SwitchedOut, TaskName};
use crate::rescale::{Recorded, UNITS};

/// A wake-up in progress on a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waking {
    /// The waker.
    task: TaskIndex,
    wakee_tid: u32,
    since_ns: u64,
}

impl Model {
    /// Takes `ns` off the work of `task`, by a cost of the machine.
    fn charge_kernel(&mut self, task: TaskIndex, ns: u64) {
        self.task(task).kernel_units += ns * UNITS;
    }

    /// Takes off the work of `task` all that it did since `since_ns`.
    fn charge_kernel_since(&mut self, task: TaskIndex, since_ns: u64) {
        let now_ns = self.now_ns;
        let task = self.task(task);
        let since_ns = since_ns.max(task.burst_since_ns);
        task.kernel_units += now_ns.saturating_sub(since_ns) * u64::from(task.speed);
    }

    /// Sets the speeds of the core of `cpu`, which may have become busy or idle.
    pub(super) fn update_speeds(&mut self, cpu: u32) {
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
        let Some(recorded) = &mut self.recorded else { return };
        let refill_ns = recorded.refill_ns(task, cpu, from, footprint_bytes);
        let process = |index: TaskIndex| {
            let task = &self.tasks[index as usize];
            task.process.unwrap_or(task.tid)
        };
        let costs = &recorded.costs;
        let switch_ns = match prev {
            Some(prev) if process(prev) != process(task) => costs.switch_process_ns,
            _ => costs.switch_thread_ns,
        };
        self.charge_kernel(task, switch_ns + refill_ns);
    }

    /// Charges the placement of a task that `task` forks or wakes on `cpu`.
    pub(super) fn charge_waking(&mut self, cpu: u32, task: TaskIndex, wakee_tid: u32) {
        let Some(wake_ns) = self.recorded.as_ref().map(Recorded::wake_ns) else { return };
        self.charge_kernel(task, wake_ns);
        let since_ns = self.now_ns;
        self.cpu(cpu).waking = Some(Waking { task, wakee_tid, since_ns });
    }

    /// Charges the end of a wake-up: the wakee is queued on `target`.
    pub(super) fn charge_wakeup(&mut self, event: &Event<'_>, wakee_tid: u32, target: u32) {
        let Some(recorded) = &self.recorded else { return };
        let (wake_ns, wakeup_ns) = (recorded.wake_ns(), recorded.costs.wakeup_ns);
        let (send_ns, handle_ns) = (recorded.costs.ipi_send_ns, recorded.costs.ipi_handle_ns);
        // A CPU without events so far idles.
        let idles = self
            .cpus
            .get(target as usize)
            .is_none_or(|cpu| cpu.on == OnCpu::Idle || (cpu.on == OnCpu::Unknown && cpu.last_ns == 0));
        let sends = target != event.cpu && idles;
        let current = self.cpu(event.cpu).on;
        let here = self.cpu(event.cpu).waking.take_if(|waking| waking.wakee_tid == wakee_tid);
        if let Some(waking) = here
            && current == OnCpu::Task(waking.task)
        {
            // The measured time replaces what was charged at the beginning.
            let task = self.task(waking.task);
            task.kernel_units = task.kernel_units.saturating_sub(wake_ns * UNITS);
            self.charge_kernel_since(waking.task, waking.since_ns);
            let now_ns = self.now_ns;
            let task = self.task(waking.task);
            task.pending_units += if sends { send_ns * UNITS } else { 0 };
            task.pending_since_ns = now_ns;
            return;
        }
        let woken_from = self.by_tid.get(&wakee_tid).and_then(|&wakee| self.tasks[wakee as usize].woken_from);
        let Some((from, _)) = woken_from else { return };
        // The waker sent an interrupt, so that this CPU queues the wakee.
        if let Some(waking) = self.cpu(from).waking.take_if(|waking| waking.wakee_tid == wakee_tid) {
            let task = self.task(waking.task);
            task.kernel_units = (task.kernel_units + send_ns * UNITS).saturating_sub(wakeup_ns * UNITS);
        }
        if let OnCpu::Task(current) = current
            && event.interrupt_since_ns.is_none()
        {
            self.charge_kernel(current, handle_ns + wakeup_ns);
        }
    }

    /// Charges an interrupt that ended, or one that wakes a task and is known by its flag alone.
    pub(super) fn charge_interrupt(&mut self, event: &Event<'_>) {
        let Some(recorded) = &self.recorded else { return };
        let OnCpu::Task(current) = self.cpus.get(event.cpu as usize).map(|cpu| cpu.on).unwrap_or_default()
        else {
            return;
        };
        let flagged_ns = recorded.costs.interrupt_ns + recorded.wake_ns();
        if let Some(since_ns) = event.interrupt_ended_ns {
            self.charge_kernel_since(current, since_ns.saturating_sub(self.first_ns.unwrap_or(0)));
        } else if matches!(event.context, Context::Interrupt(_))
            && event.interrupt_since_ns.is_none()
            && matches!(event.what, crate::event::What::Waking { .. })
        {
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
        let footprint_bytes = self.footprint_bytes(task);
        let Some(recorded) = &mut self.recorded else { return };
        recorded.use_caches(task, cpu, footprint_bytes);
        let costs = &recorded.costs;
        let (balance_ns, exit_ns, handle_ns) = (costs.balance_ns, costs.exit_ns, costs.ipi_handle_ns);
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
        match tracked.accounted_ns {
            Some(at_ns) if at_ns >= burst_since_ns => self.charge_kernel_since(task, at_ns),
            _ if why != SwitchedOut::Runnable && next.tid == 0 => self.charge_kernel(task, balance_ns),
            _ => {}
        }
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

    /// Charges the exit of the current task, which may still wake its parent.
    pub(super) fn charge_exit(&mut self, cpu: u32) {
        if let OnCpu::Task(current) = self.cpu(cpu).on {
            self.task(current).exit_seen = true;
            self.charge_call(cpu, |recorded| recorded.costs.exit_ns);
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
        let cpu = &self.cpus[event.cpu as usize];
        match (&self.recorded, cpu.on) {
            (Some(recorded), OnCpu::Idle) => {
                let idled_ns = since_ns.saturating_sub(self.core_idle_since_ns(recorded, event.cpu));
                let of_cpu_ns = since_ns.saturating_sub(cpu.idle_since_ns);
                since_ns - recorded.idle_exit_ns(idled_ns).min(of_cpu_ns)
            }
            _ => since_ns,
        }
    }

    fn footprint_bytes(&self, task: TaskIndex) -> u64 {
        let tid = self.tasks[task as usize].tid;
        self.told.get(tid).map_or(wakelab_workload::DEFAULT_FOOTPRINT_BYTES, |known| known.footprint_bytes)
    }
}
