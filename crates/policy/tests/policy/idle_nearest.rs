// SPDX-License-Identifier: GPL-2.0-or-later
//! idle_nearest.h and block.h: the worked examples, then any history on any machine against a slow search.

use proptest::prelude::*;
use wakelab_machine::Distance::{Cpu, Llc, Numa1};
use wakelab_machine::Topology;
use wakelab_policy::{Decision, EnqueueWhy, Policy, Reason, SelectIn, Task};

use crate::host::{Host, MS, TICK_NS, machine, policy, reads, spec};
use crate::shapes;

const SPEC: &str = "linux-4.15+idle=nearest+affine=off";

/// One LLC of 2 blocks of 8 cores x 2 threads: CPU c and c + 16 share a core, cores 0 to 7 a block.
fn two_blocks() -> Topology {
    machine(1, None, 16, 2)
}

/// Everything busy, and known to be: a search has found nothing.
fn all_busy(topology: &Topology) -> Host {
    let mut host = Host::new(policy(SPEC, topology));
    host.now_ns = MS;
    host.occupy(&(0..topology.cpus.len() as u32).collect::<Vec<_>>());
    let mut task = host.sleeper(1024, 0);
    assert_eq!(host.wake(&mut task, 0, 0).reason(), Reason::NoneIdle);
    assert_eq!(host.policy.cpu(0).nearest_llc.idle_blocks, 0, "the search cleared every stale bit");
    host
}

fn wake(host: &mut Host, this: u32, prev: u32) -> Decision {
    let mut task = host.sleeper(1024, prev);
    host.wake(&mut task, this, prev)
}

/// The header's example of block.h.
#[test]
fn summaries_follow_the_words() {
    // 2 clusters of 2 cores x 2 threads: each a block.
    let mut host = Host::new(policy(SPEC, &machine(1, Some(2), 2, 2)));
    let summary = |host: &Host| {
        (host.policy.cpu(0).nearest_llc.idle_blocks, host.policy.cpu(0).nearest_llc.core_blocks)
    };
    assert_eq!(summary(&host), (0b11, 0b11));
    // A search runs while target and the others are busy: it finds CPU 0's stale bit through its core.
    host.now_ns = MS;
    host.occupy(&[0]);
    assert_eq!(wake(&mut host, 0, 0).cpu, 1, "the idle core of target's block");
    host.policy.set_idle_mask(1, true);
    host.occupy(&[4]);
    assert_eq!(summary(&host), (0b11, 0b11), "core {{1, 5}} idles");
    host.occupy(&[1]);
    assert_eq!(summary(&host), (0b11, 0b10));
    host.occupy(&[5]);
    assert_eq!(summary(&host), (0b10, 0b10));
    host.vacate(&[5]);
    assert_eq!(summary(&host), (0b11, 0b10));
    host.vacate(&[1]);
    assert_eq!(summary(&host), (0b11, 0b11));
}

/// The header's example of idle_nearest.h, with 8 cores a block instead of 2.
#[test]
fn cores_first_then_cpus_and_each_near_target_first() {
    let mut host = all_busy(&two_blocks());
    host.vacate(&[10, 26, 5]);
    let decision = wake(&mut host, 0, 0);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (10, Reason::IdleCore, 1));
    assert_eq!(
        decision.reads,
        reads(&[(Cpu, 1), (Cpu, 1), (Llc, 1), (Llc, 2)]),
        "target, summary, block 1, core 10"
    );
    host.policy.set_idle_mask(10, true);
    host.occupy(&[26]);
    let decision = wake(&mut host, 0, 0);
    assert_eq!((decision.cpu, decision.reason()), (5, Reason::NearCpu));
    assert_eq!(
        decision.reads,
        reads(&[(Cpu, 1), (Cpu, 1), (Cpu, 1), (Llc, 1)]),
        "target, summary, block 0, CPU 5"
    );
    // CPU 5 is claimed and not busy yet: its bit is found, the claim is lost, and the other block has an idle CPU.
    let decision = wake(&mut host, 0, 0);
    assert_eq!((decision.cpu, decision.reason(), decision.lost_claims), (10, Reason::IdleCpu, 1));
    let decision = wake(&mut host, 0, 0);
    assert_eq!((decision.cpu, decision.reason(), decision.lost_claims), (0, Reason::NoneIdle, 2));
}

