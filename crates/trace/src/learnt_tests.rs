// SPDX-License-Identifier: GPL-2.0-or-later
//! What recordings teach of their machines (learnt.rs): hand-computed cases.

use super::*;
use crate::between::{Between, Mark};
use crate::measured::MeasuredWake;

fn wakes(of: &[(u64, u64)]) -> Learnt {
    let wake = |&(idled_ns, latency_ns): &(u64, u64)| IdleWake { idled_ns, latency_ns };
    Learnt { idle_wakes: of.iter().map(wake).collect(), ..Learnt::default() }
}

fn exits(machine: &Machine) -> Vec<u64> {
    machine.costs.idle_states.iter().map(|state| state.exit_latency_ns).collect()
}

#[test]
fn exits_are_medians_less_what_comes_before() {
    let base = Machine::preset("smp-2").unwrap();
    let costs = &base.costs;
    let before_ns = costs.select_ns
        + costs.wakeup_ns
        + costs.ipi_send_ns
        + costs.ipi_flight_ns[Distance::Llc.index()]
        + costs.ipi_handle_ns;
    assert_eq!(costs.idle_states.len(), 3, "the preset's states");
    let deep_ns = costs.idle_states[2].after_ns;
    let mut of = Vec::new();
    for index in 0..21 {
        of.push((0, before_ns + 1_000 + index * 100));
        of.push((deep_ns, before_ns + 500));
    }
    // 1,000 + 10 x 100. The middle state has no samples, so it is like the first. No state wakes faster than a
    // shallower one, so all have the mean: of 2,000, 2,000 and 500, with as many samples.
    assert_eq!(exits(&wakes(&of).machine(&base, "r")), [1_500, 1_500, 1_500]);
}

/// Two states were measured, 1,000 and 4,000 ns. Of 230 wake-ups 210 are of the first state, and take 2,000 ns to leave
/// it; 20 are of the second one, which is too few to be usual: it is taken to be as much slower as the first.
#[test]
fn states_of_few_wake_ups_are_scaled_as_measured() {
    let base = Machine::preset("smp-2").unwrap();
    let flight_ns = base.costs.ipi_flight_ns[Distance::Llc.index()] + base.costs.ipi_handle_ns;
    let before_ns = base.costs.select_ns + base.costs.wakeup_ns + flight_ns;
    let mut learnt = wakes(&[(0, before_ns + 2_000); 210]);
    learnt.idle_wakes.extend(wakes(&[(1_000_000, before_ns + 90_000); FEWEST]).idle_wakes);
    let idle = |idle_ns, latency_ns| MeasuredWake {
        latency_ns: [latency_ns + flight_ns; 3],
        waker_ns: [0; 3],
        ..wake(WakeKind::Idle, idle_ns, 0, 0)
    };
    let local = MeasuredWake { waker_ns: [0; 3], ..wake(WakeKind::Local, 0, 0, 0) };
    learnt.measured.wakes = vec![local, idle(10_000, 1_000), idle(1_000_000, 4_000)];
    assert_eq!(exits(&learnt.machine(&base, "r")), [2_000, 8_000]);
    learnt.idle_wakes.truncate(230 - 1 - 20);
    learnt.idle_wakes.extend(wakes(&[(1_000_000, before_ns + 9_000); 40]).idle_wakes);
    assert_eq!(exits(&learnt.machine(&base, "r")), [2_000, 9_000], "40 of 249 are usual");
}

/// Of 5,000 ns from sched_waking to sched_wakeup, though wakers have their next event after 3,000: such wake-ups were
/// others. Where no waker of a task on the same CPU tells, wakers of idle CPUs do, which have their next event after
/// 9,000: the interrupt, 7,000, is in that.
#[test]
fn a_wake_up_ends_before_the_wakers_next_event() {
    let base = Machine::preset("smp-2").unwrap();
    let select_ns = base.costs.select_ns;
    let with = |local: usize| {
        let after = AfterWakes { idle_ns: vec![9_000; 30], local_ns: vec![3_000; local] };
        let mut learnt = Learnt {
            queueing_ns: vec![5_000; FEWEST],
            after_wakes: BTreeMap::from([(Next::Runtime, after)]),
            ..Learnt::default()
        };
        learnt.measured.wakes = vec![
            MeasuredWake { waker_ns: [500; 3], ..wake(WakeKind::Local, 0, 0, 0) },
            MeasuredWake { waker_ns: [7_500; 3], ..wake(WakeKind::Idle, 10_000, 0, 20_000) },
        ];
        learnt.machine(&base, "r")
    };
    assert_eq!(with(FEWEST).costs.wakeup_ns, 3_000 - select_ns);
    let machine = with(FEWEST - 1);
    assert_eq!((machine.costs.ipi_send_ns, machine.costs.wakeup_ns), (7_000, 2_000 - select_ns));
    assert!(machine.sources["wakeup_ns"].starts_with("bounded in r: lower quartile of 30 "));
}

