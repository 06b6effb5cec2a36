// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole wake-up paths, summed by hand from a machine's figures, under both profiles; and which CPU pays for each of
//! them.

use wakelab_machine::{Distance, IdleState, Machine};
use wakelab_policy::{Decision, EnqueueWhy};
use wakelab_sim::{HostProfile, Observer, Outcome, Scenario, run_observed};
use wakelab_workload::{Lock, Op, Task};

use crate::common::{HOSTS, MS, bound, compute, machine, outcome, recv, scenario, send, sleep, task};

/// 2 LLCs x 2 cores: CPUs 0 and 1, 2 and 3. Every figure is another power of ten, so that a sum shows its parts.
fn priced() -> Machine {
    let mut machine = machine(2, 2, 1);
    let costs = &mut machine.costs;
    costs.wakeup_ns = 100;
    costs.select_ns = 1_000;
    costs.switch_thread_ns = 10_000;
    costs.switch_process_ns = 20_000;
    costs.ipi_send_ns = 100_000;
    costs.ipi_flight_ns = by_distance(1_000_000, 2_000_000);
    costs.ipi_handle_ns = 10_000_000;
    costs.idle_states = vec![
        IdleState::default(),
        IdleState { after_ns: 500_000_000, exit_latency_ns: 300_000_000, ..IdleState::default() },
    ];
    costs.tick_period_ns = 100_000_000;
    machine
}

fn by_distance(llc: u64, numa: u64) -> [u64; Distance::COUNT] {
    let mut table = [0; Distance::COUNT];
    table[Distance::Llc.index()] = llc;
    table[Distance::Numa1.index()..].fill(numa);
    table
}

const SECOND: u64 = 1_000_000_000;
const WAIT: Op = Op::Wait { signal: 0 };
const SIGNAL: Op = Op::Signal { signal: 0, sync: false };

/// What the observer saw of task 0, the wakee, after its first run.
#[derive(Default)]
struct Seen {
    woken_ns: u64,
    queued: (u64, u32),
    switched_in: (u64, u32),
    decision: Option<Decision>,
    waker_done_ns: u64,
}

impl Observer for Seen {
    fn wake(&mut self, now_ns: u64, _cpu: u32, _waker: Option<u32>, wakee: u32, _flags: u32) {
        assert_eq!(wakee, 0);
        self.woken_ns = now_ns;
        self.decision = None;
    }
    fn enqueue(&mut self, now_ns: u64, cpu: u32, task: u32, why: EnqueueWhy) {
        if task == 0 && why == EnqueueWhy::Wakeup {
            self.queued = (now_ns, cpu);
        }
    }
    fn switch_in(&mut self, now_ns: u64, cpu: u32, task: u32) {
        if task == 0 {
            self.switched_in = (now_ns, cpu);
        }
    }
    fn decision(&mut self, _now_ns: u64, _this_cpu: u32, wakee: u32, decision: &Decision) {
        if wakee == 0 {
            self.decision = Some(*decision);
        }
    }
    fn exit(&mut self, now_ns: u64, _cpu: u32, task: u32) {
        if task == 1 {
            self.waker_done_ns = now_ns;
        }
    }
}

/// Task 1 starts on CPU 0 when task 0 is already waiting, computes for a second, then signals.
fn woken_by_cpu_0(machine: Machine, wakee: Task, host: HostProfile) -> (Seen, Outcome) {
    let waker = Task { start_ns: 60_000_000, ..bound(&[0], vec![compute(SECOND), SIGNAL]) };
    let scenario = scenario(machine, vec![wakee, waker], host);
    let mut seen = Seen::default();
    let outcome = run_observed(&scenario, 1, &mut seen).unwrap();
    assert_eq!(outcome.wakeup_latency.count, 1);
    assert_eq!(outcome.wakeup_latency.sum_ns, seen.switched_in.0 - seen.woken_ns);
    (seen, outcome)
}

/// Pinned to the waker's CPU: no interrupt; it waits until the waker has exited. Under sched_ext nothing is selected.
#[test]
fn on_the_same_cpu() {
    for (host, select_ns) in [(HostProfile::SchedExt, 0), (HostProfile::Mainline, 1_000)] {
        let (seen, outcome) = woken_by_cpu_0(priced(), bound(&[0], vec![WAIT]), host);
        assert_eq!(seen.switched_in, (seen.woken_ns + select_ns + 100, 0), "{host:?}");
        assert_eq!((outcome.counts.selects - 2 * u64::from(select_ns > 0)), u64::from(select_ns > 0));
        assert_eq!(outcome.time.ipi_ns, 2 * 10_000_000, "the starts of both tasks only");
        assert_eq!(outcome.counts.ipis, 0);
    }
}

