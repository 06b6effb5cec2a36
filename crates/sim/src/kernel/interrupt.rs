// SPDX-License-Identifier: GPL-2.0-or-later
//! Interrupts: from other CPUs, from timers and devices, the tick, and the policy's timer (groups.rs). The running task
//! pays for them; an idle CPU leaves its idle state first. Interrupts from other CPUs that are pending at the same time
//! are handled as one, and so are timers; each device has its own.

use wakelab_policy::WAKE_IRQ;
use wakelab_workload::{Op, Source};

use crate::engine::Engine;
use crate::hardware::cpu::Doing;
use crate::ids::{NONE, UNITS};
use crate::kernel::cpu::{TickAnswer, Todo};
use crate::observer::Observer;
use crate::time_use::TimeKind;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// An interrupt is pending on the CPU: handles it now if the CPU can be interrupted, otherwise when its kernel path
    /// is done.
    pub(crate) fn interrupt(&mut self, cpu: u32) {
        self.kernel.cpus[cpu as usize].interrupted = true;
        match self.hardware.cpus[cpu as usize].doing {
            Doing::Idle => {
                let state = self.hardware.idle_state(cpu);
                self.kernel.cpus[cpu as usize].cold = state.cold(UNITS);
                self.settle(cpu);
                self.ledger.checker.set_idle(cpu, false);
                let exit_units = self.hardware.exit_ns(cpu, &state) * UNITS;
                self.hardware.cpus[cpu as usize].set(Doing::IdleExit, TimeKind::IdleExit, exit_units);
                self.go(cpu);
            }
            Doing::Task => {
                self.settle(cpu);
                self.save_segment(cpu);
                self.run_pending(cpu);
                self.go(cpu);
            }
            _ => {}
        }
    }

    /// Begins to handle what is pending: other CPUs' interrupts, then timers, the tick, the policy's timer. Returns
    /// false if nothing is pending.
    pub(crate) fn take_interrupt(&mut self, cpu: u32) -> bool {
        let now_ns = self.hardware.now_ns;
        let k = &mut self.kernel.cpus[cpu as usize];
        let c = &mut self.hardware.cpus[cpu as usize];
        if std::mem::take(&mut k.in_interrupt) {
            self.ledger.observer.interrupt_exit(now_ns, cpu);
        }
        if std::mem::take(&mut k.ipi_pending) {
            if !k.busy {
                k.read_clock(now_ns);
            }
            c.set(Doing::HandleIpi, TimeKind::Ipi, self.costs.ipi_handle_ns * UNITS);
        } else if let Some(&sleeper) = k.timers.front() {
            k.in_interrupt = true;
            self.ledger.observer.interrupt_enter(now_ns, cpu, source_of(self.programs.op(sleeper)));
            c.set(Doing::Interrupt, TimeKind::Interrupt, self.costs.interrupt_ns * UNITS);
        } else if std::mem::take(&mut k.tick_pending) {
            self.start_tick(cpu);
        } else if std::mem::take(&mut k.policy_timer_pending) {
            self.start_policy_timer_interrupt(cpu);
        } else if !k.released.is_empty() {
            self.start_quota_interrupt(cpu);
        } else {
            k.interrupted = false;
            return false;
        }
        true
    }

    /// Takes over the wake-ups that other CPUs left here.
    pub(crate) fn finish_ipi(&mut self, cpu: u32) {
        let c = &mut self.kernel.cpus[cpu as usize];
        c.todo.extend(c.wake_list.drain(..).map(Todo::Queue));
        self.run_pending(cpu);
    }

    /// A timer's or device's interrupt has been handled: its task is woken next. A timer's interrupt runs every timer
    /// that is due on the CPU (hrtimer_interrupt() in Linux), so it wakes all their tasks.
    pub(crate) fn finish_interrupt(&mut self, cpu: u32) {
        let is_timer = |task: u32| source_of(self.programs.op(task)) == Source::Timer;
        let k = &mut self.kernel.cpus[cpu as usize];
        if let Some(first) = k.timers.pop_front() {
            k.todo.push_back(Todo::Wake(first, WAKE_IRQ));
            if is_timer(first) {
                let todo = &mut k.todo;
                k.timers.retain(|&task| {
                    let is_due = is_timer(task);
                    todo.extend(is_due.then_some(Todo::Wake(task, WAKE_IRQ)));
                    !is_due
                });
            }
            if k.curr == NONE && self.costs.interrupt_exit_ns > 0 {
                k.todo.push_back(Todo::LeaveInterrupt);
            }
        }
        self.run_pending(cpu);
    }

    /// Begins the tick, and tells the policy. The policy's answer is carried out at the end.
    fn start_tick(&mut self, cpu: u32) {
        let now_ns = self.hardware.now_ns;
        self.kernel.cpus[cpu as usize].read_clock(now_ns);
        let is_throttled = self.charge_quota(cpu);
        let k = &mut self.kernel.cpus[cpu as usize];
        k.need_resched |= is_throttled;
        let curr = &mut self.kernel.threads[k.curr as usize];
        let record = &mut self.kernel.records[k.curr as usize];
        let (answer, cost) = self.kernel.host.tick(cpu, record, now_ns);
        if self.kernel.profile.owns_slices() {
            curr.charge_slice(now_ns);
            // The policy balances in its dispatch, which may come long after a balance is due unless the slice ends.
            if answer.resched != 0 || answer.balance_due != 0 {
                curr.slice_ns = 0;
            }
            k.need_resched |= curr.slice_ns == 0;
        } else {
            k.need_resched |= answer.resched != 0;
        }
        k.tick = TickAnswer {
            kick: u32::try_from(answer.kick_cpu).unwrap_or(NONE),
            balance: answer.balance_due != 0 && self.kernel.profile.balances_in_tick(),
            lines_ns: cost.transfers_ns + cost.updates_ns,
        };
        let tick_ns = self.costs.tick_ns;
        self.hardware.cpus[cpu as usize].set(Doing::Tick, TimeKind::Tick, tick_ns * UNITS);
        self.ledger.tally.tick(&answer, &cost.misses);
    }

    /// The end of the tick: kicks an idle CPU, balances.
    pub(crate) fn finish_tick(&mut self, cpu: u32) {
        let TickAnswer { kick, balance, lines_ns } = self.kernel.cpus[cpu as usize].tick;
        if kick != NONE && self.kernel.cpus[kick as usize].is_idle() {
            self.resched_curr(Some(cpu), kick, false, 0);
        }
        if balance {
            self.kernel.cpus[cpu as usize].pulls = 0;
            self.ask_dispatch(cpu, Doing::TickBalance);
            self.hardware.cpus[cpu as usize].remaining += lines_ns * UNITS;
        } else {
            let c = &mut self.hardware.cpus[cpu as usize];
            c.set(Doing::Kernel, TimeKind::Balance, lines_ns * UNITS);
        }
    }
}

/// Returns what ends the sleep that a task is in.
fn source_of(op: Option<&Op>) -> Source {
    match op {
        Some(&(Op::Sleep { source, .. } | Op::SleepUntil { source, .. })) => source,
        _ => Source::Unknown,
    }
}
