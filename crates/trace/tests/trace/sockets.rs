// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages over sockets: what crates/trace/src/messages.rs makes of their events.

use std::collections::BTreeMap;

use wakelab_machine::Machine;
use wakelab_trace::Learnt;
use wakelab_trace::between::{Between, Mark};
use wakelab_trace::flows::FlowKind;
use wakelab_workload::Op;

use crate::executor::execute;
use crate::script::{Script, compute, program};

/// Socket of a client's end, and of its server's.
const CLIENT: u64 = 0xa0;
const SERVER: u64 = 0xb0;

impl Script {
    /// The events of a call that sends: data is ready, perhaps a wake-up, and the end 1 ns later.
    fn send(
        &mut self,
        cpu: u32,
        time_ns: u64,
        task: u32,
        from: u64,
        bytes: i64,
        wakee: Option<u32>,
    ) -> &mut Self {
        self.event(cpu, time_ns, task, "sock:sk_data_ready", "family=1 protocol=0 func=unix_stream_sendmsg");
        if let Some(wakee) = wakee {
            self.waking(cpu, time_ns, task, wakee);
        }
        self.socket(cpu, time_ns + 1, task, "sock:sock_send_length", from, bytes)
    }

    /// The end of a call that receives.
    fn receive(&mut self, cpu: u32, time_ns: u64, task: u32, socket: u64, bytes: i64) -> &mut Self {
        self.socket(cpu, time_ns, task, "sock:sock_recv_length", socket, bytes)
    }

    fn socket(
        &mut self,
        cpu: u32,
        time_ns: u64,
        task: u32,
        event: &str,
        socket: u64,
        bytes: i64,
    ) -> &mut Self {
        let fields = format!(
            "sk address = {socket:#x}, family = 0x1 protocol = 0x0, length = {bytes}, error = 0, flags = 0x0"
        );
        self.event(cpu, time_ns, task, event, &fields)
    }
}

/// From one message to the next, t2 takes 2,800 ns of CPU time where it does not sleep, and 6,500 where it sleeps once.
/// A switch costs 1,000: going to sleep costs 2,700.
#[test]
fn reads_with_and_without_a_sleep_tell_what_it_costs() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 3);
    for round in 0..21 {
        let begin_ns = round * 20_000 + 1_000;
        script.send(0, begin_ns, 1, CLIENT, 100, Some(2)).send(0, begin_ns + 10, 1, CLIENT, 100, None);
        script.switch(1, begin_ns + 20, 3, "R", 2).receive(1, begin_ns + 3_020, 2, SERVER, 100);
        script.receive(1, begin_ns + 5_820, 2, SERVER, 100);
        script.runtime(1, begin_ns + 7_720, 2, 2, 7_700).switch(1, begin_ns + 9_320, 2, "S", 3);
    }
    let learnt = script.read().learnt;
    assert_eq!(learnt.leaving_ns, [vec![1_600; 21], vec![]]);
    let reads = Between {
        at_once_ns: vec![2_800; 21],
        after_sleep_ns: [vec![], vec![6_500; 20]],
        ..Between::default()
    };
    let key = ("t2".to_owned(), Mark::Received, Mark::Received);
    assert_eq!(learnt.between[&key], reads);
    let mut base = Machine::preset("smp-2").expect("a preset");
    (base.costs.switch_thread_ns, base.costs.switch_process_ns) = (400, 1_000);
    let costs_of = |learnt: &Learnt| {
        let costs = learnt.machine(&base, "r").costs;
        (costs.sleep_ns, costs.dequeue_ns)
    };
    assert_eq!(costs_of(&learnt), (2_700 - 1_600, 1_600));
    let without_recorder = learnt.without_recorder(100);
    assert_eq!(
        costs_of(&without_recorder),
        (2_500 - 1_500, 1_500),
        "the account and the switch are two events more"
    );
    let without_recorder = without_recorder.machine(&base, "r");
    assert!(without_recorder.sources["sleep_ns"].contains("20 messages after a sleep"));
    let leaving = Learnt { between: BTreeMap::new(), ..learnt };
    assert_eq!(costs_of(&leaving), (0, 1_600), "the look for another task alone");
}

/// What a task does between two reads that is no sleep makes them say nothing.
#[test]
fn only_reads_with_nothing_else_between_them_count() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2);
    script.receive(1, 100, 2, SERVER, 9).send(1, 200, 2, SERVER, 9, None).receive(1, 300, 2, SERVER, 9);
    script.waking(1, 400, 2, 4).receive(1, 500, 2, SERVER, 9);
    script.switch(1, 600, 2, "R", 3).switch(1, 700, 3, "S", 2).receive(1, 800, 2, SERVER, 9);
    script.receive(1, 900, 2, SERVER, 0).receive(1, 1_000, 2, SERVER, 9);
    let between = script.read().learnt.between;
    let key = ("t2".to_owned(), Mark::Received, Mark::Received);
    let preempted = Between { after_preemption_ns: [vec![], vec![200]], ..Between::default() };
    assert_eq!(between.get(&key), Some(&preempted), "{between:?}");
}

