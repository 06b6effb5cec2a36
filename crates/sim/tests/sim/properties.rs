// SPDX-License-Identifier: GPL-2.0-or-later
//! Random machines x random workloads x policies with every value of every axis x both host profiles: the checker finds
//! nothing, two runs are equal, and no work is lost or made up.

use proptest::prelude::*;
use proptest::sample::Index;
use wakelab_machine::{Bandwidth, Distance, ExitSpread, IdleState, Machine};
use wakelab_policy::{Cover, PolicySpec};
use wakelab_sim::{Ending, HostProfile, Outcome, Scenario, run, run_explained};
use wakelab_workload::{Barrier, Channel, End, Group, Home, Lock, Op, Quota, Source, Task, Workload};

use crate::common::{HOSTS, MS, child, machine, task};

fn any_machine() -> impl Strategy<Value = Machine> {
    let shape = (1..=3u32, 1..=3u32, 1..=4u32, any::<bool>());
    let costs = (prop::collection::vec(0..3_000u64, 22), 0..3u64, 100_000..2_000_000u64, any::<bool>());
    let limit = || prop::option::of(20..20_000u64).prop_map(Option::unwrap_or_default);
    let limits = (limit(), limit(), limit(), limit(), limit());
    (shape, costs, limits).prop_map(
        |((llcs, cores, threads, clustered), (cost, step, tick_period_ns, slow), limits)| {
            let mut machine = machine(llcs, cores, threads);
            let by_distance =
                |base: u64| std::array::from_fn::<u64, { Distance::COUNT }, _>(|d| base * d as u64 * step);
            let costs = &mut machine.costs;
            costs.smt_speed = vec![1024, 611, 431, 300][..threads as usize].to_vec();
            costs.line_transfer_ps = by_distance(cost[0] * 3);
            costs.ipi_flight_ns = by_distance(cost[1] / 10);
            costs.core_cache_bytes = cost[2] * 64;
            costs.llc_hit_ps = cost[0];
            costs.lines_in_flight = 1 + cost[2] % 8;
            costs.wakeup_ns = cost[3];
            costs.select_ns = cost[4] / 10;
            costs.balance_ns = cost[5];
            costs.switch_thread_ns = cost[6];
            costs.switch_process_ns = cost[6] + cost[7];
            costs.ipi_send_ns = cost[8] / 10;
            costs.ipi_handle_ns = cost[9] / 10;
            let exit_percent = ExitSpread::of(cost[..4].to_vec()).unwrap_or_default();
            costs.idle_states = vec![
                IdleState { exit_latency_ns: cost[10], exit_percent, ..IdleState::default() },
                IdleState {
                    after_ns: 5_000,
                    exit_latency_ns: cost[10] + 20 * cost[11],
                    cold_percent: 30,
                    ..IdleState::default()
                },
            ];
            costs.tick_period_ns = tick_period_ns;
            costs.tick_ns = cost[12];
            costs.interrupt_ns = cost[13];
            costs.fork_ns = cost[14];
            costs.exit_ns = cost[15];
            costs.atomic_ps = cost[16];
            costs.futex_ns = cost[17];
            costs.exec_ns = cost[18];
            costs.push_ns = cost[19];
            costs.write_traffic_percent = 100 + cost[20] / 10;
            costs.remote_bandwidth_percent[Distance::Numa1.index()] = 1 + cost[21] % 100;
            let (core, cluster, llc, node, machine_limit) = limits;
            costs.bandwidth_mb_per_s = Bandwidth { core, cluster, llc, node, machine: machine_limit };
            for (number, cpu) in machine.topology.cpus.iter_mut().enumerate() {
                cpu.cluster = clustered.then_some(cpu.core / 2 + 2 * cpu.llc);
                cpu.capacity = if slow && number as u32 / threads % 2 == 1 { 700 } else { 1024 };
            }
            machine
        },
    )
}

