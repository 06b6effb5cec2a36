// SPDX-License-Identifier: GPL-2.0-or-later
//! Streams through memory, by hand: how long they take, alone and together.

use wakelab_machine::{Bandwidth, Distance, Machine};
use wakelab_sim::{HostProfile, Outcome, SimError, run};
use wakelab_workload::{Home, Op, Source, Task};

use crate::common::{HOSTS, bound, compute, machine, outcome, scenario};

/// `cores` cores of one node under these limits.
fn limited(cores: u32, limits: Bandwidth) -> Machine {
    let mut machine = machine(1, cores, 1);
    machine.costs.bandwidth_mb_per_s = limits;
    machine
}

fn node_of_400() -> Bandwidth {
    Bandwidth { node: 400, ..Bandwidth::default() }
}

fn read(work_ns: u64, read_bytes: u64) -> Op {
    Op::Memory { work_ns, read_bytes, write_bytes: 0, home: Home::FirstTouch, llc_percent: 0 }
}

/// One task per CPU, with these programs.
fn together(machine: Machine, programs: Vec<Vec<Op>>, host: HostProfile) -> Outcome {
    let tasks = (0..).zip(programs).map(|(cpu, program)| bound(&[cpu], program)).collect();
    outcome(&scenario(machine, tasks, host))
}

/// Without limits only the work counts; with a limit of 100 MB/s, 15,000 bytes take 150 us. Bytes written count for 150
/// %.
#[test]
fn alone_it_takes_the_longer_of_both() {
    for host in HOSTS {
        let run = together(limited(1, Bandwidth::default()), vec![vec![read(1_000, 1 << 40)]], host);
        assert_eq!((run.elapsed_ns, run.time.memory_ns), (1_000, 0), "{host:?}");
        let write = Op::Memory {
            work_ns: 20_000,
            read_bytes: 0,
            write_bytes: 10_000,
            home: Home::Node(0),
            llc_percent: 0,
        };
        for (op, elapsed_ns, work_ns) in [
            (read(0, 15_000), 150_000, 0),
            (read(20_000, 15_000), 150_000, 20_000),
            (read(150_000, 15_000), 150_000, 150_000),
            (read(200_000, 15_000), 200_000, 200_000),
            (read(1_000, 0), 1_000, 1_000),
            (write, 150_000, 20_000),
        ] {
            let mut machine = limited(1, Bandwidth { core: 100, ..Bandwidth::default() });
            machine.costs.write_traffic_percent = 150;
            let run = together(machine, vec![vec![op]], host);
            assert_eq!((run.elapsed_ns, run.time.work_ns), (elapsed_ns, work_ns), "{host:?} {op:?}");
            assert_eq!((run.time.memory_ns, run.time.slowdown_ns), (elapsed_ns - work_ns, 0));
        }
    }
}

/// Two demand 150 of a node's 400: E = 300 x 400 / 500 = 240, 120 each: 15,000 bytes take 125 us.
#[test]
fn two_share_a_node() {
    for host in HOSTS {
        let run = together(limited(2, node_of_400()), vec![vec![read(100_000, 15_000)]; 2], host);
        assert_eq!((run.elapsed_ns, run.time.memory_ns), (125_000, 2 * 25_000), "{host:?}");
        assert_eq!(run.time.work_ns, 200_000);
    }
}

/// 50, 100 and 150 MB/s for 100 us. Max-min of E = 240: 50, 95 and 95. At 100 us the first is done, the others have 500
/// and 5,500 bytes left. Of the 212 granted now the second gets its 100, until 105 us; the third 112, until then 560
/// bytes. Alone it gets 150 x 400 / sqrt(150^2 + 400^2) = 140.45 (8,989 / 64): 4,940 bytes take 35,172 ns.
#[test]
fn three_with_unlike_demands() {
    for host in HOSTS {
        let programs = [5_000, 10_000, 15_000].map(|bytes| vec![read(100_000, bytes)]);
        let run = together(limited(3, node_of_400()), programs.to_vec(), host);
        assert_eq!(run.task_cpu_time_ns, [100_000, 105_000, 140_172], "{host:?}");
        assert_eq!((run.time.work_ns, run.time.memory_ns), (300_000, 5_000 + 40_172), "{host:?}");
    }
}

/// The rows of memory.rs, 1 GB per thread: the formula within 1 MB/s.
#[test]
fn the_kunpengs_node() {
    let (core, node) = (12_400, 63_300);
    for (threads, expected_mb_per_s) in [(4, 39_042.0), (6, 48_212.0), (12, 58_248.0), (24, 61_915.0)] {
        let machine = limited(24, Bandwidth { core, node, ..Bandwidth::default() });
        let run = together(machine, vec![vec![read(1, 1_000_000_000)]; threads], HOSTS[0]);
        let mb_per_s = threads as f64 * 1e12 / run.elapsed_ns as f64;
        let (demand, node) = (threads as f64 * core as f64, node as f64);
        let formula = demand * node / demand.hypot(node);
        assert!((mb_per_s - formula).abs() < 1.0, "{threads}: {mb_per_s}, not {formula}");
        assert!((mb_per_s - expected_mb_per_s).abs() < 1.0, "{threads}: {mb_per_s}");
    }
}