/// Pinned to an idle CPU of the same LLC, which has idled for a second: wake-up 100, send 100,000, flight 1,000,000,
/// idle exit 300,000,000, handling 10,000,000; select 1,000 under mainline.
#[test]
fn on_an_idle_cpu_of_the_same_llc() {
    for (host, select_ns) in [(HostProfile::SchedExt, 0), (HostProfile::Mainline, 1_000)] {
        let (seen, outcome) = woken_by_cpu_0(priced(), bound(&[1], vec![WAIT]), host);
        assert_eq!(seen.switched_in, (seen.woken_ns + 311_100_100 + select_ns, 1), "{host:?}");
        assert_eq!(seen.queued, (seen.woken_ns + 100 + select_ns, 1));
        assert_eq!(seen.waker_done_ns, seen.woken_ns + 100_100 + select_ns);
        assert_eq!(outcome.time.ipi_ns, 2 * 10_000_000 + 10_100_000);
        assert_eq!(outcome.time.idle_exit_ns, 300_000_000);
    }
}

/// Pinned to an idle CPU of the other LLC. sched_ext: as before, but a flight of 2,000,000. mainline: the waker selects
/// and sends; the wake-up's 100 are paid by the target after handling the interrupt.
#[test]
fn on_an_idle_cpu_of_another_llc() {
    let (seen, _) = woken_by_cpu_0(priced(), bound(&[2], vec![WAIT]), HostProfile::SchedExt);
    assert_eq!(seen.switched_in, (seen.woken_ns + 312_100_100, 2));
    assert_eq!(seen.queued, (seen.woken_ns + 100, 2));
    assert_eq!(seen.waker_done_ns, seen.woken_ns + 100_100);

    let (seen, _) = woken_by_cpu_0(priced(), bound(&[2], vec![WAIT]), HostProfile::Mainline);
    assert_eq!(seen.switched_in, (seen.woken_ns + 1_000 + 312_100_000 + 100, 2));
    assert_eq!(seen.queued, seen.switched_in, "queued by the target, at the end of the path");
    assert_eq!(seen.waker_done_ns, seen.woken_ns + 1_000 + 100_000);
}

/// A wakee that may run anywhere: the decision's reads, here all misses, are paid by distance, rounded up once.
#[test]
fn a_decision_costs_its_reads() {
    for host in HOSTS {
        let mut machine = priced();
        machine.costs.line_transfer_ps = by_distance(7_300, 90_100);
        machine.costs.reads_may_hit = false;
        let (seen, outcome) = woken_by_cpu_0(machine, task(1, vec![WAIT]), host);
        let decision = seen.decision.unwrap();
        let (near, far) =
            (decision.reads.at[Distance::Llc.index()], decision.reads.at[Distance::Numa1.index()]);
        assert!(near + far > 0, "{host:?}: the CPUs are looked at");
        let reads_ns = (u64::from(near) * 7_300 + u64::from(far) * 90_100).div_ceil(1000);
        assert_eq!(seen.queued.0, seen.woken_ns + 1_000 + reads_ns + 100, "{host:?}");
        // The reads of the two starts are counted, but no task pays for them.
        assert_eq!(outcome.time.select_ns, 1_000 + reads_ns);
    }
}

/// A timer's wake-up: the sleeper's CPU leaves its idle state (slept a second: 300,000,000), handles the interrupt,
/// wakes.
#[test]
fn by_a_timer_on_the_cpu_where_it_slept() {
    for (host, select_ns) in [(HostProfile::SchedExt, 0), (HostProfile::Mainline, 1_000)] {
        let mut machine = priced();
        machine.costs.interrupt_ns = 7;
        let scenario = scenario(machine, vec![bound(&[3], vec![sleep(SECOND)])], host);
        let mut seen = Seen::default();
        let outcome = run_observed(&scenario, 1, &mut seen).unwrap();
        // It starts by an interrupt and a switch; it sleeps from then on.
        let fired_ns = 10_000_000 + 10_000 + SECOND;
        assert_eq!(seen.woken_ns, fired_ns + 300_000_000 + 7, "{host:?}");
        assert_eq!(seen.switched_in, (seen.woken_ns + select_ns + 100, 3));
        assert_eq!(outcome.time.interrupt_ns, 7);
        assert_eq!(outcome.counts.ipis, 0);
    }
}

