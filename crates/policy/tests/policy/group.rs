// SPDX-License-Identifier: GPL-2.0-or-later
//! group.h: what groups weigh, and what tasks are charged by.

use proptest::prelude::*;
use wakelab_policy::{EnqueueWhy, Entity, GROUP_DEPTH, HWEIGHT_ONE, Policy, RunQueue, Task};

use crate::host::{Host, MS, START, machine, policy, policy_with_groups};

/// A task that waits on `cpu`, in the group in `slot`.
fn queued(host: &mut Host, weight: u32, slot: u32, cpu: u32) -> Task {
    let mut task = host.task(weight);
    host.policy.task_group(&mut task, slot, host.now_ns);
    host.policy.enqueue(&mut task, cpu, EnqueueWhy::Wakeup, host.now_ns);
    task
}

/// The weight by which the task is charged now, as at its next tick or pick, in whole weights.
fn weight_of(host: &mut Host, task: &mut Task) -> u32 {
    let cpu = task.cpu as u32;
    host.policy.enqueue(task, cpu, EnqueueWhy::SliceEnd, host.now_ns);
    task.entity.hweight / HWEIGHT_ONE
}

/// The header's example: groups A (slot 1) and B (2), C (3) in B, and a task outside.
#[test]
fn a_cpu_is_divided_by_groups_and_inside_them_by_weight() {
    for text in ["linux-4.15+groups=task-weight", "linux-6.12+groups=task-weight"] {
        let mut host = Host::new(policy_with_groups(text, &machine(1, None, 2, 1), 3));
        for (slot, parent) in [(1, 0), (2, 0), (3, 2)] {
            host.policy.group_init(slot, parent, 1024);
        }
        let mut light = queued(&mut host, 1024, 1, 0);
        let mut heavy = queued(&mut host, 3072, 1, 0);
        let mut nested = queued(&mut host, 1024, 3, 0);
        let mut outside = queued(&mut host, 1024, 0, 0);
        assert_eq!([1, 2, 3].map(|slot| host.policy.group_cpu(slot, 0).load), [4096, 1024, 1024], "{text}");
        assert_eq!([1, 2, 3].map(|slot| host.policy.group_cpu(slot, 0).nr), [2, 1, 1], "{text}");
        let cpu = host.policy.cpu(0);
        assert_eq!((cpu.total, cpu.load), (3 * 1024, 6 * 1024), "{text}: task-weight balances by tasks");
        let weights =
            [&mut light, &mut heavy, &mut nested, &mut outside].map(|task| weight_of(&mut host, task));
        assert_eq!(weights, [256, 768, 1024, 1024], "{text}");
        // The last task of C leaves: neither C nor B weighs anything any more, and A has half of the CPU.
        host.policy.quiescent(&mut nested, 0);
        assert_eq!([1, 2, 3].map(|slot| host.policy.group_cpu(slot, 0).counted), [1024, 0, 0], "{text}");
        assert_eq!(host.policy.cpu(0).total, 2048, "{text}");
    }
}

/// A third of the CPU each for a group of two tasks, for a group of one task, and for a task in no group.
#[test]
fn vtime_goes_by_the_part_of_the_cpu() {
    let mut host = Host::new(policy_with_groups("linux-4.15", &machine(2, None, 4, 1), 2));
    host.policy.group_init(1, 0, 1024);
    host.policy.group_init(2, 0, 1024);
    let mut half = queued(&mut host, 1024, 1, 0);
    let _other = queued(&mut host, 1024, 1, 0);
    let _alone = queued(&mut host, 1024, 2, 0);
    let _outside = queued(&mut host, 1024, 0, 0);
    host.switch_in(&mut half, 0);
    host.now_ns = 3 * MS;
    // 24 ms * 512 / 3072: its slice is 4 ms, and 3 ms of it are 6 ms of vtime.
    assert_eq!(host.policy.tick(0, Some(&mut half), host.now_ns).resched, 0);
    assert_eq!((half.slice_ns, half.entity.vtime), (4 * MS, START + 6 * MS));
    host.now_ns = 4 * MS;
    assert_eq!(host.policy.tick(0, Some(&mut half), host.now_ns).resched, 1);
}

