// SPDX-License-Identifier: GPL-2.0-or-later
//! Tells in which channel a task that polls answers a message, if it does that before it sleeps again.
//!
//! An event loop takes all messages that are there, and then answers them: `recv A, recv B, send a, send b`. If a
//! replay has B's message later, the answer to A must not wait for it. That needs the pair of A and a: a connection is
//! one socket on each side, from which its task reads and to which it writes. A task that first asks others (a proxy)
//! sleeps between question and answer. Its answers do wait, so only those count that come before a sleep in
//! [`SURE_PERCENT`] of all cases.
//!
//! Cost: in proportion to the calls of tasks that poll, times the logarithm of their number.

use std::collections::{BTreeMap, BTreeSet};

use wakelab_workload::{Op, TaskIndex};

use super::flow::{FlowIndex, Flows};
use super::{Messages, Queue};
use crate::causal::Position;
use crate::program::Tracked;

/// If as many answers come before a sleep, the task answers before it sleeps.
const SURE_PERCENT: usize = 90;

/// Whether a task answers before it sleeps, which it did `at_once` times in this number of cases.
pub(crate) fn is_sure(at_once: usize, cases: usize) -> bool {
    cases > 0 && at_once * 100 >= cases * SURE_PERCENT
}

/// Returns the flow of the answers for each flow of questions to a task that polls.
pub(super) fn answers(
    all: &Messages,
    flows: &Flows,
    pollers: &BTreeSet<TaskIndex>,
    tasks: &[Tracked],
) -> BTreeMap<FlowIndex, FlowIndex> {
    let sleeps_of = |&task: &TaskIndex| {
        let sleeps = tasks[task as usize].steps.iter().filter(|step| is_sleep(&step.op));
        let mut blocked: Vec<Position> = sleeps.map(|step| step.position).collect();
        blocked.sort_unstable();
        (task, blocked)
    };
    let sleeps: BTreeMap<TaskIndex, Vec<Position>> = pollers.iter().map(sleeps_of).collect();

    // By a poller and its socket: the flow that the socket's messages make, and their places in order.
    let mut sent: BTreeMap<(TaskIndex, u64), (FlowIndex, Vec<Position>)> = BTreeMap::new();
    for (index, flow) in flows.all.iter().enumerate() {
        for call in flow.sent.iter().map(|&call| &all.sent[call]) {
            if let Some(from) = call.from.filter(|_| pollers.contains(&call.at.task)) {
                let of_socket = sent.entry((call.at.task, from)).or_insert((index, Vec::new()));
                if of_socket.0 == index {
                    of_socket.1.push(call.at.position);
                }
            }
        }
    }
    sent.values_mut().for_each(|(_, places)| places.sort_unstable());

    let answer_of = |(index, flow): (FlowIndex, &super::flow::Flow)| {
        let Queue::Socket(socket) = flow.queue else { return None };
        let (answer, sent) = sent.get(&(flow.reader, socket))?;
        let sleeps = sleeps.get(&flow.reader).map_or(&[][..], Vec::as_slice);
        let mut cases = 0;
        let mut at_once = 0;
        for read in flow.received.iter().map(|&call| all.received[call].at.position) {
            let Some(&answered) = sent.get(sent.partition_point(|&place| place <= read)) else { continue };
            let next_sleep = sleeps.get(sleeps.partition_point(|&blocked| blocked <= read));
            cases += 1;
            at_once += usize::from(next_sleep.is_none_or(|&blocked| blocked > answered));
        }
        is_sure(at_once, cases).then_some((index, *answer))
    };
    flows.all.iter().enumerate().filter_map(answer_of).collect()
}

/// Whether the task waits here, for a task or for something else.
fn is_sleep(op: &Op) -> bool {
    matches!(op, Op::Wait { .. } | Op::Sleep { .. } | Op::SleepUntil { .. })
}
