// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters and words that CPUs share: what their atomic updates cost.
//!
//! A policy may keep counters of busy CPUs or words of idle ones (its traits), which a CPU updates when it turns busy
//! or idle; a search may correct such a word. Each has a cache line of its own, whose updates cost and queue
//! as line.rs says; the transfer is that from the farthest CPU that has the line, of those that read it since as of the
//! one that updated it last (transfers.rs). A CPU that updates several does so one after the other. They are paid at
//! the switch, at the end of the tick, or with the search; the few of a pull are free.
//!
//! Worked example: `atomic_ps` 5,000, a transfer inside the LLC 40,000. CPUs 0 and 1 of one group turn busy at 1,000
//! ns: CPU 0 pays 5 ns; CPU 1 waits for that and fetches the line, 5 + 40 + 5 = 50 ns. At 2,000 ns CPU 1 turns idle: 5
//! ns. At 3,000 ns CPU 9 of another socket, 100 ns away, searches and reads the counter. CPU 1 turns busy: 100 + 5 ns.

use wakelab_machine::Distance;
use wakelab_policy::{Policy, Seen};

use crate::engine::Engine;
use crate::line::Line;
use crate::observer::Observer;

/// One line for each counter or word of the policy, as [`Seen::updated`] numbers them.
pub(crate) fn lines(policy: &Policy) -> Vec<Line> {
    let levels = policy.tables().levels.iter().filter(|level| level.has_counters);
    let counters = levels.map(|level| level.counter_base as usize + level.first.len()).max().unwrap_or(0);
    let all = if policy.params().traits().keeps_blocks != 0 { Seen::END } else { counters };
    vec![Line::new(); all]
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// What the lines cost that the policy updated in its last answer, on `cpu`, in ns.
    pub(crate) fn updates_ns(&mut self, cpu: u32) -> u64 {
        let mut ns = 0;
        for (counter, from) in self.policy.seen().updated() {
            let from = Distance::ALL[from as usize];
            ns += self.counters[counter as usize].update_from_ns(from, cpu, self.now_ns + ns, self.costs);
        }
        ns
    }
}
