// SPDX-License-Identifier: GPL-2.0-or-later
//! From CPU time of the recorded machine to work: capacity and SMT, and one cost of the kernel at a time.

use crate::script::{Script, compute, read_text, signal};
use wakelab_machine::{Costs, Distance, IdleState, Machine};
use wakelab_trace::{Options, Recording};
use wakelab_workload::{DEFAULT_FOOTPRINT_BYTES, Op, Source};

/// A machine with two threads per core. All costs are zero but those that `change` sets.
fn machine(change: impl FnOnce(&mut Machine)) -> Machine {
    let mut machine = Machine::preset("xeon-2s22c2t").expect("a preset");
    machine.costs = Costs::free(2);
    machine.topology.cpus.iter_mut().for_each(|cpu| cpu.capacity = 1024);
    change(&mut machine);
    machine
}

fn costs(change: impl FnOnce(&mut Costs)) -> Machine {
    machine(|machine| change(&mut machine.costs))
}

/// The first CPU other than 0 on the same core, and the first on another core of its LLC.
fn sibling_and_neighbour() -> (u32, u32) {
    let machine = machine(|_| ());
    let distances = machine.topology.distances();
    let first = |near: Distance| {
        (1..machine.topology.nr_cpus() as u32)
            .find(|&cpu| distances.between(0, cpu) == near)
            .unwrap_or_else(|| panic!("no CPU at {near:?}"))
    };
    (first(Distance::Smt), first(Distance::Llc))
}