#[test]
fn an_idle_core_of_targets_block_comes_before_all() {
    let mut host = all_busy(&two_blocks());
    host.vacate(&[9, 25, 1, 2, 18]);
    let decision = wake(&mut host, 8, 3);
    assert_eq!((decision.cpu, decision.reason()), (2, Reason::NearCore), "not CPU 1, whose sibling is busy");
    assert_eq!(decision.reads, reads(&[(Llc, 1), (Llc, 1), (Llc, 1), (Llc, 2)]));
}

#[test]
fn with_everything_busy_a_search_reads_one_line_besides_target_and_prev() {
    let mut host = all_busy(&machine(2, None, 96, 2));
    let mut task = host.sleeper(1024, 7);
    let decision = host.wake(&mut task, 3, 7);
    assert_eq!((decision.cpu, decision.reason()), (7, Reason::NoneIdle));
    assert_eq!(decision.reads, reads(&[(Llc, 2)]), "target, which is prev, and the summary");
    assert_eq!(host.policy.seen().updated().count(), 0);
    // Nor does it ever note that it wants to know more, because that would write a line that all other CPUs read.
    let wanted_until_ns = host.policy.cpu(0).nearest_llc.wanted_until_ns;
    host.now_ns += 10 * MS;
    assert_eq!(wake(&mut host, 3, 7).reason(), Reason::NoneIdle);
    assert_eq!(host.policy.cpu(0).nearest_llc.wanted_until_ns, wanted_until_ns);
    // A search that found something does note it, so CPU 9 clears its bit.
    host.vacate(&[9]);
    assert_eq!(wake(&mut host, 3, 7).cpu, 9);
    assert!(host.policy.cpu(0).nearest_llc.wanted_until_ns > host.now_ns);
    host.occupy(&[9]);
    assert_eq!(host.policy.cpu(0).nearest_llc.idle_blocks, 0);
}

#[test]
fn the_cpu_that_turned_idle_last_is_preferred_and_then_the_first_from_target_on() {
    let mut host = all_busy(&machine(1, None, 8, 1));
    host.vacate(&[1, 2]);
    host.now_ns += 200_000;
    host.vacate(&[5, 6]);
    // The period before counts, too: 65.5 us later, CPU 7.
    host.now_ns += 65_536;
    host.vacate(&[7]);
    assert_eq!([0; 5].map(|target| wake(&mut host, 0, target).cpu), [7, 5, 6, 1, 2]);
    let mut host = all_busy(&machine(1, None, 8, 1));
    host.vacate(&[1, 2, 5, 6]);
    assert_eq!([3; 4].map(|target| wake(&mut host, 0, target).cpu), [5, 6, 1, 2]);
}

/// The header's example of a task that has no CPU to return to: 2 clusters of 4 CPUs, each a block.
#[test]
fn a_task_that_was_moved_twice_leaves_its_block() {
    let mut host = all_busy(&machine(1, Some(2), 4, 1));
    let mut task = host.sleeper(1024, 0);
    host.vacate(&[1, 4, 5, 6, 7]);
    let mut placed = |host: &mut Host, prev, taken: &[u32], idle: &[u32]| {
        host.occupy(taken);
        host.vacate(idle);
        let decision = host.wake(&mut task, 0, prev);
        (decision.cpu, decision.reason(), task.nr_moved)
    };
    assert_eq!(placed(&mut host, 0, &[], &[]), (1, Reason::NearCpu, 1));
    assert_eq!(placed(&mut host, 1, &[1], &[2]), (2, Reason::NearCpu, 2));
    assert_eq!(placed(&mut host, 2, &[2], &[3]), (4, Reason::IdleCpu, 2));
    host.policy.set_idle_mask(4, true);
    assert_eq!(placed(&mut host, 4, &[], &[]), (4, Reason::TargetIdle, 0));
    // If only its own block has an idle CPU, it takes that.
    task.nr_moved = 2;
    host.policy.set_idle_mask(4, true);
    host.occupy(&[4, 5, 6, 7]);
    let decision = host.wake(&mut task, 0, 2);
    assert_eq!((decision.cpu, decision.reason()), (3, Reason::NearCpu));
}

