// SPDX-License-Identifier: GPL-2.0-or-later
//! Segments that stream through memory: as long as their work, or as the memory needs for their bytes if that is
//! longer.
//!
//! Work and bytes go along evenly. A stream that is granted what it demands goes at the pace of its work; else at that
//! of the bytes, and what the CPU does not work meanwhile is *memory* time. What is left is kept in both: the work in
//! 1/1024 ns and the traffic in 1/64 of a thousandth of a byte, so that a rate of 1/64 MB/s (memory.rs) is one unit a
//! nanosecond and either pace is exact. All of the work is accounted in the end, whatever the order of paces.
//!
//! Whenever a stream starts or stops, or the speed of its thread changes, those whose rates change are settled at the
//! old rate and re-timed at the new one. A task that is interrupted or preempted streams no more until it goes on.
//!
//! Worked example: 100,000 ns of work and 15,000 bytes demand 150 MB/s. Granted 120 they take 15,000 / 120 = 125 us:
//! 100,000 ns of work and 25,000 of memory time.

use wakelab_workload::{Home, Op};

use crate::cpu::{Doing, Kind, NONE, UNITS};
use crate::engine::Engine;
use crate::memory::MB_PER_S;
use crate::observer::Observer;
use crate::ops::Progress;
use crate::task::Stage;

/// A byte, in units of traffic.
const BYTE: u64 = 1000 * MB_PER_S;

/// What the stream that a CPU executes is made of.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pace {
    /// All of its work, in 1/1024 ns.
    work: u64,
    /// All of its traffic.
    traffic: u64,
    /// In units of traffic a nanosecond.
    rate: u64,
    /// The rate is no less than what the work asks for.
    by_work: bool,
}

impl Pace {
    fn traffic_of(self, work: u64) -> u64 {
        let traffic = u128::from(work) * u128::from(self.traffic);
        traffic.div_ceil(u128::from(self.work.max(1))) as u64
    }

    fn work_of(self, traffic: u64) -> u64 {
        (u128::from(traffic) * u128::from(self.work) / u128::from(self.traffic.max(1))) as u64
    }

    /// The traffic a nanosecond that goes along with the work at this speed.
    fn wanted(self, speed: u32) -> u64 {
        match self.work {
            0 => u64::MAX,
            work => {
                let wanted = (u128::from(self.traffic) * u128::from(speed)).div_ceil(u128::from(work));
                u64::try_from(wanted).unwrap_or(u64::MAX)
            }
        }
    }
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// Begins to stream.
    pub(crate) fn begin_stream(&mut self, cpu: u32, task: u32, op: Op) -> Progress {
        let Op::Memory { work_ns, home, .. } = op else { return Progress::Continue };
        self.tasks[task as usize].stage = Stage::Middle;
        let traffic = self.traffic(op);
        if traffic == 0 || !self.memory.is_limited() {
            return self.segment(cpu, task, Kind::Work, work_ns);
        }
        let node = self.memory.node_of(cpu);
        let t = &mut self.tasks[task as usize];
        if home == Home::FirstTouch && t.home == NONE {
            t.home = node;
        }
        t.kind = Kind::Memory;
        t.work_left = work_ns * UNITS;
        t.remaining = traffic;
        self.cpus[cpu as usize].set(Doing::Task, Kind::Memory, traffic);
        Progress::Set
    }

    fn traffic(&self, op: Op) -> u64 {
        let Op::Memory { read_bytes, write_bytes, .. } = op else { return 0 };
        let percent = self.costs.write_traffic_percent;
        (read_bytes + (write_bytes * percent).div_ceil(100)) * BYTE
    }

    /// The CPU's segment was set: if it is a stream it takes its share; if the one before was, that share is free.
    pub(crate) fn arm_stream(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        c.streams = c.kind == Kind::Memory;
        if !c.streams {
            let changed = self.memory.stop(cpu);
            self.retime_streams(&changed);
            return;
        }
        let task = c.curr as usize;
        let op = self.workload.tasks[task].program[self.tasks[task].pc as usize];
        let Op::Memory { work_ns, .. } = op else { return };
        self.cpus[cpu as usize].pace =
            Pace { work: work_ns * UNITS, traffic: self.traffic(op), ..Pace::default() };
        self.share_stream(cpu, op);
    }

    /// The speed of a thread that streams changed; it is settled.
    pub(crate) fn stream_speed_changed(&mut self, cpu: u32) {
        let task = self.cpus[cpu as usize].curr as usize;
        let op = self.workload.tasks[task].program[self.tasks[task].pc as usize];
        self.share_stream(cpu, op);
    }

    fn share_stream(&mut self, cpu: u32, op: Op) {
        let Op::Memory { home, llc_percent, .. } = op else { return };
        let c = &self.cpus[cpu as usize];
        let home = match home {
            Home::FirstTouch => self.tasks[c.curr as usize].home,
            Home::Node(node) => node,
        };
        let changed = self.memory.stream(cpu, home, c.pace.wanted(c.speed), llc_percent);
        self.retime_streams(&changed);
        self.retime_stream(cpu);
    }

    fn retime_streams(&mut self, cpus: &[u32]) {
        for &cpu in cpus {
            let c = &self.cpus[cpu as usize];
            if c.doing == Doing::Task && c.kind == Kind::Memory {
                self.settle(cpu);
                self.retime_stream(cpu);
            }
        }
    }

    /// Of a CPU that is settled.
    fn retime_stream(&mut self, cpu: u32) {
        let rate = self.memory.rate(cpu).max(1);
        let c = &mut self.cpus[cpu as usize];
        c.pace.rate = rate;
        c.pace.by_work = rate >= c.pace.wanted(c.speed);
        // A segment that is just over, its event still to come, keeps its end.
        if c.remaining > 0 {
            let left_ns = if c.pace.by_work {
                self.tasks[c.curr as usize].work_left.div_ceil(u64::from(c.speed))
            } else {
                c.remaining.div_ceil(rate)
            };
            self.queue.set_segment_end(cpu, self.now_ns + left_ns);
        }
    }

    /// Accounts a stream's time up to now.
    pub(crate) fn settle_stream(&mut self, cpu: u32, elapsed_ns: u64) {
        let c = &mut self.cpus[cpu as usize];
        let work_left = &mut self.tasks[c.curr as usize].work_left;
        let full = elapsed_ns * u64::from(c.speed);
        let left = if c.pace.by_work {
            let left = work_left.saturating_sub(full);
            c.remaining = c.pace.traffic_of(left).min(c.remaining);
            left
        } else {
            c.remaining = c.remaining.saturating_sub(c.pace.rate.saturating_mul(elapsed_ns));
            c.pace.work_of(c.remaining).min(*work_left)
        };
        let done = std::mem::replace(work_left, left) - left;
        c.done[Kind::Work as usize] += done;
        if !c.pace.by_work {
            c.done[Kind::Memory as usize] += full.saturating_sub(done);
        }
    }
}