/// A client (t1, CPU 0) and a server (t2, CPU 1): a question at 10 of each round of 100, which ends 2 later, an answer
/// 50 after it. The server waits in every other round only.
pub(crate) fn asked_and_answered(rounds: u64) -> Script {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 2, "S", 0);
    for round in 0..rounds {
        let (begin_ns, sleeps) = (round * 100, round % 2 == 0);
        script.send(0, begin_ns + 10, 1, CLIENT, 60, sleeps.then_some(2));
        script.switch(0, begin_ns + 12, 1, "S", 0);
        if sleeps {
            script.switch(1, begin_ns + 20, 0, "R", 2);
        }
        script.receive(1, begin_ns + 30, 2, SERVER, 60);
        script.send(1, begin_ns + 60, 2, SERVER, 9, Some(1));
        script.switch(0, begin_ns + 70, 0, "R", 1).receive(0, begin_ns + 80, 1, CLIENT, 9);
        // In the other rounds the server spins until the next question.
        if !sleeps {
            script.switch(1, begin_ns + 90, 2, "S", 0);
        }
    }
    let end_ns = rounds * 100;
    script.switch(0, end_ns, 1, "X", 0);
    if rounds % 2 == 1 {
        script.switch(1, end_ns, 2, "X", 0);
    }
    script
}

#[test]
fn a_question_that_woke_nobody_is_a_message() {
    let recording = asked_and_answered(2).read();
    let socket = recording.explained.flows[&FlowKind::Socket];
    // Two pairs of tasks, one in each direction; of four messages three ended a wait.
    assert_eq!((socket.pairs, socket.wakeups, socket.added), (2, 3, 1));
    // The server received first.
    let (to_server, to_client) = (0, 1);
    let send = |channel| Op::Send { channel, bytes: 0, work_ns: 0 };
    let receive = |channel| Op::Recv { channel, work_ns: 0 };
    assert_eq!(
        program(&recording, "t1"),
        [
            compute(10),
            send(to_server),
            compute(2),
            receive(to_client),
            compute(40),
            send(to_server),
            compute(2),
            receive(to_client),
            compute(30),
        ]
    );
    assert_eq!(
        program(&recording, "t2"),
        [
            receive(to_server),
            compute(40),
            send(to_client),
            // Here it did not wait, so the message is taken where the call ended.
            compute(70),
            receive(to_server),
            compute(30),
            send(to_client),
            compute(30),
        ]
    );
    assert!(recording.workload.channels.iter().all(|channel| channel.sync && !channel.elastic));
    execute(&recording.workload).expect("no task waits for ever");
}

#[test]
fn bytes_tell_how_many_messages_a_call_takes() {
    // t1 sends 100, 100 and 50 bytes; t2 waits for the first, receives 100, 20 and 130.
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 2, "S", 0);
    script.send(0, 10, 1, CLIENT, 100, Some(2)).switch(1, 12, 0, "R", 2);
    script.receive(1, 20, 2, SERVER, 100).send(0, 30, 1, CLIENT, 100, None);
    script.receive(1, 40, 2, SERVER, 20).send(0, 50, 1, CLIENT, 50, None).receive(1, 60, 2, SERVER, 130);
    script.switch(0, 70, 1, "X", 0).switch(1, 70, 2, "X", 0);
    let recording = script.read();
    let receive = Op::Recv { channel: 0, work_ns: 0 };
    // 20 bytes need the second message; the other 80 of it and the third are there with the last call.
    let expected = [receive, compute(28), receive, compute(20), receive, compute(10)];
    assert_eq!(program(&recording, "t2"), expected);
    execute(&recording.workload).expect("no task waits for ever");
}