fn read(script: &Script, machine: Machine) -> Recording {
    let options = Options { strict: true, recorded_on: Some(machine), ..Options::default() };
    read_text(&script.text, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// The program of t1.
fn program(script: &Script, machine: Machine) -> Vec<Op> {
    let recording = read(script, machine);
    let task = recording.workload.tasks.into_iter().find(|task| task.name == "t1");
    task.expect("t1 is there").program
}

#[test]
fn worked_example() {
    let (sibling, _) = sibling_and_neighbour();
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(sibling, 600, 0, "R", 2)
        .switch(0, 1000, 1, "S", 0)
        .switch(sibling, 1000, 2, "S", 0);
    let machine = machine(|machine| {
        machine.topology.cpus[0].capacity = 512;
        machine.costs.smt_speed = vec![1024, 600];
    });
    let recording = read(&script, machine);
    let work: Vec<&[Op]> = recording.workload.tasks.iter().map(|task| &task.program[..]).collect();
    // t2 has 400 x 600 / 1024 = 234.
    assert_eq!(work, [[compute(417)], [compute(234)]]);
    assert_eq!(recording.busy_ns, 1400);
}

/// t1 runs from 0 to 1,000 and wakes t2 on an idle CPU at 500.
fn a_wake() -> Script {
    a_wake_queued(None)
}

/// The same, and t1 has queued t2 at `queued_ns`.
fn a_wake_queued(queued_ns: Option<u64>) -> Script {
    let (_, neighbour) = sibling_and_neighbour();
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).waking(0, 500, 1, 2);
    if let Some(queued_ns) = queued_ns {
        let fields = format!("comm=t2 pid=2 prio=120 target_cpu={neighbour:03}");
        script.event(0, queued_ns, 1, "sched:sched_wakeup", &fields);
    }
    script.switch(neighbour, 600, 0, "R", 2).switch(0, 1000, 1, "S", 0).switch(neighbour, 1100, 2, "S", 0);
    script
}

#[test]
fn one_cost_at_a_time() {
    let cases: [(&str, Machine, u64, u64); 5] = [
        ("nothing", costs(|_| ()), 500, 500),
        ("the switch", costs(|costs| costs.switch_thread_ns = 30), 470, 500),
        ("placing and queueing", costs(|costs| (costs.select_ns, costs.wakeup_ns) = (20, 10)), 500, 470),
        ("balancing before idling", costs(|costs| costs.balance_ns = 40), 500, 460),
        // At 300, 600 and 900.
        ("ticks", costs(|costs| (costs.tick_period_ns, costs.tick_ns) = (300, 10)), 500, 470),
    ];
    for (what, machine, before_ns, after_ns) in cases {
        assert_eq!(program(&a_wake(), machine), [compute(before_ns), signal(0), compute(after_ns)], "{what}");
    }
}

#[test]
fn what_the_recording_measures_counts() {
    let (_, neighbour) = sibling_and_neighbour();
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .waking(0, 500, 1, 2)
        .event(0, 560, 1, "sched:sched_wakeup", &format!("comm=t2 pid=2 prio=120 target_cpu={neighbour:03}"))
        .switch(neighbour, 600, 0, "R", 2)
        .event(0, 650, 1, "timer:hrtimer_expire_entry", "hrtimer=1 function=other now=1")
        .event(0, 680, 1, "timer:hrtimer_expire_exit", "hrtimer=1")
        .event(0, 700, 1, "timer:hrtimer_expire_entry", "hrtimer=1 function=hrtimer_wakeup now=1")
        .waking(0, 720, 1, 3)
        .event(0, 750, 1, "timer:hrtimer_expire_exit", "hrtimer=1")
        .runtime(0, 980, 1, 1, 980)
        .switch(0, 1000, 1, "S", 0)
        .switch(neighbour, 1100, 2, "S", 0);
    let machine = costs(|costs| {
        (costs.select_ns, costs.wakeup_ns, costs.interrupt_ns, costs.balance_ns) = (7000, 7000, 7000, 10);
        costs.ipi_send_ns = 7000;
    });
    // 60 for the wake-up until its second event, which contain the interrupt to the idle CPU, and as much after it; 50
    // in the interrupt that wakes t3, 20 since the scheduler's last account. A replay has no interrupt at 650, so that
    // is the task's.
    let work = |after_ns| [compute(500), signal(0), compute(after_ns)];
    assert_eq!(program(&script, machine.clone()), work(500 - 2 * 60 - 50 - 20));
    // An event costs 10, and is no part of what was measured: sched_waking is in the wake-up, two events in the
    // interrupt, the account in the look for another task. One event comes before the wake-up, and eight after it.
    let options = Options { recorded_on: Some(machine), event_cost_ns: Some(10), ..Options::default() };
    let recording = read_text(&script.text, &options).expect("it is a recording");
    let after_ns = 500 - 2 * (60 - 10) - (50 - 20) - (20 - 10) - 8 * 10;
    assert_eq!(crate::script::program(&recording, "t1"), [compute(500 - 10), signal(0), compute(after_ns)]);
}

/// A wake-up that usually costs 5 took 60 until its second event. That is more than eight times as much, but an
/// interrupt of 100 to the idle CPU is in it, so all of it is taken off, and as much of the 5 as follows.
#[test]
fn a_wake_up_with_an_interrupt_may_take_long() {
    let script = a_wake_queued(Some(560));
    for (send_ns, taken_ns) in [(100, 60), (0, 40)] {
        let machine = costs(|costs| (costs.wakeup_ns, costs.ipi_send_ns) = (5, send_ns));
        assert_eq!(program(&script, machine), [compute(500), signal(0), compute(500 - taken_ns)]);
    }
}

/// CPU 1 idles from 20 on, and nothing tells of its switch to t1, which has run for 15 at 75. The CPU takes 10 to leave
/// its idle state, 6 for the interrupt and 4 for the wake-up, so the sleep was over at 40; but it cannot be over before
/// the CPU idled.
#[test]
fn an_unseen_wake_up_of_an_idle_cpu_was_due_before_the_switch() {
    for (exit_ns, slept_ns) in [(10, 20), (50, 0)] {
        let mut script = Script::default();
        script
            .switch(1, 0, 0, "R", 1)
            .switch(1, 20, 1, "S", 0)
            .runtime(1, 75, 1, 1, 15)
            .switch(1, 80, 1, "S", 0);
        let machine = costs(|costs| {
            costs.idle_states =
                vec![IdleState { after_ns: 0, exit_latency_ns: exit_ns, ..IdleState::default() }];
            (costs.interrupt_ns, costs.wakeup_ns) = (6, 4);
        });
        let options = Options { recorded_on: Some(machine), ..Options::default() };
        let recording = read_text(&script.text, &options).expect("it is a recording");
        let sleep = Op::Sleep { delay_ns: slept_ns, source: Source::Unknown };
        // What follows the last account is no work.
        assert_eq!(crate::script::program(&recording, "t1"), [compute(20), sleep, compute(15)]);
    }
}

/// After 49,900 of idling, 25,000 of work take 20 % longer. t1 has done 10,000 of them in 12,000, and t2 the rest in
/// 18,000, and 12,000 more.
#[test]
fn what_a_cpu_does_slowly_after_it_has_idled_is_no_work() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(0, 100, 1, "S", 0).switch(0, 50_000, 0, "R", 1);
    script.switch(0, 62_000, 1, "X", 2).switch(0, 92_000, 2, "X", 0);
    let machine = costs(|costs| {
        let state = |after_ns, cold_percent| IdleState {
            after_ns,
            exit_latency_ns: 0,
            cold_percent,
            ..IdleState::default()
        };
        costs.idle_states = vec![state(0, 0), state(1_000, 20)];
    });
    let options = Options { recorded_on: Some(machine), ..Options::default() };
    let recording = read_text(&script.text, &options).expect("it is a recording");
    let sleep = Op::Sleep { delay_ns: 49_900, source: Source::Unknown };
    assert_eq!(crate::script::program(&recording, "t1"), [compute(100), sleep, compute(10_000)]);
    assert_eq!(crate::script::program(&recording, "t2"), [compute(27_000)]);
}

