// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads of other CPUs' state: a miss at its distance if somebody wrote the line since, else a hit.

use wakelab_machine::Distance;
use wakelab_sim::HostProfile;
use wakelab_workload::{Op, Task};

use crate::common::{bound, compute, machine, outcome, scenario};

/// A hit costs 1 ns, a transfer inside the LLC 40. CPU 0 wakes two tasks that are bound to CPU 1, where a third computes.
///
/// The first: the decision reads CPU 1's line, a miss, 40; queueing reads it again, a hit, and then, as CPU 1 has a second
/// task now, `overloaded`, which lies with CPU 0: 1 + 1. It writes the line, so that the second's reads are hits: 1, and
/// 1 + 1. If every read were a miss, the lines of CPU 1 would cost 40 each time.
#[test]
fn the_second_of_two_reads_is_a_hit() {
    for (may_hit, charged, select_ns, wakeup_ns) in
        [(true, true, 40 + 1, 2 + 2), (false, true, 40 + 40, 41 + 41), (true, false, 0, 0)]
    {
        let mut machine = machine(1, 2, 1);
        machine.costs.line_transfer_ps[Distance::Cpu.index()] = 1_000;
        machine.costs.line_transfer_ps[Distance::Llc.index()] = 40_000;
        machine.costs.reads_may_hit = may_hit;
        machine.costs.charge_reads = charged;
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
        assert_eq!((run.time.select_ns, run.time.wakeup_ns), (select_ns, wakeup_ns), "{may_hit} {charged}");
        let llc = Distance::Llc.index();
        assert_eq!((run.select_reads[llc], run.select_misses[llc]), (2, 1));
        assert_eq!((run.enqueue_reads[llc], run.enqueue_misses[llc]), (2, 0));
    }
}
