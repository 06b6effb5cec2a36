// SPDX-License-Identifier: GPL-2.0-or-later
//! Prints a fingerprint of everything that happens in many short runs, a line for each scenario. A change that must not
//! change results is checked by comparing what two builds print:
//!
//!     git worktree add ../before main
//!     (cd ../before && cargo run --release -p wakelab-lab --example fingerprints) > before.txt
//!     cargo run --release -p wakelab-lab --example fingerprints | diff before.txt -
//!
//! A fingerprint covers every event that an observer sees, with its time, CPU, task and decision, and the outcome. The
//! runs are those of all workload models and of two recordings in fixtures/, under all named policies and some changes
//! of single axes, on both hosts and on machines of different shapes. Words on the command line select scenarios.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wakelab_lab::{Runner, Silent};
use wakelab_machine::Machine;
use wakelab_policy::{Decision, EnqueueWhy, PolicySpec};
use wakelab_sim::{HostProfile, Observer, Scenario, run_observed};
use wakelab_workload::{Source, Workload};

const MACHINES: [&str; 7] = [
    "smp-2",
    "smp-8",
    "xeon-2s22c2t",
    "power9-2s22c4t",
    "kunpeng920-4n96c",
    "snapdragon-865",
    "epyc-9654-2s",
];

/// Policies beside the named ones.
const CHANGED_AXES: [&str; 9] = [
    "linux-4.15+idle=smt-balance",
    "linux-4.15+idle=narrow",
    "linux-4.15+idle=nearest",
    "linux-5.2+idle=two-choices",
    "linux-5.2+cluster=spread-and-pack",
    "linux-5.12+affine=flips",
    "linux-6.12+groups=shares",
    "wakelab+groups=exact",
    "linux-5.2+capacity=aware+queue=fair",
];

const WORKLOADS: [&str; 18] = [
    "hackbench:groups=3,fds=8,loops=20",
    "hackbench:groups=6,fds=16,loops=10,send-work-ns=20000,ipc=pipe",
    "kernbench",
    "lock-server",
    "oltp",
    "openmp:threads=16",
    "openmp:threads=40,schedule=dynamic",
    "pbzip2",
    "pgbench:clients=30",
    "pingpong:pairs=20",
    "pixz",
    "schbench",
    "schbench:rps=200",
    "spin:tasks=30",
    "spin-groups",
    "stream:threads=8",
    "uperf",
    "hackbench:groups=1,fds=4,loops=200",
];

const RECORDINGS: [&str; 2] = ["hackbench.perf.txt", "pgbench.perf.txt"];

/// Simulated time of each run.
const LIMIT_NS: u64 = 8_000_000;
const SEEDS: [u64; 2] = [1, 7];

/// FNV-1a over the numbers of all events (Fowler, Noll, Vo).
struct Fingerprint {
    hash: u64,
    events: u64,
}

