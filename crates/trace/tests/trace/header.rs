// SPDX-License-Identifier: GPL-2.0-or-later
//! What `wakelab record` writes above the events: the recorder, which is left out, and tasks that may not run
//! everywhere.

use wakelab_trace::Options;
use wakelab_trace::observed::total;
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
            "the recorded kernel is not mainline: with the boot option sched_vcpu_pack=15 it leaves a wakee on its \
             previous CPU and a new task on its parent's, unless another task waits there",
            "the recorder's own tasks, with 0.000 ms of CPU time, are left out",
            "recording took 4 ns for each event, 48.0 % of the tasks' CPU time, which is work here, because the recording has it, \
             too",
        ]
    );
}

/// t2 causes none of its first 10 ns, and after its wake-up one event: its own switch-in, so 4 ns are the recorder's.
/// t3's events are its switch-in, the two of a fork, and a wake-up of the recorder.
#[test]
fn what_events_cost_can_be_taken_off() {
    let options = Options { event_cost_ns: Some(4), ..Options::default() };
    let recording = read_text(&script().text, &options).expect("a recording");
    assert_eq!(program(&recording, "t2"), [compute(10 - 4), sleep(20), compute(65 - 4)]);
    assert_eq!(program(&recording, "t3"), [compute(20 - 4), Op::Fork { task: 1 }, compute(20 - 3 * 4)]);
    let taken =
        "recording took 4 ns for each event, 48.0 % of the tasks' CPU time, which is taken off their work";
    assert!(recording.notes().iter().any(|note| note == taken));
}

/// t1's events are its switch-in, which costs 10, and a write that nobody reads, which costs 3 if BPF told it.
#[test]
fn messages_have_a_cost_of_their_own() {
    for (header, message_cost_ns) in [("# wakelab-message-cost-ns: 3", 3), ("# wakelab-weather: fine", 10)] {
        let mut script = Script::default();
        script
            .line("# wakelab-record: wakelab 0.1.0")
            .line(header)
            .switch(0, 0, 0, "R", 1)
            .event(0, 50, 1, "wakelab:pipe_write", "channel=0 bytes=6 capacity=65536")
            .switch(0, 100, 1, "X", 0);
        let options = Options { event_cost_ns: Some(10), ..Options::default() };
        let recording = read_text(&script.text, &options).expect("a recording");
        assert_eq!(program(&recording, "t1"), [compute(100 - 10 - message_cost_ns)]);
    }
}

/// Without a header, recorders are known by their names; with one, by their ids; and it may name the service.
#[test]
fn the_service_is_told() {
    let service = |header: &str| {
        let mut script = Script::default();
        script.line("# wakelab-record: wakelab 0.1.0");
        for line in header.lines() {
            script.line(line);
        }
        let switch = |from: &str, to: &str| {
            format!("prev_comm={from} prev_prio=120 prev_state=S ==> next_comm={to} next_prio=120")
        };
        let recording = script
            .event(0, 0, 1, "sched:sched_switch", &switch("t1 prev_pid=1", "perf next_pid=2"))
            .event(0, 9, 2, "sched:sched_switch", &switch("perf prev_pid=2", "kworker/0:1 next_pid=3"))
            .read();
        let told = recording.notes().iter().any(|note| note == "no task is called x or y*");
        let names: Vec<String> =
            recording.of_service(&recording.observed).map(|(comm, _)| comm.to_owned()).collect();
        (names.join(" "), told)
    };
    let is = |names: &str, told: bool| (names.to_owned(), told);
    assert_eq!(service(""), is("t1", false));
    // Only perf has CPU time between two events.
    assert_eq!(service("# wakelab-recorder: 9"), is("perf", false));
    assert_eq!(service("# wakelab-service: t*"), is("t1", false));
    assert_eq!(service("# wakelab-service: x\n# wakelab-service: y*"), is("", true));
    assert_eq!(service("# wakelab-command-pid: 7"), is("t1", false), "the command was not seen");
}

