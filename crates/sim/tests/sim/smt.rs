// SPDX-License-Identifier: GPL-2.0-or-later
//! Speeds of SMT threads and of slow cores, by arithmetic.

use crate::common::{HOSTS, bound, compute, machine, outcome, scenario, sleep};
use wakelab_machine::{IdleState, Machine};
use wakelab_workload::Task;

fn smt2() -> Machine {
    let mut machine = machine(1, 1, 2);
    machine.costs.smt_speed = vec![1024, 600];
    machine
}

/// The worked example of cpu.rs: 1,000 ns on CPU 0, and from 400 ns on 1,000 ns on CPU 1. CPU 0 has 614,400 units left
/// at 400 and ends at 1,424. By then CPU 1 did 614,400 units, and does the other 409,600 alone, until 1,824.
#[test]
fn a_sibling_that_arrives_and_leaves_in_the_middle() {
    for host in HOSTS {
        let first = bound(&[0], vec![compute(1000)]);
        let second = Task { start_ns: 400, ..bound(&[1], vec![compute(1000)]) };
        let outcome = outcome(&scenario(smt2(), vec![first, second], host));
        assert_eq!(outcome.elapsed_ns, 1824, "{host:?}");
        assert_eq!(outcome.task_cpu_time_ns, [1424, 1424]);
        assert_eq!((outcome.time.work_ns, outcome.time.slowdown_ns), (2000, 2 * 424));
        assert_eq!(outcome.time.idle_ns, 400 + 400);
    }
}

/// Three threads of four: speed 500 each. 1,000 ns take ceil(1,024,000 / 500) = 2,048 ns.
#[test]
fn speed_follows_the_number_of_executing_threads() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 4);
        machine.costs.smt_speed = vec![1024, 700, 500, 400];
        let tasks = (0..3).map(|cpu| bound(&[cpu], vec![compute(1000)])).collect();
        let outcome = outcome(&scenario(machine, tasks, host));
        assert_eq!(outcome.elapsed_ns, 2048, "{host:?}");
        assert_eq!((outcome.time.work_ns, outcome.time.slowdown_ns), (3000, 3 * 1048));
    }
}

/// A core of capacity 512 does half the work; with a sibling 512 x 600 / 1024 = 300: ceil(1,024,000 / 300) = 3,414 ns.
/// Only a third of the last nanosecond is used: the rest of it is slowdown.
#[test]
fn capacity_scales_speed() {
    for host in HOSTS {
        let mut machine = smt2();
        machine.topology.cpus.iter_mut().for_each(|cpu| cpu.capacity = 512);
        let alone = outcome(&scenario(machine.clone(), vec![bound(&[0], vec![compute(1000)])], host));
        assert_eq!(alone.elapsed_ns, 2000, "{host:?}");
        let tasks = vec![bound(&[0], vec![compute(1000)]), bound(&[1], vec![compute(1000)])];
        let both = outcome(&scenario(machine, tasks, host));
        assert_eq!(both.elapsed_ns, 3414, "{host:?}");
        assert_eq!((both.time.work_ns, both.time.slowdown_ns), (2000, 2 * 2414));
    }
}

/// CPU 1 leaves its idle state for 300 ns, then handles an interrupt for 100 full-speed ns, then wakes a task of 100
/// ns. While it leaves its idle state it counts as idle: CPU 0 is slowed down by the 200 ns of work only.
#[test]
fn leaving_an_idle_state_slows_no_sibling_down() {
    for host in HOSTS {
        let mut machine = smt2();
        machine.costs.idle_states =
            vec![IdleState { after_ns: 0, exit_latency_ns: 300, ..IdleState::default() }];
        machine.costs.interrupt_ns = 100;
        machine.costs.smt_speed = vec![1024, 512];
        let busy = bound(&[0], vec![compute(10_000)]);
        let sleeper = bound(&[1], vec![sleep(1000), compute(100)]);
        let outcome = outcome(&scenario(machine, vec![busy, sleeper], host));
        // Both start by leaving idle states. The timer fires at 300 + 1000; until 1600 CPU 1 leaves its idle state;
        // then it executes 200 ns at half speed, until 2000, and CPU 0 with it.
        assert_eq!(outcome.time.idle_exit_ns, 300 + 300 + 300, "{host:?}");
        assert_eq!(outcome.time.slowdown_ns, 200 + 200, "{host:?}");
        assert_eq!(outcome.elapsed_ns, 300 + 10_000 + 200, "{host:?}");
        assert_eq!(outcome.time.interrupt_ns, 100);
    }
}
