// SPDX-License-Identifier: GPL-2.0-or-later
//! Dependencies that left no event: the worked examples of crates/trace/src/flows.rs, and what must not be inferred.

use wakelab_trace::flows::FlowKind;
use wakelab_trace::{Options, Recording};
use wakelab_workload::{Op, Source, Task};

use crate::executor::execute;
use crate::script::{Script, compute, program, read_text, wait};

/// A client (t1, CPU 0) asks a server (t2, CPU 1) ROUNDS times, 9 after each wake-up, and waits after 10; the answer
/// comes 30 later. In the last round the server is still at work when it is asked, so that nobody is woken.
fn asked_and_answered(rounds: u64) -> Recording {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 2, "S", 0);
    for round in 0..rounds {
        let (begin_ns, is_last) = (round * 40, round + 1 == rounds);
        if !is_last {
            script.waking(0, begin_ns + 9, 1, 2);
        }
        script.switch(0, begin_ns + 10, 1, "S", 0);
        if !is_last {
            script.switch(1, begin_ns + 10, 0, "R", 2);
        }
        script.waking(1, begin_ns + 40, 2, 1);
        // It goes on to the last question without a wait.
        let goes_on = round + 2 >= rounds;
        if !goes_on {
            script.switch(1, begin_ns + 40, 2, "S", 0);
        }
        script.switch(0, begin_ns + 40, 0, "R", 1);
    }
    script.switch(0, rounds * 40 + 10, 1, "X", 0).switch(1, rounds * 40 + 10, 2, "X", 0);
    script.read()
}

/// The work of a task before its last operation that fits.
fn work_before_last(task: &Task, fits: impl Fn(&Op) -> bool) -> u64 {
    let last = task.program.iter().rposition(fits).expect("an operation that fits");
    let work = |op: &Op| if let Op::Compute { work_ns, .. } = op { *work_ns } else { 0 };
    task.program[..last].iter().map(work).sum()
}

#[test]
fn a_question_that_woke_nobody_is_asked() {
    let rounds = 20;
    let recording = asked_and_answered(rounds);
    let flows = &recording.explained.flows;
    assert_eq!((flows[&FlowKind::Request].pairs, flows[&FlowKind::Request].added), (1, 1), "{flows:?}");
    assert_eq!(flows[&FlowKind::Response].wakeups, rounds);
    let tasks = &recording.workload.tasks;
    let client = tasks.iter().find(|task| task.name == "t1").expect("the client");
    let server = tasks.iter().find(|task| task.name == "t2").expect("the server");
    // 10 in each round before, and 9 in the last one.
    let asks = work_before_last(client, |op| matches!(op, Op::Signal { .. }));
    assert_eq!(asks, (rounds - 1) * 10 + 9);
    // The server needs the question for what it does after it was asked: 30 in each round, and 9 until then.
    let needs = work_before_last(server, |op| matches!(op, Op::Wait { .. }));
    assert_eq!(needs, (rounds - 1) * 30 + 9);
    execute(&recording.workload).expect("no task waits for ever");
}

/// A server (t2, CPU 1) forks its client (t1, CPU 0) at 5. The client does 1, which is no more than lies between its
/// other questions and waits, and waits; its question woke nobody. It cannot have come before the client was born, so
/// that the server does not wait for it before the fork.
#[test]
fn a_client_asks_nothing_before_its_birth() {
    let rounds = 20;
    let mut script = Script::default();
    script.switch(1, 0, 0, "R", 2).fork(1, 5, 2, 1).wakeup_new(1, 5, 2, 1).switch(0, 5, 0, "R", 1);
    script.switch(0, 6, 1, "S", 0);
    for begin_ns in (1..=rounds).map(|round| round * 40) {
        script.waking(1, begin_ns, 2, 1).switch(1, begin_ns, 2, "S", 0).switch(0, begin_ns, 0, "R", 1);
        script.waking(0, begin_ns + 9, 1, 2).switch(0, begin_ns + 10, 1, "S", 0);
        script.switch(1, begin_ns + 10, 0, "R", 2);
    }
    script.waking(1, rounds * 40 + 40, 2, 1).switch(0, rounds * 40 + 40, 0, "R", 1);
    script.switch(0, rounds * 40 + 41, 1, "X", 0).switch(1, rounds * 40 + 41, 2, "X", 0);
    let recording = script.read();
    let flows = &recording.explained.flows;
    assert_eq!((flows[&FlowKind::Request].pairs, flows[&FlowKind::Request].added), (1, 1), "{flows:?}");
    let server = recording.workload.tasks.iter().find(|task| task.name == "t2").expect("the server");
    let place = |fits: fn(&Op) -> bool| server.program.iter().position(fits);
    let (fork, first_wait) =
        (place(|op| matches!(op, Op::Fork { .. })), place(|op| matches!(op, Op::Wait { .. })));
    assert!(fork.is_some() && fork < first_wait, "{:?}", server.program);
    execute(&recording.workload).expect("no task waits for ever");
}

