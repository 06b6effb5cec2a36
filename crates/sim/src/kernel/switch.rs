// SPDX-License-Identifier: GPL-2.0-or-later
//! Context switches. A task is switched in when it is picked: from then on the CPU's time is charged to it, including
//! the switch, as with sched_switch; where clock.rs says so, from the wake-up on. A CPU that finds no task tells the
//! policy that it idles, sets its idle bit, and then switches to its idle task.

use wakelab_machine::Distance;

use crate::engine::Engine;
use crate::hardware::cpu::Doing;
use crate::ids::{NONE, UNITS};
use crate::kernel::cpu::READ_AGAIN;
use crate::observer::Observer;
use crate::time_use::TimeKind;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// mainline: the task that was put back is picked again, without a switch.
    pub(crate) fn run_again(&mut self, cpu: u32, task: u32) {
        self.set_curr(cpu, task);
        self.ledger.observer.keep(self.hardware.now_ns, cpu, task);
        let cost_ns = std::mem::take(&mut self.kernel.cpus[cpu as usize].extra_switch_ns);
        self.hardware.cpus[cpu as usize].set(Doing::Kernel, TimeKind::Switch, cost_ns * UNITS);
    }

    /// Makes a task the current one.
    fn set_curr(&mut self, cpu: u32, task: u32) {
        let now_ns = self.hardware.now_ns;
        let clock_ns = self.clock_ns(cpu);
        let writes_ns = self.kernel.host.running(&mut self.kernel.records[task as usize], cpu, clock_ns);
        self.ledger.checker.run(task, cpu, self.is_allowed(task, cpu));
        self.check_place(task);
        let t = &mut self.kernel.threads[task as usize];
        t.runs_since_ns = clock_ns;
        t.charged_ns = clock_ns;
        t.slice_since_ns = now_ns;
        let c = &mut self.kernel.cpus[cpu as usize];
        c.clock_ns = READ_AGAIN;
        c.extra_switch_ns += writes_ns;
        c.curr = task;
    }

    /// Switches from the CPU's last context to a task.
    pub(crate) fn switch_to(&mut self, cpu: u32, task: u32) {
        let now_ns = self.hardware.now_ns;
        let previous = self.kernel.cpus[cpu as usize].context;
        self.switch_out(cpu);
        let process = |task: u32| self.kernel.threads[task as usize].process;
        let is_process_switch = previous != NONE && process(previous) != process(task);
        let switch_ns =
            if is_process_switch { self.costs.switch_process_ns } else { self.costs.switch_thread_ns };
        let updates_ns = if self.kernel.cpus[cpu as usize].busy { 0 } else { self.set_busy(cpu) };
        self.set_curr(cpu, task);
        let t = &self.kernel.threads[task as usize];
        let waited_ns = now_ns - t.waits_since_ns;
        self.ledger.tally.switch_in(waited_ns, t.woken);
        if t.judged {
            let latency_since_ns = t.woken.then_some(t.latency_since_ns);
            self.ledger.tally.judged_switch_in(task, now_ns, waited_ns, latency_since_ns);
        }
        self.ledger.observer.waited(now_ns, cpu, task, waited_ns);
        let (ran, left) = (t.ran, t.cpu);
        if ran && left != cpu && self.kernel.cpus[left as usize].context == task {
            self.leave_caches(left, task);
        }
        let from = ran.then(|| self.distances.between(left, cpu));
        if let Some(distance) = from.filter(|&distance| distance != Distance::Cpu) {
            self.ledger.tally.migrations[distance.index()] += 1;
        }
        let t = &mut self.kernel.threads[task as usize];
        t.ran = true;
        t.cpu = cpu;
        let from = from.filter(|_| !t.is_cold);
        t.is_cold = false;
        let refill = self.hardware.fill_caches(cpu, task, t.footprint_bytes, from);
        // What it had not fetched when it left is still missing, but nothing is missing twice.
        t.refill = t.refill.max(refill);
        let k = &mut self.kernel.cpus[cpu as usize];
        k.context = task;
        let cost_ns = switch_ns + std::mem::take(&mut k.extra_switch_ns);
        let c = &mut self.hardware.cpus[cpu as usize];
        c.set(Doing::Kernel, TimeKind::Switch, cost_ns * UNITS);
        c.add_tail(TimeKind::Atomic, updates_ns * UNITS);
        self.ledger.observer.switch_in(now_ns, cpu, task);
    }

    /// Leaves the CPU's last context, and notes it if it was a task's.
    fn switch_out(&mut self, cpu: u32) {
        let c = &mut self.kernel.cpus[cpu as usize];
        let task = std::mem::replace(&mut c.context, NONE);
        if task == NONE {
            return;
        }
        let runnable = c.put_back == task;
        self.leave_caches(cpu, task);
        self.ledger.tally.counts.switches_out += 1;
        self.ledger.tally.counts.preemptions += u64::from(runnable);
        self.ledger.observer.switch_out(self.hardware.now_ns, cpu, task, runnable);
    }

    /// The task leaves the caches of a CPU. A CPU that still balances may leave a task that runs elsewhere already:
    /// that task left this CPU when the other one switched to it.
    fn leave_caches(&mut self, cpu: u32, task: u32) {
        let thread = &self.kernel.threads[task as usize];
        if thread.cpu == cpu {
            self.hardware.leave_caches(cpu, task, thread.footprint_bytes);
        }
    }

    /// The CPU stops idling. Returns the nanoseconds that the updates of the policy's counters take.
    fn set_busy(&mut self, cpu: u32) -> u64 {
        let now_ns = self.hardware.now_ns;
        let (writes_ns, updates_ns) = self.kernel.host.busy(cpu, now_ns);
        self.set_idle_bit(cpu, false);
        let c = &mut self.kernel.cpus[cpu as usize];
        c.extra_switch_ns += writes_ns;
        c.busy = true;
        let (period_ns, phase_ns) = (self.costs.tick_period_ns, c.tick_phase_ns);
        // The first time after now in the CPU's own grid of ticks.
        let next_ns = match now_ns.checked_sub(phase_ns) {
            Some(since_ns) => phase_ns + (since_ns / period_ns + 1) * period_ns,
            None => phase_ns,
        };
        self.hardware.queue.set_tick(cpu, next_ns);
        self.count_waiting(cpu, true);
        updates_ns
    }

    /// Switches to the idle task.
    pub(crate) fn switch_to_idle(&mut self, cpu: u32) {
        let now_ns = self.hardware.now_ns;
        let was_busy = self.kernel.cpus[cpu as usize].busy;
        self.switch_out(cpu);
        let mut updates_ns = 0;
        if was_busy {
            self.ledger.observer.idle(now_ns, cpu);
            let cost = self.kernel.host.idle(cpu, now_ns);
            self.kernel.cpus[cpu as usize].extra_switch_ns += cost.transfers_ns;
            updates_ns = cost.updates_ns;
            self.count_waiting(cpu, false);
            self.hardware.queue.cancel_tick(cpu);
        }
        let k = &mut self.kernel.cpus[cpu as usize];
        k.busy = false;
        k.clock_ns = READ_AGAIN;
        k.scheduling = false;
        k.tick_pending = false;
        let extra_ns = std::mem::take(&mut k.extra_switch_ns);
        let cost_ns = if was_busy { self.costs.switch_thread_ns + extra_ns } else { 0 };
        let c = &mut self.hardware.cpus[cpu as usize];
        c.set(Doing::Kernel, TimeKind::Switch, cost_ns * UNITS);
        c.add_tail(TimeKind::Atomic, updates_ns * UNITS);
        if !self.kernel.cpus[cpu as usize].wake_list.is_empty() {
            self.claim_own_list(cpu);
        } else if self.kernel.runqueues[cpu as usize].is_empty() {
            self.set_idle_bit(cpu, true);
        }
    }

    /// The tasks queued on the CPU start, or stop, waiting behind a running task.
    fn count_waiting(&mut self, cpu: u32, waits: bool) {
        let now_ns = self.hardware.now_ns;
        let queue = &self.kernel.runqueues[cpu as usize];
        let idle_runnable = &mut self.ledger.idle_runnable;
        if waits {
            idle_runnable.add_unlimited(queue.unlimited, now_ns);
        } else {
            idle_runnable.sub_unlimited(queue.unlimited, now_ns);
        }
        if queue.len() == queue.unlimited as usize {
            return;
        }
        for task in queue.iter().filter(|&task| self.kernel.threads[task as usize].limited) {
            let allowed = self.workload.tasks[task as usize].allowed.as_deref().unwrap_or_default();
            if waits {
                idle_runnable.add_limited(allowed, now_ns);
            } else {
                idle_runnable.sub_limited(allowed, now_ns);
            }
        }
    }
}