/// With queue=fair a task whose part changes keeps its lag and what is left of its slice, in run time.
#[test]
fn a_part_that_changes_keeps_lag_and_slice() {
    // With groups=load, a part does not change at once.
    let mut host = Host::new(policy_with_groups("linux-6.12+groups=task-weight", &machine(2, None, 4, 1), 1));
    host.policy.group_init(1, 0, 1024);
    let mut a = queued(&mut host, 1024, 1, 0);
    let _outside = queued(&mut host, 1024, 0, 0);
    host.switch_in(&mut a, 0);
    let base = a.entity.vtime;
    host.now_ns = MS;
    host.policy.tick(0, Some(&mut a), host.now_ns);
    assert_eq!((a.entity.vtime - base, a.entity.deadline - a.entity.vtime), (MS, 2 * MS));
    // Both were at the same vtime. V has advanced by half of what it ran, so it is 0.5 ms beyond V. Its group gains a
    // task of the same weight, which halves its own: 1 ms of vtime beyond the new V, and 4 ms to the deadline.
    let _second = queued(&mut host, 1024, 1, 0);
    host.policy.tick(0, Some(&mut a), host.now_ns);
    assert_eq!(a.entity.hweight, 512 * HWEIGHT_ONE);
    assert_eq!(a.entity.deadline - a.entity.vtime, 4 * MS);
    assert_eq!(host.policy.cpu(0).queue.charged, (512 + 1024 + 512) * u64::from(HWEIGHT_ONE));
}

#[test]
fn shares_and_groups_change_while_tasks_run() {
    let mut host = Host::new(policy_with_groups("linux-4.15", &machine(1, None, 2, 1), 2));
    host.policy.group_init(1, 0, 1024);
    host.policy.group_init(2, 1, 512);
    let mut task = queued(&mut host, 1024, 2, 0);
    host.switch_in(&mut task, 0);
    host.policy.group_shares(1, 1, 3072);
    assert_eq!((host.policy.group_cpu(1, 0).counted, host.policy.cpu(0).total), (3072, 3072));
    // What ran before is charged by the old weight, what comes by the new one.
    host.now_ns = 6 * MS;
    host.policy.tick(0, Some(&mut task), host.now_ns);
    assert_eq!((task.entity.vtime - START, task.entity.hweight), (6 * MS, 3072 * HWEIGHT_ONE));
    host.now_ns = 12 * MS;
    host.policy.task_group(&mut task, 1, host.now_ns);
    assert_eq!((task.entity.vtime - START, task.group), (8 * MS, 1));
    assert_eq!([1, 2].map(|slot| host.policy.group_cpu(slot, 0).load), [1024, 0]);
    host.policy.task_group(&mut task, 0, host.now_ns);
    assert_eq!(
        (host.policy.cpu(0).total, host.policy.cpu(0).load, task.entity.hweight),
        (1024, 1024, 1024 * 1024)
    );
    assert_eq!(host.policy.cpu(0).queue.curr_weight, 1024 * HWEIGHT_ONE);
}

#[test]
fn what_is_too_deep_counts_in_its_ancestor() {
    let mut host = Host::new(policy_with_groups("linux-4.15", &machine(1, None, 2, 1), 10));
    for slot in 1..=10 {
        host.policy.group_init(slot, slot - 1, 1024);
    }
    let task = queued(&mut host, 1024, 10, 1);
    assert_eq!(task.group, GROUP_DEPTH);
    assert_eq!((1..=10).map(|slot| host.policy.group_cpu(slot, 1).nr).sum::<u32>(), GROUP_DEPTH);
    assert_eq!(host.policy.cpu(1).total, 1024);
}

#[test]
fn too_many_slots_are_refused() {
    let (spec, topology) = ("linux-4.15".parse().unwrap(), machine(1, None, 2, 1));
    let tables = wakelab_policy::Tables::build(&topology, &spec).unwrap();
    let error = Policy::with_groups(&spec, tables, MS, 4097).unwrap_err();
    assert_eq!(
        error.to_string(),
        "4097 slots of task groups, the root's included; at most 4096 are possible"
    );
}

const NR_CPUS: u32 = 3;
const NR_GROUPS: u32 = 5;
/// The parent of each group: two trees, one of them three deep.
const PARENTS: [u32; 5] = [0, 1, 2, 0, 4];

