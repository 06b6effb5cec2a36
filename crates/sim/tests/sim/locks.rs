// SPDX-License-Identifier: GPL-2.0-or-later
//! Locks and barriers, by hand: which task gets what when, and what it costs.

use wakelab_machine::{Distance, Machine};
use wakelab_sim::{Ending, HostProfile, Scenario, run};
use wakelab_workload::{Barrier, Lock, Op, Task};

use crate::common::{HOSTS, MS, bound, compute, machine, outcome, scenario, sleep};

const LOCK: Op = Op::Lock { lock: 0 };
const UNLOCK: Op = Op::Unlock { lock: 0 };
const BARRIER: Op = Op::Barrier { barrier: 0 };
const ALWAYS: u64 = u64::MAX;

fn with_lock(machine: Machine, tasks: Vec<Task>, host: HostProfile, lock: Lock) -> Scenario {
    let mut scenario = scenario(machine, tasks, host);
    scenario.workload_mut().locks = vec![lock; 2];
    scenario
}

fn with_barrier(machine: Machine, tasks: Vec<Task>, host: HostProfile, barrier: Barrier) -> Scenario {
    let mut scenario = scenario(machine, tasks, host);
    scenario.workload_mut().barriers = vec![barrier];
    scenario
}

/// CPUs of one LLC: an atomic takes 5 ns, a line 100 ns, a system call 1,000 ns.
fn priced(cpus: u32) -> Machine {
    let mut machine = machine(1, cpus, 1);
    machine.costs.charge_reads = false;
    machine.costs.charge_writes = false;
    machine.costs.atomic_ps = 5_000;
    machine.costs.line_transfer_ps[Distance::Llc.index()] = 100_000;
    machine.costs.futex_ns = 1_000;
    machine
}

fn critical(work_ns: u64) -> Vec<Op> {
    vec![LOCK, compute(work_ns), UNLOCK]
}

/// Returns the operations after a delay.
fn later(delay_ns: u64, ops: Vec<Op>) -> Vec<Op> {
    [vec![compute(delay_ns)], ops].concat()
}

/// 100 rounds of 5 ns + 10 ns + 5 ns.
#[test]
fn a_lock_that_no_other_task_wants_costs_its_atomics() {
    for host in HOSTS {
        let program = [vec![Op::LoopBegin { times: Some(100) }], critical(10), vec![Op::LoopEnd]].concat();
        let run = outcome(&with_lock(priced(1), vec![bound(&[0], program)], host, Lock::default()));
        assert_eq!((run.elapsed_ns, run.time.atomic_ns), (2_000, 1_000), "{host:?}");
        assert_eq!((run.time.futex_ns, run.time.spin_ns, run.time.work_ns), (0, 0, 1_000), "{host:?}");
    }
}

/// The worked example of lock.rs. B is woken at 11,110 and has the lock at 11,215, or at once by hand-off. 50 ns later
/// it unlocks: 5 ns, or 105 if A had the line last.
#[test]
fn a_sleeper_is_woken() {
    for (handoff, elapsed_ns, atomic_ns) in
        [(false, 11_215 + 50 + 5, 5 + 105 + 105 + 105 + 5), (true, 11_110 + 50 + 105, 5 + 105 + 105 + 105)]
    {
        let tasks = vec![bound(&[0], critical(10_000)), bound(&[1], later(2_000, critical(50)))];
        let lock = Lock { spin_ns: 0, handoff, ..Lock::default() };
        let run = outcome(&with_lock(priced(2), tasks, HostProfile::SchedExt, lock));
        assert_eq!((run.elapsed_ns, run.time.atomic_ns), (elapsed_ns, atomic_ns), "handoff {handoff}");
        assert_eq!((run.time.futex_ns, run.time.spin_ns, run.counts.wakeups), (2_000, 0, 1));
    }
}

/// The same, but the work of A and B has what the lock costs: A gives it back at 10,000, and B has it at once.
#[test]
fn a_lock_of_a_recording_costs_nothing_but_the_sleep() {
    for (sleep_ns, elapsed_ns) in [(0, 10_050), (300, 10_050), (9_000, 11_050)] {
        let tasks = vec![bound(&[0], critical(10_000)), bound(&[1], later(2_000, critical(50)))];
        let lock = Lock { recorded: true, ..Lock::default() };
        let mut machine = priced(2);
        machine.costs.sleep_ns = sleep_ns;
        let run = outcome(&with_lock(machine, tasks, HostProfile::SchedExt, lock));
        assert_eq!((run.elapsed_ns, run.time.atomic_ns, run.time.futex_ns), (elapsed_ns, 0, 0));
        // It looks once more before it sleeps: at 11,000 the lock is free.
        assert_eq!(run.counts.wakeups, u64::from(sleep_ns < 9_000));
    }
}

