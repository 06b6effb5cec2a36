// SPDX-License-Identifier: GPL-2.0-or-later
//! Interrupts are charged to the task that they interrupt.

use wakelab_sim::HostProfile;
use wakelab_workload::{Op, Source};

use crate::common::{HOSTS, bound, compute, machine, outcome, scenario};

/// Task 1 sleeps on CPU 0, where task 0 computes for 10,000 ns. The interrupt that ends the sleep takes 300 ns and the
/// wake-up in it 40, both in task 0's time. Task 1 computes for 100 ns when task 0 has ended.
#[test]
fn of_timers_and_devices() {
    for host in HOSTS {
        for source in [Source::Timer, Source::Device] {
            let mut machine = machine(1, 1, 1);
            machine.costs.interrupt_ns = 300;
            machine.costs.wakeup_ns = 40;
            let computes = bound(&[0], vec![compute(10_000)]);
            let sleeps = bound(&[0], vec![Op::Sleep { delay_ns: 5_000, source }, compute(100)]);
            let run = outcome(&scenario(machine, vec![sleeps, computes], host));
            assert_eq!((run.time.interrupt_ns, run.time.wakeup_ns), (300, 40), "{host:?} {source:?}");
            assert_eq!(run.task_cpu_time_ns, [100, 10_340], "{host:?} {source:?}");
            assert_eq!(run.elapsed_ns, 10_440, "{host:?} {source:?}");
        }
    }
}

/// Two tasks sleep on the CPU where a third one computes, until 5,000 and 5,200 ns. A timer's interrupt takes 300 ns,
/// and each wake-up 40. One interrupt wakes both, but two devices have one each.
#[test]
fn one_runs_all_timers_that_are_due() {
    for host in HOSTS {
        for (source, interrupts) in [(Source::Timer, 1), (Source::Device, 2), (Source::Unknown, 2)] {
            let mut machine = machine(1, 1, 1);
            (machine.costs.interrupt_ns, machine.costs.wakeup_ns) = (300, 40);
            let until = |time_ns: u64| bound(&[0], vec![Op::SleepUntil { time_ns, source }, compute(100)]);
            let mut computes = bound(&[0], vec![compute(10_000)]);
            computes.start_ns = 100;
            let tasks = vec![until(5_000), until(5_200), computes];
            let run = outcome(&scenario(machine, tasks, host));
            assert_eq!(run.time.wakeup_ns, 2 * 40, "{host:?} {source:?}");
            assert_eq!(run.time.interrupt_ns, interrupts * 300, "{host:?} {source:?}");
            assert_eq!(run.elapsed_ns, 10_300 + 2 * 40 + interrupts * 300, "{host:?} {source:?}");
        }
    }
}

/// An interrupt from another CPU. Task 2 wakes task 1, which queues behind task 0 on CPU 0 and does not preempt it, so
/// no interrupt comes. A task that has waited for long enough preempts, and the handling is in task 0's time. Linux
/// charges each task from its wake-up on, so that there it is in task 1's, and those of the starts in the tasks'.
#[test]
fn of_other_cpus() {
    for host in HOSTS {
        let mut machine = machine(1, 2, 1);
        machine.costs.ipi_handle_ns = 700;
        let wakee = bound(&[0], vec![Op::Wait { signal: 0 }, compute(100)]);
        let waker = bound(&[1], vec![compute(20_000_000), Op::Signal { signal: 0, sync: false }]);
        let mut runs = bound(&[0], vec![compute(40_000_000)]);
        runs.start_ns = 5_000;
        let run = outcome(&scenario(machine, vec![wakee, waker, runs], host));
        // The interrupts of the starts come to idle CPUs.
        assert_eq!(run.time.ipi_ns, 3 * 700 + 700, "{host:?}");
        assert_eq!(run.counts.preemptions, 1, "{host:?}");
        let cpu_time_ns = match host {
            HostProfile::Mainline => [100 + 2 * 700, 20_000_700, 40_000_700],
            HostProfile::SchedExt => [100, 20_000_000, 40_000_700],
        };
        assert_eq!(run.task_cpu_time_ns, cpu_time_ns, "{host:?}");
    }
}
