// SPDX-License-Identifier: GPL-2.0-or-later
//! What an event loop does after each sleep, whatever number of messages it finds then (`Task::after_sleep_ns`).
//!
//! A task that polls comes back from `epoll_wait()`, handles the messages that are there, does what its loop does once
//! a turn, and calls again. In a recording all of that is work between its messages. A replay in which it finds fewer
//! messages at a time sleeps more often, so it must do the loop's own work more often. That work shows where a task
//! slept before a few messages and before many: from sleep to sleep it works `own + messages x each`.
//!
//! Worked example. A server worked 10,000 ns from sleep to sleep with 1 message, and 127,300 ns with 20 (medians). A
//! message takes (127,300 - 10,000) / 19 = 6,174 ns, so the loop's own work is 3,826 ns. It is taken off the work
//! after each sleep, and a replay charges it again with the first message after a sleep.
//!
//! The two numbers of messages are the least that at least [`FEWEST`] turns had, and the most frequent of those twice
//! as large or more. Turns of one size tell nothing, and then nothing is taken off.
//!
//! Cost: in proportion to the steps of tasks that poll, times the logarithm of their number.

use std::collections::{BTreeMap, BTreeSet};

use wakelab_workload::Op;

use super::Polled;
use crate::causal::Position;
use crate::program::{Step, Tracked};
use crate::quantile::quantile;
use crate::rescale::UNITS;

/// The fewest turns with one number of messages that tell.
const FEWEST: usize = 20;

/// Takes what their loops do off the work of tasks that poll, after each sleep.
pub(crate) fn take_off(tasks: &mut [Tracked], polled: &Polled) {
    for (&task, blocked) in polled {
        let task = &mut tasks[task as usize];
        task.steps.sort_by_key(|step| step.position);
        let Some(own_units) = own_units(&task.steps, blocked) else { continue };
        task.after_sleep_ns = own_units / UNITS;
        let off_units =
            take_off_steps(&mut task.steps, task.work_units, blocked, task.after_sleep_ns * UNITS);
        task.work_units = task.work_units.saturating_sub(off_units);
    }
}

/// Takes `own_units` off the work that follows each sleep, where there is as much: more than lies before the next step
/// is taken off what follows that. Returns how much it is together.
fn take_off_steps(steps: &mut [Step], work_units: u64, blocked: &BTreeSet<Position>, own_units: u64) -> u64 {
    let (mut off_units, mut due_units) = (0, 0);
    for at in 0..steps.len() {
        let Step { position, at_units, .. } = steps[at];
        steps[at].at_units = at_units.saturating_sub(off_units);
        if blocked.contains(&position) {
            due_units += own_units;
        }
        let until_units = steps.get(at + 1).map_or(work_units, |next| next.at_units);
        let now_units = due_units.min(until_units.saturating_sub(at_units));
        (off_units, due_units) = (off_units + now_units, due_units - now_units);
    }
    off_units
}

/// The work of a turn that does not depend on its number of messages, in 1/1024 ns.
fn own_units(steps: &[Step], blocked: &BTreeSet<Position>) -> Option<u64> {
    let mut turns: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut turn: Option<(u64, u64)> = None;
    for step in steps {
        let receives = matches!(step.op, Op::Recv { .. });
        if receives
            && blocked.contains(&step.position)
            && let Some((since_units, messages)) = turn.replace((step.at_units, 0))
        {
            turns.entry(messages).or_default().push(step.at_units.saturating_sub(since_units));
        }
        if receives && let Some((_, messages)) = &mut turn {
            *messages += 1;
        }
    }
    let mut told = turns.iter().filter(|(_, units)| units.len() >= FEWEST);
    let (&few, of_few) = told.next()?;
    let (&many, of_many) =
        told.filter(|&(&messages, _)| messages >= 2 * few).max_by_key(|(_, units)| units.len())?;
    let median = |units: &[u64]| quantile(units.iter().copied(), 50).unwrap_or(0);
    let (few_units, many_units) = (median(of_few), median(of_many));
    let each_units = many_units.saturating_sub(few_units) / (many - few);
    Some(few_units.saturating_sub(few * each_units)).filter(|&units| units > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(time_ns: u64, at_units: u64) -> Step {
        Step { position: Position::after(time_ns), at_units, op: Op::Recv { channel: 0, work_ns: 0 } }
    }

    /// A task sleeps before the messages at 100 and 400 of its work, and takes two each time: the second after 10. The
    /// loop's own 30 are the 10 between, and 20 of what follows.
    #[test]
    fn what_is_more_than_lies_between_two_messages_is_taken_off_later() {
        let mut steps = [receive(1, 100), receive(2, 110), receive(3, 400), receive(4, 410)];
        let blocked = BTreeSet::from([1, 3].map(Position::after));
        assert_eq!(take_off_steps(&mut steps, 500, &blocked, 30), 60);
        assert_eq!(steps.map(|step| step.at_units), [100, 100, 370, 370]);
        let mut last = [receive(1, 100)];
        assert_eq!(take_off_steps(&mut last, 120, &BTreeSet::from([Position::after(1)]), 30), 20);
    }

    /// Turns of 1 and of 3 messages, 20 each; one of 1 takes 10, and one of 3 takes 22: each message 6, the rest 4.
    #[test]
    fn what_does_not_depend_on_the_number_of_messages_is_the_loops() {
        let (mut steps, mut blocked) = (Vec::new(), BTreeSet::new());
        let (mut time_ns, mut units) = (0, 0);
        for turn in 0..=40 {
            let (messages, took) = if turn % 2 == 0 { (1, 10) } else { (3, 22) };
            blocked.insert(Position::after(time_ns));
            for message in 0..messages {
                steps.push(receive(time_ns + message, units + message));
            }
            (time_ns, units) = (time_ns + 100, units + took);
        }
        assert_eq!(own_units(&steps, &blocked), Some(4));
        let singles = steps.iter().filter(|step| blocked.contains(&step.position)).copied();
        assert_eq!(own_units(&singles.collect::<Vec<_>>(), &blocked), None, "turns of one size");
    }
}
