// SPDX-License-Identifier: GPL-2.0-or-later
//! Input that is no recording is refused, with the place, what was found and what was expected.

use crate::script::{Script, read_text};
use wakelab_trace::{Options, read, read_from};

fn refusal(text: &str) -> String {
    match read_text(text, &Options::default()) {
        Ok(recording) => panic!("accepted: {recording:?}"),
        Err(error) => error.to_string(),
    }
}

fn accepted() -> Script {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 5, 0, "R", 2).switch(0, 10, 1, "S", 0);
    script
}

#[test]
fn empty_files() {
    assert_eq!(
        refusal(""),
        "f: the recording is empty: expected the text of `perf script` or of ftrace, found no event in its 0 lines"
    );
    assert_eq!(
        refusal("# captured on : today\n\n"),
        "f: the recording is empty: expected the text of `perf script` or of ftrace, found no event in its 2 lines"
    );
}

#[test]
fn a_file_that_is_not_there() {
    let error = read("no/such/file".as_ref(), &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "no/such/file: cannot be read: No such file or directory (os error 2)");
}

#[test]
fn binary_junk() {
    let error =
        read_from(&b"a 1 [000] 1.000001: x:\n\x7fELF\0\0\n"[..], "f", "n", &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "f:2: byte 27: expected text, found a NUL byte");
}

#[test]
fn folders() {
    let path = std::env::temp_dir().join(format!("wakelab-folders-{}", std::process::id()));
    std::fs::create_dir_all(path.join("kernel")).expect("a folder");
    let refused = || read(&path, &Options::default()).unwrap_err().to_string();
    let plain = refused();
    std::fs::write(path.join("kernel/metadata"), "").expect("a file");
    let empty = refused();
    std::fs::remove_dir_all(&path).expect("removed");
    assert!(plain.ends_with(": expected a recording, found a folder; name the recording in it"), "{plain}");
    assert!(empty.contains(": byte 0: expected a recording with events"), "{empty}");
}

#[test]
fn other_text() {
    let refused = refusal("#!/bin/sh\nset -eu\n");
    assert!(
        refused.starts_with(
            "f:2: not a recording: expected a line of `perf script` (`comm pid [cpu] time: event: fields`) or of ftrace \
             (`comm-pid [cpu] flags time: event: fields`), found `set -eu`"
        ),
        "{refused}"
    );
    // What would be pasted overwrites nothing.
    assert!(refused.contains("-i perf.data > recording.perf.txt (") && !refused.contains("> f"), "{refused}");
}

#[test]
fn a_recording_that_is_cut_off() {
    let mut text = accepted().text;
    // Even where the last field still looks whole: prio 120 would become 12.
    text.truncate(text.len() - 2);
    let end = "==> next_comm=swapper/0 next_pid=0 next_prio=12";
    assert_eq!(refusal(&text), format!("f:3: the recording is cut off: expected a newline after `...{end}`"));
    text.push('\n');
    assert!(read_text(&text, &Options::default()).is_ok());
}

#[test]
fn time_that_goes_backwards() {
    let text = accepted().text;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.swap(1, 2);
    assert!(refusal(&(lines.join("\n") + "\n")).starts_with(
        "f:3: time goes backwards: expected 1860000000010 ns or later, found 1860000000005 ns (recorders write"
    ));
}

#[test]
fn cpu_numbers_that_no_machine_has() {
    let text = accepted().text;
    assert_eq!(
        refusal(&text.replace("[001]", "[4096]")),
        "f:2: expected a CPU number below 4096, found 4096"
    );
    let huge = "99999999999999999999";
    assert_eq!(
        refusal(&text.replace("[001]", &format!("[{huge}]"))),
        format!("f:2: expected a CPU number below 4096, found {huge}")
    );
    let mut script = accepted();
    script.event(0, 20, 0, "sched:sched_waking", "comm=t1 pid=1 prio=120 target_cpu=4097");
    assert_eq!(refusal(&script.text), "f:4: expected a CPU number below 4096, found 4097");
    let mut script = accepted();
    script.event(0, 20, 0, "sched:sched_migrate_task", "comm=t1 pid=1 prio=120 orig_cpu=0 dest_cpu=5000");
    assert_eq!(refusal(&script.text), "f:4: expected a CPU number below 4096, found 5000");
}

