// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages over pipes and eventfds: what crates/trace/src/messages.rs makes of the lines of `wakelab record --pipes`.

use std::collections::BTreeMap;

use wakelab_machine::Machine;
use wakelab_trace::Recording;
use wakelab_trace::between::{Between, Mark};
use wakelab_trace::flows::FlowKind;
use wakelab_workload::Op;

use crate::executor::execute;
use crate::script::{Script, compute, program};

impl Script {
    /// A call begins to write to pipe 7.
    fn write(&mut self, cpu: u32, time_ns: u64, task: u32, bytes: u64) -> &mut Self {
        self.event(cpu, time_ns, task, "wakelab:pipe_write", &format!("channel=7 bytes={bytes}"))
    }

    /// A call has read from pipe 7.
    fn read_pipe(&mut self, cpu: u32, time_ns: u64, task: u32, bytes: u64) -> &mut Self {
        self.event(cpu, time_ns, task, "wakelab:pipe_read", &format!("channel=7 bytes={bytes}"))
    }

    /// t1 runs on CPU 0, and t2 waits on CPU 1.
    fn writer_and_reader() -> Script {
        let mut script = Script::default();
        script.switch(0, 0, 0, "R", 1).switch(1, 0, 2, "S", 0);
        script
    }
}

const SEND: Op = Op::Send { channel: 0, bytes: 0, work_ns: 0 };
const RECEIVE: Op = Op::Recv { channel: 0, work_ns: 0 };

/// A writer (t1, CPU 0) and a reader (t2, CPU 1): a message at 10 of each round of 100. The reader waits in every other
/// round only. In the fourth of five rounds the writer waits for room until the reader has read.
pub(crate) fn written_and_read(rounds: u64) -> Script {
    let mut script = Script::writer_and_reader();
    for round in 0..rounds {
        let (begin_ns, sleeps, waits) = (round * 100, round % 2 == 0, round % 5 == 3);
        script.write(0, begin_ns + 10, 1, 60);
        if sleeps {
            script.waking(0, begin_ns + 12, 1, 2).switch(1, begin_ns + 20, 0, "R", 2);
        }
        if waits {
            script.switch(0, begin_ns + 13, 1, "S", 0).waking(1, begin_ns + 25, 2, 1);
            script.switch(0, begin_ns + 27, 0, "R", 1);
        }
        script.read_pipe(1, begin_ns + 30, 2, 60);
        if !sleeps {
            script.switch(1, begin_ns + 90, 2, "S", 0);
        }
    }
    script
}

fn no_signals(recording: &Recording) -> bool {
    let signals = |op: &Op| matches!(op, Op::Signal { .. } | Op::Wait { .. });
    !recording.workload.tasks.iter().any(|task| task.program.iter().any(signals))
}

#[test]
fn a_message_that_woke_nobody_is_in_the_channel() {
    // Written where the call begins; where it wakes the reader, at that place.
    let mut script = Script::writer_and_reader();
    script.write(0, 10, 1, 60).waking(0, 12, 1, 2).switch(1, 20, 0, "R", 2).read_pipe(1, 30, 2, 60);
    script.write(0, 40, 1, 60).read_pipe(1, 50, 2, 60);
    script.switch(0, 70, 1, "X", 0).switch(1, 70, 2, "X", 0);
    let recording = script.read();
    let pipe = recording.explained.flows[&FlowKind::Pipe];
    assert_eq!((pipe.pairs, pipe.wakeups, pipe.added), (1, 1, 1));
    assert_eq!(program(&recording, "t1"), [compute(12), SEND, compute(28), SEND, compute(30)]);
    assert_eq!(program(&recording, "t2"), [RECEIVE, compute(30), RECEIVE, compute(20)]);
    // 68 messages of 60 bytes are in a page, of which a pipe has 16. A writer waits for a page.
    let channel = recording.workload.channels[0];
    assert_eq!((channel.capacity_bytes, channel.wake_room_bytes), (16 * 68, 68));
    assert!(channel.sync && channel.elastic);
    execute(&recording.workload).expect("no task waits for ever");
}

