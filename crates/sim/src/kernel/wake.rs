// SPDX-License-Identifier: GPL-2.0-or-later
//! Wake-ups: the way from "a task makes B runnable on CPU 3" to "B is queued on CPU 7, and CPU 7 knows it".
//!
//! 1. The policy selects a CPU. This is a select segment on the waker's CPU, which takes as long as the decision's
//!    reads.
//! 2. The wake-up proper is a wake-up segment there. At its end the task is queued; the rest of the wake-up
//!    (`wakeup_exit_ns`), and what the policy read to decide on preemption, is paid for next. Under `mainline`, a CPU
//!    behind another LLC is only sent an interrupt, and does this step itself when the interrupt arrives. An idle CPU
//!    that was chosen is claimed until then. Linux's own searches (profile.rs) claim nothing: a CPU looks idle until a
//!    task is queued there, or in its wake list. Such a search reads the CPU that it chooses last, so it counts what
//!    that CPU is when the select segment ends. If a task was queued there in the meantime, the search goes on: the
//!    policy selects again, with the lines that it has read in its cache. If none was, but one is on its way, both go
//!    there.
//! 3. The CPU is notified if it is idle, or if its task must give way: by an interrupt if it is another CPU.
//!
//! A task that is woken while its CPU is still leaving it goes back there without a search (`leaving`). To a
//! search, that CPU would not look idle yet, and the task would take the place of another one.
//!
//! A CPU that was notified and has not rescheduled yet is not notified again.

use wakelab_policy::{Decision, Enqueue, EnqueueIn, EnqueueWhy, Reason, SelectIn, WAKE_FORK, WAKE_IRQ};