#[test]
fn two_tasks_that_wake_each_other_on_idle_cpus_write_no_shared_line() {
    let mut host = Host::new(policy(SPEC, &two_blocks()));
    for _ in 0..10 {
        for cpu in [0, 1] {
            host.now_ns += 3_000;
            assert_eq!(wake(&mut host, 1 - cpu, cpu).reason(), Reason::TargetIdle);
            host.occupy(&[cpu]);
            assert_eq!(host.policy.seen().updated().count(), 0);
            host.vacate(&[cpu]);
            assert_eq!(host.policy.seen().updated().count(), 0);
        }
    }
}

#[test]
fn a_tick_clears_the_bit_of_a_busy_cpu() {
    let mut host = Host::new(policy(SPEC, &machine(1, None, 2, 1)));
    host.occupy(&[0, 1]);
    assert_eq!(host.policy.cpu(0).nearest_llc.idle_blocks, 1, "no search wanted to know");
    host.policy.tick(0, None, MS);
    assert_eq!(host.policy.cpu(0).nearest_llc.idle_blocks, 1);
    host.policy.tick(1, None, MS);
    assert_eq!(host.policy.cpu(0).nearest_llc.idle_blocks, 0);
}

#[test]
fn a_claimed_cpu_whose_task_goes_elsewhere_is_found_again() {
    let mut host = all_busy(&machine(1, None, 4, 1));
    host.vacate(&[2]);
    let mut task = host.sleeper(1024, 0);
    assert_eq!(host.wake(&mut task, 0, 0).cpu, 2);
    // The task is queued there, which a search sees, and is pulled away before CPU 2 runs it.
    host.policy.enqueue(&mut task, 2, EnqueueWhy::Wakeup, host.now_ns);
    assert_eq!(wake(&mut host, 0, 0).reason(), Reason::NoneIdle);
    assert_eq!(host.policy.cpu(0).nearest_llc.idle_blocks, 0, "its bit was cleared");
    host.policy.enqueue(&mut task, 3, EnqueueWhy::Moved, host.now_ns);
    // CPU 2 was kicked and finds nothing, so the host gives the claim back. No event tells the policy.
    host.policy.set_idle_mask(2, true);
    assert_eq!(wake(&mut host, 0, 0).cpu, 2);
}

/// The header's example of step 5: nodes {0, 1} and {2, 3}, an LLC each, all busy but CPU 3.
#[test]
fn another_node_is_worth_a_wait_longer_than_the_way() {
    let mut host = Host::new(policy(SPEC, &machine(2, None, 2, 1)));
    host.now_ns = MS;
    let _running = [0, 1, 2].map(|cpu| host.running(1024, cpu));
    for cpu in [0, 1, 2] {
        host.policy.tick(cpu, None, host.now_ns);
    }
    host.now_ns += 600_000;
    let decision = wake(&mut host, 0, 0);
    assert_eq!((decision.cpu, decision.reason()), (0, Reason::NoneIdle), "a wait of 600 us");
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Cpu, 1), (Cpu, 1)]), "target, summary, its running task");
    let _waits = host.queued(1024, 0);
    let decision = wake(&mut host, 0, 0);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (3, Reason::FarCpu, 1), "1,200 us");
    assert_eq!(decision.target, 0);
    assert_eq!(
        decision.reads,
        reads(&[(Cpu, 3), (Numa1, 1), (Numa1, 1), (Numa1, 1), (Numa1, 1)]),
        "and the LLCs' bits; there summary, block and CPU"
    );
}