#[test]
fn a_long_write_is_divided_where_it_waited_and_where_it_was_read() {
    // The worked example: 96 KiB in one call, of which 64 fit; three reads of 32 KiB.
    const READ: u64 = 32 << 10;
    let mut script = Script::writer_and_reader();
    script.write(0, 10, 1, 3 * READ).waking(0, 12, 1, 2).switch(0, 20, 1, "S", 0).switch(1, 20, 0, "R", 2);
    script.waking(1, 30, 2, 1).read_pipe(1, 32, 2, READ).switch(0, 40, 0, "R", 1);
    script.read_pipe(1, 50, 2, READ).read_pipe(1, 60, 2, READ);
    script.switch(0, 70, 1, "X", 0).switch(1, 70, 2, "X", 0);
    let recording = script.read();
    assert!(no_signals(&recording), "both waits are part of calls");
    assert_eq!(program(&recording, "t1"), [compute(12), SEND, SEND, compute(8), SEND, compute(30)]);
    let expected = [RECEIVE, compute(30), RECEIVE, compute(10), RECEIVE, compute(10)];
    assert_eq!(program(&recording, "t2"), expected);
    // Two messages filled it; one was left when the writer was woken.
    let channel = recording.workload.channels[0];
    assert_eq!((channel.capacity_bytes, channel.wake_room_bytes), (2, 1));
    execute(&recording.workload).expect("no task waits for ever");
}

#[test]
fn a_short_write_that_waits_is_there_when_it_was_woken() {
    // t1 writes 10 bytes twice and waits in the third call until t2 has read both; the third wakes t2 again.
    let mut script = Script::writer_and_reader();
    script.write(0, 10, 1, 10).waking(0, 12, 1, 2).write(0, 14, 1, 10).write(0, 16, 1, 10);
    script.switch(0, 20, 1, "S", 0).switch(1, 20, 0, "R", 2).waking(1, 30, 2, 1).read_pipe(1, 32, 2, 20);
    script.switch(1, 34, 2, "S", 0).switch(0, 40, 0, "R", 1).waking(0, 42, 1, 2).switch(0, 44, 1, "X", 0);
    script.switch(1, 50, 0, "R", 2).read_pipe(1, 60, 2, 10).switch(1, 70, 2, "X", 0);
    let recording = script.read();
    assert!(no_signals(&recording), "all waits are part of calls");
    assert_eq!(
        program(&recording, "t1"),
        [compute(12), SEND, compute(2), SEND, compute(8), SEND, compute(2)]
    );
    let expected = [RECEIVE, compute(12), RECEIVE, compute(2), RECEIVE, compute(20)];
    assert_eq!(program(&recording, "t2"), expected);
    let channel = recording.workload.channels[0];
    assert_eq!((channel.capacity_bytes, channel.wake_room_bytes), (2, 2));
    execute(&recording.workload).expect("no task waits for ever");
}

#[test]
fn a_wait_beside_a_pipe_that_held_more_is_not_for_room() {
    // t1 waits beside two messages, for the pipe's lock; later the pipe holds six. It has room for 6,544 of 10 bytes.
    let mut script = Script::writer_and_reader();
    script.write(0, 10, 1, 10).waking(0, 12, 1, 2).write(0, 14, 1, 10).write(0, 16, 1, 10);
    script.switch(0, 20, 1, "S", 0).switch(1, 20, 0, "R", 2).waking(1, 30, 2, 1).read_pipe(1, 32, 2, 20);
    script.switch(1, 34, 2, "S", 0).switch(0, 40, 0, "R", 1).waking(0, 42, 1, 2);
    for at_ns in 43..48 {
        script.write(0, at_ns, 1, 10);
    }
    script.switch(0, 49, 1, "X", 0).switch(1, 50, 0, "R", 2).read_pipe(1, 60, 2, 60).switch(1, 70, 2, "X", 0);
    let recording = script.read();
    let channel = recording.workload.channels[0];
    assert_eq!((channel.capacity_bytes, channel.wake_room_bytes), (16 * (4096 / 10), 4096 / 10));
    execute(&recording.workload).expect("no task waits for ever");
}

