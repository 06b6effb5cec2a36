// SPDX-License-Identifier: GPL-2.0-or-later
//! The recordings in fixtures/, compared with counts of lines in their text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use wakelab_trace::flows::FlowKind;
use wakelab_trace::{Gap, Options, Recording, read};
use wakelab_workload::{Op, Task};

use crate::executor::{execute, work_ns};

struct Fixture {
    text: String,
    recording: Recording,
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn fixture(name: &str) -> Fixture {
    let text = std::fs::read_to_string(path(name)).expect("the fixture");
    let recording = read(&path(name), &Options::default()).expect("the fixture is well formed");
    assert_eq!(recording.workload.name, name);
    Fixture { text, recording }
}

impl Fixture {
    fn lines_with(&self, what: &str) -> u64 {
        self.text.lines().filter(|line| line.contains(what)).count() as u64
    }

    fn count_ops(&self, matches: fn(&Op) -> bool) -> u64 {
        let ops = self.recording.workload.tasks.iter().flat_map(|task| &task.program);
        ops.filter(|op| matches(op)).count() as u64
    }

    /// CPU time by the scheduler's own account, by task id.
    fn stat_runtime_ns(&self) -> BTreeMap<u32, u64> {
        let mut sums = BTreeMap::new();
        for line in self.text.lines().filter(|line| line.contains("sched_stat_runtime: ")) {
            let field = |key: &str| {
                let value = line.rsplit_once(key).expect("the field").1;
                value.split(' ').next().and_then(|value| value.parse::<u64>().ok()).expect("a number")
            };
            *sums.entry(field(" pid=") as u32).or_insert(0) += field(" runtime=");
        }
        sums
    }