/// Three switches: to each task from idle (thread price), and between them (process price); then cache refill after a
/// move.
#[test]
fn switches_and_refills() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 1);
        machine.costs.switch_thread_ns = 10;
        machine.costs.switch_process_ns = 100;
        let tasks = vec![bound(&[0], vec![compute(5)]), Task { process: 1, ..bound(&[0], vec![compute(5)]) }];
        let run = outcome(&scenario(machine, tasks, host));
        assert_eq!((run.time.switch_ns, run.elapsed_ns), (110, 120), "{host:?}");

        let mut machine = machine_of_two_llcs_with_refill();
        machine.costs.ipi_handle_ns = 3;
        let mut moved = bound(&[1], vec![compute(5)]);
        moved.last_cpu = Some(0);
        moved.footprint_bytes = 64 * 1_000_000;
        let run = outcome(&scenario(machine, vec![moved], host));
        assert_eq!((run.time.cache_refill_ns, run.elapsed_ns), (5_000, 5_008), "{host:?}");
        assert_eq!(run.migrations[Distance::Numa1.index()], 1);
        assert_eq!(run.migrations.iter().sum::<u64>(), 1);
    }
}

fn machine_of_two_llcs_with_refill() -> Machine {
    let mut machine = machine(2, 1, 1);
    machine.costs.line_transfer_ps = by_distance(1, 5);
    machine.costs.llc_cache_bytes = 1 << 30;
    machine
}

/// Ticks come in the CPU's own grid while it is busy: a task of 10 ms meets 10, whichever task pays for them.
#[test]
fn ticks_are_charged_to_the_running_task() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 1);
        machine.costs.tick_ns = 1_000;
        let Outcome { time, counts, elapsed_ns, task_cpu_time_ns, .. } =
            outcome(&scenario(machine, vec![bound(&[0], vec![compute(10_000_000)])], host));
        assert_eq!(counts.ticks, 10, "{host:?}");
        assert_eq!((time.tick_ns, elapsed_ns), (10_000, 10_010_000));
        assert_eq!(task_cpu_time_ns, [10_010_000]);
    }
}

/// fork 50 in the parent, then the child's placement and wake-up; exit 30 in each.
#[test]
fn fork_and_exit() {
    for host in HOSTS {
        let mut machine = machine(1, 2, 1);
        machine.costs.fork_ns = 50;
        machine.costs.exit_ns = 30;
        machine.costs.select_ns = 7;
        machine.costs.wakeup_ns = 4;
        let tasks = vec![
            task(0, vec![Op::Fork { task: 1 }, Op::Join]),
            crate::common::child(0, vec![compute(1_000)]),
        ];
        let run = outcome(&scenario(machine, tasks, host));
        assert_eq!(run.time.fork_exit_ns, 50 + 30 + 30, "{host:?}");
        assert_eq!((run.counts.forks, run.counts.wakeups), (1, 1), "the child, and the parent that joins");
        // fork, placement, child, exit, waking the parent, exit.
        assert_eq!(run.elapsed_ns, 50 + (7 + 4) + 1_000 + 30 + (7 + 4) + 30, "{host:?}");
    }
}

/// Balancing costs its fixed part and its reads: a CPU that goes idle looks for work once.
#[test]
fn newly_idle_balancing_is_charged() {
    for host in HOSTS {
        let mut machine = machine(1, 2, 1);
        machine.costs.balance_ns = 40;
        let mut scenario: Scenario = scenario(machine, vec![task(0, vec![sleep(50_000_000)])], host);
        scenario.workload_mut().tasks.push(bound(&[1], vec![compute(100_000_000)]));
        scenario.workload_mut().tasks.push(bound(&[1], vec![compute(60_000_000)]));
        let run = outcome(&scenario);
        assert!(run.counts.newly_idle_balances > 0, "{host:?}");
        let attempts = run.counts.newly_idle_balances + run.counts.periodic_balances;
        assert_eq!(run.time.balance_ns, 40 * attempts, "{host:?}");
        assert_eq!(run.counts.pulled, 0, "what waits on CPU 1 may not run elsewhere");
    }
}