#[test]
fn exits_do_not_fall_with_depth() {
    let of = |all: &[(u64, u64)]| {
        rising(&all.iter().map(|&(ns, samples)| Exit { ns, samples }).collect::<Vec<_>>())
    };
    assert_eq!(of(&[(17, 1), (14, 2), (30, 9)]), [15, 15, 30]);
    assert_eq!(of(&[(30, 1), (20, 1), (10, 1)]), [20, 20, 20]);
    assert_eq!((of(&[]), of(&[(5, 0), (3, 0)])), (vec![], vec![0, 0]));
}

/// Placing and queueing take 600 ns, say. An idle CPU takes 9,000 ns from a wake-up by an interrupt to the switch-in,
/// so it needs 8,400 more. Of interrupts in a task's time, half take 3,600 ns and wake one task, and half take 4,200
/// and wake two: 3,000 without the wake-ups.
#[test]
fn interrupts_and_the_way_out_of_idle() {
    let base = Machine::preset("smp-2").unwrap();
    let wake_ns = base.costs.select_ns + base.costs.wakeup_ns;
    let leaving_interrupt_ns: Vec<u64> = (0..21).map(|index| wake_ns + 8_400 - 1_000 + index * 100).collect();
    let mut learnt = Learnt { leaving_interrupt_ns, ..Learnt::default() };
    let machine = learnt.machine(&base, "r");
    assert_eq!(machine.costs.interrupt_exit_ns, 8_400);
    assert_eq!(machine.costs.interrupt_ns, base.costs.interrupt_ns, "nothing tells how long it takes");
    let woke = |wakes: u32| WakingInterrupt { took_ns: 3_000 + u64::from(wakes) * wake_ns, wakes };
    learnt.interrupts = [vec![woke(1); FEWEST / 2], vec![woke(2); FEWEST / 2]].concat();
    assert_eq!(learnt.machine(&base, "r").costs.interrupt_ns, 3_000);
    learnt.interrupts = vec![WakingInterrupt { took_ns: wake_ns / 2, wakes: 1 }; FEWEST];
    assert_eq!(learnt.machine(&base, "r").costs.interrupt_ns, 0, "the wake-ups take all of it");
    let without = learnt.without_recorder(10);
    assert_eq!(without.interrupts[0].took_ns, wake_ns / 2 - 30);
}

#[test]
fn forks_cost_no_more_than_there_was() {
    let base = Machine::preset("smp-2").unwrap();
    let of = |before_forks_ns: Vec<u64>| {
        let learnt = Learnt {
            before_forks_ns,
            before_execs_ns: vec![25_000; 40],
            before_exits_ns: vec![u64::MAX; 40],
            ..Learnt::default()
        };
        learnt.machine(&base, "r").costs
    };
    assert!(base.costs.fork_ns > 8_000, "the example's machine");
    let most = [vec![8_000; 5], vec![9_000; 35]].concat();
    assert_eq!(of(most.clone()).fork_ns, 8_000);
    assert!(base.costs.exec_ns > 25_000, "the example's machine");
    assert_eq!(of(most.clone()).exec_ns, 25_000);
    assert_eq!(of(most).exit_ns, base.costs.exit_ns, "there was more than that");
    assert_eq!(of(vec![8_000; FEWEST - 1]).fork_ns, base.costs.fork_ns, "too few");
}

#[test]
fn queueing_is_the_median_less_placing() {
    let base = Machine::preset("smp-2").unwrap();
    let queueing_ns: Vec<u64> = (0..21).map(|index| base.costs.select_ns + 1_000 + index * 100).collect();
    let preempting_ns = vec![base.costs.select_ns + 2_500; 20];
    let machine = Learnt { queueing_ns, preempting_ns, ..Learnt::default() }.machine(&base, "r");
    assert_eq!(machine.costs.wakeup_ns, 2_000);
    assert_eq!(machine.costs.preempt_delay_ns, 500, "the rest, with the learnt queueing taken off");
}

