// SPDX-License-Identifier: GPL-2.0-or-later
//! groups_shares.h: the monitor, and balancing by group weight.

use proptest::prelude::*;
use wakelab_policy::{BalanceWhy, Dispatch, DispatchDo, EnqueueWhy, Policy, Task};

use crate::host::{Host, MS, machine, policy_with_groups};

const POLICY: &str = "linux-4.15+balance=load+groups=shares";

fn host(nr_cpus: u32, nr_groups: u32) -> Host {
    let mut host = Host::new(policy_with_groups(POLICY, &machine(1, None, nr_cpus, 1), nr_groups as usize));
    for slot in 1..=nr_groups {
        host.policy.group_init(slot, 0, 1024);
    }
    host
}

fn queue(host: &mut Host, cpu: u32, groups: &[u32]) -> Vec<Task> {
    let tasks = groups.iter().map(|&slot| {
        let mut task = host.task(1024);
        host.policy.task_group(&mut task, slot, 0);
        host.policy.enqueue(&mut task, cpu, EnqueueWhy::Wakeup, host.now_ns);
        task
    });
    tasks.collect()
}

/// Lets the timer fire until a whole pass is over. Returns when the next one begins, and the number of firings.
fn pass(policy: &mut Policy, now_ns: &mut u64) -> (u64, u32) {
    *now_ns = (*now_ns).max(policy.timer(0, *now_ns).next_ns);
    let mut firings = 0;
    loop {
        let next_ns = policy.timer(0, *now_ns).next_ns;
        firings += 1;
        assert!(firings < 100_000, "a pass ends");
        if next_ns - *now_ns != 250_000 {
            return (next_ns - *now_ns, firings);
        }
        *now_ns = next_ns;
    }
}

fn weights(host: &Host, slot: u32, nr_cpus: u32) -> Vec<u32> {
    (0..nr_cpus).map(|cpu| host.policy.group_cpu(slot, cpu).counted).collect()
}

