// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that stayed on a busy CPU while another one idled (crates/trace/src/causal/bound.rs).

use wakelab_trace::Recording;

use crate::script::Script;

/// CPU 1 switches from task 9 to idle. Then tasks 1 and 2 take turns on CPU 0: each wakes the other one, and waits.
/// `first`: what is recorded before.
fn turns(rounds: u64, first: impl Fn(&mut Script)) -> Recording {
    let mut script = Script::default();
    first(&mut script);
    script.switch(1, 100, 9, "S", 0);
    take_turns(&mut script, rounds);
    script.read()
}

fn take_turns(script: &mut Script, rounds: u64) {
    script.switch(0, 200, 0, "R", 1);
    for round in 0..rounds {
        let at_ns = 1_000 + 100 * round;
        let (runs, waits) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
        script.waking(0, at_ns, runs, waits).switch(0, at_ns + 50, runs, "S", waits);
    }
}

fn allowed(recording: &Recording) -> Vec<Option<Vec<u32>>> {
    let named = |name: &str| recording.workload.tasks.iter().find(|task| task.name == name).expect("a task");
    ["t1", "t2"].map(|name| named(name).allowed.clone()).into()
}

#[test]
fn tasks_that_stay_while_others_idle_are_bound() {
    // Each is woken 24 times; before its first switch-in the second one ran nowhere.
    let recording = turns(48, |_| ());
    assert_eq!(allowed(&recording), [Some(vec![0]), Some(vec![0])]);
    assert_eq!(recording.explained.bound_tasks, 2);
    assert!(recording.notes().iter().any(|note| note.starts_with("2 tasks are bound to one CPU each")));
}

#[test]
fn a_few_times_may_be_chance() {
    let recording = turns(30, |_| ());
    assert_eq!((allowed(&recording), recording.explained.bound_tasks), (vec![None, None], 0));
}

#[test]
fn a_task_that_moved_must_stay_more_often() {
    let moves = |script: &mut Script| {
        script.switch(1, 10, 0, "R", 1).switch(1, 20, 1, "S", 9).waking(1, 30, 9, 1);
    };
    // The other one is alone then.
    assert_eq!(allowed(&turns(48, moves)), [None, None]);
    assert_eq!(allowed(&turns(100, moves)), [Some(vec![0]), Some(vec![0])]);
}

#[test]
fn a_task_of_the_same_name_that_ran_elsewhere_makes_it_chance() {
    let often = |script: &mut Script| {
        for turn in 0..25 {
            script.switch(1, 4 * turn, 0, "R", 9).switch(1, 4 * turn + 2, 9, "R", 0);
        }
        script.switch(1, 100, 0, "R", 9).switch(1, 101, 9, "S", 0);
        take_turns(script, 100);
    };
    let mut script = Script::default();
    often(&mut script);
    assert_eq!(allowed(&script.read()), [Some(vec![0]), Some(vec![0])]);
    script.text = script.text.replace("=t9 ", "=t2 ");
    let recording = script.read();
    assert!(recording.workload.tasks.iter().all(|task| task.allowed.is_none()));
}

#[test]
fn what_is_told_counts() {
    let header = |script: &mut Script| {
        script.line("# wakelab-record: wakelab 0.1.0").line("# wakelab-kernel: 6.12.1");
    };
    assert_eq!(allowed(&turns(100, header)), [None, None]);
    // As `perf script --header` has it. Then our export tells of another task.
    let another = |script: &mut Script| {
        script.line("# ========").line("# os release : 6.12.1").line("# wakelab-task: pid=9 cpus=1");
    };
    let recording = turns(100, another);
    assert_eq!(allowed(&recording), [None, None]);
    assert_eq!(recording.header.expect("a header").kernel, "6.12.1");
}

#[test]
fn without_an_idle_cpu_nothing_is_known() {
    let mut script = Script::default();
    script.switch(1, 100, 9, "S", 8);
    take_turns(&mut script, 100);
    assert_eq!(allowed(&script.read()), [None, None]);
}