#[test]
fn each_of_several_readers_gets_what_it_read() {
    // t1 writes 1, 2 and 3 bytes; t2 reads the first and the last, t3 (on CPU 1 in between) the second.
    let mut script = Script::writer_and_reader();
    script.write(0, 10, 1, 1).write(0, 20, 1, 2).write(0, 30, 1, 3);
    script.switch(1, 40, 0, "R", 2).read_pipe(1, 50, 2, 1).switch(1, 60, 2, "R", 3).read_pipe(1, 70, 3, 2);
    script.switch(1, 80, 3, "X", 2).read_pipe(1, 90, 2, 3).switch(1, 95, 2, "X", 0).switch(0, 95, 1, "X", 0);
    let recording = script.read();
    let sends: Vec<u32> = program(&recording, "t1")
        .iter()
        .filter_map(|op| if let Op::Send { channel, .. } = op { Some(*channel) } else { None })
        .collect();
    assert_eq!(sends.len(), 3);
    assert_eq!(sends[0], sends[2]);
    assert_ne!(sends[0], sends[1]);
    assert!(program(&recording, "t3").contains(&Op::Recv { channel: sends[1], work_ns: 0 }));
    // Whose message takes whose room is not known.
    assert!(recording.workload.channels.iter().all(|channel| !channel.elastic));
    execute(&recording.workload).expect("no task waits for ever");
}

#[test]
fn a_reader_of_an_eventfd_takes_all() {
    let mut script = Script::writer_and_reader();
    let mut eventfd = |cpu, time_ns, task, verb: &str| {
        script.event(cpu, time_ns, task, &format!("wakelab:eventfd_{verb}"), "channel=3 bytes=8");
    };
    eventfd(0, 10, 1, "write");
    eventfd(0, 20, 1, "write");
    eventfd(1, 30, 2, "read");
    eventfd(0, 40, 1, "write");
    eventfd(1, 50, 2, "read");
    script.switch(0, 60, 1, "X", 0).switch(1, 60, 2, "X", 0);
    let recording = script.read();
    let receives: Vec<&Op> = program(&recording, "t2").iter().filter(|op| **op != RECEIVE).collect();
    assert_eq!(program(&recording, "t2").len() - receives.len(), 3);
    // It counts, and is never full.
    assert!(!recording.workload.channels[0].elastic);
    execute(&recording.workload).expect("no task waits for ever");
}

/// t1 writes a message each 450 ns; where it wakes t2 on its own CPU, the next one comes 1,380 after it. 650 of that
/// are between the wake-up's events.
#[test]
fn messages_tell_what_a_wake_up_costs() {
    let mut script = Script::writer_and_reader();
    let mut time_ns = 0;
    for _ in 0..21 {
        script.write(0, time_ns, 1, 60).write(0, time_ns + 450, 1, 60).waking(0, time_ns + 600, 1, 2);
        script.runtime(0, time_ns + 900, 1, 1, 1_000);
        script.event(0, time_ns + 1_250, 1, "sched:sched_wakeup", "comm=t2 pid=2 prio=120 target_cpu=000");
        time_ns += 450 + 1_380;
    }
    // An interrupt between two messages, and a wake-up on another CPU: neither counts.
    script.write(0, time_ns, 1, 60).event(0, time_ns + 9, 1, "irq:irq_handler_entry", "irq=1 name=x");
    script.write(0, time_ns + 20, 1, 60).waking(0, time_ns + 30, 1, 3);
    script.event(0, time_ns + 40, 1, "sched:sched_wakeup", "comm=t3 pid=3 prio=120 target_cpu=001");
    script.write(0, time_ns + 50, 1, 60);
    let learnt = script.read().learnt;
    let sends = Between { at_once_ns: vec![450; 21], after_wake_ns: vec![1_380; 21], ..Between::default() };
    assert_eq!(learnt.between, BTreeMap::from([(("t1".to_owned(), Mark::Sent, Mark::Sent), sends)]));
    let base = Machine::preset("smp-2").unwrap();
    assert_eq!(learnt.machine(&base, "r").costs.wakeup_ns, 930 - base.costs.select_ns);
}
