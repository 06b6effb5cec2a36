// SPDX-License-Identifier: GPL-2.0-or-later
//! The policy's host: asks the policy, and returns each answer together with what it cost to find. Answers to the
//! questions of every wake-up and switch are written where they stay, because they are as large as a cache line or two.

use wakelab_policy::{
    Decision, Dispatch, Enqueue, EnqueueIn, Move, Policy, Reads, Seen, SelectIn, Sleep, Tables, Task, Tick,
    Timer, Traits,
};

use crate::error::SimError;
use crate::kernel::prices::Prices;
use crate::ledger::search::SearchCost;
use crate::scenario::Scenario;

/// What a call to the policy cost.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    /// Nanoseconds of its reads and of the waits of its writes.
    pub(crate) transfers_ns: u64,
    /// Nanoseconds of its atomic updates.
    pub(crate) updates_ns: u64,
    /// Its reads that missed.
    pub(crate) misses: Reads,
}

/// A policy, and the prices of what it does.
pub(crate) struct Host<'a> {
    policy: Policy,
    prices: Prices<'a>,
}

impl<'a> Host<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Result<Host<'a>, SimError> {
        let (machine, groups) = (&scenario.machine, scenario.workload.groups.len());
        let nr_slots = if groups == 0 { 0 } else { groups + 1 };
        let mut spec = scenario.policy.clone();
        if scenario.host.has_watchdog() {
            spec = spec.behind_watchdog();
        }
        let tables = Tables::build(&machine.topology, &spec)?;
        let mut policy = Policy::with_groups(&spec, tables, machine.costs.tick_period_ns, nr_slots)?;
        let (hit_ps, miss_ps) = Prices::of_reads(&machine.costs);
        policy.set_read_prices(&hit_ps, &miss_ps, scenario.lines_of_cpu());
        let prices = Prices::new(&machine.costs, &policy);
        Ok(Host { policy, prices })
    }

    /// What the policy's host must know of it.
    pub(crate) fn traits(&self) -> Traits {
        self.policy.params().traits()
    }

    /// Asks where a task should run, and pays for the answer. Returns the nanoseconds of its reads, of the waits of its
    /// writes, and of its updates.
    pub(crate) fn select(
        &mut self,
        input: &SelectIn,
        wakee: &mut Task,
        waker: Option<&mut Task>,
        decision: &mut Decision,
    ) -> u64 {
        self.policy.select_to(input, wakee, waker, decision);
        let seen = self.policy.seen();
        let updates_ns = self.prices.updates_ns(seen, input.this_cpu as u32, input.now_ns);
        self.prices.transfers_ns(seen) + updates_ns
    }

    /// What each part of the last [`Host::select`] costs.
    pub(crate) fn search_cost(&self) -> SearchCost {
        self.prices.search_cost(self.policy.seen())
    }

    /// The reads of the last call that missed.
    pub(crate) fn misses(&self) -> &Reads {
        &self.policy.seen().misses
    }

    /// Like [`Host::select`], at no cost.
    pub(crate) fn select_for_free(&mut self, input: &SelectIn, wakee: &mut Task) -> Decision {
        self.policy.select(input, wakee, None)
    }

    /// Reports that the whole [`Host::select`] on `cpu` took this long.
    pub(crate) fn scan_took(&mut self, cpu: u32, decision: &Decision, elapsed_ns: u64) {
        self.policy.scan_took(cpu, decision, elapsed_ns);
    }

    /// A task joins a queue. Returns the nanoseconds of the policy's reads and of the waits of its writes.
    pub(crate) fn enqueue(&mut self, input: &EnqueueIn, task: &mut Task, answer: &mut Enqueue) -> u64 {
        self.policy.enqueue_to(input, task, answer);
        self.prices.transfers_ns(self.policy.seen())
    }

    /// Asks what `cpu` runs next: its own queue's tasks, or others to pull first. Returns nanoseconds as
    /// [`Host::enqueue`] does.
    pub(crate) fn dispatch(&mut self, cpu: u32, now_ns: u64, answer: &mut Dispatch) -> u64 {
        self.policy.dispatch_to(cpu, now_ns, answer);
        self.prices.transfers_ns(self.policy.seen())
    }

    /// Asks whether a task may be pulled to `cpu`. Also returns the nanoseconds that the policy's writes waited.
    pub(crate) fn may_move(
        &mut self,
        task: &mut Task,
        cpu: u32,
        now_ns: u64,
        dispatch: &mut Dispatch,
    ) -> (Move, u64) {
        let answer = self.policy.may_move(task, cpu, now_ns, dispatch);
        (answer, self.writes_ns())
    }

    /// Asks whether a queued task should run on `cpu` now. The answer costs nothing: the queue is in the CPU's caches.
    pub(crate) fn may_run(&mut self, task: &mut Task, cpu: u32, now_ns: u64) -> bool {
        self.policy.may_run(task, cpu, now_ns).run != 0
    }

    /// Whether the queue of `cpu` tells which of its tasks would be chosen: [`Policy::chooses`]. Costs nothing, like
    /// [`Host::may_run`].
    pub(crate) fn chooses(&mut self, cpu: u32, now_ns: u64) -> bool {
        self.policy.chooses(cpu, now_ns)
    }

    /// As [`Host::may_run`], from what the queue has of the task; `None`: that does not tell.
    pub(crate) fn may_run_told(
        &mut self,
        cpu: u32,
        key: u64,
        slice_ns: u64,
        weight: u32,
        now_ns: u64,
    ) -> Option<bool> {
        self.policy.may_run_told(cpu, key, slice_ns, weight, now_ns)
    }

    /// Asks whether a queued task is the one that has waited longest on `cpu`, and for too long. Costs nothing, like
    /// [`Host::may_run`].
    pub(crate) fn overdue(&mut self, task: &mut Task, cpu: u32, now_ns: u64) -> bool {
        self.policy.overdue(task, cpu, now_ns).run != 0
    }

    /// A tick on `cpu`, where `task` runs.
    pub(crate) fn tick(&mut self, cpu: u32, task: &mut Task, now_ns: u64) -> (Tick, Cost) {
        let answer = self.policy.tick(cpu, Some(task), now_ns);
        let cost = Self::updating(&mut self.prices, self.policy.seen(), cpu, now_ns);
        (answer, cost)
    }

    /// The policy's timer fires on `cpu`.
    pub(crate) fn timer(&mut self, cpu: u32, now_ns: u64) -> (Timer, Cost) {
        let answer = self.policy.timer(cpu, now_ns);
        (answer, self.reading())
    }

    /// `cpu` switches from its idle task to another one. Returns the nanoseconds that the writes waited, and those of
    /// the updates.
    pub(crate) fn busy(&mut self, cpu: u32, now_ns: u64) -> (u64, u64) {
        self.policy.busy(cpu, now_ns);
        let writes_ns = self.writes_ns();
        (writes_ns, self.prices.updates_ns(self.policy.seen(), cpu, now_ns))
    }

    /// `cpu` switches to its idle task.
    pub(crate) fn idle(&mut self, cpu: u32, now_ns: u64) -> Cost {
        self.policy.idle(cpu, now_ns);
        Self::updating(&mut self.prices, self.policy.seen(), cpu, now_ns)
    }

    /// The task is switched in. Returns the nanoseconds that the writes waited.
    pub(crate) fn running(&mut self, task: &mut Task, cpu: u32, now_ns: u64) -> u64 {
        self.policy.running(task, cpu, now_ns);
        self.writes_ns()
    }

    /// The task is switched out. Returns the nanoseconds that the writes waited.
    pub(crate) fn stopping(&mut self, task: &mut Task, cpu: u32, now_ns: u64, runnable: bool) -> u64 {
        self.policy.stopping(task, cpu, now_ns, runnable);
        self.writes_ns()
    }

    /// The task, which runs, waits for something: does it stay in its CPU's queue? Also returns the nanoseconds that
    /// the writes waited.
    pub(crate) fn sleep(&mut self, task: &mut Task, now_ns: u64) -> (Sleep, u64) {
        let answer = self.policy.sleep(task, now_ns);
        (answer, self.writes_ns())
    }

    /// The task, which runs, gives up its CPU. Returns the nanoseconds that the writes waited.
    pub(crate) fn yields(&mut self, task: &mut Task, cpu: u32, now_ns: u64) -> u64 {
        self.policy.yields(task, cpu, now_ns);
        self.writes_ns()
    }

    /// The task is no longer runnable. Returns the nanoseconds that the writes waited.
    pub(crate) fn quiescent(&mut self, task: &mut Task, now_ns: u64) -> u64 {
        self.policy.quiescent(task, now_ns);
        self.writes_ns()
    }

    /// A task's record begins.
    pub(crate) fn task_init(&mut self, task: &mut Task, id: u64, weight: u32, flags: u32) {
        self.policy.task_init(task, id, weight, flags);
    }

    /// The task is gone.
    pub(crate) fn task_exit(&mut self, task: &mut Task, now_ns: u64) {
        self.policy.task_exit(task, now_ns);
    }

    /// The CPUs on which the task may run; `None`: all of them.
    pub(crate) fn set_affinity(&mut self, task: &mut Task, allowed: Option<&[u32]>) {
        self.policy.set_affinity(task, allowed);
    }

    /// The task asks for a slice.
    pub(crate) fn task_slice(&mut self, task: &mut Task, slice_ns: u32) {
        self.policy.task_slice(task, slice_ns);
    }

    /// A group begins.
    pub(crate) fn group_init(&mut self, slot: u32, parent: u32, shares: u32) {
        self.policy.group_init(slot, parent, shares);
    }

    /// A group's shares change; `cpu` reports it.
    pub(crate) fn group_shares(&mut self, cpu: u32, slot: u32, shares: u32) {
        self.policy.group_shares(cpu, slot, shares);
    }

    /// The task joins the group in `slot`.
    pub(crate) fn task_group(&mut self, task: &mut Task, slot: u32, now_ns: u64) {
        self.policy.task_group(task, slot, now_ns);
    }

    /// Writes the idle mask.
    pub(crate) fn set_idle_mask(&mut self, cpu: u32, idle: bool) {
        self.policy.set_idle_mask(cpu, idle);
    }

    /// Whether the idle mask has `cpu`.
    pub(crate) fn idle_mask(&self, cpu: u32) -> bool {
        self.policy.idle_mask(cpu)
    }

    fn writes_ns(&self) -> u64 {
        self.prices.writes_ns(self.policy.seen())
    }

    /// The cost of a call whose updates, if any, are free.
    fn reading(&self) -> Cost {
        let seen = self.policy.seen();
        Cost { transfers_ns: self.prices.transfers_ns(seen), updates_ns: 0, misses: seen.misses }
    }

    /// The cost of a call whose updates `cpu` makes from `now_ns` on.
    fn updating(prices: &mut Prices<'_>, seen: &Seen, cpu: u32, now_ns: u64) -> Cost {
        Cost {
            transfers_ns: prices.transfers_ns(seen),
            updates_ns: prices.updates_ns(seen, cpu, now_ns),
            misses: seen.misses,
        }
    }
}
