// SPDX-License-Identifier: GPL-2.0-or-later
//! How fast this machine simulates, in simulated events per second of CPU time.
//!
//! A wake-up, a switch in and a switch out count as one event each; nothing else counts. Beside each figure stands the
//! cost, measured in the same minute, of the cheapest possible simulation: the hold model on a binary heap (Jones, "An
//! empirical comparison of priority-queue and event-set implementations", CACM 1986). It takes the earliest event of a
//! heap with one event for each CPU, and puts it back at an exponentially distributed later time. The ratio of the two
//! says more about the simulator than a time, which depends on the machine and on its other work.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use wakelab_machine::{Cpu, Machine, Topology};
use wakelab_policy::PolicySpec;
use wakelab_sim::{HostProfile, Outcome, Scenario};
use wakelab_workload::Workload;

use crate::error::LabError;

/// The preset whose costs the simulated machine has.
pub const BENCH_COSTS_OF: &str = "xeon-2s22c2t";
/// CPUs of the machines with which growth is measured.
pub const BENCH_GROWTH_CPUS: [u32; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
const THREADS_PER_CORE: u32 = 2;
const CORES_PER_SOCKET_MAX: u32 = 96;
const TASKS_PER_CPU: u32 = 2;
/// Turns of a hold loop.
const HOLDS: u32 = 500_000;
/// Mean time by which a hold loop puts an event later, in no particular unit.
const HOLD_MEAN: f64 = 1e6;

/// One workload on machines of several sizes under several policies.
#[derive(Clone, Debug)]
pub struct BenchPlan {
    /// CPUs of each machine: multiples of 4.
    pub cpus: Vec<u32>,
    /// `hackbench` or `pingpong`, sized by the number of tasks; or a workload with its parameters.
    pub workload: String,
    /// The approximate number of tasks; `None`: 2 for each CPU.
    pub tasks: Option<u32>,
    /// The policies, with the names that results show.
    pub policies: Vec<(String, PolicySpec)>,
    /// CPU time to spend on each scenario, in seconds; it runs at least once.
    pub seconds: u64,
}

/// The speed of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct BenchResult {
    /// CPUs of the simulated machine.
    pub cpus: u32,
    /// Tasks of the workload.
    pub tasks: u32,
    /// The workload with its parameters.
    pub workload: String,
    /// The policy's name.
    pub policy: String,
    /// Wake-ups, switches in and switches out of a run.
    pub events: u64,
    /// CPU time of each run.
    pub run_ns: Vec<u64>,
    /// CPU time of one turn of the hold loop: a value for each run, measured beside it.
    pub hold_ns: Vec<f64>,
    /// Events per second of CPU time, of the median run.
    pub events_per_s: f64,
    /// CPU time of an event, of the median run.
    pub ns_per_event: f64,
    /// CPU time of an event in turns of the hold loop; of the medians.
    pub holds_per_event: f64,
    /// The peak of the process's resident memory so far; `None` where /proc does not say.
    pub peak_memory_bytes: Option<u64>,
}

/// Measures all scenarios on the calling thread, one after the other: by size, then by policy.
///
/// # Errors
/// A size that is not a multiple of 4; a workload that cannot be run or sized; a run that fails.
pub fn bench(plan: &BenchPlan) -> Result<Vec<BenchResult>, LabError> {
    let scenarios = scenarios(plan)?;
    scenarios.iter().map(|(spec, policy, scenario)| measure(spec, policy, scenario, plan.seconds)).collect()
}

/// Runs each scenario `runs` times, and does nothing else, for a program that counts instructions from outside. Returns
/// the number of events of one run of the first scenario.
///
/// # Errors
/// As [`bench`].
pub fn bench_runs(plan: &BenchPlan, runs: u32) -> Result<u64, LabError> {
    let mut first = None;
    for (spec, policy, scenario) in scenarios(plan)? {
        for _ in 0..runs {
            let events = events(&run(&spec, policy, &scenario)?);
            first.get_or_insert(events);
        }
    }
    Ok(first.unwrap_or(0))
}

fn run(workload: &str, policy: &str, scenario: &Scenario) -> Result<Outcome, LabError> {
    let name = || format!("{workload}, policy {policy}");
    let outcome = wakelab_sim::run(scenario, 1);
    Ok(black_box(outcome.map_err(|error| LabError::Run { name: name(), seed: 1, error })?))
}

fn events(outcome: &Outcome) -> u64 {
    outcome.counts.wakeups + outcome.counts.switches_in + outcome.counts.switches_out
}

/// The scenarios, each with its workload and policy in words.
fn scenarios(plan: &BenchPlan) -> Result<Vec<(String, &str, Scenario)>, LabError> {
    let mut scenarios = Vec::new();
    for &cpus in &plan.cpus {
        let machine = Arc::new(machine(cpus)?);
        let spec = workload_spec(&plan.workload, plan.tasks, cpus)?;
        let workload = Workload::parse_spec(&spec).map_err(|error| LabError::Plan(error.to_string()))?;
        let workload = Arc::new(workload);
        for (name, policy) in &plan.policies {
            let (machine, workload) = (Arc::clone(&machine), Arc::clone(&workload));
            let host = HostProfile::Mainline;
            let scenario = Scenario {
                machine,
                workload,
                policy: policy.clone(),
                host,
                limit_ns: 1 << 45,
                limit_events: u64::MAX,
            };
            scenarios.push((spec.clone(), name.as_str(), scenario));
        }
    }
    Ok(scenarios)
}

