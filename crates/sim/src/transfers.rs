// SPDX-License-Identifier: GPL-2.0-or-later
//! What the policy's reads and writes of shared cache lines cost: their transfers between CPUs.
//!
//! The policy's host follows who has which line (host/lines.h). A read by a CPU that has not is a miss, and costs the
//! transfer from where the line belongs; another is a hit, and costs what a line of the reader's own does. A write
//! needs the line alone: whoever else has it gives it up first, all at the same time, and the writer waits for the
//! farthest, a transfer from there. Whoever looks at a CPU's line, in a search or to balance, so makes that CPU's next
//! write of it dearer, and the waker that queues a task there makes it fetch the line back.
//!
//! When is that waited for? A store waits in its CPU's store buffer, and the next atomic operation or serializing
//! instruction for an empty store buffer. A kernel path has one soon (the next lock, the interrupt to send, the change
//! of address space), so the wait is taken to be whole; stores of one call are in the buffer together, so the longest
//! counts, once a call. It is paid with what the call is part of: that of a context switch's calls (stopping,
//! quiescent, busy, running) by the switch.
//!
//! A CPU's line stands for all that is written in its runqueue then, the lock's word with it (runqueue_lock.rs has the
//! wait for who holds it). To queue a task its lock is taken before anything is looked at, so a miss there fetches the
//! line for writing: what is farther than the line's home is paid on top, and no more. Lines that are updated by atomic
//! operations are priced by counters.rs, with the same holders.
//!
//! Worked example, 44 ns inside an LLC, 118 between them: CPU 3 looks whether CPU 5 of its LLC idles: a miss, 44 ns. It
//! queues a task there: a hit, 1.3, and CPU 5 gives the line up, 44. CPU 5 turns busy: it takes the line back from CPU
//! 3, 44; what else the switch writes is its own by now. A CPU of the other LLC reads the line, 118. At its next switch
//! CPU 5 takes it from there: 118.
//!
//! Left out: that the miss of a CPU's own line (after another CPU wrote it) is a transfer, too. As it writes the line
//! in the same path, one transfer is all it waits for, and the write has it.

use wakelab_policy::Reads;

use crate::engine::Engine;
use crate::observer::Observer;

const PS_PER_NS: u64 = 1000;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// What the reads and the writes of the policy's last answer cost, in ns, rounded up once. Of [`Policy::select`],
    /// [`Policy::enqueue`], [`Policy::dispatch`], [`Policy::tick`], [`Policy::timer`] and [`Policy::idle`].
    ///
    /// [`Policy::select`]: wakelab_policy::Policy::select
    /// [`Policy::enqueue`]: wakelab_policy::Policy::enqueue
    /// [`Policy::dispatch`]: wakelab_policy::Policy::dispatch
    /// [`Policy::tick`]: wakelab_policy::Policy::tick
    /// [`Policy::timer`]: wakelab_policy::Policy::timer
    /// [`Policy::idle`]: wakelab_policy::Policy::idle
    pub(crate) fn transfers_ns(&self) -> u64 {
        let seen = self.policy.seen();
        (self.reads_ps(&seen.misses, &seen.hits) + self.taken_ps()).div_ceil(PS_PER_NS)
    }

    /// What the writes of the policy's last call cost, in ns, rounded up; for calls that answer nothing, and moves.
    pub(crate) fn taken_ns(&self) -> u64 {
        self.taken_ps().div_ceil(PS_PER_NS)
    }

    /// The next switch on `cpu` is longer by that: the kernel does both with the run queue's lock held.
    pub(crate) fn switch_waits_for_writes(&mut self, cpu: u32) {
        self.cpus[cpu as usize].extra_switch_ns += self.taken_ns();
    }

    /// What [`Self::taken_ns`] is, in ps.
    pub(crate) fn taken_ps(&self) -> u64 {
        let (costs, taken) = (self.costs, self.policy.seen().taken);
        if !costs.charge_writes || taken.from == 0 {
            return 0;
        }
        let paid_ps = if taken.had == 0 { 0 } else { costs.line_transfer_ps[taken.had as usize] };
        costs.line_transfer_ps[taken.from as usize].saturating_sub(paid_ps)
    }

    /// What reads cost, in ps: a miss the line's transfer from that distance, a hit that of a line of the reader's own.
    pub(crate) fn reads_ps(&self, misses: &Reads, hits: &Reads) -> u64 {
        let costs = self.costs;
        if !costs.charge_reads {
            return 0;
        }
        let mut ps = 0;
        for ((&misses, &hits), &transfer_ps) in misses.at.iter().zip(&hits.at).zip(&costs.line_transfer_ps) {
            let hit_ps = if costs.reads_may_hit { costs.line_transfer_ps[0] } else { transfer_ps };
            ps += u64::from(misses) * transfer_ps + u64::from(hits) * hit_ps;
        }
        ps
    }
}