#[test]
fn a_wait_for_room_makes_a_limit() {
    // t1 sends three messages, waits for room, and is woken when t2 has received two.
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 2, "S", 0);
    script.send(0, 10, 1, CLIENT, 5, Some(2)).switch(1, 12, 0, "R", 2);
    script.send(0, 20, 1, CLIENT, 5, None).send(0, 30, 1, CLIENT, 5, None).switch(0, 40, 1, "S", 0);
    script.receive(1, 50, 2, SERVER, 5).waking(1, 60, 2, 1).receive(1, 61, 2, SERVER, 5);
    script.switch(0, 62, 0, "R", 1).send(0, 70, 1, CLIENT, 5, None);
    script.receive(1, 80, 2, SERVER, 5).receive(1, 90, 2, SERVER, 5);
    script.switch(0, 95, 1, "X", 0).switch(1, 95, 2, "X", 0);
    let recording = script.read();
    let channel = recording.workload.channels[0];
    // It held three messages. When the writer was woken, one was left: room for two.
    assert_eq!((channel.capacity_bytes, channel.overhead_bytes, channel.wake_room_bytes), (3, 1, 2));
    assert!(channel.elastic);
    let waits = |name| program(&recording, name).iter().any(|op| matches!(op, Op::Wait { .. }));
    assert!(!waits("t1") && !waits("t2"), "both waits are part of calls");
}

/// t1 sends 300 bytes in one call. t2 wakes with the first, reads 100 and then waits, twice more, for what is left.
#[test]
fn a_call_whose_reader_waits_for_the_rest_is_several_messages() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 2, "S", 0);
    // A message to nobody shows that the recording has the ends of calls.
    script.socket(0, 1, 1, "sock:sock_send_length", 0xc0, 5);
    for round in 0..3 {
        let begin_ns = 10 + round * 20;
        script.event(0, begin_ns, 1, "sock:sk_data_ready", "family=1 protocol=0 func=unix_stream_sendmsg");
        script.waking(0, begin_ns, 1, 2).switch(1, begin_ns + 1, 0, "R", 2);
        script.receive(1, begin_ns + 5, 2, SERVER, 100).switch(1, begin_ns + 9, 2, "S", 0);
    }
    script.socket(0, 60, 1, "sock:sock_send_length", CLIENT, 300);
    script.switch(0, 70, 1, "X", 0);
    let recording = script.read();
    let flow = recording.explained.flows[&FlowKind::Socket];
    assert_eq!((flow.pairs, flow.wakeups, flow.added), (1, 3, 0));
    let t1 = program(&recording, "t1");
    let sends = t1.iter().filter(|op| matches!(op, Op::Send { .. })).count();
    assert_eq!((sends, &t1[0], &t1[2]), (3, &compute(10), &compute(20)), "{t1:?}");
    execute(&recording.workload).expect("no task waits for ever");
}

/// As above, but what woke t1 is a question, which it reads before it sends again.
#[test]
fn who_reads_before_it_writes_did_not_wait_for_room() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 2, "S", 0);
    script.send(0, 10, 1, CLIENT, 5, Some(2)).switch(1, 12, 0, "R", 2);
    script.send(0, 20, 1, CLIENT, 5, None).send(0, 30, 1, CLIENT, 5, None).switch(0, 40, 1, "S", 0);
    script.receive(1, 50, 2, SERVER, 5).waking(1, 60, 2, 1).receive(1, 61, 2, SERVER, 5);
    script.switch(0, 62, 0, "R", 1).receive(0, 65, 1, CLIENT, 9).send(0, 70, 1, CLIENT, 5, None);
    script.receive(1, 80, 2, SERVER, 5).receive(1, 90, 2, SERVER, 5);
    script.switch(0, 95, 1, "X", 0).switch(1, 95, 2, "X", 0);
    let recording = script.read();
    assert!(recording.workload.channels.iter().all(|channel| !channel.elastic), "no limit");
    assert!(program(&recording, "t1").iter().any(|op| matches!(op, Op::Wait { .. })), "it was woken");
}

#[test]
fn a_connection_that_was_handed_over_has_a_channel_for_each_reader() {
    // t2 reads the first message, t3 (on CPU 1 after it) the second.
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 2, "S", 0);
    script.send(0, 10, 1, CLIENT, 5, Some(2)).switch(1, 12, 0, "R", 2).receive(1, 20, 2, SERVER, 5);
    script.switch(1, 30, 2, "S", 0);
    script.send(0, 40, 1, CLIENT, 5, Some(3)).switch(1, 42, 0, "R", 3).receive(1, 50, 3, SERVER, 5);
    script.switch(0, 60, 1, "X", 0).switch(1, 60, 3, "X", 0);
    let recording = script.read();
    assert_eq!(recording.workload.channels.len(), 2);
    let sends: Vec<&Op> =
        program(&recording, "t1").iter().filter(|op| matches!(op, Op::Send { .. })).collect();
    let send = |channel| Op::Send { channel, bytes: 0, work_ns: 0 };
    assert_eq!(sends, [&send(0), &send(1)]);
    execute(&recording.workload).expect("no task waits for ever");
}

