// SPDX-License-Identifier: GPL-2.0-or-later
//! What waits are attributed to, one hand-computed case for each cause. The checker compares the sums on every run; the
//! random ones of properties.rs are among them.

use wakelab_machine::{IdleState, Machine};
use wakelab_sim::{Cause, HostProfile, Scenario, Waits, run_explained};
use wakelab_workload::{Group, Op, Quota, Source, Task};

use crate::common::{HOSTS, MS, bound, compute, machine, recv, scenario, send, sleep, task};

fn named(name: &str, task: Task) -> Task {
    Task { name: name.into(), ..task }
}

fn explained(scenario: &Scenario) -> Waits {
    let outcome = run_explained(scenario, 1, 100).unwrap_or_else(|error| panic!("{error}"));
    outcome.waits.expect("it was asked for")
}

/// The causes of the waits of the tasks of one name, by time.
fn causes_of(waits: &Waits, name: &str) -> Vec<(String, u64)> {
    let number = waits.who.iter().position(|who| who.name == name).expect("a task has this name") as u32;
    let of_name = waits.by_name.iter().find(|waits| waits.who == number).expect("it is judged");
    let words = |&(cause, ns): &(Cause, u64)| match cause {
        Cause::Behind(who) => (format!("behind {}", waits.who[who as usize].name), ns),
        other => (format!("{other:?}"), ns),
    };
    assert_eq!(of_name.causes.iter().map(|(_, ns)| ns).sum::<u64>(), of_name.sum_ns);
    of_name.causes.iter().map(words).collect()
}

fn expect(waits: &Waits, name: &str, expected: &[(&str, u64)]) {
    let expected: Vec<(String, u64)> = expected.iter().map(|&(cause, ns)| (cause.to_owned(), ns)).collect();
    assert_eq!(causes_of(waits, name), expected, "{name}");
}

/// One CPU, a switch takes 7. `a` is switched in at 0 and exits at 107. `b` begins at 10, and `c`, which comes first in
/// the queue because of its weight, at 20: it runs from 107 to 124. `b` waited for both, with their switches.
#[test]
fn a_task_waits_behind_those_that_run_before_it() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 1);
        machine.costs.switch_thread_ns = 7;
        machine.costs.switch_process_ns = 7;
        let tasks = [("a", 0, 1024, 100), ("b", 10, 1024, 50), ("c", 20, 88761, 10)];
        let tasks = tasks.map(|(name, start_ns, weight, work_ns)| {
            named(name, Task { start_ns, weight, ..bound(&[0], vec![compute(work_ns)]) })
        });
        let waits = explained(&scenario(machine, tasks.to_vec(), host));
        expect(&waits, "a", &[]);
        expect(&waits, "b", &[("behind a", 97), ("behind c", 17)]);
        expect(&waits, "c", &[("behind a", 87)]);
        let longest = &waits.longest[0];
        assert_eq!((longest.task, longest.since_ns, longest.waited_ns, longest.cpu), (1, 10, 114, 0));
        assert_eq!(longest.causes, [(Cause::Behind(0), 97), (Cause::Behind(2), 17)]);
        assert_eq!(waits.longest.iter().map(|wait| wait.waited_ns).collect::<Vec<_>>(), [114, 87, 0]);
    }
}

/// One CPU; a timer's interrupt takes 70, a wake-up 5. `s` sleeps from 0 to 200; `a` runs from 0 on and would end at
/// 1,000. `b` waits behind it and, from 200 to 275, for the interrupt and its wake-up. `s` waits 5 for the wake-up.
#[test]
fn an_interrupt_lets_a_queue_wait() {
    let mut machine = machine(1, 1, 1);
    machine.costs.interrupt_ns = 70;
    machine.costs.wakeup_ns = 5;
    let tasks = vec![
        named("s", bound(&[0], vec![Op::Sleep { delay_ns: 200, source: Source::Device }, compute(1)])),
        named("a", bound(&[0], vec![compute(1_000)])),
        named("b", bound(&[0], vec![compute(10)])),
    ];
    let waits = explained(&scenario(machine, tasks, HostProfile::Mainline));
    expect(&waits, "s", &[("WakeUp", 5)]);
    let of_b = causes_of(&waits, "b");
    assert!(of_b.contains(&("Interrupt".to_owned(), 75)), "{of_b:?}");
    assert!(of_b.iter().all(|(cause, _)| cause == "Interrupt" || cause.starts_with("behind")), "{of_b:?}");
}