/// A gives a mutex back at 10,000, wakes B, whose interrupt flies 500 ns, and has it again until 11,000. B finds it
/// taken at 10,500, and goes back to sleep by 10,500 + RETRY_NS, if that is before 11,000: then A wakes it once more.
#[test]
fn a_task_that_is_woken_in_vain_pays_the_way_back() {
    for (retry_ns, elapsed_ns, wakeups) in [(0, 11_510, 2), (300, 11_510, 2), (700, 11_210, 1)] {
        let mut machine = priced(2);
        machine.costs.ipi_flight_ns = [500; Distance::COUNT];
        let a = [critical(10_000), critical(1_000)].concat();
        let tasks = vec![bound(&[0], a), bound(&[1], later(2_000, critical(10)))];
        let lock = Lock { recorded: true, retry_ns, ..Lock::default() };
        let run = outcome(&with_lock(machine, tasks, HostProfile::SchedExt, lock));
        assert_eq!((run.elapsed_ns, run.counts.wakeups), (elapsed_ns, wakeups), "{retry_ns}");
        assert_eq!(run.time.futex_ns, retry_ns);
    }
}

/// B and C wait for a mutex of a recording. A gives it back at 1,000, wakes B, whose interrupt flies 500 ns, and
/// takes it again until 1,200: nobody marked it since, so C is not woken. B takes and marks it at 1,500, and wakes C
/// at 1,510. A lock of a workload wakes C at 1,200.
#[test]
fn a_mutex_wakes_no_second_sleeper_before_the_first_is_there() {
    for host in HOSTS {
        for (recorded, elapsed_ns) in [(true, 1_510 + 500 + 10), (false, 1_200 + 500 + 10)] {
            let mut machine = machine(1, 3, 1);
            machine.costs.ipi_flight_ns = [500; Distance::COUNT];
            let a = [critical(1_000), critical(200)].concat();
            let tasks = vec![
                bound(&[0], a),
                bound(&[1], later(1, critical(10))),
                bound(&[2], later(2, critical(10))),
            ];
            let run = outcome(&with_lock(machine, tasks, host, Lock { recorded, ..Lock::default() }));
            assert_eq!((run.elapsed_ns, run.counts.wakeups), (elapsed_ns, 2), "{host:?} {recorded}");
        }
    }
}

/// The same, but B spins, from 2,105 on. A's unlocking ends at 10,110; B has the lock at 10,215, works 50, unlocks in
/// 5.
#[test]
fn a_spinner_takes_over_after_the_lines_transfer() {
    for host in HOSTS {
        let tasks = vec![bound(&[0], critical(10_000)), bound(&[1], later(2_000, critical(50)))];
        let lock = Lock { spin_ns: ALWAYS, handoff: false, ..Lock::default() };
        let run = outcome(&with_lock(priced(2), tasks, host, lock));
        assert_eq!((run.elapsed_ns, run.time.spin_ns), (10_270, 10_110 - 2_105), "{host:?}");
        assert_eq!((run.time.atomic_ns, run.time.futex_ns), (5 + 105 + 105 + 105 + 5, 0), "{host:?}");
        assert_eq!(run.counts.wakeups, 0);
    }
}

/// An interrupt flies 500 ns. A has the lock for 1,000 ns three times in a row; B asks at 1.
/// Without hand-off A takes it again at 1,000 and 2,000, before B is there at 1,500 and 2,500; B gets it at 3,500.
/// With hand-off B has it from 1,000 on, is there at 1,500 and gives it back at 1,510; A is there at 2,010, and works
/// until 4,010.
#[test]
fn hand_off_against_barging() {
    for host in HOSTS {
        for (handoff, elapsed_ns, wakeups) in [(false, 3_510, 3), (true, 4_010, 2)] {
            let mut machine = machine(1, 2, 1);
            machine.costs.ipi_flight_ns = [500; Distance::COUNT];
            let tasks = vec![bound(&[0], critical(1_000).repeat(3)), bound(&[1], later(1, critical(10)))];
            let run =
                outcome(&with_lock(machine, tasks, host, Lock { spin_ns: 0, handoff, ..Lock::default() }));
            assert_eq!((run.elapsed_ns, run.counts.wakeups), (elapsed_ns, wakeups), "{host:?} {handoff}");
        }
    }
}

