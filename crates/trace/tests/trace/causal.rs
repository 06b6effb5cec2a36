// SPDX-License-Identifier: GPL-2.0-or-later
//! Small recordings by hand, and the programs that the importer must make of them.

use crate::executor::{execute, work_ns};
use crate::script::{Script, compute, program, signal, sleep, wait};
use wakelab_machine::Machine;
use wakelab_trace::{Gap, Recording};
use wakelab_workload::{Op, Source};

fn gaps(recording: &Recording) -> Vec<(Gap, u64)> {
    recording.explained.gaps.iter().map(|(&gap, count)| (gap, count.count)).collect()
}

/// t1 runs and wakes t2, which waited for it and works afterwards.
fn a_wakes_b() -> Script {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(1, 0, 0, "R", 2)
        .switch(1, 10, 2, "S", 0)
        .waking(0, 60, 1, 2)
        .switch(1, 70, 0, "R", 2)
        .switch(0, 100, 1, "S", 0)
        .switch(1, 100, 2, "X", 0);
    script
}

#[test]
fn a_wait_ends_at_an_offset_in_the_wakers_work() {
    let recording = a_wakes_b().explained();
    assert_eq!(program(&recording, "t1"), [compute(60), signal(0), compute(40)]);
    assert_eq!(program(&recording, "t2"), [compute(10), wait(0), compute(30)]);
    assert_eq!((recording.nr_cpus, recording.duration_ns, recording.busy_ns), (2, 100, 140));
    assert_eq!((recording.explained.waits, recording.explained.by_task), (1, 1));
    assert_eq!((recording.explained.open_at_end, recording.explained.tasks_exited), (1, 1));
}

#[test]
fn replay_is_a_closed_loop() {
    let mut workload = a_wakes_b().read().workload;
    // t2 is woken at 60 and works for 30.
    assert_eq!(execute(&workload), Ok(vec![100, 90]));
    // t1 is slower by 1,000 before it wakes t2.
    workload.tasks[0].program[0] = compute(1060);
    assert_eq!(execute(&workload), Ok(vec![1100, 1090]));
}

#[test]
fn preemption_is_no_wait() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(0, 10, 1, "R", 2)
        .switch(0, 15, 2, "R+", 1)
        .waking(0, 18, 1, 3)
        .switch(0, 35, 1, "S", 2)
        .switch(0, 40, 2, "S", 0);
    let recording = script.explained();
    assert_eq!(program(&recording, "t1"), [compute(13), signal(0), compute(17)]);
    assert_eq!(program(&recording, "t2"), [compute(10)]);
    assert_eq!(recording.workload.tasks[1].start_ns, 0, "it waited for a CPU since the beginning");
}

/// t1 wakes t2 on its CPU and gives way 5 later: because of the wake-up, or because it yields.
#[test]
fn who_yields_does_not_tell_when_wakers_give_way() {
    for (yields, learnt) in [(false, &[5][..]), (true, &[])] {
        let mut script = Script::default();
        script.switch(0, 0, 0, "R", 2).switch(0, 5, 2, "S", 1).waking(0, 10, 1, 2);
        if yields {
            script.event(0, 12, 1, "syscalls:sys_enter_sched_yield", "");
        }
        script.switch(0, 15, 1, "R", 2).switch(0, 20, 2, "S", 1);
        assert_eq!(script.read().learnt.preempting_ns, learnt, "yields: {yields}");
    }
}

/// t1 yields to t2 once, and once to nobody.
#[test]
fn a_yield_is_where_it_was_called() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).event(0, 10, 1, "syscalls:sys_enter_sched_yield", "");
    script.switch(0, 11, 1, "R", 2).switch(0, 15, 2, "S", 1);
    script.event(0, 35, 1, "syscalls:sys_enter_sched_yield", "").switch(0, 40, 1, "X", 0);
    let recording = script.explained();
    assert_eq!(program(&recording, "t1"), [compute(10), Op::Yield, compute(21), Op::Yield, compute(5)]);
}

#[test]
fn a_wake_from_an_idle_cpu_is_a_sleep() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(0, 20, 1, "S", 0)
        .waking(0, 120, 0, 1)
        .switch(0, 130, 0, "R", 1)
        .switch(0, 135, 1, "S", 0);
    let recording = script.explained();
    assert_eq!(program(&recording, "t1"), [compute(20), sleep(100), compute(5)]);
    assert_eq!(recording.explained.from_outside, 1);
}

