// SPDX-License-Identifier: GPL-2.0-or-later
//! Workload files that users write: every key once, and every error.

use wakelab_workload::{
    Barrier, Channel, End, Group, Home, Lock, Measure, Op, Quota, Source, Task, Workload, WorkloadFile,
};

const HEAD: &str = "name = \"t\"\nsummary = \"s\"\nmeasure = \"makespan\"\n";

fn expand(body: &str, settings: &[(&str, &str)]) -> Result<Workload, String> {
    let settings: Vec<(String, String)> =
        settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let file = WorkloadFile::parse("t.toml", &format!("{HEAD}{body}")).map_err(|error| error.to_string())?;
    file.expand("t", &settings).map_err(|error| error.to_string())
}

/// Most keys of the format, each at least once.
const EVERY_KEY: &str = r#"
end-after-ns = "twice * 1_000"
[[params]]
name = "n"
default = 2
min = 1
max = 9
help = "how many"
[[params]]
name = "how"
default = "fast"
choices = ["fast", "slow"]
help = "how"
[[let]]
name = "twice"
value = "2 * n"
[[channels]]
name = "c"
each = ["i in 1..n + 1"]
capacity-bytes = "100 * i"
overhead-bytes = 7
wake-room-bytes = 50
wakes-all-writers = true
send-lines = 3
recv-lines = 6
sync = false
[[signals]]
name = "first"
[[signals]]
name = "done"
each = ["i in 0..n"]
[[gates]]
name = "unused"
if = "how == 'slow'"
each = ["i in 0..n"]
[[gates]]
name = "go"
[[tasks]]
name = "main"
start-ns = 5
weight = 335
allowed = ["n", 0, "n"]
last-cpu = 0
program = [
    { for = "i in 0..n", do = [{ fork = "worker[i]" }] },
    { sleep-ns = 10, source = "device" },
    { sleep-ns = 11 },
    { open-gate = "go" },
    { wait = "done[n - 1]" },
    { if = "how == 'fast'", do = [{ compute-ns = 3 }], else = ["yield"] },
    "mark-begin", "join", "mark-end", "begin-batch", "yield", "exit",
]
[[tasks]]
name = "worker"
each = ["i in 0..n"]
process = "0"
program = [
    { wait-gate = "go" },
    { repeat = "forever", do = [
        { send = "c[i + 1]", bytes = 20, work-ns = 4 },
        { recv = "c[i + 1]", work-ns = 6 },
        { repeat = "n", do = [{ compute-ns = "self", spread-percent = 9 }] },
        { count = "i" },
    ] },
    { signal = "done[i]", sync = true },
]
"#;