/// t1 records and starts t3, which forks t4. t2 belongs to the service by its name, and t5 gets the command's id later.
#[test]
fn the_command_and_its_descendants_are_the_service() {
    let service = |header: &str| {
        let mut script = Script::default();
        script.line("# wakelab-record: wakelab 0.1.0").line("# wakelab-recorder: 1");
        for line in header.lines() {
            script.line(line);
        }
        script
            .switch(0, 0, 0, "R", 1)
            .switch(1, 0, 0, "R", 2)
            .fork(0, 20, 1, 3)
            .switch(0, 40, 1, "S", 3)
            .fork(0, 60, 3, 4)
            .switch(0, 80, 3, "X", 4)
            .switch(0, 95, 4, "X", 0)
            .fork(1, 96, 2, 3)
            .switch(1, 97, 2, "S", 3)
            .switch(1, 100, 3, "S", 0);
        let recording = script.explained();
        let judged: Vec<u64> = recording.workload.tasks.iter().map(|task| u64::from(task.judged)).collect();
        let seen: Vec<(String, u64)> = recording
            .of_service(&recording.observed)
            .map(|(comm, observed)| (comm.to_owned(), observed.tasks))
            .collect();
        (judged, seen, recording.notes().into_iter().find(|note| note.starts_with("service: ")))
    };
    let seen = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect::<Vec<_>>();
    let (judged, tasks, note) = service("# wakelab-command-pid: 3");
    assert_eq!((judged, tasks), (vec![0, 1, 1, 0], seen(&["t3", "t4"])));
    assert_eq!(note.expect("a line"), "service: the command and all that it started (2 tasks)");
    let (judged, tasks, note) = service("# wakelab-command-pid: 3\n# wakelab-service: t2");
    assert_eq!((judged, tasks), (vec![1, 1, 1, 0], seen(&["t2", "t3", "t4"])));
    assert!(
        note.expect("a line").contains("the command, all that it started, and tasks called t2 (3 tasks)")
    );
    let (judged, tasks, note) = service("");
    // Nothing tells, so all but the recorder are the service.
    assert_eq!(judged, [1; 4]);
    assert!(note.expect("a line").ends_with(" little CPU time (4 tasks)"));
    assert_eq!(tasks.iter().map(|(_, tasks)| tasks).sum::<u64>(), 4);
}

/// The command, t3, runs for `command_ns` from 40 on, with t2, a server of which 2,000 ns are known. t2 goes on after
/// the command: the service is done when t3 is, unless t3 has less than 1 % of the CPU time (20 of 2,020).
#[test]
fn a_service_is_done_when_the_command_is() {
    let read = |command_ns: u64| {
        let mut script = Script::default();
        script
            .line("# wakelab-record: wakelab 0.1.0")
            .line("# wakelab-recorder: 1")
            .line("# wakelab-command-pid: 3")
            .line("# wakelab-service: t2")
            .switch(0, 0, 0, "R", 1)
            .switch(1, 0, 0, "R", 2)
            .fork(0, 20, 1, 3)
            .switch(0, 40, 1, "S", 3)
            .switch(0, 40 + command_ns, 3, "X", 0)
            .switch(1, 2_000, 2, "S", 0);
        script.explained()
    };
    for (command_ns, done_ns, goes_on) in [(600, 640, true), (21, 61, true), (20, 2_000, false)] {
        let recording = read(command_ns);
        let seen = total(recording.of_service(&recording.observed).map(|(_, observed)| observed));
        assert_eq!((seen.done_ns, seen.awaited), (done_ns, goes_on), "{command_ns}");
        assert_eq!(recording.observed.judged["t2"].done_ns, 2_000, "by name, each is done by itself");
        assert_eq!(total(recording.observed.by_comm.values()).done_ns, 2_000, "of all tasks");
        let awaited: Vec<bool> = recording.workload.tasks.iter().map(|task| task.awaited).collect();
        assert_eq!(awaited, [false, goes_on], "{command_ns}");
        let note = recording.notes().into_iter().find(|note| note.starts_with("service: ")).expect("a note");
        assert_eq!(note.ends_with(" (2 tasks), done when the command is"), goes_on, "{note}");
    }
}