/// Two tasks that both ran on CPU 0 last are woken at the same moment by two wakers: the first claims CPU 0, the second
/// loses that claim and takes CPU 1. Neither waits for the other.
#[test]
fn two_wakers_with_claims_do_not_meet_on_one_idle_cpu() {
    for (host, policy) in
        [(HostProfile::SchedExt, "linux-4.15"), (HostProfile::Mainline, "linux-4.15+idle=nearest")]
    {
        let mut machine = machine(1, 4, 1);
        machine.costs.select_ns = 100;
        let waits = |signal, start_ns| {
            let program = vec![Op::Wait { signal }, compute(500)];
            Task { start_ns, ..bound(&[0, 1], program) }
        };
        let wakes = |cpu, signal| bound(&[cpu], vec![compute(10_000), Op::Signal { signal, sync: false }]);
        let tasks = vec![waits(0, 0), waits(1, 1_000), wakes(2, 0), wakes(3, 1)];
        let run = outcome(&Scenario { policy: policy.parse().unwrap(), ..scenario(machine, tasks, host) });
        assert_eq!(run.wakeup_latency.sum_ns, 100 + 100, "{host:?}");
        assert!(run.counts.lost_claims > 0, "{host:?}");
        assert_eq!(run.elapsed_ns, 10_600, "{host:?}");
    }
}

/// As above, but the first search (100) ends at 10,100, and its wakee is queued at 10,400 (300 more). A search that
/// claims sends the second wakee to CPU 1: each waits for 400. Linux's searches under mainline see CPU 0 idle until
/// 10,400. A second waker that begins at 10,050 or 10,200 queues its wakee there too, where it waits until the first
/// has ended at 10,900: 850 since 10,050, or 700 since 10,200. One that begins at 10,350 would take CPU 0 as well, but
/// its search ends at 10,450, so it goes on for another 100 and finds CPU 1: 500.
#[test]
fn linux_s_searches_do_not_claim() {
    for (host, policy, second_ns, latencies_ns, elapsed_ns) in [
        (HostProfile::SchedExt, "linux-4.15", 10_200, [400, 400], 11_100),
        (HostProfile::Mainline, "linux-4.15+idle=nearest", 10_200, [400, 400], 11_100),
        (HostProfile::Mainline, "linux-4.15", 10_050, [400, 850], 11_400),
        (HostProfile::Mainline, "linux-4.15", 10_200, [400, 700], 11_400),
        (HostProfile::Mainline, "linux-4.15+idle=smt-balance", 10_200, [400, 700], 11_400),
        (HostProfile::Mainline, "linux-4.15", 10_350, [400, 500], 11_350),
    ] {
        let mut machine = machine(1, 4, 1);
        machine.costs.select_ns = 100;
        machine.costs.wakeup_ns = 300;
        let waits = |signal, start_ns| {
            let program = vec![Op::Wait { signal }, compute(500)];
            Task { start_ns, ..bound(&[0, 1], program) }
        };
        let wakes =
            |cpu, signal, work_ns| bound(&[cpu], vec![compute(work_ns), Op::Signal { signal, sync: false }]);
        let tasks = vec![waits(0, 0), waits(1, 1_000), wakes(2, 0, 10_000), wakes(3, 1, second_ns)];
        let run = outcome(&Scenario { policy: policy.parse().unwrap(), ..scenario(machine, tasks, host) });
        assert_eq!(
            run.wakeup_latency.sum_ns,
            latencies_ns.iter().sum::<u64>(),
            "{host:?} {policy} {second_ns}"
        );
        // Under mainline, tasks bound to one CPU are placed too when they start.
        let starts = if host == HostProfile::Mainline { 4 } else { 2 };
        assert_eq!(run.counts.selects, starts + 2, "a search that goes on counts once");
        assert_eq!(run.elapsed_ns, elapsed_ns, "{host:?} {policy}");
    }
}

