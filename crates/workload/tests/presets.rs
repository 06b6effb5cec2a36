// SPDX-License-Identifier: GPL-2.0-or-later
//! The presets, expanded: hackbench is written out by hand; counts and ends are checked for all.

use wakelab_workload::{Allowed, Channel, End, Measure, Op, Task, Workload, describe, presets};

fn expand(spec: &str) -> Workload {
    Workload::parse_spec(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

fn task(name: &str, number: u32, parent: Option<u32>, program: Vec<Op>) -> Task {
    Task { parent, ..Task::new(name, number, program) }
}

#[test]
fn hackbench_of_one_group_written_out() {
    let found = expand("hackbench:groups=1,fds=2,loops=3,send-work-ns=70,recv-work-ns=50,spread-percent=5");
    let ready = Op::Send { channel: 0, bytes: 1, work_ns: 430 };
    let start = Op::WaitGate { gate: 0 };
    let sent = Op::Compute { work_ns: 70, spread_percent: 5 };
    let received = Op::Compute { work_ns: 50, spread_percent: 5 };
    // Channel 0 is the ready pipe, and 1 and 2 are the receivers'. Tasks 1 and 2 receive, 3 and 4 send.
    let receiver = |channel| {
        vec![
            ready,
            start,
            Op::LoopBegin { times: Some(6) },
            Op::Recv { channel, work_ns: 0 },
            received,
            Op::Count { units: 1 },
            Op::LoopEnd,
        ]
    };
    let sender = vec![
        ready,
        start,
        Op::LoopBegin { times: Some(3) },
        sent,
        Op::Send { channel: 1, bytes: 100, work_ns: 0 },
        sent,
        Op::Send { channel: 2, bytes: 100, work_ns: 0 },
        Op::LoopEnd,
    ];
    let parent = vec![
        Op::Fork { task: 1 },
        Op::Fork { task: 2 },
        Op::Fork { task: 3 },
        Op::Fork { task: 4 },
        Op::LoopBegin { times: Some(4) },
        Op::Recv { channel: 0, work_ns: 430 },
        Op::LoopEnd,
        Op::MarkBegin,
        Op::OpenGate { gate: 0 },
        Op::Join,
        Op::MarkEnd,
    ];
    // A message of 100 bytes takes 512 + 256; 278 messages are the first to reach 212,992.
    let socket = Channel {
        capacity_bytes: 278 * 768,
        overhead_bytes: 668,
        wake_room_bytes: 159_744,
        elastic: false,
        answered_in: None,
        sync: true,
        loopback: false,
        wakes_all_writers: true,
        wakes_when_full: false,
        send_lines: 3,
        recv_lines: 6,
    };
    let expected = Workload {
        tasks: vec![
            task("parent", 0, None, parent),
            task("receiver", 1, Some(0), receiver(1)),
            task("receiver", 2, Some(0), receiver(2)),
            task("sender", 3, Some(0), sender.clone()),
            task("sender", 4, Some(0), sender),
        ],
        channels: vec![
            Channel {
                capacity_bytes: 65_536,
                overhead_bytes: 0,
                wake_room_bytes: 4096,
                elastic: false,
                answered_in: None,
                sync: true,
                loopback: false,
                ..Channel::default()
            },
            socket,
            socket,
        ],
        gates: 1,
        ..Workload::empty(
            "hackbench:groups=1,fds=2,loops=3,send-work-ns=70,recv-work-ns=50,spread-percent=5",
            Measure::Makespan,
        )
    };
    assert_eq!(found, expected);
}

#[test]
fn hackbench_forks_receivers_before_senders_group_by_group() {
    let found = expand("hackbench:groups=2,fds=2");
    let forks: Vec<&str> = found.tasks[0]
        .program
        .iter()
        .filter_map(|op| match op {
            Op::Fork { task } => Some(found.tasks[*task as usize].name.as_str()),
            _ => None,
        })
        .collect();
    let group = ["receiver", "receiver", "sender", "sender"];
    assert_eq!(forks, [group, group].concat());
    // Group 1's senders (tasks 7 and 8) write to group 1's receivers only (channels 3 and 4).
    let channels: Vec<u32> = found.tasks[7]
        .program
        .iter()
        .filter_map(|op| match op {
            Op::Send { channel, bytes: 100, .. } => Some(*channel),
            _ => None,
        })
        .collect();
    assert_eq!(channels, [3, 4]);
}

#[test]
fn hackbench_counts_by_the_originals_defaults() {
    let found = expand("hackbench");
    assert_eq!((found.name.as_str(), found.tasks.len(), found.channels.len()), ("hackbench", 401, 201));
    let found = expand("hackbench:groups=16");
    assert_eq!(
        (found.name.as_str(), found.tasks.len(), found.channels.len()),
        ("hackbench:groups=16", 641, 321)
    );
    assert_eq!(found.tasks.iter().filter(|task| task.name == "sender").count(), 320);
    // Messages sent and received are loops x fds x fds x groups.
    assert_eq!(messages(&found), (640_000, 640_000));
    assert_eq!(expand("hackbench:groups=1_6"), found);
}

/// Returns the number of messages of 100 bytes sent, and of messages received from data channels.
fn messages(workload: &Workload) -> (u64, u64) {
    let (mut sent, mut received) = (0, 0);
    for task in &workload.tasks {
        let mut times = 1;
        for op in &task.program {
            match *op {
                Op::LoopBegin { times: Some(count) } => times = count,
                Op::LoopEnd => times = 1,
                Op::Send { bytes: 100, .. } => sent += times,
                Op::Recv { channel, .. } if channel > 0 => received += times,
                _ => {}
            }
        }
    }
    (sent, received)
}

#[test]
fn hackbench_modes() {
    let threads = expand("hackbench:groups=1,fds=1,mode=thread");
    assert_eq!(threads.tasks.iter().map(|task| task.process).collect::<Vec<_>>(), [0, 0, 0]);
    let pipe = expand("hackbench:groups=1,fds=1,ipc=pipe").channels[1];
    // A page holds 40 messages of 100 bytes, and there are 16 pages.
    assert_eq!(
        pipe,
        Channel {
            capacity_bytes: 64_000,
            overhead_bytes: 0,
            wake_room_bytes: 4000,
            elastic: false,
            answered_in: None,
            sync: true,
            loopback: false,
            send_lines: 1,
            recv_lines: 2,
            ..Channel::default()
        }
    );
}

/// The number of messages of a size that fit, as measured on Linux 6.18 by writing until EAGAIN.
#[test]
fn channels_hold_as_many_messages_as_measured() {
    for (ipc, datasize, fit) in [
        ("socket", 1, 278),
        ("socket", 100, 278),
        ("socket", 1000, 93),
        ("socket", 4096, 44),
        ("pipe", 1, 65_536),
        ("pipe", 100, 640),
        ("pipe", 1000, 64),
        ("pipe", 4096, 16),
    ] {
        let channel = expand(&format!("hackbench:groups=1,fds=1,ipc={ipc},datasize={datasize}")).channels[1];
        assert_eq!(channel.capacity_bytes / (datasize + channel.overhead_bytes), fit, "{ipc} {datasize}");
    }
}

#[test]
fn pingpong_by_time_and_by_loops() {
    let timed = expand("pingpong:pairs=3");
    assert_eq!((timed.tasks.len(), timed.channels.len(), timed.measure), (6, 6, Measure::Rate));
    assert_eq!(timed.end, End::After { duration_ns: 1_000_000_000 });
    assert_eq!(timed.tasks[0].program[0], Op::LoopBegin { times: None });
    let looped = expand("pingpong:pairs=1,loops=5,work-ns=40,mode=thread");
    assert_eq!(looped.end, End::AllExited);
    let work = Op::Compute { work_ns: 430 + 40 + 430, spread_percent: 10 };
    let (send, recv) =
        (|channel| Op::Send { channel, bytes: 1, work_ns: 0 }, |channel| Op::Recv { channel, work_ns: 0 });
    let (begin, count) = (Op::LoopBegin { times: Some(5) }, Op::Count { units: 1 });
    assert_eq!(looped.tasks[0].program, [begin, work, send(0), recv(1), count, Op::LoopEnd]);
    assert_eq!(looped.tasks[1].program, [begin, recv(0), count, work, send(1), Op::LoopEnd]);
    assert_eq!((looped.tasks[0].process, looped.tasks[1].process), (0, 0));
}

#[test]
fn spin_groups() {
    let found = expand("spin:tasks=3,others=2,others-weight=335,duration-ms=20");
    assert_eq!(found.end, End::After { duration_ns: 20_000_000 });
    assert_eq!(found.tasks.iter().map(|task| task.weight).collect::<Vec<_>>(), [1024, 1024, 1024, 335, 335]);
    let burst = Op::Compute { work_ns: 1_000_000, spread_percent: 10 };
    let program = [Op::LoopBegin { times: None }, burst, Op::Count { units: 1 }, Op::LoopEnd];
    assert!(found.tasks.iter().all(|task| task.program == program && task.allowed.is_none()));
    let grouped = expand("spin-groups:a=2,c=0,shares-b=512,outside=1");
    assert_eq!(grouped.groups.iter().map(|group| group.shares).collect::<Vec<_>>(), [1024, 512, 1024, 1024]);
    let groups: Vec<_> = grouped.tasks.iter().map(|task| task.group).collect();
    assert_eq!(groups, [Some(0), Some(0), Some(1), Some(1), Some(1), Some(1), None]);
    let pinned = expand("spin:tasks=3,pin=2");
    let allowed: Vec<_> = pinned.tasks.iter().map(|task| task.allowed.clone().unwrap()).collect();
    assert_eq!(allowed, [vec![0], vec![1], vec![0]]);
}

#[test]
fn every_preset_describes_itself() {
    let names: Vec<&str> = presets().collect();
    assert_eq!(
        names,
        [
            "hackbench",
            "kernbench",
            "lock-server",
            "oltp",
            "openmp",
            "pbzip2",
            "pgbench",
            "pingpong",
            "pixz",
            "schbench",
            "spin",
            "spin-groups",
            "stream",
            "uperf"
        ]
    );
    for name in names {
        let description = describe(name).unwrap();
        assert_eq!(description.name, name);
        assert!(!description.summary.is_empty() && !description.text.is_empty());
        // Giving a parameter's default explicitly changes nothing.
        for param in &description.params {
            let explicit = expand(&format!("{name}:{}={}", param.name, param.default));
            assert_eq!(explicit, expand(name), "{name} {}", param.name);
        }
    }
    let hackbench = describe("hackbench").unwrap();
    assert_eq!(hackbench.params[0].name, "groups");
    assert_eq!(hackbench.params[0].allowed, Allowed::Range { min: 1, max: 50_000 });
    assert_eq!(hackbench.params[5].allowed, Allowed::Choices(vec!["socket".into(), "pipe".into()]));
}

#[test]
fn specs_that_are_refused() {
    for (spec, error) in [
        (
            "hackbanch",
            "workload 'hackbanch': unknown name; there are hackbench, kernbench, lock-server, oltp, openmp, pbzip2, pgbench, pingpong, pixz, schbench, spin, spin-groups, stream and uperf, or the path of a .toml file",
        ),
        (
            "",
            "workload '': unknown name; there are hackbench, kernbench, lock-server, oltp, openmp, pbzip2, pgbench, pingpong, pixz, schbench, spin, spin-groups, stream and uperf, or the path of a .toml file",
        ),
        ("spin:tusks=3", "workload 'spin:tusks=3': unknown parameter 'tusks'; did you mean 'tasks'?"),
        ("spin:tasks", "workload 'spin:tasks': expected key=value,... after the name, found 'tasks'"),
        ("spin:", "workload 'spin:': expected key=value,... after the name, found ''"),
        ("spin:tasks=1,", "workload 'spin:tasks=1,': expected key=value,... after the name, found ''"),
        ("spin:tasks=", "workload 'spin:tasks=': expected key=value,... after the name, found 'tasks='"),
        ("spin:tasks=1,tasks=2", "workload 'spin:tasks=1,tasks=2': parameter 'tasks' is given twice"),
        ("spin:tasks=0", "workload 'spin:tasks=0': tasks=0: expected a number from 1 to 1000000"),
        ("spin:tasks=-1", "workload 'spin:tasks=-1': tasks=-1: expected a number from 1 to 1000000"),
        ("spin:tasks=+1", "workload 'spin:tasks=+1': tasks=+1: expected a number from 1 to 1000000"),
        (
            "spin:tasks=99999999999999999999",
            "workload 'spin:tasks=99999999999999999999': tasks=99999999999999999999: expected a number from 1 to 1000000",
        ),
        ("hackbench:ipc=fifo", "workload 'hackbench:ipc=fifo': ipc=fifo: expected one of socket and pipe"),
    ] {
        assert_eq!(Workload::parse_spec(spec).unwrap_err().to_string(), error);
    }
    let found = Workload::parse_spec("hackbench:groups=50000,fds=1000").unwrap_err().to_string();
    let (file, error) = ("workloads/hackbench.toml:", "expected at most 1048576: lower groups or fds");
    assert!(found.starts_with(file) && found.ends_with(error), "{found}");
    let missing = Workload::parse_spec("/nonexistent/a.toml:tasks=1").unwrap_err().to_string();
    assert!(missing.starts_with("cannot read /nonexistent/a.toml: "), "{missing}");
}