#[test]
fn an_llc_that_a_search_found_empty_is_not_tried_again_until_a_cpu_idles() {
    let mut host = Host::new(policy(SPEC, &machine(2, None, 2, 1)));
    host.now_ns = MS;
    let _running = [0, 1, 2, 3].map(|cpu| host.running(1024, cpu));
    assert!(host.policy.idle_llc(0) && host.policy.idle_llc(1), "no search has looked");
    host.now_ns += 2 * MS;
    assert_eq!(wake(&mut host, 0, 0).reason(), Reason::NoneIdle);
    assert!(!host.policy.idle_llc(1));
    let decision = wake(&mut host, 0, 0);
    assert_eq!((decision.reason(), decision.reads), (Reason::NoneIdle, reads(&[(Cpu, 3), (Numa1, 1)])));
    host.vacate(&[2]);
    assert!(host.policy.idle_llc(1));
    assert_eq!(wake(&mut host, 0, 0).cpu, 2);
}

/// No wait is worth a migration to nodes that wake-ups may not reach.
#[test]
fn it_stays_within_reach_of_wake_ups() {
    let mut far = machine(2, None, 2, 1);
    far.node_distance = vec![vec![10, 32], vec![32, 10]];
    let mut host = Host::new(policy(SPEC, &far));
    host.now_ns = MS;
    let _running = [0, 1].map(|cpu| host.running(1024, cpu));
    host.now_ns += 1000 * MS;
    assert_eq!(wake(&mut host, 0, 0).reason(), Reason::NoneIdle);
}

/// One step of a history; CPU numbers are taken modulo the machine's.
#[derive(Clone, Debug)]
enum Step {
    Busy(u32),
    Idle(u32),
    Queue(u32),
    Unqueue(u32),
    /// A queued task runs, where it is or elsewhere.
    Run(u32, u32),
    Tick(u32),
    Mask(u32, bool),
    /// A wake-up: the CPU that searches, the target, and a mask of allowed CPUs.
    Wake(u32, u32, u64),
    /// Milliseconds pass, so that searches are forgotten.
    Rest,
}

fn step() -> impl Strategy<Value = Step> {
    let cpu = || 0u32..64;
    let masks =
        prop_oneof![Just(u64::MAX), any::<u64>(), (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a & b)];
    prop_oneof![
        8 => cpu().prop_map(Step::Busy),
        6 => cpu().prop_map(Step::Idle),
        2 => cpu().prop_map(Step::Queue),
        2 => cpu().prop_map(Step::Unqueue),
        2 => (cpu(), cpu()).prop_map(|(task, cpu)| Step::Run(task, cpu)),
        2 => cpu().prop_map(Step::Tick),
        3 => (cpu(), any::<bool>()).prop_map(|(cpu, idle)| Step::Mask(cpu, idle)),
        8 => (cpu(), cpu(), masks).prop_map(|(this, target, mask)| Step::Wake(this, target, mask)),
        1 => Just(Step::Rest),
    ]
}

/// What the host knows, in plain form.
struct Truth<'a> {
    topology: &'a Topology,
    busy: Vec<bool>,
    queued: Vec<u32>,
    mask: Vec<bool>,
}