/// A task that has waited for 20 ms preempts the one that runs on its CPU meanwhile, by an interrupt: wake-up 30, send
/// 20, flight 1,000, handling 7.
#[test]
fn a_wakee_preempts_on_another_cpu() {
    for host in HOSTS {
        let mut machine = machine(1, 2, 1);
        machine.costs.wakeup_ns = 30;
        machine.costs.ipi_send_ns = 20;
        machine.costs.ipi_flight_ns = by_distance(1_000, 1_000);
        machine.costs.ipi_handle_ns = 7;
        let waits = bound(&[1], vec![WAIT, compute(500)]);
        let wakes = bound(&[0], vec![compute(20_000_000), SIGNAL]);
        let runs = Task { start_ns: 5_000, ..bound(&[1], vec![compute(40_000_000)]) };
        let run = outcome(&scenario(machine, vec![waits, wakes, runs], host));
        assert_eq!(run.wakeup_latency.sum_ns, 30 + 20 + 1_000 + 7, "{host:?}");
        assert_eq!((run.wakeup_latency.count, run.counts.preemptions), (1, 1), "{host:?}");
    }
}

/// mainline: while an interrupt is on its way to another LLC, further wake-ups only join the list; all are queued
/// there.
#[test]
fn the_wake_list_needs_one_interrupt() {
    let mut machine = machine(2, 1, 1);
    machine.costs.ipi_flight_ns = by_distance(0, 100);
    machine.costs.wakeup_ns = 30;
    let waits = vec![Op::WaitGate { gate: 0 }, compute(500)];
    let tasks = vec![
        bound(&[1], waits.clone()),
        bound(&[1], waits.clone()),
        bound(&[1], waits),
        bound(&[0], vec![compute(10_000), Op::OpenGate { gate: 0 }]),
    ];
    let run = outcome(&scenario(machine, tasks, HostProfile::Mainline));
    assert_eq!((run.counts.ipis, run.counts.wakeups), (1, 3));
    // The target queues all three before it runs the first.
    assert_eq!(crate::common::values(&run.wakeup_latency), [190, 690, 1_190]);
    assert_eq!(run.elapsed_ns, 10_000 + 100 + 90 + 3 * 500);
}

/// The interrupts that start tasks take 7 ns. The wakee blocks at 10,000,007 ns, and its CPU balances for twice
/// 5,000, because two tasks share CPU 3, of which none may move. Woken meanwhile, at 10,003,507, it goes back there
/// under mainline, without a search, though CPU 2 idles: CPU 1 handles the interrupt in 7 ns when it has left the
/// task, and queues it in 30. sched_ext asks the policy, to which CPU 1 looks busy, and so does mainline for a task
/// that has left its CPU: 30 to queue it, 20 to send, 100 in flight, 7 to handle.
#[test]
fn a_task_goes_back_to_the_cpu_that_still_leaves_it() {
    for (host, after_ns, switched_in) in [
        (HostProfile::Mainline, 3_500, Some(10_000 + 7 + 30)),
        (HostProfile::Mainline, 12_500, Some(12_500 + 30 + 20 + 100 + 7)),
        (HostProfile::SchedExt, 3_500, None),
    ] {
        let mut machine = machine(1, 4, 1);
        let costs = &mut machine.costs;
        (costs.balance_ns, costs.wakeup_ns) = (5_000, 30);
        (costs.ipi_send_ns, costs.ipi_handle_ns) = (20, 7);
        costs.ipi_flight_ns = by_distance(100, 100);
        let wakee = task(1, vec![compute(10 * MS), WAIT, compute(500)]);
        let waker = bound(&[0], vec![compute(10 * MS + after_ns), SIGNAL]);
        let shares = bound(&[3], vec![compute(100 * MS)]);
        let mut seen = Seen::default();
        let scenario = scenario(machine, vec![wakee, waker, shares.clone(), shares], host);
        run_observed(&scenario, 1, &mut seen).unwrap();
        let blocked_ns = 10 * MS + 7;
        assert_eq!(seen.woken_ns, blocked_ns + after_ns, "{host:?}");
        let searches = host == HostProfile::SchedExt || after_ns > 10_000;
        assert_eq!(seen.decision.is_some(), searches, "{host:?} {after_ns}");
        match switched_in {
            Some(switched_in_ns) => assert_eq!(seen.switched_in, (blocked_ns + switched_in_ns, 1)),
            None => assert_ne!(seen.switched_in.1, 1, "it looks busy"),
        }
    }
}

