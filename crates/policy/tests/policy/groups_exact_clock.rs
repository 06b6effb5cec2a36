// SPDX-License-Identifier: GPL-2.0-or-later
//! groups_exact_lag.h: v's over minutes of sleeps, changes of affinity, forks and stalls, in which nearly all tasks run
//! because they are overdue.

use wakelab_policy::{Dispatch, DispatchDo, EnqueueWhy, Pick, Policy, Tables, Task};

use crate::host::{Host, MS, START, machine, spec};

/// Two CPUs of one LLC, as the guests of vm/ have.
const CPUS: usize = 2;
/// A tick at 250 Hz.
const TICK: u64 = 4 * MS;
/// Time between two looks at what each CPU does.
const STEP: u64 = MS / 40;
/// 1 s.
const SECOND: u64 = 1000 * MS;

/// What a task is doing.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Queue(usize),
    Cpu(usize),
    Asleep(u64),
}

/// What the tasks of a run do: chances of one in this many for each step of a running task; 0: never.
#[derive(Clone, Copy, Debug)]
struct Habits {
    /// Weights, by turns.
    weights: &'static [u32],
    nr_tasks: usize,
    binds: u64,
    sleeps: u64,
    forks: u64,
    /// A task's weight changes to any of `weights`.
    reweighs: u64,
    /// One in this many steps, a CPU stands still for up to a second.
    stalls: u64,
}

/// A host with two CPUs.
struct Sim {
    policy: Policy,
    now_ns: u64,
    random: u64,
    tasks: Vec<Task>,
    at: Vec<At>,
    habits: Habits,
    /// By CPU: keys and tasks that wait, in order.
    queues: [Vec<(u64, usize)>; CPUS],
    curr: [Option<usize>; CPUS],
    resched: [bool; CPUS],
    stands_until: [u64; CPUS],
    /// How long each task that ran had waited.
    waits: Vec<u64>,
    next_id: u64,
}

impl Sim {
    fn new(habits: Habits, seed: u64) -> Sim {
        let text = spec("linux-4.15+groups=exact").behind_watchdog();
        let tables = Tables::build(&machine(1, None, CPUS as u32, 1), &text).unwrap();
        let mut sim = Sim {
            policy: Policy::with_groups(&text, tables, TICK, 2).unwrap(),
            now_ns: 0,
            random: seed,
            tasks: Vec::new(),
            at: Vec::new(),
            habits,
            queues: [const { Vec::new() }; CPUS],
            curr: [None; CPUS],
            resched: [false; CPUS],
            stands_until: [0; CPUS],
            waits: Vec::new(),
            next_id: 1,
        };
        for at in 0..habits.nr_tasks {
            let task = sim.fork(at);
            sim.tasks.push(task);
            sim.at.push(At::Asleep(0));
        }
        sim
    }

    fn fork(&mut self, at: usize) -> Task {
        let mut task = Task::default();
        self.policy.task_init(
            &mut task,
            self.next_id,
            self.habits.weights[at % self.habits.weights.len()],
            0,
        );
        self.next_id += 1;
        task
    }