#[test]
fn a_task_that_wakes_itself_was_woken_by_an_interrupt() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        // Its state is set already; the timer comes before it has left the CPU.
        .waking(0, 19, 1, 1)
        .switch(0, 20, 1, "S", 0)
        .switch(0, 30, 0, "R", 1)
        .switch(0, 35, 1, "S", 0);
    let recording = script.explained();
    assert_eq!(program(&recording, "t1"), [compute(20), sleep(0), compute(5)]);
}

#[test]
fn a_wake_may_come_just_before_the_wait() {
    // The waker logs its wake-up and then spins until the wakee, which has set its state, has left its CPU.
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(1, 0, 0, "R", 2)
        .waking(1, 30, 2, 1)
        .switch(0, 32, 1, "S", 0)
        .waking(1, 35, 2, 3)
        .switch(0, 40, 0, "R", 1)
        .switch(0, 45, 1, "S", 0)
        .switch(1, 50, 2, "S", 0);
    let recording = script.explained();
    assert_eq!(program(&recording, "t2"), [compute(30), signal(1), compute(5), signal(0), compute(15)]);
    assert_eq!(program(&recording, "t1"), [compute(32), wait(1), compute(5)]);
    assert_eq!(execute(&recording.workload).map(|ends| ends.len()), Ok(3));
}

#[test]
fn a_wake_of_a_task_that_runs_or_was_woken_ends_nothing() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(1, 0, 0, "R", 2)
        .waking(1, 5, 2, 1)
        .switch(0, 10, 1, "S", 0)
        .waking(1, 20, 2, 1)
        .waking(1, 22, 2, 1)
        .switch(0, 25, 0, "R", 1)
        .switch(0, 30, 1, "S", 0);
    let recording = script.explained();
    assert_eq!(program(&recording, "t1"), [compute(10), wait(0), compute(5)]);
    assert_eq!(program(&recording, "t2"), [compute(20), signal(0), compute(10)]);
    assert_eq!(recording.explained.redundant_wakes, 2);
}

#[test]
fn a_child_is_forked_at_an_offset_in_its_parents_work() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .fork(0, 40, 1, 2)
        .switch(1, 45, 0, "R", 2)
        .switch(1, 50, 2, "Z", 0)
        .switch(0, 60, 1, "S", 0);
    let recording = script.explained();
    assert_eq!(program(&recording, "t1"), [compute(40), Op::Fork { task: 1 }, compute(20)]);
    assert_eq!(program(&recording, "t2"), [compute(5)]);
    assert_eq!(recording.workload.tasks[1].parent, Some(0));
    assert_eq!((recording.explained.tasks_born, recording.explained.tasks_from_before), (1, 1));
}

#[test]
fn a_task_id_may_be_used_again() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .fork(0, 10, 1, 2)
        .switch(1, 15, 0, "R", 2)
        .switch(1, 20, 2, "X", 0)
        .fork(0, 30, 1, 2)
        .switch(1, 35, 0, "R", 2)
        .switch(1, 42, 2, "X", 0);
    let recording = script.explained();
    assert_eq!(work_ns(&recording.workload), [42, 5, 7]);
    let forks = [compute(10), Op::Fork { task: 1 }, compute(20), Op::Fork { task: 2 }, compute(12)];
    assert_eq!(program(&recording, "t1"), forks);
}

#[test]
fn what_was_there_before_the_recording() {
    let mut script = Script::default();
    script
        .switch(0, 100, 0, "R", 1)
        // t2 has waited since before the recording.
        .waking(0, 130, 1, 2)
        .switch(0, 140, 1, "S", 2)
        .switch(0, 150, 2, "S", 0)
        // So has t3, for a timer.
        .waking(0, 190, 0, 3)
        .switch(0, 195, 0, "R", 3)
        .switch(0, 199, 3, "S", 0);
    let recording = script.explained();
    assert_eq!(program(&recording, "t2"), [wait(0), compute(10)]);
    assert_eq!(program(&recording, "t3"), [compute(4)]);
    let starts: Vec<u64> = recording.workload.tasks.iter().map(|task| task.start_ns).collect();
    assert_eq!(starts, [0, 0, 90]);
    assert_eq!(recording.explained.tasks_from_before, 3);
    assert!(recording.workload.tasks.iter().all(|task| task.last_cpu == Some(0)));
}