/// A client (t1) and a server (t2) share a CPU. A round takes 20: the client asks after 9 and works for 10, the server
/// answers after 8 and works for 10. In most rounds both sleep. In some the server wakes its client and does not sleep,
/// because the client preempts it; the next question wakes nobody. In the last three the server preempts the client at
/// 10, and answers before the client could wait.
#[test]
fn an_answer_before_its_client_could_wait_is_given() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1);
    let mut begin_ns = 0;
    let mut server_sleeps = true;
    let rounds = [(10, "S", "S"), (8, "S", "R"), (2, "S", "S"), (3, "R", "S"), (1, "S", "S")];
    for (times, client_state, server_state) in rounds {
        for _ in 0..times {
            if server_sleeps {
                script.waking(0, begin_ns + 9, 1, 2);
            }
            script.switch(0, begin_ns + 10, 1, client_state, 2);
            if client_state == "S" {
                script.waking(0, begin_ns + 18, 2, 1);
            }
            script.switch(0, begin_ns + 20, 2, server_state, 1);
            server_sleeps = server_state == "S";
            begin_ns += 20;
        }
    }
    script.switch(0, begin_ns + 1, 1, "X", 2).switch(0, begin_ns + 2, 2, "X", 0);
    let recording = script.read();
    let flows = &recording.explained.flows;
    assert_eq!((flows[&FlowKind::Request].added, flows[&FlowKind::Response].added), (8, 3), "{flows:?}");
    let tasks = &recording.workload.tasks;
    let client = tasks.iter().find(|task| task.name == "t1").expect("the client");
    let server = tasks.iter().find(|task| task.name == "t2").expect("the server");
    // Of 24 rounds, the last but one is the last with an answer that was not seen. Each has one wait and one answer.
    let count = |task: &Task, fits: fn(&Op) -> bool| task.program.iter().filter(|op| fits(op)).count();
    assert_eq!(count(client, |op| matches!(op, Op::Wait { .. })), 24);
    assert_eq!(count(server, |op| matches!(op, Op::Signal { .. })), 24);
    execute(&recording.workload).expect("no task waits for ever");
}

/// Two clients (t1, t2) ask a server (t3) in turn, ROUNDS times; each on another CPU. If `asks_first`, the server
/// sleeps between a question and its answer, because it asks a fourth task (t4).
fn two_clients(rounds: u64, asks_first: bool) -> Recording {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2).switch(2, 0, 3, "S", 0).switch(3, 0, 4, "S", 0);
    for begin_ns in (0..rounds).map(|round| round * 100) {
        for (client, cpu, at_ns) in [(1, 0, begin_ns + 10), (2, 1, begin_ns + 60)] {
            script.waking(cpu, at_ns, client, 3).switch(cpu, at_ns + 1, client, "S", 0);
            script.switch(2, at_ns + 1, 0, "R", 3);
            if asks_first {
                script.waking(2, at_ns + 5, 3, 4).switch(2, at_ns + 6, 3, "S", 0);
                script.switch(3, at_ns + 6, 0, "R", 4).waking(3, at_ns + 9, 4, 3).switch(
                    3,
                    at_ns + 10,
                    4,
                    "S",
                    0,
                );
                script.switch(2, at_ns + 10, 0, "R", 3);
            }
            script.waking(2, at_ns + 20, 3, client).switch(2, at_ns + 21, 3, "S", 0);
            script.switch(cpu, at_ns + 21, 0, "R", client);
        }
    }
    let end_ns = rounds * 100;
    script.switch(0, end_ns, 1, "X", 0).switch(1, end_ns, 2, "X", 0);
    script.read()
}

#[test]
fn a_server_answers_the_client_that_asks_first() {
    let recording = two_clients(20, false);
    let workload = &recording.workload;
    let answered: Vec<Option<u32>> = workload.channels.iter().map(|channel| channel.answered_in).collect();
    assert_eq!(answered, [Some(1), None, Some(3), None], "{:?}", recording.explained.flows);
    let server = workload.tasks.iter().find(|task| task.name == "t3").expect("the server");
    assert!(server.polls);
    let takes = server.program.iter().filter(|op| matches!(op, Op::Recv { .. })).count();
    let answers = server.program.iter().filter(|op| matches!(op, Op::Send { .. })).count();
    assert_eq!((takes, answers), (40, 40));
    execute(workload).expect("no task waits for ever");
}

#[test]
fn a_server_that_asks_others_keeps_its_order() {
    let recording = two_clients(20, true);
    assert!(recording.workload.tasks.iter().all(|task| !task.polls));
    execute(&recording.workload).expect("no task waits for ever");
}

