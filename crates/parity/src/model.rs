// SPDX-License-Identifier: GPL-2.0-or-later
//! A random kernel: tells the native policy what could happen on a machine, and follows its answers.
//!
//! It is not a simulator: time jumps at random, nothing takes time, and queues have no order. It keeps just enough
//! truth (which task runs or is queued where) to bring the policy into the states of a real machine, full and empty
//! ones. Now and then it tells what no kernel would: an event twice, an event out of order, time that goes back.

use wakelab_policy::{
    DispatchDo, EnqueueWhy, SelectIn, TASK_KTHREAD, TASK_NEW, WAKE_EXEC, WAKE_FORK, WAKE_IRQ, WAKE_SYNC,
};

use crate::kernel::{BATCH, MASKS, TASKS};
use crate::native::Native;
use crate::random::Random;

/// The most events that one step tells, with room to spare: batches end between steps.
const STEP_EVENTS_MAX: usize = 512;
/// The most masks that one step uses.
const STEP_MASKS_MAX: usize = 8;
/// The number of tasks of a queue that a pull looks at.
const PULL_LOOK_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The record is free.
    Gone,
    Asleep,
    Queued(u32),
    /// Asleep, but still in the queue.
    Delayed(u32),
    Running(u32),
}

#[derive(Clone, Debug, Default)]
struct ModelCpu {
    running: Option<u32>,
    queue: Vec<u32>,
    busy: bool,
}

/// The machine as the model knows it.
pub(crate) struct Model {
    pub(crate) native: Native,
    random: Random,
    cpus: Vec<ModelCpu>,
    places: Vec<Place>,
    /// The number of records in use; fewer than TASKS on small machines, so that tasks meet again.
    nr_tasks: usize,
    /// By slot above the root's: the parent of its group.
    groups: Vec<Option<u32>>,
    /// The percentage of steps that bring work onto the machine. It drifts, so that the machine is empty, full and in
    /// between.
    load_percent: usize,
    now_ns: u64,
    next_id: u64,
}

impl Model {
    pub(crate) fn new(native: Native, mut random: Random) -> Model {
        let nr_cpus = native.policy.tables().nr_cpus();
        let nr_tasks = (nr_cpus * random.pick(&[1, 2, 4]) + 4).min(TASKS);
        let now_ns = random.magnitude(62);
        let nr_groups = native.policy.params().nr_groups.saturating_sub(1);
        let mut model = Model {
            native,
            groups: vec![None; nr_groups as usize],
            random,
            cpus: vec![ModelCpu::default(); nr_cpus],
            places: vec![Place::Gone; nr_tasks],
            nr_tasks,
            load_percent: 50,
            now_ns,
            next_id: 1,
        };
        model.start();
        model
    }

    /// Some CPUs report at once, others never before their first task.
    fn start(&mut self) {
        let silent_percent = self.random.pick(&[0, 20, 100]);
        for cpu in 0..self.cpus.len() as u32 {
            if !self.random.chance(silent_percent) {
                self.native.idle(cpu, self.now_ns);
                self.native.idle_mask(cpu, true);
            }
        }
    }

    /// Whether the events so far should be taken before the next step.
    pub(crate) fn batch_is_full(&self) -> bool {
        let (events, masks) = self.native.pending();
        events + STEP_EVENTS_MAX > BATCH || masks + STEP_MASKS_MAX > MASKS
    }

    /// Lets one thing happen.
    pub(crate) fn step(&mut self) {
        self.pass_time();
        if self.random.below(200) == 0 {
            self.load_percent = self.random.pick(&[5, 20, 35, 50, 65, 90]);
        }
        let push = self.random.chance(self.load_percent);
        match (self.random.below(20), push) {
            (0, _) => self.task_changes(),
            (1, _) => self.nonsense(),
            (2, _) => self.exec(),
            (3..6, _) => self.tick(),
            (6..8, _) => {
                let cpu = self.any_cpu();
                self.schedule(cpu);
            }
            (8..10, true) => self.fork(),
            (_, true) => self.wake(),
            (_, false) => self.sleep_or_exit(),
        }
    }

    fn pass_time(&mut self) {
        if self.random.chance(1) {
            self.now_ns = self.now_ns.saturating_sub(self.random.magnitude(20));
        } else if self.random.chance(80) {
            self.now_ns += self.random.magnitude(22);
        }
        if self.random.below(500) == 0 {
            self.now_ns += self.random.magnitude(33);
        }
    }

