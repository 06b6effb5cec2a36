// SPDX-License-Identifier: GPL-2.0-or-later
//! A simulated run, exported, imported, and replayed on the same machine under the same policy: the one recording of
//! which the truth is known.

use wakelab_machine::{Costs, Machine, presets};
use wakelab_policy::WAKE_SYNC;
use wakelab_sim::{HostProfile, Observer, Outcome, Scenario, run_observed};
use wakelab_trace::ftrace_write::{Left, Writer};
use wakelab_trace::{Options, Recording, read_from};
use wakelab_workload::{Source, Workload};

struct Export {
    writer: Writer<Vec<u8>>,
    exited: Vec<bool>,
    forked: Vec<bool>,
}

impl Observer for Export {
    fn start(&mut self, now_ns: u64, _cpu: u32, task: u32) {
        self.writer.start(now_ns, task);
    }
    fn wake(&mut self, now_ns: u64, cpu: u32, _waker: Option<u32>, wakee: u32, flags: u32) {
        self.writer.wake(now_ns, cpu, wakee, flags & WAKE_SYNC != 0);
    }
    fn woken(&mut self, now_ns: u64, by_cpu: Option<u32>, cpu: u32, task: u32) {
        let Some(by_cpu) = by_cpu else { return };
        if std::mem::take(&mut self.forked[task as usize]) {
            self.writer.wakeup_new(now_ns, by_cpu, cpu, task);
        } else {
            self.writer.wakeup(now_ns, by_cpu, cpu, task);
        }
    }
    fn switch_in(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.writer.switch_in(now_ns, cpu, task);
    }
    fn stopped(&mut self, now_ns: u64, cpu: u32, task: u32, ran_ns: u64) {
        self.writer.stopped(now_ns, cpu, task, ran_ns);
    }
    fn switch_out(&mut self, now_ns: u64, cpu: u32, task: u32, runnable: bool) {
        let left = match (self.exited[task as usize], runnable) {
            (true, _) => Left::Exited,
            (_, true) => Left::Runnable,
            (_, false) => Left::Blocked,
        };
        self.writer.switch_out(now_ns, cpu, task, left);
    }
    fn interrupt_enter(&mut self, now_ns: u64, cpu: u32, source: Source) {
        self.writer.interrupt_enter(now_ns, cpu, source);
    }
    fn interrupt_exit(&mut self, now_ns: u64, cpu: u32) {
        self.writer.interrupt_exit(now_ns, cpu);
    }
    fn migrate(&mut self, now_ns: u64, task: u32, from: u32, to: u32) {
        self.writer.migrate(now_ns, to, task, from, to);
    }
    fn fork(&mut self, now_ns: u64, cpu: u32, parent: u32, child: u32) {
        self.forked[child as usize] = true;
        self.writer.fork(now_ns, cpu, parent, child);
    }
    fn exit(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.exited[task as usize] = true;
        self.writer.exit(now_ns, cpu, task);
    }
}

fn scenario(machine: &Machine, workload: Workload) -> Scenario {
    Scenario {
        machine: machine.clone().into(),
        workload: workload.into(),
        policy: "linux-4.15".parse().expect("a policy"),
        host: HostProfile::Mainline,
        limit_ns: 100_000_000_000,
    }
}

pub(crate) fn export(machine: &Machine, workload: Workload) -> (Outcome, Vec<u8>) {
    let (tasks, nr_cpus) = (workload.tasks.len(), machine.topology.nr_cpus() as u32);
    let mut export = Export {
        writer: Writer::new(Vec::new(), &workload, nr_cpus),
        exited: vec![false; tasks],
        forked: vec![false; tasks],
    };
    let outcome = run_observed(&scenario(machine, workload), 7, &mut export).expect("it runs");
    let text = export.writer.finish(outcome.elapsed_ns).expect("memory takes everything");
    (outcome, text)
}

