// SPDX-License-Identifier: GPL-2.0-or-later
//! What `wakelab record` writes above the events: the recorder, which is left out, and tasks that may not run
//! everywhere.

use wakelab_trace::Options;
use wakelab_workload::Op;

use crate::script::{Script, compute, program, read_text, sleep};

/// t1 records: it wakes t2, and forks t3, which forks t4 and wakes t1 at its end.
fn script() -> Script {
    let mut script = Script::default();
    script
        .line("# wakelab-record: wakelab 0.1.0, perf version 6.1.187")
        .line("# wakelab-kernel: 6.18.44")
        .line("# wakelab-boot-options: quiet sched_vcpu_pack=15")
        .line("# wakelab-command: t3 -x")
        .line("# wakelab-event-cost-ns: 4")
        .line("# wakelab-recorder: 1,77")
        .line("# wakelab-task: pid=3 comm=t3 nice=0 cpus=0")
        .line("# wakelab-weather: fine")
        .switch(0, 0, 0, "R", 1)
        .switch(1, 0, 0, "R", 2)
        .switch(1, 10, 2, "S", 0)
        .fork(0, 20, 1, 3)
        .waking(0, 30, 1, 2)
        .switch(1, 35, 0, "R", 2)
        .switch(0, 40, 1, "S", 3)
        .fork(0, 60, 3, 4)
        .waking(0, 70, 3, 1)
        .switch(0, 80, 3, "X", 1)
        .switch(0, 85, 1, "S", 4)
        .switch(0, 95, 4, "X", 0)
        .switch(1, 100, 2, "S", 0);
    script
}

#[test]
fn the_recorder_is_left_out() {
    let recording = script().explained();
    let names: Vec<&str> = recording.workload.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["t3", "t4", "t2"], "tasks that the header describes, and their children, come first");
    assert_eq!(program(&recording, "t2"), [compute(10), sleep(20), compute(65)]);
    assert_eq!(program(&recording, "t3"), [compute(20), Op::Fork { task: 1 }, compute(20)]);
    let t3 = &recording.workload.tasks[0];
    assert_eq!((t3.parent, t3.start_ns), (None, 20), "nothing forks it");
    assert_eq!(recording.observed.by_comm.keys().collect::<Vec<_>>(), ["t2", "t3", "t4"]);
    assert_eq!((recording.busy_ns, recording.recorder_ns), (10 + 65 + 40 + 10, 40 + 5));
    assert_eq!((recording.explained.waits, recording.explained.from_outside), (1, 1));
}

#[test]
fn children_may_run_where_their_parents_may() {
    let recording = script().explained();
    let allowed: Vec<_> = recording.workload.tasks.iter().map(|task| task.allowed.clone()).collect();
    assert_eq!(allowed, [Some(vec![0]), Some(vec![0]), None]);
}

#[test]
fn how_it_was_made_is_told() {
    let notes = script().explained().notes();
    assert_eq!(
        notes[1..5],
        [
            "recorded by wakelab 0.1.0, perf version 6.1.187 on Linux 6.18.44: t3 -x",
            "the recorded kernel is not mainline: with the boot option sched_vcpu_pack=15 it leaves wakees on their \
             previous CPU, be it busy or idle",
            "the recorder's own tasks, with 0.000 ms of CPU time, are left out",
            "recording took 4 ns for each event, 48.0 % of the tasks' CPU time, which is work here, because the recording has it, \
             too",
        ]
    );
}

/// t2 causes none of its first 10 ns, and after its wake-up one event: its own switch-in, so 4 ns are the recorder's.
/// t3's events are its switch-in, a fork, and a wake-up of the recorder.
#[test]
fn what_events_cost_can_be_taken_off() {
    let options = Options { event_cost_ns: Some(4), ..Options::default() };
    let recording = read_text(&script().text, &options).expect("a recording");
    assert_eq!(program(&recording, "t2"), [compute(10 - 4), sleep(20), compute(65 - 4)]);
    assert_eq!(program(&recording, "t3"), [compute(20 - 4), Op::Fork { task: 1 }, compute(20 - 2 * 4)]);
    let taken =
        "recording took 4 ns for each event, 48.0 % of the tasks' CPU time, which is taken off their work";
    assert!(recording.notes().iter().any(|note| note == taken));
}

/// Without a header, recorders are known by their names; with one, by their ids; and it may name the service.
#[test]
fn the_service_is_told() {
    let is_service = |header: &str| {
        let mut script = Script::default();
        script.line("# wakelab-record: wakelab 0.1.0");
        for line in header.lines() {
            script.line(line);
        }
        let recording = script.switch(0, 0, 0, "R", 1).switch(0, 10, 1, "S", 2).read();
        let told = recording.notes().iter().any(|note| note == "no task is called x or y*");
        (["t1", "perf", "kworker/0:1"].map(|comm| recording.is_service(comm)), told)
    };
    assert_eq!(is_service(""), ([true, false, false], false));
    assert_eq!(is_service("# wakelab-recorder: 9"), ([true, true, false], false));
    assert_eq!(is_service("# wakelab-service: t*"), ([true, false, false], false));
    assert_eq!(is_service("# wakelab-service: x\n# wakelab-service: y*"), ([false; 3], true));
}

/// Ids of a container name other tasks, if any.
#[test]
fn a_recorder_in_a_container_is_not_known_by_its_ids() {
    let mut script = Script::default();
    script
        .line("# wakelab-record: wakelab 0.1.0")
        .line("# wakelab-recorder: 2")
        .event(
            0,
            0,
            9,
            "sched:sched_switch",
            "prev_comm=t1 prev_pid=1 prev_prio=120 prev_state=R ==> next_comm=t2 next_pid=2 next_prio=120",
        )
        .event(
            0,
            50,
            8,
            "sched:sched_switch",
            "prev_comm=t2 prev_pid=2 prev_prio=120 prev_state=R ==> next_comm=t1 next_pid=1 next_prio=120",
        );
    let recording = script.read();
    assert!(recording.explained.foreign_ids);
    assert_eq!((recording.workload.tasks.len(), recording.recorder_ns), (2, 0));
}

#[test]
fn a_header_that_cannot_be_read_is_refused() {
    let mut script = Script::default();
    script.line("# wakelab-record: wakelab 0.1.0").line("# wakelab-recorder: seven").switch(0, 0, 0, "R", 1);
    assert_eq!(
        script.read_strictly().unwrap_err(),
        "f:2: expected a line of the header that `wakelab record` writes, found `# wakelab-recorder: seven`"
    );
}
