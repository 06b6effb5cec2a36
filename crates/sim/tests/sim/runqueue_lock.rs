// SPDX-License-Identifier: GPL-2.0-or-later
//! Contention for runqueue locks.

use wakelab_workload::{Op, Task};

use crate::common::{HOSTS, bound, compute, machine, outcome, scenario};

/// CPUs 0, 1 and 2 queue a task on CPU 3, which is busy, at the given times.
fn wakers(at_ns: [u64; 3]) -> Vec<Task> {
    let signal = |signal: u32| Op::Signal { signal, sync: false };
    let mut tasks: Vec<Task> = (0..3)
        .map(|cpu| bound(&[cpu as u32], vec![compute(at_ns[cpu]), signal(cpu as u32), compute(100_000)]))
        .collect();
    // Too light to preempt.
    let wakee = |signal| Task { weight: 15, ..bound(&[3], vec![Op::Wait { signal }]) };
    tasks.extend((0..3).map(wakee));
    tasks.push(bound(&[3], vec![compute(50_000)]));
    tasks
}

/// The worked example of runqueue_lock.rs, and a third that comes at 1,150: a hold is 100 ns. The second waits from
/// 1,030 to 1,100 and holds until 1,200; the third waits 50.
#[test]
fn first_come_first_served() {
    for host in HOSTS {
        for (at_ns, waits_ns) in [
            ([1_000, 1_030, 1_200], [0, 70, 0]),
            ([1_000, 1_030, 1_150], [0, 70, 50]),
            ([1_000, 2_000, 3_000], [0; 3]),
        ] {
            let mut machine = machine(1, 4, 1);
            machine.costs.runqueue_lock_ns = 100;
            let run = outcome(&scenario(machine, wakers(at_ns), host));
            assert_eq!(run.time.runqueue_lock_ns, waits_ns.iter().sum::<u64>(), "{host:?} {at_ns:?}");
            for cpu in 0..3 {
                assert_eq!(run.task_cpu_time_ns[cpu], at_ns[cpu] + 100_000 + waits_ns[cpu], "{host:?}");
            }
        }
    }
}

/// The CPU that picks holds its own lock. Task 0 ends on CPU 3 at 1,000 and the CPU picks nothing; at 1,020 CPU 0
/// queues a task there, and waits until 1,100. The interrupt comes at once, and CPU 3 asks for its lock at 1,100, when
/// CPU 0's wake-up is over but its hold is not: until 1,200.
#[test]
fn picking_holds_the_lock_too() {
    for host in HOSTS {
        let mut machine = machine(1, 4, 1);
        machine.costs.runqueue_lock_ns = 100;
        let tasks = vec![
            bound(&[0], vec![compute(1_020), Op::Signal { signal: 0, sync: false }]),
            bound(&[3], vec![Op::Wait { signal: 0 }, compute(10)]),
            bound(&[3], vec![compute(1_000)]),
        ];
        let run = outcome(&scenario(machine, tasks, host));
        assert_eq!(run.time.runqueue_lock_ns, 80 + 100, "{host:?}");
        assert_eq!(run.elapsed_ns, 1_210, "{host:?}");
    }
}

#[test]
fn a_hold_of_nothing_is_never_waited_for() {
    for host in HOSTS {
        let run = outcome(&scenario(machine(1, 4, 1), wakers([1_000; 3]), host));
        assert_eq!(run.time.runqueue_lock_ns, 0, "{host:?}");
    }
}
