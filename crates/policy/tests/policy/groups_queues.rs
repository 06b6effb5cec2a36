// SPDX-License-Identifier: GPL-2.0-or-later
//! groups_queues.h: each group is a queue on each CPU.

use proptest::prelude::*;
use wakelab_policy::{EnqueueWhy, Pick, Policy, Preempt, Task};

use crate::host::{MS, START, machine, policy, policy_with_groups};

/// A CPU with its host's queue, which follows docs/design/contract.md.
struct Cpu {
    policy: Policy,
    tasks: Vec<Task>,
    /// Key, when it was queued, and the task.
    queue: Vec<(u64, u32, usize)>,
    queued: u32,
    curr: Option<usize>,
    now_ns: u64,
}

impl Cpu {
    /// `groups`: the slot of each task's group; 0 for the root.
    fn new(text: &str, groups: &[u32]) -> Cpu {
        let topology = machine(1, None, 1, 1);
        let nr = groups.iter().max().copied().unwrap_or(0);
        let mut policy =
            if nr == 0 { policy(text, &topology) } else { policy_with_groups(text, &topology, nr as usize) };
        for slot in 1..=nr {
            policy.group_init(slot, 0, 1024);
        }
        let mut tasks = vec![Task::default(); groups.len()];
        for (id, task) in tasks.iter_mut().enumerate() {
            policy.task_init(task, id as u64 + 1, 1024, 0);
            policy.task_group(task, groups[id], 0);
        }
        Cpu { policy, tasks, queue: Vec::new(), queued: 0, curr: None, now_ns: 0 }
    }

    fn insert(&mut self, key: u64, task: usize) {
        self.queued += 1;
        self.queue.push((key, self.queued, task));
        self.queue.sort_unstable();
    }

    /// A task that sleeps wakes up, perhaps in the queue. Returns whether the running task gives way.
    fn wake(&mut self, task: usize) -> bool {
        self.queue.retain(|&(.., queued)| queued != task);
        let answer = self.policy.enqueue(&mut self.tasks[task], 0, EnqueueWhy::Wakeup, self.now_ns);
        self.insert(answer.key, task);
        match answer.preempt() {
            Preempt::No => self.curr.is_none(),
            Preempt::Yes => true,
            Preempt::IfFirst => self.first(false) == Some(task),
            Preempt::IfFirstAwake => self.first(true) == Some(task),
        }
    }

    /// The first task that may run; with `awake`, sleepers that come before it leave.
    fn first(&mut self, awake: bool) -> Option<usize> {
        let mut at = 0;
        while at < self.queue.len() {
            let (.., task) = self.queue[at];
            if self.policy.may_run(&mut self.tasks[task], 0, self.now_ns).run == 0 {
                at += 1;
            } else if awake && self.tasks[task].place == 3 {
                self.leave(at);
                at = 0;
            } else {
                return Some(task);
            }
        }
        None
    }

    fn leave(&mut self, at: usize) {
        let (.., task) = self.queue.remove(at);
        self.policy.quiescent(&mut self.tasks[task], self.now_ns);
    }

    fn put_back(&mut self) {
        if let Some(task) = self.curr.take() {
            let answer = self.policy.enqueue(&mut self.tasks[task], 0, EnqueueWhy::SliceEnd, self.now_ns);
            self.insert(answer.key, task);
        }
    }

    /// schedule(): the running task has been put back, or sleeps.
    fn schedule(&mut self) {
        self.put_back();
        let pick = self.policy.dispatch(0, self.now_ns).pick();
        loop {
            let (mut first, mut found) = (None, None);
            for at in 0..self.queue.len() {
                let (.., task) = self.queue[at];
                first = first.or(Some(at));
                if pick == Pick::Head || self.policy.may_run(&mut self.tasks[task], 0, self.now_ns).run != 0 {
                    found = Some(at);
                    if matches!(pick, Pick::Head | Pick::Eligible) {
                        break;
                    }
                }
            }
            let Some(at) = found.or(first) else { return };
            let (.., task) = self.queue[at];
            if self.tasks[task].place == 3 {
                self.leave(at);
                continue;
            }
            self.queue.remove(at);
            self.policy.running(&mut self.tasks[task], 0, self.now_ns);
            self.curr = Some(task);
            return;
        }
    }

    /// The running task waits for something.
    fn sleep(&mut self) {
        let Some(task) = self.curr.take() else { return };
        let answer = self.policy.sleep(&mut self.tasks[task], self.now_ns);
        if answer.stay != 0 {
            self.insert(answer.key, task);
        }
        self.schedule();
    }