#[test]
fn a_wait_that_does_not_end_is_dropped_and_a_burst_is_cut() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2).switch(0, 10, 1, "S", 0).runtime(1, 25, 2, 2, 25);
    let recording = script.explained();
    assert_eq!(program(&recording, "t1"), [compute(10)]);
    assert_eq!(program(&recording, "t2"), [compute(25)]);
    assert_eq!(recording.explained.open_at_end, 1);
}

#[test]
fn an_exiting_task_has_no_id_in_the_header() {
    // The pgbench fixture:
    // `:-1  1979/-1    [001]  1863.576715785: sched:sched_switch: prev_comm=pgbench prev_pid=1982`.
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .line("             :-1     1/-1    [000]  1860.000000020: sched:sched_stat_runtime: comm=t1 pid=1 runtime=20 [ns]")
        .line("             :-1     1/-1    [000]  1860.000000025: sched:sched_switch: prev_comm=t1 prev_pid=1 prev_prio=120 prev_state=X ==> next_comm=t2 next_pid=2 next_prio=120")
        .switch(0, 30, 2, "S", 0);
    let recording = script.explained();
    assert_eq!(program(&recording, "t1"), [compute(25)]);
    assert_eq!(recording.explained.tasks_exited, 1);
}

#[test]
fn perf_inside_a_container_names_tasks_by_other_ids() {
    // As recorded here with: unshare -p -f --mount-proc perf sched record hackbench. The events have the machine's ids.
    let mut script = Script::default();
    let switch = "prev_comm=t100 prev_pid=100 prev_prio=120 prev_state=S ==> next_comm=t101 next_pid=101 next_prio=120";
    let waking = "comm=t100 pid=100 prio=120 target_cpu=000";
    script
        .event(0, 0, 1, "sched:sched_waking", "comm=t101 pid=101 prio=120 target_cpu=000")
        .event(0, 10, 1, "sched:sched_switch", switch)
        .event(0, 25, 2, "sched:sched_waking", waking)
        .event(
            0,
            30,
            2,
            "sched:sched_switch",
            &switch.replace("prev_pid=100", "prev_pid=101").replace("next_pid=101", "next_pid=100"),
        )
        .event(0, 45, 1, "sched:sched_waking", "comm=t101 pid=101 prio=120 target_cpu=000")
        .event(0, 50, 1, "sched:sched_switch", switch);
    let recording = script.explained();
    assert!(recording.explained.foreign_ids && !recording.explained.processes_known);
    assert_eq!(recording.workload.tasks.len(), 2);
    assert_eq!(work_ns(&recording.workload), [20, 20]);
    assert_eq!(recording.explained.by_task, 2);
}

#[test]
fn a_switch_in_that_was_not_recorded_follows_from_the_run_time() {
    // Both fixtures: the idle task of CPU 1 leaves no events.
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(1, 0, 0, "R", 2)
        .switch(1, 10, 2, "S", 0)
        .waking(0, 30, 1, 2)
        // t2 was switched in at 38: it wakes t3 before an event tells its run time.
        .waking(1, 50, 2, 3)
        .runtime(1, 60, 2, 2, 22)
        .switch(1, 65, 2, "S", 0);
    let recording = script.explained();
    assert_eq!(program(&recording, "t2"), [compute(10), wait(0), compute(12), signal(1), compute(15)]);
    assert_eq!(recording.explained.switch_ins_inferred, 1);
}

/// As before, but CPU 0 has shown that the switch comes 5 after the account's beginning: 20 times t1 is switched in at
/// 10, and is accounted 25 at 30. So t2 was switched in at 43, and works for 7 until it wakes t3.
#[test]
fn a_switch_in_on_an_idle_cpu_comes_after_the_beginning_of_the_account() {
    let mut script = Script::default();
    script.switch(1, 0, 0, "R", 2).switch(1, 10, 2, "S", 0);
    script.switch(0, 20, 0, "R", 1).runtime(0, 30, 1, 1, 15).switch(0, 30, 1, "S", 0);
    for time_ns in (100..2000).step_by(100) {
        script.waking(1, time_ns, 0, 1).switch(0, time_ns + 10, 0, "R", 1);
        script.runtime(0, time_ns + 30, 1, 1, 25).switch(0, time_ns + 30, 1, "S", 0);
    }
    script.waking(1, 2000, 0, 1).switch(0, 2000, 0, "R", 1);
    script.waking(0, 2030, 1, 2).waking(1, 2050, 2, 3).runtime(1, 2060, 2, 2, 22).switch(1, 2065, 2, "S", 0);
    let recording = script.read();
    assert_eq!(program(&recording, "t2"), [compute(10), wait(0), compute(7), signal(1), compute(15)]);
}