#[test]
fn calls_that_fail_move_nothing() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 2, "S", 0);
    script.send(0, 10, 1, CLIENT, -11, Some(2)).switch(1, 12, 0, "R", 2).receive(1, 20, 2, SERVER, -11);
    script.switch(0, 30, 1, "X", 0).switch(1, 30, 2, "X", 0);
    let recording = script.read();
    assert!(recording.workload.channels.is_empty());
    assert!(!recording.explained.flows.contains_key(&FlowKind::Socket));
}

/// t1 has three clients, t2 to t4, which ask it again and again. It reads in another order each time: it polls. In the
/// last round t3 wakes it, but it reads from t2 first; the wait was for t3's message all the same.
#[test]
fn a_server_that_reads_as_messages_come_polls() {
    let recording = |orders: &[[u64; 3]]| {
        let mut script = Script::default();
        script.switch(0, 0, 0, "R", 1);
        let mut time_ns = 0;
        for order in orders.iter().cycle().take(24) {
            for &client in order {
                script.switch(1, time_ns + 1, 0, "R", 1 + client as u32);
                script.send(1, time_ns + 2, 1 + client as u32, CLIENT + client, 60, None);
                script.switch(1, time_ns + 4, 1 + client as u32, "S", 0).receive(
                    0,
                    time_ns + 10,
                    1,
                    SERVER + client,
                    60,
                );
                time_ns += 20;
            }
        }
        script.switch(0, time_ns + 1, 1, "S", 0).switch(1, time_ns + 2, 0, "R", 3);
        script.send(1, time_ns + 3, 3, CLIENT + 2, 60, Some(1)).switch(1, time_ns + 5, 3, "S", 2);
        script.send(1, time_ns + 6, 2, CLIENT + 1, 60, None).switch(0, time_ns + 8, 0, "R", 1);
        script.receive(0, time_ns + 9, 1, SERVER + 1, 60).receive(0, time_ns + 10, 1, SERVER + 2, 60);
        script.switch(0, time_ns + 12, 1, "S", 0).read()
    };
    let polls = |recording: &wakelab_trace::Recording| {
        let tasks = recording.workload.tasks.iter().filter(|task| task.polls);
        tasks.map(|task| task.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(polls(&recording(&[[1, 2, 3], [2, 1, 3]])), ["t1"]);
    assert_eq!(polls(&recording(&[[1, 2, 3]])), [""; 0], "the next client is always the next one");
}

/// t1 sleeps until one of its clients, t2 to t4, asks, takes the messages of all, and then answers them: each question
/// has its answer's channel. If it sleeps before it answers, it may have asked others, and no answer is one.
#[test]
fn an_event_loop_answers_what_it_took() {
    let recording = |sleeps: bool| {
        let mut script = Script::default();
        script.switch(0, 0, 0, "R", 1).switch(0, 1, 1, "S", 0);
        let mut time_ns = 10;
        for order in [[1, 2, 3], [2, 1, 3], [3, 1, 2]].iter().cycle().take(24) {
            for (at, &client) in order.iter().enumerate() {
                let (at_ns, tid) = (time_ns + 5 * at as u64, 1 + client as u32);
                let wakee = (at == 0).then_some(1);
                script.switch(1, at_ns, 0, "R", tid).send(1, at_ns + 1, tid, CLIENT + client, 60, wakee);
                script.switch(1, at_ns + 4, tid, "S", 0);
            }
            script.switch(0, time_ns + 20, 0, "R", 1);
            for (at, &client) in order.iter().enumerate() {
                script.receive(0, time_ns + 21 + at as u64, 1, SERVER + client, 60);
            }
            if sleeps {
                script.switch(0, time_ns + 25, 1, "S", 0).waking(1, time_ns + 26, 0, 1);
                script.switch(0, time_ns + 27, 0, "R", 1);
            }
            for (at, &client) in order.iter().enumerate() {
                let wakee = Some(1 + client as u32);
                script.send(0, time_ns + 30 + 4 * at as u64, 1, SERVER + client, 60, wakee);
            }
            script.switch(0, time_ns + 45, 1, "S", 0);
            for (at, &client) in order.iter().enumerate() {
                let (at_ns, tid) = (time_ns + 50 + 5 * at as u64, 1 + client as u32);
                script.switch(1, at_ns, 0, "R", tid).receive(1, at_ns + 1, tid, CLIENT + client, 60);
                script.switch(1, at_ns + 4, tid, "S", 0);
            }
            time_ns += 80;
        }
        script.read()
    };
    let answered = |recording: &wakelab_trace::Recording| {
        recording.workload.channels.iter().filter(|channel| channel.answered_in.is_some()).count()
    };
    assert_eq!(answered(&recording(false)), 3);
    assert_eq!(answered(&recording(true)), 0);
}