/// B asks at 100 and spins for at most 300 ns. The lock comes free at 250: it has spun for 150. Or at 1,000: it spins
/// until 400 and sleeps at 450; A wakes it at 1,050.
#[test]
fn spin_then_sleep() {
    for host in HOSTS {
        for (held_ns, elapsed_ns, spin_ns, futex_ns) in [(250, 260, 150, 0), (1_000, 1_060, 300, 100)] {
            let mut machine = machine(1, 2, 1);
            machine.costs.futex_ns = 50;
            let tasks = vec![bound(&[0], critical(held_ns)), bound(&[1], later(100, critical(10)))];
            let run = outcome(&with_lock(
                machine,
                tasks,
                host,
                Lock { spin_ns: 300, handoff: false, ..Lock::default() },
            ));
            assert_eq!((run.elapsed_ns, run.time.spin_ns), (elapsed_ns, spin_ns), "{host:?}");
            assert_eq!((run.time.futex_ns, run.counts.wakeups), (futex_ns, u64::from(futex_ns > 0)));
        }
    }
}

/// The lock comes free while B is in the system call before its sleep: B looks again and takes it, and no task is
/// woken.
#[test]
fn a_task_about_to_sleep_looks_again() {
    for host in HOSTS {
        let mut machine = machine(1, 2, 1);
        machine.costs.futex_ns = 500;
        let tasks = vec![bound(&[0], critical(1_000)), bound(&[1], later(700, critical(10)))];
        let run = outcome(&with_lock(machine, tasks, host, Lock::default()));
        assert_eq!((run.elapsed_ns, run.time.futex_ns, run.counts.wakeups), (1_210, 500, 0), "{host:?}");
    }
}

/// C asks at 100, B at 200; the lock comes free at 1,000. C has it until 1,010, B until 1,110.
#[test]
fn the_longest_spinner_is_first() {
    for host in HOSTS {
        let b = [later(200, critical(100)), vec![Op::MarkEnd]].concat();
        let tasks = vec![bound(&[0], critical(1_000)), bound(&[1], b), bound(&[2], later(100, critical(10)))];
        let lock = Lock { spin_ns: ALWAYS, handoff: false, ..Lock::default() };
        let run = outcome(&with_lock(machine(1, 3, 1), tasks, host, lock));
        assert_eq!(run.makespan_ns, 1_110, "{host:?}");
        assert_eq!(run.time.spin_ns, 900 + 810, "{host:?}");
    }
}

/// B spins from 1 ms on. At 20 ms it is preempted for 3 ms, in which the lock comes free, at 22 ms. At 23 ms it takes
/// the lock without spinning again. The same at a barrier.
#[test]
fn a_preempted_spinner_sees_what_came_meanwhile() {
    for host in HOSTS {
        // The first in the queue of CPU 1, so that it sleeps from 0 on.
        let preempts = || bound(&[1], vec![sleep(20 * MS), compute(3 * MS)]);
        let tasks = vec![preempts(), bound(&[0], critical(22 * MS)), bound(&[1], later(MS, critical(MS)))];
        let lock = Lock { spin_ns: ALWAYS, handoff: false, ..Lock::default() };
        let run = outcome(&with_lock(machine(1, 2, 1), tasks, host, lock));
        assert_eq!((run.elapsed_ns, run.time.spin_ns), (24 * MS, 19 * MS), "{host:?}");

        let tasks = vec![
            preempts(),
            bound(&[0], later(22 * MS, vec![BARRIER])),
            bound(&[1], vec![compute(MS), BARRIER, compute(MS)]),
        ];
        let barrier = Barrier { parties: 2, spin_ns: ALWAYS, recorded: false };
        let run = outcome(&with_barrier(machine(1, 2, 1), tasks, host, barrier));
        assert_eq!((run.elapsed_ns, run.time.spin_ns), (24 * MS, 19 * MS), "{host:?}");
    }
}

