// SPDX-License-Identifier: GPL-2.0-or-later
//! idle_none.h, computed by hand.

use wakelab_machine::Distance::{Cpu, Llc};
use wakelab_policy::Reason;

use crate::host::{Host, machine, policy, reads};

/// One LLC of 4 CPUs without SMT, of which only CPU 2 is idle.
fn host() -> Host {
    let mut host = Host::new(policy("linux-4.15+idle=none+affine=off", &machine(1, None, 4, 1)));
    host.occupy(&[0, 1, 3]);
    host
}

/// The header's first example.
#[test]
fn a_task_waits_on_its_cpu_beside_an_idle_one() {
    let mut host = host();
    let mut task = host.sleeper(1024, 1);
    let decision = host.wake(&mut task, 1, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (1, Reason::NoneIdle, 0));
    assert_eq!(decision.reads, reads(&[(Cpu, 1)]));
    // The waker is elsewhere: the look at target is across the LLC.
    let decision = host.wake(&mut task, 3, 1);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (1, Reason::NoneIdle, 0));
    assert_eq!(decision.reads, reads(&[(Llc, 1)]));
}

#[test]
fn an_idle_previous_cpu_is_taken() {
    let mut host = host();
    let mut task = host.sleeper(1024, 2);
    let decision = host.wake(&mut task, 1, 2);
    assert_eq!((decision.cpu, decision.reason(), decision.claimed), (2, Reason::TargetIdle, 1));
}