#[derive(Clone, Debug)]
enum Step {
    Enqueue(usize, u32, u32),
    Run(usize),
    Tick(u32),
    Sleep(usize),
    Weight(usize, u32),
    Regroup(usize, u32),
    Shares(u32, u32),
    Move(usize, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..8_usize, 0..NR_CPUS, 0..2_u32).prop_map(|(t, cpu, why)| Step::Enqueue(t, cpu, why)),
        (0..8_usize).prop_map(Step::Run),
        (0..NR_CPUS).prop_map(Step::Tick),
        (0..8_usize).prop_map(Step::Sleep),
        (0..8_usize, 1..90_000_u32).prop_map(|(t, weight)| Step::Weight(t, weight)),
        (0..8_usize, 0..=NR_GROUPS).prop_map(|(t, group)| Step::Regroup(t, group)),
        (1..=NR_GROUPS, 2..262_144_u32).prop_map(|(group, shares)| Step::Shares(group, shares)),
        (0..8_usize, 0..NR_CPUS).prop_map(|(t, cpu)| Step::Move(t, cpu)),
    ]
}

fn tell(policy: &mut Policy, tasks: &mut [Task], step: &Step, now_ns: u64) {
    match *step {
        Step::Enqueue(t, cpu, why) => {
            let why = [EnqueueWhy::Wakeup, EnqueueWhy::Moved][why as usize];
            policy.enqueue(&mut tasks[t], cpu, why, now_ns);
        }
        Step::Run(t) => {
            let cpu = tasks[t].cpu;
            if tasks[t].place == 1 && !tasks.iter().any(|other| other.place == 2 && other.cpu == cpu) {
                policy.running(&mut tasks[t], cpu as u32, now_ns);
            }
        }
        Step::Tick(cpu) => {
            let running = tasks.iter_mut().find(|task| task.place == 2 && task.cpu == cpu as i32);
            policy.tick(cpu, running, now_ns);
        }
        Step::Sleep(t) => policy.quiescent(&mut tasks[t], now_ns),
        Step::Weight(t, weight) => policy.task_weight(&mut tasks[t], weight, now_ns),
        Step::Regroup(t, group) => policy.task_group(&mut tasks[t], group, now_ns),
        Step::Shares(group, shares) => policy.group_shares(0, group, shares),
        Step::Move(t, cpu) => {
            if tasks[t].place == 1 && tasks[t].cpu != cpu as i32 {
                let mut pull = policy.dispatch(cpu, now_ns);
                (pull.what, pull.cpu, pull.level) = (1, tasks[t].cpu, 1);
                (pull.max_load, pull.max_tasks) = (1 << 40, 1);
                policy.may_move(&mut tasks[t], cpu, now_ns, &mut pull);
            }
        }
    }
}

/// groups=queues: the sums of each queue of a CPU are those of what is counted there.
fn check_queues(policy: &Policy, tasks: &[Task], cpu: u32) -> Result<(), TestCaseError> {
    let sums = |entities: &[Entity]| {
        let product = |e: &Entity| e.vtime.wrapping_mul(u64::from(e.hweight));
        (
            entities.len() as u32,
            entities.iter().map(|e| u64::from(e.hweight)).sum::<u64>(),
            entities.iter().map(product).fold(0, u64::wrapping_add),
        )
    };
    let found = |queue: &RunQueue| (queue.nr, queue.charged, queue.vtime_sum);
    let mut root = Vec::new();
    for slot in 0..=NR_GROUPS {
        let here = |task: &&Task| task.place != 0 && task.cpu == cpu as i32 && task.group == slot;
        let own: Vec<Entity> = tasks.iter().filter(here).map(|task| task.entity).collect();
        if slot == 0 {
            root = own;
            continue;
        }
        let group = policy.group_cpu(slot, cpu);
        prop_assert_eq!(found(&group.queue), sums(&own), "group {} on {}", slot, cpu);
        prop_assert_eq!(group.stands, u32::from(!own.is_empty()), "group {} on {}", slot, cpu);
        if group.stands != 0 {
            root.push(group.entity);
        }
    }
    prop_assert_eq!(found(&policy.cpu(cpu).queue), sums(&root), "CPU {}", cpu);
    Ok(())
}