#[test]
fn every_key_once() {
    let body = EVERY_KEY;
    let channel = |capacity_bytes| Channel {
        capacity_bytes,
        overhead_bytes: 7,
        elastic: false,
        answered_in: None,
        wake_room_bytes: 50,
        sync: false,
        loopback: false,
        wakes_all_writers: true,
        wakes_when_full: false,
        send_lines: 3,
        recv_lines: 6,
    };
    let worker = |number: u32, i: u32| Task {
        parent: Some(0),
        ..Task::new(
            "worker",
            0,
            vec![
                Op::WaitGate { gate: 0 },
                Op::LoopBegin { times: None },
                Op::Send { channel: i, bytes: 20, work_ns: 4 },
                Op::Recv { channel: i, work_ns: 6 },
                Op::LoopBegin { times: Some(2) },
                Op::Compute { work_ns: u64::from(number), spread_percent: 9 },
                Op::LoopEnd,
                Op::Count { units: u64::from(i) },
                Op::LoopEnd,
                Op::Signal { signal: 1 + i, sync: true },
            ],
        )
    };
    let mut expected = Workload {
        tasks: vec![
            Task {
                start_ns: 5,
                weight: 335,
                allowed: Some(vec![0, 2]),
                last_cpu: Some(0),
                ..Task::new(
                    "main",
                    0,
                    vec![
                        Op::Fork { task: 1 },
                        Op::Fork { task: 2 },
                        Op::Sleep { delay_ns: 10, source: Source::Device },
                        Op::Sleep { delay_ns: 11, source: Source::Timer },
                        Op::OpenGate { gate: 0 },
                        Op::Wait { signal: 2 },
                        Op::Compute { work_ns: 3, spread_percent: 0 },
                        Op::MarkBegin,
                        Op::Join,
                        Op::MarkEnd,
                        Op::BeginBatch,
                        Op::Yield,
                        Op::Exit,
                    ],
                )
            },
            worker(1, 0),
            worker(2, 1),
        ],
        channels: vec![channel(100), channel(200)],
        signals: 3,
        gates: 1,
        end: End::After { duration_ns: 4000 },
        ..Workload::empty("t", Measure::Makespan)
    };
    assert_eq!(expand(body, &[]), Ok(expected.clone()));
    // The other choice makes two more gates before "go", and a yield instead of the compute.
    expected.name = "t:how=slow".to_owned();
    expected.gates = 3;
    expected.tasks[0].program[4] = Op::OpenGate { gate: 2 };
    expected.tasks[0].program[6] = Op::Yield;
    expected.tasks[1].program[0] = Op::WaitGate { gate: 2 };
    expected.tasks[2].program[0] = Op::WaitGate { gate: 2 };
    assert_eq!(expand(body, &[("how", "slow")]), Ok(expected));
    let json = serde_json::to_string(&expand(body, &[]).unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), expand(body, &[]).unwrap());
}

/// The keys that are not in every_key_once(): locks, barriers, memory, exec, open-loop sleeps, judged tasks.
#[test]
fn every_key_of_shared_objects_once() {
    let body = r#"
end-after-ns = 5_000
[[params]]
name = "spin"
default = 7
max = 9
help = ""
[[channels]]
name = "tcp"
capacity-bytes = 9
loopback = true
[[locks]]
name = "plain"
[[locks]]
name = "shards"
each = ["i in 0..2"]
spin-ns = "spin * (i + 1)"
handoff = "i == 1"
[[locks]]
name = "spinlock"
spin-ns = "forever"
[[barriers]]
name = "none"
if = "spin > 7"
parties = 1
[[barriers]]
name = "round"
parties = "spin - 5"
spin-ns = 20
[[barriers]]
name = "busy"
parties = 1
spin-ns = "forever"
[[tasks]]
name = "t"
each = ["i in 0..2"]
footprint-bytes = "4096 * i"
judged = "i == 1"
pin = "i * 4 - 4"
program = [
    { sleep-until-ns = "100 + i", source = "device" },
    { sleep-until-ns = 200 },
    { sleep-ns = 3, source = "unknown" },
    { lock = "shards[i]" }, { lock = "plain" }, { unlock = "shards[i]" }, { unlock = "plain" },
    { lock = "spinlock" }, { unlock = "spinlock" },
    { share = "spin + i", among = "round", do = [{ compute-ns = 4 }] },
    { barrier = "round" }, { barrier = "busy" },
    { memory-ns = 5, read-bytes = "i * 64", write-bytes = 32, home = "i", llc-percent = "50 * i" },
    { memory-ns = 6, home = "first-touch" },
    { memory-ns = 0, write-bytes = 8 },
    "exec",
]
"#;
    let memory = |work_ns, read_bytes, write_bytes, home, llc_percent| Op::Memory {
        work_ns,
        read_bytes,
        write_bytes,
        home,
        llc_percent,
    };
    let task = |i: u32| Task {
        allowed: (i == 1).then(|| vec![0]),
        footprint_bytes: 4096 * u64::from(i),
        judged: i == 1,
        // Locks: 0 is plain, 1 and 2 are the shards, 3 is the spinlock. Barriers: 0 is round, 1 is busy.
        ..Task::new(
            "t",
            i,
            vec![
                Op::SleepUntil { time_ns: 100 + u64::from(i), source: Source::Device },
                Op::SleepUntil { time_ns: 200, source: Source::Timer },
                Op::Sleep { delay_ns: 3, source: Source::Unknown },
                Op::Lock { lock: 1 + i },
                Op::Lock { lock: 0 },
                Op::Unlock { lock: 1 + i },
                Op::Unlock { lock: 0 },
                Op::Lock { lock: 3 },
                Op::Unlock { lock: 3 },
                Op::LoopShared { barrier: 0, times: 7 + u64::from(i) },
                Op::Compute { work_ns: 4, spread_percent: 0 },
                Op::LoopEnd,
                Op::Barrier { barrier: 0 },
                Op::Barrier { barrier: 1 },
                memory(5, 64 * u64::from(i), 32, Home::Node(i), 50 * i),
                memory(6, 0, 0, Home::FirstTouch, 0),
                memory(0, 0, 8, Home::FirstTouch, 0),
                Op::Exec,
            ],
        )
    };
    let expected = Workload {
        tasks: vec![task(0), task(1)],
        channels: vec![Channel { capacity_bytes: 9, sync: true, loopback: true, ..Channel::default() }],
        locks: vec![
            Lock { spin_ns: 0, handoff: false, ..Lock::default() },
            Lock { spin_ns: 7, handoff: false, ..Lock::default() },
            Lock { spin_ns: 14, handoff: true, ..Lock::default() },
            Lock { spin_ns: u64::MAX, handoff: false, ..Lock::default() },
        ],
        barriers: vec![
            Barrier { parties: 2, spin_ns: 20, recorded: false },
            Barrier { parties: 1, spin_ns: u64::MAX, recorded: false },
        ],
        end: End::After { duration_ns: 5000 },
        ..Workload::empty("t", Measure::WakeupLatency)
    };
    let head = HEAD.replace("makespan", "wakeup-latency");
    let found = WorkloadFile::parse("t.toml", &format!("{head}{body}")).unwrap().expand("t", &[]).unwrap();
    assert_eq!(found, expected);
    let json = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), found);
}