    fn any_cpu(&mut self) -> u32 {
        self.random.below(self.cpus.len()) as u32
    }

    /// Returns a task in a place that `wanted` accepts, from a random start; none if no task is.
    fn find_task(&mut self, wanted: impl Fn(Place) -> bool) -> Option<u32> {
        let start = self.random.below(self.nr_tasks);
        (start..self.nr_tasks).chain(0..start).find(|&task| wanted(self.places[task])).map(|task| task as u32)
    }

    fn wake(&mut self) {
        let asleep = |place| matches!(place, Place::Asleep | Place::Delayed(_));
        let Some(task) = self.find_task(asleep) else { return self.fork() };
        if let Place::Delayed(cpu) = self.places[task as usize] {
            self.cpus[cpu as usize].queue.retain(|&other| other != task);
            // A host wakes it where it is; another CPU is what the policy must survive.
            let asked = if self.random.chance(90) { cpu } else { self.any_cpu() };
            return self.enqueue(task, asked, EnqueueWhy::Wakeup);
        }
        let flags = self.random.pick(&[0, 0, WAKE_SYNC, WAKE_SYNC, WAKE_IRQ, WAKE_IRQ | WAKE_SYNC]);
        self.place(task, flags, EnqueueWhy::Wakeup);
    }

    fn fork(&mut self) {
        let Some(task) = self.find_task(|place| place == Place::Gone) else { return self.sleep_or_exit() };
        let weight = self.random_weight();
        let flags = self.random.pick(&[TASK_NEW, TASK_NEW, TASK_NEW, 0, TASK_NEW | TASK_KTHREAD]);
        let id = self.next_id;
        self.next_id += 1;
        self.native.task_init(task, id, weight, flags);
        if self.random.chance(60) {
            self.regroup(task);
        }
        if self.random.chance(20) {
            self.new_affinity(task);
        }
        self.place(task, WAKE_FORK, EnqueueWhy::Fork);
    }

    /// Asks where the task should run and queues it there.
    fn place(&mut self, task: u32, flags: u32, why: EnqueueWhy) {
        let (this_cpu, waker) = self.find_waker(flags);
        let decision = self.select(task, this_cpu, waker, flags);
        if self.random.chance(3) && why == EnqueueWhy::Wakeup {
            // The wake-up leads nowhere, so its claim is given back.
            if decision.claimed != 0 {
                self.native.idle_mask(decision.cpu.cast_unsigned(), true);
            }
            return;
        }
        let asked = if self.random.chance(95) { decision.cpu.cast_unsigned() } else { self.any_cpu() };
        self.enqueue(task, asked, why);
    }

    /// Most wake-ups come from a running task, some from interrupts on random CPUs.
    fn find_waker(&mut self, flags: u32) -> (u32, Option<u32>) {
        let from_task = flags & WAKE_IRQ == 0 && self.random.chance(90);
        if from_task
            && let Some(waker) = self.find_task(|place| matches!(place, Place::Running(_)))
            && let Place::Running(cpu) = self.places[waker as usize]
        {
            return (cpu, Some(waker));
        }
        let cpu = self.any_cpu();
        (cpu, self.cpus[cpu as usize].running)
    }

    fn select(
        &mut self,
        task: u32,
        this_cpu: u32,
        waker: Option<u32>,
        flags: u32,
    ) -> wakelab_policy::Decision {
        let prev_cpu = match self.random.below(20) {
            // A busy CPU, so that the search has to go on.
            10.. => match self.find_task(|place| matches!(place, Place::Running(_))) {
                Some(other) => self.native.task(other).cpu,
                None => self.native.task(task).cpu,
            },
            0 => self.any_cpu().cast_signed(),
            1 => this_cpu.cast_signed(),
            2 => self.random.pick(&[-1, i32::MIN, i32::MAX, self.cpus.len() as i32]), // a CPU that is no more
            _ => self.native.task(task).cpu,
        };
        let input =
            SelectIn { this_cpu: this_cpu.cast_signed(), prev_cpu, flags, unused: 0, now_ns: self.now_ns };
        let decision = self.native.select(input, task, waker);
        if decision.scan_timed != 0 && self.random.chance(80) {
            let elapsed_ns = self.random.magnitude(18);
            self.native.scan_took(this_cpu, elapsed_ns);
        }
        decision
    }

