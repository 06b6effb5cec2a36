// SPDX-License-Identifier: GPL-2.0-or-later
//! What recording one event costs the task that causes it.
//!
//! Two threads on one CPU pass a byte to and fro through pipes, alternately without events and with them; each
//! hand-over is a wake-up and a switch. The difference of their CPU time, by the number of events that they caused, is
//! the cost of one. It is a median of paired samples, so that interrupts and other programs, which hit single samples,
//! do not count.
//!
//! It holds for the mixture of events of a wake-up and a switch with warm caches. It leaves out what the recorder does
//! later: perf copies the events to its file, and the kernel wakes it for that.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::thread;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use crate::clock::{cpu_time_ns, pin};
use crate::error::{RecordError, system};
use crate::perf::Recorder;

/// How the names of the two threads begin.
pub(crate) const THREAD: &str = "wl-cost";
/// Pairs of a sample without events and one with them.
const PAIRS: usize = 9;
/// Round trips in one sample, which takes about 2 ms.
pub(crate) const ROUNDS: usize = 500;

/// What was measured, without the number of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Added {
    /// The CPU time that recording added to one sample: the median.
    ns: i64,
}

impl Added {
    /// Returns the cost of one event, if all samples together caused that many. `None` if it is below the noise.
    pub(crate) fn event_cost_ns(self, events: u64) -> Option<u64> {
        let each = u64::try_from(self.ns).ok()?.checked_mul(PAIRS as u64)?.checked_div(events)?;
        (each > 0).then_some(each)
    }
}

/// Runs the samples under a recorder that has been told to be quiet.
pub(crate) fn measure(recorder: &mut Recorder) -> Result<Added, RecordError> {
    let sample = || sample_ns().map_err(system("measure the cost of an event"));
    // The first one warms the caches.
    sample()?;
    let mut added = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let without_ns = sample()?;
        recorder.tell("enable")?;
        let with_ns = sample()?;
        recorder.tell("disable")?;
        added.push(with_ns - without_ns);
    }
    added.sort_unstable();
    Ok(Added { ns: added[PAIRS / 2] })
}

/// Returns the CPU time from one thread to another on one CPU: a write, a wake-up, a switch, and the reader's return.
pub(crate) fn hand_over_ns() -> io::Result<u64> {
    let mut samples = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        samples.push(sample_ns()?);
    }
    samples.sort_unstable();
    Ok(u64::try_from(samples[PAIRS / 2]).unwrap_or(0) / (2 * ROUNDS as u64))
}

/// Returns the CPU time of both threads.
pub(crate) fn sample_ns() -> io::Result<i64> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let first = (0..CpuSet::count()).find(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let cpu = first.ok_or_else(|| io::Error::other("this process may run nowhere"))?;
    let ((there_out, there_in), (back_out, back_in)) = (io::pipe()?, io::pipe()?);
    thread::scope(|scope| {
        let thread = |name: &str| thread::Builder::new().name(format!("{THREAD}-{name}"));
        let one = thread("a").spawn_scoped(scope, || pass(cpu, true, back_out, there_in))?;
        let two = thread("b").spawn_scoped(scope, || pass(cpu, false, there_out, back_in))?;
        let joined = |thread: thread::ScopedJoinHandle<'_, io::Result<i64>>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        };
        Ok(joined(one)? + joined(two)?)
    })
}

/// One of the two threads. Returns its CPU time.
fn pass(cpu: usize, begins: bool, mut from: PipeReader, mut to: PipeWriter) -> io::Result<i64> {
    let mut byte = [0];
    pin(cpu)?;
    let begin_ns = cpu_time_ns()?;
    for _ in 0..ROUNDS {
        if begins {
            to.write_all(&byte)?;
            from.read_exact(&mut byte)?;
        } else {
            from.read_exact(&mut byte)?;
            to.write_all(&byte)?;
        }
    }
    Ok((cpu_time_ns()? - begin_ns).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_one_event_by_hand() {
        // 9 samples with 1,800 events together: 200 each, and 50,000 ns more.
        assert_eq!(Added { ns: 50_000 }.event_cost_ns(1_800), Some(250));
        assert_eq!(Added { ns: -1 }.event_cost_ns(1_800), None);
        assert_eq!((Added { ns: 1 }.event_cost_ns(1_800), Added { ns: 1 }.event_cost_ns(0)), (None, None));
    }

    #[test]
    fn a_sample_takes_time() {
        assert!(sample_ns().expect("pipes and threads") > 0);
    }
}
