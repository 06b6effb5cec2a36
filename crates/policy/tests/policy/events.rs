// SPDX-License-Identifier: GPL-2.0-or-later
//! Any history of events, in any order that a host might produce by mistake: an event told twice has the effect of one,
//! counts are conserved, no answer is outside the affinity mask, and gaps between the CPUs' numbers change no answer.

use proptest::prelude::*;
use wakelab_machine::Topology;
use wakelab_policy::{
    Cover, Decision, EnqueueWhy, HWEIGHT_ONE, Policy, PolicySpec, Queue, SelectIn, Tables, Task,
};

use crate::host::TICK_NS;
use crate::shapes;

const TASKS: usize = 12;

/// An event; CPUs are taken modulo the machine's.
#[derive(Clone, Debug)]
enum Event {
    Busy(u32),
    Idle(u32),
    Enqueue(usize, u32, usize),
    Running(usize, u32),
    Stopping(usize, bool),
    Sleep(usize),
    Quiescent(usize),
    Yield(usize, u32),
    Weight(usize, u32),
    Slice(usize, u32),
    Affinity(usize, u64),
    Exit(usize),
    Tick(u32, Option<usize>),
}

/// A question, which is not told twice.
#[derive(Clone, Debug)]
enum Question {
    Select(usize, usize, u32, u32, u32),
    Pull(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let (task, cpu) = (0..TASKS, 0u32..64);
    prop_oneof![
        2 => cpu.clone().prop_map(Event::Busy),
        2 => cpu.clone().prop_map(Event::Idle),
        6 => (task.clone(), cpu.clone(), 0usize..4).prop_map(|(task, cpu, why)| Event::Enqueue(task, cpu, why)),
        6 => (task.clone(), cpu.clone()).prop_map(|(task, cpu)| Event::Running(task, cpu)),
        4 => (task.clone(), any::<bool>()).prop_map(|(task, runnable)| Event::Stopping(task, runnable)),
        2 => task.clone().prop_map(Event::Sleep),
        2 => task.clone().prop_map(Event::Quiescent),
        2 => (task.clone(), cpu.clone()).prop_map(|(task, cpu)| Event::Yield(task, cpu)),
        1 => (task.clone(), 0u32..100_000).prop_map(|(task, weight)| Event::Weight(task, weight)),
        1 => (task.clone(), 0u32..120_000_000).prop_map(|(task, ns)| Event::Slice(task, ns)),
        2 => (task.clone(), any::<u64>()).prop_map(|(task, mask)| Event::Affinity(task, mask)),
        1 => task.clone().prop_map(Event::Exit),
        3 => (cpu, prop::option::of(task)).prop_map(|(cpu, task)| Event::Tick(cpu, task)),
    ]
}

fn question() -> impl Strategy<Value = Question> {
    let (task, cpu) = (0..TASKS, 0u32..64);
    prop_oneof![
        3 => (task.clone(), task, cpu.clone(), cpu.clone(), 0u32..16)
            .prop_map(|(wakee, waker, this, prev, flags)| Question::Select(wakee, waker, this, prev, flags)),
        1 => cpu.prop_map(Question::Pull),
    ]
}

/// Every value of every axis.
fn spec() -> impl Strategy<Value = PolicySpec> {
    proptest::sample::select(PolicySpec::cover(Cover::Values))
}

/// A policy and its tasks.
struct World {
    policy: Policy,
    tasks: Vec<Task>,
    nr: u32,
    /// The number of each CPU.
    numbers: Vec<u32>,
}

impl World {
    fn new(spec: &PolicySpec, topology: &Topology) -> World {
        World::numbered(spec, topology, (0..topology.cpus.len() as u32).collect())
    }

    fn numbered(spec: &PolicySpec, topology: &Topology, numbers: Vec<u32>) -> World {
        let tables = Tables::build(topology, spec).unwrap().numbered(&numbers).unwrap();
        let mut policy = Policy::with_tables(spec, tables, TICK_NS).unwrap();
        let mut tasks = vec![Task::default(); TASKS];
        for (id, task) in tasks.iter_mut().enumerate() {
            policy.task_init(task, id as u64, 1024, u32::from(id % 2 == 0));
        }
        numbers.iter().for_each(|&cpu| policy.set_idle_mask(cpu, true));
        World { policy, tasks, nr: numbers.len() as u32, numbers }
    }

    /// The index of an answered CPU, which is in the machine; -1: none.
    fn index(&self, cpu: i32) -> i32 {
        let found = self.numbers.iter().position(|&number| number as i32 == cpu);
        assert!(found.is_some() || cpu < 0, "CPU {cpu} of {:?}", self.numbers);
        found.map_or(-1, |index| index as i32)
    }

