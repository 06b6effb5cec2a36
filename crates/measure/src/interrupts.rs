// SPDX-License-Identifier: GPL-2.0-or-later
//! Interrupts between CPUs, as far as a user sees them: membarrier interrupts each CPU that runs another thread of the
//! process and waits until all have answered. The same call without such a CPU is subtracted.

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{MembarrierCommand, membarrier};

use crate::pin;
use crate::spread::Spread;
use crate::timing::ns;

/// Calls that are made at least, and that are enough for a percentile.
const LEAST: usize = 20;
const MOST: usize = 5000;

/// Round trips of an interrupt between two CPUs, in ns, one by one.
pub(crate) fn round_trips_ns(cpus: (u32, u32), time: Duration) -> io::Result<Vec<u64>> {
    membarrier(MembarrierCommand::RegisterPrivateExpedited)?;
    let calls = |before: &dyn Fn()| {
        let (begin, mut found) = (Instant::now(), Vec::new());
        while found.len() < LEAST || (found.len() < MOST && begin.elapsed() < time / 2) {
            before();
            let from = Instant::now();
            let called = membarrier(MembarrierCommand::PrivateExpedited);
            let took = ns(from.elapsed());
            called?;
            found.push(took);
        }
        Ok::<_, io::Error>(found)
    };
    let alone = Spread::of(pin::on(cpus.0, || calls(&|| ()))??).map_or(0, |alone| alone.median);
    let (rounds, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    // A thread that other work keeps from its CPU is not interrupted, so it must be seen to run just before.
    let runs = || {
        let seen = rounds.load(Ordering::Acquire);
        while rounds.load(Ordering::Acquire) == seen {
            spin_loop();
        }
    };
    let measured = || {
        let found = calls(&runs);
        stop.store(true, Ordering::Release);
        found
    };
    let spin = || {
        while !stop.load(Ordering::Acquire) {
            rounds.fetch_add(1, Ordering::AcqRel);
            spin_loop();
        }
    };
    let found = pin::pair(cpus, measured, spin)??;
    Ok(found.into_iter().map(|both| both.saturating_sub(alone)).collect())
}