/// Of 3,000 ns a waker is charged after 1,000. A figure of less than that time has no rest.
#[test]
fn the_rest_of_a_wake_up_follows_the_account() {
    let base = Machine::preset("smp-2").unwrap();
    let of = |wakeup_ns, accounts: usize| {
        let queueing_ns = vec![wakeup_ns; FEWEST];
        let learnt = Learnt { queueing_ns, accounting_ns: vec![1_000; accounts], ..Learnt::default() };
        (learnt.machine(&base, "r").costs.wakeup_exit_ns, learnt.without_recorder(100).accounting_ns[0])
    };
    assert_eq!(of(3_000, FEWEST), (2_000, 900));
    assert_eq!((of(900, FEWEST).0, of(3_000, FEWEST - 1).0), (0, 0));
}

/// Of 1,200 ns from sched_waking to sched_wakeup. Messages of `t` tell more than what was measured.
#[test]
fn a_wake_up_costs_more_than_what_is_between_its_events() {
    let base = Machine::preset("smp-2").unwrap();
    let select_ns = base.costs.select_ns;
    let sends = |after_wake_ns, count| {
        let between = Between {
            at_once_ns: vec![450; FEWEST],
            after_wake_ns: vec![after_wake_ns; count],
            ..Between::default()
        };
        Pairs::from([(("t".to_owned(), Mark::Sent, Mark::Sent), between)])
    };
    let mut learnt = Learnt { queueing_ns: vec![1_200; FEWEST], event_cost_ns: 100, ..Learnt::default() };
    assert_eq!(learnt.machine(&base, "r").costs.wakeup_ns, 1_200 - select_ns);
    learnt.measured.wakes = vec![wake(WakeKind::Local, 0, 1_000, 2_600)];
    let machine = learnt.machine(&base, "r");
    assert_eq!(machine.costs.wakeup_ns, 1_100 + 3 * 100 - select_ns, "the median, and three events");
    assert!(machine.sources["wakeup_ns"].starts_with("measured at the end of r"));
    learnt.between = sends(2_450, 30);
    assert_eq!(learnt.machine(&base, "r").costs.wakeup_ns, 2_000 - select_ns);
    let without = learnt.without_recorder(100);
    assert_eq!(without.machine(&base, "r").costs.wakeup_ns, 1_700 - select_ns);
    learnt.between = sends(450, 30);
    assert_eq!(learnt.machine(&base, "r").costs.wakeup_ns, 1_200 - select_ns, "at least that");
}

#[test]
fn a_waker_goes_on_for_the_median_less_placing_and_queueing() {
    let base = Machine::preset("smp-2").unwrap();
    let before_ns = base.costs.select_ns + base.costs.wakeup_ns;
    let preempting_ns: Vec<u64> = (0..21).map(|index| before_ns + 2_000 + index * 100).collect();
    let machine = Learnt { preempting_ns, ..Learnt::default() }.machine(&base, "r");
    assert_eq!(machine.costs.preempt_delay_ns, 3_000);
    assert!(machine.sources["preempt_delay_ns"].starts_with("measured: median of 21 "));
}

#[test]
fn a_task_that_another_cpu_interrupts_goes_on_for_the_median_less_the_interrupt() {
    let base = Machine::preset("smp-2").unwrap();
    let costs = &base.costs;
    let interrupt_ns = costs.ipi_send_ns + costs.ipi_flight_ns[Distance::Llc.index()] + costs.ipi_handle_ns;
    let before_ns = costs.select_ns + costs.wakeup_ns + interrupt_ns;
    let with =
        |samples: usize| Learnt { interrupting_ns: vec![before_ns + 5_000; samples], ..Learnt::default() };
    let machine = with(FEWEST).machine(&base, "r");
    assert_eq!(machine.costs.remote_preempt_delay_ns, 5_000);
    assert!(machine.sources["remote_preempt_delay_ns"].starts_with("measured: median of 20 "));
    assert_eq!(with(FEWEST - 1).machine(&base, "r"), base);
    // Three events of the recorder lie between.
    assert_eq!(with(1).without_recorder(100).interrupting_ns, [before_ns + 4_700]);
}

/// 8,000 ns less 1,000 after a wake-up; 100 wakers go on to send a message, and 20 have another event.
#[test]
fn the_interrupt_to_an_idle_cpu_delays_the_next_event() {
    let base = Machine::preset("smp-2").unwrap();
    let after = |idle_ns, idle: usize, local_ns, local: usize| AfterWakes {
        idle_ns: vec![idle_ns; idle],
        local_ns: vec![local_ns; local],
    };
    let after_wakes = BTreeMap::from([
        (Next::Message, after(8_000, 100, 1_000, 20)),
        (Next::Other, after(5_000, 20, 4_000, 100)),
        (Next::Runtime, after(90_000, 900, 0, FEWEST - 1)),
    ]);
    let machine = Learnt { after_wakes, ..Learnt::default() }.machine(&base, "r");
    assert_eq!(machine.costs.ipi_send_ns, 7_000);
    assert_eq!(Learnt::default().machine(&base, "r"), base);
}