/// A task that another CPU's interrupt asks to give way goes on for a while, also over its next step.
#[test]
fn an_interrupted_task_gives_way_after_its_call() {
    // Sending, flight and handling take 240 ns.
    for (delay_ns, latency_ns) in [(0, 240), (7_000, 7_240)] {
        let mut machine = machine(1, 2, 1);
        (machine.costs.ipi_send_ns, machine.costs.ipi_handle_ns) = (100, 50);
        machine.costs.ipi_flight_ns = by_distance(90, 90);
        machine.costs.remote_preempt_delay_ns = delay_ns;
        // The wakee waits from the beginning; the task on its CPU has run for 20 ms then, so it gives way. Its next
        // step comes about a microsecond after the wake-up.
        let wakee = bound(&[0], vec![WAIT, compute(MS)]);
        let busy = bound(&[0], vec![compute(20 * MS + 1_000), Op::OpenGate { gate: 0 }, compute(50 * MS)]);
        let waker = bound(&[1], vec![compute(20 * MS), SIGNAL]);
        let mut seen = Seen::default();
        let scenario = scenario(machine, vec![wakee, busy, waker], HostProfile::Mainline);
        run_observed(&scenario, 1, &mut seen).unwrap();
        assert_eq!((seen.switched_in.0 - seen.woken_ns, seen.switched_in.1), (latency_ns, 0), "{delay_ns}");
    }
}

/// A timer's interrupt takes 1,000 ns and wakes its task on the idle CPU, which needs 7,000 ns more before that runs. A
/// task that is interrupted pays for the interrupt only.
#[test]
fn an_idle_cpu_leaves_the_interrupt_and_its_idle_loop() {
    for (exit_ns, idle_latency_ns) in [(0, 0), (7_000, 7_000)] {
        for host in HOSTS {
            let mut machine = machine(1, 1, 1);
            (machine.costs.interrupt_ns, machine.costs.interrupt_exit_ns) = (1_000, exit_ns);
            let sleeper = task(0, vec![sleep(MS), compute(MS)]);
            let mut seen = Seen::default();
            let outcome =
                run_observed(&scenario(machine.clone(), vec![sleeper.clone()], host), 1, &mut seen).unwrap();
            assert_eq!(seen.switched_in.0 - seen.woken_ns, idle_latency_ns, "{host:?}");
            assert_eq!(outcome.elapsed_ns, 2 * MS + 1_000 + exit_ns, "{host:?}");
            let busy = task(0, vec![compute(3 * MS)]);
            let outcome =
                run_observed(&scenario(machine, vec![sleeper, busy], host), 1, &mut Seen::default()).unwrap();
            assert_eq!(outcome.elapsed_ns, 4 * MS + 1_000, "{host:?}: a busy CPU has no idle loop to leave");
        }
    }
}

/// A waker that execs after its call, for 50 us, has given way before that.
#[test]
fn a_waker_gives_way_before_it_execs() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 1);
        (machine.costs.preempt_delay_ns, machine.costs.exec_ns) = (7_000, 50_000);
        let wakee = task(0, vec![WAIT, compute(MS)]);
        let waker = task(0, vec![compute(20 * MS), SIGNAL, Op::Exec, compute(MS)]);
        let mut seen = Seen::default();
        let outcome = run_observed(&scenario(machine, vec![wakee, waker], host), 1, &mut seen).unwrap();
        assert_eq!((seen.woken_ns, seen.switched_in), (20 * MS, (20 * MS + 7_000, 0)), "{host:?}");
        assert_eq!(outcome.elapsed_ns, 22 * MS + 50_000, "{host:?}");
    }
}

/// A waker that reads, sleeps or waits next has given way before that, because it does so in another call.
#[test]
fn a_waker_gives_way_before_it_waits() {
    for host in HOSTS {
        for next in [recv(0), sleep(MS), Op::Wait { signal: 1 }] {
            let mut machine = machine(1, 1, 1);
            (machine.costs.preempt_delay_ns, machine.costs.dequeue_ns) = (7_000, 500);
            let answer = if next == recv(0) { send(0) } else { Op::Signal { signal: 1, sync: false } };
            let wakee = task(0, vec![WAIT, compute(MS), answer]);
            let waker = task(0, vec![compute(20 * MS), SIGNAL, next, compute(MS)]);
            let mut scenario = scenario(machine, vec![wakee, waker], host);
            scenario.workload_mut().signals = 2;
            assert_eq!(outcome(&scenario).counts.preemptions, 1, "{host:?} {next:?}");
        }
    }
}