/// Operations that involve no other task.
fn solo_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..40_000u64).prop_map(|work_ns| Op::Compute { work_ns, spread_percent: 0 }),
        2 => (0..8 * MS).prop_map(|work_ns| Op::Compute { work_ns, spread_percent: 0 }),
        2 => (0..3 * MS).prop_map(|delay_ns| Op::Sleep { delay_ns, source: Source::Timer }),
        1 => (0..8u32, any::<bool>()).prop_map(|(signal, sync)| Op::Signal { signal, sync }),
        1 => (0..2u32).prop_map(|gate| Op::OpenGate { gate }),
        1 => Just(Op::Yield),
        1 => (1..9u64).prop_map(|units| Op::Count { units }),
        1 => (0..9 * MS).prop_map(|time_ns| Op::SleepUntil { time_ns, source: Source::Unknown }),
        1 => Just(Op::Exec),
        1 => (0..GROUPS, 2..20_000u32).prop_map(|(group, shares)| Op::SetShares { group, shares }),
        1 => prop::option::of(0..GROUPS).prop_map(|group| Op::MoveTo { group }),
        2 => (0..40_000u64, 0..90_000u64, 0..40_000u64, any::<bool>(), 0..=100u32).prop_map(|(work_ns, read_bytes, write_bytes, here, llc_percent)| {
            let home = if here { Home::FirstTouch } else { Home::Node(0) };
            Op::Memory { work_ns, read_bytes, write_bytes, home, llc_percent }
        }),
    ]
}

/// Operations that wait for something that may never come: deadlocks are among the cases.
fn risky_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1..8u32, 0..2_000u64).prop_map(|(bytes, work_ns)| Op::Send { channel: 0, bytes, work_ns }),
        (0..2_000u64).prop_map(|work_ns| Op::Recv { channel: 0, work_ns }),
        (0..2u32).prop_map(|gate| Op::WaitGate { gate }),
        Just(Op::Join),
    ]
}

fn any_program() -> impl Strategy<Value = Vec<Op>> {
    let lock = prop::option::weighted(0.3, 0..LOCKS);
    let ops = (prop::collection::vec(solo_op(), 1..5), lock).prop_map(|(mut ops, lock)| {
        if let Some(lock) = lock {
            ops.insert(0, Op::Lock { lock });
            ops.push(Op::Unlock { lock });
        }
        ops
    });
    let block = (0..12u64, ops, any::<bool>());
    let risk = prop::option::weighted(0.05, risky_op());
    (prop::collection::vec(block, 0..5), risk).prop_map(|(blocks, risk)| {
        let mut program = Vec::new();
        for (times, ops, looped) in blocks {
            if looped {
                program.extend(rounds(times, ops));
            } else {
                program.extend(ops);
            }
        }
        program.extend(risk);
        program
    })
}

fn rounds(times: u64, ops: impl IntoIterator<Item = Op>) -> Vec<Op> {
    let mut all = vec![Op::LoopBegin { times: Some(times) }];
    all.extend(ops);
    all.push(Op::LoopEnd);
    all
}

fn any_task() -> impl Strategy<Value = (Task, Option<Index>, Vec<Index>)> {
    let mask = prop::collection::vec(any::<Index>(), 0..4);
    let birth = (prop::option::weighted(0.3, any::<Index>()), 0..2 * MS, any::<bool>());
    let group = prop::option::of(0..GROUPS);
    let traits = (0..3u32, prop::sample::select(vec![512, 1024, 3000]), prop::bool::weighted(0.3), group);
    (any_program(), birth, traits, mask).prop_map(|(program, (parent, start_ns, known), traits, mask)| {
        let (process, weight, limited, group) = traits;
        let mut task = Task { start_ns, process, weight, group, ..task(0, program) };
        task.last_cpu = known.then_some(0);
        (task, parent, if limited { mask } else { vec![] })
    })
}

/// Two tasks that pass messages: the sender and the receiver, the number of messages, the work on each side, and
/// whether each message is answered.
type Pair = (Index, Index, u64, u64, bool);

fn any_pair() -> impl Strategy<Value = Pair> {
    (any::<Index>(), any::<Index>(), 1..40u64, 0..20_000u64, any::<bool>())
}

/// Appends the pairs' rounds to their tasks' programs: every task meets its pairs in the same order, so none waits for
/// ever. Pair p has channels 1 + 2 p and 2 + 2 p.
fn add_pairs(tasks: &mut [Task], pairs: &[Pair]) {
    for (number, (a, b, times, work_ns, answered)) in pairs.iter().enumerate() {
        let (a, b) = (a.index(tasks.len()), b.index(tasks.len()));
        if a == b {
            continue;
        }
        let there = 1 + 2 * number as u32;
        let work = Op::Compute { work_ns: *work_ns, spread_percent: 0 };
        let send = |channel| Op::Send { channel, bytes: 5, work_ns: 300 };
        let recv = |channel| Op::Recv { channel, work_ns: 200 };
        let (mut ping, mut pong) = (vec![work, send(there)], vec![recv(there), work]);
        if *answered {
            ping.push(recv(there + 1));
            pong.push(send(there + 1));
        }
        tasks[a].program.extend(rounds(*times, ping));
        tasks[b].program.extend(rounds(*times, pong));
    }
}

