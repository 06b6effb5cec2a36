// SPDX-License-Identifier: GPL-2.0-or-later
//! Futexes: the call alone, a wake-up, and a hand-over to and fro.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::futex::{Flags, wait, wake};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

use crate::pin;
use crate::timing::{batches_ns, ns};

/// Calls of a batch.
const CALLS: u64 = 1000;
/// Hand-overs to and fro of a batch.
const ROUNDS: u64 = 100;
/// Threads that wait on the waker's CPU.
const WAKEES: usize = 16;
/// Rounds of wake-ups that are made at least, and that are enough for a percentile.
const LEAST_WAKES: usize = 5;
const MOST_WAKES: usize = 1000;
/// How long the waker leaves its CPU to the threads that it wakes next, which wait within that time if the CPU has
/// nothing else to do.
const PAUSE: Duration = Duration::from_millis(1);

/// What waits, and for whom the word says so.
const MINE: u32 = 0;
const THINE: u32 = 1;
const STOP: u32 = 2;

/// A call that finds nobody to wake, in ns, by batch.
pub(crate) fn calls_ns(cpu: u32, time: Duration) -> io::Result<Vec<u64>> {
    let word = AtomicU32::new(0);
    pin::on(cpu, || {
        batches_ns(time, CALLS, || {
            for _ in 0..CALLS {
                let _ = wake(&word, Flags::PRIVATE, 1);
            }
        })
    })
}

/// Calls that wake a thread on the waker's CPU, in ns, by round: all threads that wait are woken in a row, because the
/// first call after a sleep finds cold caches. They are batch tasks, which never take the CPU from a waker.
pub(crate) fn wakes_ns(cpu: u32, time: Duration) -> io::Result<Vec<u64>> {
    let (round, done) = (AtomicU32::new(0), AtomicBool::new(false));
    let waker = || {
        let (begin, mut found) = (Instant::now(), Vec::new());
        let (mut tries, most) = (0, 20 * LEAST_WAKES);
        while (found.len() < LEAST_WAKES && tries < most)
            || (begin.elapsed() < time && found.len() < MOST_WAKES)
        {
            tries += 1;
            thread::sleep(PAUSE);
            round.fetch_add(1, Ordering::AcqRel);
            let from = Instant::now();
            let woken: usize = (0..WAKEES).map(|_| wake(&round, Flags::PRIVATE, 1).unwrap_or(0)).sum();
            let took = ns(from.elapsed());
            // Some may not have waited yet.
            if woken == WAKEES {
                found.push(took / WAKEES as u64);
            }
        }
        done.store(true, Ordering::Release);
        round.fetch_add(1, Ordering::AcqRel);
        let _ = wake(&round, Flags::PRIVATE, WAKEES as u32);
        found
    };
    let wakee = || {
        // Of this thread alone. If it is refused, wakees may run at once, and figures have that in them.
        let batch = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);
        let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, batch);
        while !done.load(Ordering::Acquire) {
            let seen = round.load(Ordering::Acquire);
            if !done.load(Ordering::Acquire) {
                wait_while(&round, seen);
            }
        }
    };
    let cpus = [cpu; WAKEES + 1];
    let work = |at: usize| {
        if at == 0 {
            return waker();
        }
        wakee();
        Vec::new()
    };
    Ok(pin::all(&cpus, Ok, work)?.concat())
}

/// Hand-overs from one CPU to another, one way, in ns, by batch.
pub(crate) fn handovers_ns(cpus: (u32, u32), time: Duration) -> io::Result<Vec<u64>> {
    let turn = AtomicU32::new(MINE);
    let give = |to: u32| {
        turn.store(to, Ordering::Release);
        let _ = wake(&turn, Flags::PRIVATE, 1);
    };
    let first = || {
        let found = batches_ns(time, 2 * ROUNDS, || {
            for _ in 0..ROUNDS {
                give(THINE);
                wait_while(&turn, THINE);
            }
        });
        give(STOP);
        found
    };
    let second = || {
        loop {
            wait_while(&turn, MINE);
            if turn.load(Ordering::Acquire) == STOP {
                return;
            }
            give(MINE);
        }
    };
    pin::pair(cpus, first, second)
}

/// Waits while the word has this value.
pub(crate) fn wait_while(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) == value {
        // A change in between and a signal both look again.
        let _ = wait(word, Flags::PRIVATE, value, None);
    }
}
