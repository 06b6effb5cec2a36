// SPDX-License-Identifier: GPL-2.0-or-later
//! Any name that a task can have is readable, and changes nothing but the name.

use wakelab_trace::{Options, Recording, read_from};

/// Two tasks, of which one wakes the other; NAME stands for the name of the first one.
const PERF: &str = "\
         swapper     0/0     [000]  1860.000000000:       sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=NAME next_pid=7 next_prio=120
         swapper     0/0     [001]  1860.000000000:       sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8 next_prio=120
               b     8/8     [001]  1860.000000010:       sched:sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
PADDED     7/7     [000]  1860.000000060:       sched:sched_waking: comm=b pid=8 prio=120 target_cpu=001
PADDED     7/7     [000]  1860.000000061: sched:sched_stat_runtime: comm=NAME pid=7 runtime=61 [ns]
         swapper     0/0     [001]  1860.000000070:       sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8 next_prio=120
PADDED     7/7     [000]  1860.000000080: sched:sched_process_exec: filename=/bin/NAME pid=7 old_pid=7
PADDED     7/7     [000]  1860.000000100:       sched:sched_switch: prev_comm=NAME prev_pid=7 prev_prio=120 prev_state=X ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

/// The same as ftrace writes it.
const FTRACE: &str = "\
# tracer: nop
          <idle>-0       [000] d..2.  1860.000000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=NAME next_pid=7 next_prio=120
          <idle>-0       [001] d..2.  1860.000000000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8 next_prio=120
               b-8       [001] d..2.  1860.000000010: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
PADDED-7       [000] d..2.  1860.000000060: sched_waking: comm=b pid=8 prio=120 target_cpu=001
PADDED-7       [000] d..2.  1860.000000061: sched_stat_runtime: comm=NAME pid=7 runtime=61 [ns]
          <idle>-0       [001] d..2.  1860.000000070: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8 next_prio=120
PADDED-7       [000] .....  1860.000000080: sched_process_exec: filename=/bin/NAME pid=7 old_pid=7
PADDED-7       [000] d..2.  1860.000000100: sched_switch: prev_comm=NAME prev_pid=7 prev_prio=120 prev_state=X ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

/// `padded`: as perf and ftrace write the name at the beginning of a line, unless perf recorded call chains.
fn read(text: &str, name: &[u8], padded: bool) -> Recording {
    let mut in_front = vec![b' '; if padded { 16usize.saturating_sub(name.len()) } else { 0 }];
    in_front.extend(name);
    let mut bytes = Vec::new();
    for (index, part) in text.split("PADDED").enumerate() {
        bytes.extend_from_slice(if index > 0 { &in_front } else { b"" });
        for (index, part) in part.split("NAME").enumerate() {
            bytes.extend_from_slice(if index > 0 { name } else { b"" });
            bytes.extend_from_slice(part.as_bytes());
        }
    }
    let options = Options { strict: true, ..Options::default() };
    read_from(&bytes[..], "f", "n", &options)
        .unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(name)))
}

#[test]
fn any_name_is_readable() {
    let cut =
        "\u{41e}\u{431}\u{440}\u{430}\u{431}\u{43e}\u{442}\u{447}\u{438}\u{43a}".as_bytes()[..15].to_vec();
    let names = [
        "x pid=5",
        "x pid=5 prio=1",
        "a 1 [0] 1.1: b:",
        "a-1 [0] 1.1: b:",
        " 1 [0] 1.1: b:",
        "-1 [0] 1.1: b:",
        "# 1 [0] 1.1: b:",
        "#",
        "# tracer: nop",
        "x prev_pid=5",
        " next_prio=1",
        "ab\ncd",
        "\n",
        "\n\n\n",
        "a\n",
        "a\n 1 [0] 1.1: b",
        "[",
        "a (5)",
        "-",
        "cpus=6",
        "\x1b[31mX\x1b[0m",
        "a\tb",
        "  a",
        "PERF_RECORD_A",
    ];
    let names = names.iter().map(|name| name.as_bytes().to_vec()).chain([Vec::new(), cut]);
    for text in [PERF, FTRACE] {
        let expected = read(text, b"plain", true);
        for name in names.clone() {
            assert!(name.len() <= 15);
            for padded in [true, false] {
                let mut recording = read(text, &name, padded);
                let shown = format!("{} {padded}", String::from_utf8_lossy(&name));
                assert_eq!(recording.workload.tasks.len(), 2, "{shown}");
                let plain = &expected.workload.tasks[0].name;
                recording.workload.tasks[0].name.clone_from(plain);
                recording.observed = expected.observed.clone();
                assert_eq!(recording, expected, "{shown}");
            }
        }
    }
}

#[test]
fn names_are_kept() {
    for (name, expected) in [(&b"ab\ncd"[..], "ab\ncd"), (b"x pid=5", "x pid=5"), (b"a\xd1", "a?"), (b"", "")]
    {
        assert_eq!(read(PERF, name, true).workload.tasks[0].name, expected);
    }
}

#[test]
fn a_line_that_is_broken_otherwise_is_refused() {
    let cut = PERF
        .replacen("next_comm=b next_pid=8 next_prio=120", "next_comm=b next_p", 1)
        .replace("NAME", "a")
        .replace("PADDED", "a");
    let error = read_from(cut.as_bytes(), "f", "n", &Options::default()).unwrap_err().to_string();
    assert!(
        error.starts_with("f:2: expected sched_switch with ==> next_comm= next_pid=, found `swapper "),
        "{error}"
    );
}
