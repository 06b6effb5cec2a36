// SPDX-License-Identifier: GPL-2.0-or-later
//! Simulated events per second: wake-ups, switches in and switches out, and nothing else. `cargo bench -p wakelab-sim`.
//!
//! The machine has 384 CPUs (2 sockets x 96 cores x 2 threads) with the costs of the preset xeon-2s22c2t; 768 tasks
//! work on it. pingpong: every message is a wake-up. hackbench: 24 groups of 16 senders and 16 receivers over pipes,
//! whose senders are slow (20 us), so that receivers wait; its fork phase, and messages that wake no task, take time
//! but do not count. Criterion's `thrpt` is in these events; the lines before it give the number of events in a run.
//! `wakelab bench` measures the same, beside a hold loop; this benchmark is for comparing two builds.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wakelab_machine::{Cpu, Machine, Topology};
use wakelab_sim::{HostProfile, Outcome, Scenario, run};
use wakelab_workload::Workload;

const SOCKETS: u32 = 2;
const CORES: u32 = 96;
const THREADS: u32 = 2;

/// Numbered as Linux does on x86: CPU c and c + 192 share a core.
fn machine() -> Machine {
    let mut machine = Machine::preset("xeon-2s22c2t").expect("a preset");
    let cores = SOCKETS * CORES;
    let cpu = |number: u32| {
        let core = number % cores;
        Cpu { core, cluster: None, llc: core / CORES, node: core / CORES, capacity: 1024 }
    };
    let cpus = (0..cores * THREADS).map(cpu).collect();
    machine.topology = Topology { cpus, node_distance: vec![vec![10, 21], vec![21, 10]] };
    machine
}

fn events(outcome: &Outcome) -> u64 {
    outcome.counts.wakeups + outcome.counts.switches_in + outcome.counts.switches_out
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(5));
    for (name, workload) in [
        ("hackbench", "hackbench:groups=24,fds=16,loops=60,send-work-ns=20000,ipc=pipe"),
        ("pingpong", "pingpong:pairs=384,duration-ms=10"),
    ] {
        for policy in ["linux-4.15", "linux-4.15+idle=smt-balance"] {
            let scenario = Scenario {
                machine: machine().into(),
                workload: Workload::parse_spec(workload).expect("a preset").into(),
                policy: policy.parse().expect("a policy"),
                host: HostProfile::Mainline,
                limit_ns: 1 << 40,
                limit_events: u64::MAX,
            };
            let outcome = run(&scenario, 1).expect("a run");
            println!(
                "{name}, {policy}: {} tasks, {} events in {} us of simulated time",
                scenario.workload.tasks.len(),
                events(&outcome),
                outcome.elapsed_ns / 1000
            );
            group.throughput(Throughput::Elements(events(&outcome)));
            group.bench_function(format!("{name}/{policy}"), |b| b.iter(|| black_box(run(&scenario, 1))));
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
