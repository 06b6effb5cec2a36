// SPDX-License-Identifier: GPL-2.0-or-later
//! A part of a recording is read as a recording of that part.

use wakelab_trace::Options;

use crate::script::{Script, read_text};

/// One second in which t1 records, starts the command t3, and that starts t4, which works and sleeps in turns. t4 is in
/// the group of t3, which was moved to /a.
fn script() -> Script {
    let mut script = Script::default();
    script
        .line("# wakelab-record: wakelab 0.1.0")
        .line("# wakelab-recorder: 1")
        .line("# wakelab-command-pid: 3")
        .line("# wakelab-cgroup-hierarchy: 1")
        .line("# wakelab-cgroup: / cpu.shares=1024")
        .line("# wakelab-cgroup: /a cpu.shares=512")
        .line("# wakelab-task: pid=3 comm=t3 at=begin cgroup=/")
        .switch(0, 0, 0, "R", 1)
        .fork(0, 20, 1, 3)
        .switch(0, 40, 1, "S", 3)
        .event(
            0,
            50,
            3,
            "cgroup:cgroup_attach_task",
            "dst_root=1 dst_id=9 dst_level=1 dst_path=/a pid=3 comm=t3",
        )
        .fork(0, 60, 3, 4)
        .switch(0, 80, 3, "X", 4);
    for tenth in 1..=10 {
        let at_ns = tenth * 100_000_000;
        script.switch(0, at_ns - 50_000_000, 4, "S", 0).waking(0, at_ns - 1_000, 0, 4);
        script.wakeup(0, at_ns - 500, 0, 4).switch(0, at_ns, 0, "R", 4);
    }
    script
}

fn part(time: &str) -> Options {
    Options { time: Some(time.parse().expect("a span")), ..Options::default() }
}

/// From the switch-in at 0.3 s to the switch-out at 0.55: t4 works for 50, 50 and 50 ms.
#[test]
fn a_part_is_a_recording_of_its_own() {
    let recording = read_text(&script().text, &part("0.29,0.551")).expect("a part");
    assert_eq!(recording.duration_ns, 250_001_000);
    assert_eq!(recording.busy_ns, 150_000_000);
    let [task] = &recording.workload.tasks[..] else { panic!("{:?}", recording.workload.tasks) };
    assert_eq!((task.name.as_str(), task.judged), ("t4", true));
    let group = task.group.map(|group| &recording.workload.groups[group as usize]);
    assert_eq!(group.map(|group| (group.name.as_str(), group.shares)), Some(("/a", 512)));
}

#[test]
fn a_part_of_all_is_all() {
    let read = |options: &Options| read_text(&script().text, options).expect("a recording");
    assert_eq!(read(&part("0,")), read(&Options::default()));
    assert_eq!(read(&part(",2")), read(&Options::default()));
}

#[test]
fn a_part_without_switches_is_refused() {
    let refusal = |time: &str| read_text(&script().text, &part(time)).expect_err("nothing there").to_string();
    assert_eq!(
        refusal("2,3"),
        "f: no context switch from 2 s to 3 s after the first event; expected a part of the 1.000 s that were read"
    );
    assert!(refusal("1.5,").contains("from 1.5 s to the end"), "{}", refusal("1.5,"));
}

/// What comes after a part is not read, and so not refused.
#[test]
fn reading_stops_at_the_end_of_the_part() {
    let mut script = script();
    script.line("this is no event");
    assert!(read_text(&script.text, &part("0,0.9")).is_ok());
    assert!(read_text(&script.text, &Options::default()).is_err());
}
