// SPDX-License-Identifier: GPL-2.0-or-later
//! exec, by hand: what it costs to stay and to go.

use wakelab_machine::{Distance, Machine};
use wakelab_sim::{HostProfile, Observer, run_observed};
use wakelab_workload::{Op, Task};

use crate::common::{HOSTS, bound, compute, machine, outcome, scenario, task};

/// The figures of the worked example in exec.rs.
fn priced(cpus: u32) -> Machine {
    let mut machine = machine(1, cpus, 1);
    let costs = &mut machine.costs;
    costs.exec_ns = 1_000;
    costs.select_ns = 100;
    costs.push_ns = 10_000;
    costs.ipi_send_ns = 20;
    costs.ipi_flight_ns = [300; Distance::COUNT];
    costs.ipi_handle_ns = 7;
    costs.switch_thread_ns = 5;
    costs.switch_process_ns = 5;
    machine
}

/// A task that has run on CPU 0, execs and computes.
fn execs() -> Task {
    Task { footprint_bytes: 1 << 20, ..task(0, vec![Op::Exec, compute(500)]) }
}

/// It begins at 12. sched_ext: exec and work. mainline: as in the worked example; nothing is refilled, in spite of the
/// move.
#[test]
fn to_an_idle_cpu() {
    for (host, elapsed_ns, moves) in
        [(HostProfile::SchedExt, 12 + 1_500, 0), (HostProfile::Mainline, 12 + 11_432 + 500, 1)]
    {
        let run = outcome(&scenario(priced(2), vec![execs()], host));
        assert_eq!(run.elapsed_ns, elapsed_ns, "{host:?}");
        assert_eq!(run.migrations[Distance::Llc.index()], moves, "{host:?}");
        assert_eq!((run.counts.preemptions, run.counts.ipis), (moves, moves), "{host:?}");
        assert_eq!(run.time.fork_exit_ns, 1_000 + 10_000 * moves);

        let mut machine = priced(2);
        machine.costs.line_transfer_ps[Distance::Llc.index()] = 1_000;
        machine.costs.core_cache_bytes = 1 << 20;
        machine.costs.llc_cache_bytes = 1 << 20;
        let run = outcome(&scenario(machine, vec![execs()], host));
        assert_eq!(run.time.cache_refill_ns, 0, "{host:?}");
    }
}

/// There is no other CPU to go to: only the placement is paid for.
#[test]
fn to_stay() {
    for (host, select_ns) in [(HostProfile::SchedExt, 0), (HostProfile::Mainline, 100)] {
        let run = outcome(&scenario(priced(2), vec![bound(&[0], vec![Op::Exec, compute(500)])], host));
        assert_eq!(run.elapsed_ns, 12 + 1_500 + select_ns, "{host:?}");
        assert_eq!((run.time.select_ns, run.counts.preemptions), (select_ns, 0), "{host:?}");
    }
}

/// A task that waits on CPU 0, and may run nowhere else, runs there as soon as the other is gone.
#[test]
fn a_task_that_is_left_behind_runs() {
    let left = Task { start_ns: 13, ..bound(&[0], vec![compute(100)]) };
    let run = outcome(&scenario(priced(2), vec![execs(), left], HostProfile::Mainline));
    // CPU 0 sends the other's interrupt until 12 + 11,120, and switches: 5.
    assert_eq!(run.queue_delay.max_ns, 12 + 11_120 - 13);
    assert_eq!(run.task_cpu_time_ns[1], 5 + 100);
}

#[derive(Default)]
struct Moves(Vec<(u64, u32, u32)>, Vec<bool>, u32);

impl Observer for Moves {
    fn migrate(&mut self, now_ns: u64, _task: u32, from: u32, to: u32) {
        self.0.push((now_ns, from, to));
    }
    fn switch_out(&mut self, _now_ns: u64, _cpu: u32, _task: u32, runnable: bool) {
        self.1.push(runnable);
    }
    fn woken(&mut self, _now_ns: u64, _by_cpu: Option<u32>, _cpu: u32, _task: u32) {
        self.2 += 1;
    }
}

/// An observer sees a move of a runnable task, and no wake-up but the start.
#[test]
fn an_observer_sees_a_move() {
    let mut seen = Moves::default();
    run_observed(&scenario(priced(2), vec![execs()], HostProfile::Mainline), 1, &mut seen).unwrap();
    assert_eq!((seen.0, seen.1, seen.2), (vec![(12 + 11_100, 0, 1)], vec![true, false], 1));
}

/// Sixteen tasks exec on eight CPUs at once, again and again, under the checker: none is lost.
#[test]
fn many_at_once() {
    for host in HOSTS {
        let program = [Op::LoopBegin { times: Some(20) }, compute(3_000), Op::Exec, Op::LoopEnd];
        let tasks = (0..16).map(|number| task(number % 8, program.to_vec())).collect();
        let run = outcome(&scenario(priced(8), tasks, host));
        assert_eq!(run.time.work_ns, 16 * 20 * 3_000, "{host:?}");
        assert_eq!(run.counts.selects - 16, if host == HostProfile::Mainline { 320 } else { 0 });
    }
}