    fn enqueue(&mut self, task: u32, cpu: u32, why: EnqueueWhy) {
        let answer = self.native.enqueue(task, cpu, why, self.now_ns);
        let cpu = answer.cpu.cast_unsigned();
        self.native.idle_mask(cpu, false);
        self.cpus[cpu as usize].queue.push(task);
        self.places[task as usize] = Place::Queued(cpu);
        let idle = !self.cpus[cpu as usize].busy;
        if (idle || answer.preempt != 0) && self.random.chance(80) {
            self.schedule(cpu);
        }
    }

    /// The CPU puts back what runs there, and takes what the policy says.
    fn schedule(&mut self, cpu: u32) {
        if let Some(task) = self.cpus[cpu as usize].running.take() {
            self.native.stopping(task, cpu, self.now_ns, true);
            let answer = self.native.enqueue(task, cpu, EnqueueWhy::SliceEnd, self.now_ns);
            let home = answer.cpu.cast_unsigned();
            self.cpus[home as usize].queue.push(task);
            self.places[task as usize] = Place::Queued(home);
        }
        self.pick_next(cpu);
    }

    fn pick_next(&mut self, cpu: u32) {
        // A pull may get nothing. The policy must not ask for ever, but another test checks that.
        let mut seeks_overdue = false;
        for _ in 0..8 {
            let dispatch = self.native.dispatch(cpu, self.now_ns);
            seeks_overdue = dispatch.overdue != 0;
            match dispatch.what() {
                DispatchDo::Pull => self.pull(cpu, dispatch.cpu.cast_unsigned()),
                DispatchDo::Own => break,
                DispatchDo::Nothing => return self.go_idle(cpu),
            }
        }
        let len = self.cpus[cpu as usize].queue.len();
        if len == 0 {
            return self.go_idle(cpu);
        }
        let start = self.random.below(len);
        // Queues have no order, so the policy is asked from a random start on. It need not want any task.
        let asked: Vec<usize> = (0..len.min(PULL_LOOK_MAX)).map(|step| (start + step) % len).collect();
        let mut wanted = None;
        for &at in asked.iter().filter(|_| seeks_overdue) {
            let task = self.cpus[cpu as usize].queue[at];
            if self.native.overdue(task, cpu, self.now_ns).run != 0 {
                wanted = Some(at);
            }
        }
        let wanted = wanted.or_else(|| {
            asked.into_iter().find(|&at| {
                let task = self.cpus[cpu as usize].queue[at];
                self.native.may_run(task, cpu, self.now_ns).run != 0
            })
        });
        let next = self.cpus[cpu as usize].queue.swap_remove(wanted.unwrap_or(start));
        if let Place::Delayed(_) = self.places[next as usize] {
            self.native.quiescent(next, self.now_ns);
            self.places[next as usize] = Place::Asleep;
            return self.pick_next(cpu);
        }
        self.run(next, cpu);
    }

