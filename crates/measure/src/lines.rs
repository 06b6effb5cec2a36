// SPDX-License-Identifier: GPL-2.0-or-later
//! Cache lines that go from CPU to CPU, as core-to-core-latency measures them: two threads swap a line to and fro by
//! compare-and-exchange, so that it is always taken with the right to write. One way is half of a round trip.

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::pin;
use crate::timing::batches_ps;

const PING: u32 = 0;
const PONG: u32 = 1;
const STOP: u32 = 2;
/// Round trips of a batch.
const ROUNDS: u64 = 1000;
/// Atomic updates of a batch.
const UPDATES: u64 = 10_000;

/// A word with a line, and the next line, which some processors fetch with it, for itself.
#[repr(align(128))]
struct Line(AtomicU32);

/// One-way transfers between two CPUs, in ps, by batch.
pub(crate) fn transfers_ps(cpus: (u32, u32), time: Duration) -> io::Result<Vec<u64>> {
    let line = Line(AtomicU32::new(PING));
    let swap = |from, to| line.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok();
    let first = || {
        let found = batches_ps(time, 2 * ROUNDS, || {
            for _ in 0..ROUNDS {
                while !swap(PING, PONG) {
                    spin_loop();
                }
            }
        });
        while !swap(PING, STOP) {
            spin_loop();
        }
        found
    };
    let second = || {
        while line.0.load(Ordering::Acquire) != STOP {
            while !swap(PONG, PING) {
                if line.0.load(Ordering::Acquire) == STOP {
                    return;
                }
            }
        }
    };
    pin::pair(cpus, first, second)
}

/// Atomic updates of a line that this CPU has, in ps, by batch.
pub(crate) fn updates_ps(cpu: u32, time: Duration) -> io::Result<Vec<u64>> {
    let line = Line(AtomicU32::new(0));
    pin::on(cpu, || {
        batches_ps(time, UPDATES, || {
            for _ in 0..UPDATES {
                line.0.fetch_add(1, Ordering::AcqRel);
            }
        })
    })
}