#[test]
fn births_and_ends() {
    let (_, neighbour) = sibling_and_neighbour();
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .fork(0, 400, 1, 2)
        .switch(neighbour, 450, 0, "R", 2)
        .switch(neighbour, 500, 2, "X", 0)
        .switch(0, 1000, 1, "X", 0);
    let machine = costs(|costs| (costs.fork_ns, costs.exit_ns) = (35, 25));
    let recording = read(&script, machine);
    let [t1, t2] = &recording.workload.tasks[..] else { panic!("two tasks") };
    assert_eq!(t1.program, [compute(365), Op::Fork { task: 1 }, compute(575)]);
    assert_eq!(t2.program, [compute(25)]);
}

/// t2 exits from 450 on, wakes t1 at 490, and leaves its CPU at 500. The work of an exit, 25, is taken off before 450,
/// and comes then, before the wake-up.
#[test]
fn an_exit_is_done_before_the_parent_is_woken() {
    let (_, neighbour) = sibling_and_neighbour();
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(0, 100, 1, "S", 0)
        .switch(neighbour, 400, 0, "R", 2)
        .event(neighbour, 450, 2, "sched:sched_process_exit", "comm=t2 pid=2 prio=120")
        .waking(neighbour, 490, 2, 1)
        .switch(neighbour, 500, 2, "X", 0)
        .switch(0, 600, 0, "R", 1)
        .switch(0, 700, 1, "X", 0);
    let recording = read(&script, costs(|costs| costs.exit_ns = 25));
    let t2 = recording.workload.tasks.iter().find(|task| task.name == "t2").expect("t2");
    let signal = Op::Signal { signal: 0, sync: false };
    assert_eq!(t2.program, [compute(25), Op::BeginExit, compute(40), signal, compute(10)]);
}

#[test]
fn an_interrupt_preempts() {
    let (_, neighbour) = sibling_and_neighbour();
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(neighbour, 0, 0, "R", 3)
        .waking(neighbour, 900, 3, 2)
        .switch(0, 1000, 1, "R", 2)
        .switch(0, 1100, 2, "S", 0);
    assert_eq!(program(&script, costs(|costs| costs.ipi_handle_ns = 12)), [compute(988)]);
}

#[test]
fn caches_are_refilled_of_what_others_pushed_out() {
    let (_, neighbour) = sibling_and_neighbour();
    // 32 KiB are 512 lines; at 1 ns each and 8 at a time that takes 64 ns, from another core at 2 ns each 128.
    assert_eq!(DEFAULT_FOOTPRINT_BYTES, 512 * 64);
    let refill = |cache_bytes: u64| {
        costs(|costs| {
            (costs.line_bytes, costs.lines_in_flight, costs.core_cache_bytes) = (64, 8, cache_bytes);
            costs.line_transfer_ps[Distance::Llc.index()] = 2000;
            costs.llc_hit_ps = 1000;
        })
    };
    // t1 for 500, then another task or none, then t1 for 500.
    let switches = |between: u32, cpu: u32| {
        let mut script = Script::default();
        script.switch(0, 0, 0, "R", 1).switch(0, 500, 1, "R", between).switch(
            0,
            900,
            between,
            "R",
            if cpu == 0 { 1 } else { 0 },
        );
        if cpu != 0 {
            script.switch(cpu, 900, 0, "R", 1);
        }
        script.switch(cpu, 1400, 1, "X", 0);
        script
    };
    let kib = 1024;
    assert_eq!(program(&switches(0, 0), refill(48 * kib)), [compute(1000)], "nobody ran");
    assert_eq!(program(&switches(2, 0), refill(64 * kib)), [compute(1000)], "t2 ran, and both fit");
    // 32 + 32 - 48 = 16 KiB.
    assert_eq!(program(&switches(2, 0), refill(48 * kib)), [compute(968)], "t2 pushed out 16 KiB");
    assert_eq!(program(&switches(0, neighbour), refill(48 * kib)), [compute(872)], "on another core");
}

