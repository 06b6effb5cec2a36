// SPDX-License-Identifier: GPL-2.0-or-later
//! The native build, told events one by one, and the record of what it answered.

use wakelab_policy::{
    Decision, Dispatch, Enqueue, EnqueueWhy, Move, Policy, Run, SelectIn, Task, Tick, Timer,
};

use crate::events::{self, Event, Kind, NO_TASK, Step, Words};
use crate::kernel::{MASK_WORDS, MASKS, TASKS};

/// One policy, its tasks, and the events since the last [`Native::take`].
pub(crate) struct Native {
    pub(crate) policy: Policy,
    tasks: Vec<Task>,
    last_decision: Decision,
    last_dispatch: Dispatch,
    steps: Vec<(Kind, Step)>,
    masks: Vec<[u64; MASK_WORDS]>,
    /// Wake-up decisions so far.
    pub(crate) decisions: u64,
}

impl Native {
    pub(crate) fn new(policy: Policy) -> Native {
        Native {
            policy,
            tasks: vec![Task::default(); TASKS],
            last_decision: Decision::default(),
            last_dispatch: Dispatch::default(),
            steps: Vec::new(),
            masks: Vec::new(),
            decisions: 0,
        }
    }

    /// A task's record, as the policy left it.
    pub(crate) fn task(&self, task: u32) -> &Task {
        &self.tasks[task as usize]
    }

    /// Events that were not taken yet, and affinity masks that they use.
    pub(crate) fn pending(&self) -> (usize, usize) {
        (self.steps.len(), self.masks.len())
    }

    /// The events since the last call with their answers, and the masks that they refer to.
    pub(crate) fn take(&mut self) -> (Vec<(Kind, Step)>, Vec<[u64; MASK_WORDS]>) {
        (std::mem::take(&mut self.steps), std::mem::take(&mut self.masks))
    }

    fn note(&mut self, kind: Kind, event: Event, answer: Words) {
        let record = |task: u32| match task {
            NO_TASK => Words::NONE,
            task => events::task::native(&self.tasks[task as usize]),
        };
        let (task, waker) = (record(event.task), record(event.waker));
        let event = Event { kind: kind as u32, ..event };
        self.steps.push((kind, Step { event, answer, budget: Words::NONE, task, waker }));
    }

    pub(crate) fn task_init(&mut self, task: u32, id: u64, weight: u32, flags: u32) {
        self.policy.task_init(&mut self.tasks[task as usize], id, weight, flags);
        self.note(Kind::TaskInit, Event { task, value: id, weight, flags, ..event(0) }, Words::NONE);
    }

    /// `allowed` of `None`: everywhere.
    pub(crate) fn affinity(&mut self, task: u32, allowed: Option<&[u32]>) {
        assert!(self.masks.len() < MASKS, "a batch has room for {MASKS} masks");
        let mut mask = [0; MASK_WORDS];
        for &cpu in allowed.unwrap_or(&[]) {
            mask[cpu as usize / 64] |= 1 << (cpu % 64);
        }
        self.policy.set_affinity(&mut self.tasks[task as usize], allowed);
        let index = self.masks.len() as u32;
        self.masks.push(mask);
        self.note(Kind::Affinity, Event { task, mask: index, ..event(0) }, Words::NONE);
    }

    pub(crate) fn select(&mut self, input: SelectIn, task: u32, waker: Option<u32>) -> Decision {
        let waker = waker.filter(|&waker| waker != task);
        let decision = match waker {
            None => self.policy.select(&input, &mut self.tasks[task as usize], None),
            Some(waker) => {
                let [wakee, waker] = self
                    .tasks
                    .get_disjoint_mut([task as usize, waker as usize])
                    .expect("waker and wakee are two tasks that exist");
                self.policy.select(&input, wakee, Some(waker))
            }
        };
        let event = Event {
            cpu: input.this_cpu.cast_unsigned(),
            prev_cpu: input.prev_cpu,
            flags: input.flags,
            task,
            waker: waker.unwrap_or(NO_TASK),
            ..event(input.now_ns)
        };
        self.note(Kind::Select, event, events::decision::native(&decision));
        self.decisions += 1;
        self.last_decision = decision;
        decision
    }

    /// About the last decision.
    pub(crate) fn scan_took(&mut self, cpu: u32, elapsed_ns: u64) {
        self.policy.scan_took(cpu, &self.last_decision, elapsed_ns);
        self.note(Kind::ScanTook, Event { cpu, value: elapsed_ns, ..event(0) }, Words::NONE);
    }

    /// A CPU that follows from the event does it.
    pub(crate) fn enqueue(&mut self, task: u32, cpu: u32, why: EnqueueWhy, now_ns: u64) -> Enqueue {
        let this_cpu = match why {
            EnqueueWhy::SliceEnd => cpu,
            _ => (cpu + task) % self.policy.tables().nr_cpus() as u32,
        };
        let answer = self.policy.enqueue_from(this_cpu, &mut self.tasks[task as usize], cpu, why, now_ns);
        let event = Event { task, cpu, prev_cpu: this_cpu.cast_signed(), flags: why as u32, ..event(now_ns) };
        self.note(Kind::Enqueue, event, events::enqueue::native(&answer));
        answer
    }

    pub(crate) fn dispatch(&mut self, cpu: u32, now_ns: u64) -> Dispatch {
        let answer = self.policy.dispatch(cpu, now_ns);
        self.note(Kind::Dispatch, Event { cpu, ..event(now_ns) }, events::dispatch::native(&answer));
        self.last_dispatch = answer;
        answer
    }