#[test]
fn a_switch_in_of_which_nothing_is_known_is_a_gap() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(1, 0, 0, "R", 2)
        .switch(1, 10, 2, "S", 0)
        .waking(0, 30, 1, 2)
        .switch(1, 65, 2, "S", 0);
    let recording = script.read();
    assert_eq!(program(&recording, "t2"), [compute(10), wait(0), compute(35)]);
    assert_eq!(gaps(&recording), [(Gap::SwitchInUnseen, 1)]);
    assert_eq!(
        script.read_strictly().unwrap_err(),
        "f:5: cannot be explained: a task runs on a CPU that was idle, and neither its switch-in nor its run time was seen"
    );
}

#[test]
fn a_wait_whose_end_was_not_seen_is_unexplained() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(0, 20, 1, "D", 0).switch(0, 70, 0, "R", 1).switch(0, 75, 1, "S", 0);
    let recording = script.read();
    assert_eq!(program(&recording, "t1"), [compute(20), sleep(50), compute(5)]);
    assert_eq!(gaps(&recording), [(Gap::SwitchInUnwoken, 1)]);
    assert_eq!((recording.explained.unexplained, recording.explained.permille()), (1, 0));
    assert_eq!(
        script.read_strictly().unwrap_err(),
        "f:3: cannot be explained: a task that waited was switched in, and no wake-up of it was seen"
    );
}

/// CPU 1 idles from 20 on, and nothing tells of its switch to t1, which has run for 15 at 75. A wake-up by a task would
/// have been recorded, so an interrupt woke t1.
#[test]
fn a_task_that_turns_up_on_an_idle_cpu_was_woken_from_outside() {
    let mut script = Script::default();
    script.switch(1, 0, 0, "R", 1).switch(1, 20, 1, "S", 0).runtime(1, 75, 1, 1, 15).switch(1, 80, 1, "S", 0);
    let recording = script.read();
    assert_eq!(program(&recording, "t1"), [compute(20), sleep(40), compute(20)]);
    assert_eq!(gaps(&recording), [(Gap::SwitchInUnwoken, 1)]);
    let explained = &recording.explained;
    assert_eq!((explained.waits, explained.from_outside, explained.source_unknown), (1, 1, 1));
    assert_eq!(recording.observed.by_comm["t1"].wakeups, 1);
    assert!(recording.observed.by_comm["t1"].wakeup_latency_ns.is_empty());
}

/// As before, but t1 gives way to t2 at 80, which slept since 10 and was not seen to be woken either: by the same
/// interrupt, so its sleep was over when t1 ran. Its next sleep begins after that, and nothing is known of its end.
#[test]
fn one_unseen_interrupt_wakes_two_tasks() {
    let mut script = Script::default();
    script.switch(1, 0, 0, "R", 2).switch(1, 10, 2, "S", 1).switch(1, 20, 1, "S", 0);
    script
        .runtime(1, 75, 1, 1, 15)
        .switch(1, 80, 1, "S", 2)
        .switch(1, 85, 2, "S", 3)
        .switch(1, 90, 3, "S", 2);
    let recording = script.read();
    assert_eq!(program(&recording, "t2"), [compute(10), sleep(50), compute(5), sleep(5)]);
    assert_eq!((recording.explained.from_outside, recording.explained.unexplained), (2, 1));
}

/// An interrupt at 70 shows t1 for the first time after its sleep, and its account at 75 says that it has run for 15:
/// it slept until 60.
#[test]
fn a_wait_whose_end_was_not_seen_ends_when_the_account_says() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(0, 20, 1, "S", 0)
        .line("              t1     1/1     [000]  1860.000000070: irq_vectors:local_timer_entry: vector=236")
        .runtime(0, 75, 1, 1, 15)
        .switch(0, 80, 1, "S", 0);
    assert_eq!(program(&script.read(), "t1"), [compute(20), sleep(40), compute(20)]);
}