    /// Returns what is answered, a CPU as its index.
    fn tell(&mut self, event: &Event, now_ns: u64) -> (i32, u64) {
        let (policy, tasks, nr) = (&mut self.policy, &mut self.tasks, self.nr);
        let number = |cpu: u32| self.numbers[(cpu % nr) as usize];
        let mut answer = (-1, 0);
        match *event {
            Event::Busy(cpu) => policy.busy(number(cpu), now_ns),
            Event::Idle(cpu) => policy.idle(number(cpu), now_ns),
            Event::Enqueue(task, cpu, why) => {
                let enqueue = policy.enqueue(&mut tasks[task], number(cpu), EnqueueWhy::ALL[why], now_ns);
                answer = (enqueue.cpu, enqueue.key);
            }
            Event::Running(task, cpu) => policy.running(&mut tasks[task], number(cpu), now_ns),
            Event::Stopping(task, runnable) => policy.stopping(&mut tasks[task], 0, now_ns, runnable),
            Event::Sleep(task) => {
                policy.sleep(&mut tasks[task], now_ns);
            }
            Event::Quiescent(task) => policy.quiescent(&mut tasks[task], now_ns),
            Event::Yield(task, cpu) => policy.yields(&mut tasks[task], number(cpu), now_ns),
            Event::Weight(task, weight) => policy.task_weight(&mut tasks[task], weight, now_ns),
            Event::Slice(task, slice_ns) => policy.task_slice(&mut tasks[task], slice_ns),
            Event::Affinity(task, mask) => {
                let allowed: Vec<u32> = (0..nr).filter(|cpu| mask >> cpu & 1 != 0).map(number).collect();
                policy.set_affinity(&mut tasks[task], Some(&allowed));
            }
            Event::Exit(task) => policy.task_exit(&mut tasks[task], now_ns),
            Event::Tick(cpu, task) => {
                policy.tick(number(cpu), task.map(|task| &mut tasks[task]), now_ns);
            }
        }
        (self.index(answer.0), answer.1)
    }

    fn select(&mut self, wakee: usize, waker: usize, this: u32, prev: u32, input: SelectIn) -> Decision {
        let mut waker = self.tasks[waker];
        let prev = self.numbers.get((prev as usize).wrapping_sub(1)).map_or(-1, |&number| number as i32);
        let this_cpu = self.numbers[(this % self.nr) as usize] as i32;
        let input = SelectIn { this_cpu, prev_cpu: prev, ..input };
        self.policy.select(&input, &mut self.tasks[wakee], Some(&mut waker))
    }