/// 99 wakers of idle CPUs have their next event 30,000 ns later than others, because they exit. Measured are 13,000
/// less 1,000, so that counts, until as many as 100 tell something else.
#[test]
fn few_wakers_tell_less_than_what_was_measured() {
    let base = Machine::preset("smp-2").unwrap();
    for (idle, local, send_ns) in [(99, 100, 12_000), (100, 99, 12_000), (100, 100, 30_000)] {
        let after = AfterWakes { idle_ns: vec![31_000; idle], local_ns: vec![1_000; local] };
        let mut learnt = Learnt { after_wakes: BTreeMap::from([(Next::Other, after)]), ..Learnt::default() };
        learnt.measured.wakes =
            vec![wake(WakeKind::Local, 0, 1_000, 0), wake(WakeKind::Idle, 10_000, 13_000, 20_000)];
        assert_eq!(learnt.machine(&base, "r").costs.ipi_send_ns, send_ns, "{idle} {local}");
    }
}

fn wake(kind: WakeKind, idle_ns: u64, waker_ns: u64, latency_ns: u64) -> MeasuredWake {
    MeasuredWake {
        kind,
        idle_ns,
        samples: 60,
        waker_ns: [waker_ns, waker_ns + 100, waker_ns + 900],
        latency_ns: [latency_ns, latency_ns + 500, latency_ns + 90_000],
        latency_percentiles_ns: None,
        cold_ns: [0; 3],
        warm_ns: [0; 3],
    }
}

/// 2,000 ns more than 16,000 are 12 %. A deeper state is no warmer; older recordings had other work.
#[test]
fn how_cold_an_idle_state_is() {
    let base = Machine::preset("smp-2").unwrap();
    let cold = |idle_ns, cold_ns, warm_ns| MeasuredWake {
        cold_ns: [cold_ns; 3],
        warm_ns: [warm_ns; 3],
        ..wake(WakeKind::Idle, idle_ns, 9_000, 20_000)
    };
    let wakes = vec![
        cold(10_000, 441, 0),
        cold(100_000, 2_000, 16_000),
        cold(1_000_000, 1_000, 16_000),
        cold(10_000_000, 48_000, 16_000),
    ];
    let measured = Measured { wakes, busy_percent: Some(0) };
    let machine = Learnt { measured, ..Learnt::default() }.machine(&base, "r");
    let percents: Vec<u32> = machine.costs.idle_states.iter().map(|state| state.cold_percent).collect();
    assert_eq!(percents, [0, 12, 12, 300]);
}

/// What a recording of one CPU knows of others.
#[test]
fn what_was_measured_stands_in_for_what_was_not_seen() {
    let base = Machine::preset("smp-2").unwrap();
    let wakes = vec![
        wake(WakeKind::Local, 0, 1_000, 2_600),
        wake(WakeKind::Idle, 10_000, 6_000, 20_000),
        wake(WakeKind::Idle, 100_000, 9_000, 30_000),
        wake(WakeKind::Idle, 1_000_000, 9_500, 25_000),
    ];
    let flight_ns = base.costs.ipi_flight_ns[Distance::Llc.index()] + base.costs.ipi_handle_ns;
    for (busy_percent, more_ns) in [(Some(3), 500), (None, 500), (Some(90), 0)] {
        let measured = Measured { wakes: wakes.clone(), busy_percent };
        let machine = Learnt { measured, ..Learnt::default() }.machine(&base, "r");
        assert_eq!(machine.costs.ipi_send_ns, 8_000, "the median of three, less the local one");
        let states: Vec<(u64, u64)> =
            machine.costs.idle_states.iter().map(|state| (state.after_ns, state.exit_latency_ns)).collect();
        let exits = [20_000, 30_000, 30_000].map(|ns| ns + more_ns - 8_000 - flight_ns);
        assert_eq!(states, [(0, exits[0]), (31_622, exits[1]), (316_227, exits[2])]);
    }
}

#[test]
fn ticks_are_learnt_from_entry_to_exit() {
    let base = Machine::preset("smp-2").unwrap();
    let learnt = Learnt { ticks_ns: vec![4_000; FEWEST], ..Learnt::default() };
    assert_eq!(learnt.machine(&base, "r").costs.tick_ns, 4_000);
}