/// `a` on CPU 0 wakes `b` on CPU 1, which idles deeply: 5 for the wake-up, 20 to send the interrupt and 300 until it
/// arrives, 500 to leave the idle state, 7 to handle the interrupt. In another LLC, CPU 1 makes the wake-up itself when
/// it has handled the interrupt, unless sched_ext makes wake-ups.
#[test]
fn an_idle_exit_is_told_from_the_wake_up() {
    let priced = |llcs: u32, cores: u32| -> Machine {
        let mut machine = machine(llcs, cores, 1);
        let costs = &mut machine.costs;
        (costs.wakeup_ns, costs.ipi_send_ns, costs.ipi_handle_ns) = (5, 20, 7);
        costs.ipi_flight_ns = [300; wakelab_machine::Distance::COUNT];
        costs.idle_states = vec![
            IdleState::default(),
            IdleState { after_ns: 1_000, exit_latency_ns: 500, ..IdleState::default() },
        ];
        machine
    };
    let tasks = || {
        vec![
            named("a", bound(&[0], vec![compute(5_000), send(0), compute(10)])),
            named("b", bound(&[1], vec![recv(0), compute(1)])),
        ]
    };
    for host in HOSTS {
        let waits = explained(&scenario(priced(1, 2), tasks(), host));
        let woken = waits.longest.iter().find(|wait| wait.task == 1).expect("b waits");
        assert_eq!(
            woken.causes,
            [(Cause::IdleExit, 500), (Cause::Schedule, 327), (Cause::WakeUp, 5)],
            "{host:?}"
        );
        assert_eq!((woken.woken_by, woken.idle_elsewhere_ns), (Some(0), 0));
    }
}

/// The group has 3 ms in each 10 ms, on one CPU. What its task waits is what its group was throttled.
#[test]
fn a_quota_is_a_cause_of_its_own() {
    let quota = Some(Quota { quota_ns: 3 * MS, period_ns: 10 * MS });
    let spins = Task { group: Some(0), ..bound(&[0], vec![compute(30 * MS)]) };
    let mut scenario = scenario(machine(1, 1, 1), vec![named("a", spins)], HostProfile::Mainline);
    scenario.workload_mut().groups = vec![Group { name: "g".into(), parent: None, shares: 1024, quota }];
    let outcome = run_explained(&scenario, 1, 0).unwrap();
    let throttled_ns = outcome.groups[0].throttled_ns.expect("it has a quota");
    assert!(throttled_ns > 50 * MS, "{throttled_ns}");
    expect(&outcome.waits.unwrap(), "a", &[("Throttled", throttled_ns)]);
}

/// `d` runs on CPU 0 until 100 us and sleeps for 50, while `a`, bound to CPU 0 at nice -20, runs until 1,100 us. A
/// policy without a search wakes `d` on CPU 0 again, where it may not preempt. It waits there beside two idle CPUs, of
/// which it may use one, two or none.
#[test]
fn an_idle_cpu_elsewhere_is_counted_for_those_it_could_run() {
    let us = 1_000;
    let naps = || vec![compute(100 * us), sleep(50 * us), compute(us)];
    for (allowed, is_elsewhere) in [(Some(vec![0, 1]), true), (None, true), (Some(vec![0]), false)] {
        let tasks = vec![
            named("d", Task { allowed, ..task(0, naps()) }),
            named("a", Task { start_ns: 50 * us, weight: 88761, ..bound(&[0], vec![compute(1_000 * us)]) }),
        ];
        let mut scenario = scenario(machine(1, 3, 1), tasks, HostProfile::Mainline);
        scenario.policy = "linux-4.15+idle=none".parse().unwrap();
        let waits = explained(&scenario);
        let longest = &waits.longest[0];
        assert_eq!((longest.task, longest.since_ns, longest.cpu), (0, 150 * us, 0), "{waits:?}");
        let expected_ns = if is_elsewhere { longest.waited_ns } else { 0 };
        assert_eq!(longest.idle_elsewhere_ns, expected_ns, "{waits:?}");
        let placed = longest.placed.as_ref().expect("the policy was asked");
        assert_eq!((placed.cpu, placed.idle.as_slice()), (0, &[1, 2][..]));
    }
}

/// Only judged tasks have a table, and what came before the mark is not in it.
#[test]
fn the_tables_are_of_judged_tasks_in_the_measured_part() {
    let tasks = vec![
        named("a", bound(&[0], vec![compute(100), Op::MarkBegin, compute(100)])),
        Task { judged: true, ..named("b", bound(&[0], vec![compute(50), sleep(0), compute(7)])) },
        named("c", bound(&[0], vec![compute(50)])),
    ];
    let waits = explained(&scenario(machine(1, 1, 1), tasks, HostProfile::Mainline));
    assert_eq!(waits.by_name.len(), 1);
    expect(&waits, "b", &[("behind a", 200), ("behind c", 50)]);
    assert!(waits.longest.iter().all(|wait| wait.task == 1));
}

/// Books of waits change nothing else in the outcome.
#[test]
fn accounting_changes_no_result() {
    for spec in ["hackbench:groups=2", "schbench", "pingpong:pairs=3"] {
        for policy in ["linux-4.15", "linux-6.12", "wakelab"] {
            let mut scenario =
                scenario(Machine::preset("xeon-2s22c2t").unwrap(), vec![], HostProfile::Mainline);
            scenario.policy = policy.parse().unwrap();
            scenario.workload = wakelab_workload::Workload::parse_spec(spec).unwrap().into();
            let mut explained =
                run_explained(&scenario, 3, 5).unwrap_or_else(|error| panic!("{spec}: {error}"));
            let waits = explained.waits.take().expect("it was asked for");
            assert_eq!(waits.longest.len(), 5);
            assert_eq!(explained, wakelab_sim::run(&scenario, 3).unwrap(), "{spec} {policy}");
        }
    }
}
