// SPDX-License-Identifier: GPL-2.0-or-later
//! Ablation: a machine on which one term of the cost model costs nothing. The difference between the results with and
//! without the term is its effect.
//!
//! Most terms have their own figures, which the table of costs names (costs.rs). Without the term, these figures have
//! their values in [`Costs::free`]. Reads, writes, data and atomic updates share `line_transfer_ps`, so each of them
//! has a switch instead, and the figure stays.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::check::MAX_CAPACITY;
use crate::costs::COSTS;
use crate::{Costs, Machine, MachineError};

macro_rules! terms {
    ($($variant:ident, $name:literal, $description:literal;)+) => {
        /// A term of the cost model.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Term {
            $(#[doc = $description] $variant,)+
        }

        /// Names as users write them, and what is left out.
        const TERMS: &[(Term, &str, &str)] = &[$((Term::$variant, $name, $description),)+];
    };
}

terms! {
    Smt, "smt", "threads of a core slow each other down";
    Capacity, "capacity", "some cores are slower than others";
    Wakeups, "wakeups", "the work of a wake-up, apart from reads and placement";
    Selects, "selects", "the work of a placement decision, apart from reads";
    Reads, "reads", "transfers of cache lines when the policy reads what other CPUs wrote";
    ReadHits, "read-hits", "a line that no CPU wrote since is read at the price of a hit; without: each read is a miss";
    Writes, "writes", "transfers of cache lines when the policy writes what other CPUs read or wrote since";
    Balancing, "balancing", "the work of balancing attempts and of moving a running task, apart from reads";
    Switches, "switches", "context switches";
    CacheRefill, "cache-refill", "a task fetches its data again after it moved, others ran, or its CPU idled";
    Atomics, "atomics", "atomic updates of shared counters, locks and barriers";
    RunqueueLocks, "runqueue-locks", "CPUs wait for each other's runqueue locks";
    Ipis, "ipis", "sending, flight and handling of interrupts between CPUs";
    IdleExit, "idle-exit", "leaving idle states";
    Ticks, "ticks", "the work of the scheduler's tick";
    Interrupts, "interrupts", "the work of timers' and devices' interrupts";
    Data, "data", "a message's bytes move from its writer's caches to its reader";
    Loopback, "loopback", "protocol work of loopback sockets";
    Futexes, "futexes", "system calls around locks and barriers that sleep";
    Bandwidth, "bandwidth", "memory delivers a limited number of bytes a second";
    ForkExit, "fork-exit", "the work of fork, exec and exit";
}

impl Term {
    /// All terms, in the order in which they are listed.
    pub const ALL: [Term; TERMS.len()] = {
        let mut all = [Term::Smt; TERMS.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = TERMS[i].0;
            i += 1;
        }
        all
    };

    /// The term's name in commands and tables.
    pub fn name(self) -> &'static str {
        TERMS[self as usize].1
    }

    /// What the term charges for, in one line.
    pub fn about(self) -> &'static str {
        TERMS[self as usize].2
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Term {
    type Err = MachineError;

    fn from_str(name: &str) -> Result<Term, MachineError> {
        Term::ALL.into_iter().find(|term| term.name() == name).ok_or_else(|| MachineError::Invalid {
            what: format!("unknown term `{name}`"),
            expected: format!("one of {}", Term::ALL.map(Term::name).join(", ")),
        })
    }
}

impl Machine {
    /// Returns the machine with `term` costing nothing. Its name stays; the sources of changed figures say so.
    #[must_use]
    pub fn without(&self, term: Term) -> Machine {
        let mut machine = self.clone();
        let free = Costs::free(self.costs.smt_speed.len());
        for cost in COSTS.iter().filter(|cost| cost.term == Some(term)) {
            (cost.set)(&mut machine.costs, (cost.get)(&free));
            machine.sources.insert(cost.key.to_owned(), format!("left out: without {term}"));
            machine.forget_ranges(cost.key);
        }
        let costs = &mut machine.costs;
        match term {
            Term::Capacity => {
                machine.topology.cpus.iter_mut().for_each(|cpu| cpu.capacity = MAX_CAPACITY);
            }
            Term::Reads => costs.charge_reads = false,
            Term::ReadHits => costs.reads_may_hit = false,
            Term::Writes => costs.charge_writes = false,
            Term::Data => costs.charge_data = false,
            Term::Atomics => costs.charge_atomics = false,
            _ => {}
        }
        machine
    }
}
