// SPDX-License-Identifier: GPL-2.0-or-later
//! The idle searches against the slow second implementation, on random machines and under random histories.

use crate::host::{TICK_NS, spec};
use crate::model::{Answer, Design, Model};
use crate::shapes;
use proptest::prelude::*;
use wakelab_policy::{Decision, EnqueueWhy, Policy, SelectIn, Tables, Task};

/// One step of a history; CPU numbers are taken modulo the machine's.
#[derive(Clone, Debug)]
enum Step {
    Busy(u32),
    Idle(u32),
    Queue(u32),
    Unqueue(u32),
    Mask(u32, bool),
    /// A wake-up: the CPU that searches, the target, a mask of allowed CPUs, and the time that the host says the search
    /// took.
    Wake(u32, u32, u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let cpu = 0u32..64;
    let masks =
        prop_oneof![Just(u64::MAX), any::<u64>(), (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a & b)];
    prop_oneof![
        4 => cpu.clone().prop_map(Step::Busy),
        3 => cpu.clone().prop_map(Step::Idle),
        1 => cpu.clone().prop_map(Step::Queue),
        1 => cpu.clone().prop_map(Step::Unqueue),
        2 => (cpu.clone(), any::<bool>()).prop_map(|(cpu, idle)| Step::Mask(cpu, idle)),
        6 => (cpu.clone(), cpu, masks, 0u64..40_000).prop_map(|(a, b, c, d)| Step::Wake(a, b, c, d)),
    ]
}

fn answer(decision: &Decision) -> Answer {
    Answer {
        cpu: decision.cpu as u32,
        reason: decision.reason(),
        claimed: decision.claimed != 0,
        lost_claims: decision.lost_claims,
        reads: decision.reads,
        step_reads: decision.step_reads,
        scan_timed: decision.scan_timed != 0,
    }
}

/// Plays a history on both, and compares every decision.
fn play(
    design: Design,
    topology: &wakelab_machine::Topology,
    clusters: bool,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let nr = topology.cpus.len() as u32;
    let tables = Tables::with_cluster_level(topology, clusters).unwrap();
    let text = match design {
        Design::Scan => "linux-4.15+affine=off",
        Design::SmtBalance => "linux-4.15+idle=smt-balance+affine=off",
        Design::Narrow => "linux-4.15+idle=narrow+affine=off",
    };
    let mut policy = Policy::with_tables(&spec(text), tables, TICK_NS).unwrap();
    let mut model = Model::new(topology, clusters);
    let mut waiting = vec![Task::default(); nr as usize];
    for cpu in 0..nr {
        policy.set_idle_mask(cpu, true);
        policy.task_init(&mut waiting[cpu as usize], u64::from(cpu), 1024, 0);
    }
    for (number, step) in steps.iter().enumerate() {
        let now_ns = 1_000 + number as u64 * 7_001;
        match *step {
            Step::Busy(cpu) => {
                policy.busy(cpu % nr, now_ns);
                model.turn_busy(cpu % nr, now_ns);
            }
            Step::Idle(cpu) => {
                policy.idle(cpu % nr, now_ns);
                model.turn_idle(cpu % nr, now_ns);
            }
            Step::Queue(cpu) => {
                policy.enqueue(&mut waiting[(cpu % nr) as usize], cpu % nr, EnqueueWhy::Wakeup, now_ns);
                model.queued[(cpu % nr) as usize] = 1;
            }
            Step::Unqueue(cpu) => {
                policy.quiescent(&mut waiting[(cpu % nr) as usize], now_ns);
                model.queued[(cpu % nr) as usize] = 0;
            }
            Step::Mask(cpu, idle) => {
                policy.set_idle_mask(cpu % nr, idle);
                model.mask[(cpu % nr) as usize] = idle;
            }
            Step::Wake(this, target, mask, elapsed_ns) => {
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
                let input =
                    SelectIn { this_cpu: this as i32, prev_cpu: target as i32, ..SelectIn::default() };
                let decision = policy.select(&input, &mut wakee, None);
                let expected = model.wake(design, this, target, &allowed);
                prop_assert_eq!(answer(&decision), expected.clone(), "step {}: {:?}", number, step);
                prop_assert!(allowed(decision.cpu as u32));
                policy.scan_took(this, &decision, elapsed_ns);
                model.took(this, &expected, elapsed_ns);
            }
        }
        for cpu in 0..nr {
            prop_assert_eq!(policy.idle_mask(cpu), model.mask[cpu as usize], "claims, step {}", number);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scan_decides_as_the_reference(
        topology in shapes::topology(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        play(Design::Scan, &topology, false, &steps)?;
    }

    #[test]
    fn smt_balance_decides_as_the_reference(
        topology in shapes::topology(),
        clusters in any::<bool>(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        play(Design::SmtBalance, &topology, clusters, &steps)?;
    }

    #[test]
    fn narrow_decides_as_the_reference(
        topology in shapes::topology(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        play(Design::Narrow, &topology, false, &steps)?;
    }
}
