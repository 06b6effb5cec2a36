// SPDX-License-Identifier: GPL-2.0-or-later
//! Open and closed loops, and recordings joined end to end.

use std::num::NonZeroU32;

use crate::executor::execute;
use crate::script::{Script, comm, compute, read_text};
use wakelab_trace::{Options, Recording};
use wakelab_workload::{Op, Source};

fn sleep(delay_ns: u64) -> Op {
    Op::Sleep { delay_ns, source: Source::Unknown }
}

fn until(time_ns: u64) -> Op {
    Op::SleepUntil { time_ns, source: Source::Unknown }
}

/// t1 begins at 0. Each pair is a length of work and the time at which an interrupt on its idle CPU wakes it again.
fn rounds(script: &mut Script, cpu: u32, task: u32, worked_woken_ns: &[(u64, u64)]) {
    let mut now_ns = 0;
    for &(worked_ns, woken_ns) in worked_woken_ns {
        script
            .switch(cpu, now_ns, 0, "R", task)
            .switch(cpu, now_ns + worked_ns, task, "S", 0)
            .waking(cpu, woken_ns, 0, task);
        now_ns = woken_ns;
    }
    script.switch(cpu, now_ns, 0, "R", task).switch(cpu, now_ns + 10, task, "X", 0);
}

/// Woken every 100, whatever the work is.
const CLOCK: [(u64, u64); 5] = [(10, 100), (50, 200), (90, 300), (20, 400), (70, 500)];
/// Woken 30 after it has gone to sleep, whatever the work was.
const PAUSE: [(u64, u64); 5] = [(10, 40), (50, 120), (90, 240), (20, 290), (70, 390)];

fn read(worked_woken_ns: &[(u64, u64)], options: &Options) -> Recording {
    let mut script = Script::default();
    rounds(&mut script, 0, 1, worked_woken_ns);
    read_text(&script.text, options).unwrap_or_else(|error| panic!("{error}"))
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn a_clock_is_an_open_loop() {
    let recording = read(&CLOCK, &Options { strict: true, ..Options::default() });
    let program = &recording.workload.tasks[0].program;
    assert_eq!(program[..4], [compute(10), until(100), compute(50), until(200)]);
    let count = recording.explained.loops["t1"];
    assert_eq!((count.open, count.closed, count.open_sleeps, count.told), (1, 0, 5, false));

    // Twice the work: from 0 to 20, from 100 to 200, from 200 to 380; the clock has passed 300, so to 420; 400, so to
    // 560; 500, so to 580. In a closed loop it would be 2 x 250 and the sleeps.
    let mut workload = recording.workload;
    for op in &mut workload.tasks[0].program {
        if let Op::Compute { work_ns, .. } = op {
            *work_ns *= 2;
        }
    }
    assert_eq!(execute(&workload), Ok(vec![580]));
}

#[test]
fn a_pause_is_a_closed_loop() {
    let recording = read(&PAUSE, &Options { strict: true, ..Options::default() });
    let program = &recording.workload.tasks[0].program;
    assert_eq!(program[..4], [compute(10), sleep(30), compute(50), sleep(30)]);
    let count = recording.explained.loops["t1"];
    assert_eq!((count.open, count.closed, count.closed_sleeps, count.told), (0, 1, 5, false));
}

#[test]
fn either_can_be_told() {
    let closed = read(&CLOCK, &Options { closed: names(&["t1"]), ..Options::default() });
    // Woken at 100 after work of 10, at 200 after work of 50.
    assert_eq!(closed.workload.tasks[0].program[..4], [compute(10), sleep(90), compute(50), sleep(50)]);
    assert!(closed.explained.loops["t1"].told);
    let open = read(&PAUSE, &Options { open: names(&["t*"]), ..Options::default() });
    assert_eq!(open.workload.tasks[0].program[..4], [compute(10), until(40), compute(50), until(120)]);
    assert!(open.explained.loops["t1"].told);
}

#[test]
fn a_sleep_of_unknown_end_stays_as_long_as_it_was() {
    let mut script = Script::default();
    // The wake-up before 150 was lost.
    script.switch(0, 0, 0, "R", 1).switch(0, 10, 1, "S", 0).waking(0, 40, 0, 1).switch(0, 40, 0, "R", 1);
    script.switch(0, 50, 1, "S", 0).switch(0, 150, 0, "R", 1).switch(0, 155, 1, "S", 0);
    script.waking(0, 160, 0, 1).switch(0, 160, 0, "R", 1).switch(0, 170, 1, "X", 0);
    let recording =
        read_text(&script.text, &Options { open: names(&["t1"]), ..Options::default() }).expect("it reads");
    let program = [compute(10), until(40), compute(10), sleep(100), compute(5), until(160), compute(10)];
    assert_eq!(recording.workload.tasks[0].program, program);
}

#[test]
fn patterns_that_mean_nothing_are_refused() {
    let mut script = Script::default();
    rounds(&mut script, 0, 1, &CLOCK);
    let refused = |open: &[&str], closed: &[&str]| {
        let options = Options { open: names(open), closed: names(closed), ..Options::default() };
        read_text(&script.text, &options).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&["t1"], &["t2*"]),
        "f: no task called `t2*` was woken from outside, so none is in an open or a closed loop; expected the name of a task, or its beginning and *"
    );
    assert_eq!(
        refused(&["t1"], &["t1"]),
        "f: tasks called `t1` cannot be both in an open loop and in a closed loop"
    );
}

