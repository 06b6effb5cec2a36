// SPDX-License-Identifier: GPL-2.0-or-later
//! A simulated run, exported, imported, and replayed on the same machine under the same policy. Only for such a
//! recording is the truth known.

use wakelab_lab::{DEMO_NAME, demo_recording, export_events, export_perfetto, observe_events};
use wakelab_machine::{Costs, IdleState, Machine, presets};
use wakelab_sim::{HostProfile, Outcome, Scenario};
use wakelab_trace::{Options, Recording, Watch, read_from};
use wakelab_workload::Workload;

fn scenario(machine: &Machine, workload: Workload) -> Scenario {
    Scenario {
        machine: machine.clone().into(),
        workload: workload.into(),
        policy: "linux-4.15".parse().expect("a policy"),
        host: HostProfile::Mainline,
        limit_ns: 100_000_000_000,
        limit_events: wakelab_sim::LIMIT_EVENTS,
    }
}

pub(crate) fn export(machine: &Machine, workload: Workload) -> (Outcome, Vec<u8>) {
    export_events(&scenario(machine, workload), 7, Vec::new()).expect("it runs, and memory takes everything")
}

/// The run, the recording that was read from its export, and the replay.
fn round_trip(machine: &Machine, workload: &str) -> (Outcome, Recording, Outcome) {
    let (truth, text) = export(machine, Workload::parse_spec(workload).expect("a workload"));
    let options = Options {
        strict: true,
        recorded_waits_only: true,
        recorded_on: Some(machine.clone()),
        ..Options::default()
    };
    let recording =
        read_from(&text[..], "export", "export", &options).unwrap_or_else(|error| panic!("{error}"));
    let (replay, _) = export(machine, recording.workload.clone());
    (truth, recording, replay)
}

/// Messages one to one and many to many, timers, and threads that never wait; a few milliseconds each.
const WORKLOADS: [&str; 5] = [
    "pingpong:pairs=3,loops=50",
    "hackbench:groups=2,fds=6,loops=10",
    "schbench:runtime-ms=5,threads=4",
    "uperf:duration-ms=2",
    "spin:duration-ms=5",
];

/// All presets but smp-2, which these workloads overload: a replay is not exact if tasks still queue at the end.
fn all_presets(check: impl Fn(&str, Machine)) {
    for (name, _) in presets() {
        if !["host", "smp-2"].contains(name) {
            check(name, Machine::preset(name).expect("a preset"));
        }
    }
}

/// Both exports of a run tell the same of what can be observed: switches, wake-ups, waits, and who ended them.
#[test]
fn a_perfetto_file_tells_what_ftrace_text_tells() {
    let machine = Machine::preset("smp-8").expect("a preset");
    for workload in WORKLOADS {
        let scenario = scenario(&machine, Workload::parse_spec(workload).expect("a workload"));
        let (outcome, text) = export_events(&scenario, 7, Vec::new()).expect("it runs");
        let mut file = Vec::new();
        let outcomes = export_perfetto(&[scenario], &["one".to_owned()], 7, &mut file).expect("it runs");
        assert_eq!(outcomes, [outcome]);
        let read = |bytes: &[u8]| {
            read_from(bytes, "export", "export", &Options::default())
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let (of_text, of_file) = (read(&text), read(&file));
        assert_eq!(of_file.observed.by_comm, of_text.observed.by_comm, "{workload}");
        let explained = |recording: &Recording| recording.explained.clone();
        assert_eq!(explained(&of_file), explained(&of_text), "{workload}");
    }
}

/// To watch a run is to export it and to read that: of models, and of the replay of a recording.
#[test]
fn a_watched_run_shows_what_its_export_shows() {
    let machine = Machine::preset("xeon-2s22c2t").expect("a preset");
    let mut workloads: Vec<Workload> =
        WORKLOADS.iter().map(|spec| Workload::parse_spec(spec).expect("a workload")).collect();
    workloads.push(
        read_from(demo_recording(), DEMO_NAME, DEMO_NAME, &Options::default()).expect("it reads").workload,
    );
    for workload in workloads {
        let scenario = scenario(&machine, workload);
        let watch = Watch::new(&scenario.workload, "export");
        let (outcome, watch) = observe_events(&scenario, 7, watch).expect("it runs");
        let (exported, text) = export_events(&scenario, 7, Vec::new()).expect("it runs");
        assert_eq!(outcome, exported);
        let recording = read_from(&text[..], "export", "export", &Options::default()).expect("an export");
        let seen = watch.observations().expect("a run with switches");
        assert_eq!(seen, recording.observed, "{}", scenario.workload.name);
        assert!(seen.by_comm.values().any(|of| of.wakeups > 0 || of.switches > 0));
    }
}

/// The results that must be equal.
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

/// What a CPU does slowly after it has idled is taken off where the run charged it, but for a nanosecond each time.
#[test]
fn idling_costs_a_replay_what_it_costs_the_run() {
    let mut machine = Machine::preset("smp-8").expect("a preset");
    machine.costs = Costs::free(1);
    let state = |after_ns, cold_percent| IdleState {
        after_ns,
        exit_latency_ns: 0,
        cold_percent,
        ..IdleState::default()
    };
    machine.costs.idle_states = vec![state(0, 0), state(1_000, 25)];
    let mut refill_ns = 0;
    for workload in WORKLOADS {
        let (truth, _, replay) = round_trip(&machine, workload);
        let [run, again] = [&truth, &replay].map(|outcome| outcome.time.cache_refill_ns);
        assert!(run.abs_diff(again) * 20 <= run, "{workload}: {run} and {again} ns of refill");
        let off_ns = replay.elapsed_ns.abs_diff(truth.elapsed_ns);
        assert!(off_ns * 100 <= truth.elapsed_ns, "{workload}: off by {off_ns} ns");
        refill_ns += run;
    }
    assert!(refill_ns > 100_000, "{refill_ns}: CPUs idle");
}

/// The work of each segment is known to a nanosecond; on slower CPUs the rest shifts what follows.
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

/// The cost of reads by decisions and balancing is unknown unless it was measured, and the cost of writes always, so
/// both stay in the work; this matters most for pingpong, which has the shortest work. In hackbench any sender may wake
/// a receiver, but in the replay it must be the one that did.
#[test]
fn with_all_costs_a_replay_takes_about_as_long() {
    all_presets(|name, machine| {
        for workload in WORKLOADS {
            let (truth, _, replay) = round_trip(&machine, workload);
            // Measured: at most 1.0 %, pingpong 6.2 and hackbench 12.9 %, and four that are 14.6 to 21 % off. In two of
            // these, of 17 and 18 %, tasks move to another node twice as often in the replay (6 and 3 times, 2 and 1):
            // two wakers that choose one CPU depend on when a search ends, to less than its cost.
            let percent = match (workload.split(':').next(), name) {
                (Some("schbench"), "snapdragon-865") => 25,
                (Some("pingpong"), "kunpeng920-2n64c") => 20,
                (Some("uperf"), "xeon-2s22c2t") => 20,
                (Some("hackbench"), "power9-2s22c4t") => 16,
                (Some("hackbench" | "pingpong"), _) => 14,
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