#[test]
fn no_more_is_taken_off_than_there_is() {
    let recording = read(&a_wake(), costs(|costs| costs.switch_thread_ns = 5000));
    // t1: 1,000 of 5,000, half of it until it wakes t2; t2: 500 of 5,000.
    assert_eq!(recording.workload.tasks[0].program, [signal(0)]);
    assert_eq!(recording.workload.tasks[1].program, [Op::Wait { signal: 0 }]);
    assert_eq!(recording.explained.overhead_clamped_ns, 8500);
}

#[test]
fn a_timer_was_due_before_its_core_was_awake() {
    let (sibling, _) = sibling_and_neighbour();
    let script = |sibling_until_ns: u64| {
        let mut script = Script::default();
        script
            .switch(0, 0, 0, "R", 1)
            .switch(sibling, 0, 0, "R", 2)
            .switch(0, 100, 1, "S", 0)
            .switch(sibling, sibling_until_ns, 2, "S", 0)
            .event(0, 300, 0, "timer:hrtimer_expire_entry", "hrtimer=1 function=hrtimer_wakeup now=1")
            .waking(0, 310, 0, 1)
            .event(0, 320, 0, "timer:hrtimer_expire_exit", "hrtimer=1")
            .switch(0, 330, 0, "R", 1)
            .switch(0, 350, 1, "X", 0);
        script
    };
    let machine = || {
        costs(|costs| {
            let state =
                |after_ns, exit_latency_ns| IdleState { after_ns, exit_latency_ns, ..IdleState::default() };
            costs.idle_states = vec![state(0, 5), state(150, 20)];
        })
    };
    let slept = |delay_ns| [compute(100), Op::Sleep { delay_ns, source: Source::Timer }, compute(20)];
    // The core has been idle since 100, or since 250.
    assert_eq!(program(&script(100), machine()), slept(300 - 20 - 100));
    assert_eq!(program(&script(250), machine()), slept(300 - 5 - 100));
}

/// The look for another task is measured; going to sleep costs at least as much as a replay charges for it, and for
/// balancing before a CPU idles.
#[test]
fn a_sleep_costs_what_a_replay_charges() {
    for (accounted_ns, next, work_ns) in [(980, 2, 900), (700, 2, 700), (980, 0, 880), (100, 2, 200)] {
        let mut script = Script::default();
        script.switch(0, 0, 0, "R", 1).runtime(0, accounted_ns, 1, 1, accounted_ns);
        script.switch(0, 1_000, 1, "S", next);
        for sleep_ns in [0, 50] {
            let of = |costs: &mut Costs| {
                (costs.sleep_ns, costs.dequeue_ns, costs.balance_ns) = (sleep_ns, 100, 20)
            };
            assert_eq!(program(&script, costs(of))[0], compute(work_ns - sleep_ns), "{accounted_ns} {next}");
        }
    }
}

/// A task works 30 ns, sleeps, and works 400 ns. Of a sleep's 100 ns, 70 come after it; of the switch's 50 ns, what is
/// more than the 30 ns is not taken off later.
#[test]
fn a_part_of_a_sleep_comes_after_it() {
    for (sleep_ns, dequeue_ns, work_ns) in [(100, 0, 330), (0, 50, 400), (100, 50, 300)] {
        let mut script = Script::default();
        script.switch(0, 0, 0, "R", 1).switch(0, 30, 1, "S", 2).waking(0, 500, 2, 1);
        script.switch(0, 600, 2, "S", 1).switch(0, 1_000, 1, "X", 0);
        let of = |costs: &mut Costs| (costs.sleep_ns, costs.dequeue_ns) = (sleep_ns, dequeue_ns);
        let work = |op: &Op| if let Op::Compute { work_ns, .. } = op { *work_ns } else { 0 };
        let program = program(&script, costs(of));
        assert_eq!(program.iter().map(work).sum::<u64>(), work_ns, "{program:?}");
    }
}

/// A waker is charged 400 ns after it begins to wake a task of its CPU. Another account is not its own, and one after
/// the wake-up tells nothing.
#[test]
fn the_account_inside_a_wake_up_tells_when_the_wakee_is_queued() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).waking(0, 1_000, 1, 2).runtime(0, 1_300, 1, 3, 300);
    script.runtime(0, 1_400, 1, 1, 1_400).wakeup(0, 1_900, 1, 2).runtime(0, 2_500, 1, 1, 1_100);
    script.switch(0, 3_000, 1, "S", 2);
    assert_eq!(script.read().learnt.accounting_ns, [400]);
}