/// 4 CPUs: A has a task on CPU 0 and two on CPU 1, B has one on each of the others. With equal shares A's tasks weigh
/// 1024 * 4 / 3 = 1365 and B's weigh 2048. CPU 0 lacks 2047 - 1365 = 682, and a task of CPU 1, not heavier than CPU 0's
/// own, is 1365: half of that is just too much, and 272 is less than a fifth. With a third task of A on CPU 0, loads
/// would differ as much as before. With 256 shares B's tasks weigh 512, and CPU 2 takes one of A's.
#[test]
fn a_third_task_stays_where_it_is() {
    for (shares, cpu, max_load, moves) in [(1024, 0, 272, 0), (256, 2, 1365, 1)] {
        let mut host = host(4, 2);
        host.policy.group_shares(0, 2, shares);
        let mut tasks =
            [(0, 1), (1, 1), (1, 1), (2, 2), (3, 2)].map(|(cpu, slot)| queue(&mut host, cpu, &[slot]));
        pass(&mut host.policy, &mut 0);
        assert_eq!(weights(&host, 1, 4), [1365, 2730, 0, 0]);
        for ms in [100, 1000] {
            host.policy.tick(cpu, None, ms * MS);
        }
        let mut pull = host.policy.dispatch(cpu, 1000 * MS);
        assert_eq!((pull.what(), pull.cpu, pull.max_load), (DispatchDo::Pull, 1, max_load));
        let answer = host.policy.may_move(&mut tasks[1][0], cpu, 1000 * MS, &mut pull);
        assert_eq!(answer.r#move, moves, "B's shares {shares}");
    }
}

/// The header's example.
#[test]
fn two_cpus_three_groups() {
    let mut host = host(2, 3);
    let _a = queue(&mut host, 0, &[1; 10]);
    let mut tasks = queue(&mut host, 1, &[2, 2, 2, 2, 2]);
    let _c = queue(&mut host, 1, &[3; 5]);
    assert_eq!([0, 1].map(|cpu| host.policy.cpu(cpu).load), [1024, 2048], "W = S before the first pass");
    let mut now_ns = 0;
    let (interval_ns, firings) = pass(&mut host.policy, &mut now_ns);
    assert_eq!((interval_ns, firings, now_ns), (8 * MS, 1, 8 * MS), "weights changed: again after 8 ms");
    assert_eq!([1, 2, 3].map(|slot| weights(&host, slot, 2)), [[2048, 0], [0, 2048], [0, 2048]]);
    assert_eq!([0, 1].map(|cpu| host.policy.cpu(cpu).load), [2048, 4096]);
    // CPU 0's turn to balance.
    for ms in [100, 1000] {
        host.policy.tick(0, None, ms * MS);
    }
    let mut pull = host.policy.dispatch(0, 1000 * MS);
    assert_eq!((pull.what(), pull.why(), pull.cpu), (DispatchDo::Pull, BalanceWhy::Periodic, 1));
    assert_eq!(pull.max_load, 1024);
    let mut moved = 0;
    for task in &mut tasks {
        let answer = host.policy.may_move(task, 0, 1000 * MS, &mut pull);
        moved += answer.r#move;
        if answer.stop != 0 {
            break;
        }
    }
    // 409 + 409 + 410: the third is forced, and uses up what is left.
    assert_eq!((moved, pull.max_load), (3, 0));
    assert_eq!(weights(&host, 2, 2), [1228, 820]);
    assert_eq!([0, 1].map(|cpu| host.policy.cpu(cpu).load), [3276, 2868]);
}

#[test]
fn the_monitor_slows_down_while_nothing_changes_and_forgets_groups_without_load() {
    let mut host = host(4, 2);
    let mut tasks = queue(&mut host, 1, &[1, 2]);
    let mut now_ns = 0;
    let mut intervals = Vec::new();
    for _ in 0..7 {
        intervals.push(pass(&mut host.policy, &mut now_ns).0 / MS);
    }
    assert_eq!(intervals, [8, 16, 32, 64, 128, 128, 128]);
    assert_eq!(weights(&host, 1, 4), [0, 4096, 0, 0], "all of it on one of 4 CPUs");
    // A first task on a CPU where its group had none weighs 1 until the next pass.
    let _late = queue(&mut host, 3, &[1]);
    assert_eq!(weights(&host, 1, 4), [0, 4096, 0, 1]);
    assert_eq!(pass(&mut host.policy, &mut now_ns).0, 8 * MS);
    assert_eq!(weights(&host, 1, 4), [0, 2048, 0, 2048]);
    // A group without load is read once more, and then no longer: only the loaded one is, twice 4 CPUs.
    host.policy.quiescent(&mut tasks[1], now_ns);
    pass(&mut host.policy, &mut now_ns);
    now_ns = host.policy.timer(0, now_ns).next_ns;
    assert_eq!(host.policy.timer(0, now_ns).reads.total(), 8);
}

/// 300 CPUs are 600 pairs per group, so 20 groups take 12 firings, and the reads of a firing are bounded.
#[test]
fn a_firing_is_bounded() {
    let mut host = host(300, 20);
    let all: Vec<u32> = (1..=20).collect();
    let _tasks = queue(&mut host, 7, &all);
    let mut now_ns = host.policy.timer(0, 0).next_ns;
    let mut firings = 0;
    loop {
        let answer = host.policy.timer(0, now_ns);
        assert!(answer.reads.total() <= 1024, "{}", answer.reads.total());
        firings += 1;
        if answer.next_ns - now_ns != 250_000 {
            break;
        }
        now_ns = answer.next_ns;
    }
    assert_eq!(firings, 12);
    assert_eq!(host.policy.group_cpu(20, 7).counted, 300 * 1024);
}

#[test]
fn shares_that_change_count_on_every_cpu_until_the_next_pass() {
    let mut host = host(2, 1);
    let _tasks = [queue(&mut host, 0, &[1, 1, 1]), queue(&mut host, 1, &[1])];
    let mut now_ns = 0;
    pass(&mut host.policy, &mut now_ns);
    assert_eq!(weights(&host, 1, 2), [1536, 512]);
    host.policy.group_shares(0, 1, 4096);
    assert_eq!(weights(&host, 1, 2), [4096, 4096]);
    assert_eq!([0, 1].map(|cpu| host.policy.cpu(cpu).load), [4096, 4096]);
    pass(&mut host.policy, &mut now_ns);
    assert_eq!(weights(&host, 1, 2), [6144, 2048]);
}

/// If less than 20 % of the mean task may move, nothing of the group does. W = 2048 for two tasks: 1024 each.
#[test]
fn a_fifth_of_a_task_is_the_least() {
    let moves = |max_load: u64| {
        let mut host = host(2, 1);
        let mut tasks = queue(&mut host, 0, &[1, 1]);
        pass(&mut host.policy, &mut 0);
        let mut pull = Dispatch {
            what: DispatchDo::Pull as u32,
            cpu: 0,
            level: 1,
            max_load,
            max_tasks: 1,
            ..Dispatch::default()
        };
        host.policy.may_move(&mut tasks[0], 1, 1000 * MS, &mut pull).r#move
    };
    assert_eq!([204, 205].map(moves), [0, 1]);
}

proptest! {
    /// Whatever was moved, and whenever passes came, after a pass W is S * N * T / T(K), at least 1, children before
    /// their parents, and CPUs weigh the sums.
    #[test]
    fn after_a_pass_weights_are_the_formulas(
        tasks in prop::collection::vec((0..6_u32, 0..5_u32, 1..4000_u32), 1..25),
        shares in prop::collection::vec(2..5000_u32, 5),
        moves in prop::collection::vec((0..25_usize, 0..5_u32), 0..20),
    ) {
        const NR_CPUS: u32 = 5;
        const PARENTS: [u32; 5] = [0, 1, 2, 0, 4];
        let mut policy = policy_with_groups(POLICY, &machine(1, None, NR_CPUS, 1), 5);
        for (index, (&parent, &shares)) in PARENTS.iter().zip(&shares).enumerate() {
            policy.group_init(index as u32 + 1, parent, shares);
        }
        let mut records: Vec<Task> = Vec::new();
        for (id, &(slot, cpu, weight)) in tasks.iter().enumerate() {
            let mut task = Task::default();
            policy.task_init(&mut task, id as u64 + 1, weight, 0);
            policy.task_group(&mut task, slot, 0);
            policy.enqueue(&mut task, cpu, EnqueueWhy::Wakeup, 0);
            records.push(task);
        }
        let mut now_ns = 0;
        pass(&mut policy, &mut now_ns);
        for &(index, cpu) in &moves {
            let index = index % records.len();
            if records[index].cpu == cpu as i32 {
                continue;
            }
            let mut pull = Dispatch {
                what: DispatchDo::Pull as u32,
                cpu: records[index].cpu,
                level: 1,
                max_load: 1 << 30,
                max_tasks: 1,
                ..Dispatch::default()
            };
            policy.may_move(&mut records[index], cpu, now_ns + 1000 * MS, &mut pull);
        }
        pass(&mut policy, &mut now_ns);
        let mut expected = vec![vec![0_u64; NR_CPUS as usize]; 6];
        for task in &records {
            expected[task.group as usize][task.cpu as usize] += u64::from(task.weight);
        }
        for slot in (1..=5_usize).rev() {
            let sum: u64 = expected[slot].iter().sum();
            for (cpu, load) in expected[slot].clone().into_iter().enumerate() {
                let found = policy.group_cpu(slot as u32, cpu as u32);
                prop_assert_eq!(found.load, load, "T of {} on {}", slot, cpu);
                let weight = match load {
                    0 => 0,
                    load => (u64::from(shares[slot - 1]) * u64::from(NR_CPUS) * load / sum).max(1),
                };
                prop_assert_eq!(u64::from(found.counted), weight, "W of {} on {}", slot, cpu);
                expected[PARENTS[slot - 1] as usize][cpu] += weight;
            }
        }
        for cpu in 0..NR_CPUS {
            let state = policy.cpu(cpu);
            prop_assert_eq!((state.load, state.total), (expected[0][cpu as usize], expected[0][cpu as usize]));
        }
    }
}
