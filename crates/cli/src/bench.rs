// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab bench`: how fast this machine simulates, in simulated events a second of one CPU.
//!
//! A wake-up, a switch in and a switch out count as an event each, and nothing else does. Beside each figure stands,
//! from the same minute, what the cheapest possible simulation costs here: the hold model on a binary heap (Jones, "An
//! empirical comparison of priority-queue and event-set implementations", CACM 1986), which takes the earliest of as
//! many events as there are CPUs, and puts it back an exponentially distributed time later. The ratio of the two says
//! more about the simulator than a time, which depends on the machine and on what else runs there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use wakelab_machine::{Cpu, Machine, Topology};
use wakelab_policy::PolicySpec;
use wakelab_sim::{HostProfile, Scenario};
use wakelab_workload::Workload;

use crate::args::Format;
use crate::resolve::bad_input;
use crate::{bench_plot, print};

const SCHEMA_VERSION: u32 = 1;
/// Whose costs the simulated machine has.
const COSTS_OF: &str = "xeon-2s22c2t";
const THREADS_A_CORE: u32 = 2;
const CORES_A_SOCKET_MAX: u32 = 96;
const TASKS_A_CPU: u32 = 2;
/// What `--grow` steps through.
const GROWTH: [u32; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
/// Turns of a hold loop.
const HOLDS: u32 = 500_000;
const HOLD_MEAN: f64 = 1e6;

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab bench\n  \
    wakelab bench --cpus 64 --workload pingpong --policy linux-4.15 --format json\n  \
    wakelab bench --grow --seconds 1 --plot growth.svg\n\n\
    A wake-up, a switch in and a switch out count as an event each, and nothing else does. All costs and\n\
    the checker are on. Times are CPU times of one thread.")]
pub(crate) struct BenchArgs {
    /// CPUs of the simulated machine, a multiple of 4: 2 threads a core, 2 sockets or more of at most 96 cores
    #[arg(long, value_name = "N", default_value_t = 384, value_parser = clap::value_parser!(u32).range(4..=4096))]
    pub(crate) cpus: u32,
    /// Tasks, as nearly as the workload can [default: 2 a CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub(crate) tasks: Option<u32>,
    /// hackbench (pipes, slow senders, so that most messages wake somebody) or pingpong, sized by --tasks; or any
    /// workload with its parameters, NAME or FILE.toml:key=value,...
    #[arg(long, value_name = "WORKLOAD", default_value = "hackbench")]
    pub(crate) workload: String,
    /// A policy, NAME[+axis=value...] [default: linux-4.15 and linux-4.15+idle=smt-balance]
    #[arg(long, short, value_name = "POLICY")]
    pub(crate) policy: Vec<String>,
    /// Repeat each run until so many seconds were spent on it
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub(crate) seconds: u32,
    /// Do it for 64, 128, ... 4,096 CPUs
    #[arg(long, conflicts_with_all = ["cpus", "tasks"])]
    pub(crate) grow: bool,
    /// Draw nanoseconds an event over CPUs, as SVG
    #[arg(long, value_name = "FILE", requires = "grow")]
    pub(crate) plot: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// docs/schema/bench.schema.json.
#[derive(Serialize)]
struct Document {
    schema_version: u32,
    kind: &'static str,
    costs_of: &'static str,
    results: Vec<Measured>,
}

/// One scenario, run again and again.
#[derive(Serialize)]
pub(crate) struct Measured {
    pub(crate) cpus: u32,
    tasks: u32,
    workload: String,
    pub(crate) policy: String,
    /// Wake-ups, switches in and switches out of a run.
    events: u64,
    /// A value a run.
    run_ns: Vec<u64>,
    /// A value a hold loop, one beside each run: a turn of it.
    hold_ns: Vec<f64>,
    /// Of the medians.
    events_per_s: f64,
    pub(crate) ns_per_event: f64,
    holds_per_event: f64,
    /// The most that the process ever had resident; null where /proc does not say.
    peak_memory_bytes: Option<u64>,
}

pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let sizes = if args.grow { GROWTH.to_vec() } else { vec![args.cpus] };
    let default = ["linux-4.15", "linux-4.15+idle=smt-balance"].map(String::from).to_vec();
    let policies = if args.policy.is_empty() { &default } else { &args.policy };
    let mut scenarios = Vec::new();
    for &cpus in &sizes {
        let machine = Arc::new(machine(cpus)?);
        let spec = workload_spec(&args.workload, args.tasks, cpus)?;
        let workload = Arc::new(Workload::parse_spec(&spec).map_err(bad_input)?);
        for name in policies {
            let policy: PolicySpec =
                name.parse().map_err(|error| bad_input(format!("--policy {name}: {error}")))?;
            let (machine, workload) = (machine.clone(), workload.clone());
            let host = HostProfile::Mainline;
            scenarios.push((
                spec.clone(),
                name,
                Scenario { machine, workload, policy, host, limit_ns: 1 << 45 },
            ));
        }
    }
    let mut results = Vec::new();
    for (spec, policy, scenario) in scenarios {
        results.push(measure(spec, policy, &scenario, u64::from(args.seconds))?);
    }
    if let Some(path) = &args.plot {
        let svg = bench_plot::svg(&results);
        std::fs::write(path, svg).map_err(|error| bad_input(format!("{}: {error}", path.display())))?;
    }
    let document = Document { schema_version: SCHEMA_VERSION, kind: "bench", costs_of: COSTS_OF, results };
    match args.format {
        Format::Json => print::json(&document),
        Format::Text => print::text(&table(&document)?),
    }
}

fn measure(workload: String, policy: &str, scenario: &Scenario, seconds: u64) -> Result<Measured> {
    let (mut run_ns, mut hold_ns, mut events) = (Vec::new(), Vec::new(), 0);
    let cpus = scenario.machine.topology.nr_cpus();
    while run_ns.is_empty() || run_ns.iter().sum::<u64>() < seconds * 1_000_000_000 {
        let begin_ns = now_ns();
        let outcome = black_box(wakelab_sim::run(scenario, 1).map_err(bad_input)?);
        run_ns.push((now_ns() - begin_ns).max(1));
        events = outcome.counts.wakeups + outcome.counts.switches_in + outcome.counts.switches_out;
        hold_ns.push(hold(cpus));
    }
    let run = run_ns.iter().map(|&ns| ns as f64).collect();
    let ns_per_event = median(run) / events.max(1) as f64;
    Ok(Measured {
        cpus: cpus as u32,
        tasks: scenario.workload.tasks.len() as u32,
        workload,
        policy: policy.to_owned(),
        events,
        events_per_s: 1e9 / ns_per_event,
        ns_per_event,
        holds_per_event: ns_per_event / median(hold_ns.clone()),
        run_ns,
        hold_ns,
        peak_memory_bytes: peak_memory_bytes(),
    })
}

/// CPU c and c + cores share a core, as Linux numbers them on x86.
fn machine(cpus: u32) -> Result<Machine> {
    if !cpus.is_multiple_of(2 * THREADS_A_CORE) {
        return Err(bad_input(format!("--cpus {cpus}: expected a multiple of {}", 2 * THREADS_A_CORE)));
    }
    let mut machine = Machine::preset(COSTS_OF).map_err(bad_input)?;
    let cores = cpus / THREADS_A_CORE;
    let fits = |&sockets: &u32| cores.is_multiple_of(sockets) && cores / sockets <= CORES_A_SOCKET_MAX;
    let sockets = (2..=cores).find(fits).context("as many sockets as cores always fit")?;
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

/// The two that are sized here, or what was typed.
fn workload_spec(typed: &str, tasks: Option<u32>, cpus: u32) -> Result<String> {
    let nr = tasks.unwrap_or(TASKS_A_CPU * cpus);
    match typed {
        "hackbench" => {
            Ok(format!("hackbench:groups={},fds=16,loops=60,send-work-ns=20000,ipc=pipe", (nr / 32).max(1)))
        }
        "pingpong" => Ok(format!("pingpong:pairs={},duration-ms=20", (nr / 2).max(1))),
        other if tasks.is_none() => Ok(other.to_owned()),
        other => {
            Err(bad_input(format!("--tasks sizes hackbench and pingpong alone; expected it in {other}")))
        }
    }
}

/// What a turn of the hold model costs with so many events pending.
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

/// CPU time of this thread, so that what else runs on the machine counts as little as can be.
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

fn table(document: &Document) -> Result<String> {
    let mut text = String::from(
        "simulated events: wake-ups, switches in, switches out; all costs and the checker on; CPU time of one thread\n\n",
    );
    writeln!(
        text,
        "{:>5} {:>7} {:>11} {:>5} {:>10} {:>9} {:>7} {:>9}  policy, workload",
        "CPUs", "tasks", "events/run", "runs", "events/s", "ns/event", "holds", "peak MiB"
    )?;
    for row in &document.results {
        let peak = row.peak_memory_bytes.map_or_else(|| "-".to_owned(), |bytes| (bytes >> 20).to_string());
        writeln!(
            text,
            "{:>5} {:>7} {:>11} {:>5} {:>8.3} M {:>9.0} {:>7.2} {peak:>9}  {}, {}",
            row.cpus,
            row.tasks,
            row.events,
            row.run_ns.len(),
            row.events_per_s / 1e6,
            row.ns_per_event,
            row.holds_per_event,
            row.policy,
            row.workload
        )?;
    }
    text.push_str(
        "\nholds: the time of an event, in turns of a hold loop (pop, push) over a binary heap of as many entries as CPUs\n",
    );
    Ok(text)
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
