// SPDX-License-Identifier: GPL-2.0-or-later
//! Clocks, and the CPU on which they are read.

use std::io;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// The time on perf's clock.
pub(crate) fn now_ns() -> io::Result<u64> {
    time_ns(ClockId::CLOCK_MONOTONIC)
}

/// The CPU time of this thread.
pub(crate) fn cpu_time_ns() -> io::Result<u64> {
    time_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn time_ns(clock: ClockId) -> io::Result<u64> {
    let time = clock_gettime(clock)?;
    Ok(u64::try_from(time.tv_sec() * 1_000_000_000 + time.tv_nsec()).unwrap_or(0))
}

/// Binds this thread to a CPU.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &only)?)
}
