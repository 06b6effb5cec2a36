// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that need the engine's inside: the checker catches a broken engine, and slices that the host keeps from the
//! policy.

#[path = "../tests/sim/common.rs"]
#[allow(dead_code, reason = "the builders of tests/sim; this file needs few of them")]
pub(crate) mod common;

use common::{HOSTS, MS, bound, compute, machine, scenario};

use crate::engine::Engine;
use crate::error::SimError;
use crate::kernel::profile::Faults;
use crate::observer::Unobserved;
use crate::{Ending, HostProfile, Scenario};

fn run_broken(scenario: &Scenario, faults: Faults) -> String {
    let mut observer = Unobserved;
    let distances = scenario.machine.topology.distances();
    let mut engine = Engine::new(scenario, &distances, 1, &mut observer).unwrap();
    engine.kernel.faults = faults;
    match engine.run(scenario.limit_ns, 1) {
        Err(SimError::Invariant { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

/// Task 1 wakes task 0, which waits on another CPU. The wake-up sends the third kick, after those of the two starts.
fn a_wakeup(host: HostProfile) -> Scenario {
    use wakelab_workload::Op;
    let waits = bound(&[0], vec![Op::Wait { signal: 0 }]);
    let wakes = bound(&[1], vec![compute(MS), Op::Signal { signal: 0, sync: false }, compute(50 * MS)]);
    scenario(machine(1, 2, 1), vec![waits, wakes], host)
}

#[test]
fn a_kick_that_is_not_sent_is_found_at_once() {
    for host in HOSTS {
        let what = run_broken(&a_wakeup(host), Faults { lost_ipi: 3, ..Faults::default() });
        assert_eq!(what, "CPU 0 idles with 1 tasks in its queue, and no kick is on its way", "{host:?}");
    }
}

#[test]
fn a_kick_that_never_arrives_is_found_after_some_ticks() {
    for host in HOSTS {
        let what = run_broken(&a_wakeup(host), Faults { stuck_ipi: 3, ..Faults::default() });
        assert_eq!(what, "CPU 0 idles since 1000000 ns with work in its queue: a kick was lost", "{host:?}");
    }
}

/// The checker finds it even if nothing ever happens again.
#[test]
fn a_kick_that_never_arrives_is_found_at_the_end() {
    let scenario = scenario(machine(1, 1, 1), vec![bound(&[0], vec![compute(MS)])], HOSTS[0]);
    let what = run_broken(&scenario, Faults { stuck_ipi: 1, ..Faults::default() });
    assert_eq!(what, "the run is over and 1 tasks are still runnable");
}

/// One CPU, one task, a tick of 1 ms. Its slice is 6 ms, and ends at the tick after that, at 6 ms + phase. sched_ext
/// then gives it 20 ms more without telling the policy; at 10 ms the last tick was 3 ms later, and 17 ms are left.
#[test]
fn a_lone_task_is_refilled_unseen() {
    for host in HOSTS {
        let scenario = scenario(machine(1, 1, 1), vec![bound(&[0], vec![compute(100 * MS)])], host);
        let mut observer = Unobserved;
        let distances = scenario.machine.topology.distances();
        let mut engine = Engine::new(&scenario, &distances, 1, &mut observer).unwrap();
        assert_eq!(engine.simulate(10 * MS).unwrap(), Ending::LimitReached);
        let phase_ns = engine.kernel.cpus[0].tick_phase_ns;
        let slice_ns = engine.kernel.threads[0].slice_ns;
        match host {
            HostProfile::SchedExt => assert_eq!(slice_ns, 17 * MS),
            HostProfile::Mainline => assert_eq!(slice_ns, 6 * MS, "the host does not count"),
        }
        assert_eq!(
            engine.kernel.records[0].slice_used_ns,
            9 * MS + phase_ns,
            "{host:?}: one turn to the policy"
        );
    }
}

/// An interrupt is part of the slice of the task that it interrupts: 1 ms of work before the sleeper's timer, and 1.5
/// of the interrupt's 2 ms.
#[test]
fn an_interrupt_uses_up_the_slice() {
    for host in HOSTS {
        let tasks = vec![bound(&[0], vec![common::sleep(MS)]), bound(&[0], vec![compute(100 * MS)])];
        let mut scenario = scenario(machine(1, 1, 1), tasks, host);
        scenario.machine_mut().costs.interrupt_ns = 2 * MS;
        let mut observer = Unobserved;
        let distances = scenario.machine.topology.distances();
        let mut engine = Engine::new(&scenario, &distances, 1, &mut observer).unwrap();
        engine.simulate(5 * MS / 2).unwrap();
        assert_eq!(engine.kernel.cpus[0].curr, 1, "{host:?}");
        engine.kernel.host.tick(0, &mut engine.kernel.records[1], 5 * MS / 2);
        assert_eq!(engine.kernel.records[1].slice_used_ns, 5 * MS / 2, "{host:?}");
    }
}

/// The policy is not asked what to run while the running task has slice left, even if the CPU is told to reschedule.
#[test]
fn slice_left_keeps_a_task_running() {
    let scenario =
        scenario(machine(1, 1, 1), vec![bound(&[0], vec![compute(3 * MS)]); 2], HostProfile::SchedExt);
    let mut observer = Unobserved;
    let distances = scenario.machine.topology.distances();
    let mut engine = Engine::new(&scenario, &distances, 1, &mut observer).unwrap();
    engine.simulate(MS / 2).unwrap();
    engine.kernel.cpus[0].need_resched = true;
    let switches = engine.ledger.tally.counts.switches_in;
    // As an interrupt does.
    engine.settle(0);
    engine.save_segment(0);
    engine.schedule(0);
    assert_eq!(engine.kernel.cpus[0].curr, 0);
    assert!(!engine.kernel.cpus[0].scheduling && !engine.kernel.cpus[0].need_resched);
    assert_eq!(engine.ledger.tally.counts.switches_in, switches);
}
