// SPDX-License-Identifier: GPL-2.0-or-later
//! host/walk.h: a walk that is answered 64 CPUs at a time is the walk of the loop in idle_visit.h.
//!
//! The host answers only walks of tasks that may run anywhere. So the same searches are made in two instances of the
//! policy: by a task without limits, and by one that may not run on a single CPU of a node that no search gets to.

use proptest::prelude::*;
use wakelab_machine::Topology;
use wakelab_policy::{Decision, Policy, Seen, SelectIn, Task};

use crate::host::{machine, policy};

/// What happens before and between searches.
#[derive(Clone, Copy, Debug)]
enum Action {
    Busy,
    Idle,
    /// The host takes the CPU's bit out of the idle mask: another wake-up has claimed it.
    Claim,
    /// Longer searches lower the limit of the next ones.
    Took(u64),
    /// A search on this CPU; the other number is the task's CPU.
    Select(u32),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => Just(Action::Busy),
        2 => Just(Action::Idle),
        1 => Just(Action::Claim),
        1 => (1u64..400_000).prop_map(Action::Took),
        4 => any::<u32>().prop_map(Action::Select),
    ]
}

/// One of the two instances.
struct Side {
    policy: Policy,
    task: Task,
    last: Option<(u32, Decision)>,
}

impl Side {
    fn new(spec: &str, topology: &Topology, allowed: Option<&[u32]>) -> Side {
        let mut policy = policy(spec, topology);
        for cpu in 0..topology.nr_cpus() as u32 {
            policy.set_idle_mask(cpu, true);
        }
        let mut task = Task::default();
        policy.task_init(&mut task, 1, 1024, 0);
        policy.set_affinity(&mut task, allowed);
        Side { policy, task, last: None }
    }

    /// Does it at `cpu`. Returns the answer of a search, and its reads.
    fn act(&mut self, action: Action, cpu: u32, searched: u32, now_ns: u64) -> Option<(Decision, Seen)> {
        match action {
            Action::Busy => {
                self.policy.set_idle_mask(cpu, false);
                self.policy.busy(cpu, now_ns);
            }
            Action::Idle => {
                self.policy.idle(cpu, now_ns);
                self.policy.set_idle_mask(cpu, true);
            }
            Action::Claim => self.policy.set_idle_mask(cpu, false),
            Action::Took(elapsed_ns) => {
                if let Some((cpu, decision)) = &self.last {
                    self.policy.scan_took(*cpu, decision, elapsed_ns);
                }
            }
            Action::Select(prev) => {
                let (this_cpu, prev_cpu) = (cpu as i32, (prev % searched) as i32);
                let input = SelectIn { this_cpu, prev_cpu, now_ns, ..SelectIn::default() };
                let decision = self.policy.select(&input, &mut self.task, None);
                self.last = Some((cpu, decision));
                return Some((decision, *self.policy.seen()));
            }
        }
        None
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Three nodes of 70 or 140 CPUs, whose numbers begin and end inside words. The third has the forbidden CPU.
    #[test]
    fn words_answer_as_the_loop_does(
        threads in 1u32..3,
        spec in prop::sample::select(vec!["linux-4.15", "linux-5.2", "linux-5.12", "linux-6.12", "linux-5.2+idle=narrow"]),
        actions in prop::collection::vec((action(), any::<u32>()), 50..600),
    ) {
        let topology = machine(3, None, 70, threads);
        let cores = topology.nr_cpus() as u32 / threads;
        let allowed: Vec<u32> = (0..topology.nr_cpus() as u32).filter(|&cpu| cpu != cores - 1).collect();
        let mut by_words = Side::new(spec, &topology, None);
        let mut by_loop = Side::new(spec, &topology, Some(&allowed));
        for (turn, (action, number)) in actions.into_iter().enumerate() {
            let now_ns = turn as u64 * 1_000;
            // CPUs of the first two nodes, in either half of the numbers.
            let searched = cores / 3 * 2;
            let cpu = number % searched + number / searched % threads * cores;
            let (words, looped) =
                (by_words.act(action, cpu, searched, now_ns), by_loop.act(action, cpu, searched, now_ns));
            match (words, looped) {
                (Some(words), Some(looped)) => {
                    prop_assert_eq!(words.0, looped.0);
                    prop_assert_eq!(words.1.hits, looped.1.hits);
                    prop_assert_eq!(words.1.misses, looped.1.misses);
                    prop_assert_eq!(words.1.taken, looped.1.taken);
                    prop_assert_eq!(words.1.steps(), looped.1.steps());
                }
                (words, looped) => prop_assert!(words.is_none() && looped.is_none()),
            }
        }
        prop_assert!(by_words.policy.state() == by_loop.policy.state());
    }
}
