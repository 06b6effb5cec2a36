// SPDX-License-Identifier: GPL-2.0-or-later
//! Task groups: how one CPU is divided, and what moves and changed shares do to it. Everything is free.

use wakelab_sim::{HostProfile, Outcome, Scenario};
use wakelab_workload::{End, Group, Op, Task};

use crate::common::{MS, bound, compute, machine, outcome, scenario, sleep};

const HOSTS: [HostProfile; 2] = [HostProfile::SchedExt, HostProfile::Mainline];

fn group(parent: Option<u32>, shares: u32) -> Group {
    Group { name: "g".into(), parent, shares, quota: None }
}

fn spinner(group: Option<u32>) -> Task {
    let program = vec![Op::LoopBegin { times: None }, compute(1000 * MS), Op::LoopEnd];
    Task { group, ..bound(&[0], program) }
}

/// Runs on one CPU for `ms`. Returns the part of it that each group and the groups in it received, in thousandths.
fn parts(groups: &[Group], tasks: &[Task], policy: &str, host: HostProfile, ms: u64) -> (Vec<u64>, Outcome) {
    let mut scenario: Scenario = scenario(machine(1, 1, 1), tasks.to_vec(), host);
    scenario.workload_mut().groups = groups.to_vec();
    scenario.workload_mut().end = End::After { duration_ns: ms * MS };
    scenario.policy = policy.parse().unwrap();
    let run = outcome(&scenario);
    let parts = run.groups.iter().map(|group| group.cpu_time_ns * 1000 / (ms * MS));
    (parts.collect(), run)
}

/// A third each for a group of three tasks, a group of one task, and a task in none; on every host and in both queues.
#[test]
fn groups_divide_a_cpu_by_shares_and_not_by_tasks() {
    let groups = [group(None, 1024), group(None, 1024)];
    let tasks = [Some(0), Some(0), Some(0), Some(1), None].map(spinner);
    for host in HOSTS {
        for policy in ["linux-4.15", "linux-6.12"] {
            let (parts, run) = parts(&groups, &tasks, policy, host, 6000);
            for part in parts {
                assert!((330..=336).contains(&part), "{policy} {host:?}: {part}");
            }
            let alone = run.task_cpu_time_ns[4] / (6 * MS);
            assert!((330..=336).contains(&alone), "{policy} {host:?}: {alone}");
        }
    }
}

/// Half for a; of the other half of the tree a quarter for b's own task, the rest for c and d in it as 1 to 2.
#[test]
fn nested_groups_divide_what_their_parent_receives() {
    let groups = [group(None, 2048), group(None, 2048), group(Some(1), 1024), group(Some(1), 2048)];
    let tasks = [Some(0), Some(0), Some(1), Some(2), Some(3), Some(3)].map(spinner);
    for policy in ["linux-4.15", "linux-6.12"] {
        let (parts, run) = parts(&groups, &tasks, policy, HostProfile::Mainline, 8000);
        for (part, expected) in parts.iter().zip([500, 500, 125, 250]) {
            assert!(part.abs_diff(expected) <= 4, "{policy}: {parts:?}");
        }
        assert_eq!(run.groups[1].own_cpu_time_ns, run.task_cpu_time_ns[2]);
        let below: u64 = [1, 2, 3].iter().map(|&group: &usize| run.groups[group].own_cpu_time_ns).sum();
        assert_eq!(run.groups[1].cpu_time_ns, below);
    }
}

/// a is due 3/4 of the CPU for the first second, 1/4 of it for the second: half of the whole.
#[test]
fn shares_changed_while_running_count_from_then_on() {
    let groups = [group(None, 3072), group(None, 1024)];
    let mut tasks = [Some(0), Some(1)].map(spinner).to_vec();
    tasks.push(bound(&[0], vec![sleep(1000 * MS), Op::SetShares { group: 0, shares: 341 }]));
    for policy in ["linux-4.15", "linux-6.12"] {
        let (parts, _) = parts(&groups, &tasks, policy, HostProfile::Mainline, 2000);
        assert!(parts[0].abs_diff(500) <= 8, "{policy}: {parts:?}");
    }
}

/// What a task receives counts in the group that it is in then. Alone, 30 ms in a, 50 ms in b, 20 ms in none.
#[test]
fn cpu_time_counts_in_the_group_of_the_moment() {
    let groups = [group(None, 1024), group(Some(0), 1024)];
    let program = vec![
        compute(30 * MS),
        Op::MoveTo { group: Some(1) },
        compute(50 * MS),
        Op::MoveTo { group: None },
        compute(20 * MS),
    ];
    let mover = Task { group: Some(0), ..bound(&[0], program) };
    for host in HOSTS {
        let (parts, run) = parts(&groups, std::slice::from_ref(&mover), "linux-4.15", host, 1000);
        assert_eq!(parts, [80, 50], "{host:?}");
        assert_eq!(run.groups[0].own_cpu_time_ns, 30 * MS, "{host:?}");
    }
}

/// A group whose only task sleeps loses nothing to it: while it sleeps the others divide the CPU.
#[test]
fn a_group_that_sleeps_weighs_nothing() {
    let groups = [group(None, 1024), group(None, 1024), group(None, 1024)];
    let mut tasks = [Some(0), Some(0), Some(1)].map(spinner).to_vec();
    tasks.push(Task { group: Some(2), ..bound(&[0], vec![sleep(3000 * MS), compute(10 * MS)]) });
    let (parts, _) = parts(&groups, &tasks, "linux-4.15", HostProfile::Mainline, 2000);
    assert!(parts[0].abs_diff(500) <= 4 && parts[1].abs_diff(500) <= 4 && parts[2] == 0, "{parts:?}");
}