    /// For the last dispatch, whose budget it uses up.
    pub(crate) fn may_move(&mut self, task: u32, cpu: u32, now_ns: u64) -> Move {
        let answer =
            self.policy.may_move(&mut self.tasks[task as usize], cpu, now_ns, &mut self.last_dispatch);
        self.note(Kind::MayMove, Event { task, cpu, ..event(now_ns) }, events::may_move::native(&answer));
        let (_, step) = self.steps.last_mut().expect("it was just noted");
        step.budget = events::dispatch::native(&self.last_dispatch);
        answer
    }

    pub(crate) fn may_run(&mut self, task: u32, cpu: u32, now_ns: u64) -> Run {
        let answer = self.policy.may_run(&mut self.tasks[task as usize], cpu, now_ns);
        self.note(Kind::MayRun, Event { task, cpu, ..event(now_ns) }, events::may_run::native(&answer));
        answer
    }

    pub(crate) fn tick(&mut self, cpu: u32, task: Option<u32>, now_ns: u64) -> Tick {
        let answer = self.policy.tick(cpu, task.map(|task| &mut self.tasks[task as usize]), now_ns);
        let event = Event { cpu, task: task.unwrap_or(NO_TASK), ..event(now_ns) };
        self.note(Kind::Tick, event, events::tick::native(&answer));
        answer
    }

    pub(crate) fn timer(&mut self, cpu: u32, now_ns: u64) -> Timer {
        let answer = self.policy.timer(cpu, now_ns);
        self.note(Kind::Timer, Event { cpu, ..event(now_ns) }, events::timer::native(&answer));
        answer
    }

    pub(crate) fn taken(&mut self, cpu: u32, now_ns: u64) -> Timer {
        let answer = self.policy.taken(cpu, now_ns);
        self.note(Kind::Taken, Event { cpu, ..event(now_ns) }, events::timer::native(&answer));
        answer
    }

    pub(crate) fn busy(&mut self, cpu: u32, now_ns: u64) {
        self.policy.busy(cpu, now_ns);
        self.note(Kind::Busy, Event { cpu, ..event(now_ns) }, Words::NONE);
    }

    pub(crate) fn idle(&mut self, cpu: u32, now_ns: u64) {
        self.policy.idle(cpu, now_ns);
        self.note(Kind::Idle, Event { cpu, ..event(now_ns) }, Words::NONE);
    }

    pub(crate) fn running(&mut self, task: u32, cpu: u32, now_ns: u64) {
        self.policy.running(&mut self.tasks[task as usize], cpu, now_ns);
        self.note(Kind::Running, Event { task, cpu, ..event(now_ns) }, Words::NONE);
    }

    pub(crate) fn stopping(&mut self, task: u32, cpu: u32, now_ns: u64, runnable: bool) {
        self.policy.stopping(&mut self.tasks[task as usize], cpu, now_ns, runnable);
        let event = Event { task, cpu, flags: u32::from(runnable), ..event(now_ns) };
        self.note(Kind::Stopping, event, Words::NONE);
    }

    pub(crate) fn quiescent(&mut self, task: u32, now_ns: u64) {
        self.policy.quiescent(&mut self.tasks[task as usize], now_ns);
        self.note(Kind::Quiescent, Event { task, ..event(now_ns) }, Words::NONE);
    }

    pub(crate) fn weight(&mut self, task: u32, weight: u32, now_ns: u64) {
        self.policy.task_weight(&mut self.tasks[task as usize], weight, now_ns);
        self.note(Kind::Weight, Event { task, weight, ..event(now_ns) }, Words::NONE);
    }

    pub(crate) fn group_init(&mut self, slot: u32, parent: u32, shares: u32) {
        self.policy.group_init(slot, parent, shares);
        let event = Event { mask: slot, flags: parent, weight: shares, ..event(0) };
        self.note(Kind::GroupInit, event, Words::NONE);
    }

    pub(crate) fn group_exit(&mut self, slot: u32) {
        self.policy.group_exit(slot);
        self.note(Kind::GroupExit, Event { mask: slot, ..event(0) }, Words::NONE);
    }

    pub(crate) fn group_shares(&mut self, slot: u32, shares: u32) {
        self.policy.group_shares(0, slot, shares);
        self.note(Kind::GroupShares, Event { mask: slot, weight: shares, ..event(0) }, Words::NONE);
    }

    pub(crate) fn task_group(&mut self, task: u32, slot: u32, now_ns: u64) {
        self.policy.task_group(&mut self.tasks[task as usize], slot, now_ns);
        self.note(Kind::TaskGroup, Event { task, mask: slot, ..event(now_ns) }, Words::NONE);
    }

    pub(crate) fn exit(&mut self, task: u32, now_ns: u64) {
        self.policy.task_exit(&mut self.tasks[task as usize], now_ns);
        self.note(Kind::Exit, Event { task, ..event(now_ns) }, Words::NONE);
    }

    pub(crate) fn idle_mask(&mut self, cpu: u32, idle: bool) {
        self.policy.set_idle_mask(cpu, idle);
        self.note(Kind::IdleMask, Event { cpu, value: u64::from(idle), ..event(0) }, Words::NONE);
    }
}

/// An event about no task.
fn event(now_ns: u64) -> Event {
    Event { now_ns, task: NO_TASK, waker: NO_TASK, ..Event::default() }
}
