// SPDX-License-Identifier: GPL-2.0-or-later
//! schedule(): what a CPU runs next. The policy answers which queue to pull from and what may move; this file carries
//! it out, switches, and keeps the policy told.
//!
//! The order is the kernel's. A task is switched in when it is picked: from then on the CPU's time is charged to it,
//! the switch included, as sched_switch has it. A CPU that finds nothing tells the policy that it idles, sets its idle
//! bit, and then switches to its idle task.

use wakelab_machine::Distance;
use wakelab_policy::{BalanceWhy, DispatchDo, EnqueueWhy, Pick};

use crate::cpu::{Doing, Kind, NONE, UNITS};
use crate::engine::Engine;
use crate::host::DEFAULT_SLICE_NS;
use crate::observer::Observer;
use crate::task::Life;

/// What a CPU runs next.
enum Choice {
    /// This task, at this place of its queue.
    Take(usize, u32),
    /// The previous task with this slice, or nothing if there is none.
    GoOn(u64),
}

/// More pulls than this in one schedule() mean that the policy pulls for ever.
const PULLS_MAX: u32 = 64;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// The CPU was told to reschedule; its task, if it has one, is runnable.
    pub(crate) fn schedule(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        c.need_resched = false;
        c.put_back = NONE;
        if c.curr != NONE {
            if self.host.owns_slices() {
                let curr = &mut self.tasks[c.curr as usize];
                curr.charge_slice(self.now_ns);
                if curr.slice_ns > 0 {
                    self.resume(cpu);
                    return;
                }
            }
            c.scheduling = true;
            if self.host.puts_back_first() {
                self.put_back(cpu);
            }
        }
        self.choose(cpu);
    }

    /// The current task waits for something, or has exited; the CPU needs another.
    pub(crate) fn block(&mut self, cpu: u32, life: Life) {
        let task = self.stop_current(cpu, false);
        self.policy.quiescent(&mut self.records[task as usize], self.now_ns);
        self.switch_waits_for_writes(cpu);
        if life == Life::Exited {
            self.policy.task_exit(&mut self.records[task as usize], self.now_ns);
        }
        self.tasks[task as usize].life = life;
        self.checker.blocked(task, cpu, life == Life::Exited);
        self.check_place(task);
        let c = &mut self.cpus[cpu as usize];
        c.need_resched = false;
        c.put_back = NONE;
        self.choose(cpu);
    }

    pub(crate) fn choose(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        c.scheduling = true;
        c.pulls = 0;
        let wait = self.lock_runqueue(cpu, cpu);
        self.dispatch(cpu, Doing::Balance);
        self.cpus[cpu as usize].add_tail(Kind::RunqueueLock, wait);
    }

    /// The current task is current no more.
    pub(crate) fn stop_current(&mut self, cpu: u32, runnable: bool) -> u32 {
        let c = &mut self.cpus[cpu as usize];
        let task = std::mem::replace(&mut c.curr, NONE);
        self.policy.stopping(&mut self.records[task as usize], cpu, self.now_ns, runnable);
        self.switch_waits_for_writes(cpu);
        let t = &mut self.tasks[task as usize];
        let ran_ns = self.now_ns - t.runs_since_ns;
        t.cpu_time_ns += ran_ns;
        self.observer.stopped(self.now_ns, cpu, task, ran_ns);
        task
    }

    /// The current task goes back to the queue.
    fn put_back(&mut self, cpu: u32) {
        let task = self.stop_current(cpu, true);
        let t = &mut self.tasks[task as usize];
        t.woken = false;
        t.waits_since_ns = self.now_ns;
        let transfers_ns = self.enqueue(Some(cpu), task, cpu, EnqueueWhy::SliceEnd);
        let c = &mut self.cpus[cpu as usize];
        c.put_back = task;
        c.extra_switch_ns += transfers_ns;
    }

    /// Asks the policy what to run; `doing` says what for.
    pub(crate) fn dispatch(&mut self, cpu: u32, doing: Doing) {
        let answer = self.policy.dispatch(cpu, self.now_ns);
        self.tally.dispatch(&answer, &self.policy.seen().misses);
        let fixed_ns = if answer.why() == BalanceWhy::None { 0 } else { self.costs.balance_ns };
        let cost_ns = fixed_ns + self.transfers_ns();
        let c = &mut self.cpus[cpu as usize];
        c.dispatch = answer;
        c.set(doing, Kind::Balance, cost_ns * UNITS);
    }

    /// The end of a balance segment.
    pub(crate) fn balanced(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        let doing = c.doing;
        if c.dispatch.what() == DispatchDo::Pull {
            c.pulls += 1;
            if c.pulls <= PULLS_MAX {
                let (wait, taken_ns) = self.pull(cpu);
                self.dispatch(cpu, doing);
                let c = &mut self.cpus[cpu as usize];
                c.remaining += taken_ns * UNITS;
                c.add_tail(Kind::RunqueueLock, wait);
                return;
            }
            self.checker.fail(format!("the policy pulls for ever on CPU {cpu}"));
        }
        self.push(cpu);
        if doing == Doing::Balance {
            self.pick(cpu);
        } else {
            self.next(cpu);
        }
    }

    /// Tells the CPU that the policy named, if it did, to put its running task back: the policy will queue it
    /// elsewhere.
    fn push(&mut self, cpu: u32) {
        let Ok(from) = u32::try_from(self.cpus[cpu as usize].dispatch.push_cpu) else { return };
        if !self.host.can_push() || from == cpu || self.cpus[from as usize].curr == NONE {
            return;
        }
        self.cpus[from as usize].extra_switch_ns += self.costs.push_ns;
        self.tally.counts.pushed += 1;
        self.notify(Some(cpu), from, true);
    }

    /// Moves tasks from the queue that the policy named, one question each. Answers the work that waiting for its lock
    /// took, and how long, in ns, the writes waited: both CPUs' lines are locked, so those of all moves together are as
    /// long as the longest.
    fn pull(&mut self, cpu: u32) -> (u64, u64) {
        let mut dispatch = self.cpus[cpu as usize].dispatch;
        let from = dispatch.cpu as u32;
        if from as usize >= self.cpus.len() || from == cpu {
            self.checker.fail(format!("the policy pulls from CPU {} to CPU {cpu}", dispatch.cpu));
            return (0, 0);
        }
        let wait = self.lock_runqueue(cpu, from);
        let mut taken_ns = 0;
        let mut at = 0;
        while let Some(task) = self.runqueues[from as usize].get(at) {
            if !self.is_allowed(task, cpu) {
                at += 1;
                continue;
            }
            let answer =
                self.policy.may_move(&mut self.records[task as usize], cpu, self.now_ns, &mut dispatch);
            taken_ns = self.taken_ns().max(taken_ns);
            if answer.r#move == 0 {
                at += 1;
            } else {
                self.take_from_queue(from, at, task);
                let t = &mut self.tasks[task as usize];
                t.slice_ns = answer.slice_ns;
                self.runqueues[cpu as usize].insert(answer.key, task, t.limited);
                if self.cpus[cpu as usize].busy {
                    self.begins_to_wait(task);
                }
                self.tally.counts.pulled += 1;
                self.checker.moved(task, from, cpu);
                self.check_place(task);
                self.observer.migrate(self.now_ns, task, from, cpu);
            }
            if answer.stop != 0 {
                break;
            }
        }
        self.cpus[cpu as usize].dispatch = dispatch;
        (wait, taken_ns)
    }

    fn take_from_queue(&mut self, cpu: u32, at: usize, task: u32) {
        self.runqueues[cpu as usize].remove(at, self.tasks[task as usize].limited);
        if self.cpus[cpu as usize].busy {
            self.ends_to_wait(task);
        }
    }

    /// The first task of the own queue that may run here and, if the policy wants to be asked, that it wants to run; or
    /// the last that it wants, of all. If it wants none: no task if the previous one may go on, else the first that may
    /// run.
    fn choice(&mut self, cpu: u32) -> Choice {
        let pick = self.cpus[cpu as usize].dispatch.pick();
        let (mut first, mut last) = (None, None);
        let mut at = 0;
        while let Some(task) = self.runqueues[cpu as usize].get(at) {
            if self.is_allowed(task, cpu) {
                let wants = pick == Pick::Head
                    || self.policy.may_run(&mut self.records[task as usize], cpu, self.now_ns).run != 0;
                if wants && pick != Pick::Last {
                    return Choice::Take(at, task);
                }
                last = if wants { Some((at, task)) } else { last };
                first = first.or(Some((at, task)));
            }
            at += 1;
        }
        if let Some((at, task)) = last {
            return Choice::Take(at, task);
        }
        let c = &self.cpus[cpu as usize];
        match first {
            // sched_ext: nobody else wants the CPU. The policy hears nothing of it.
            None => Choice::GoOn(DEFAULT_SLICE_NS),
            Some(_) if c.curr != NONE && c.dispatch.keep_slice_ns > 0 => {
                Choice::GoOn(c.dispatch.keep_slice_ns)
            }
            Some((at, task)) => Choice::Take(at, task),
        }
    }

    /// Everything is where it should be: runs the task that was chosen from the own queue.
    fn pick(&mut self, cpu: u32) {
        let curr = self.cpus[cpu as usize].curr;
        match self.choice(cpu) {
            Choice::GoOn(_) if curr == NONE => self.go_idle(cpu),
            Choice::GoOn(slice_ns) => {
                let task = &mut self.tasks[curr as usize];
                task.slice_ns = slice_ns;
                task.slice_since_ns = self.now_ns;
                self.cpus[cpu as usize].scheduling = false;
                self.next(cpu);
            }
            Choice::Take(at, task) => {
                self.take_from_queue(cpu, at, task);
                if curr != NONE {
                    self.put_back(cpu);
                }
                self.cpus[cpu as usize].scheduling = false;
                if task == self.cpus[cpu as usize].put_back {
                    self.goes_on(cpu, task);
                } else {
                    self.switch_in(cpu, task);
                }
            }
        }
    }

    /// mainline: the task that was put back is picked again. No switch.
    fn goes_on(&mut self, cpu: u32, task: u32) {
        self.runs(cpu, task);
        let c = &mut self.cpus[cpu as usize];
        let cost_ns = std::mem::take(&mut c.extra_switch_ns);
        c.set(Doing::Kernel, Kind::Switch, cost_ns * UNITS);
    }

    fn runs(&mut self, cpu: u32, task: u32) {
        self.policy.running(&mut self.records[task as usize], cpu, self.now_ns);
        self.switch_waits_for_writes(cpu);
        self.checker.runs(task, cpu, self.is_allowed(task, cpu));
        self.check_place(task);
        let t = &mut self.tasks[task as usize];
        t.runs_since_ns = self.now_ns;
        t.slice_since_ns = self.now_ns;
        self.cpus[cpu as usize].curr = task;
    }

    fn switch_in(&mut self, cpu: u32, task: u32) {
        let previous = self.cpus[cpu as usize].context;
        self.switch_out(cpu);
        let is_process_switch =
            previous != NONE && self.tasks[previous as usize].process != self.tasks[task as usize].process;
        let switch_ns =
            if is_process_switch { self.costs.switch_process_ns } else { self.costs.switch_thread_ns };
        let updates_ns = if self.cpus[cpu as usize].busy { 0 } else { self.becomes_busy(cpu) };
        self.runs(cpu, task);
        let t = &self.tasks[task as usize];
        let judged = self.workload.tasks[task as usize].judged;
        self.tally.switched_in(self.now_ns - t.waits_since_ns, t.woken, judged);
        let (ran, left) = (t.ran, t.cpu);
        if ran && left != cpu && self.cpus[left as usize].context == task {
            self.leaves_caches(left, task);
        }
        let from = ran.then(|| self.distances.between(left, cpu));
        if let Some(distance) = from.filter(|&distance| distance != Distance::Cpu) {
            self.tally.migrations[distance.index()] += 1;
        }
        let t = &mut self.tasks[task as usize];
        t.ran = true;
        let is_cold = std::mem::take(&mut t.is_cold);
        t.cpu = cpu;
        self.fills_caches(cpu, task, from.filter(|_| !is_cold));
        let c = &mut self.cpus[cpu as usize];
        c.context = task;
        let cost_ns = switch_ns + std::mem::take(&mut c.extra_switch_ns);
        c.set(Doing::Kernel, Kind::Switch, cost_ns * UNITS);
        c.add_tail(Kind::Atomic, updates_ns * UNITS);
        self.observer.switch_in(self.now_ns, cpu, task);
    }

    /// The previous context is left; notes it if it was a task's.
    fn switch_out(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        let task = std::mem::replace(&mut c.context, NONE);
        if task == NONE {
            return;
        }
        let runnable = c.put_back == task;
        self.leaves_caches(cpu, task);
        self.tally.counts.switches_out += 1;
        self.tally.counts.preemptions += u64::from(runnable);
        self.observer.switch_out(self.now_ns, cpu, task, runnable);
    }

    /// Answers what the policy's counters cost.
    fn becomes_busy(&mut self, cpu: u32) -> u64 {
        self.policy.busy(cpu, self.now_ns);
        self.switch_waits_for_writes(cpu);
        let updates_ns = self.updates_ns(cpu);
        self.set_idle_bit(cpu, false);
        let c = &mut self.cpus[cpu as usize];
        c.busy = true;
        let (period_ns, phase_ns) = (self.costs.tick_period_ns, c.tick_phase_ns);
        // The next time after now on the CPU's own grid.
        let next_ns = match self.now_ns.checked_sub(phase_ns) {
            Some(since_ns) => phase_ns + (since_ns / period_ns + 1) * period_ns,
            None => phase_ns,
        };
        self.queue.set_tick(cpu, next_ns);
        self.queue_waits(cpu, true);
        updates_ns
    }

    fn go_idle(&mut self, cpu: u32) {
        let was_busy = self.cpus[cpu as usize].busy;
        self.switch_out(cpu);
        let mut updates_ns = 0;
        if was_busy {
            self.observer.idle(self.now_ns, cpu);
            self.policy.idle(cpu, self.now_ns);
            self.cpus[cpu as usize].extra_switch_ns += self.transfers_ns();
            updates_ns = self.updates_ns(cpu);
            self.queue_waits(cpu, false);
            self.queue.cancel_tick(cpu);
        }
        let c = &mut self.cpus[cpu as usize];
        c.busy = false;
        c.scheduling = false;
        c.tick_pending = false;
        let extra_ns = std::mem::take(&mut c.extra_switch_ns);
        let cost_ns = if was_busy { self.costs.switch_thread_ns + extra_ns } else { 0 };
        c.set(Doing::Kernel, Kind::Switch, cost_ns * UNITS);
        c.add_tail(Kind::Atomic, updates_ns * UNITS);
        if self.runqueues[cpu as usize].is_empty() {
            self.set_idle_bit(cpu, true);
        }
    }

    /// Who is queued on the CPU begins to wait behind a task, or stops doing so.
    fn queue_waits(&mut self, cpu: u32, waits: bool) {
        let queue = &self.runqueues[cpu as usize];
        if waits {
            self.idle_runnable.add_unlimited(queue.unlimited, self.now_ns);
        } else {
            self.idle_runnable.sub_unlimited(queue.unlimited, self.now_ns);
        }
        if queue.len() == queue.unlimited as usize {
            return;
        }
        for task in queue.iter().filter(|&task| self.tasks[task as usize].limited) {
            let allowed = self.workload.tasks[task as usize].allowed.as_deref().unwrap_or_default();
            if waits {
                self.idle_runnable.add_limited(allowed, self.now_ns);
            } else {
                self.idle_runnable.sub_limited(allowed, self.now_ns);
            }
        }
    }
}