/// Returns a file with one task, whose `program` begins at line 6, column 12.
fn with_program(program: &str) -> String {
    format!(
        "[[tasks]]\nname = \"a\"\nprogram = [{program}]\n[[channels]]\nname = \"c\"\ncapacity-bytes = 10\n\
         [[locks]]\nname = \"l\"\n[[barriers]]\nname = \"b\"\nparties = 2\n"
    )
}

#[test]
fn wrong_programs_name_line_and_column() {
    for (program, error) in [
        (r#"{ compute-ns = "1 / 0" }"#, "t.toml:6:30: division by zero"),
        (
            r#"{ compute-ns = "9_000_000_000_000_000_000 * 2" }"#,
            "t.toml:6:54: overflow: the result does not fit into 64 bits",
        ),
        (r#"{ compute-ns = "0 - 1" }"#, "t.toml:6:30: work is -1; expected 0 to 1125899906842624"),
        (r#"{ compute-ns = "n" }"#, "t.toml:6:28: unknown name 'n'; there is 'self'"),
        (
            r#"{ compute-ns = 1, spread-percent = 101 }"#,
            "t.toml:6:47: spread-percent is 101; expected 0 to 100",
        ),
        (
            r#"{ compute-ns = 1.5 }"#,
            "t.toml:6:27: expected an integer or a string with an expression, found a float",
        ),
        (r#"{ compute-ns = -1 }"#, "t.toml:6:27: expected an integer from 0 to 2^63 - 1"),
        (
            r#"{ compute-ns = 1, bytes = 2 }"#,
            "t.toml:6:30: unknown key 'bytes' in the operation; there are compute-ns and spread-percent",
        ),
        (r#"{ comptue-ns = 1 }"#, "t.toml:6:14: unknown operation 'comptue-ns'; did you mean 'compute-ns'?"),
        (r#""jion""#, "t.toml:6:12: unknown operation 'jion'; did you mean 'join'?"),
        (r#"7"#, "t.toml:6:12: expected an operation: a table or a word, found an integer"),
        (r#"{ send = "c" }"#, "t.toml:6:12: the operation lacks the key 'bytes'"),
        (r#"{ send = "d", bytes = 1 }"#, "t.toml:6:22: unknown 'd' among the channels; there is 'c'"),
        (r#"{ send = "c[0]", bytes = 1 }"#, "t.toml:6:22: 'c' has 0 indices, found 1"),
        (
            r#"{ send = "c", bytes = 11 }"#,
            "t.toml: task 0 (a), operation 0: a message that takes 11 bytes never fits into channel 0 of 10 bytes",
        ),
        (r#"{ fork = "a" }"#, "t.toml: task 0 (a): it is its own ancestor"),
        (r#"{ wait = "s" }"#, "t.toml:6:22: unknown 's' among the signals; there is none"),
        (
            r#"{ repeat = "forever", do = [{ compute-ns = 1 }] }"#,
            "t.toml: task 0 (a), operation 0: an endless loop, but the run ends when all tasks have exited",
        ),
        (r#"{ repeat = 1 }"#, "t.toml:6:12: the operation lacks the key 'do'"),
        (r#"{ for = "i", do = [] }"#, "t.toml:6:22: expected 'in', as in 'i in 0..fds', found the end"),
        (
            r#"{ for = "i in 0..2", do = [{ for = "i in 0..2", do = [] }] }"#,
            "t.toml:6:39: the name 'i' already means something else",
        ),
        (
            r#"{ for = "i in 0..1_000_000_000_000", do = [] }"#,
            "t.toml:5:8: 'a' brings the operations to at least 1000000000002; expected at most 16777216: use smaller ranges",
        ),
        (
            r#"{ sleep-ns = 1, source = "disk" }"#,
            "t.toml:6:37: expected one of timer, device and unknown, found 'disk'",
        ),
        (r#"{ memory-ns = 1, home = "9 - 10" }"#, "t.toml:6:39: home is -1; expected 0 to 65535"),
        (
            r#"{ memory-ns = 1, read-bytes = "1_000_000_000_000_000" }"#,
            "t.toml:6:43: read-bytes is 1000000000000000; expected 0 to 17592186044416",
        ),
        (r#"{ memory-ns = 1, home = "first" }"#, "t.toml:6:37: unknown name 'first'; there is 'self'"),
        (
            r#"{ sleep-until-ns = "0 - 1" }"#,
            "t.toml:6:34: sleep-until-ns is -1; expected 0 to 1125899906842624",
        ),
        (r#"{ lock = "m" }"#, "t.toml:6:22: unknown 'm' among the locks; there is 'l'"),
        (
            r#"{ share = 2, among = "c", do = [] }"#,
            "t.toml:6:34: unknown 'c' among the barriers; there is 'b'",
        ),
        (r#"{ share = 2, do = [] }"#, "t.toml:6:12: the operation lacks the key 'among'"),
        (r#"{ barrier = "c" }"#, "t.toml:6:25: unknown 'c' among the barriers; there is 'b'"),
        (
            r#"{ lock = "l" }, { lock = "l" }"#,
            "t.toml: task 0 (a), operation 1: takes lock 0, which it holds already",
        ),
        (r#"{ unlock = "l" }"#, "t.toml: task 0 (a), operation 0: gives back lock 0, which it does not hold"),
        (r#"{ lock = "l" }, "yield""#, "t.toml: task 0 (a), operation 2: ends while it holds lock 0"),
        (
            r#"{ repeat = 2, do = [{ lock = "l" }] }"#,
            "t.toml: task 0 (a), operation 2: the loop ends with other locks held than when it began",
        ),
        (
            r#"{ barrier = "b" }, { barrier = "b" }"#,
            "t.toml: barrier 0: it has 2 parties; expected at most 1, the tasks that come to it",
        ),
        (r#"{ compute-ns = "\u0031 / 0" }"#, "t.toml:6:29: division by zero"),
    ] {
        assert_eq!(expand(&with_program(program), &[]), Err(error.to_owned()), "{program}");
    }
}

#[test]
fn wrong_files_name_line_and_column() {
    let task = "[[tasks]]\nname = \"a\"\nprogram = []\n";
    for (body, error) in [
        (String::new(), "t.toml: it has no tasks"),
        ("x".to_owned(), "t.toml:4:2: key with no value, expected `=`"),
        (
            "x = 1".to_owned(),
            "t.toml:4:1: unknown key 'x' in the file; there are name, summary, text, params, let, channels, signals, gates, locks, barriers, groups, tasks, end-after-ns, measure and lengthen",
        ),
        ("tasks = 3".to_owned(), "t.toml:4:9: expected an array of tables, found an integer"),
        ("[[tasks]]\nname = \"a\"".to_owned(), "t.toml:4:1: tasks lacks the key 'program'"),
        (
            "[[tasks]]\nname = \"a b\"\nprogram = []".to_owned(),
            "t.toml:5:8: 'a b' is no name: expected letters, digits and _, and hyphens before letters",
        ),
        (
            format!("{task}footprint-bytes = 17592186044417"),
            "t.toml:7:19: footprint-bytes is 17592186044417; expected 0 to 17592186044416",
        ),
        (
            format!("{task}[[barriers]]\nname = \"b\"\nparties = 0"),
            "t.toml:9:11: parties is 0; expected 1 to 1048576",
        ),
        (format!("{task}[[barriers]]\nname = \"b\""), "t.toml:7:1: barriers lacks the key 'parties'"),
        (
            format!("{task}[[locks]]\nname = \"l\"\nspin-ns = \"for-ever\""),
            "t.toml:9:12: unknown name 'for-ever'; there is none (a minus needs a space after it)",
        ),
        (format!("{task}weight = 0"), "t.toml:7:10: weight is 0; expected 1 to 262144"),
        (format!("{task}allowed = []"), "t.toml: task 0 (a): no CPU is allowed"),
        (
            format!("{task}allowed = [0]\npin = 1"),
            "t.toml:8:7: expected either 'allowed' or 'pin', found both",
        ),
        (format!("{task}pin = 70000"), "t.toml:7:7: pin is 70000; expected 0 to 65535"),
        (format!("{task}allowed = [70000]"), "t.toml:7:12: a CPU is 70000; expected 0 to 65535"),
        (
            format!("{task}each = [\"i in 0..5_000_000\"]"),
            "t.toml:5:8: 'a' brings the tasks to 5000000; expected at most 1048576: use smaller ranges",
        ),
        (
            format!("{task}each = [\"i in 0..9_000_000_000\", \"j in 0..9_000_000_000\"]"),
            "t.toml:5:8: 'a' brings the tasks to 18446744073709551615; expected at most 1048576: use smaller ranges",
        ),
        (format!("{task}{task}"), "t.toml:8:8: a second 'a' among the tasks"),
        (
            format!("{task}[[params]]\nname = \"n\"\ndefault = 5\nmax = 4\nhelp = \"\""),
            "t.toml:9:11: the default 5 is not from 0 to 4",
        ),
        (
            format!("{task}[[params]]\nname = \"n\"\ndefault = \"x\"\nchoices = [\"y\"]\nhelp = \"\""),
            "t.toml:9:11: the default 'x' is none of the choices y",
        ),
        (
            format!("{task}[[let]]\nname = \"self\"\nvalue = 1"),
            "t.toml:9:9: the name 'self' already means something else",
        ),
        (
            format!("{task}[[channels]]\nname = \"c\"\ncapacity-bytes = 5\nwake-room-bytes = 6"),
            "t.toml: channel 0: wakes writers at 6 free bytes; expected at most the capacity, 5",
        ),
        (
            format!("{task}[[channels]]\nname = \"c\"\ncapacity-bytes = 5\nloopback = true\nsend-lines = 3"),
            "t.toml: channel 0: 3 send-lines; expected 0 with loopback, because the protocol's cost includes them",
        ),
        (
            format!("{task}[[channels]]\nname = \"c\"\ncapacity-bytes = 5\nrecv-lines = 2_000_000"),
            "t.toml:10:14: recv-lines is 2000000; expected 0 to 1048576",
        ),
    ] {
        assert_eq!(expand(&body, &[]), Err(error.to_owned()), "{body}");
    }
    let second = "[[params]]\nname = \"n\"\ndefault = 1\nmax = 4\nhelp = \"\"\n";
    assert_eq!(expand(&second.repeat(2), &[]), Err("t.toml:10:8: a second parameter 'n'".to_owned()));
}

/// The example of docs/guide/workloads.md, together with the locks, barriers and groups below it, is a valid workload.
#[test]
fn the_example_of_the_guide_expands() {
    let guide = include_str!("../../../docs/guide/workloads.md");
    let blocks: Vec<&str> = guide
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(block, _)| block)
        .collect();
    assert_eq!(blocks.len(), 2);
    let settings = [("tasks".to_owned(), "3".to_owned())];
    let ring =
        WorkloadFile::parse("example", &blocks.concat()).unwrap().expand("example", &settings).unwrap();
    assert_eq!(ring.locks, [Lock::default()]);
    assert_eq!(ring.barriers, [Barrier { parties: 3, spin_ns: 0, recorded: false }]);
    assert_eq!(
        (ring.tasks.len(), ring.channels.len(), ring.end),
        (3, 3, End::After { duration_ns: 100_000_000 })
    );
    assert!(ring.tasks[2].program.contains(&Op::Send { channel: 0, bytes: 1, work_ns: 400 }));
}

/// Groups as arrays, with parents before and after their children in the file; the groups that tasks begin in and move
/// to.
#[test]
fn groups_expand() {
    let text = r#"
name = "g"
summary = "s"
measure = "rate"
end-after-ns = 1000

[[groups]]
name = "worker"
each = ["g in 1..3"]
parent = "all"
shares = "512 * g"

[[groups]]
name = "all"
quota-us = "2 * 25000"
period-us = 20000

[[tasks]]
name = "t"
group = "worker[2]"
program = [
    { set-shares = "worker[1]", shares = 7 },
    { move-to = "all" },
    { move-to = "/" },
]
"#;
    let workload = WorkloadFile::parse("g.toml", text).unwrap().expand("g", &[]).unwrap();
    let group = |name: &str, parent, shares| Group { name: name.to_owned(), parent, shares, quota: None };
    assert_eq!(
        workload.groups,
        [
            group("worker[1]", Some(2), 512),
            group("worker[2]", Some(2), 1024),
            Group {
                quota: Some(Quota { quota_ns: 50_000_000, period_ns: 20_000_000 }),
                ..group("all", None, 1024)
            }
        ]
    );
    assert_eq!(workload.groups_parents_first(), [2, 0, 1]);
    assert_eq!(workload.tasks[0].group, Some(1));
    assert_eq!(
        workload.tasks[0].program,
        [Op::SetShares { group: 0, shares: 7 }, Op::MoveTo { group: Some(2) }, Op::MoveTo { group: None },]
    );
    for (from, to, error) in [
        (
            "parent = \"all\"",
            "parent = \"worker[g]\"",
            "g.toml:10:11: group 'worker[1]' would be its own ancestor",
        ),
        (
            "parent = \"all\"",
            "parent = \"none\"",
            "g.toml:10:11: unknown 'none' among the groups; there are worker and all",
        ),
        ("\"512 * g\"", "\"g\"", "g.toml:11:11: shares is 1; expected 2 to 262144"),
        ("period-us = 20000", "period-us = 999", "g.toml:16:13: period-us is 999; expected 1000 to 1000000"),
        (
            "group = \"worker[2]\"",
            "group = \"worker[3]\"",
            "g.toml:20:17: index 3 of 'worker' is not in 1..3",
        ),
        ("shares = 7", "shares = 0", "g.toml:22:42: shares is 0; expected 2 to 262144"),
        (
            "{ move-to = \"all\" }",
            "{ move-to = \"a\" }",
            "g.toml:23:18: unknown 'a' among the groups; did you mean 'all'?",
        ),
    ] {
        let broken = text.replace(from, to);
        let error_found =
            WorkloadFile::parse("g.toml", &broken).and_then(|file| file.expand("g", &[])).unwrap_err();
        assert_eq!(error_found.to_string(), error);
    }
}