#[test]
fn time_that_jumps() {
    let mut script = accepted();
    script.switch(0, 2_000_000_000_000_000, 0, "R", 1);
    let refused = refusal(&script.text);
    assert!(
        refused.starts_with("f:4: expected a time less than 13 days after the first event's, found"),
        "{refused}"
    );
}

#[test]
fn the_highest_cpu_counts() {
    let mut script = accepted();
    script.event(0, 20, 0, "sched:sched_waking", "comm=t1 pid=1 prio=120 target_cpu=095");
    assert_eq!(script.read().nr_cpus, 96);
    assert_eq!(accepted().read().nr_cpus, 2);
}

#[test]
fn lines_that_make_no_sense() {
    let mut script = accepted();
    script.line("and then nothing happened");
    assert_eq!(
        refusal(&script.text),
        "f:4: expected `comm pid [cpu] time: event: fields`, found `and then nothing happened`"
    );
    let mut script = accepted();
    script.event(0, 20, 0, "sched:sched_waking", "comm=t1 pid=1 prio=120");
    let refused = refusal(&script.text);
    assert!(refused.starts_with("f:4: expected sched_waking with target_cpu=, found `swapper"), "{refused}");
    let mut script = accepted();
    script.line("t1 1 [000] 99999999999999999999.000001: sched:sched_switch: x");
    assert!(refusal(&script.text).starts_with("f:4: expected a time in seconds below 2^64 ns"));
}

#[test]
fn a_recording_without_switches() {
    let mut script = Script::default();
    script.waking(0, 0, 1, 2).waking(0, 5, 1, 2);
    assert_eq!(
        refusal(&script.text),
        "f: expected sched_switch events, found none among 2 events; record with: perf sched record COMMAND, or: trace-cmd record -e sched COMMAND"
    );
}

#[test]
fn what_perf_adds_is_skipped() {
    let mut script = Script::default();
    script
        .line("# ========")
        .line("# captured on    : Sat Nov 21 20:44:35 2026")
        .line("")
        // --show-task-events: what perf knew beforehand has time 0.
        .line("         swapper     0/0     [000]     0.000000: PERF_RECORD_FORK(1:1):(0:0)")
        .switch(0, 0, 0, "R", 1)
        // record -g.
        .line("\tffffffff821f8298 __schedule+0x618 ([kernel.kallsyms])")
        .line("\t    7f28db5bb0f7 [unknown] (/usr/lib/libc.so.6)")
        .line("")
        .event(0, 5, 1, "syscalls:sys_enter_read", "fd: 0x00000003")
        .switch(0, 10, 1, "S", 0);
    let recording = script.read_strictly().expect("all is explained");
    assert_eq!((recording.events, recording.busy_ns), (3, 10));
}

#[test]
fn all_forms_of_perf_script_say_the_same() {
    let nanoseconds = "\
         swapper     0/0     [000]  1860.000001000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=Web Content next_pid=7 next_prio=120
     Web Content     7/7     [000]  1860.000011000: sched:sched_switch: prev_comm=Web Content prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
";
    let expected = read_text(nanoseconds, &Options::default()).expect("--ns -F +pid");
    assert_eq!((expected.duration_ns, expected.busy_ns), (10_000, 10_000));
    for (form, text) in [
        ("microseconds", nanoseconds.replace("1000:", "1:").replace("11000:", "11:")),
        ("-F +misc", nanoseconds.replace("[000]", "[000] K  ")),
        ("-F +period", nanoseconds.replace(": sched", ":   1   sched")),
        ("event without its subsystem", nanoseconds.replace("sched:", "")),
        ("Windows line ends", nanoseconds.replace('\n', "\r\n")),
    ] {
        assert_eq!(read_text(&text, &Options::default()).expect(form), expected, "{form}");
    }
    let no_process = nanoseconds.replace("0/0", "  0").replace("7/7", "  7");
    let recording = read_text(&no_process, &Options::default()).expect("without -F +pid");
    assert!(expected.explained.processes_known && !recording.explained.processes_known);
    assert_eq!(recording.workload, expected.workload);
}