/// 37 messages after a preemption took 20,000 ns more than others, but half of all switches are followed by an event
/// within 700 ns, or 900 where the process changes. With no switch between threads seen, that is what they cost, too.
#[test]
fn a_switch_costs_no_more_than_what_follows_it_takes() {
    let base = Machine::preset("smp-2").unwrap();
    let between = Between {
        at_once_ns: vec![1_000; FEWEST],
        after_preemption_ns: [vec![21_000; 37], Vec::new()],
        ..Between::default()
    };
    let mut learnt = Learnt {
        between: BTreeMap::from([(("t".to_owned(), Mark::Sent, Mark::Sent), between)]),
        after_switches_ns: [Vec::new(), vec![900; FEWEST]],
        ..Learnt::default()
    };
    let switches = |learnt: &Learnt| {
        let costs = learnt.machine(&base, "r").costs;
        (costs.switch_thread_ns, costs.switch_process_ns)
    };
    assert_eq!(switches(&learnt), (900, 900));
    learnt.after_switches_ns[0] = vec![700; FEWEST];
    assert_eq!(switches(&learnt), (700, 900));
    assert_eq!(learnt.without_recorder(100).after_switches_ns[1][0], 800);
}

#[test]
fn the_tick_is_one_that_kernels_are_built_with() {
    let base = Machine::preset("smp-2").unwrap();
    for (usual_ns, period_ns) in [(999_000, 1_000_000), (3_340_000, 3_333_333), (700_000, 4_000_000)] {
        let learnt = Learnt { between_ticks_ns: vec![usual_ns; FEWEST], ..Learnt::default() };
        assert_eq!(learnt.machine(&base, "r").costs.tick_period_ns, period_ns, "{usual_ns}");
    }
}

#[test]
fn the_cost_of_events_is_taken_off() {
    let after = AfterWakes { idle_ns: vec![9_000], local_ns: vec![3_000] };
    let learnt = Learnt {
        queueing_ns: vec![2_000],
        idle_wakes: vec![IdleWake { idled_ns: 5, latency_ns: 1_000 }],
        after_wakes: BTreeMap::from([(Next::Message, after.clone()), (Next::Runtime, after)]),
        ..Learnt::default()
    };
    let without = learnt.without_recorder(600);
    assert_eq!((&without.queueing_ns[..], without.idle_wakes[0].latency_ns), (&[1_400][..], 0));
    // With the waker's account inside, or after it.
    for (next, local_ns) in [(Next::Message, 1_200), (Next::Runtime, 1_800)] {
        let expected = AfterWakes { idle_ns: vec![8_400], local_ns: vec![local_ns] };
        assert_eq!(without.after_wakes[&next], expected);
    }
}

#[test]
fn few_wake_ups_teach_nothing() {
    let base = Machine::preset("smp-2").unwrap();
    assert_eq!(wakes(&[(0, 9_000); FEWEST - 1]).machine(&base, "r"), base);
}

/// The interrupt's way takes 2,000 ns. Exits of 10,000 ns take 9,000 to 30,000, of 40 us 1,000 less to 20,000 more:
/// fifteen samples of these do not tell that themselves. Two of 240 samples are beyond the percentile 99, but not
/// beyond the next, so a hiccup of 7 ms counts for nothing. If others used the CPU, all of the tail is theirs.
#[test]
fn exits_differ_as_measured_where_no_wake_up_tells() {
    let mut base = Machine::preset("smp-2").unwrap();
    base.costs.ipi_flight_ns[Distance::Llc.index()] = 2_000;
    base.costs.ipi_handle_ns = 0;
    let idle = |idle_ns, samples, latency_ns: u64, tail_us| MeasuredWake {
        samples,
        waker_ns: [0; 3],
        latency_ns: [latency_ns; 3],
        latency_percentiles_ns: Some(
            [9, 10, 10, 10, 10, 10, 10, 10, tail_us, 7_000, 7_000].map(|us| us * 1_000 + 2_000),
        ),
        ..wake(WakeKind::Idle, idle_ns, 0, 0)
    };
    let local = MeasuredWake { waker_ns: [0; 3], ..wake(WakeKind::Local, 0, 0, 0) };
    let wakes = vec![local, idle(10_000, 240, 12_000, 30), idle(10_000_000, 15, 42_000, 900)];
    let percents = |busy_percent| {
        let measured = Measured { wakes: wakes.clone(), busy_percent };
        let machine = Learnt { measured, ..Learnt::default() }.machine(&base, "r");
        machine.costs.idle_states.iter().map(|state| state.exit_percent.percents()).collect::<Vec<_>>()
    };
    let with_ends = |first, last| {
        let mut all = [100; 11];
        all[0] = first;
        all[8..].fill(last);
        all
    };
    assert_eq!(percents(Some(25)), [with_ends(90, 300), with_ends(98, 150)]);
    assert_eq!(percents(Some(26)), [[100; 11]; 2]);
}