/// Tasks that meet at a barrier: the tasks, the number of meetings, the work of each task before it (the n-th does n +
/// 1 times as much), and the time for which they spin.
type Meeting = (Vec<Index>, u64, u64, u64);

fn any_meeting() -> impl Strategy<Value = Meeting> {
    (prop::collection::vec(any::<Index>(), 1..6), 1..20u64, 0..9_000u64, any_spin())
}

/// A time to spin, in nanoseconds: none, a short one, or without end.
fn any_spin() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 3 => 1..20_000u64, 1 => Just(u64::MAX)]
}

/// Appends the meetings to all programs, in the same order. Returns the barriers.
fn add_meetings(tasks: &mut [Task], meetings: &[Meeting]) -> Vec<Barrier> {
    let mut barriers = Vec::new();
    for (members, times, work_ns, spin_ns) in meetings {
        let barrier = barriers.len() as u32;
        let mut members: Vec<usize> = members.iter().map(|index| index.index(tasks.len())).collect();
        members.sort_unstable();
        members.dedup();
        barriers.push(Barrier { parties: members.len() as u32, spin_ns: *spin_ns, recorded: false });
        for (number, task) in members.into_iter().enumerate() {
            let work = Op::Compute { work_ns: work_ns * (number as u64 + 1), spread_percent: 0 };
            tasks[task].program.extend(rounds(*times, [work, Op::Barrier { barrier }]));
        }
    }
    barriers
}

const LOCKS: u32 = 3;
const GROUPS: u32 = 4;

/// Groups whose parents come before them.
fn any_groups() -> impl Strategy<Value = Vec<Group>> {
    let quota = prop::option::of((1..5u64, 1..10u64)).prop_map(|ms| {
        ms.map(|(quota_ms, period_ms)| Quota { quota_ns: quota_ms * MS, period_ns: period_ms * MS })
    });
    let group = (prop::option::of(any::<Index>()), 2..20_000u32, quota);
    prop::collection::vec(group, GROUPS as usize).prop_map(|drawn| {
        let group = |(number, (parent, shares, quota)): (usize, (Option<Index>, u32, Option<Quota>))| {
            let parent = parent.filter(|_| number > 0).map(|parent| parent.index(number) as u32);
            Group { name: format!("g{number}"), parent, shares, quota }
        };
        drawn.into_iter().enumerate().map(group).collect()
    })
}

fn any_lock() -> impl Strategy<Value = Lock> {
    (any_spin(), any::<bool>(), any::<bool>(), 0..900_u64)
        .prop_map(|(spin_ns, handoff, recorded, retry_ns)| Lock { spin_ns, handoff, recorded, retry_ns })
}