/// A task that wakes another for which it has to give way first finishes its system call.
#[test]
fn a_waker_gives_way_after_its_call() {
    for (delay_ns, work_ns, switched_in_ns) in [(0, 50 * MS, 20 * MS), (7_000, 50 * MS, 20 * MS + 7_000)] {
        for host in HOSTS {
            let mut machine = machine(1, 1, 1);
            machine.costs.preempt_delay_ns = delay_ns;
            // The wakee waits from the beginning; the waker has run for 20 ms then, so it gives way.
            let wakee = task(0, vec![WAIT, compute(MS)]);
            let waker = task(0, vec![compute(20 * MS), SIGNAL, compute(work_ns)]);
            let mut seen = Seen::default();
            let outcome = run_observed(&scenario(machine, vec![wakee, waker], host), 1, &mut seen).unwrap();
            assert_eq!((seen.woken_ns, seen.switched_in), (20 * MS, (switched_in_ns, 0)), "{host:?}");
            assert_eq!(outcome.elapsed_ns, 71 * MS, "{host:?}: the rest of the work is done afterwards");
            // Linux charges the wakee from its wake-up on.
            let by_wakeup_ns = if host == HostProfile::Mainline { delay_ns } else { 0 };
            assert_eq!(outcome.task_cpu_time_ns, [MS + by_wakeup_ns, 70 * MS - by_wakeup_ns], "{host:?}");
        }
    }
}

/// The waker takes a mutex again 2,000 after it has woken a task for it: outside its system call, so it has given way
/// before that, and the wakee has the mutex at once.
#[test]
fn a_waker_gives_way_before_it_takes_a_lock() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 1);
        machine.costs.preempt_delay_ns = 7_000;
        let (lock, unlock) = (Op::Lock { lock: 0 }, Op::Unlock { lock: 0 });
        let wakee = task(0, vec![sleep(MS), lock, compute(MS), unlock]);
        let waker =
            task(0, vec![lock, compute(20 * MS), unlock, compute(2_000), lock, compute(20 * MS), unlock]);
        let mut scenario = scenario(machine, vec![wakee, waker], host);
        scenario.workload_mut().locks = vec![Lock { recorded: true, ..Lock::default() }];
        let mut seen = Seen::default();
        let outcome = run_observed(&scenario, 1, &mut seen).unwrap();
        assert_eq!((seen.woken_ns, seen.switched_in), (20 * MS, (20 * MS + 2_000, 0)), "{host:?}");
        assert_eq!((outcome.counts.wakeups, outcome.elapsed_ns), (2, 41 * MS + 2_000), "{host:?}");
    }
}

/// Of the wake-up's 1,000 ns the last 700 follow the queueing: the waker is charged until that, and gives way after
/// all of them.
#[test]
fn a_wakee_is_queued_inside_the_wake_up() {
    for (exit_ns, charged_until_ns) in [(0, 1_000), (700, 300), (5_000, 0)] {
        let mut machine = machine(1, 1, 1);
        (machine.costs.wakeup_ns, machine.costs.wakeup_exit_ns) = (1_000, exit_ns);
        machine.costs.preempt_delay_ns = 50;
        let wakee = task(0, vec![WAIT, compute(MS)]);
        let waker = task(0, vec![compute(20 * MS), SIGNAL, compute(50 * MS)]);
        let mut seen = Seen::default();
        let scenario = scenario(machine, vec![wakee, waker], HostProfile::Mainline);
        let outcome = run_observed(&scenario, 1, &mut seen).unwrap();
        assert_eq!(seen.queued, (20 * MS + charged_until_ns, 0), "{exit_ns}");
        assert_eq!(seen.switched_in, (20 * MS + 1_050, 0), "{exit_ns}");
        let of_wakee_ns = MS + 1_050 - charged_until_ns;
        assert_eq!(outcome.task_cpu_time_ns, [of_wakee_ns, 71 * MS + 1_000 - of_wakee_ns], "{exit_ns}");
        assert_eq!((outcome.time.wakeup_ns, outcome.elapsed_ns), (1_000, 71 * MS + 1_000), "{exit_ns}");
    }
}
