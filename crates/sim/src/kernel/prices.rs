// SPDX-License-Identifier: GPL-2.0-or-later
//! What the policy's accesses to shared cache lines cost: transfers between CPUs, and atomic updates.
//!
//! **Reads and writes.** The policy's host follows which CPU has which line (host/lines.h). A read by a CPU that does
//! not have the line is a miss and costs the transfer from where the line belongs; any other read is a hit and costs as
//! much as a line of the reader's own. A write needs the line alone: all other CPUs that have it give it up first, at
//! the same time, and the writer waits for the farthest, a transfer from there. So a look at a CPU's line, in a search
//! or to balance, makes that CPU's next write of the line dearer, and a waker that queues a task there makes it fetch
//! the line back.
//!
//! When does the writer wait? A store waits in its CPU's store buffer, and the next atomic operation or serializing
//! instruction waits for an empty store buffer. A kernel path has one soon (the next lock, the interrupt to send, the
//! change of address space), so the wait is taken to be whole. The stores of one call are in the buffer together, so
//! the longest wait counts, once per call. It is paid with the path that the call is part of: the calls of a context
//! switch (stopping, quiescent, busy, running) are paid by the switch.
//!
//! A CPU's line stands for everything that is written in its runqueue at that time, including the word of its lock
//! (runqueue.rs has the wait for the lock's owner). To queue a task, a CPU takes that lock before it looks at anything,
//! so a miss there fetches the line for writing: only what is farther than the line's home is paid on top.
//!
//! Worked example, 44 ns inside an LLC, 118 between them: CPU 3 looks whether CPU 5 of its LLC idles: a miss, 44 ns. It
//! queues a task there: a hit, 1.3, and CPU 5 gives the line up, 44. CPU 5 turns busy: it takes the line back from CPU
//! 3, 44; whatever else the switch writes is its own by now. A CPU of the other LLC reads the line, 118. At its next
//! switch CPU 5 takes it from there: 118.
//!
//! Left out: the miss of a CPU's own line, after another CPU wrote it, is a transfer too. The CPU writes the line in
//! the same path, so one transfer is all it waits for, and the write has it.
//!
//! **Updates.** A policy may keep counters of busy CPUs or bitmaps of idle ones (its traits say so), which a CPU
//! updates when it turns busy or idle; a search may correct such a bitmap. Each has a cache line of its own, whose
//! updates cost and queue as line.rs says; the transfer is from the farthest CPU that has the line, be it a reader or
//! the last writer. A CPU that updates several lines does so one after the other. Updates are paid at the switch, at
//! the end of the tick, or with the search; the few of a pull are free.
//!
//! Worked example: `atomic_ps` 5,000, a transfer inside the LLC 40,000. CPUs 0 and 1 of one group turn busy at 1,000
//! ns: CPU 0 pays 5 ns; CPU 1 waits for that and fetches the line, 5 + 40 + 5 = 50 ns. At 2,000 ns CPU 1 turns idle: 5
//! ns. At 3,000 ns CPU 9 of another socket, 100 ns away, searches and reads the counter. CPU 1 turns busy: 100 + 5 ns.

use wakelab_machine::{Costs, Distance};
use wakelab_policy::{Policy, Reads, Seen};

use crate::hardware::line::Line;
use crate::ids::PS_PER_NS;
use crate::ledger::search::SearchCost;

/// Prices of what a call to the policy read, wrote and updated.
pub(crate) struct Prices<'a> {
    costs: &'a Costs,
    /// One line for each counter or bitmap of the policy, as [`Seen::updated`] numbers them.
    lines: Vec<Line>,
}

impl<'a> Prices<'a> {
    pub(crate) fn new(costs: &'a Costs, policy: &Policy) -> Prices<'a> {
        let levels = policy.tables().levels.iter().filter(|level| level.has_counters);
        let counters = levels.map(|level| level.counter_base as usize + level.first.len()).max().unwrap_or(0);
        let all = if policy.params().traits().keeps_blocks != 0 { Seen::END } else { counters };
        Prices { costs, lines: vec![Line::new(); all] }
    }

    /// Nanoseconds that all reads and writes cost, rounded up once.
    pub(crate) fn transfers_ns(&self, seen: &Seen) -> u64 {
        (self.reads_ps(&seen.misses, &seen.hits) + self.writes_ps(seen)).div_ceil(PS_PER_NS)
    }

    /// Nanoseconds that the writes waited, rounded up.
    pub(crate) fn writes_ns(&self, seen: &Seen) -> u64 {
        self.writes_ps(seen).div_ceil(PS_PER_NS)
    }

    fn writes_ps(&self, seen: &Seen) -> u64 {
        let (costs, taken) = (self.costs, seen.taken);
        if !costs.charge_writes || taken.from == 0 {
            return 0;
        }
        let paid_ps = if taken.had == 0 { 0 } else { costs.line_transfer_ps[taken.had as usize] };
        costs.line_transfer_ps[taken.from as usize].saturating_sub(paid_ps)
    }

    /// Picoseconds that reads cost: a miss the line's transfer from that distance, a hit as much as a line of the
    /// reader's own.
    fn reads_ps(&self, misses: &Reads, hits: &Reads) -> u64 {
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

    /// Makes the updates, on `cpu` from `now_ns` on. Returns the nanoseconds that they take.
    pub(crate) fn updates_ns(&mut self, seen: &Seen, cpu: u32, now_ns: u64) -> u64 {
        let mut ns = 0;
        for (line, from) in seen.updated() {
            let from = Distance::ALL[from as usize];
            ns += self.lines[line as usize].update_from_ns(from, cpu, now_ns + ns, self.costs);
        }
        ns
    }

    /// What a decision costs, by part.
    pub(crate) fn search_cost(&self, seen: &Seen) -> SearchCost {
        let fixed_ps = self.costs.select_ns * PS_PER_NS;
        SearchCost::new(seen, fixed_ps, self.writes_ps(seen), |misses, hits| self.reads_ps(misses, hits))
    }
}