    fn pull(&mut self, to: u32, from: u32) {
        let candidates: Vec<u32> =
            self.cpus[from as usize].queue.iter().copied().take(PULL_LOOK_MAX).collect();
        for task in candidates {
            let answer = self.native.may_move(task, to, self.now_ns);
            if answer.r#move != 0 {
                self.cpus[from as usize].queue.retain(|&other| other != task);
                self.cpus[to as usize].queue.push(task);
                self.places[task as usize] = Place::Queued(to);
            }
            if answer.stop != 0 {
                break;
            }
        }
    }

    fn run(&mut self, task: u32, cpu: u32) {
        if !self.cpus[cpu as usize].busy {
            self.native.busy(cpu, self.now_ns);
            self.native.idle_mask(cpu, false);
        }
        self.native.running(task, cpu, self.now_ns);
        self.cpus[cpu as usize].busy = true;
        self.cpus[cpu as usize].running = Some(task);
        self.places[task as usize] = Place::Running(cpu);
    }

    fn go_idle(&mut self, cpu: u32) {
        if self.cpus[cpu as usize].busy {
            self.native.idle(cpu, self.now_ns);
        }
        self.cpus[cpu as usize].busy = false;
        if self.cpus[cpu as usize].queue.is_empty() {
            self.native.idle_mask(cpu, true);
        }
    }

    fn sleep_or_exit(&mut self) {
        let Some(task) = self.find_task(|place| matches!(place, Place::Running(_))) else { return };
        let Place::Running(cpu) = self.places[task as usize] else { return };
        self.cpus[cpu as usize].running = None;
        if self.native.policy.params().traits().delays != 0 && self.random.chance(70) {
            if self.native.sleep(task, cpu, self.now_ns).stay != 0 {
                self.cpus[cpu as usize].queue.push(task);
                self.places[task as usize] = Place::Delayed(cpu);
                return self.pick_next(cpu);
            }
        } else {
            self.native.stopping(task, cpu, self.now_ns, false);
        }
        self.native.quiescent(task, self.now_ns);
        self.places[task as usize] = Place::Asleep;
        if self.random.chance(10) {
            self.native.exit(task, self.now_ns);
            self.places[task as usize] = Place::Gone;
        }
        self.pick_next(cpu);
    }

    /// exec places the running task again.
    fn exec(&mut self) {
        let Some(task) = self.find_task(|place| matches!(place, Place::Running(_))) else { return };
        let Place::Running(cpu) = self.places[task as usize] else { return };
        let decision = self.select(task, cpu, None, WAKE_EXEC);
        if decision.cpu == cpu.cast_signed() {
            return;
        }
        self.cpus[cpu as usize].running = None;
        self.native.stopping(task, cpu, self.now_ns, true);
        self.enqueue(task, decision.cpu.cast_unsigned(), EnqueueWhy::Moved);
        if self.cpus[cpu as usize].running.is_none() {
            self.pick_next(cpu);
        }
    }

    fn tick(&mut self) {
        let cpu = self.any_cpu();
        if self.random.chance(15) {
            self.native.timer(cpu, self.now_ns);
        }
        // This is also told when it is not true: the counts must heal.
        if self.random.chance(10) {
            let kicked = self.native.taken(cpu, self.now_ns).kick_cpu;
            if kicked >= 0 && self.random.chance(80) {
                self.schedule(kicked.cast_unsigned());
            }
        }
        if !self.cpus[cpu as usize].busy {
            return;
        }
        if let Some(task) = self.cpus[cpu as usize].running
            && self.random.chance(10)
        {
            self.native.yields(task, cpu, self.now_ns);
            self.schedule(cpu);
            return;
        }
        let running = self.cpus[cpu as usize].running.filter(|_| self.random.chance(95));
        let answer = self.native.tick(cpu, running, self.now_ns);
        if (answer.resched != 0 || answer.balance_due != 0) && self.random.chance(80) {
            self.schedule(cpu);
        }
        if answer.kick_cpu >= 0 && self.random.chance(80) {
            self.schedule(answer.kick_cpu.cast_unsigned());
        }
    }

    /// Weight, slice or affinity of some task changes. A queued task that may not stay is queued again.
    fn task_changes(&mut self) {
        if !self.groups.is_empty() && self.random.chance(60) {
            return self.group_changes();
        }
        let Some(task) = self.find_task(|place| place != Place::Gone) else { return };
        if self.random.chance(60) {
            let weight = self.random_weight();
            return self.native.weight(task, weight, self.now_ns);
        }
        if self.random.chance(50) {
            let slice_ns = self.random.pick(&[0, 1, 400_000, 700_000, 3_000_000, 20_000_000, u32::MAX]);
            return self.native.slice(task, slice_ns, self.now_ns);
        }
        let allowed = self.new_affinity(task);
        if let Place::Queued(cpu) = self.places[task as usize]
            && !allowed.is_empty()
            && !allowed.contains(&cpu)
        {
            self.cpus[cpu as usize].queue.retain(|&other| other != task);
            if self.random.chance(50) {
                self.native.quiescent(task, self.now_ns);
            }
            let to = self.random.pick(&allowed);
            self.enqueue(task, to, EnqueueWhy::Moved);
        }
    }

    /// A group begins, ends, or gets other shares; or a task goes to another group.
    fn group_changes(&mut self) {
        let at = self.random.below(self.groups.len());
        let slot = at as u32 + 1;
        let shares = self.random.pick(&[1024, 1024, 2, 341, 5000, 262_144]);
        match (self.groups[at], self.random.below(10)) {
            (None, _) => {
                let parent = self.any_group();
                self.native.group_init(slot, parent, shares);
                self.groups[at] = Some(parent);
            }
            (Some(_), 0) => {
                let is_used = (0..self.nr_tasks as u32).any(|task| {
                    self.places[task as usize] != Place::Gone && self.native.task(task).group == slot
                });
                if !is_used && !self.groups.contains(&Some(slot)) {
                    self.native.group_exit(slot);
                    self.groups[at] = None;
                }
            }
            (Some(_), 1..4) => self.native.group_shares(slot, shares),
            (Some(_), _) => {
                if let Some(task) = self.find_task(|place| place != Place::Gone) {
                    self.regroup(task);
                }
            }
        }
    }

    fn regroup(&mut self, task: u32) {
        let slot = self.any_group();
        if !self.groups.is_empty() {
            self.native.task_group(task, slot, self.now_ns);
        }
    }

    /// Returns a slot in use, or the root's.
    fn any_group(&mut self) -> u32 {
        let at = self.random.below(self.groups.len() + 1);
        if at > 0 && self.groups[at - 1].is_some() { at as u32 } else { 0 }
    }

    /// Returns all CPUs, one, a few, a run of neighbours, or a random half. Empty means all.
    fn new_affinity(&mut self, task: u32) -> Vec<u32> {
        let nr_cpus = self.cpus.len();
        let allowed: Vec<u32> = match self.random.below(10) {
            0..3 => Vec::new(),
            3 => vec![self.any_cpu()],
            4..6 => (0..1 + self.random.below(4)).map(|_| self.any_cpu()).collect(),
            6..8 => {
                let (first, count) = (self.random.below(nr_cpus), 1 + self.random.below(nr_cpus));
                (first..nr_cpus.min(first + count)).map(|cpu| cpu as u32).collect()
            }
            _ => (0..nr_cpus as u32).filter(|_| self.random.chance(50)).collect(),
        };
        self.native.affinity(task, if allowed.is_empty() { None } else { Some(&allowed) });
        allowed
    }

    fn random_weight(&mut self) -> u32 {
        self.random.pick(&[1024, 1024, 1024, 15, 110, 335, 820, 1277, 3121, 9548, 88761])
    }

    /// Tells an event twice, or out of order. The model's truth does not change.
    fn nonsense(&mut self) {
        let cpu = self.any_cpu();
        let now_ns = self.now_ns;
        match self.random.below(6) {
            0 if self.cpus[cpu as usize].busy => self.native.busy(cpu, now_ns),
            0 => self.native.idle(cpu, now_ns),
            1 => match self.cpus[cpu as usize].running {
                Some(task) => self.native.running(task, cpu, now_ns),
                None => self.native.idle_mask(cpu, self.cpus[cpu as usize].queue.is_empty()),
            },
            2 => {
                if let Some(task) = self.find_task(|place| place == Place::Asleep) {
                    self.native.quiescent(task, now_ns);
                    self.native.stopping(task, cpu, now_ns, false);
                }
            }
            3 => {
                if let Some(task) = self.find_task(|place| matches!(place, Place::Queued(_))) {
                    let home = self.native.task(task).cpu.cast_unsigned();
                    self.native.enqueue(task, home, EnqueueWhy::Wakeup, now_ns);
                    self.requeue_where_it_counts(task);
                }
            }
            4 => {
                self.native.dispatch(cpu, now_ns);
            }
            _ => {
                // A pull asks about a task in another queue than the one that it was sent to.
                if let Some(task) = self.find_task(|place| matches!(place, Place::Queued(_))) {
                    self.native.may_move(task, cpu, now_ns);
                    self.requeue_where_it_counts(task);
                }
            }
        }
    }

    /// Moves a queued task to the queue of the CPU on which the policy counts it.
    fn requeue_where_it_counts(&mut self, task: u32) {
        let Place::Queued(from) = self.places[task as usize] else { return };
        let home = self.native.task(task).cpu.cast_unsigned();
        self.cpus[from as usize].queue.retain(|&other| other != task);
        self.cpus[home as usize].queue.push(task);
        self.places[task as usize] = Place::Queued(home);
    }
}
