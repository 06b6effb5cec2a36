// SPDX-License-Identifier: GPL-2.0-or-later
//! The native build: it is told events one by one, and its answers are recorded.

use wakelab_policy::{
    Answer, Decision, Dispatch, Enqueue, EnqueueWhy, Event, EventKind, Move, Moved, Policy, Run, SelectIn,
    Sleep, Task, Tick, Timer,
};

use crate::events::{Step, record};
use crate::kernel::{MASK_WORDS, MASKS, TASKS};

/// One policy, its tasks, and the events since the last [`Native::take`].
pub(crate) struct Native {
    pub(crate) policy: Policy,
    tasks: Vec<Task>,
    last_decision: Decision,
    last_dispatch: Dispatch,
    steps: Vec<Step>,
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

    /// Returns the numbers of events that were not taken yet, and of affinity masks that they use.
    pub(crate) fn pending(&self) -> (usize, usize) {
        (self.steps.len(), self.masks.len())
    }

    /// Takes the events since the last call with their answers, and the masks that they refer to.
    pub(crate) fn take(&mut self) -> (Vec<Step>, Vec<[u64; MASK_WORDS]>) {
        (std::mem::take(&mut self.steps), std::mem::take(&mut self.masks))
    }

    /// Makes a call and records it. The call may read `answer`.
    fn apply(&mut self, event: Event, task: Option<u32>, waker: Option<u32>, mut answer: Answer) -> Answer {
        match (task.map(|task| task as usize), waker.map(|waker| waker as usize)) {
            (Some(task), Some(waker)) => {
                let tasks = self.tasks.get_disjoint_mut([task, waker]);
                let [task, waker] = tasks.expect("waker and wakee are two tasks that exist");
                self.policy.apply(&event, Some(task), Some(waker), &mut answer);
            }
            (task, _) => {
                let task = task.map(|task| &mut self.tasks[task]);
                self.policy.apply(&event, task, None, &mut answer);
            }
        }
        self.note(event, task, waker, 0, answer);
        answer
    }

    fn note(&mut self, event: Event, task: Option<u32>, waker: Option<u32>, mask: u32, answer: Answer) {
        let records = [task, waker].map(|task| task.map(|task| record(&self.tasks[task as usize])));
        self.steps.push(Step { event, task, waker, mask, answer, records });
    }

    /// Tells an event of at most one task.
    fn tell(&mut self, event: Event, task: Option<u32>) -> Answer {
        self.apply(event, task, None, Answer::default())
    }

    pub(crate) fn task_init(&mut self, task: u32, id: u64, weight: u32, flags: u32) {
        self.tell(Event { value: id, weight, flags, ..Event::new(EventKind::TaskInit, 0, 0) }, Some(task));
    }

    /// Changes a task's affinity; `allowed` of `None` means all CPUs.
    pub(crate) fn affinity(&mut self, task: u32, allowed: Option<&[u32]>) {
        assert!(self.masks.len() < MASKS, "a batch has room for {MASKS} masks");
        let mut mask = [0; MASK_WORDS];
        for &cpu in allowed.unwrap_or(&[]) {
            mask[cpu as usize / 64] |= 1 << (cpu % 64);
        }
        self.policy.set_affinity(&mut self.tasks[task as usize], allowed);
        let index = self.masks.len() as u32;
        self.masks.push(mask);
        self.note(Event::new(EventKind::Affinity, 0, 0), Some(task), None, index, Answer::default());
    }

    pub(crate) fn select(&mut self, input: SelectIn, task: u32, waker: Option<u32>) -> Decision {
        let waker = waker.filter(|&waker| waker != task);
        let event = Event {
            prev_cpu: input.prev_cpu,
            flags: input.flags,
            ..Event::new(EventKind::Select, input.this_cpu.cast_unsigned(), input.now_ns)
        };
        let decision: Decision = self.apply(event, Some(task), waker, Answer::default()).get();
        self.decisions += 1;
        self.last_decision = decision;
        decision
    }

    /// Reports the time of the last decision.
    pub(crate) fn scan_took(&mut self, cpu: u32, elapsed_ns: u64) {
        let mut answer = Answer::default();
        answer.set(&self.last_decision);
        let event = Event { value: elapsed_ns, ..on(EventKind::ScanTook, cpu, 0) };
        self.apply(event, None, None, answer);
    }

    /// Queues the task. The CPU that makes the call follows from the event.
    pub(crate) fn enqueue(&mut self, task: u32, cpu: u32, why: EnqueueWhy, now_ns: u64) -> Enqueue {
        let this_cpu = match why {
            EnqueueWhy::SliceEnd => cpu,
            _ => (cpu + task) % self.policy.tables().nr_cpus() as u32,
        };
        let event = Event { cpu, flags: why as u32, ..Event::new(EventKind::Enqueue, this_cpu, now_ns) };
        self.tell(event, Some(task)).get()
    }

    pub(crate) fn dispatch(&mut self, cpu: u32, now_ns: u64) -> Dispatch {
        self.last_dispatch = self.tell(on(EventKind::Dispatch, cpu, now_ns), None).get();
        self.last_dispatch
    }

