// SPDX-License-Identifier: GPL-2.0-or-later
//! A CPU executes *segments*, one at a time. Each is of one kind and has an effect at its end.
//!
//! Work is kept in 1/1024 ns, so that the speed of an SMT thread is exact integer arithmetic: on a CPU of speed s (1024
//! is the machine's fastest core with no busy sibling) a segment with r units left ends after ceil(r / s) ns. The speed
//! is the capacity times the core's SMT speed for its number of executing threads. When a sibling starts or stops
//! executing, the segments of the other threads are settled at the old speed and re-timed at the new one. A segment
//! that streams through memory also has a rate (stream.rs).
//!
//! Only a task's own segments (work, cache refill, fork, exit) can be interrupted. An interrupt that arrives during any
//! other segment waits until the kernel path is done, as with interrupts disabled.
//!
//! The last part of a segment, its *tail*, may be of another kind: a wake-up and the wait for a lock in it, a switch
//! and the counters that it updates. Then one event ends both.
//!
//! Worked example: a thread alone on its core has 1,000 ns of work; after 400 ns its sibling starts, and the speed of
//! two threads is 600. 1,024,000 - 400 x 1024 = 614,400 units are left and take 1,024 ns more, until 1,424 ns. Of these
//! 1,424 ns of CPU time 1,000 are work and 424 slowdown.

use wakelab_machine::{EXIT_DRAWS, IdleState};

use crate::hardware::Hardware;
use crate::hardware::cpu::Doing;
use crate::hardware::speed::Speed;
use crate::ids::UNITS;
use crate::ledger::checker::Checker;
use crate::time_use::TimeKind;