fn any_scenario() -> impl Strategy<Value = Scenario> {
    let policy = prop::sample::select(PolicySpec::cover(Cover::Values));
    let host = prop::sample::select(HOSTS.to_vec());
    let end = prop_oneof![3 => Just(End::AllExited), 1 => (1..20 * MS).prop_map(|duration_ns| End::After { duration_ns })];
    let channel = (8..30u64, 0..2u64, 0..8u64, any::<bool>()).prop_map(
        |(capacity_bytes, overhead_bytes, wake_room_bytes, sync)| Channel {
            capacity_bytes: capacity_bytes + 2,
            overhead_bytes,
            wake_room_bytes,
            sync,
            loopback: false,
            ..Channel::default()
        },
    );
    let pairs = prop::collection::vec(any_pair(), 0..8);
    let locks = prop::collection::vec(any_lock(), LOCKS as usize);
    let shared = (pairs, prop::collection::vec(any_meeting(), 0..4), locks, any_groups());
    let work = (prop::collection::vec(any_task(), 1..20), shared, prop::collection::vec(channel, 17));
    (any_machine(), work, policy, host, end).prop_map(
        |(machine, (drawn, (pairs, meetings, locks, groups), channels), policy, host, end)| {
            let nr_cpus = machine.topology.nr_cpus();
            let mut tasks: Vec<Task> = Vec::new();
            for (index, (mut task, parent, mask)) in drawn.into_iter().enumerate() {
                if let Some(parent) = parent.filter(|_| index > 0) {
                    let parent = parent.index(index) as u32;
                    task = Task {
                        process: task.process,
                        weight: task.weight,
                        group: task.group,
                        ..child(parent, task.program)
                    };
                    tasks[parent as usize].program.insert(0, Op::Fork { task: index as u32 });
                }
                let mut allowed: Vec<u32> = mask.iter().map(|cpu| cpu.index(nr_cpus) as u32).collect();
                allowed.sort_unstable();
                allowed.dedup();
                task.allowed = (!allowed.is_empty()).then_some(allowed);
                tasks.push(task);
            }
            add_pairs(&mut tasks, &pairs);
            let barriers = add_meetings(&mut tasks, &meetings);
            let workload =
                Workload { channels, locks, barriers, groups, end, ..crate::common::workload(tasks) };
            let (machine, workload) = (machine.into(), workload.into());
            Scenario {
                machine,
                workload,
                policy,
                host,
                limit_ns: 2_000 * MS,
                limit_events: wakelab_sim::LIMIT_EVENTS,
            }
        },
    )
}

/// Work of a program that is executed to its end, and the number of its execs.
fn work_and_execs(program: &[Op]) -> (u64, u64) {
    let (mut work, mut execs, mut times) = (0, 0, 1);
    for op in program {
        match *op {
            Op::Compute { work_ns, .. }
            | Op::Send { work_ns, .. }
            | Op::Recv { work_ns, .. }
            | Op::Memory { work_ns, .. } => work += times * work_ns,
            Op::Exec => execs += times,
            Op::LoopBegin { times: Some(rounds) } => times = rounds,
            Op::LoopEnd => times = 1,
            _ => {}
        }
    }
    (work, execs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn runs_are_clean_repeatable_and_conserve_work(scenario in any_scenario(), seed: u64) {
        let outcome = run(&scenario, seed).map_err(|error| TestCaseError::fail(error.to_string()))?;
        // The second run attributes its waits to causes, which changes nothing else; the checker adds them up.
        let explained = run_explained(&scenario, seed, 3).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&outcome, &Outcome { waits: None, ..explained }, "two runs differ");
        let time = &outcome.time;
        prop_assert_eq!(time.total_ns(), outcome.elapsed_ns * scenario.machine.topology.nr_cpus() as u64);
        let cpu_time_ns: u64 = outcome.task_cpu_time_ns.iter().sum();
        prop_assert!(cpu_time_ns + time.idle_ns <= time.total_ns());
        let own_ns = time.work_ns + time.cache_refill_ns + time.fork_exit_ns;
        prop_assert!(own_ns + time.memory_ns + time.spin_ns + time.futex_ns + time.atomic_ns <= cpu_time_ns);
        let counts = &outcome.counts;
        prop_assert_eq!(counts.switches_in, outcome.wakeup_latency.count + outcome.queue_delay.count);
        prop_assert!(counts.switches_out <= counts.switches_in);
        prop_assert!(counts.switches_in - counts.switches_out <= scenario.machine.topology.nr_cpus() as u64);
        prop_assert!(counts.preemptions <= counts.switches_out);
        if scenario.host == HostProfile::SchedExt {
            prop_assert!(counts.selects <= counts.wakeups + counts.forks + scenario.workload.tasks.len() as u64);
        }
        if outcome.ending == Ending::Completed && scenario.workload.end == End::AllExited {
            let sums = scenario.workload.tasks.iter().map(|task| work_and_execs(&task.program));
            let (work, execs) = sums.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            let costs = &scenario.machine.costs;
            prop_assert_eq!(time.work_ns, work);
            let least = counts.forks * costs.fork_ns
                + scenario.workload.tasks.len() as u64 * costs.exit_ns
                + execs * costs.exec_ns;
            let pushes = if scenario.host == HostProfile::Mainline { execs } else { 0 };
            prop_assert!((least..=least + pushes * costs.push_ns).contains(&time.fork_exit_ns));
        }
    }
}
