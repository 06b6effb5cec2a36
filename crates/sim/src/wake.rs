// SPDX-License-Identifier: GPL-2.0-or-later
//! Wake-ups: the way from "somebody makes B runnable on CPU 3" to "B is queued on CPU 7, and CPU 7 knows it".
//!
//! 1. The policy selects a CPU: a select segment on the waker's CPU, by the decision's reads.
//! 2. The wake-up proper: a wake-up segment there. At its end the task is queued; what the policy read to decide on
//!    preemption is paid next. Under `mainline`, a CPU behind another LLC is only sent an interrupt, and does this step
//!    itself when that arrives. An idle CPU that was chosen is claimed until then; by Linux's own searches (host.rs)
//!    only until the search is over, or the task is in another LLC's wake list, so that a search that begins before the
//!    task is queued may choose that CPU too.
//! 3. The CPU is notified if it idles, or if its task shall give way: by an interrupt if it is another CPU.
//!
//! A CPU that was notified and has not rescheduled yet is not notified again.

use wakelab_policy::{Decision, EnqueueWhy, SelectIn, WAKE_FORK};

use crate::cpu::{Doing, Kind, NONE, Todo, UNITS, Wakeup};
use crate::engine::Engine;
use crate::observer::Observer;
use crate::task::Life;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// A task without parent starts: placed as by a fork on the CPU it last ran on, or CPU 0, which costs nobody
    /// anything; the CPU that gets it is interrupted at once.
    pub(crate) fn start(&mut self, task: u32) {
        self.becomes_runnable(task, false);
        let this_cpu = self.tasks[task as usize].cpu;
        self.observer.start(self.now_ns, this_cpu, task);
        let wakeup = match self.pinned_to(task) {
            Some(cpu) => Wakeup { wakee: task, flags: WAKE_FORK, cpu, claimed: false },
            None => {
                let decision = self.decide(this_cpu, task, WAKE_FORK, NONE);
                self.wakeup_to(task, WAKE_FORK, &decision)
            }
        };
        self.enqueue(None, task, wakeup.cpu, EnqueueWhy::Fork);
        self.end_claim(&wakeup);
    }

    /// Wakes `wakee` from `cpu`, whose current task, if any, is the waker.
    pub(crate) fn start_wakeup(&mut self, cpu: u32, wakee: u32, flags: u32) {
        let is_fork = flags & WAKE_FORK != 0;
        self.becomes_runnable(wakee, !is_fork);
        let waker = self.cpus[cpu as usize].curr;
        if is_fork {
            self.tally.counts.forks += 1;
        } else {
            self.tally.counts.wakeups += 1;
            self.observer.wake(self.now_ns, cpu, (waker != NONE).then_some(waker), wakee, flags);
        }
        if let Some(only) = self.pinned_to(wakee) {
            let c = &mut self.cpus[cpu as usize];
            c.wakeup = Wakeup { wakee, flags, cpu: only, claimed: false };
            self.begin_wakeup(cpu);
            return;
        }
        let decision = self.decide(cpu, wakee, flags, waker);
        let wakeup = self.wakeup_to(wakee, flags, &decision);
        let cost_ns = self.costs.select_ns + self.transfers_ns() + self.updates_ns(cpu);
        let search_cost = self.search_cost();
        let c = &mut self.cpus[cpu as usize];
        c.wakeup = wakeup;
        c.decision = decision;
        c.search_cost = search_cost;
        c.select_since_ns = self.now_ns;
        c.set(Doing::Select, Kind::Select, cost_ns * UNITS);
    }

    fn becomes_runnable(&mut self, task: u32, woken: bool) {
        self.checker.woken(task);
        let t = &mut self.tasks[task as usize];
        t.life = Life::Runnable;
        t.woken = woken;
        t.waits_since_ns = self.now_ns;
    }

    /// The only CPU that the task may run on, where the host does not ask the policy about it.
    fn pinned_to(&self, task: u32) -> Option<u32> {
        let anywhere = !self.tasks[task as usize].limited && self.cpus.len() > 1;
        if anywhere || self.host.selects_for_pinned() {
            return None;
        }
        match self.workload.tasks[task as usize].allowed.as_deref() {
            Some(&[only]) => Some(only),
            None if self.cpus.len() == 1 => Some(0),
            _ => None,
        }
    }

    /// Asks the policy.
    pub(crate) fn decide(&mut self, this_cpu: u32, wakee: u32, flags: u32, waker: u32) -> Decision {
        let input = SelectIn {
            this_cpu: this_cpu as i32,
            prev_cpu: self.tasks[wakee as usize].cpu as i32,
            flags,
            unused: 0,
            now_ns: self.now_ns,
        };
        let decision = if waker == NONE {
            self.policy.select(&input, &mut self.records[wakee as usize], None)
        } else {
            let [wakee, waker] = self
                .records
                .get_disjoint_mut([wakee as usize, waker as usize])
                .expect("a task that runs does not wake itself");
            self.policy.select(&input, wakee, Some(waker))
        };
        self.tally.decision(&decision, &self.policy.seen().misses);
        self.observer.decision(self.now_ns, this_cpu, wakee, &decision);
        decision
    }

    /// Notes the claim, and refuses a CPU that cannot be.
    pub(crate) fn wakeup_to(&mut self, wakee: u32, flags: u32, decision: &Decision) -> Wakeup {
        let mut cpu = decision.cpu as u32;
        if cpu as usize >= self.cpus.len() || !self.is_allowed(wakee, cpu) {
            self.checker.fail(format!(
                "the policy placed task {wakee} on CPU {}, where it is not allowed",
                decision.cpu
            ));
            cpu = self.tasks[wakee as usize].cpu;
        }
        let claimed = decision.claimed != 0;
        if claimed {
            self.claim_begins(cpu);
        }
        Wakeup { wakee, flags, cpu, claimed }
    }

    pub(crate) fn claim_begins(&mut self, cpu: u32) {
        self.cpus[cpu as usize].claims += 1;
        self.checker.claimed(cpu);
        self.idle_runnable.set_idle(cpu, false, self.now_ns);
    }

    /// A claim ends when its wake-up has queued, or its kick was sent; if neither made use of the CPU, it is given
    /// back.
    pub(crate) fn end_claim(&mut self, wakeup: &Wakeup) {
        if !wakeup.claimed {
            return;
        }
        let c = &mut self.cpus[wakeup.cpu as usize];
        c.claims -= 1;
        let unused = c.claims == 0 && c.is_idle() && !c.need_resched;
        self.checker.claim_ended(wakeup.cpu);
        if unused && self.runqueues[wakeup.cpu as usize].is_empty() {
            self.set_idle_bit(wakeup.cpu, true);
        }
    }

    /// Writes the idle mask.
    pub(crate) fn set_idle_bit(&mut self, cpu: u32, idle: bool) {
        self.policy.set_idle_mask(cpu, idle);
        self.idle_runnable.set_idle(cpu, idle, self.now_ns);
    }

    /// The end of a select segment.
    pub(crate) fn selected(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        let elapsed_ns = self.now_ns - c.select_since_ns;
        if c.decision.scan_timed != 0 {
            self.policy.scan_took(cpu, &c.decision, elapsed_ns);
        }
        self.tally.searches.add(&c.search_cost, elapsed_ns);
        let wakeup = c.wakeup;
        let (from_llc, target_llc) = (c.llc, self.cpus[wakeup.cpu as usize].llc);
        if self.host.has_wake_list() && wakeup.flags & WAKE_FORK == 0 && from_llc != target_llc {
            let list = &mut self.cpus[wakeup.cpu as usize].wake_list;
            list.push(wakeup);
            // Who finds the list not empty knows that an interrupt is on its way.
            if list.len() == 1 {
                self.send_ipi(Some(cpu), wakeup.cpu);
            }
            self.next(cpu);
        } else {
            if !self.claims {
                self.end_claim(&wakeup);
                self.cpus[cpu as usize].wakeup.claimed = false;
            }
            self.begin_wakeup(cpu);
        }
    }

    /// The wake-up proper begins, with the lock of the wakee's runqueue.
    pub(crate) fn begin_wakeup(&mut self, cpu: u32) {
        let wait = self.lock_runqueue(cpu, self.cpus[cpu as usize].wakeup.cpu);
        let c = &mut self.cpus[cpu as usize];
        c.set(Doing::Wakeup, Kind::Wakeup, self.costs.wakeup_ns * UNITS);
        c.add_tail(Kind::RunqueueLock, wait);
    }

    /// The end of a wake-up segment: the wakee queues.
    pub(crate) fn wakeup_over(&mut self, cpu: u32) {
        let wakeup = self.cpus[cpu as usize].wakeup;
        let why = if wakeup.flags & WAKE_FORK != 0 { EnqueueWhy::Fork } else { EnqueueWhy::Wakeup };
        let transfers_ns = self.enqueue(Some(cpu), wakeup.wakee, wakeup.cpu, why);
        self.end_claim(&wakeup);
        self.cpus[cpu as usize].set(Doing::Kernel, Kind::Wakeup, transfers_ns * UNITS);
    }

    /// Queues the task where the policy says, and notifies that CPU if need be: from the CPU `sender`, or from nowhere.
    /// Answers what the policy's reads and writes cost.
    pub(crate) fn enqueue(&mut self, sender: Option<u32>, task: u32, cpu: u32, why: EnqueueWhy) -> u64 {
        let record = &mut self.records[task as usize];
        let answer = self.policy.enqueue_from(sender.unwrap_or(cpu), record, cpu, why, self.now_ns);
        let transfers_ns = self.transfers_ns();
        let mut target = answer.cpu as u32;
        if target as usize >= self.cpus.len() {
            self.checker.fail(format!("the policy queued task {task} on CPU {}", answer.cpu));
            target = cpu;
        }
        self.tally.enqueue(&answer.reads, &self.policy.seen().misses);
        let t = &mut self.tasks[task as usize];
        t.slice_ns = answer.slice_ns;
        self.runqueues[target as usize].insert(answer.key, task, t.limited);
        if self.cpus[target as usize].busy {
            self.begins_to_wait(task);
        } else if self.policy.idle_mask(target) {
            self.set_idle_bit(target, false);
        }
        self.checker.queued(task, target);
        self.check_place(task);
        self.observer.enqueue(self.now_ns, target, task, why);
        if matches!(why, EnqueueWhy::Wakeup | EnqueueWhy::Fork) {
            self.observer.woken(self.now_ns, sender, target, task);
        }
        self.notify(sender, target, answer.preempt != 0);
        transfers_ns
    }

    /// Makes `target` reschedule if it idles, or if its task shall give way.
    pub(crate) fn notify(&mut self, sender: Option<u32>, target: u32, preempt: bool) {
        let c = &mut self.cpus[target as usize];
        if c.scheduling || (c.busy && !preempt) {
            return;
        }
        if c.busy && self.host.owns_slices() {
            let curr = &mut self.tasks[c.curr as usize];
            curr.slice_ns = 0;
            curr.slice_since_ns = self.now_ns;
        }
        if std::mem::replace(&mut c.need_resched, true) || sender == Some(target) {
            return;
        }
        self.send_ipi(sender, target);
    }

    pub(crate) fn send_ipi(&mut self, sender: Option<u32>, target: u32) {
        self.tally.ipis_asked_for += 1;
        if self.tally.ipis_asked_for == self.faults.lost_ipi {
            return;
        }
        self.checker.kick_sent(target);
        if self.tally.ipis_asked_for == self.faults.stuck_ipi {
            return;
        }
        match sender {
            Some(sender) => self.cpus[sender as usize].todo.push_front(Todo::Send(target)),
            None => self.queue.push_ipi(target, self.now_ns),
        }
    }

    /// The end of a send segment: the interrupt flies.
    pub(crate) fn ipi_sent(&mut self, cpu: u32) {
        if let Some(Todo::Send(target)) = self.cpus[cpu as usize].todo.pop_front() {
            let distance = self.distances.between(cpu, target);
            self.queue.push_ipi(target, self.now_ns + self.costs.ipi_flight_ns[distance.index()]);
            self.tally.counts.ipis += 1;
        }
        self.next(cpu);
    }

    /// The policy shall count the task where the host has it.
    pub(crate) fn check_place(&mut self, task: u32) {
        let record = &self.records[task as usize];
        self.checker.policy_counts(task, record.place, record.cpu);
    }

    pub(crate) fn is_allowed(&self, task: u32, cpu: u32) -> bool {
        !self.tasks[task as usize].limited
            || self.records[task as usize].allowed[cpu as usize / 64] >> (cpu % 64) & 1 != 0
    }

    /// The task waits behind another one, on a busy CPU.
    pub(crate) fn begins_to_wait(&mut self, task: u32) {
        if !self.tasks[task as usize].limited {
            self.idle_runnable.add_unlimited(1, self.now_ns);
        } else if let Some(allowed) = self.workload.tasks[task as usize].allowed.as_deref() {
            self.idle_runnable.add_limited(allowed, self.now_ns);
        }
    }

    pub(crate) fn ends_to_wait(&mut self, task: u32) {
        if !self.tasks[task as usize].limited {
            self.idle_runnable.sub_unlimited(1, self.now_ns);
        } else if let Some(allowed) = self.workload.tasks[task as usize].allowed.as_deref() {
            self.idle_runnable.sub_limited(allowed, self.now_ns);
        }
    }
}
