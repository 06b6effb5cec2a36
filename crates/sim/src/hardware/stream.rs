// SPDX-License-Identifier: GPL-2.0-or-later
//! Segments that stream through memory. Such a segment takes as long as its work, or as long as the memory needs for
//! its bytes if that is longer.
//!
//! Work and bytes advance together. A stream that is granted what it demands advances at the pace of its work, any
//! other at the pace of its bytes; the time in which the CPU does no work is *memory* time. Both remainders are kept:
//! the work in 1/1024 ns, the traffic in 1/64,000 of a byte, so that a rate of 1/64 MB/s (memory.rs) is one unit per
//! nanosecond and either pace is exact. All work is accounted in the end, whatever the order of paces.
//!
//! When a stream starts or stops, or the speed of its thread changes, the streams whose rates change are settled at the
//! old rate and re-timed at the new one. A task that is interrupted or preempted does not stream until it runs again.
//!
//! Worked example: 100,000 ns of work and 15,000 bytes demand 150 MB/s. Granted 120 MB/s, they take 15,000 / 120 = 125
//! us: 100,000 ns of work and 25,000 ns of memory time.

use crate::hardware::Hardware;
use crate::hardware::cpu::{Cpu, Doing, Pace};
use crate::hardware::memory::MB_PER_S;
use crate::hardware::speed::Speed;
use crate::ledger::checker::Checker;
use crate::time_use::TimeKind;

/// One byte in units of traffic.
pub(crate) const BYTE: u64 = 1000 * MB_PER_S;

impl Pace {
    fn traffic_of(self, work: u64) -> u64 {
        let traffic = u128::from(work) * u128::from(self.stream.traffic);
        traffic.div_ceil(u128::from(self.stream.work.max(1))) as u64
    }

    fn work_of(self, traffic: u64) -> u64 {
        let work = u128::from(traffic) * u128::from(self.stream.work);
        (work / u128::from(self.stream.traffic.max(1))) as u64
    }

    /// The traffic per nanosecond that the work needs at this speed.
    fn wanted(self, speed: Speed) -> u64 {
        match self.stream.work {
            0 => u64::MAX,
            work => {
                let traffic = u128::from(self.stream.traffic) * u128::from(speed.units());
                u64::try_from(traffic.div_ceil(u128::from(work))).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Cpu {
    /// Advances its stream by `elapsed_ns`. Returns the work done, and the time spent waiting for memory; both in
    /// 1/1024 ns.
    #[inline(never)]
    pub(crate) fn settle_stream(&mut self, elapsed_ns: u64) -> (u64, u64) {
        let full = elapsed_ns * self.speed.units();
        let before = self.pace.stream.work_left;
        let left = if self.pace.by_work {
            let left = before.saturating_sub(full);
            self.remaining = self.pace.traffic_of(left).min(self.remaining);
            left
        } else {
            self.remaining = self.remaining.saturating_sub(self.pace.rate.saturating_mul(elapsed_ns));
            self.pace.work_of(self.remaining).min(before)
        };
        self.pace.stream.work_left = left;
        let done = before - left;
        (done, if self.pace.by_work { 0 } else { full.saturating_sub(done) })
    }
}

impl Hardware<'_> {
    /// The CPU's segment was set: a stream gets its share of the memory; otherwise the share of the stream before it is
    /// freed.
    #[inline(never)]
    pub(crate) fn arm_stream(&mut self, cpu: u32, checker: &mut Checker) {
        let c = &mut self.cpus[cpu as usize];
        c.streams = c.kind == TimeKind::Memory;
        if c.streams {
            self.share_stream(cpu, checker);
        } else {
            let changed = self.memory.stop(cpu);
            self.retime_streams(&changed, checker);
        }
    }

    /// Shares the memory out again, because the stream of `cpu`, which is settled, is new or runs at another speed.
    #[inline(never)]
    pub(crate) fn share_stream(&mut self, cpu: u32, checker: &mut Checker) {
        let c = &self.cpus[cpu as usize];
        let stream = c.pace.stream;
        let changed = self.memory.stream(cpu, stream.home, c.pace.wanted(c.speed), stream.llc_percent);
        self.retime_streams(&changed, checker);
        self.retime_stream(cpu);
    }

    fn retime_streams(&mut self, cpus: &[u32], checker: &mut Checker) {
        for &cpu in cpus {
            let c = &self.cpus[cpu as usize];
            if c.doing == Doing::Task && c.kind == TimeKind::Memory {
                self.settle(cpu, checker);
                self.retime_stream(cpu);
            }
        }
    }

    /// Sets the end of the stream of a CPU that is settled.
    fn retime_stream(&mut self, cpu: u32) {
        let rate = self.memory.rate(cpu).max(1);
        let c = &mut self.cpus[cpu as usize];
        c.pace.rate = rate;
        c.pace.by_work = rate >= c.pace.wanted(c.speed);
        // A segment that is over at this instant keeps its end: its event is still to come.
        if c.remaining > 0 {
            let left_ns =
                if c.pace.by_work { c.speed.ns(c.pace.stream.work_left) } else { c.remaining.div_ceil(rate) };
            self.queue.set_segment_end(cpu, self.now_ns + left_ns);
        }
    }
}
