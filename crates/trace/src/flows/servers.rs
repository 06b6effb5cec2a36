// SPDX-License-Identifier: GPL-2.0-or-later
//! Servers that answer the client that asks first.
//!
//! A server with several clients sleeps until any of them asks. A replay in which each of its waits is for the client
//! that ended it in the recording lets it sleep on while others' questions lie there, and answers them all in a row
//! later: of three clients that computed in turn on one CPU, half of the wake-ups were lost. So the questions and
//! answers of each client become messages in two channels, and the server takes from any channel that has one
//! (crates/sim/src/programs/rounds.rs). That holds where it answers before it sleeps again; one that first asks others
//! keeps its recorded order. So does one that also takes recorded messages, because what is inferred would come between
//! them.
//!
//! Worked example: A asks, the server answers A, B asks, it answers B; recorded as wait A, answer A, wait B, answer B.
//! In a replay, B asks first. The server, which waits in both channels, takes B's question, answers B, and then waits
//! for A.
//!
//! Cost: in proportion to the wake-ups of the pairs, times the logarithm of their number.

use std::collections::BTreeMap;

use wakelab_workload::{Channel, Op, TaskIndex};

use super::requests::Pair;
use super::{Flows, INBOX, Known};
use crate::messages::answers::is_sure;
use crate::program::Tracked;

/// The fewest clients that can ask in another order.
const FEWEST_CLIENTS: usize = 2;

/// A pair with the signals that were added for it.
pub(super) struct Added {
    pub(super) of: Pair,
    pub(super) questions: std::ops::Range<u32>,
    pub(super) answers: std::ops::Range<u32>,
}

/// Lets the servers of several of the `pairs` answer the client that asks first. Adds their channels, and to
/// `channel_of` the signals that become messages there.
pub(super) fn take_servers(
    flows: &mut Flows,
    tasks: &mut [Tracked],
    known: &Known<'_>,
    pairs: &[Added],
    channel_of: &mut BTreeMap<u32, u32>,
) {
    let mut by_server: BTreeMap<TaskIndex, Vec<&Added>> = BTreeMap::new();
    for added in pairs {
        by_server.entry(added.of.server).or_default().push(added);
    }
    for (server, pairs) in by_server {
        let task = &tasks[server as usize];
        let takes_others = || task.polls || task.steps.iter().any(|step| matches!(step.op, Op::Recv { .. }));
        if pairs.len() < FEWEST_CLIENTS || takes_others() || !answers_at_once(known, &pairs) {
            continue;
        }
        tasks[server as usize].polls = true;
        for Added { of, questions, answers } in pairs {
            let question = flows.channels.len() as u32;
            let answer = question + 1;
            flows.channels.push(Channel { answered_in: Some(answer), ..INBOX });
            flows.channels.push(INBOX);
            let asked = known.pair(of.client, server).iter().map(|wakeup| wakeup.signal);
            channel_of.extend(asked.chain(questions.clone()).map(|signal| (signal, question)));
            let answered = known.pair(server, of.client).iter().map(|wakeup| wakeup.signal);
            channel_of.extend(answered.chain(answers.clone()).map(|signal| (signal, answer)));
        }
    }
}

/// Whether the server of these pairs answers questions before it sleeps again.
fn answers_at_once(known: &Known<'_>, pairs: &[&Added]) -> bool {
    let (mut cases, mut at_once) = (0, 0);
    for Added { of, .. } in pairs {
        let answers = known.pair(of.server, of.client);
        let (asked, sleeps) = (known.pair(of.client, of.server), &known.ended[of.server as usize]);
        for (index, question) in asked.iter().enumerate() {
            let answer = answers.get(answers.partition_point(|answer| answer.at <= question.at));
            let next = asked.get(index + 1);
            // An answer after the next question is that one's.
            let Some(answer) = answer.filter(|answer| next.is_none_or(|next| answer.at <= next.at)) else {
                continue;
            };
            let sleep = sleeps.get(sleeps.partition_point(|sleep| sleep.blocked <= question.at));
            cases += 1;
            at_once += usize::from(sleep.is_none_or(|sleep| sleep.blocked > answer.at));
        }
    }
    is_sure(at_once, cases)
}
