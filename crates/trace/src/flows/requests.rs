// SPDX-License-Identifier: GPL-2.0-or-later
//! Questions and answers that left no event (../flows.rs says what they are).
//!
//! Cost: time in proportion to the wake-ups of the pair, times the logarithm of the bursts of its tasks.

use wakelab_workload::{Op, TaskIndex};

use super::{Known, Wakeup, whole};
use crate::causal::Position;
use crate::program::{Step, Tracked};
use crate::quantile::quantile;

/// A client and the server that it asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) client: TaskIndex,
    pub(super) server: TaskIndex,
}

/// Adds the questions of a client that woke nobody. Returns their number.
pub(super) fn add_questions(tasks: &mut [Tracked], known: &Known<'_>, of: Pair, signals: &mut u32) -> u64 {
    let Pair { client, server } = of;
    let asked = known.pair(client, server);
    let answers = known.pair(server, client);
    let lead_units = lead_units(asked, answers);
    let sent = &known.made[server as usize];
    let mut added = 0;
    // A server may have forked its client: no question comes before the client runs.
    let begun_ns = tasks[client as usize].begun_ns();
    let mut woken = begun_ns.map_or(Position::default(), Position::after);
    let mut woken_units = 0;
    for answer in answers {
        let next = asked.partition_point(|question| question.at <= woken);
        let is_seen = asked.get(next).is_some_and(|question| question.at <= answer.blocked);
        let units = whole(answer.wakee_units.saturating_sub(lead_units)).max(woken_units);
        let asks = if units > woken_units { tasks[client as usize].position_of(units) } else { None };
        let asks = asks.unwrap_or(Position::after(woken.time_ns)).max(woken);
        if !is_seen && asks < answer.blocked {
            let before = sent.partition_point(|other| other.at < answer.at);
            let last = before.checked_sub(1).map_or(Position::default(), |index| sent[index].at);
            let needs = asks.max(last);
            depend(tasks, (client, asks, units), (server, needs), signals);
            added += 1;
        }
        (woken, woken_units) = (answer.at, answer.wakee_units);
    }
    added
}

/// Adds the answers that came before their client could wait for them. Returns their number.
pub(super) fn add_answers(tasks: &mut [Tracked], known: &Known<'_>, of: Pair, signals: &mut u32) -> u64 {
    let Pair { client, server } = of;
    let (asked, answers) = (known.pair(client, server), known.pair(server, client));
    let (waits, sleeps) = (&known.ended[client as usize], &known.ended[server as usize]);
    // What the server does between an answer that is seen and its sleep, and the client between one and its question.
    let lag_units = median(answers.iter().filter_map(|answer| {
        let sleep = sleeps.get(sleeps.partition_point(|sleep| sleep.blocked <= answer.at))?;
        Some(sleep.wakee_units.saturating_sub(answer.waker_units))
    }));
    let pause_units = median(answers.iter().filter_map(|answer| {
        let question = asked.get(asked.partition_point(|question| question.at <= answer.at))?;
        Some(question.waker_units.saturating_sub(answer.wakee_units))
    }));
    let mut added = 0;
    for (question, next) in asked.iter().zip(asked.iter().skip(1)) {
        let wait = waits.get(waits.partition_point(|wait| wait.blocked <= question.at));
        if wait.is_some_and(|wait| wait.blocked <= next.at) {
            continue;
        }
        let begins_units = tasks[server as usize].work_at(question.at.time_ns);
        let answer_units = whole(next.wakee_units.saturating_sub(lag_units)).max(begins_units);
        let client_runs = |at: Position| tasks[client as usize].runs_at(at.time_ns);
        let mut made = tasks[server as usize].position_of(answer_units).unwrap_or_default().max(question.at);
        if client_runs(made) {
            // Of bursts without work, the first is found.
            made = made.max(Position::after(tasks[server as usize].last_begun_ns(next.blocked.time_ns)));
        }
        if made >= next.blocked || client_runs(made) {
            continue;
        }
        let need_units = whole(next.waker_units.saturating_sub(pause_units));
        let needs = tasks[client as usize].position_of(need_units).unwrap_or_default().max(made);
        if needs >= next.at {
            continue;
        }
        depend(tasks, (server, made, answer_units), (client, needs), signals);
        added += 1;
    }
    added
}

/// Adds a signal that a task raises at a position, with its work then, and another one needs at its own.
fn depend(
    tasks: &mut [Tracked],
    (raiser, raised, at_units): (TaskIndex, Position, u64),
    (waiter, needed): (TaskIndex, Position),
    signals: &mut u32,
) {
    let signal = *signals;
    *signals += 1;
    let op = Op::Signal { signal, sync: false };
    tasks[raiser as usize].steps.push(Step { position: raised, at_units, op });
    let waiter = &mut tasks[waiter as usize];
    let at_units = waiter.work_at(needed.time_ns);
    waiter.steps.push(Step { position: needed, at_units, op: Op::Wait { signal } });
}

/// Whether a client does less between a question that is seen and the wait for its answer than it usually does between
/// two waits. Where it does nothing in between, as far as the recording tells, it asks late.
pub(super) fn asks_late(asked: &[&Wakeup], answers: &[&Wakeup]) -> bool {
    let bursts = answers.windows(2).map(|pair| pair[1].wakee_units.saturating_sub(pair[0].wakee_units));
    let lead_units = lead_units(asked, answers);
    lead_units == 0 || lead_units < median(bursts)
}

/// How much work a client does between a question that is seen and the wait for its answer: the median. Of several
/// questions before one wait, the last counts.
fn lead_units(asked: &[&Wakeup], answers: &[&Wakeup]) -> u64 {
    let leads = asked.iter().enumerate().filter_map(|(index, question)| {
        let answer = answers.get(answers.partition_point(|answer| answer.blocked < question.at))?;
        let is_last = asked.get(index + 1).is_none_or(|next| next.at > answer.blocked);
        is_last.then(|| answer.wakee_units.saturating_sub(question.waker_units))
    });
    median(leads)
}

fn median(units: impl Iterator<Item = u64>) -> u64 {
    quantile(units, 50).unwrap_or(0)
}