    /// Returns the next number of splitmix64, below `below`.
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % below
    }

    fn chance(&mut self, one_in: u64) -> bool {
        one_in != 0 && self.random(one_in) == 0
    }

    fn insert(&mut self, task: usize, cpu: usize, key: u64) {
        let queue = &mut self.queues[cpu];
        let place = queue.partition_point(|&(other, _)| (key.wrapping_sub(other) as i64) >= 0);
        queue.insert(place, (key, task));
        self.at[task] = At::Queue(cpu);
    }

    fn enqueue(&mut self, task: usize, cpu: usize, why: EnqueueWhy) {
        let answer = self.policy.enqueue(&mut self.tasks[task], cpu as u32, why, self.now_ns);
        let cpu = answer.cpu as usize;
        self.insert(task, cpu, answer.key);
        self.resched[cpu] |= answer.preempt != 0 || self.curr[cpu].is_none();
    }

    /// A task stops to be runnable.
    fn dequeue(&mut self, task: usize) {
        match self.at[task] {
            At::Queue(cpu) => self.queues[cpu].retain(|&(_, other)| other != task),
            At::Cpu(cpu) => {
                self.policy.stopping(&mut self.tasks[task], cpu as u32, self.now_ns, false);
                self.curr[cpu] = None;
                self.resched[cpu] = true;
            }
            At::Asleep(_) => return,
        }
        self.policy.quiescent(&mut self.tasks[task], self.now_ns);
        self.at[task] = At::Asleep(0);
    }

    /// As `sched_setaffinity`: takes a task off its queue and puts it back.
    fn bind(&mut self, task: usize) {
        let cpu = self.random(CPUS as u64) as usize;
        let was = self.at[task];
        self.dequeue(task);
        self.policy.set_affinity(&mut self.tasks[task], Some(&[cpu as u32]));
        match was {
            At::Asleep(until_ns) => self.at[task] = At::Asleep(until_ns),
            _ => self.enqueue(task, cpu, EnqueueWhy::Wakeup),
        }
    }

    fn pull(&mut self, cpu: usize, mut dispatch: Dispatch) {
        let from = dispatch.cpu as usize;
        for (_, task) in self.queues[from].clone() {
            let moved = self.policy.may_move(&mut self.tasks[task], cpu as u32, self.now_ns, &mut dispatch);
            if moved.r#move != 0 {
                self.queues[from].retain(|&(_, other)| other != task);
                self.insert(task, cpu, moved.key);
            }
            if moved.stop != 0 {
                break;
            }
        }
    }

    fn schedule(&mut self, cpu: usize) {
        self.resched[cpu] = false;
        if let Some(task) = self.curr[cpu].take() {
            self.policy.stopping(&mut self.tasks[task], cpu as u32, self.now_ns, true);
            self.enqueue(task, cpu, EnqueueWhy::SliceEnd);
            self.resched[cpu] = false;
        }
        let mut dispatch = self.policy.dispatch(cpu as u32, self.now_ns);
        if dispatch.what() == DispatchDo::Pull {
            self.pull(cpu, dispatch);
            dispatch = self.policy.dispatch(cpu as u32, self.now_ns);
        }
        let asked = match dispatch.pick() {
            Pick::Head => 0,
            Pick::LastOfTwo => 2,
            _ => usize::MAX,
        };
        let mut next = self.queues[cpu].first().map(|&(_, task)| task);
        for (_, task) in self.queues[cpu].clone().into_iter().take(asked) {
            if self.policy.may_run(&mut self.tasks[task], cpu as u32, self.now_ns).run != 0 {
                next = Some(task);
            }
        }
        let Some(task) = next else { return };
        self.queues[cpu].retain(|&(_, other)| other != task);
        self.waits.push(self.now_ns - self.tasks[task].waits_since_ns);
        self.policy.running(&mut self.tasks[task], cpu as u32, self.now_ns);
        self.curr[cpu] = Some(task);
        self.at[task] = At::Cpu(cpu);
    }

    /// What the running task of a CPU does.
    fn act(&mut self, cpu: usize) {
        let Some(task) = self.curr[cpu] else { return };
        if self.chance(self.habits.binds) {
            self.bind(task);
        } else if self.chance(self.habits.sleeps) {
            self.dequeue(task);
            self.at[task] = At::Asleep(self.now_ns + self.random(20 * MS));
        } else if self.chance(self.habits.forks) {
            self.dequeue(task);
            self.policy.task_exit(&mut self.tasks[task], self.now_ns);
            self.tasks[task] = self.fork(task);
            self.at[task] = At::Asleep(self.now_ns);
        } else if self.chance(self.habits.reweighs) {
            let weight = self.habits.weights[self.random(self.habits.weights.len() as u64) as usize];
            self.policy.task_weight(&mut self.tasks[task], weight, self.now_ns);
        }
    }

    fn step(&mut self) {
        self.now_ns += STEP;
        for task in 0..self.tasks.len() {
            if matches!(self.at[task], At::Asleep(until_ns) if until_ns <= self.now_ns) {
                let cpu = self.random(CPUS as u64) as usize;
                self.enqueue(task, cpu, EnqueueWhy::Wakeup);
            }
        }
        for cpu in 0..CPUS {
            if self.chance(self.habits.stalls) {
                self.stands_until[cpu] = self.now_ns + self.random(SECOND);
            }
            if self.now_ns < self.stands_until[cpu] {
                continue;
            }
            self.act(cpu);
            let phase = TICK / CPUS as u64 * cpu as u64;
            if (self.now_ns + phase).is_multiple_of(TICK)
                && let Some(task) = self.curr[cpu]
            {
                let tick = self.policy.tick(cpu as u32, Some(&mut self.tasks[task]), self.now_ns);
                self.resched[cpu] |= tick.resched != 0;
            }
            if self.resched[cpu] || self.curr[cpu].is_none() {
                self.schedule(cpu);
            }
        }
    }

    /// The smallest and the largest v of all tasks and of the clock, since the start, in ns.
    fn range(&self) -> (i64, i64) {
        let clock = self.policy.cpu(0).exact_llc.clock.v;
        let vs = self.tasks.iter().map(|task| task.entity.vtime).chain([clock]);
        let since = vs.map(|v| v.wrapping_sub(START) as i64);
        (since.clone().min().unwrap(), since.max().unwrap())
    }
}

/// Nobody's v grows faster than that of the lightest task would if it ran from the start on, and none falls below the
/// start. Before, clocks that went forth and back pushed v's on: after 180 s the largest were 1,255 s (all weights
/// 1024) and 69,000 s (a quarter of them 10).
#[test]
fn no_v_outruns_time() {
    for (weights, fastest) in [(&[1024][..], 1.0), (&[1024, 1024, 1024, 10], 102.4)] {
        for binds in [40, 400] {
            let habits =
                Habits { weights, nr_tasks: 76, binds, sleeps: 2000, forks: 0, reweighs: 1000, stalls: 5000 };
            let mut sim = Sim::new(habits, 1);
            for _ in 0..180 {
                for _ in 0..SECOND / STEP {
                    sim.step();
                }
                let (least, most) = sim.range();
                assert!(least >= 0, "{habits:?}: {least} after {} ns", sim.now_ns);
                assert!(
                    most as f64 <= sim.now_ns as f64 * fastest,
                    "{habits:?}: {most} after {} ns",
                    sim.now_ns
                );
            }
            assert!(*sim.waits.iter().max().unwrap() > SECOND, "{habits:?}: nothing was overdue");
        }
    }
}