    fn tick(&mut self) {
        if let Some(task) = self.curr
            && self.policy.tick(0, Some(&mut self.tasks[task]), self.now_ns).resched != 0
        {
            self.schedule();
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Wake(task) if [0, 3].contains(&self.tasks[task].place) => {
                if self.wake(task) {
                    self.schedule();
                }
            }
            Step::Wake(_) => {}
            Step::Sleep => self.sleep(),
            Step::Tick => self.tick(),
        }
    }

    /// CPU time of each task until `end_ns`, in ticks of 1 ms; tasks `sleeps` and wake again at once now and then.
    fn run_until(&mut self, end_ms: u64) -> Vec<u64> {
        while self.now_ns < end_ms * MS {
            self.now_ns += MS;
            self.tick();
        }
        self.tasks.iter().map(|task| task.sum_exec_ns / MS).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wake(usize),
    Sleep,
    Tick,
}

/// A step of this number of tasks.
fn step(tasks: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..tasks).prop_map(Step::Wake),
        4 => Just(Step::Sleep),
        2 => Just(Step::Tick),
    ]
}

/// The header's example: B receives half of the CPU, however many tasks A has.
#[test]
fn tasks_that_waited_before_others_came_share_as_those() {
    let mut cpu = Cpu::new("linux-6.17", &[1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
    for task in 0..3 {
        cpu.wake(task);
    }
    cpu.schedule();
    let early = cpu.run_until(400);
    assert!(early[2].abs_diff(200) <= 6 && early[0].abs_diff(100) <= 6, "{early:?}");
    for task in 3..11 {
        cpu.wake(task);
    }
    let late: Vec<u64> = cpu.run_until(2400).iter().zip(&early).map(|(now, then)| now - then).collect();
    assert!(late[2].abs_diff(1000) <= 10, "{late:?}");
    assert!([0, 1, 3, 4, 5, 6, 7, 8, 9, 10].iter().all(|&task| late[task].abs_diff(100) <= 10), "{late:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// A single group's tasks are served as tasks outside any group would be.
    #[test]
    fn a_single_group_changes_nothing(
        kernel in prop::sample::select(vec!["linux-6.8", "linux-6.12+queue=fair-2024+groups=queues", "linux-6.17"]),
        steps in prop::collection::vec((step(6), 0..3_000_000_u64), 1..200),
    ) {
        let (mut flat, mut nested) = (Cpu::new(kernel, &[0; 6]), Cpu::new(kernel, &[1; 6]));
        for (number, &(step, pause_ns)) in steps.iter().enumerate() {
            for cpu in [&mut flat, &mut nested] {
                cpu.now_ns += pause_ns;
                cpu.step(step);
            }
            prop_assert_eq!(flat.curr, nested.curr, "step {} of {:?}", number, &steps[..=number]);
            for (a, b) in flat.tasks.iter().zip(&nested.tasks) {
                prop_assert_eq!((a.place, a.entity), (b.place, b.entity), "step {}", number);
            }
        }
    }

    /// Two groups of one task each are served as two tasks outside any group would be, also while they stay in the
    /// queue asleep.
    #[test]
    fn two_groups_of_a_task_are_as_two_tasks(
        kernel in prop::sample::select(vec!["linux-6.8", "linux-6.12+queue=fair-2024+groups=queues", "linux-6.17"]),
        steps in prop::collection::vec((step(2), 0..3_000_000_u64), 1..200),
    ) {
        let (mut flat, mut nested) = (Cpu::new(kernel, &[0; 2]), Cpu::new(kernel, &[1, 2]));
        for (number, &(step, pause_ns)) in steps.iter().enumerate() {
            for cpu in [&mut flat, &mut nested] {
                cpu.now_ns += pause_ns;
                cpu.step(step);
            }
            prop_assert_eq!(flat.curr, nested.curr, "step {} of {:?}", number, &steps[..=number]);
            for task in 0..2 {
                let (one, group) = (&flat.tasks[task].entity, nested.policy.group_cpu(task as u32 + 1, 0).entity);
                prop_assert_eq!(one.vtime, group.vtime, "step {} of {:?}", number, &steps[..=number]);
            }
            prop_assert_eq!(flat.policy.cpu(0).queue.charged, nested.policy.cpu(0).queue.charged);
        }
    }
}

/// Two groups of a task each, the first of which runs from 0 on.
fn two_groups(text: &str) -> Cpu {
    let mut cpu = Cpu::new(text, &[1, 2]);
    cpu.wake(0);
    cpu.wake(1);
    cpu.schedule();
    cpu
}

/// The same at 1, when the task of the first group goes to sleep.
fn first_asleep(text: &str) -> Cpu {
    let mut cpu = two_groups(text);
    cpu.now_ns = MS;
    cpu.sleep();
    cpu
}

/// What stands for a group: whether it is there, its vtime and its lag.
fn group(cpu: &Cpu, slot: u32) -> (u32, u64, i64) {
    let record = cpu.policy.group_cpu(slot, 0);
    (record.stands, record.entity.vtime - START, record.entity.lag)
}

#[test]
fn a_group_leaves_and_returns_at_its_lag() {
    let mut cpu = two_groups("linux-6.8");
    assert_eq!((group(&cpu, 1), group(&cpu, 2), cpu.policy.cpu(0).queue.nr), ((1, 0, 0), (1, 0, 0), 2));
    cpu.now_ns = MS;
    cpu.sleep();
    assert_eq!((group(&cpu, 1), cpu.policy.cpu(0).queue.nr), ((0, MS, -(MS as i64) / 2), 1), "V is 0.5 ms");
}

/// The first group is at 1 when its task sleeps, and V is 0.5: it stays, and still counts. The other one has run to 0.4
/// when the task wakes: the group is where it was, still beyond V, and waits.
#[test]
fn a_group_beyond_its_share_stays_without_a_task() {
    let mut cpu = first_asleep("linux-6.17+min-granularity-ns=10000000");
    assert_eq!((group(&cpu, 1), cpu.policy.cpu(0).queue.nr, cpu.curr), ((2, MS, 0), 2, Some(1)));
    cpu.now_ns += 400_000;
    assert!(!cpu.wake(0));
    assert_eq!((group(&cpu, 1), cpu.policy.cpu(0).queue.nr), ((1, MS, 0), 2));
}

/// A tick charges the other group at 3, so that V, 2, has passed the first one. When the task wakes at 3.5 of the other
/// group, its group is placed where that was at the tick, with a whole slice.
#[test]
fn a_group_that_v_has_passed_returns_at_v() {
    let mut cpu = first_asleep("linux-6.17+min-granularity-ns=10000000");
    cpu.now_ns += 3 * MS;
    assert_eq!(cpu.policy.tick(0, Some(&mut cpu.tasks[1]), cpu.now_ns).resched, 0);
    cpu.now_ns += MS / 2;
    cpu.wake(0);
    let entity = cpu.policy.group_cpu(1, 0).entity;
    assert_eq!((entity.vtime, entity.deadline), (START + 3 * MS, START + 13 * MS));
}

/// The first group is at 1 with deadline 10. When the other one's slice is over, at 10, its deadline is 20, V is 5.5,
/// and the first group would be picked: it leaves, without lag, and the other goes on.
#[test]
fn a_group_that_would_be_picked_leaves() {
    let mut cpu = first_asleep("linux-6.17+min-granularity-ns=10000000");
    cpu.now_ns += 10 * MS;
    cpu.tick();
    assert_eq!((group(&cpu, 1), cpu.policy.cpu(0).queue.nr, cpu.curr), ((0, MS, 0), 1, Some(1)));
    assert_eq!(cpu.policy.cpu(0).queue.charged, u64::from(cpu.tasks[1].entity.hweight));
}

/// A task that is moved into the first group is all that it has: what the sleeping one left there is not counted, too.
#[test]
fn a_group_to_which_another_task_comes_weighs_what_that_does() {
    let mut cpu = Cpu::new("linux-6.17+min-granularity-ns=10000000", &[1, 2, 0]);
    for task in 0..3 {
        cpu.wake(task);
    }
    cpu.schedule();
    cpu.now_ns = MS;
    cpu.sleep();
    assert_eq!(group(&cpu, 1).0, 2);
    let now_ns = cpu.now_ns;
    cpu.policy.task_group(&mut cpu.tasks[2], 1, now_ns);
    let hweight = |slot| cpu.policy.group_cpu(slot, 0).entity.hweight;
    assert_eq!((group(&cpu, 1).0, hweight(1)), (1, hweight(2)));
}

/// Both groups stay or leave; when the CPU idles, none is there.
#[test]
fn no_group_stays_on_an_idle_cpu() {
    let mut cpu = first_asleep("linux-6.17");
    cpu.now_ns += MS / 4;
    cpu.sleep();
    assert_eq!((cpu.curr, cpu.policy.cpu(0).queue.nr, cpu.policy.cpu(0).queue.charged), (None, 0, 0));
    assert_eq!((group(&cpu, 1).0, group(&cpu, 1).2), (0, 0));
}