proptest! {
    /// Whatever happens, the load of each group and of each CPU is the sum over its tasks and children.
    #[test]
    fn loads_of_groups_are_those_of_their_tasks(
        which in 0..5_usize,
        steps in prop::collection::vec((step(), 0..5_000_000_u64), 1..120),
    ) {
        let (queue, is_load) = (which / 2, which % 2 == 1 || which == 4);
        let text = [
            "linux-4.15+groups=task-weight",
            "linux-4.15+groups=load",
            "linux-6.12+groups=task-weight",
            "linux-6.12+groups=load",
            "linux-6.17",
        ][which];
        let mut policy = policy_with_groups(text, &machine(1, None, NR_CPUS, 1), NR_GROUPS as usize);
        for (group, &parent) in PARENTS.iter().enumerate() {
            policy.group_init(group as u32 + 1, parent, 1024);
        }
        let mut tasks: Vec<Task> = vec![Task::default(); 8];
        for (id, task) in tasks.iter_mut().enumerate() {
            policy.task_init(task, id as u64 + 1, 1024, 0);
        }
        let mut now_ns = 0;
        for (step, pause_ns) in &steps {
            now_ns += pause_ns;
            tell(&mut policy, &mut tasks, step, now_ns);
            for slot in 1..=NR_GROUPS {
                let sum: u64 = (0..NR_CPUS).map(|cpu| policy.group_cpu(slot, cpu).load).sum();
                prop_assert_eq!(policy.group(slot).load, if is_load { sum } else { 0 }, "{:?}", step);
            }
            for cpu in 0..NR_CPUS {
                let here = || tasks.iter().filter(|task| task.place != 0 && task.cpu == cpu as i32);
                // Children come after their parents.
                let mut expected = vec![(0_u64, 0_u32); NR_GROUPS as usize + 1];
                for task in here() {
                    expected[task.group as usize].0 += u64::from(task.weight);
                    expected[task.group as usize].1 += 1;
                }
                for slot in (1..=NR_GROUPS as usize).rev() {
                    let shares = policy.group(slot as u32).shares;
                    let (load, nr) = expected[slot];
                    let found = policy.group_cpu(slot as u32, cpu);
                    prop_assert_eq!((found.load, found.nr), (load, nr), "group {} on {}, {:?}", slot, cpu, step);
                    // With groups=load it is a part of the shares, of the last time at which something happened here.
                    let counted = match (load, is_load) {
                        (0, _) => 0,
                        (_, true) => found.counted.clamp(2, shares.max(2)),
                        _ => shares,
                    };
                    prop_assert_eq!(found.counted, counted, "group {} on {}, {:?}", slot, cpu, step);
                    let parent = &mut expected[PARENTS[slot - 1] as usize];
                    parent.0 += u64::from(counted);
                    parent.1 += u32::from(load > 0);
                }
                let state = policy.cpu(cpu);
                prop_assert_eq!(state.total, expected[0].0, "CPU {}, {:?}", cpu, step);
                let weights = here().map(|task| u64::from(task.weight)).sum::<u64>();
                prop_assert_eq!(state.load, if is_load { expected[0].0 } else { weights });
                if which == 4 {
                    check_queues(&policy, &tasks, cpu)?;
                }
                if queue == 1 {
                    let charged: u64 = here().map(|task| u64::from(task.entity.hweight)).sum();
                    prop_assert_eq!(state.queue.charged, charged, "CPU {}, {:?}", cpu, step);
                    let sum = here().fold(0_u64, |sum, task| {
                        sum.wrapping_add(task.entity.vtime.wrapping_mul(u64::from(task.entity.hweight)))
                    });
                    prop_assert_eq!(state.queue.vtime_sum, sum, "CPU {}, {:?}", cpu, step);
                }
            }
        }
    }

    /// Groups without tasks change nothing.
    #[test]
    fn unused_groups_change_no_answer(
        queue in 0..2_usize,
        steps in prop::collection::vec((step(), 0..5_000_000_u64), 1..60),
    ) {
        let text = ["linux-4.15", "linux-6.12"][queue];
        let topology = machine(1, None, NR_CPUS, 1);
        let (mut with, mut without) = (policy_with_groups(text, &topology, 5), policy(text, &topology));
        with.group_init(1, 0, 1024);
        let mut tasks = [vec![Task::default(); 8], vec![Task::default(); 8]];
        for (id, task) in tasks[0].iter_mut().enumerate() {
            with.task_init(task, id as u64 + 1, 1024, 0);
        }
        for (id, task) in tasks[1].iter_mut().enumerate() {
            without.task_init(task, id as u64 + 1, 1024, 0);
        }
        let mut now_ns = 0;
        for (step, pause_ns) in &steps {
            if matches!(step, Step::Regroup(..) | Step::Shares(..)) {
                continue;
            }
            now_ns += pause_ns;
            tell(&mut with, &mut tasks[0], step, now_ns);
            tell(&mut without, &mut tasks[1], step, now_ns);
            prop_assert_eq!(format!("{:?}", tasks[0]), format!("{:?}", tasks[1]), "{:?}", step);
        }
    }
}
