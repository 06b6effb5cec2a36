// SPDX-License-Identifier: GPL-2.0-or-later
//! Atomic updates of counters that CPUs share.

use wakelab_machine::{Distance, Machine};
use wakelab_sim::{HostProfile, Outcome};
use wakelab_workload::Task;

use crate::common::{HOSTS, bound, compute, machine, outcome, scenario};

/// One core of `threads` threads, and another core; each core has a counter. An update takes 5 ns; a transfer takes 40
/// ns between threads of a core and 90 ns between cores.
fn priced(threads: u32) -> Machine {
    let mut machine = machine(1, 2, threads);
    machine.costs.charge_reads = false;
    machine.costs.charge_writes = false;
    machine.costs.atomic_ps = 5_000;
    machine.costs.line_transfer_ps[Distance::Smt.index()] = 40_000;
    machine.costs.line_transfer_ps[Distance::Llc.index()] = 90_000;
    machine
}

/// A task that computes from `begin_ns` for `work_ns` on `cpu`.
fn on(cpu: u32, begin_ns: u64, work_ns: u64) -> Task {
    Task { start_ns: begin_ns, ..bound(&[cpu], vec![compute(work_ns)]) }
}

fn run(machine: Machine, tasks: Vec<Task>, policy: &str, host: HostProfile) -> Outcome {
    let mut scenario = scenario(machine, tasks, host);
    scenario.policy = policy.parse().unwrap();
    outcome(&scenario)
}

/// The worked example of counters.rs, between threads of a core. CPU 0 turns busy at 1,000 (5 ns), and CPU 1 at the
/// same time (50 ns, 45 of them after CPU 0). CPU 0's task ends at 1,105: CPU 1 holds the line, so turning idle takes
/// 45 ns. The run ends with CPU 1's task, before CPU 1 is idle.
#[test]
fn updates_fetch_the_line_and_queue() {
    for host in HOSTS {
        let tasks = vec![on(0, 1_000, 100), on(1, 1_000, 10_000)];
        let run = run(priced(2), tasks, "linux-4.15+idle=smt-balance", host);
        assert_eq!(run.time.atomic_ns, 5 + 50 + 45, "{host:?}");
        // A task pays for turning its CPU busy, and no task pays for turning it idle.
        assert_eq!(run.task_cpu_time_ns, [105, 10_050], "{host:?}");
    }
}

/// CPUs 0 to 3 of a core turn busy at once: 5 ns, then 45 after each other: 5 + 50 + 95 + 140. While they run, no other
/// CPU wants the line: turning idle takes 45 for each but the last holder, CPU 3, which ends first and pays 5. The run
/// ends with CPU 0's task.
#[test]
fn many_at_once_wait_for_each_other() {
    for host in HOSTS {
        let tasks = (0..4).map(|cpu| on(cpu, 1_000, 10_000 * (4 - u64::from(cpu)))).collect();
        let run = run(priced(4), tasks, "linux-4.15+idle=smt-balance", host);
        assert_eq!(run.time.atomic_ns, (5 + 50 + 95 + 140) + (5 + 2 * 45), "{host:?}");
    }
}

/// No cost if there are no counters (`scan`), none below the LLC (a machine without SMT), or the term is left out.
#[test]
fn a_policy_without_counters_pays_nothing() {
    for host in HOSTS {
        let tasks = || vec![on(0, 1_000, 100), on(1, 1_000, 10_000)];
        assert_eq!(run(priced(2), tasks(), "linux-4.15", host).time.atomic_ns, 0, "{host:?}");
        let smt_balance = "linux-4.15+idle=smt-balance";
        assert_eq!(run(priced(1), tasks(), smt_balance, host).time.atomic_ns, 0, "{host:?}");
        let mut machine = priced(2);
        machine.costs.charge_atomics = false;
        assert_eq!(run(machine, tasks(), smt_balance, host).time.atomic_ns, 0, "{host:?}");
    }
}