impl Fingerprint {
    fn new() -> Fingerprint {
        Fingerprint { hash: 0xcbf2_9ce4_8422_2325, events: 0 }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn event(&mut self, kind: u64, now_ns: u64, numbers: [u32; 3]) {
        self.events += 1;
        self.bytes(&kind.to_le_bytes());
        self.bytes(&now_ns.to_le_bytes());
        numbers.iter().for_each(|number| self.bytes(&number.to_le_bytes()));
    }
}

impl Observer for Fingerprint {
    fn start(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.event(1, now_ns, [cpu, task, 0]);
    }
    fn wake(&mut self, now_ns: u64, cpu: u32, waker: Option<u32>, wakee: u32, flags: u32) {
        self.event(2, now_ns, [cpu, waker.unwrap_or(u32::MAX), wakee ^ flags << 24]);
    }
    fn decision(&mut self, now_ns: u64, this_cpu: u32, wakee: u32, decision: &Decision) {
        self.event(3, now_ns, [this_cpu, wakee, decision.cpu as u32]);
        self.bytes(format!("{decision:?}").as_bytes());
    }
    fn woken(&mut self, now_ns: u64, by_cpu: Option<u32>, cpu: u32, task: u32) {
        self.event(4, now_ns, [by_cpu.unwrap_or(u32::MAX), cpu, task]);
    }
    fn enqueue(&mut self, now_ns: u64, cpu: u32, task: u32, why: EnqueueWhy) {
        self.event(5, now_ns, [cpu, task, why as u32]);
    }
    fn switch_in(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.event(6, now_ns, [cpu, task, 0]);
    }
    fn stopped(&mut self, now_ns: u64, cpu: u32, task: u32, ran_ns: u64) {
        self.event(7, now_ns, [cpu, task, ran_ns as u32]);
    }
    fn switch_out(&mut self, now_ns: u64, cpu: u32, task: u32, runnable: bool) {
        self.event(8, now_ns, [cpu, task, runnable.into()]);
    }
    fn idle(&mut self, now_ns: u64, cpu: u32) {
        self.event(9, now_ns, [cpu, 0, 0]);
    }
    fn interrupt_enter(&mut self, now_ns: u64, cpu: u32, source: Source) {
        self.event(10, now_ns, [cpu, 0, 0]);
        self.bytes(format!("{source:?}").as_bytes());
    }
    fn interrupt_exit(&mut self, now_ns: u64, cpu: u32) {
        self.event(11, now_ns, [cpu, 0, 0]);
    }
    fn migrate(&mut self, now_ns: u64, task: u32, from: u32, to: u32) {
        self.event(12, now_ns, [task, from, to]);
    }
    fn fork(&mut self, now_ns: u64, cpu: u32, parent: u32, child: u32) {
        self.event(13, now_ns, [cpu, parent, child]);
    }
    fn exit(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.event(14, now_ns, [cpu, task, 0]);
    }
}

struct Named {
    name: String,
    scenario: Scenario,
}

/// What tasks do, by its name.
type Input = (String, Arc<Workload>);

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn inputs() -> Result<Vec<Input>, Box<dyn Error>> {
    let mut inputs = Vec::new();
    for spec in WORKLOADS {
        inputs.push((spec.to_owned(), Arc::new(Workload::parse_spec(spec)?)));
    }
    for file in RECORDINGS {
        let recording = wakelab_trace::read(&fixtures().join(file), &wakelab_trace::Options::default())?;
        inputs.push((file.to_owned(), Arc::new(recording.workload)));
    }
    Ok(inputs)
}

fn policies() -> Result<Vec<(String, PolicySpec)>, Box<dyn Error>> {
    let named = PolicySpec::named().iter().map(|policy| policy.name);
    named.chain(CHANGED_AXES).map(|name| Ok((name.to_owned(), name.parse()?))).collect()
}

/// Every input under every policy on both hosts, each time on another machine. The simulator refuses those whose
/// workload does not fit the machine; that is part of the result.
fn scenarios() -> Result<Vec<Named>, Box<dyn Error>> {
    let (inputs, policies) = (inputs()?, policies()?);
    let machines: Vec<Arc<Machine>> = MACHINES
        .iter()
        .map(|name| Ok(Arc::new(Machine::preset(name)?)))
        .collect::<Result<_, Box<dyn Error>>>()?;
    let mut all = Vec::new();
    for (turn, (input, workload)) in inputs.iter().enumerate() {
        for (shift, (policy_name, policy)) in policies.iter().enumerate() {
            for (half, host) in [HostProfile::Mainline, HostProfile::SchedExt].into_iter().enumerate() {
                let at = (turn + 3 * shift + 5 * half) % MACHINES.len();
                all.push(Named {
                    name: format!("{} {input} {policy_name} {host:?}", MACHINES[at]),
                    scenario: Scenario {
                        machine: Arc::clone(&machines[at]),
                        workload: Arc::clone(workload),
                        policy: policy.clone(),
                        host,
                        limit_ns: LIMIT_NS,
                        limit_events: u64::MAX,
                    },
                });
            }
        }
    }
    Ok(all)
}

fn line(named: &Named) -> String {
    let mut line = String::new();
    for seed in SEEDS {
        let mut fingerprint = Fingerprint::new();
        let result = run_observed(&named.scenario, seed, &mut fingerprint);
        fingerprint.bytes(format!("{result:?}").as_bytes());
        // Writing to a string cannot fail.
        let _ = write!(line, "{:016x} {:7} ", fingerprint.hash, fingerprint.events);
    }
    line + &named.name
}

fn main() -> Result<(), Box<dyn Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut all = scenarios()?;
    all.retain(|named| wanted.iter().all(|word| named.name.contains(word.as_str())));
    for line in Runner::new(None, &Silent).in_parallel(all.len(), |at| line(&all[at])) {
        println!("{line}");
    }
    Ok(())
}