    fn check(&self) {
        let explained = &self.recording.explained;
        assert_eq!(self.recording.events, self.text.lines().count() as u64);
        assert_eq!(explained.tasks_exited, self.lines_with("prev_state=X") + self.lines_with("prev_state=Z"));
        assert_eq!(explained.tasks_born, self.lines_with("sched_process_fork: "));
        assert_eq!(self.count_ops(|op| matches!(op, Op::Fork { .. })), explained.tasks_born);
        assert!(explained.permille() >= 999, "{explained:?}");
        assert!(explained.processes_known && explained.wakers_known && !explained.interrupts_known);

        // Each wait that a task ended, and each that was inferred, is one signal or one message.
        let waits = self.count_ops(|op| matches!(op, Op::Wait { .. } | Op::Recv { .. }));
        let signals = self.count_ops(|op| matches!(op, Op::Signal { .. } | Op::Send { .. }));
        let added: u64 = explained.flows.values().map(|flow| flow.added).sum();
        assert!(added > 0);
        assert_eq!((waits, signals), (explained.by_task + added, explained.by_task + added));

        // A replay ends, and with a CPU for each task it ends no later than the recording.
        let ends_ns = execute(&self.recording.workload).expect("no task waits for ever");
        assert!(ends_ns.iter().all(|&end_ns| end_ns <= self.recording.duration_ns));

        // CPU time is measured between context switches. The scheduler's own account is some microseconds off at each
        // switch, and includes the time before the recording for a task that ran at its beginning.
        let work_ns = work_ns(&self.recording.workload);
        assert_eq!(work_ns.iter().sum::<u64>(), self.recording.busy_ns);
        let stat_ns: u64 = self.stat_runtime_ns().values().sum();
        assert!(
            self.recording.busy_ns.abs_diff(stat_ns) < stat_ns / 100,
            "{} {stat_ns}",
            self.recording.busy_ns
        );
    }
}

#[test]
fn hackbench() {
    let fixture = fixture("hackbench.perf.txt");
    fixture.check();
    let recording = &fixture.recording;
    assert_eq!((recording.nr_cpus, recording.events), (2, 3584));
    assert_eq!(recording.workload.tasks.iter().filter(|task| task.name == "hackbench").count(), 21);
    // Each of the 766 sched_waking lines ended a wait, except one, which began a task from before the recording.
    let explained = &recording.explained;
    assert_eq!(fixture.lines_with("sched_waking: "), 766);
    assert_eq!((explained.waits, explained.by_task, explained.unexplained), (765, 765, 0));
    assert_eq!((explained.redundant_wakes, explained.tasks_from_before), (0, 9));
    assert_eq!(explained.switch_ins_inferred, 19);
    assert_eq!(explained.gaps.keys().copied().collect::<Vec<_>>(), [Gap::MissedSwitch]);
    assert_eq!(explained.gaps[&Gap::MissedSwitch].count, 1);
    // Tasks that did not run at the beginning are within a tenth of the scheduler's account.
    let stat_ns = fixture.stat_runtime_ns();
    for (task, work_ns) in recording.workload.tasks.iter().zip(work_ns(&recording.workload)) {
        let stat_ns = stat_ns[&task.process];
        if task.name == "hackbench" {
            assert!(
                work_ns.abs_diff(stat_ns) < stat_ns / 10,
                "{} {}: {work_ns} {stat_ns}",
                task.name,
                task.process
            );
        }
    }
}

#[test]
fn pgbench() {
    let fixture = fixture("pgbench.perf.txt");
    fixture.check();
    let recording = &fixture.recording;
    assert_eq!((recording.nr_cpus, recording.events), (2, 4916));
    let explained = &recording.explained;
    assert_eq!(fixture.lines_with("sched_waking: "), 1171);
    assert_eq!(
        (explained.waits, explained.by_task, explained.from_outside, explained.unexplained),
        (1172, 1170, 2, 0)
    );
    assert_eq!(explained.redundant_wakes, 0);
    assert_eq!(explained.gaps.keys().copied().collect::<Vec<_>>(), [Gap::SwitchInUnwoken]);
    assert_eq!(explained.gaps[&Gap::SwitchInUnwoken].count, 1);

    // pgbench and its thread share a process; the server processes do not.
    let processes = |name: &str| -> Vec<u32> {
        let tasks = recording.workload.tasks.iter().filter(|task| task.name == name);
        tasks.map(|task| task.process).collect()
    };
    assert_eq!(processes("pgbench"), [1979, 1979]);
    let mut servers = processes("postgres");
    servers.dedup();
    assert_eq!(servers.len(), 7);
}

#[test]
fn strict_refuses_with_the_first_gap() {
    let error =
        read(&path("hackbench.perf.txt"), &Options { strict: true, ..Options::default() }).unwrap_err();
    let text = error.to_string();
    assert!(
        text.ends_with(
            "hackbench.perf.txt:445: cannot be explained: another task runs on the CPU than the one that was switched in last"
        ),
        "{text}"
    );
}

#[test]
fn reading_is_deterministic() {
    assert_eq!(fixture("pgbench.perf.txt").recording, fixture("pgbench.perf.txt").recording);
}

/// What `uname -r` printed where they were made.
#[test]
fn the_kernel_s_release_is_read() {
    let releases = [
        ("sleep.perf.data", "6.18.44-fc-v657"),
        ("sleep-pipe.perf.data", "6.18.44-fc-v657"),
        ("sleep-z.perf.data", "6.18.44-fc-v595"),
        ("small.trace.dat", "6.12.9"),
        ("small-v7.trace.dat", ""),
        ("small.ctf", "6.12.9"),
        ("small.perfetto-trace", "6.12.9"),
    ];
    for (name, release) in releases {
        let recording = read(&path(name), &Options::default()).expect("the fixture is well formed");
        let header = recording.header.unwrap_or_default();
        assert_eq!((header.kernel.as_str(), header.made_by.as_str()), (release, ""), "{name}");
    }
}

/// What `wakelab record` wrote: header, events and footer.
#[test]
fn a_recording_with_a_header() {
    let recording = read(&path("hackbench.rec.gz"), &Options::default()).expect("the fixture is well formed");
    let header = recording.header.as_ref().expect("a header");
    assert_eq!(header.made_by, "wakelab 0.1.0, perf version 6.1.187");
    assert_eq!(header.command, "hackbench -g 1 -f 2 -l 40");
    assert!(header.patched_kernel().is_some() && header.kernel.starts_with("6.18."));
    let machine = header.machine("f").expect("a machine file").expect("a machine");
    assert_eq!((machine.topology.nr_cpus(), machine.topology.cpus[1].llc), (2, 0));
    // The last line says how many events there are; the line before the last but one, what each of them cost.
    assert_eq!((recording.events, recording.explained.lost_events), (642, 0));
    assert_eq!(header.event_cost_ns, Some(899));

    let named = |name: &str| recording.workload.tasks.iter().filter(|task| task.name == name).count();
    assert_eq!((named("hackbench"), named("perf"), named("wakelab")), (5, 0, 0));
    assert!(recording.recorder_ns > 0 && recording.explained.interrupts_known);
    // One hackbench begins by itself, because the recorder forked it, and forks the others.
    let roots =
        recording.workload.tasks.iter().filter(|task| task.name == "hackbench" && task.parent.is_none());
    assert_eq!(roots.count(), 1);
    assert_eq!(recording.explained.gaps, BTreeMap::new());
    execute(&recording.workload).expect("all tasks end");
}

/// The same of a program with exact messages: 400 queries and answers over 4 sockets.
#[test]
fn a_recording_with_messages() {
    let recording = read(&path("pgbench.rec.gz"), &Options::default()).expect("the fixture is well formed");
    assert_eq!((recording.events, recording.explained.lost_events), (6_112, 0));
    // One wake-up was missed, and where the recording of one CPU ends before the other's, two things do not fit.
    let gaps: u64 = recording.explained.gaps.values().map(|gap| gap.count).sum();
    assert_eq!(gaps, 3, "{:?}", recording.explained.gaps);
    let sockets = recording.explained.flows[&FlowKind::Socket];
    assert!(sockets.pairs >= 8 && sockets.wakeups + sockets.added >= 800, "{sockets:?}");
    let judged = |task: &&Task| task.judged;
    let names: BTreeSet<&str> =
        recording.workload.tasks.iter().filter(judged).map(|task| task.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["pgbench", "postgres"]));
    execute(&recording.workload).expect("all tasks end");
}