/// The run, what was read of its export, and the replay.
fn round_trip(machine: &Machine, workload: &str) -> (Outcome, Recording, Outcome) {
    let (truth, text) = export(machine, Workload::parse_spec(workload).expect("a workload"));
    let options = Options { strict: true, recorded_on: Some(machine.clone()), ..Options::default() };
    let recording =
        read_from(&text[..], "export", "export", &options).unwrap_or_else(|error| panic!("{error}"));
    let (replay, _) = export(machine, recording.workload.clone());
    (truth, recording, replay)
}

/// Messages one to one, many to many, by timers, and threads that never wait; a few milliseconds each.
const WORKLOADS: [&str; 5] = [
    "pingpong:pairs=3,loops=50",
    "hackbench:groups=2,fds=6,loops=10",
    "schbench:runtime-ms=5,threads=4",
    "uperf:duration-ms=2",
    "spin:duration-ms=5",
];

/// All but smp-2, which these workloads overload: where tasks still queue when a recording ends, a replay is not exact.
fn all_presets(check: impl Fn(&str, Machine)) {
    for (name, _) in presets() {
        if !["host", "smp-2"].contains(name) {
            check(name, Machine::preset(name).expect("a preset"));
        }
    }
}

/// What is compared exactly.
fn essence(outcome: &Outcome) -> (u64, u64, u64, u64, &[u64]) {
    let counts = &outcome.counts;
    let tasks = &outcome.task_cpu_time_ns[..];
    (outcome.elapsed_ns, counts.wakeups, counts.switches_in, counts.preemptions, tasks)
}

#[test]
fn where_nothing_costs_anything_a_replay_is_the_run() {
    all_presets(|name, mut machine| {
        machine.costs = Costs::free(machine.costs.smt_speed.len());
        machine.topology.cpus.iter_mut().for_each(|cpu| cpu.capacity = 1024);
        for workload in WORKLOADS {
            let (truth, recording, replay) = round_trip(&machine, workload);
            assert_eq!(essence(&replay), essence(&truth), "{workload} on {name}");
            assert_eq!(recording.explained.overhead_clamped_ns, 0, "{workload} on {name}");
            assert_eq!(recording.explained.source_unknown, 0, "{workload} on {name}");
        }
    });
}

/// A task's work is known to a nanosecond a segment; on slower CPUs that shifts what follows.
#[test]
fn capacities_cost_a_nanosecond_now_and_then() {
    let mut machine = Machine::preset("snapdragon-865").expect("a preset");
    machine.costs = Costs::free(machine.costs.smt_speed.len());
    for workload in WORKLOADS {
        let (truth, _, replay) = round_trip(&machine, workload);
        assert_eq!(replay.counts.wakeups, truth.counts.wakeups, "{workload}");
        let off_ns = replay.elapsed_ns.abs_diff(truth.elapsed_ns);
        assert!(
            off_ns * 10_000 <= truth.elapsed_ns,
            "{workload}: {} {}",
            truth.elapsed_ns,
            replay.elapsed_ns
        );
    }
}

/// What decisions and balancing read is not known where it is not measured, and what writes waited for never, so it
/// stays in the work (most beside the shortest work, pingpong's); and what many tasks may do for one (hackbench) must
/// be done in the replay by the one that did it.
#[test]
fn with_all_costs_a_replay_takes_about_as_long() {
    all_presets(|name, machine| {
        for workload in WORKLOADS {
            let (truth, _, replay) = round_trip(&machine, workload);
            // Measured: at most 1.0 %, pingpong 9.6 and hackbench 9.8 %, and one that is 21 % off:
            // docs/guide/recordings.md.
            let percent = match (workload.split(':').next(), name) {
                (Some("schbench"), "snapdragon-865") => 25,
                (Some("hackbench" | "pingpong"), _) => 12,
                _ => 3,
            };
            let off_ns = replay.elapsed_ns.abs_diff(truth.elapsed_ns);
            assert!(
                off_ns * 100 <= truth.elapsed_ns * percent,
                "{workload} on {name}: {} ns, replayed {} ns",
                truth.elapsed_ns,
                replay.elapsed_ns
            );
        }
    });
}