    /// Asks for the last dispatch, and uses up its budget.
    pub(crate) fn may_move(&mut self, task: u32, cpu: u32, now_ns: u64) -> Move {
        let mut answer = Answer::default();
        answer.set(&self.last_dispatch);
        let moved: Moved = self.apply(on(EventKind::MayMove, cpu, now_ns), Some(task), None, answer).get();
        self.last_dispatch = moved.after;
        moved.out
    }

    pub(crate) fn may_run(&mut self, task: u32, cpu: u32, now_ns: u64) -> Run {
        self.tell(on(EventKind::MayRun, cpu, now_ns), Some(task)).get()
    }

    pub(crate) fn overdue(&mut self, task: u32, cpu: u32, now_ns: u64) -> Run {
        self.tell(on(EventKind::Overdue, cpu, now_ns), Some(task)).get()
    }

    pub(crate) fn tick(&mut self, cpu: u32, task: Option<u32>, now_ns: u64) -> Tick {
        self.tell(on(EventKind::Tick, cpu, now_ns), task).get()
    }

    pub(crate) fn timer(&mut self, cpu: u32, now_ns: u64) -> Timer {
        self.tell(on(EventKind::Timer, cpu, now_ns), None).get()
    }

    pub(crate) fn taken(&mut self, cpu: u32, now_ns: u64) -> Timer {
        self.tell(on(EventKind::Taken, cpu, now_ns), None).get()
    }

    pub(crate) fn busy(&mut self, cpu: u32, now_ns: u64) {
        self.tell(on(EventKind::Busy, cpu, now_ns), None);
    }

    pub(crate) fn idle(&mut self, cpu: u32, now_ns: u64) {
        self.tell(on(EventKind::Idle, cpu, now_ns), None);
    }

    pub(crate) fn running(&mut self, task: u32, cpu: u32, now_ns: u64) {
        self.tell(on(EventKind::Running, cpu, now_ns), Some(task));
    }

    pub(crate) fn stopping(&mut self, task: u32, cpu: u32, now_ns: u64, runnable: bool) {
        let event = Event { flags: u32::from(runnable), ..on(EventKind::Stopping, cpu, now_ns) };
        self.tell(event, Some(task));
    }

    pub(crate) fn sleep(&mut self, task: u32, cpu: u32, now_ns: u64) -> Sleep {
        self.tell(Event::new(EventKind::Sleep, cpu, now_ns), Some(task)).get()
    }

    pub(crate) fn yields(&mut self, task: u32, cpu: u32, now_ns: u64) {
        self.tell(on(EventKind::Yield, cpu, now_ns), Some(task));
    }

    pub(crate) fn quiescent(&mut self, task: u32, now_ns: u64) {
        self.tell(Event::new(EventKind::Quiescent, 0, now_ns), Some(task));
    }

    pub(crate) fn weight(&mut self, task: u32, weight: u32, now_ns: u64) {
        self.tell(Event { weight, ..Event::new(EventKind::Weight, 0, now_ns) }, Some(task));
    }

    pub(crate) fn slice(&mut self, task: u32, slice_ns: u32, now_ns: u64) {
        self.tell(Event { weight: slice_ns, ..Event::new(EventKind::Slice, 0, now_ns) }, Some(task));
    }

    pub(crate) fn group_init(&mut self, slot: u32, parent: u32, shares: u32) {
        self.tell(Event { slot, parent, weight: shares, ..Event::new(EventKind::GroupInit, 0, 0) }, None);
    }

    pub(crate) fn group_exit(&mut self, slot: u32) {
        self.tell(Event { slot, ..Event::new(EventKind::GroupExit, 0, 0) }, None);
    }

    pub(crate) fn group_shares(&mut self, slot: u32, shares: u32) {
        self.tell(Event { slot, weight: shares, ..Event::new(EventKind::GroupShares, 0, 0) }, None);
    }

    pub(crate) fn task_group(&mut self, task: u32, slot: u32, now_ns: u64) {
        self.tell(Event { slot, ..Event::new(EventKind::Group, 0, now_ns) }, Some(task));
    }

    pub(crate) fn exit(&mut self, task: u32, now_ns: u64) {
        self.tell(Event::new(EventKind::Exit, 0, now_ns), Some(task));
    }

    /// Sets a bit of the idle mask, which belongs to the host and not to the policy.
    pub(crate) fn idle_mask(&mut self, cpu: u32, idle: bool) {
        self.policy.set_idle_mask(cpu, idle);
        let event = Event { kind: IDLE_MASK, cpu, value: u64::from(idle), ..Event::default() };
        self.note(event, None, None, 0, Answer::default());
    }
}

/// The kind of an event that sets a bit of the idle mask (PARITY_IDLE_MASK).
pub(crate) const IDLE_MASK: u32 = EventKind::COUNT as u32;

/// An event about the CPU on which it happens.
pub(crate) fn on(kind: EventKind, cpu: u32, now_ns: u64) -> Event {
    Event { cpu, ..Event::new(kind, cpu, now_ns) }
}
