// SPDX-License-Identifier: GPL-2.0-or-later
//! ftrace's text: the same model as from perf's text, and what only ftrace tells.

use crate::script::{compute, program, read_text, signal, sleep, wait};
use wakelab_trace::event::Place;
use wakelab_trace::{Gap, Options, Recording};
use wakelab_workload::Op;

fn read(text: &str) -> Recording {
    read_text(text, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The kernel's own notation. a wakes b at 60 us, and the timer that wakes c at 80 us interrupts a.
const KERNEL: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 8/8   #P:2
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
          <idle>-0       [000] d..2.   100.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=1 next_prio=120
          <idle>-0       [001] d..2.   100.000000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=120
               b-2       [001] d..2.   100.000010: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=S ==> next_comm=c next_pid=3 next_prio=120
               c-3       [001] d..2.   100.000020: sched_switch: prev_comm=c prev_pid=3 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
               a-1       [000] d..4.   100.000060: sched_waking: comm=b pid=2 prio=120 target_cpu=001
          <idle>-0       [001] d..2.   100.000070: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=120
               a-1       [000] d.h4.   100.000080: sched_waking: comm=c pid=3 prio=120 target_cpu=001
               b-2       [001] d..2.   100.000090: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=R+ ==> next_comm=c next_pid=3 next_prio=120
               a-1       [000] d..2.   100.000100: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=X ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

#[test]
fn the_kernels_trace_file() {
    let recording =
        read_text(KERNEL, &Options { strict: true, ..Options::default() }).expect("all is explained");
    assert_eq!(program(&recording, "a"), [compute(60_000), signal(0), compute(40_000)]);
    assert_eq!(program(&recording, "b"), [compute(10_000), wait(0), compute(20_000)]);
    // The flag `h` tells that a did not wake c, but not what did.
    assert_eq!(program(&recording, "c"), [compute(10_000), sleep(60_000), compute(10_000)]);
    let explained = &recording.explained;
    assert!(explained.interrupts_known && explained.wakers_known && !explained.processes_known);
    assert_eq!((explained.by_task, explained.from_outside, explained.source_unknown), (1, 1, 1));
}

#[test]
fn all_forms_of_ftrace_text_say_the_same() {
    let expected = read(KERNEL);
    let without_comments: String =
        KERNEL.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let trace_cmd = format!("version = 6\nCPU 3 is empty\ncpus=4\n{without_comments}");
    for (form, text) in [
        ("without comments", without_comments.clone()),
        ("trace-cmd report", trace_cmd.replace("sched_switch: ", "sched_switch:          ")),
        ("nanoseconds", KERNEL.replace(": sched", "000: sched")),
        ("four flags", KERNEL.replace(". ", "  ")),
        ("state in bits", KERNEL.replace("=R+ ==>", "=256").replace("=S ==>", "=1").replace("=R ==>", "=0").replace("=X ==>", "=16")),
        ("stack traces", KERNEL.replacen("target_cpu=001\n", "target_cpu=001\n               a-1       [000] d..4.   100.000060: <stack trace>\n => try_to_wake_up\n => schedule\n", 1)),
        ("a program prints", KERNEL.replace("               a-1       [000] d..4.", "               a-1       [000] .....   100.000055: tracing_mark_write: one\ntwo [0] three\n               a-1       [000] d..4.")),
        ("functions", KERNEL.replace("               a-1       [000] d..4.", "               a-1       [000] .....   100.000055: vfs_read <-ksys_read\n               a-1       [000] d..4.")),
        ("forgotten names", KERNEL.replace("               a-1 ", "           <...>-1 ")),
    ] {
        let recording = read(&text);
        assert_eq!((recording.workload, recording.explained), (expected.workload.clone(), expected.explained.clone()), "{form}");
    }
}

#[test]
fn processes_are_known_with_record_tgid() {
    let recording = read(
        &KERNEL
            .replace("a-1       [", "a-1       (     40) [")
            .replace("b-2       [", "b-2       (     40) ["),
    );
    let processes: Vec<u32> = recording.workload.tasks.iter().map(|task| task.process).collect();
    assert!(recording.explained.processes_known);
    assert_eq!(processes, [40, 40, 3]);
}

#[test]
fn a_soft_interrupt_of_unknown_kind_is_counted() {
    let recording = read(&KERNEL.replace("d.h4.", "d.s4."));
    // It may be a timer's, or caused by a, which sends over loopback.
    assert_eq!((recording.explained.by_task, recording.explained.soft_interrupt_wakes), (2, 1));
    let named = KERNEL.replace("d.h4.", "d.s4.").replace(
        "               a-1       [000] d..4.",
        "               a-1       [000] ..s..   100.000030: softirq_entry: vec=1 [action=TIMER]\n               a-1       [000] d..4.",
    );
    let recording = read(&named);
    assert_eq!((recording.explained.by_task, recording.explained.soft_interrupt_wakes), (0, 0));
    assert_eq!((recording.explained.from_outside, recording.explained.source_unknown), (2, 0));
}

#[test]
fn an_exec_stands_in_the_program() {
    let text = KERNEL.replace(
        "               a-1       [000] d..4.",
        "               a-1       [000] .....   100.000030: sched_process_exec: filename=/bin/a pid=1 old_pid=1\n               a-1       [000] d..4.",
    );
    let recording = read(&text);
    assert_eq!(
        program(&recording, "a"),
        [compute(30_000), Op::Exec, compute(30_000), signal(0), compute(40_000)]
    );
}

#[test]
fn lost_events_in_either_notation_are_a_gap() {
    for (line, count) in [("CPU:0 [LOST 14 EVENTS]", 14), ("CPU:0 [7 EVENTS DROPPED]", 7)] {
        let recording = read(&format!("{KERNEL}{line}\n"));
        assert_eq!(recording.explained.lost_events, count);
        assert_eq!(recording.explained.gaps[&Gap::LostEvents].first, Place::Line(16));
    }
}

#[test]
fn lines_that_make_no_sense() {
    let refused =
        read_text(&format!("{KERNEL}and then nothing happened\n"), &Options::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "f:16: expected `comm-pid [cpu] flags time: event: fields`, found `and then nothing happened`"
    );
    let refused =
        read_text(&KERNEL.replace("target_cpu=001", "target_cpu=4096"), &Options::default()).unwrap_err();
    assert_eq!(refused.to_string(), "f:11: expected a CPU number below 4096, found 4096");
    let refused =
        read_text(&KERNEL.replace("==> next_comm=a", "=> next_comm=a"), &Options::default()).unwrap_err();
    assert!(
        refused.to_string().starts_with("f:7: expected sched_switch with ==> next_comm= next_pid=, found"),
        "{refused}"
    );
    let refused = read_text("# tracer: nop\n", &Options::default()).unwrap_err();
    assert!(refused.to_string().starts_with("f: the recording is empty"), "{refused}");
}
