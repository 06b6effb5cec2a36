// SPDX-License-Identifier: GPL-2.0-or-later
//! schedule(): what a CPU runs next. The policy says which queue to pull from and which tasks may move; this file
//! carries that out, picks a task, and keeps the policy informed. switch.rs switches to the task.
//!
//! The order is the kernel's: put the previous task back, balance, pick the next task, switch to it.

use wakelab_policy::{BalanceWhy, DispatchDo, EnqueueWhy, Pick};

use crate::engine::Engine;
use crate::hardware::cpu::Doing;
use crate::ids::{NONE, UNITS};
use crate::kernel::profile::DEFAULT_SLICE_NS;
use crate::kernel::thread::Life;
use crate::observer::Observer;
use crate::time_use::TimeKind;

/// What a CPU runs next.
enum Picked {
    /// This task, at this place of its queue.
    Task(usize, u32),
    /// The previous task with this slice, or nothing if there is none.
    Previous { slice_ns: u64 },
    /// Nothing: all that were left in the queue sleep or are of throttled groups, and are gone now. The policy may know
    /// others to pull.
    Emptied,
}

/// More pulls than this in one schedule() mean that the policy pulls for ever.
const PULLS_MAX: u32 = 64;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// The CPU was told to reschedule; its task, if it has one, is runnable.
    pub(crate) fn schedule(&mut self, cpu: u32) {
        let c = &mut self.kernel.cpus[cpu as usize];
        c.reschedules();
        c.put_back = NONE;
        if c.curr != NONE {
            if self.kernel.profile.owns_slices() {
                let curr = &mut self.kernel.threads[c.curr as usize];
                curr.charge_slice(self.hardware.now_ns);
                if curr.slice_ns > 0 {
                    self.resume(cpu);
                    return;
                }
            }
            c.scheduling = true;
            if self.kernel.profile.puts_back_first() {
                self.put_prev_task(cpu);
            }
        }
        self.start_pick(cpu);
    }

    /// The current task waits for something, or has exited; the CPU needs another one.
    #[inline(never)]
    pub(crate) fn block(&mut self, cpu: u32, life: Life) {
        if self.kernel.delays && life == Life::Blocked && self.sleep_queued(cpu) {
            return self.pick_after_block(cpu, self.costs.dequeue_ns);
        }
        let task = self.stop_current(cpu, false);
        let now_ns = self.clock_ns(cpu);
        let record = &mut self.kernel.records[task as usize];
        let writes_ns = self.kernel.host.quiescent(record, now_ns);
        if life == Life::Exited {
            self.kernel.host.task_exit(record, now_ns);
        }
        self.kernel.threads[task as usize].life = life;
        self.ledger.checker.block(task, cpu, life == Life::Exited);
        self.check_place(task);
        self.kernel.cpus[cpu as usize].extra_switch_ns += writes_ns;
        self.leave_quota(cpu, task);
        // An exit's costs contain it.
        self.pick_after_block(cpu, if life == Life::Exited { 0 } else { self.costs.dequeue_ns });
    }

    /// Takes `dequeue_ns` for the way off the queue, then begins to look for the next task.
    fn pick_after_block(&mut self, cpu: u32, dequeue_ns: u64) {
        let c = &mut self.kernel.cpus[cpu as usize];
        c.reschedules();
        c.put_back = NONE;
        if dequeue_ns == 0 {
            return self.start_pick(cpu);
        }
        c.scheduling = true;
        self.keep_clock(cpu);
        self.hardware.cpus[cpu as usize].set(Doing::Dequeue, TimeKind::Switch, dequeue_ns * UNITS);
    }

    /// Takes the CPU from its current task, and charges the task. Returns that task.
    pub(crate) fn stop_current(&mut self, cpu: u32, runnable: bool) -> u32 {
        let clock_ns = self.clock_ns(cpu);
        self.charge_quota(cpu);
        let c = &mut self.kernel.cpus[cpu as usize];
        let task = std::mem::replace(&mut c.curr, NONE);
        let record = &mut self.kernel.records[task as usize];
        c.extra_switch_ns += self.kernel.host.stopping(record, cpu, clock_ns, runnable);
        self.end_run(cpu, task);
        task
    }

    /// The task no longer runs on the CPU: adds up what it ran.
    pub(crate) fn end_run(&mut self, cpu: u32, task: u32) {
        let clock_ns = self.clock_ns(cpu);
        let t = &mut self.kernel.threads[task as usize];
        let ran_ns = clock_ns - t.runs_since_ns;
        t.cpu_time_ns += ran_ns;
        self.ledger.observer.stopped(self.hardware.now_ns, cpu, task, ran_ns);
    }

    /// Puts the current task back into the queue.
    fn put_prev_task(&mut self, cpu: u32) {
        let task = self.stop_current(cpu, true);
        let t = &mut self.kernel.threads[task as usize];
        t.woken = false;
        t.waits_since_ns = self.hardware.now_ns;
        self.ledger.observer.wait(self.hardware.now_ns, task);
        let transfers_ns = self.enqueue(Some(cpu), task, cpu, EnqueueWhy::SliceEnd);
        let c = &mut self.kernel.cpus[cpu as usize];
        c.put_back = task;
        c.extra_switch_ns += transfers_ns;
    }

    /// Begins to look for the next task, with the lock of the own runqueue.
    pub(crate) fn start_pick(&mut self, cpu: u32) {
        let c = &mut self.kernel.cpus[cpu as usize];
        c.scheduling = true;
        c.pulls = 0;
        let wait = self.lock_runqueue(cpu, cpu);
        self.ask_dispatch(cpu, Doing::Balance);
        self.hardware.cpus[cpu as usize].add_tail(TimeKind::RunqueueLock, wait);
    }

    /// Asks the policy what to run; `doing` says for what purpose.
    pub(crate) fn ask_dispatch(&mut self, cpu: u32, doing: Doing) {
        let answer = &mut self.kernel.cpus[cpu as usize].dispatch;
        let transfers_ns = self.kernel.host.dispatch(cpu, self.hardware.now_ns, answer);
        self.ledger.tally.dispatch(answer, self.kernel.host.misses());
        let fixed_ns = if answer.why() == BalanceWhy::None { 0 } else { self.costs.balance_ns };
        let cost_ns = fixed_ns + transfers_ns;
        self.hardware.cpus[cpu as usize].set(doing, TimeKind::Balance, cost_ns * UNITS);
    }

    /// The end of a balance segment: pulls and asks again, or picks a task.
    pub(crate) fn finish_balance(&mut self, cpu: u32) {
        let doing = self.hardware.cpus[cpu as usize].doing;
        let k = &mut self.kernel.cpus[cpu as usize];
        if k.dispatch.what() == DispatchDo::Pull {
            k.pulls += 1;
            if k.pulls <= PULLS_MAX {
                let (wait, writes_ns) = self.pull(cpu);
                self.ask_dispatch(cpu, doing);
                let c = &mut self.hardware.cpus[cpu as usize];
                c.remaining += writes_ns * UNITS;
                c.add_tail(TimeKind::RunqueueLock, wait);
                return;
            }
            self.ledger.checker.fail(move || format!("the policy pulls for ever on CPU {cpu}"));
        }
        self.push(cpu);
        if doing == Doing::Balance {
            self.run_picked(cpu);
        } else {
            self.run_pending(cpu);
        }
    }

    /// Tells the CPU that the policy named, if any, to put its running task back. The policy will queue the task
    /// elsewhere.
    fn push(&mut self, cpu: u32) {
        let Ok(from) = u32::try_from(self.kernel.cpus[cpu as usize].dispatch.push_cpu) else { return };
        if !self.kernel.profile.can_push() || from == cpu || self.kernel.cpus[from as usize].curr == NONE {
            return;
        }
        self.kernel.cpus[from as usize].extra_switch_ns += self.costs.push_ns;
        self.ledger.tally.counts.pushed += 1;
        self.resched_curr(Some(cpu), from, true, 0);
    }

    /// Moves tasks from the queue that the policy named, and asks about each. Returns two costs: the work that waiting
    /// for the lock of that queue takes, in 1/1024 ns, and the nanoseconds for which the policy's writes waited. Both
    /// CPUs' lines are locked, so the writes of all moves together wait as long as the longest.
    fn pull(&mut self, cpu: u32) -> (u64, u64) {
        let mut dispatch = self.kernel.cpus[cpu as usize].dispatch;
        let from = dispatch.cpu as u32;
        if from as usize >= self.kernel.cpus.len() || from == cpu {
            let named = dispatch.cpu;
            self.ledger.checker.fail(move || format!("the policy pulls from CPU {named} to CPU {cpu}"));
            return (0, 0);
        }
        let wait = self.lock_runqueue(cpu, from);
        let now_ns = self.hardware.now_ns;
        let mut longest_ns = 0;
        let mut at = 0;
        while let Some(task) = self.kernel.runqueues[from as usize].get(at) {
            if self.quota_keeps(task, from, cpu) {
                at += 1;
                continue;
            }
            let record = &mut self.kernel.records[task as usize];
            let (answer, writes_ns) = self.kernel.host.may_move(record, cpu, now_ns, &mut dispatch);
            longest_ns = writes_ns.max(longest_ns);
            if answer.r#move == 0 {
                at += 1;
            } else {
                self.dequeue(from, at, task);
                let t = &mut self.kernel.threads[task as usize];
                t.slice_ns = answer.slice_ns;
                self.kernel.runqueues[cpu as usize].insert(answer.key, task, t.limited);
                if self.kernel.cpus[cpu as usize].busy {
                    self.start_waiting(task);
                }
                self.ledger.tally.counts.pulled += 1;
                self.ledger.checker.migrate(task, from, cpu);
                self.check_place(task);
                self.ledger.observer.migrate(now_ns, task, from, cpu);
            }
            if answer.stop != 0 {
                break;
            }
        }
        self.kernel.cpus[cpu as usize].dispatch = dispatch;
        (wait, longest_ns)
    }

    pub(crate) fn dequeue(&mut self, cpu: u32, at: usize, task: u32) {
        let limited = self.kernel.threads[task as usize].limited;
        self.kernel.runqueues[cpu as usize].remove(at, limited);
        if self.kernel.cpus[cpu as usize].busy {
            self.stop_waiting(task);
        }
    }

    /// Picks a task of the CPU's own queue: the first that may run here, and that the policy wants if it asked to be
    /// consulted; or the last one that the policy wants, of all or of the first two. If it wants none: the previous
    /// task if that may continue, otherwise the first task that may run.
    fn pick_next_task(&mut self, cpu: u32) -> Picked {
        let may_empty = self.kernel.delays || self.kernel.bandwidth.is_some();
        let may_empty = may_empty && !self.kernel.runqueues[cpu as usize].is_empty();
        loop {
            let picked = self.pick_once(cpu);
            match picked {
                // It sleeps: it leaves the queue instead, and the choice begins again.
                Picked::Task(at, task) if self.kernel.threads[task as usize].delayed => {
                    self.dequeue_sleeper(cpu, at, task);
                }
                // Its group is throttled here.
                Picked::Task(at, task) if self.quota_holds(cpu, task) => self.park_queued(cpu, at, task),
                Picked::Previous { .. } if may_empty && self.kernel.runqueues[cpu as usize].is_empty() => {
                    return Picked::Emptied;
                }
                _ => return picked,
            }
        }
    }

    /// Returns the task of the CPU's own queue that the policy wants to run because it has waited for too long, and its
    /// place there.
    #[cold]
    #[inline(never)]
    fn find_overdue(&mut self, cpu: u32) -> Option<(usize, u32)> {
        let now_ns = self.hardware.now_ns;
        let mut found = None;
        let mut at = 0;
        while let Some(task) = self.kernel.runqueues[cpu as usize].get(at) {
            let is_allowed = self.is_allowed(task, cpu);
            let record = &mut self.kernel.records[task as usize];
            if is_allowed && self.kernel.host.overdue(record, cpu, now_ns) {
                found = Some((at, task));
            }
            at += 1;
        }
        found
    }

    fn pick_once(&mut self, cpu: u32) -> Picked {
        if self.kernel.cpus[cpu as usize].dispatch.overdue != 0
            && let Some((at, task)) = self.find_overdue(cpu)
        {
            return Picked::Task(at, task);
        }
        let pick = self.kernel.cpus[cpu as usize].dispatch.pick();
        let now_ns = self.hardware.now_ns;
        let (mut first, mut last) = (None, None);
        let mut at = 0;
        while let Some(task) = self.kernel.runqueues[cpu as usize].get(at) {
            if self.is_allowed(task, cpu) {
                let record = &mut self.kernel.records[task as usize];
                let wants = pick == Pick::Head || self.kernel.host.may_run(record, cpu, now_ns);
                if wants && matches!(pick, Pick::Head | Pick::Eligible) {
                    return Picked::Task(at, task);
                }
                last = if wants { Some((at, task)) } else { last };
                if first.is_some() && pick == Pick::LastOfTwo {
                    break;
                }
                first = first.or(Some((at, task)));
            }
            at += 1;
        }
        if let Some((at, task)) = last {
            return Picked::Task(at, task);
        }
        let c = &self.kernel.cpus[cpu as usize];
        match first {
            // sched_ext: no other task wants the CPU. The policy is not told.
            None => Picked::Previous { slice_ns: DEFAULT_SLICE_NS },
            Some(_) if c.curr != NONE && c.dispatch.keep_slice_ns > 0 => {
                Picked::Previous { slice_ns: c.dispatch.keep_slice_ns }
            }
            Some((at, task)) => Picked::Task(at, task),
        }
    }

    /// All tasks are in their places: picks one and runs it.
    fn run_picked(&mut self, cpu: u32) {
        let curr = self.kernel.cpus[cpu as usize].curr;
        match self.pick_next_task(cpu) {
            Picked::Emptied => self.start_pick(cpu),
            Picked::Previous { .. } if curr == NONE => self.switch_to_idle(cpu),
            Picked::Previous { slice_ns } => {
                let thread = &mut self.kernel.threads[curr as usize];
                thread.slice_ns = slice_ns;
                thread.slice_since_ns = self.hardware.now_ns;
                self.kernel.cpus[cpu as usize].scheduling = false;
                self.run_pending(cpu);
            }
            Picked::Task(at, task) => {
                self.dequeue(cpu, at, task);
                if curr != NONE {
                    self.put_prev_task(cpu);
                }
                self.kernel.cpus[cpu as usize].scheduling = false;
                if task == self.kernel.cpus[cpu as usize].put_back {
                    self.run_again(cpu, task);
                } else {
                    self.switch_to(cpu, task);
                }
            }
        }
    }
}
