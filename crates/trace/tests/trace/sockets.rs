// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages over sockets: what crates/trace/src/messages.rs makes of their events.

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