/// A task with 25 ticks, a millisecond from one to the next.
#[test]
fn the_period_of_the_tick_is_learnt() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1);
    for tick in 1..=25 {
        for (event, us) in [("entry", 0), ("exit", 5)] {
            let at_us = 1_860_000_000_u64 + tick * 1_000 + us;
            let (s, ns) = (at_us / 1_000_000, at_us % 1_000_000 * 1_000);
            script.line(&format!(
                "              t1     1/1     [000]  {s}.{ns:09}: irq_vectors:local_timer_{event}: vector=236"
            ));
        }
    }
    script.switch(0, 26_000_000, 1, "S", 0);
    let learnt = script.read().learnt;
    assert_eq!(learnt.between_ticks_ns, [1_000_000; 24]);
    let base = Machine::preset("smp-2").expect("a preset");
    assert_eq!(learnt.machine(&base, "r").costs.tick_period_ns, 1_000_000);
}

#[test]
fn a_missed_switch_ends_at_the_last_event_of_the_cpu() {
    // In the hackbench fixture, a thread of the VM's agent leaves no events, so it never seems to leave its CPU.
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).waking(0, 30, 1, 3).switch(0, 90, 2, "S", 3).switch(0, 95, 3, "S", 0);
    let recording = script.read();
    assert_eq!(program(&recording, "t1"), [compute(30), signal(0)]);
    assert_eq!(gaps(&recording), [(Gap::MissedSwitch, 1)]);
}

#[test]
fn a_task_cannot_run_twice() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(1, 0, 0, "R", 2)
        .waking(0, 10, 1, 3)
        .switch(1, 20, 2, "R", 1)
        .switch(1, 30, 1, "S", 0);
    // So far CPU 0's recording may have ended before CPU 1's, because perf ends them one after the other.
    assert_eq!(gaps(&script.read()), []);
    script.waking(0, 40, 4, 5);
    let recording = script.read();
    assert_eq!(gaps(&recording), [(Gap::RunsTwice, 1)]);
    assert_eq!(program(&recording, "t1"), [compute(10), signal(0), compute(10)]);
}

#[test]
fn births_and_deaths_that_do_not_fit() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        // No sched_process_fork.
        .wakeup_new(0, 10, 1, 2)
        .switch(1, 12, 0, "R", 2)
        // t2 is forked, but exists.
        .fork(0, 20, 1, 2)
        .switch(0, 30, 1, "X", 2)
        // t1 has exited.
        .waking(0, 35, 2, 1)
        .switch(0, 40, 2, "S", 1)
        .switch(0, 44, 1, "S", 0);
    let recording = script.read();
    assert_eq!(gaps(&recording), [(Gap::MissedFork, 1), (Gap::MissedExit, 1), (Gap::AfterExit, 1)]);
    assert_eq!(work_ns(&recording.workload), [30, 0, 10, 4]);
    assert!(execute(&recording.workload).is_ok());
}

#[test]
fn lost_events_are_counted() {
    let mut script = a_wakes_b();
    // As perf 6.1 writes it with: perf script --show-lost-events.
    script.line("            perf  8739/8739  [000]  1860.775370000: PERF_RECORD_LOST lost 14");
    script.line("CPU:1 [LOST 3 EVENTS]");
    let recording = script.read();
    assert_eq!(recording.explained.lost_events, 17);
    assert_eq!(gaps(&recording), [(Gap::LostEvents, 2)]);
    assert_eq!(script.read_strictly().unwrap_err(), "f:8: cannot be explained: the recorder lost events");
}

#[test]
fn sched_wakeup_serves_where_sched_waking_is_not_recorded() {
    // Older versions of `perf sched record` do not record sched_waking.
    let script = Script { text: a_wakes_b().text.replace("sched_waking", "sched_wakeup") };
    let recording = script.explained();
    assert_eq!(program(&recording, "t2"), [compute(10), wait(0), compute(30)]);
    assert!(!recording.explained.wakers_known);
}

