// SPDX-License-Identifier: GPL-2.0-or-later
//! The costs of the policy's accesses to shared cache lines: transfers between CPUs, and atomic updates.
//!
//! **Reads and writes.** The policy's host follows which CPU holds which line (host/lines.h). A read by a CPU that
//! does not hold the line is a miss, and costs the transfer from where the line belongs; any other read is a hit, and
//! costs as much as a line of the reader's own. A look at a CPU reads as many lines as the kernel compares
//! (traits.h), one after the other. A CPU that speculates fetches them ahead, which would be cheaper; measured
//! searches are dearer (545 ns a CPU on a busy Sapphire Rapids, ten lines' worth). The host adds this up as it
//! counts. A writer must be the only holder: all other CPUs that hold the line give it up first, at the same time,
//! and the writer waits for the farthest, a transfer from there. So when a search or balancing reads a CPU's line,
//! that CPU's next write of the line becomes more expensive; and when a waker queues a task there, the CPU must fetch
//! the line back.
//!
//! When does the writer wait? A store waits in its CPU's store buffer, and the next atomic operation or serializing
//! instruction waits for an empty store buffer. A kernel path soon has one (the next lock, the interrupt to send, the
//! change of address space), so the model takes the whole wait. The stores of one call are in the buffer together, so
//! the longest wait counts, once per call. The path that contains the call pays for it: a context switch pays for the
//! calls stopping, quiescent, busy and running.
//!
//! A CPU's line stands for everything that is written in its runqueue at that time, including the word of its lock
//! (runqueue.rs has the wait for the lock's owner). A CPU that queues a task takes that lock before it reads anything,
//! so a miss fetches the line for writing: only a distance beyond the line's home costs more.
//!
//! Worked example: a transfer costs 44 ns inside an LLC and 118 between LLCs. CPU 3 reads whether CPU 5 of its LLC is
//! idle: a miss, 44 ns. It queues a task there: a hit, 1.3 ns, and CPU 5 gives the line up, 44. CPU 5 turns busy, and
//! takes the line back from CPU 3: 44; by then it is the only holder for the rest of the switch. A CPU of the other LLC
//! reads the line: 118. At its next switch CPU 5 takes it from there: 118.
//!
//! Left out: if another CPU has written a CPU's line, the CPU's own read of it is a transfer too. But the CPU writes
//! the line in the same path, so it waits for only one transfer, and the write pays for it.
//!
//! **Updates.** A policy may keep counters of busy CPUs or bitmaps of idle CPUs (its traits say so). A CPU updates them
//! when it turns busy or idle, and a search may correct such a bitmap. Each of them has its own cache line, whose
//! updates cost and queue as line.rs describes; the transfer is from the farthest CPU that holds the line, be it a
//! reader or the last writer. A CPU that updates several lines does so one after the other. Updates are paid for at the
//! switch, at the end of the tick, or with the search; the few updates of a pull are free.
//!
//! Worked example: `atomic_ps` 5,000, a transfer inside the LLC 40,000. CPUs 0 and 1 of one group turn busy at 1,000
//! ns: CPU 0 pays 5 ns; CPU 1 waits for that and fetches the line, 5 + 40 + 5 = 50 ns. At 2,000 ns CPU 1 turns idle: 5
//! ns. At 3,000 ns CPU 9 of another socket, 100 ns away, searches and reads the counter. CPU 1 turns busy: 100 + 5 ns.

use wakelab_machine::{Costs, Distance};
use wakelab_policy::{Policy, Seen};

use crate::hardware::line::Line;
use crate::ids::PS_PER_NS;
use crate::ledger::search::SearchCost;

/// The prices of what a call to the policy read, wrote and updated.
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

    /// The cost of a read in picoseconds, by distance, of a hit and of a miss: for a miss the line's transfer from that
    /// distance, for a hit as much as a line of the reader's own.
    pub(crate) fn of_reads(costs: &Costs) -> ([u64; Distance::COUNT], [u64; Distance::COUNT]) {
        let miss_ps = if costs.charge_reads { costs.line_transfer_ps } else { [0; Distance::COUNT] };
        let hit_ps = if costs.reads_may_hit { [miss_ps[0]; Distance::COUNT] } else { miss_ps };
        (hit_ps, miss_ps)
    }

    /// Nanoseconds that all reads and writes cost, rounded up once.
    pub(crate) fn transfers_ns(&self, seen: &Seen) -> u64 {
        (seen.ps + self.writes_ps(seen)).div_ceil(PS_PER_NS)
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

    /// Makes the updates, on `cpu` from `now_ns` on. Returns the nanoseconds that they take.
    pub(crate) fn updates_ns(&mut self, seen: &Seen, cpu: u32, now_ns: u64) -> u64 {
        let mut ns = 0;
        for (line, from) in seen.updated() {
            let from = Distance::ALL[from as usize];
            ns += self.lines[line as usize].update_from_ns(from, cpu, now_ns + ns, self.costs);
        }
        ns
    }

    /// The cost of a decision, by part.
    pub(crate) fn search_cost(&self, seen: &Seen) -> SearchCost {
        let fixed_ps = self.costs.select_ns * PS_PER_NS;
        SearchCost::new(seen, fixed_ps, self.writes_ps(seen))
    }
}