#[test]
fn a_lock_that_is_not_given_back_is_refused() {
    let tasks = vec![bound(&[0], vec![LOCK, compute(1)])];
    let scenario = with_lock(machine(1, 1, 1), tasks, HOSTS[0], Lock::default());
    let error = run(&scenario, 1).unwrap_err().to_string();
    assert_eq!(error, "impossible workload: task 0 (t), operation 2: ends while it holds lock 0");
}

/// Each of two tasks has one lock and wants the other's. Of two tasks, one comes to a barrier once, the other twice.
#[test]
fn deadlocks_are_found() {
    for host in HOSTS {
        let pair = |first, second| {
            let (lock, unlock) = (|lock| Op::Lock { lock }, |lock| Op::Unlock { lock });
            vec![lock(first), compute(100), lock(second), unlock(second), unlock(first)]
        };
        let tasks = vec![bound(&[0], pair(0, 1)), bound(&[1], pair(1, 0))];
        let run = outcome(&with_lock(machine(1, 2, 1), tasks, host, Lock::default()));
        assert_eq!((run.ending, run.elapsed_ns), (Ending::Deadlock { waiting: 2 }, 100), "{host:?}");

        let tasks = vec![bound(&[0], vec![BARRIER]), bound(&[1], later(70, vec![BARRIER, BARRIER]))];
        let barrier = Barrier { parties: 2, spin_ns: 0, recorded: false };
        let run = outcome(&with_barrier(machine(1, 2, 1), tasks, host, barrier));
        assert_eq!((run.ending, run.elapsed_ns), (Ending::Deadlock { waiting: 1 }, 70), "{host:?}");
    }
}

/// The worked example of barrier.rs.
#[test]
fn a_barrier_of_two_that_spin() {
    for host in HOSTS {
        let tasks = vec![bound(&[0], vec![BARRIER]), bound(&[1], later(1_000, vec![BARRIER, Op::MarkEnd]))];
        let barrier = Barrier { parties: 2, spin_ns: ALWAYS, recorded: false };
        let run = outcome(&with_barrier(priced(2), tasks, host, barrier));
        assert_eq!((run.makespan_ns, run.elapsed_ns), (1_105, 1_205), "{host:?}");
        assert_eq!((run.time.spin_ns, run.time.atomic_ns), (1_200, 5 + 105), "{host:?}");
    }
}

/// Three at once: the line is at CPU 0 until 5, at CPU 1 until 110, at CPU 2 until 215. The others read it until 315.
#[test]
fn arrivals_queue_for_the_line() {
    for host in HOSTS {
        let tasks = (0..3).map(|cpu| bound(&[cpu], vec![BARRIER])).collect();
        let barrier = Barrier { parties: 3, spin_ns: ALWAYS, recorded: false };
        let run = outcome(&with_barrier(priced(3), tasks, host, barrier));
        assert_eq!((run.elapsed_ns, run.time.atomic_ns), (315, 5 + 110 + 215), "{host:?}");
        assert_eq!(run.time.spin_ns, (315 - 5) + (315 - 110), "{host:?}");
    }
}

/// Two tasks sleep from 1,000 on. The last one comes at 5,000, is in the kernel until 6,000, and wakes one by 6,100 and
/// the other by 6,200, when it continues itself.
#[test]
fn a_barrier_wakes_one_by_one() {
    for host in HOSTS {
        let mut machine = machine(1, 3, 1);
        machine.costs.futex_ns = 1_000;
        machine.costs.wakeup_ns = 100;
        let last = later(5_000, vec![BARRIER, Op::MarkEnd]);
        let tasks =
            vec![bound(&[0], vec![BARRIER]), bound(&[1], vec![BARRIER, compute(10)]), bound(&[2], last)];
        let run =
            outcome(&with_barrier(machine, tasks, host, Barrier { parties: 3, spin_ns: 0, recorded: false }));
        assert_eq!((run.makespan_ns, run.elapsed_ns), (6_200, 6_210), "{host:?}");
        assert_eq!((run.time.futex_ns, run.counts.wakeups), (3_000, 2), "{host:?}");
    }
}