impl Hardware<'_> {
    /// Accounts the CPU's time up to now.
    pub(crate) fn settle(&mut self, cpu: u32, checker: &mut Checker) {
        let c = &mut self.cpus[cpu as usize];
        let elapsed_ns = self.now_ns - c.since_ns;
        if elapsed_ns == 0 {
            return;
        }
        if c.kind == TimeKind::Memory {
            let (work, waiting) = c.settle_stream(elapsed_ns);
            self.done[TimeKind::Work as usize] += u128::from(work);
            self.done[TimeKind::Memory as usize] += u128::from(waiting);
        } else {
            let full = elapsed_ns * c.speed.units();
            let mut done = if c.doing == Doing::Idle {
                full
            } else {
                let done = full.min(c.remaining);
                c.remaining -= done;
                done
            };
            if c.tail > c.remaining {
                // The head is done, and this much of the tail.
                let tail = c.tail - c.remaining;
                self.done[c.tail_kind as usize] += u128::from(tail);
                c.tail -= tail;
                done -= tail;
            }
            self.done[c.kind as usize] += u128::from(done);
        }
        checker.account(cpu, c.since_ns, self.now_ns);
        c.since_ns = self.now_ns;
    }

    /// Accounts the CPU's time up to now, which is the end of its segment: as [`Hardware::settle`], which need not be
    /// told that. Returns what the CPU did.
    #[inline(always)]
    pub(crate) fn settle_at_end(&mut self, cpu: u32, checker: &mut Checker) -> Doing {
        let c = &mut self.cpus[cpu as usize];
        let doing = c.doing;
        if c.kind == TimeKind::Memory {
            self.settle(cpu, checker);
            return doing;
        }
        debug_assert!((self.now_ns - c.since_ns) * c.speed.units() >= c.remaining);
        let (units, tail) = (std::mem::take(&mut c.remaining), std::mem::take(&mut c.tail));
        let since_ns = std::mem::replace(&mut c.since_ns, self.now_ns);
        self.done[c.kind as usize] += u128::from(units - tail);
        if tail > 0 {
            self.done[c.tail_kind as usize] += u128::from(tail);
        }
        checker.account(cpu, since_ns, self.now_ns);
        doing
    }

    /// Starts to idle.
    pub(crate) fn start_idle(&mut self, cpu: u32, checker: &mut Checker) {
        self.queue.cancel_segment_end(cpu);
        self.set_executing(cpu, false, checker);
        if self.cpus[cpu as usize].streams {
            self.arm_stream(cpu, checker);
        }
        let c = &mut self.cpus[cpu as usize];
        c.speed = Speed::FULL;
        c.since_ns = self.now_ns;
        checker.set_idle(cpu, true);
    }

    /// Starts the segment that was set, and sets its end. Inlined: with the queue, this is a fifth of a run.
    #[inline(always)]
    pub(crate) fn arm(&mut self, cpu: u32, checker: &mut Checker) {
        let c = &mut self.cpus[cpu as usize];
        // Otherwise the speed is already right: a sibling that starts or stops updates it.
        if c.executing == (c.doing == Doing::IdleExit) || c.kind == TimeKind::Memory || c.streams {
            return self.arm_other(cpu, checker);
        }
        c.since_ns = self.now_ns;
        let end_ns = self.now_ns + c.speed.ns(c.remaining);
        self.queue.set_segment_end(cpu, end_ns);
    }

    /// The same if the CPU starts or stops to execute or to stream.
    #[inline(never)]
    fn arm_other(&mut self, cpu: u32, checker: &mut Checker) {
        let executes = self.cpus[cpu as usize].doing != Doing::IdleExit;
        self.set_executing(cpu, executes, checker);
        let speed = if executes { self.speed(cpu) } else { Speed::FULL };
        let c = &mut self.cpus[cpu as usize];
        c.speed = speed;
        c.since_ns = self.now_ns;
        let (is_stream, remaining) = (c.kind == TimeKind::Memory, c.remaining);
        if is_stream || c.streams {
            self.arm_stream(cpu, checker);
        }
        if !is_stream {
            self.queue.set_segment_end(cpu, self.now_ns + speed.ns(remaining));
        }
    }

    /// Starts or stops a thread of a core, which changes the speed of the core's other executing threads.
    #[inline(never)]
    fn set_executing(&mut self, cpu: u32, executing: bool, checker: &mut Checker) {
        let c = &mut self.cpus[cpu as usize];
        if c.executing == executing {
            return;
        }
        c.executing = executing;
        let core = c.core as usize;
        if executing {
            self.cores[core].executing += 1;
        } else {
            self.cores[core].executing -= 1;
            self.cores[core].idle_since_ns = self.now_ns;
        }
        for at in 0..self.cores[core].cpus.len() {
            let sibling = self.cores[core].cpus[at];
            if sibling == cpu || !self.cpus[sibling as usize].executing {
                continue;
            }
            self.settle(sibling, checker);
            let speed = self.speed(sibling);
            let s = &mut self.cpus[sibling as usize];
            s.speed = speed;
            if s.kind == TimeKind::Memory {
                self.share_stream(sibling, checker);
                continue;
            }
            // A segment that is over at this instant keeps its end: its event is still to come.
            if s.remaining > 0 {
                self.queue.set_segment_end(sibling, self.now_ns + speed.ns(s.remaining));
            }
        }
    }

    /// The speed of an executing CPU.
    pub(crate) fn speed(&self, cpu: u32) -> Speed {
        let c = &self.cpus[cpu as usize];
        let threads = self.cores[c.core as usize].executing.max(1) as usize;
        Speed::new((c.capacity * self.costs.smt_speed[threads - 1] / UNITS as u32).max(1))
    }

    /// Returns how long the CPU takes to leave this idle state.
    pub(crate) fn exit_ns(&mut self, cpu: u32, state: &IdleState) -> u64 {
        match self.exits.get_mut(cpu as usize) {
            Some(exits) => state.exit_ns(exits.from(0, EXIT_DRAWS.into()) as u32),
            None => state.exit_latency_ns,
        }
    }

    /// The idle state in which the CPU is.
    pub(crate) fn idle_state(&self, cpu: u32) -> IdleState {
        self.costs.idle_state(self.cores[self.cpus[cpu as usize].core as usize].idle_ns(self.now_ns))
    }
}