/// t1 wakes t2 and, 100 ns after that is queued, t3: by one call, if a recorder made the recording. Without one the
/// time between wake-ups tells nothing, and 200 ns are another call anyway.
#[test]
fn what_one_call_wakes_is_woken_at_one_point_of_its_work() {
    let program_of_t1 = |header: &str, gap_ns: u64| {
        let mut script = Script::default();
        script.line(header).switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2).switch(1, 10, 2, "S", 3);
        script.switch(1, 20, 3, "S", 0).waking(0, 60, 1, 2).wakeup(0, 70, 1, 2);
        script.waking(0, 70 + gap_ns, 1, 3).wakeup(0, 80 + gap_ns, 1, 3);
        let recording = script.switch(0, 5_000, 1, "S", 0).read();
        program(&recording, "t1").to_vec()
    };
    let recorder = "# wakelab-record: wakelab 0.1.0";
    assert_eq!(program_of_t1(recorder, 100), [compute(60), signal(0), signal(1), compute(4_940)]);
    let apart =
        |gap_ns: u64| [compute(60), signal(0), compute(10 + gap_ns), signal(1), compute(4_930 - gap_ns)];
    assert_eq!(program_of_t1(recorder, 200), apart(200));
    assert_eq!(program_of_t1("# comment", 100), apart(100));
}

#[test]
fn sched_wakeup_only_confirms_sched_waking() {
    let mut script = Script::default();
    let wakeup = "comm=t2 pid=2 prio=120 target_cpu=001";
    script
        .switch(0, 0, 0, "R", 1)
        .switch(1, 0, 0, "R", 2)
        .switch(1, 10, 2, "S", 0)
        .waking(0, 60, 1, 2)
        // On the wakee's CPU, by its idle task: not a wake-up from outside.
        .event(1, 65, 0, "sched:sched_wakeup", wakeup)
        .switch(1, 70, 0, "R", 2)
        .switch(1, 80, 2, "S", 0)
        .event(1, 90, 0, "sched:sched_wakeup", wakeup);
    let recording = script.read();
    assert_eq!(program(&recording, "t2"), [compute(10), wait(0), compute(10), sleep(10)]);
    assert_eq!(gaps(&recording), [(Gap::MissedWaking, 1)]);
    assert!(recording.explained.wakers_known);
}

#[test]
fn an_interrupt_is_not_the_task_that_it_interrupted() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(1, 0, 0, "R", 2)
        .switch(1, 10, 2, "S", 0)
        .event(0, 59, 1, "timer:hrtimer_expire_entry", "hrtimer=1 function=hrtimer_wakeup now=1")
        .waking(0, 60, 1, 2)
        .event(0, 61, 1, "timer:hrtimer_expire_exit", "hrtimer=1")
        .switch(1, 70, 0, "R", 2)
        .waking(0, 80, 1, 3);
    let recording = script.explained();
    assert!(recording.explained.interrupts_known);
    assert_eq!(program(&recording, "t1"), [compute(80), signal(0)]);
    // From the beginning of the wait to the interrupt's entry.
    let by_timer = Op::Sleep { delay_ns: 49, source: Source::Timer };
    assert_eq!(program(&recording, "t2"), [compute(10), by_timer, compute(10)]);
}

#[test]
fn names_priorities_and_processes() {
    let mut script = Script::default();
    script
        .line("         migration/1    21/21    [001]  1860.000000000: sched:sched_switch: prev_comm=migration/1 prev_pid=21 prev_prio=0 prev_state=S ==> next_comm=perf exec pid=7 next_pid=9 next_prio=125")
        .line("        perf exec pid=7     8/9     [001]  1860.000000010: sched:sched_switch: prev_comm=hackbench prev_pid=9 prev_prio=125 prev_state=S ==> next_comm=migration/1 next_pid=21 next_prio=0")
        .line("         migration/1    21/21    [001]  1860.000000015: sched:sched_switch: prev_comm=migration/1 prev_pid=21 prev_prio=0 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120");
    let recording = script.read();
    let [migration, hackbench] = &recording.workload.tasks[..] else { panic!("two tasks") };
    assert_eq!(
        (migration.weight, migration.allowed.as_deref(), migration.process),
        (88761, Some(&[1][..]), 21)
    );
    assert_eq!((hackbench.weight, hackbench.allowed.as_deref(), hackbench.process), (335, None, 8));
    assert_eq!(hackbench.name, "hackbench");
    assert_eq!((recording.explained.realtime_tasks, recording.explained.pinned_kernel_threads), (1, 1));
}
