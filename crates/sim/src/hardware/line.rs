// SPDX-License-Identifier: GPL-2.0-or-later
//! A cache line that CPUs update in turn: a lock's word, a barrier's counter, a counter of the policy.
//!
//! An atomic update takes `atomic_ps`, after the line's transfer from the CPU that updated it last, if that was another
//! CPU. Simultaneous updates queue: the line is busy until the update before has ended (first come, first served, in
//! the order of events). The price is that of a CPU at full speed; the slowdown by an SMT sibling is added.
//!
//! Worked example: `atomic_ps` is 5,000, a transfer inside the LLC 100,000. CPU 0 updates a fresh line at 0: 5 ns. CPUs
//! 1 and 2 do so at 10 ns: CPU 1 takes 105 ns, until 115; CPU 2 waits for that and then takes 105 ns, 210 in all. CPU 2
//! does so again at 300 ns: 5 ns.
//!
//! Left out: plain reads of locks and barriers. A CPU that spins on a line shares it, and makes the next update more
//! expensive than this. (The readers of lines that the policy updates are known: kernel/prices.rs.)

use wakelab_machine::{Costs, Distance, Distances};

use crate::ids::NONE;

/// A line: the CPU that updated it last, and when that update ends.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    writer: u32,
    free_at_ps: u64,
}

impl Line {
    /// A line that no CPU has updated yet.
    pub(crate) fn new() -> Line {
        Line { writer: NONE, free_at_ps: 0 }
    }

    /// `cpu` updates it at `now_ns`. Returns the nanoseconds until the update ends, rounded up.
    pub(crate) fn update_ns(&mut self, cpu: u32, now_ns: u64, costs: &Costs, distances: &Distances) -> u64 {
        let from = match self.writer {
            NONE => Distance::Cpu,
            writer => distances.between(writer, cpu),
        };
        self.update_from_ns(from, cpu, now_ns, costs)
    }

    /// The same, with the line fetched over this distance; [`Distance::Cpu`]: the CPU has it.
    pub(crate) fn update_from_ns(&mut self, from: Distance, cpu: u32, now_ns: u64, costs: &Costs) -> u64 {
        if !costs.charge_atomics {
            return 0;
        }
        let transfer_ps = if from == Distance::Cpu { 0 } else { costs.line_transfer_ps[from.index()] };
        let now_ps = now_ns * 1000;
        self.writer = cpu;
        self.free_at_ps = self.free_at_ps.max(now_ps) + transfer_ps + costs.atomic_ps;
        (self.free_at_ps - now_ps).div_ceil(1000)
    }

    /// Nanoseconds until `cpu` sees what was written last, rounded up.
    pub(crate) fn read_ns(&self, cpu: u32, costs: &Costs, distances: &Distances) -> u64 {
        match self.writer {
            NONE => 0,
            _ if !costs.charge_atomics => 0,
            writer => costs.line_transfer_ps[distances.between(writer, cpu).index()].div_ceil(1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use wakelab_machine::{Cpu, Topology};

    use super::*;

    /// The worked example above.
    #[test]
    fn updates_queue() {
        let cpu = |core| Cpu { core, cluster: None, llc: 0, node: 0, capacity: 1024 };
        let topology = Topology { cpus: (0..3).map(cpu).collect(), node_distance: vec![vec![10]] };
        let distances = topology.distances();
        let mut costs = Costs::free(1);
        costs.atomic_ps = 5_000;
        costs.line_transfer_ps[Distance::Llc.index()] = 100_000;
        let mut line = Line::new();
        assert_eq!(line.update_ns(0, 0, &costs, &distances), 5);
        assert_eq!(line.update_ns(1, 10, &costs, &distances), 105);
        assert_eq!(line.update_ns(2, 10, &costs, &distances), 210);
        assert_eq!(line.update_ns(2, 300, &costs, &distances), 5);
        assert_eq!(line.read_ns(0, &costs, &distances), 100);
    }
}