/// t3 is in /a, and forks t4 there. t3 is moved to /b while t4 runs, and to the root at the end of its work.
#[test]
fn tasks_are_in_their_groups() {
    let mut script = Script::default();
    let move_to = |script: &mut Script, cpu: u32, time_ns: u64, current: u32, path: &str| {
        let fields = format!("dst_root=1 dst_id=9 dst_level=1 dst_path={path} pid=3 comm=t3");
        script.event(cpu, time_ns, current, "cgroup:cgroup_attach_task", &fields);
    };
    script
        .line("# wakelab-record: wakelab 0.1.0")
        .line("# wakelab-cgroup-hierarchy: 1")
        .line("# wakelab-cgroup: /a cpu.shares=512")
        .line("# wakelab-cgroup: /b cpu.shares=2048")
        .line("# wakelab-task: pid=3 comm=t3 at=begin cgroup=/a")
        .switch(0, 0, 0, "R", 3)
        .fork(0, 20, 3, 4)
        .switch(0, 40, 3, "R", 4);
    move_to(&mut script, 0, 50, 4, "/b");
    script.switch(0, 60, 4, "X", 3);
    move_to(&mut script, 0, 90, 3, "/");
    script.switch(0, 100, 3, "X", 0);
    let recording = script.explained();
    let groups: Vec<(&str, u32)> =
        recording.workload.groups.iter().map(|group| (group.name.as_str(), group.shares)).collect();
    assert_eq!(groups, [("/a", 512), ("/b", 2048)]);
    let of = |name: &str| recording.workload.tasks.iter().find(|task| task.name == name).expect("a task");
    assert_eq!((of("t3").group, of("t4").group), (Some(0), Some(0)));
    let moved = |group| Op::MoveTo { group };
    let expected = [
        compute(20),
        Op::Fork { task: 1 },
        compute(20),
        moved(Some(1)),
        compute(30),
        moved(None),
        compute(10),
    ];
    assert_eq!(program(&recording, "t3"), expected);
    assert!(recording.notes().contains(&"2 task groups, with 2 tasks at first and 2 moves later".to_owned()));
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

/// The largest name has 2,000 us, the smallest 1 us, less than a thousandth of both; `--of` finds that one, too.
#[test]
fn names_with_little_cpu_time_are_not_the_service() {
    let script = || {
        let mut script = Script::default();
        script
            .switch(0, 0, 0, "R", 1)
            .switch(0, 2_000, 1, "S", 2)
            .switch(0, 2_001, 2, "S", 1)
            .switch(0, 2_010, 1, "S", 0);
        script
    };
    let judged = |options: &Options| {
        let recording = read_text(&script().text, options);
        recording.map(|recording| {
            recording.workload.tasks.iter().filter(|task| task.judged).map(|task| task.name.clone()).collect()
        })
    };
    let of = |names: &[&str]| Options {
        of: names.iter().map(|&name| name.into()).collect(),
        ..Options::default()
    };
    assert_eq!(judged(&Options::default()).expect("a recording"), ["t1"]);
    assert_eq!(judged(&of(&["t2"])).expect("a recording"), ["t2"]);
    assert_eq!(judged(&of(&["t*"])).expect("a recording"), ["t1", "t2"]);
    let error: Result<Vec<String>, _> = judged(&of(&["t2", "x*"]));
    assert_eq!(
        error.expect_err("no such task").to_string(),
        "f: no task is called `x*`; expected the name of a task, its beginning and *, or the path of a control group"
    );
}
