// SPDX-License-Identifier: GPL-2.0-or-later
//! groups=task-weight and groups=shares on whole machines: how far groups are from their parts.

use wakelab_machine::Machine;
use wakelab_sim::{HostProfile, Outcome, Scenario, run};
use wakelab_workload::Workload;

fn spin_groups(machine: &str, policy: &str, spec: &str, seed: u64) -> Outcome {
    spin_groups_on(HostProfile::Mainline, Machine::load(machine).unwrap(), policy, spec, seed)
}

fn spin_groups_on(host: HostProfile, machine: Machine, policy: &str, spec: &str, seed: u64) -> Outcome {
    let scenario = Scenario {
        machine: machine.into(),
        workload: Workload::parse_spec(&format!("spin-groups:{spec}")).unwrap().into(),
        policy: policy.parse().unwrap(),
        host,
        limit_ns: 1 << 50,
        limit_events: wakelab_sim::LIMIT_EVENTS,
    };
    run(&scenario, seed).unwrap_or_else(|error| panic!("{error}"))
}

/// Percent of all CPU time that each group received.
fn parts(run: &Outcome) -> Vec<f64> {
    let sum: u64 = run.groups.iter().map(|group| group.cpu_time_ns).sum();
    run.groups.iter().map(|group| group.cpu_time_ns as f64 * 100.0 / sum as f64).collect()
}

/// The largest difference, in points, between a group's part and what it is due.
fn worst(parts: &[f64], due: &[f64]) -> f64 {
    parts.iter().zip(due).map(|(part, due)| (part - due).abs()).fold(0.0, f64::max)
}

const THIRDS: [f64; 3] = [100.0 / 3.0; 3];

/// The published run: 8, 4 and 3 tasks of equal groups on 8 CPUs, 60 s. With task-weight the group with most tasks gets
/// more than half; with shares each group is within the published 0.83 points of a third. With load it is within 3,
/// because weights are those of the last event on each CPU.
#[test]
fn shares_give_three_groups_a_third_each() {
    for policy in ["linux-2.6.24", "linux-4.15+balance=load"] {
        let with = |groups: &str| {
            let policy = format!("{policy}+groups={groups}");
            parts(&spin_groups("smp-8", &policy, "duration-ms=60000", 1))
        };
        let before = with("task-weight");
        assert!(before[0] > 50.0 && before[2] < 25.0, "{policy}: {before:?}");
        let after = with("shares");
        assert!(worst(&after, &THIRDS) <= 0.83, "{policy}: {after:?}");
        let since = with("load");
        assert!(worst(&since, &THIRDS) <= 3.0, "{policy}: {since:?}");
    }
}

/// The same behind sched_ext, which balances when it is due and lets the running task continue if it is first, and with
/// ticks of 1 ms. Before these rules existed, the group with most tasks had 38 % behind sched_ext; and with such ticks,
/// on either host, three CPUs passed a task around for ever, and it had 41 %.
#[test]
fn shares_give_a_third_on_both_hosts_whatever_the_tick() {
    for host in [HostProfile::Mainline, HostProfile::SchedExt] {
        for (tick_ns, seed) in [(1_000_000, 1), (1_000_000, 2), (4_000_000, 2)] {
            let mut machine = Machine::load("smp-8").unwrap();
            machine.costs.tick_period_ns = tick_ns;
            let run = spin_groups_on(host, machine, "linux-2.6.24+groups=shares", "duration-ms=20000", seed);
            let found = parts(&run);
            assert!(
                worst(&found, &THIRDS) <= 0.83,
                "{host:?}, ticks of {tick_ns} ns, seed {seed}: {found:?}"
            );
        }
    }
}

/// Other numbers of tasks and other shares, on two machines: within 2 points of the entitlement, like most published
/// runs.
#[test]
fn shares_stay_within_two_points_elsewhere() {
    for (machine, spec, due) in [
        ("smp-8", "a=20,b=10,c=10,duration-ms=20000", [33.3, 33.3, 33.3, 0.0]),
        (
            "smp-8",
            "a=16,b=16,c=16,d=16,shares-a=2048,shares-d=512,duration-ms=20000",
            [44.4, 22.2, 22.2, 11.1],
        ),
        ("smp-8", "a=9,b=24,c=0,shares-b=3072,duration-ms=20000", [25.0, 75.0, 0.0, 0.0]),
        ("xeon-x5650-2s", "a=30,b=40,c=50,d=24,duration-ms=20000", [25.0, 25.0, 25.0, 25.0]),
    ] {
        let found = parts(&spin_groups(machine, "linux-2.6.24+groups=shares", spec, 1));
        assert!(worst(&found, &due) <= 2.0, "{machine} {spec}: {found:?}");
    }
}