fn measure(workload: &str, policy: &str, scenario: &Scenario, seconds: u64) -> Result<BenchResult, LabError> {
    let (mut run_ns, mut hold_ns, mut nr_events) = (Vec::new(), Vec::new(), 0);
    let cpus = scenario.machine.topology.nr_cpus();
    while run_ns.is_empty() || run_ns.iter().sum::<u64>() < seconds * 1_000_000_000 {
        let begin_ns = now_ns();
        let outcome = run(workload, policy, scenario)?;
        run_ns.push((now_ns() - begin_ns).max(1));
        nr_events = events(&outcome);
        hold_ns.push(hold(cpus));
    }
    let times = run_ns.iter().map(|&ns| ns as f64).collect();
    let ns_per_event = median(times) / nr_events.max(1) as f64;
    Ok(BenchResult {
        cpus: cpus as u32,
        tasks: scenario.workload.tasks.len() as u32,
        workload: workload.to_owned(),
        policy: policy.to_owned(),
        events: nr_events,
        events_per_s: 1e9 / ns_per_event,
        ns_per_event,
        holds_per_event: ns_per_event / median(hold_ns.clone()),
        run_ns,
        hold_ns,
        peak_memory_bytes: peak_memory_bytes(),
    })
}

/// A machine of `cpus` CPUs. CPU c and CPU c + cores share a core, as Linux numbers them on x86.
fn machine(cpus: u32) -> Result<Machine, LabError> {
    if !cpus.is_multiple_of(2 * THREADS_PER_CORE) {
        return Err(LabError::Plan(format!("{cpus} CPUs; expected a multiple of {}", 2 * THREADS_PER_CORE)));
    }
    let mut machine = Machine::preset(BENCH_COSTS_OF).map_err(|error| LabError::Plan(error.to_string()))?;
    let cores = cpus / THREADS_PER_CORE;
    let fits = |&sockets: &u32| cores.is_multiple_of(sockets) && cores / sockets <= CORES_PER_SOCKET_MAX;
    let sockets = (2..=cores).find(fits).expect("as many sockets as cores always fit");
    let cpu = |number: u32| {
        let core = number % cores;
        let socket = core / (cores / sockets);
        Cpu { core, cluster: None, llc: socket, node: socket, capacity: 1024 }
    };
    let distance = |a, b| if a == b { 10 } else { 21 };
    let node_distance = (0..sockets).map(|a| (0..sockets).map(|b| distance(a, b)).collect()).collect();
    machine.topology = Topology { cpus: (0..cpus).map(cpu).collect(), node_distance };
    Ok(machine)
}

/// The text of the workload: `hackbench` and `pingpong` are sized here, all others are as they were typed.
fn workload_spec(typed: &str, tasks: Option<u32>, cpus: u32) -> Result<String, LabError> {
    let nr = tasks.unwrap_or(TASKS_PER_CPU * cpus);
    match typed {
        "hackbench" => {
            Ok(format!("hackbench:groups={},fds=16,loops=60,send-work-ns=20000,ipc=pipe", (nr / 32).max(1)))
        }
        "pingpong" => Ok(format!("pingpong:pairs={},duration-ms=20", (nr / 2).max(1))),
        other if tasks.is_none() => Ok(other.to_owned()),
        other => Err(LabError::Plan(format!(
            "--tasks sizes hackbench and pingpong only; give the number of tasks in {other}"
        ))),
    }
}

/// The CPU time of one turn of the hold model with `pending` events pending, in nanoseconds.
fn hold(pending: usize) -> f64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut later = || {
        // xorshift64* (Vigna 2016), its upper 53 bits as a number in (0, 1].
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let uniform = ((state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (-uniform.ln() * HOLD_MEAN) as u64
    };
    let mut heap: BinaryHeap<Reverse<(u64, u32)>> =
        (0..pending as u32).map(|event| Reverse((later(), event))).collect();
    let begin_ns = now_ns();
    for _ in 0..HOLDS {
        if let Some(Reverse((time, event))) = heap.pop() {
            heap.push(Reverse((time + later(), event)));
        }
    }
    black_box(heap);
    (now_ns() - begin_ns) as f64 / f64::from(HOLDS)
}

/// CPU time of this thread, so that other work of the machine counts as little as possible.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_divide_the_cores_evenly() {
        for (cpus, sockets) in [(4, 2), (64, 2), (384, 2), (512, 4), (4096, 32)] {
            let machine = machine(cpus).unwrap();
            assert_eq!(machine.topology.node_distance.len(), sockets, "{cpus} CPUs");
            let of_node = |node| machine.topology.cpus.iter().filter(|cpu| cpu.node == node).count();
            assert!((0..sockets as u32).all(|node| of_node(node) == cpus as usize / sockets));
        }
        assert!(machine(6).is_err());
    }

    #[test]
    fn the_tasks_are_as_many_as_asked_for() {
        for (workload, tasks) in [("hackbench", 768 + 1), ("pingpong", 768)] {
            let spec = workload_spec(workload, None, 384).unwrap();
            assert_eq!(Workload::parse_spec(&spec).unwrap().tasks.len(), tasks, "{spec}");
        }
        assert!(workload_spec("spin", Some(3), 8).is_err());
    }

    #[test]
    fn a_median_is_the_middle_or_the_mean_of_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 10.0]), 3.0);
    }
}