/// A producer (t1) wakes a consumer (t2) ROUNDS times, each time with one item of 10 for which the consumer works for
/// 8. Then it works on for 40 after the last wake-up, and the consumer works for 40 before it waits.
fn fed(rounds: u64) -> Recording {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 2, "S", 0);
    for round in 1..=rounds {
        let at_ns = round * 10;
        script.waking(0, at_ns, 1, 2).switch(1, at_ns, 0, "R", 2);
        if round < rounds {
            script.switch(1, at_ns + 8, 2, "S", 0);
        }
    }
    let last_ns = rounds * 10;
    script.switch(1, last_ns + 45, 2, "S", 0);
    // Ends the consumer's last wait.
    script.waking(0, last_ns + 60, 1, 2).switch(1, last_ns + 60, 0, "R", 2);
    script.switch(0, last_ns + 61, 1, "X", 0).switch(1, last_ns + 61, 2, "X", 0);
    script.read()
}

#[test]
fn items_are_as_far_apart_as_those_that_woke() {
    let rounds = 20;
    let recording = fed(rounds);
    let flows = &recording.explained.flows;
    // In the last 45, items at 10, 20, 30 and 40; the consumer's work has room for 45 / 8 - 1 = 4.
    let stream = flows[&FlowKind::Stream];
    assert_eq!((stream.pairs, stream.wakeups, stream.added), (1, rounds + 1, 4), "{flows:?}");
    let consumer = recording.workload.tasks.iter().find(|task| task.name == "t2").expect("the consumer");
    let taken = consumer.program.iter().filter(|op| matches!(op, Op::Recv { .. })).count() as u64;
    assert_eq!(taken, rounds + 1 + 4);
    let ends_ns = execute(&recording.workload).expect("no task waits for ever");
    assert!(ends_ns.iter().all(|&end_ns| end_ns <= recording.duration_ns), "{ends_ns:?}");
}

/// A task (t1, CPU 0) writes into a pipe for 80, wakes the reader (t2, CPU 1) after 10 of these, and waits for room.
/// The reader makes room every 50 and never waits; each time the writer writes for 10. So it does 70 after the wake-up
/// that might be a question, and 10 between two waits: it asked nothing.
#[test]
fn a_writer_that_waits_for_room_is_no_client() {
    let rounds = 20;
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 2, "S", 0);
    script.waking(0, 10, 1, 2).switch(1, 10, 0, "R", 2).switch(0, 80, 1, "S", 0);
    for at_ns in (1..=rounds).map(|round| 50 + round * 50) {
        script.waking(1, at_ns, 2, 1).switch(0, at_ns, 0, "R", 1).switch(0, at_ns + 10, 1, "S", 0);
    }
    script.switch(1, 50 * rounds + 80, 2, "X", 0);
    let recording = script.read();
    let flows = &recording.explained.flows;
    assert!(!flows.contains_key(&FlowKind::Request), "{flows:?}");
    let stream = flows[&FlowKind::Stream];
    assert_eq!((stream.pairs, stream.wakeups, stream.added), (1, rounds, 0), "{flows:?}");
    let reader = recording.workload.tasks.iter().find(|task| task.name == "t2").expect("the reader");
    let waits = reader.program.iter().filter(|op| matches!(op, Op::Wait { .. } | Op::Recv { .. }));
    assert_eq!(waits.count(), 1, "the first one");
    execute(&recording.workload).expect("no task waits for ever");
}

#[test]
fn few_wake_ups_show_no_kind() {
    for recording in [fed(5), asked_and_answered(5)] {
        let flows = &recording.explained.flows;
        assert!(flows.keys().all(|kind| *kind == FlowKind::Signal), "{flows:?}");
        assert!(recording.workload.channels.is_empty());
    }
}

/// t1 wakes t2 at 90, which has waited since 20 and runs until 200. Once with a signal, once at that time.
#[test]
fn waits_end_at_recorded_times_if_they_are_to() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2).switch(1, 20, 2, "S", 0);
    script.waking(0, 90, 1, 2).switch(1, 90, 0, "R", 2).switch(0, 150, 1, "X", 0).switch(1, 200, 2, "X", 0);
    let read = |recorded_times| {
        let options = Options { recorded_times, ..Options::default() };
        read_text(&script.text, &options).expect("it reads")
    };
    let (causes, times) = (read(false), read(true));
    assert_eq!(program(&causes, "t2"), [compute(20), wait(0), compute(110)]);
    let until = Op::SleepUntil { time_ns: 90, source: Source::Unknown };
    assert_eq!(program(&times, "t2"), [compute(20), until, compute(110)]);
    assert_eq!((program(&times, "t1"), times.explained.by_task), (&[compute(150)][..], 1));
}

#[test]
fn recorded_waits_only() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(0, 9, 1, "X", 0);
    let options = Options { recorded_waits_only: true, ..Options::default() };
    let recording = read_text(&script.text, &options).expect("it reads");
    assert!(recording.explained.flows.is_empty() && recording.workload.channels.is_empty());
}