use crate::engine::Engine;
use crate::hardware::cpu::Doing;
use crate::ids::{NONE, UNITS};
use crate::kernel::cpu::{Todo, Wakeup};
use crate::kernel::thread::Life;
use crate::observer::Observer;
use crate::time_use::TimeKind;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// Starts a task without a parent: placed, at no cost, like a fork on the CPU on which it last ran, or on CPU 0.
    /// The CPU that gets it is interrupted at once.
    pub(crate) fn start_task(&mut self, task: u32) {
        let now_ns = self.hardware.now_ns;
        self.make_runnable(task, false);
        let this_cpu = self.kernel.threads[task as usize].cpu;
        self.ledger.observer.start(now_ns, this_cpu, task);
        let wakeup = match self.pinned_to(task) {
            Some(cpu) => Wakeup { wakee: task, flags: WAKE_FORK, cpu, claimed: false },
            None => {
                let input = self.select_input(this_cpu, task, WAKE_FORK);
                let record = &mut self.kernel.records[task as usize];
                // Not the CPU's own: that may be in the middle of another decision.
                let decision = self.kernel.host.select_for_free(&input, record);
                self.ledger.tally.decision(&decision, self.kernel.host.misses());
                self.ledger.observer.decision(now_ns, this_cpu, task, &decision);
                self.accept_decision(task, WAKE_FORK, decision.cpu, decision.claimed != 0)
            }
        };
        self.enqueue(None, task, wakeup.cpu, EnqueueWhy::Fork);
        self.end_claim(&wakeup);
    }

    /// Wakes `wakee` from `cpu`, whose current task, if any, is the waker.
    #[inline(never)]
    pub(crate) fn start_wakeup(&mut self, cpu: u32, wakee: u32, flags: u32) {
        let is_fork = flags & WAKE_FORK != 0;
        let now_ns = self.hardware.now_ns;
        self.make_runnable(wakee, !is_fork);
        let waker = self.kernel.cpus[cpu as usize].curr;
        if self.kernel.threads[wakee as usize].judged {
            let by_task = waker != NONE && flags & WAKE_IRQ == 0;
            let batch_ns =
                if by_task { self.kernel.threads[waker as usize].batch_since_ns } else { u64::MAX };
            self.kernel.threads[wakee as usize].latency_since_ns = now_ns.min(batch_ns);
        }
        if is_fork {
            self.ledger.tally.counts.forks += 1;
        } else {
            self.ledger.tally.counts.wakeups += 1;
            self.ledger.observer.wake(now_ns, cpu, (waker != NONE).then_some(waker), wakee, flags);
        }
        // A task that is still queued is woken there, like ttwu_runnable() does.
        let queued_on = self.kernel.threads[wakee as usize].delayed_on();
        if let Some(only) = queued_on.or_else(|| self.pinned_to(wakee)) {
            self.kernel.cpus[cpu as usize].wakeup = Wakeup { wakee, flags, cpu: only, claimed: false };
            self.begin_wakeup(cpu);
            return;
        }
        if let Some(old) = self.leaving(wakee).filter(|&old| old != cpu) {
            return self.leave_to(cpu, Wakeup { wakee, flags, cpu: old, claimed: false });
        }
        self.kernel.cpus[cpu as usize].wakeup_since_ns = now_ns;
        self.start_select(cpu, wakee, flags, waker);
    }

    /// The CPU that is still inside schedule() to leave the task, if that CPU would be idle next: it queues the task
    /// itself, as in try_to_wake_up() while `p->on_cpu` is set (ttwu_queue_wakelist() with WF_ON_CPU, since Linux 5.8).
    /// Kernels before that spin until the CPU has left the task, and then find it idle.
    fn leaving(&self, wakee: u32) -> Option<u32> {
        let cpu = self.kernel.threads[wakee as usize].cpu;
        let old = &self.kernel.cpus[cpu as usize];
        let is_on_cpu = old.scheduling && old.context == wakee && old.curr == NONE;
        let may_queue = self.kernel.profile.has_wake_list() && self.is_allowed(wakee, cpu);
        (is_on_cpu && may_queue && self.kernel.runqueues[cpu as usize].is_empty()).then_some(cpu)
    }

    /// Begins the select segment of a wake-up, or begins it again.
    fn start_select(&mut self, cpu: u32, wakee: u32, flags: u32, waker: u32) {
        let answer_ns = self.select(cpu, wakee, flags, waker);
        let k = &mut self.kernel.cpus[cpu as usize];
        k.select_misses = *self.kernel.host.misses();
        k.search_cost = self.kernel.host.search_cost();
        k.select_since_ns = self.hardware.now_ns;
        let (chosen, claims) = (k.decision.cpu, k.decision.claimed != 0);
        self.kernel.cpus[cpu as usize].wakeup = self.accept_decision(wakee, flags, chosen, claims);
        let cost_ns = self.costs.select_ns + answer_ns;
        self.hardware.cpus[cpu as usize].set(Doing::Select, TimeKind::Select, cost_ns * UNITS);
    }

    fn make_runnable(&mut self, task: u32, woken: bool) {
        self.ledger.checker.wake(task);
        let t = &mut self.kernel.threads[task as usize];
        t.life = Life::Runnable;
        t.woken = woken;
        t.waits_since_ns = self.hardware.now_ns;
        self.ledger.observer.wait(self.hardware.now_ns, task);
    }

    /// The only CPU on which the task may run, if the kernel does not ask the policy about such a task.
    fn pinned_to(&self, task: u32) -> Option<u32> {
        let anywhere = !self.kernel.threads[task as usize].limited && self.kernel.cpus.len() > 1;
        if anywhere || self.kernel.profile.selects_for_pinned() {
            return None;
        }
        match self.workload.tasks[task as usize].allowed.as_deref() {
            Some(&[only]) => Some(only),
            None if self.kernel.cpus.len() == 1 => Some(0),
            _ => None,
        }
    }

    fn select_input(&self, this_cpu: u32, wakee: u32, flags: u32) -> SelectIn {
        SelectIn {
            this_cpu: this_cpu as i32,
            prev_cpu: self.kernel.threads[wakee as usize].cpu as i32,
            flags,
            unused: 0,
            now_ns: self.hardware.now_ns,
        }
    }

    /// Asks the policy where the wakee should run: the CPU's `decision`. Returns the nanoseconds that the answer takes.
    pub(crate) fn select(&mut self, this_cpu: u32, wakee: u32, flags: u32, waker: u32) -> u64 {
        let input = self.select_input(this_cpu, wakee, flags);
        let kernel = &mut self.kernel;
        let decision = &mut kernel.cpus[this_cpu as usize].decision;
        let answer_ns = if waker == NONE {
            kernel.host.select(&input, &mut kernel.records[wakee as usize], None, decision)
        } else {
            let [wakee, waker] = kernel
                .records
                .get_disjoint_mut([wakee as usize, waker as usize])
                .expect("a task that runs does not wake itself");
            kernel.host.select(&input, wakee, Some(waker), decision)
        };
        self.ledger.observer.decision(input.now_ns, this_cpu, wakee, decision);
        answer_ns
    }

    /// Turns a decision for the CPU `chosen` into a wake-up, and notes whether it claims that CPU. A CPU that the task
    /// may not use fails the run.
    pub(crate) fn accept_decision(&mut self, wakee: u32, flags: u32, chosen: i32, claims: bool) -> Wakeup {
        let mut cpu = chosen as u32;
        if cpu as usize >= self.kernel.cpus.len() || !self.is_allowed(wakee, cpu) {
            let what =
                move || format!("the policy placed task {wakee} on CPU {chosen}, where it is not allowed");
            self.ledger.checker.fail(what);
            cpu = self.kernel.threads[wakee as usize].cpu;
        }
        let claimed = claims && self.kernel.claims;
        if claimed {
            self.begin_claim(cpu);
        } else if claims {
            self.kernel.host.set_idle_mask(cpu, true);
        }
        Wakeup { wakee, flags, cpu, claimed }
    }

    /// The idle mask says that the idle CPU is taken.
    fn begin_claim(&mut self, cpu: u32) {
        self.kernel.cpus[cpu as usize].claims += 1;
        self.ledger.checker.begin_claim(cpu);
        self.ledger.idle_runnable.set_idle(cpu, false, self.hardware.now_ns);
        self.ledger.observer.idle_bit(self.hardware.now_ns, cpu, false);
    }

    /// A claim ends when its wake-up has queued the task. If the task went elsewhere, the CPU is given back.
    pub(crate) fn end_claim(&mut self, wakeup: &Wakeup) {
        if !wakeup.claimed {
            return;
        }
        let c = &mut self.kernel.cpus[wakeup.cpu as usize];
        c.claims -= 1;
        let unused = c.claims == 0 && c.is_idle() && !c.need_resched;
        self.ledger.checker.end_claim(wakeup.cpu);
        if unused && self.kernel.runqueues[wakeup.cpu as usize].is_empty() {
            self.set_idle_bit(wakeup.cpu, true);
        }
    }

    /// Writes the idle mask.
    pub(crate) fn set_idle_bit(&mut self, cpu: u32, idle: bool) {
        self.kernel.host.set_idle_mask(cpu, idle);
        self.ledger.idle_runnable.set_idle(cpu, idle, self.hardware.now_ns);
        self.ledger.observer.idle_bit(self.hardware.now_ns, cpu, idle);
    }

    /// The end of a select segment.
    pub(crate) fn finish_select(&mut self, cpu: u32) {
        let k = &self.kernel.cpus[cpu as usize];
        let wakeup = k.wakeup;
        if self.was_taken(&wakeup, &k.decision) {
            return self.start_select(cpu, wakeup.wakee, wakeup.flags, k.curr);
        }
        let now_ns = self.hardware.now_ns;
        if k.decision.scan_timed != 0 {
            self.kernel.host.scan_took(cpu, &k.decision, now_ns - k.select_since_ns);
        }
        self.ledger.tally.decision(&k.decision, &k.select_misses);
        self.ledger.tally.searches.add(&k.search_cost, now_ns - k.wakeup_since_ns);
        let is_remote = || {
            let llc = |cpu: u32| self.hardware.cpus[cpu as usize].llc;
            llc(cpu) != llc(wakeup.cpu)
        };
        if self.kernel.profile.has_wake_list() && wakeup.flags & WAKE_FORK == 0 && is_remote() {
            let wakeup = self.claim_for_list(wakeup);
            self.leave_to(cpu, wakeup);
        } else {
            self.begin_wakeup(cpu);
        }
    }

    /// Leaves a wake-up to its CPU, which is interrupted.
    fn leave_to(&mut self, cpu: u32, wakeup: Wakeup) {
        let list = &mut self.kernel.cpus[wakeup.cpu as usize].wake_list;
        list.push(wakeup);
        // If the list was not empty, an interrupt is already on its way.
        if list.len() == 1 {
            self.send_ipi(Some(cpu), wakeup.cpu);
        }
        self.run_pending(cpu);
    }

    /// The CPU begins to idle with wake-ups in its list, for which it does not look idle.
    pub(crate) fn claim_own_list(&mut self, cpu: u32) {
        for at in 0..self.kernel.cpus[cpu as usize].wake_list.len() {
            let wakeup = &mut self.kernel.cpus[cpu as usize].wake_list[at];
            if !std::mem::replace(&mut wakeup.claimed, true) {
                self.begin_claim(cpu);
            }
        }
    }

    /// Whether a wake-up without a claim chose a CPU for being idle that no longer is.
    fn was_taken(&self, wakeup: &Wakeup, decision: &Decision) -> bool {
        let may_search_on = !self.kernel.claims && wakeup.flags & WAKE_FORK == 0;
        let chose_idle = decision.claimed != 0 && decision.reason() != Reason::OnlyAllowed;
        may_search_on && chose_idle && !self.kernel.host.idle_mask(wakeup.cpu)
    }

    /// A CPU with a wake-up in its list does not look idle.
    fn claim_for_list(&mut self, wakeup: Wakeup) -> Wakeup {
        if wakeup.claimed || !self.kernel.host.idle_mask(wakeup.cpu) {
            return wakeup;
        }
        self.kernel.host.set_idle_mask(wakeup.cpu, false);
        self.begin_claim(wakeup.cpu);
        Wakeup { claimed: true, ..wakeup }
    }

    /// Begins the wake-up proper, with the lock of the wakee's runqueue.
    pub(crate) fn begin_wakeup(&mut self, cpu: u32) {
        let wait = self.lock_runqueue(cpu, self.kernel.cpus[cpu as usize].wakeup.cpu);
        let before_ns = self.costs.wakeup_ns - self.after_queueing_ns();
        let c = &mut self.hardware.cpus[cpu as usize];
        c.set(Doing::Wakeup, TimeKind::Wakeup, before_ns * UNITS);
        c.add_tail(TimeKind::RunqueueLock, wait);
    }

    /// The part of a wake-up that follows the queueing.
    fn after_queueing_ns(&self) -> u64 {
        self.costs.wakeup_exit_ns.min(self.costs.wakeup_ns)
    }

    /// The end of a wake-up segment: the wakee joins the queue.
    pub(crate) fn finish_wakeup(&mut self, cpu: u32) {
        let wakeup = self.kernel.cpus[cpu as usize].wakeup;
        self.take_woken_sleeper(wakeup.wakee);
        let why = if wakeup.flags & WAKE_FORK != 0 { EnqueueWhy::Fork } else { EnqueueWhy::Wakeup };
        let transfers_ns = self.enqueue(Some(cpu), wakeup.wakee, wakeup.cpu, why);
        self.end_claim(&wakeup);
        let cost_ns = transfers_ns + self.after_queueing_ns();
        self.hardware.cpus[cpu as usize].set(Doing::Kernel, TimeKind::Wakeup, cost_ns * UNITS);
    }

    /// Queues the task where the policy says, and notifies that CPU if necessary: from the CPU `sender`, or from no
    /// CPU. Returns the nanoseconds that the policy's reads and writes cost. A task of a throttled group is parked.
    pub(crate) fn enqueue(&mut self, sender: Option<u32>, task: u32, cpu: u32, why: EnqueueWhy) -> u64 {
        let (target, transfers_ns) = match self.quota_holds(cpu, task) {
            true => (cpu, self.park(cpu, task)),
            false => self.join_queue(sender, task, cpu, why),
        };
        if matches!(why, EnqueueWhy::Wakeup | EnqueueWhy::Fork) {
            self.ledger.observer.woken(self.hardware.now_ns, sender, target, task);
        }
        transfers_ns
    }

    /// As [`Engine::enqueue`], for a task that was woken before, and may wait. Also returns the CPU.
    pub(crate) fn join_queue(
        &mut self,
        sender: Option<u32>,
        task: u32,
        cpu: u32,
        why: EnqueueWhy,
    ) -> (u32, u64) {
        let now_ns = self.hardware.now_ns;
        let record = &mut self.kernel.records[task as usize];
        let this_cpu = sender.unwrap_or(cpu);
        let input = EnqueueIn { cpu, why: why as u32, this_cpu, unused: 0, now_ns };
        let mut answer = Enqueue::default();
        let transfers_ns = self.kernel.host.enqueue(&input, record, &mut answer);
        let mut target = answer.cpu as u32;
        if target as usize >= self.kernel.cpus.len() {
            let named = answer.cpu;
            self.ledger.checker.fail(move || format!("the policy queued task {task} on CPU {named}"));
            target = cpu;
        }
        self.ledger.tally.enqueue(&answer.reads, self.kernel.host.misses());
        let t = &mut self.kernel.threads[task as usize];
        t.slice_ns = answer.slice_ns;
        self.kernel.runqueues[target as usize].insert(answer.key, task, t.limited);
        if self.kernel.cpus[target as usize].busy {
            self.start_waiting(task);
        } else if self.kernel.host.idle_mask(target) {
            self.set_idle_bit(target, false);
        }
        self.ledger.checker.enqueue(task, target);
        self.check_place(task);
        self.ledger.observer.enqueue(now_ns, target, task, why);
        let preempts = self.preempts(target, task, answer.preempt(), cpu, why);
        let wakes = matches!(why, EnqueueWhy::Wakeup | EnqueueWhy::Fork);
        self.resched_curr(sender, target, preempts, if wakes { self.after_queueing_ns() } else { 0 });
        self.skip_clock(target, why);
        (target, transfers_ns)
    }

    /// Makes `target` reschedule if it idles, or if its task must give way. The sender goes on after `after_ns`.
    pub(crate) fn resched_curr(&mut self, sender: Option<u32>, target: u32, preempt: bool, after_ns: u64) {
        let c = &mut self.kernel.cpus[target as usize];
        if c.scheduling || (c.busy && !preempt) {
            return;
        }
        if c.busy && self.kernel.profile.owns_slices() {
            let curr = &mut self.kernel.threads[c.curr as usize];
            curr.slice_ns = 0;
            curr.slice_since_ns = self.hardware.now_ns;
        }
        if std::mem::replace(&mut c.need_resched, true) {
            return;
        }
        if sender == Some(target) {
            // A task that wakes another first finishes its system call, unless the kernel can be preempted. An exit
            // can be on the way, where exit_mm() and the like call cond_resched(), but after its last wake-up it has no
            // end but the task's.
            let delay_ns = if c.busy && !c.in_interrupt { self.costs.preempt_delay_ns } else { 0 };
            c.resched_at_ns = match delay_ns {
                0 => self.hardware.now_ns,
                _ if self.programs.is_exiting(c.curr) => {
                    if self.programs.wakes_next(c.curr) {
                        self.hardware.now_ns
                    } else {
                        u64::MAX
                    }
                }
                _ => {
                    c.resched_after_call = true;
                    self.hardware.now_ns + after_ns + delay_ns
                }
            };
            return;
        }
        c.resched_at_ns = 0;
        if let Some(sender) = sender
            && c.busy
            && self.costs.remote_preempt_delay_ns > 0
        {
            let flight_ns = self.costs.ipi_flight_ns[self.distances.between(sender, target).index()];
            let interrupt_ns = after_ns + self.costs.ipi_send_ns + flight_ns + self.costs.ipi_handle_ns;
            c.resched_at_ns = self.hardware.now_ns + interrupt_ns + self.costs.remote_preempt_delay_ns;
        }
        self.send_ipi(sender, target);
    }

    fn send_ipi(&mut self, sender: Option<u32>, target: u32) {
        let faults = &mut self.kernel.faults;
        faults.ipis += 1;
        if faults.ipis == faults.lost_ipi {
            return;
        }
        self.ledger.checker.kick_sent(target);
        if faults.ipis == faults.stuck_ipi {
            return;
        }
        match sender {
            Some(sender) => self.kernel.cpus[sender as usize].todo.push_front(Todo::Send(target)),
            None => self.hardware.queue.push_ipi(target, self.hardware.now_ns),
        }
    }

    /// The end of a send segment: the interrupt is in flight.
    pub(crate) fn finish_send_ipi(&mut self, cpu: u32) {
        if let Some(Todo::Send(target)) = self.kernel.cpus[cpu as usize].todo.pop_front() {
            let distance = self.distances.between(cpu, target);
            let arrival_ns = self.hardware.now_ns + self.costs.ipi_flight_ns[distance.index()];
            self.hardware.queue.push_ipi(target, arrival_ns);
            self.ledger.tally.counts.ipis += 1;
        }
        self.run_pending(cpu);
    }

    /// Checks that the policy counts the task where the kernel has it.
    pub(crate) fn check_place(&mut self, task: u32) {
        let record = &self.kernel.records[task as usize];
        self.ledger.checker.policy_counts(task, record.place, record.cpu);
    }

    pub(crate) fn is_allowed(&self, task: u32, cpu: u32) -> bool {
        !self.kernel.threads[task as usize].limited
            || self.kernel.records[task as usize].allowed[cpu as usize / 64] >> (cpu % 64) & 1 != 0
    }

    /// `cpu` takes the lock of `target`'s runqueue. Returns the work that it spends spinning, in 1/1024 ns.
    pub(crate) fn lock_runqueue(&mut self, cpu: u32, target: u32) -> u64 {
        let lock = &mut self.kernel.runqueues[target as usize].lock;
        let wait_ns = lock.take(cpu, self.hardware.now_ns, self.costs.runqueue_lock_ns);
        if wait_ns == 0 { 0 } else { wait_ns * self.hardware.speed(cpu).units() }
    }

    /// The task starts to wait behind another one, on a busy CPU.
    pub(crate) fn start_waiting(&mut self, task: u32) {
        let now_ns = self.hardware.now_ns;
        if !self.kernel.threads[task as usize].limited {
            self.ledger.idle_runnable.add_unlimited(1, now_ns);
        } else if let Some(allowed) = self.workload.tasks[task as usize].allowed.as_deref() {
            self.ledger.idle_runnable.add_limited(allowed, now_ns);
        }
    }

    pub(crate) fn stop_waiting(&mut self, task: u32) {
        let now_ns = self.hardware.now_ns;
        if !self.kernel.threads[task as usize].limited {
            self.ledger.idle_runnable.sub_unlimited(1, now_ns);
        } else if let Some(allowed) = self.workload.tasks[task as usize].allowed.as_deref() {
            self.ledger.idle_runnable.sub_limited(allowed, now_ns);
        }
    }
}