/// t1 runs from 0 to 100 and wakes t2 at 60, which runs until 90; then t3, woken from outside at 70, from 80 to 85.
fn three() -> Script {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .waking(0, 60, 1, 2)
        .switch(1, 60, 0, "R", 2)
        .waking(2, 70, 0, 3)
        .switch(2, 80, 0, "R", 3)
        .switch(2, 85, 3, "X", 0)
        .switch(1, 90, 2, "X", 0)
        .switch(0, 100, 1, "X", 0);
    script
}

#[test]
fn runs_follow_each_other() {
    let read = |runs| {
        let options = Options { strict: true, repeat: NonZeroU32::new(runs), ..Options::default() };
        read_text(&three().text, &options).expect("all is explained")
    };
    let (once, thrice) = (read(1), read(3));
    // With a CPU for each, t3 begins at 70 and works for 5.
    assert_eq!(execute(&once.workload), Ok(vec![100, 90, 75]));
    assert_eq!(execute(&thrice.workload), Ok(vec![100, 90, 75, 200, 190, 175, 300, 290, 275]));
    assert_eq!((once.runs, thrice.runs), (1, 3));
    assert_eq!(once.explained, thrice.explained);
    assert_eq!((once.busy_ns, thrice.duration_ns), (thrice.busy_ns, 100));
    assert_eq!(thrice.workload.check(), Ok(()));

    // A run begins when the run before it has ended, whichever task is last: t2 works for more than 1,000.
    let mut slower = thrice.workload;
    let late = slower.tasks[1].program.iter_mut().find(|op| matches!(op, Op::Compute { .. }));
    *late.expect("it works") = compute(1000);
    let ends_ns = execute(&slower).expect("all end");
    assert_eq!(ends_ns, [1060, 1060, 75, 1160, 1150, 1135, 1260, 1250, 1235]);
}

#[test]
fn an_open_loop_keeps_its_clock_over_all_runs() {
    let mut script = Script::default();
    rounds(&mut script, 0, 1, &CLOCK);
    let options = Options { repeat: NonZeroU32::new(2), ..Options::default() };
    let recording = read_text(&script.text, &options).expect("it reads");
    assert_eq!(recording.duration_ns, 510);
    // 510 + 500, and 10 of work; the first run's end at 510 is the clock's, too.
    assert_eq!(execute(&recording.workload), Ok(vec![510, 1020]));
    let first = &recording.workload.tasks[1].program[..3];
    assert_eq!(first, [Op::WaitGate { gate: 0 }, compute(10), until(610)]);
    assert_eq!(recording.workload.tasks[1].name, comm(1));
}