/// The same with forks, more sleeps, and tasks of extreme weights: the bound is that of weight 15.
#[test]
fn no_v_outruns_time_among_forks_and_extreme_weights() {
    for seed in 1..=3 {
        let weights = &[88761, 1024, 15];
        let habits = Habits {
            weights,
            nr_tasks: 76,
            binds: 40,
            sleeps: 200,
            forks: 4000,
            reweighs: 400,
            stalls: 10000,
        };
        let mut sim = Sim::new(habits, seed);
        for _ in 0..60 * SECOND / STEP {
            sim.step();
        }
        let (least, most) = sim.range();
        assert!(least >= 0 && most as f64 <= sim.now_ns as f64 * 1024.0 / 15.0, "{least} {most}");
    }
}

fn host() -> Host {
    let text = spec("linux-4.15+groups=exact").behind_watchdog();
    let tables = Tables::build(&machine(1, None, 2, 1), &text).unwrap();
    Host::new(Policy::with_groups(&text, tables, MS, 2).unwrap())
}

/// A runs alone on CPU 0, 100 s ahead. On CPU 1 two tasks of weight 10 take turns, so that the clock advances by 51 ms
/// in 1 ms. After 200 ms A is 200 ms further, what it received, and not where the clock would have pushed it.
#[test]
fn a_clock_that_comes_nearer_does_not_push_a_lead_on() {
    let mut host = host();
    let mut a = host.queued(1024, 0);
    a.entity.vtime = START + 100 * SECOND;
    host.switch_in(&mut a, 0);
    let mut light = [host.running(10, 1), host.queued(10, 1)];
    for ms in 1..=200 {
        host.now_ns = ms * MS;
        host.policy.tick(0, Some(&mut a), host.now_ns);
        light.swap(0, 1);
        let [next, last] = &mut light;
        host.policy.stopping(last, 1, host.now_ns, true);
        host.policy.enqueue(last, 1, EnqueueWhy::SliceEnd, host.now_ns);
        host.policy.dispatch(1, host.now_ns);
        host.switch_in(next, 1);
    }
    let clock = host.policy.cpu(0).exact_llc.clock;
    assert!(clock.v - START > 9 * SECOND && clock.rate > 40 * 1024, "{clock:?}");
    assert_eq!(a.entity.vtime - START, 100 * SECOND + 200 * MS);
}

/// A task went to sleep with v of 1 ms, 3 ms ahead of a clock that was at -2 ms. At 1 ms the clock is at 0: it wakes
/// with 2 ms, what it would have if it had run. The other way round, its v does not fall.
#[test]
fn a_sleeper_is_not_moved_further_than_if_it_had_run() {
    for (v, lag, wakes_at) in [(1, 3, 2), (-1, -3, -1), (-4, 3, 0), (4, -3, 0), (2, 3, 3), (-3, -2, -2)] {
        let mut host = host();
        host.now_ns = MS;
        let mut task = host.task(1024);
        task.flags = 0;
        task.entity.vtime = START.wrapping_add_signed(v * MS as i64);
        task.entity.lag = lag * MS as i64;
        host.policy.enqueue(&mut task, 0, EnqueueWhy::Wakeup, MS);
        assert_eq!(task.entity.vtime.wrapping_sub(START) as i64, wakes_at * MS as i64, "{v} {lag}");
    }
}

/// A task that waits 5 s ahead of the clock is overdue after a second: it runs with the clock's v, which stays.
#[test]
fn an_overdue_task_is_forgiven_its_lead() {
    for (ms, v_ms) in [(1000, 5000), (1001, 0)] {
        let mut host = host();
        let mut task = host.queued(1024, 0);
        let _waits = host.queued(1024, 0);
        task.entity.vtime += 5 * SECOND;
        host.now_ns = ms * MS;
        host.switch_in(&mut task, 0);
        assert_eq!(task.entity.vtime - START, v_ms * MS);
        assert_eq!(host.policy.cpu(0).exact_llc.clock.v - START, v_ms * MS / 4);
    }
}

/// The first task has waited since 0 ms, 5 s ahead of the others, which have since 100 and 200 ms. At 1.5 s all are
/// overdue, and the first one runs, though the second comes before it.
#[test]
fn of_overdue_tasks_the_one_that_has_waited_longest_runs() {
    let mut host = host();
    let mut tasks = [0, 100, 200].map(|ms| {
        host.now_ns = ms * MS;
        host.queued(1024, 0)
    });
    tasks[0].entity.vtime += 5 * SECOND;
    host.policy.dispatch(0, 1500 * MS);
    let runs = [1, 0, 2].map(|task: usize| host.policy.may_run(&mut tasks[task], 0, 1500 * MS).run);
    assert_eq!(runs, [1, 1, 0]);
}
