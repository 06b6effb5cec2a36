// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that wait for each other because an elastic channel is full.
//!
//! The limit of an elastic channel is a guess: in a recording, this many messages were there when a writer waited. In
//! another order of events it may stop tasks for ever: W waits until R makes room, and R waits for what W does next. At
//! the end of a run that is plain, because nothing else will happen; but timers of tasks that have nothing to do with W
//! and R go on until then, and so W and R would stand still for as long as those run.
//!
//! A blocked task is *stuck* if nobody is left to wake it: all that could are stuck or gone. Who could is taken from
//! the programs: all that send to the channel that it reads, that read from the channel where it waits for room, that
//! raise its signal, or that come to its barrier. A task that sleeps, or waits for anything else, is not stuck. The set
//! is found by leaving out, again and again, tasks that another one may still wake.
//!
//! Worked example: W and R as above, and T, which sleeps for a second. R's message can only come from W, W's room only
//! from R; T sends to neither. W and R are stuck, and W's channel takes one message more. If R slept, neither would be.
//!
//! Cost: once, a pass over all programs; each time, the blocked tasks times those who could wake them, times the length
//! of the longest chain of waits. It is asked at most once in [`LOOK_NS`].

use wakelab_workload::{Op, Workload};

use crate::kernel::thread::Life;
use crate::programs::Programs;

/// How long two looks for stuck tasks are apart, at least, in nanoseconds of the run.
pub(crate) const LOOK_NS: u64 = 1_000_000;

/// Who does what, by channel, signal and barrier.
pub(super) struct Actors {
    senders: Vec<Vec<u32>>,
    readers: Vec<Vec<u32>>,
    raisers: Vec<Vec<u32>>,
    comers: Vec<Vec<u32>>,
}

impl Actors {
    fn new(workload: &Workload) -> Actors {
        let mut actors = Actors {
            senders: vec![Vec::new(); workload.channels.len()],
            readers: vec![Vec::new(); workload.channels.len()],
            raisers: vec![Vec::new(); workload.signals as usize],
            comers: vec![Vec::new(); workload.barriers.len()],
        };
        for (task, of) in (0_u32..).zip(&workload.tasks) {
            for op in &of.program[..] {
                let list = match *op {
                    Op::Send { channel, .. } => &mut actors.senders[channel as usize],
                    Op::Recv { channel, .. } => &mut actors.readers[channel as usize],
                    Op::Signal { signal, .. } => &mut actors.raisers[signal as usize],
                    Op::Barrier { barrier } | Op::SleepAtBarrier { barrier } => {
                        &mut actors.comers[barrier as usize]
                    }
                    _ => continue,
                };
                if list.last() != Some(&task) {
                    list.push(task);
                }
            }
        }
        actors
    }
}

impl Programs<'_> {
    /// Makes room in the first elastic channel where a writer waits that is stuck, and returns that writer. `life_of`
    /// tells of each task.
    pub(crate) fn relent_stuck(&mut self, life_of: impl Fn(u32) -> Life) -> Option<u32> {
        if !self.channels.iter().any(|channel| channel.elastic_writer().is_some()) {
            return None;
        }
        let actors = self.actors.take().unwrap_or_else(|| Box::new(Actors::new(self.workload)));
        let stuck = self.stuck(&actors, life_of);
        self.actors = Some(actors);
        let is_stuck = |task: u32| stuck[task as usize];
        let full = self.channels.iter_mut().find(|channel| channel.elastic_writer().is_some_and(is_stuck));
        full?.relent()
    }

    /// Returns for each task whether it is stuck.
    fn stuck(&self, actors: &Actors, life_of: impl Fn(u32) -> Life) -> Vec<bool> {
        let count = self.tasks.len() as u32;
        let mut stuck: Vec<bool> = (0..count)
            .map(|task| match life_of(task) {
                Life::Unborn => true,
                Life::Blocked => self.wakers(actors, task).is_some(),
                Life::Runnable | Life::Exited => false,
            })
            .collect();
        let may_act = |stuck: &[bool], task: u32| !stuck[task as usize] && life_of(task) != Life::Exited;
        loop {
            let freed: Vec<u32> = (0..count)
                .filter(|&task| stuck[task as usize])
                .filter(|&task| match life_of(task) {
                    Life::Unborn => {
                        self.workload.tasks[task as usize].parent.is_none_or(|parent| may_act(&stuck, parent))
                    }
                    _ => self
                        .wakers(actors, task)
                        .is_none_or(|mut wakers| wakers.any(|waker| waker != task && may_act(&stuck, waker))),
                })
                .collect();
            if freed.is_empty() {
                return stuck;
            }
            freed.into_iter().for_each(|task| stuck[task as usize] = false);
        }
    }

    /// Returns who could wake a blocked task; `None` if that is not known.
    fn wakers<'s>(&'s self, actors: &'s Actors, task: u32) -> Option<impl Iterator<Item = u32> + 's> {
        let waits_in = &self.tasks[task as usize].waits_in;
        let of_several = waits_in.iter().flat_map(|&channel| &actors.senders[channel as usize]);
        let of_one = match *self.op(task)? {
            Op::Recv { channel, .. } => &actors.senders[channel as usize][..],
            Op::Send { channel, .. } => &actors.readers[channel as usize][..],
            Op::Wait { signal } => &actors.raisers[signal as usize][..],
            Op::Barrier { barrier } | Op::SleepAtBarrier { barrier } => &actors.comers[barrier as usize][..],
            _ => return None,
        };
        Some(of_several.chain(of_one).copied())
    }
}
