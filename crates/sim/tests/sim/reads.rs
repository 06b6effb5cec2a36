// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads of other CPUs' state: a miss at its distance if another CPU wrote the line since, else a hit. Writes wait for
//! the farthest of the other holders.

use wakelab_machine::Distance;
use wakelab_sim::HostProfile;
use wakelab_workload::{Op, Task};

use crate::common::{HOSTS, bound, compute, machine, outcome, scenario, task};

/// A hit costs 1 ns, a transfer inside the LLC 40. CPU 0 wakes two tasks that are bound to CPU 1, where a third
/// computes.
///
/// For the first, the decision reads CPU 1's line, a miss: 40. Queueing reads it again, a hit, and then, because CPU 1
/// now has a second task, `overloaded`, which is on CPU 0's side: 1 + 1. It writes the line, which CPU 1 held: 40. For
/// the second, the reads are hits, 1, and 1 + 1, and no other CPU holds what it writes. If every read were a miss, the
/// lines of CPU 1 would cost 40 each time.
#[test]
fn the_second_of_two_reads_is_a_hit() {
    for (may_hit, reads, writes, select_ns, wakeup_ns) in [
        (true, true, true, 40 + 1, (2 + 40) + 2),
        (true, true, false, 40 + 1, 2 + 2),
        (false, true, false, 40 + 40, 41 + 41),
        (true, false, true, 0, 40),
        (true, false, false, 0, 0),
    ] {
        let mut machine = machine(1, 2, 1);
        machine.costs.line_transfer_ps[Distance::Cpu.index()] = 1_000;
        machine.costs.line_transfer_ps[Distance::Llc.index()] = 40_000;
        machine.costs.reads_may_hit = may_hit;
        machine.costs.charge_reads = reads;
        machine.costs.charge_writes = writes;
        machine.costs.tick_period_ns = 100_000_000;
        let signal = |signal| Op::Signal { signal, sync: false };
        // Too light to preempt.
        let wakee = |signal| Task { weight: 15, ..bound(&[1], vec![Op::Wait { signal }]) };
        let tasks = vec![
            wakee(0),
            wakee(1),
            bound(&[0], vec![compute(1_000), signal(0), signal(1)]),
            Task { start_ns: 500, ..bound(&[1], vec![compute(100_000)]) },
        ];
        let run = outcome(&scenario(machine, tasks, HostProfile::Mainline));
        assert_eq!(run.counts.wakeups, 2);
        assert_eq!(
            (run.time.select_ns, run.time.wakeup_ns),
            (select_ns, wakeup_ns),
            "{may_hit} {reads} {writes}"
        );
        let llc = Distance::Llc.index();
        assert_eq!((run.select_reads[llc], run.select_misses[llc]), (2, 1));
        assert_eq!((run.counts.searches, run.counts.search_reads), (0, 0), "none needed a search");
        assert_eq!((run.enqueue_reads[llc], run.enqueue_misses[llc]), (2, 0));
    }
}

/// A transfer inside the LLC costs 40 ns, and everything else is free. CPU 0 wakes a task that is bound to CPU 1, which
/// is idle. The decision reads CPU 1's line, 40 (under sched_ext there is no decision). Queueing takes the line from
/// CPU 1, 40 (under sched_ext it fetches and takes it at once, 40 in all). The switch on CPU 1 takes it back from CPU
/// 0, 40. The rest of the switch, and the next ones, find it there.
#[test]
fn a_line_that_was_taken_is_taken_back() {
    for host in HOSTS {
        for charged in [true, false] {
            let mut machine = machine(1, 2, 1);
            machine.costs.line_transfer_ps[Distance::Llc.index()] = 40_000;
            machine.costs.charge_writes = charged;
            let tasks = vec![
                bound(&[1], vec![Op::Wait { signal: 0 }, compute(100)]),
                bound(&[0], vec![compute(1_000), Op::Signal { signal: 0, sync: false }]),
            ];
            let run = outcome(&scenario(machine, tasks, host));
            let (read_ns, write_ns) = (40, if charged { 40 } else { 0 });
            let expected = match host {
                HostProfile::Mainline => (read_ns, write_ns, write_ns),
                HostProfile::SchedExt => (0, read_ns, write_ns),
            };
            let time = run.time;
            assert_eq!((time.select_ns, time.wakeup_ns, time.switch_ns), expected, "{host:?} {charged}");
        }
    }
}

/// CPU 1 computes and has a second task waiting. CPU 0's task ends, and CPU 0 pulls the one that waits. What it reads
/// to find it costs the same whether writes are charged or not. The move takes CPU 1's line from it, 40; when CPU 1's
/// task ends, CPU 1 takes it back, 40. No other CPU held CPU 0's own line. Then CPU 1 looks for work, reads CPU 0's
/// line, and clears `overloaded`, which CPU 0 has read: 40. When CPU 0's task ends, it takes its line back from CPU 1,
/// 40.
#[test]
fn a_pull_takes_the_line_and_its_owner_takes_it_back() {
    let time = |charged| {
        let mut machine = machine(1, 2, 1);
        machine.costs.line_transfer_ps[Distance::Llc.index()] = 40_000;
        machine.costs.charge_writes = charged;
        machine.costs.tick_period_ns = 100_000_000;
        let tasks = vec![
            bound(&[1], vec![compute(5_000_000)]),
            bound(&[0], vec![compute(1_000_000)]),
            Task { start_ns: 1_000, ..task(1, vec![compute(5_000_000)]) },
        ];
        let run = outcome(&scenario(machine, tasks, HostProfile::Mainline));
        assert_eq!(run.counts.pulled, 1, "{:?}", run.counts);
        run.time
    };
    let (with, without) = (time(true), time(false));
    assert_eq!(with.balance_ns - without.balance_ns, 40 + 40);
    assert_eq!(with.switch_ns - without.switch_ns, 40 + 40);
}
