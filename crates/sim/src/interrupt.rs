// SPDX-License-Identifier: GPL-2.0-or-later
//! Interrupts: between CPUs, from timers and devices, the tick, and the policy's timer (groups.rs). Whoever runs pays
//! for them; an idle CPU leaves its idle state first. Interrupts from other CPUs that are pending at the same time are
//! handled as one.

use wakelab_policy::WAKE_IRQ;
use wakelab_workload::{Op, Source};

use crate::cpu::{Doing, Kind, NONE, Todo, UNITS, Wakeup};
use crate::engine::Engine;
use crate::observer::Observer;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// Something is pending on the CPU: handles it if the CPU can be interrupted now, else when its kernel path is
    /// done.
    pub(crate) fn interrupt(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        c.interrupted = true;
        match c.doing {
            Doing::Idle => {
                let idled_ns = self.cores[c.core as usize].idled_ns(self.now_ns);
                let latency_ns = self.exit_latency_ns(idled_ns);
                self.settle(cpu);
                self.checker.idles(cpu, false);
                self.cpus[cpu as usize].set(Doing::IdleExit, Kind::IdleExit, latency_ns * UNITS);
                self.go(cpu);
            }
            Doing::Task => {
                self.settle(cpu);
                let c = &self.cpus[cpu as usize];
                let task = &mut self.tasks[c.curr as usize];
                if c.kind == Kind::CacheRefill {
                    task.refill = c.remaining;
                } else {
                    task.remaining = c.remaining;
                    task.tail = c.tail;
                }
                self.next(cpu);
                self.go(cpu);
            }
            _ => {}
        }
    }

    /// Begins to handle what is pending: other CPUs' interrupts, then timers, the tick, the policy's timer. Answers no
    /// if nothing is.
    pub(crate) fn take_interrupt(&mut self, cpu: u32) -> bool {
        let c = &mut self.cpus[cpu as usize];
        if std::mem::take(&mut c.in_interrupt) {
            self.observer.interrupt_exit(self.now_ns, cpu);
        }
        if std::mem::take(&mut c.ipi_pending) {
            c.set(Doing::HandleIpi, Kind::Ipi, self.costs.ipi_handle_ns * UNITS);
        } else if let Some(&sleeper) = c.timers.front() {
            c.in_interrupt = true;
            let program = &self.workload.tasks[sleeper as usize].program;
            let op = program.get(self.tasks[sleeper as usize].pc as usize);
            self.observer.interrupt_enter(self.now_ns, cpu, source_of(op));
            c.set(Doing::Interrupt, Kind::Interrupt, self.costs.interrupt_ns * UNITS);
        } else if std::mem::take(&mut c.tick_pending) {
            self.tick(cpu);
        } else if std::mem::take(&mut c.policy_timer_pending) {
            self.policy_timer(cpu);
        } else {
            c.interrupted = false;
            return false;
        }
        true
    }

    /// How long it takes to leave the idle state that a core is in after so long.
    fn exit_latency_ns(&self, idled_ns: u64) -> u64 {
        let state = self.costs.idle_states.iter().rev().find(|state| state.after_ns <= idled_ns);
        state.map_or(0, |state| state.exit_latency_ns)
    }

    /// Nothing is pending and nothing is current: the CPU idles.
    pub(crate) fn idle(&mut self, cpu: u32) {
        self.cpus[cpu as usize].set(Doing::Idle, Kind::Idle, 0);
    }

    /// Takes over the wake-ups that other CPUs left here.
    pub(crate) fn ipi_handled(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        c.todo.extend(c.wake_list.drain(..).map(Todo::Queue));
        self.next(cpu);
    }

    pub(crate) fn interrupt_handled(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        if let Some(task) = c.timers.pop_front() {
            c.todo.push_back(Todo::Wake(task, WAKE_IRQ));
        }
        self.next(cpu);
    }

    /// The tick: the policy is told at its beginning, and its answer is carried out at its end.
    pub(crate) fn tick(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        let curr = &mut self.tasks[c.curr as usize];
        let answer = self.policy.tick(cpu, Some(&mut self.records[c.curr as usize]), self.now_ns);
        if self.host.owns_slices() {
            curr.charge_slice(self.now_ns);
            // The policy balances in its dispatch: without an end of the slice that could be long after a balance is
            // due.
            if answer.resched != 0 || answer.balance_due != 0 {
                curr.slice_ns = 0;
            }
            c.need_resched |= curr.slice_ns == 0;
        } else {
            c.need_resched |= answer.resched != 0;
        }
        c.tick_balance = answer.balance_due != 0 && self.host.balances_in_tick();
        c.tick_kick = u32::try_from(answer.kick_cpu).unwrap_or(NONE);
        c.set(Doing::Tick, Kind::Tick, self.costs.tick_ns * UNITS);
        let kick = c.tick_kick;
        let claimed = kick != NONE && self.idle_runnable.is_idle(kick) && !self.policy.idle_mask(kick);
        let lines_ns = self.transfers_ns() + self.updates_ns(cpu);
        let c = &mut self.cpus[cpu as usize];
        c.tick_claimed = claimed;
        c.tick_lines_ns = lines_ns;
        if claimed {
            self.claim_begins(kick);
        }
        self.tally.tick(&answer, &self.policy.seen().misses);
    }

    pub(crate) fn tick_over(&mut self, cpu: u32) {
        let c = &self.cpus[cpu as usize];
        let (kick, claimed) = (c.tick_kick, c.tick_claimed);
        if kick != NONE {
            if self.cpus[kick as usize].is_idle() {
                self.notify(Some(cpu), kick, false);
            }
            self.end_claim(&Wakeup { wakee: NONE, flags: 0, cpu: kick, claimed });
        }
        let c = &mut self.cpus[cpu as usize];
        let lines_units = c.tick_lines_ns * UNITS;
        if c.tick_balance {
            c.pulls = 0;
            self.dispatch(cpu, Doing::TickBalance);
            self.cpus[cpu as usize].remaining += lines_units;
        } else {
            c.set(Doing::Kernel, Kind::Balance, lines_units);
        }
    }
}

/// What ends the sleep that a task is in.
fn source_of(op: Option<&Op>) -> Source {
    match op {
        Some(&(Op::Sleep { source, .. } | Op::SleepUntil { source, .. })) => source,
        _ => Source::Unknown,
    }
}