/// Two tasks meet after 5,000 and 10 ns of work. The one that sleeps is woken if it comes first, and goes on at once
/// if the other one spins already: then that spins for the difference.
#[test]
fn one_task_of_a_barrier_may_sleep_where_the_other_spins() {
    for host in HOSTS {
        for (spins_at_ns, sleeps_at_ns, wakeups, spin_ns) in [(5_000, 10, 1, 0), (10, 5_000, 0, 4_990)] {
            let spins = bound(&[0], vec![compute(spins_at_ns), BARRIER]);
            let sleeps =
                bound(&[1], vec![compute(sleeps_at_ns), Op::SleepAtBarrier { barrier: 0 }, compute(10)]);
            let barrier = Barrier { parties: 2, spin_ns: ALWAYS, recorded: true };
            let run = outcome(&with_barrier(machine(1, 2, 1), vec![spins, sleeps], host, barrier));
            assert_eq!((run.counts.wakeups, run.time.spin_ns), (wakeups, spin_ns), "{host:?}");
            assert_eq!((run.ending, run.elapsed_ns), (Ending::Completed, 5_010), "{host:?}");
        }
    }
}

/// The work of three tasks has what their barrier costs: the last one comes at 5,000. The others sleep if they were
/// ready to by then, and look once more before.
#[test]
fn a_barrier_of_a_recording_costs_nothing_but_the_sleep() {
    for (sleep_ns, wakeups) in [(0, 2), (300, 2), (9_000, 0)] {
        let mut machine = priced(3);
        (machine.costs.futex_ns, machine.costs.sleep_ns) = (1_000, sleep_ns);
        let comes = |at_ns| vec![compute(at_ns), BARRIER];
        let tasks = vec![bound(&[0], comes(10)), bound(&[1], comes(10)), bound(&[2], comes(5_000))];
        let barrier = Barrier { parties: 3, spin_ns: 0, recorded: true };
        let run = outcome(&with_barrier(machine, tasks, HostProfile::SchedExt, barrier));
        assert_eq!(
            (run.time.atomic_ns, run.time.futex_ns, run.counts.wakeups),
            (0, 0, wakeups),
            "{sleep_ns}"
        );
        assert_eq!(run.elapsed_ns, 5_000.max(10 + sleep_ns), "{sleep_ns}");
    }
}

/// 50 rounds: in each, one of three tasks in turn is the slowest and takes 300 ns. The result does not depend on how
/// long they spin.
#[test]
fn a_barrier_can_be_used_again_at_once() {
    for host in HOSTS {
        for spin_ns in [0, 150, ALWAYS] {
            let program = |shift: u64| {
                (0..50).flat_map(|round| [compute(100 * (1 + (round + shift) % 3)), BARRIER]).collect()
            };
            let tasks = (0..3).map(|cpu| bound(&[cpu], program(u64::from(cpu)))).collect();
            let run = outcome(&with_barrier(
                machine(1, 3, 1),
                tasks,
                host,
                Barrier { parties: 3, spin_ns, recorded: false },
            ));
            assert_eq!((run.ending, run.elapsed_ns), (Ending::Completed, 50 * 300), "{host:?} {spin_ns}");
            // In each round one waits 200 ns, one 100 ns.
            let spun_ns = spin_ns.min(200) + spin_ns.min(100);
            assert_eq!(run.time.spin_ns, 50 * spun_ns, "{host:?} {spin_ns}");
        }
    }
}

/// A spins on CPU 0 from 20 ms on, for 10,000 ns, and B on CPU 1 wakes C, which takes CPU 0: the interrupt comes after
/// the end of the spin, so that A gives way there. B arrives while C computes, and that takes as long as without the
/// barrier.
#[test]
fn a_spin_that_ends_as_its_task_gives_way_is_over() {
    let mut machine = priced(2);
    machine.costs.futex_ns = 0;
    machine.costs.ipi_flight_ns[Distance::Llc.index()] = 500;
    let a = bound(&[0], vec![compute(20 * MS), BARRIER, compute(10)]);
    let b = bound(
        &[1],
        vec![compute(20 * MS + 9_800), Op::Signal { signal: 0, sync: false }, compute(MS / 2), BARRIER],
    );
    let c = bound(&[0], vec![Op::Wait { signal: 0 }, compute(2 * MS)]);
    let barrier = Barrier { parties: 2, spin_ns: 10_000, recorded: true };
    let mut scenario = with_barrier(machine, vec![c, a, b], HostProfile::Mainline, barrier);
    scenario.workload_mut().signals = 1;
    let run = outcome(&scenario);
    assert_eq!(run.ending, Ending::Completed);
    assert_eq!((run.time.work_ns, run.time.spin_ns), (40 * MS + 9_800 + MS / 2 + 2 * MS + 10, 10_000));
}