    /// Asks the question, and checks that the answer is inside the affinity mask.
    fn ask(&mut self, question: &Question, now_ns: u64) -> Result<(), TestCaseError> {
        let nr = self.nr;
        match *question {
            Question::Select(wakee, waker, this, prev, flags) => {
                let decision =
                    self.select(wakee, waker, this, prev, SelectIn { flags, now_ns, ..SelectIn::default() });
                let task = &self.tasks[wakee];
                prop_assert!((0..nr as i32).contains(&decision.cpu));
                prop_assert!((0..nr as i32).contains(&decision.target));
                for cpu in [decision.cpu, decision.target] {
                    let allowed = task.allowed[cpu as usize / 64] >> (cpu % 64) & 1 != 0;
                    prop_assert!(allowed || task.nr_allowed == nr, "{:?} of {:?}", decision, task);
                }
                if decision.claimed != 0 {
                    prop_assert!(!self.policy.idle_mask(decision.cpu as u32));
                    self.policy.set_idle_mask(decision.cpu as u32, true);
                }
            }
            Question::Pull(cpu) => {
                for tries in 0.. {
                    prop_assert!(tries < 16, "pulls without end");
                    let mut pull = self.policy.dispatch(cpu % nr, now_ns);
                    if pull.what() != wakelab_policy::DispatchDo::Pull {
                        break;
                    }
                    prop_assert!(pull.cpu as u32 != cpu % nr);
                    for task in &mut self.tasks {
                        let before = *task;
                        let moved = self.policy.may_move(task, cpu % nr, now_ns, &mut pull);
                        prop_assert_eq!(moved.r#move == 1, task.cpu != before.cpu);
                        let allowed =
                            task.allowed[task.cpu.max(0) as usize / 64] >> (task.cpu.max(0) % 64) & 1 != 0;
                        prop_assert!(moved.r#move == 0 || allowed || task.nr_allowed == nr);
                        if moved.stop != 0 {
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that the policy's counts agree with the places of tasks and CPUs.
    fn check(&self) -> Result<(), TestCaseError> {
        let tables = self.policy.tables();
        for cpu in 0..self.nr {
            let on = |place: u32| {
                let here = move |task: &&Task| task.place == place && task.cpu == cpu as i32;
                self.tasks.iter().filter(here)
            };
            let state = self.policy.cpu(cpu);
            let queued = || on(1).chain(on(3));
            prop_assert_eq!(state.nr_queued as usize, queued().count(), "queued on {}", cpu);
            prop_assert_eq!(state.nr_running as usize, on(2).count(), "running on {}", cpu);
            let load: u64 = queued().chain(on(2)).map(|task| u64::from(task.weight)).sum();
            prop_assert_eq!(state.load, load, "load of {}", cpu);
            let own: Vec<u32> = queued()
                .chain(on(2))
                .filter(|task| task.entity.own_slice_ns > 0)
                .map(|task| (task.entity.own_slice_ns >> 16).ilog2().min(10))
                .collect();
            let counted = |class: u32| own.iter().filter(|&&its| its == class).count() as u32;
            prop_assert_eq!(state.slices.nr_own as usize, own.len(), "slices on {}", cpu);
            prop_assert_eq!(
                &state.slices.nr[..],
                (0..11).map(counted).collect::<Vec<_>>(),
                "slices on {}",
                cpu
            );
            let product = |task: &Task| task.entity.vtime.wrapping_mul(u64::from(task.entity.hweight));
            let sum = queued().chain(on(2)).map(product).fold(0, u64::wrapping_add);
            if self.policy.params().queue >= Queue::Fair as u32 {
                prop_assert_eq!(state.queue.vtime_sum, sum, "sum of vtimes of {}", cpu);
                prop_assert_eq!(state.queue.charged, load * u64::from(HWEIGHT_ONE), "weights of {}", cpu);
            }
        }
        for (number, level) in tables.levels.iter().enumerate() {
            for domain in 0..level.first.len() {
                let busy = |&&cpu: &&u16| self.policy.cpu(u32::from(cpu)).state == 2;
                if let Some(count) = self.policy.busy_count(number, domain) {
                    prop_assert_eq!(count as usize, level.domain(domain).iter().filter(busy).count());
                }
            }
        }
        Ok(())
    }

    /// All fields of the tasks' records, as text.
    fn records(&self) -> String {
        format!("{:?}", self.tasks)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_are_conserved_and_answers_allowed(
        topology in shapes::topology(),
        spec in spec(),
        steps in prop::collection::vec((event(), prop::option::of(question()), 0u64..3_000_000), 1..150),
    ) {
        let mut world = World::new(&spec, &topology);
        let mut now_ns = 0;
        for (event, question, pause_ns) in &steps {
            now_ns += pause_ns;
            world.tell(event, now_ns);
            if let Some(question) = question {
                world.ask(question, now_ns)?;
            }
            world.check()?;
        }
    }

    #[test]
    fn told_twice_is_told_once(
        topology in shapes::topology(),
        spec in spec(),
        events in prop::collection::vec((event(), 0u64..3_000_000), 1..100),
    ) {
        let (mut once, mut twice) = (World::new(&spec, &topology), World::new(&spec, &topology));
        let mut now_ns = 0;
        for (event, pause_ns) in &events {
            now_ns += pause_ns;
            once.tell(event, now_ns);
            twice.tell(event, now_ns);
            twice.tell(event, now_ns);
            prop_assert_eq!(once.records(), twice.records(), "{:?}", event);
            prop_assert!(once.policy.state() == twice.policy.state(), "{:?}", event);
        }
    }

    #[test]
    fn gaps_between_numbers_change_no_answer(
        topology in shapes::topology(),
        spec in spec(),
        gaps in prop::collection::vec(0u32..3, 64),
        steps in prop::collection::vec((event(), prop::option::of(question()), 0u64..3_000_000), 1..150),
    ) {
        // A task of a single CPU is one that may run nowhere else.
        prop_assume!(topology.cpus.len() > 1);
        let ends = gaps.iter().scan(0, |next, gap| {
            *next += gap + 1;
            Some(*next - 1)
        });
        let numbers: Vec<u32> = ends.take(topology.cpus.len()).collect();
        let mut dense = World::new(&spec, &topology);
        let mut sparse = World::numbered(&spec, &topology, numbers);
        let mut now_ns = 0;
        for (event, question, pause_ns) in &steps {
            now_ns += pause_ns;
            // Which idle CPU a tick kicks depends on the number of its CPU.
            if matches!(event, Event::Tick(..)) {
                continue;
            }
            prop_assert_eq!(dense.tell(event, now_ns), sparse.tell(event, now_ns), "{:?}", event);
            let Some(Question::Select(wakee, waker, this, prev, flags)) = *question else { continue };
            let input = SelectIn { flags, now_ns, ..SelectIn::default() };
            let decisions = [&mut dense, &mut sparse].map(|world| {
                let decision = world.select(wakee, waker, this, prev, input);
                if decision.claimed != 0 {
                    world.policy.set_idle_mask(decision.cpu as u32, true);
                }
                (world.index(decision.cpu), world.index(decision.target), decision.reason, decision.reads)
            });
            prop_assert_eq!(decisions[0], decisions[1], "{:?}", question);
        }
    }
}