/// Two threads of a core of 100 MB/s that both demand it get 50 each; if two threads are half as fast they demand no
/// more.
#[test]
fn threads_share_their_core() {
    for host in HOSTS {
        for (speed, memory_ns) in [(1024, 2 * 100_000), (512, 0)] {
            let mut machine = machine(1, 1, 2);
            machine.costs.bandwidth_mb_per_s.core = 100;
            machine.costs.smt_speed = vec![1024, speed];
            let run = together(machine, vec![vec![read(100_000, 10_000)]; 2], host);
            assert_eq!((run.elapsed_ns, run.time.memory_ns), (200_000, memory_ns), "{host:?} {speed}");
        }
    }
}

/// A sibling that computes for 50 us halves the speed, and so the demand: 100 of 100 MB/s before, 50 then, 100 after
/// it.
#[test]
fn a_siblings_arrival_changes_the_demand() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 2);
        machine.costs.bandwidth_mb_per_s.core = 100;
        machine.costs.smt_speed = vec![1024, 512];
        let stream = bound(&[0], vec![read(100_000, 10_000)]);
        let sibling = Task { start_ns: 20_000, ..bound(&[1], vec![compute(25_000)]) };
        let run = outcome(&scenario(machine, vec![stream, sibling], host));
        // 20 us of work alone, 25 us in the next 50, 55 us alone.
        assert_eq!((run.elapsed_ns, run.time.memory_ns), (125_000, 0), "{host:?}");
        assert_eq!((run.time.work_ns, run.time.slowdown_ns), (125_000, 25_000 + 25_000));
    }
}

/// At 50 us an interrupt of 10 us stops the first of two streams. Each has 6,000 bytes by then; the second goes on
/// alone at 140.45 MB/s (8,989 / 64) for 1,404.53 bytes, then both at 120. It is done after another 7,595.47 / 120 us,
/// at 123,296; the first has 1,404.48 bytes left, for which it needs 10,000 ns alone.
#[test]
fn an_interrupted_stream_gives_its_share_away() {
    for host in HOSTS {
        let mut machine = limited(2, node_of_400());
        machine.costs.interrupt_ns = 10_000;
        let stream = |cpu| bound(&[cpu], vec![read(100_000, 15_000)]);
        let sleeper = bound(&[0], vec![Op::SleepUntil { time_ns: 50_000, source: Source::Device }]);
        let run = outcome(&scenario(machine, vec![sleeper, stream(0), stream(1)], host));
        assert_eq!(run.elapsed_ns, 133_296, "{host:?}");
        assert_eq!(run.task_cpu_time_ns[2], 123_296, "{host:?}");
        assert_eq!(run.time.work_ns, 200_000, "{host:?}");
    }
}

/// 100 MB/s of the own node, half of it of the other; two CPUs that read the other node's memory share that node's
/// limit.
#[test]
fn memory_has_a_home() {
    for host in HOSTS {
        let mut machine = machine(2, 2, 1);
        machine.costs.bandwidth_mb_per_s.core = 100;
        machine.costs.remote_bandwidth_percent[Distance::Numa1.index()] = 50;
        let from = |node| Op::Memory {
            work_ns: 0,
            read_bytes: 10_000,
            write_bytes: 0,
            home: Home::Node(node),
            llc_percent: 0,
        };
        let run = together(machine.clone(), vec![vec![from(0)], vec![from(1)]], host);
        assert_eq!(run.task_cpu_time_ns, [100_000, 200_000], "{host:?}");

        // 50 each of 100, and 100 / sqrt(100^2 + 75^2) x 75 = 60: 30 each.
        machine.costs.bandwidth_mb_per_s.node = 75;
        let run = together(machine, vec![vec![from(1)]; 2], host);
        assert_eq!(run.task_cpu_time_ns, [333_334; 2], "{host:?}");
    }
}

#[test]
fn a_node_that_is_not_there_is_refused() {
    let op = Op::Memory { work_ns: 0, read_bytes: 1, write_bytes: 0, home: Home::Node(1), llc_percent: 0 };
    let error = run(&scenario(machine(1, 1, 1), vec![bound(&[0], vec![op])], HOSTS[0]), 1).unwrap_err();
    assert!(matches!(error, SimError::NodeBeyondMachine { node: 1, last: 0, .. }), "{error}");
}
