// SPDX-License-Identifier: GPL-2.0-or-later
//! idle_two_choices.h, computed by hand.

use wakelab_machine::Distance::{Cpu, Llc};
use wakelab_policy::{Reason, Task};

use crate::host::{Host, machine, policy, reads};

const SPEC: &str = "linux-4.15+idle=two-choices+affine=off";

/// One LLC of 8 CPUs without SMT, of which only these are idle.
fn with_idle(idle: &[u32]) -> Host {
    let mut host = Host::new(policy(SPEC, &machine(1, None, 8, 1)));
    host.occupy(&(0..8).filter(|cpu| !idle.contains(cpu)).collect::<Vec<_>>());
    host
}

/// A task that slept on CPU 1 and may run only on these CPUs.
fn sleeper_of(host: &mut Host, cpus: &[u32]) -> Task {
    let mut task = host.sleeper(1024, 1);
    host.policy.set_affinity(&mut task, Some(cpus));
    task
}

/// The header's example.
#[test]
fn two_random_cpus_are_looked_at() {
    let mut host = with_idle(&[3, 6]);
    let (mut first, mut second) = (host.sleeper(1024, 1), host.sleeper(1024, 1));
    let decision = host.wake(&mut first, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (3, Reason::IdleCpu, 1));
    // Target, then CPUs 2 and 3.
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 2)]));
    host.switch_in(&mut first, 3);
    let decision = host.wake(&mut second, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (1, Reason::NoneIdle, 0));
    assert_eq!(decision.reads, reads(&[(Cpu, 1), (Llc, 2)]));
}

#[test]
fn a_cpu_that_the_task_may_not_use_is_a_choice_lost() {
    // Rotor 0 draws CPUs 2 and 3.
    let mut host = with_idle(&[2, 3]);
    let mut task = sleeper_of(&mut host, &[1, 3]);
    assert_eq!(host.wake(&mut task, 1, 1).cpu, 3);
    let mut host = with_idle(&[2, 3]);
    let mut task = sleeper_of(&mut host, &[1, 4]);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason()), (1, Reason::NoneIdle));
    assert_eq!(decision.reads.total(), 1);
}

#[test]
fn each_of_the_other_cpus_is_drawn() {
    let mut host = with_idle(&[]);
    let mut taken = [0; 8];
    for _ in 0..1000 {
        host.vacate(&[0, 2, 3, 4, 5, 6, 7]);
        let mut task = host.sleeper(1024, 1);
        let decision = host.wake(&mut task, 1, 1);
        assert_eq!(decision.reason(), Reason::IdleCpu);
        taken[decision.cpu as usize] += 1;
    }
    assert_eq!(taken[1], 0);
    for cpu in [0, 2, 3, 4, 5, 6, 7] {
        assert!((100..190).contains(&taken[cpu]), "CPU {cpu} was taken {} times of 1,000", taken[cpu]);
    }
}

#[test]
fn an_llc_of_one_or_two_cpus_has_no_second_choice() {
    for (cpus, expected) in [(1, (0, Reason::NoneIdle)), (2, (1, Reason::IdleCpu))] {
        let mut host = Host::new(policy(SPEC, &machine(2, None, cpus, 1)));
        host.occupy(&[0]);
        let mut task = host.sleeper(1024, 0);
        let decision = host.wake(&mut task, 0, 0);
        assert_eq!((decision.cpu, decision.reason()), expected, "{cpus} CPUs");
    }
}