impl Truth<'_> {
    fn is_idle(&self, cpu: u32) -> bool {
        !self.busy[cpu as usize] && self.queued[cpu as usize] == 0 && self.mask[cpu as usize]
    }

    /// Whether all threads of its core look idle, and its first allowed thread can be claimed.
    fn has_idle_core(&self, cpu: u32, allowed: &dyn Fn(u32) -> bool) -> bool {
        let core = self.topology.siblings(cpu);
        core.len() > 1
            && core.iter().all(|&cpu| !self.busy[cpu as usize] && self.queued[cpu as usize] == 0)
            && core.iter().copied().find(|&cpu| allowed(cpu)).is_some_and(|cpu| self.mask[cpu as usize])
    }

    /// Idle allowed CPUs outside target's LLC, in the innermost domain that has one and is worth a wait of `wait_ns`.
    fn far_candidates(
        &self,
        policy: &Policy,
        target: u32,
        wait_ns: u64,
        allowed: &dyn Fn(u32) -> bool,
    ) -> Vec<u32> {
        let tables = policy.tables();
        let levels = &tables.levels[tables.llc_level + 1..];
        let is_worth = |distance: u32| wait_ns > policy.params().migration_cost_ns * u64::from(distance) / 10;
        for level in levels.iter().take_while(|level| level.wake_affine && is_worth(level.distance)) {
            let domain = level.domain(level.dom_of[target as usize] as usize);
            let here = self.topology.llc_cpus(target);
            let mut found: Vec<u32> = domain.iter().map(|&cpu| u32::from(cpu)).collect();
            found.retain(|&cpu| !here.contains(&cpu) && allowed(cpu) && self.is_idle(cpu));
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// Checks the rank of the decision: target, else the best of the LLC's idle allowed CPUs, else one of `far`.
    fn check(
        &self,
        decision: &Decision,
        target: u32,
        allowed: &dyn Fn(u32) -> bool,
        block_of: &[u16],
        far: &[u32],
    ) -> Result<(), String> {
        let chosen = decision.cpu as u32;
        if !allowed(chosen) {
            return Err(format!("CPU {chosen} is not allowed"));
        }
        if self.is_idle(target) {
            let kept = chosen == target && decision.reason() == Reason::TargetIdle;
            return if kept { Ok(()) } else { Err(format!("target {target} is idle, not {chosen}")) };
        }
        let mut candidates = self.topology.llc_cpus(target);
        candidates.retain(|&cpu| allowed(cpu) && self.is_idle(cpu));
        if candidates.is_empty() && !far.is_empty() {
            let taken = decision.claimed == 1 && far.contains(&chosen) && decision.reason() == Reason::FarCpu;
            return if taken { Ok(()) } else { Err(format!("{far:?} idle elsewhere, {chosen} was taken")) };
        }
        if candidates.is_empty() {
            let none = decision.claimed == 0 && chosen == target && decision.reason() == Reason::NoneIdle;
            return if none { Ok(()) } else { Err(format!("nothing idles, {chosen} was taken")) };
        }
        // Lower is better: an idle core near, an idle core, a CPU near, a CPU.
        let has_smt = (0..self.busy.len() as u32).any(|cpu| self.topology.siblings(cpu).len() > 1);
        let rank = |cpu: u32| {
            let core = has_smt && (self.has_idle_core(cpu, allowed) || self.topology.siblings(cpu) == [cpu]);
            2 * u32::from(!core) + u32::from(block_of[cpu as usize] != block_of[target as usize])
        };
        let best = candidates.iter().map(|&cpu| rank(cpu)).min().unwrap();
        if !candidates.contains(&chosen) || decision.claimed == 0 {
            return Err(format!("idle are {candidates:?}, {chosen} was taken"));
        }
        let reason = [Reason::NearCore, Reason::IdleCore, Reason::NearCpu, Reason::IdleCpu][best as usize];
        if rank(chosen) != best || decision.reason() != reason {
            let got = decision.reason().name();
            return Err(format!("{chosen} ({got}) of {candidates:?}, expected {}", reason.name()));
        }
        Ok(())
    }
}

fn play(topology: &Topology, steps: &[Step]) -> Result<(), TestCaseError> {
    let nr = topology.cpus.len() as u32;
    // Capacities must make no difference here.
    let mut policy = Policy::new(&spec(SPEC), topology, TICK_NS).unwrap();
    let block_of = policy.tables().blocks.clone().unwrap().block_of;
    let mut truth = Truth {
        topology,
        busy: vec![false; nr as usize],
        queued: vec![0; nr as usize],
        mask: vec![true; nr as usize],
    };
    // A task for each CPU that may wait, and where it waits if it does.
    let mut waiting = vec![Task::default(); nr as usize];
    let mut waits_on: Vec<Option<u32>> = vec![None; nr as usize];
    let mut runs_on: Vec<Option<u32>> = vec![None; nr as usize];
    for cpu in 0..nr {
        policy.set_idle_mask(cpu, true);
        policy.task_init(&mut waiting[cpu as usize], u64::from(cpu), 1024, 0);
    }
    let mut now_ns = 1_000;
    for (number, step) in steps.iter().enumerate() {
        now_ns += 7_001;
        match *step {
            Step::Busy(cpu) => {
                policy.busy(cpu % nr, now_ns);
                truth.busy[(cpu % nr) as usize] = true;
            }
            Step::Idle(cpu) => {
                policy.idle(cpu % nr, now_ns);
                truth.busy[(cpu % nr) as usize] = false;
            }
            Step::Queue(cpu) => {
                let task = (cpu % nr) as usize;
                if waits_on[task].is_none() && runs_on[task].is_none() {
                    let at = policy.enqueue(&mut waiting[task], cpu % nr, EnqueueWhy::Wakeup, now_ns).cpu;
                    waits_on[task] = Some(at as u32);
                    truth.queued[at as usize] += 1;
                }
            }
            Step::Unqueue(cpu) => {
                let task = (cpu % nr) as usize;
                policy.quiescent(&mut waiting[task], now_ns);
                runs_on[task] = None;
                if let Some(at) = waits_on[task].take() {
                    truth.queued[at as usize] -= 1;
                }
            }
            Step::Run(task, cpu) => {
                let (task, cpu) = ((task % nr) as usize, cpu % nr);
                if let Some(at) = waits_on[task].take() {
                    truth.queued[at as usize] -= 1;
                    policy.running(&mut waiting[task], cpu, now_ns);
                    runs_on[task] = Some(cpu);
                }
            }
            Step::Tick(cpu) => {
                policy.tick(cpu % nr, None, now_ns);
            }
            Step::Mask(cpu, idle) => {
                policy.set_idle_mask(cpu % nr, idle);
                truth.mask[(cpu % nr) as usize] = idle;
            }
            Step::Rest => now_ns += 5 * MS,
            Step::Wake(this, target, mask) => {
                let (this, mut target) = (this % nr, target % nr);
                let allowed = |cpu: u32| mask >> cpu & 1 != 0;
                let list: Vec<u32> = (0..nr).filter(|&cpu| allowed(cpu)).collect();
                if list.len() < 2 {
                    continue;
                }
                if !allowed(target) {
                    target = list[target as usize % list.len()];
                }
                let mut wakee = Task::default();
                policy.task_init(&mut wakee, 1_000, 1024, 0);
                policy.set_affinity(&mut wakee, Some(&list));
                let input = SelectIn {
                    this_cpu: this as i32,
                    prev_cpu: target as i32,
                    now_ns,
                    ..SelectIn::default()
                };
                let held = policy.cpu(target);
                let wait_ns = (now_ns - held.nearest.picked_ns) * u64::from(held.nr_running + held.nr_queued);
                let far = truth.far_candidates(&policy, target, wait_ns, &allowed);
                let decision = policy.select(&input, &mut wakee, None);
                if let Err(wrong) = truth.check(&decision, target, &allowed, &block_of, &far) {
                    prop_assert!(false, "step {number}, {step:?}: {wrong}");
                }
                if decision.claimed != 0 {
                    truth.mask[decision.cpu as usize] = false;
                }
            }
        }
        // Summaries have at least the bits of what is there.
        for cpu in 0..nr {
            if truth.busy[cpu as usize] || truth.queued[cpu as usize] > 0 {
                continue;
            }
            let first = topology.llc_cpus(cpu)[0];
            let bit = block_of[cpu as usize] - block_of[first as usize];
            prop_assert!(
                policy.cpu(first).nearest_llc.idle_blocks >> bit & 1 == 1,
                "step {number}: CPU {cpu} is hidden"
            );
            let llc = &policy.tables().levels[policy.tables().llc_level];
            prop_assert!(
                policy.idle_llc(llc.dom_of[cpu as usize] as usize),
                "step {number}: the LLC of CPU {cpu} is hidden"
            );
        }
        for cpu in 0..nr {
            prop_assert_eq!(policy.idle_mask(cpu), truth.mask[cpu as usize], "claims, step {}", number);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, failure_persistence: None, ..ProptestConfig::default() })]

    /// It never misses an idle allowed CPU of the LLC, or one beyond that is worth it, and takes one of the best kind
    /// that exists.
    #[test]
    fn it_finds_the_best_that_a_slow_search_finds(
        topology in shapes::topology(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        play(&topology, &steps)?;
    }
}
