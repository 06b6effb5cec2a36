// SPDX-License-Identifier: GPL-2.0-or-later
//! capacity.h, and balancing by load per capacity: 4 CPUs of capacity 400, then 4 of 1024, behind one LLC.

use wakelab_machine::Topology;
use wakelab_policy::{Decision, DispatchDo, Reason, Task};

use crate::host::{Host, MS, machine, policy};

fn hybrid() -> Topology {
    let mut topology = machine(1, None, 8, 1);
    topology.cpus[..4].iter_mut().for_each(|cpu| cpu.capacity = 400);
    topology
}

/// Where a task of this utilization goes that slept on CPU 0, which is busy; only `idle` are idle.
fn placed(util: u32, idle: &[u32]) -> (i32, Reason) {
    let mut host = Host::new(policy("linux-6.12", &hybrid()));
    let busy: Vec<u32> = (0..8).filter(|cpu| !idle.contains(cpu)).collect();
    host.occupy(&busy);
    let mut task = host.sleeper(1024, 0);
    (task.util, task.util_slept) = (util << 16, util << 16);
    let decision: Decision = host.wake(&mut task, 0, 0);
    (decision.cpu, decision.reason())
}

#[test]
fn a_task_goes_where_it_fits() {
    let idle = [1, 2, 3, 4, 5, 6, 7];
    assert_eq!(placed(300, &idle), (1, Reason::Fits), "384000 < 409600");
    assert_eq!(placed(319, &idle), (1, Reason::Fits), "408320 < 409600");
    assert_eq!(placed(320, &idle), (4, Reason::Fits), "409600 is not below 409600");
    assert_eq!(placed(330, &[2, 3]), (2, Reason::Biggest));
    assert_eq!(placed(900, &[2, 6, 7]), (6, Reason::Biggest), "it fits no CPU: 1152000 > 1048576");
    assert_eq!(placed(300, &[]), (0, Reason::NoneIdle));
}

#[test]
fn an_idle_target_that_is_too_small_is_passed_over() {
    assert_eq!(placed(100, &[0, 4]), (0, Reason::TargetIdle));
    assert_eq!(placed(500, &[0, 4]), (4, Reason::Fits));
}

#[test]
fn utilization_follows_what_ran_and_counts_in_the_fastest_cpus_units() {
    let mut host = Host::new(policy("linux-6.12", &hybrid()));
    let mut task = host.running(1024, 0);
    host.now_ns = 5_000 * MS;
    host.policy.stopping(&mut task, 0, host.now_ns, false);
    assert_eq!((task.util + (1 << 15)) >> 16, 400, "it ran all the time on a CPU of 400");
    host.now_ns = 10_000 * MS;
    host.policy.task_weight(&mut task, 1024, host.now_ns);
    assert_eq!(host.wake(&mut task, 0, 0).cpu, 4, "what it was when it slept counts");
    assert_eq!(task.util >> 16, 0);
}

#[test]
fn load_is_balanced_per_capacity() {
    // CPU 4 (1024) has two tasks, and so has CPU 1 (400), where 2 * 1024 / 400 is more load per capacity. CPU 7 is
    // idle.
    let pulled_from = |spec: &str| {
        let mut host = Host::new(policy(spec, &hybrid()));
        for cpu in [1, 4] {
            host.running(1024, cpu);
            host.queued(1024, cpu);
        }
        let dispatch = host.policy.dispatch(7, host.now_ns);
        assert_eq!(dispatch.what(), DispatchDo::Pull);
        dispatch.cpu
    };
    assert_eq!(pulled_from("linux-6.12"), 1);
    // 3 tasks on CPU 4 and 2 on CPU 1: which CPU has more load depends on whether capacities count.
    let mut host = Host::new(policy("linux-6.12+capacity=ignored", &hybrid()));
    let _tasks: Vec<Task> = [4, 4, 4, 1, 1].map(|cpu| host.queued(1024, cpu)).into();
    let (four, one) = (host.policy.cpu(4).load, host.policy.cpu(1).load);
    assert_eq!((four, one), (3072, 2048));
    assert_eq!(host.policy.dispatch(7, 0).cpu, 4, "3072 a CPU against 2048");
    let mut host = Host::new(policy("linux-6.12", &hybrid()));
    let _tasks: Vec<Task> = [4, 4, 4, 1, 1].map(|cpu| host.queued(1024, cpu)).into();
    assert_eq!(host.policy.dispatch(7, 0).cpu, 1, "3072 / 1024 against 2048 / 400");
}

#[test]
fn equal_capacities_change_nothing() {
    // Below 1024, but all alike: as a machine's file may have it.
    let mut topology = machine(1, None, 8, 1);
    topology.cpus.iter_mut().for_each(|cpu| cpu.capacity = 700);
    for topology in [topology, machine(1, None, 8, 1)] {
        let mut host = Host::new(policy("linux-6.12", &topology));
        host.occupy(&[0]);
        let mut task = host.sleeper(1024, 0);
        assert_eq!(host.wake(&mut task, 0, 0).reason(), Reason::IdleCpu);
        assert_eq!(task.util, 512 << 16, "nothing uses it");
    }
}
