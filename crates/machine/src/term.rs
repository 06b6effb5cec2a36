// SPDX-License-Identifier: GPL-2.0-or-later
//! Ablation: a machine on which one term of the cost model costs nothing. What a result loses or gains without the term
//! is what the term does to it.
//!
//! Most terms have figures of their own, which become 0 (or whatever makes them cost nothing). Reads, writes, data,
//! cache refill and atomic updates share `line_transfer_ps`, so they have switches or bounds of their own instead, and
//! the figure stays.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::check::MAX_CAPACITY;
use crate::{Bandwidth, Costs, Distance, IdleState, Machine, MachineError};

/// A term of the cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // `Term::about` says what each is.
pub enum Term {
    Smt,
    Capacity,
    Wakeups,
    Selects,
    Reads,
    ReadHits,
    Writes,
    Balancing,
    Switches,
    CacheRefill,
    Atomics,
    RunqueueLocks,
    Ipis,
    IdleExit,
    Ticks,
    Interrupts,
    Data,
    Loopback,
    Futexes,
    Bandwidth,
    ForkExit,
}

/// Names as users write them, and what is left out.
const TERMS: [(Term, &str, &str); 21] = [
    (Term::Smt, "smt", "threads of a core slow each other down"),
    (Term::Capacity, "capacity", "some cores are slower than others"),
    (Term::Wakeups, "wakeups", "the work of a wake-up, reads and placement apart"),
    (Term::Selects, "selects", "the work of a placement decision, reads apart"),
    (Term::Reads, "reads", "transfers of cache lines when the policy reads what other CPUs wrote"),
    (
        Term::ReadHits,
        "read-hits",
        "a line that nobody wrote since is read at the price of a hit; without: each read is a miss",
    ),
    (
        Term::Writes,
        "writes",
        "transfers of cache lines when the policy writes what other CPUs read or wrote since",
    ),
    (
        Term::Balancing,
        "balancing",
        "the work of balancing attempts and of moving a running task, reads apart",
    ),
    (Term::Switches, "switches", "context switches"),
    (Term::CacheRefill, "cache-refill", "a task's data are fetched anew after it moved or others ran"),
    (Term::Atomics, "atomics", "atomic updates of shared counters, locks and barriers"),
    (Term::RunqueueLocks, "runqueue-locks", "CPUs wait for each other's runqueue locks"),
    (Term::Ipis, "ipis", "sending, flight and handling of interrupts between CPUs"),
    (Term::IdleExit, "idle-exit", "leaving idle states"),
    (Term::Ticks, "ticks", "the work of the scheduler's tick"),
    (Term::Interrupts, "interrupts", "the work of timers' and devices' interrupts"),
    (Term::Data, "data", "what a message carries moves from its writer's caches to its reader"),
    (Term::Loopback, "loopback", "protocol work of loopback sockets"),
    (Term::Futexes, "futexes", "system calls round locks and barriers that sleep"),
    (Term::Bandwidth, "bandwidth", "memory delivers so much and no more"),
    (Term::ForkExit, "fork-exit", "the work of fork, exec and exit"),
];

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

    /// The word that stands for it in commands and tables.
    pub fn name(self) -> &'static str {
        TERMS[self as usize].1
    }

    /// One line: what costs nothing any more without it.
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
            expected: format!("one of {}", TERMS.map(|(_, name, _)| name).join(", ")),
        })
    }
}

impl Machine {
    /// The same machine, on which `term` costs nothing. Its name stays; the sources of figures that changed say so.
    #[must_use]
    pub fn without(&self, term: Term) -> Machine {
        let mut machine = self.clone();
        for key in machine.leave_out(term) {
            machine.sources.insert((*key).to_owned(), format!("left out: without {term}"));
        }
        machine
    }

    /// Answers the keys of the figures that it changed.
    fn leave_out(&mut self, term: Term) -> &'static [&'static str] {
        let costs: &mut Costs = &mut self.costs;
        let none = [0; Distance::COUNT];
        match term {
            Term::Smt => {
                costs.smt_speed.fill(1024);
                &["smt_speed"]
            }
            Term::Capacity => {
                self.topology.cpus.iter_mut().for_each(|cpu| cpu.capacity = MAX_CAPACITY);
                &[]
            }
            Term::Wakeups => {
                costs.wakeup_ns = 0;
                &["wakeup_ns"]
            }
            Term::Selects => {
                costs.select_ns = 0;
                &["select_ns"]
            }
            Term::Reads => {
                costs.charge_reads = false;
                &[]
            }
            Term::ReadHits => {
                costs.reads_may_hit = false;
                &[]
            }
            Term::Writes => {
                costs.charge_writes = false;
                &[]
            }
            Term::Balancing => {
                (costs.balance_ns, costs.push_ns) = (0, 0);
                &["balance_ns", "push_ns"]
            }
            Term::Switches => {
                (costs.switch_thread_ns, costs.switch_process_ns) = (0, 0);
                &["switch_thread_ns", "switch_process_ns"]
            }
            Term::CacheRefill => {
                (costs.core_cache_bytes, costs.llc_cache_bytes, costs.llc_hit_ps) = (0, 0, 0);
                &["core_cache_bytes", "llc_cache_bytes", "llc_hit_ps"]
            }
            Term::Atomics => {
                costs.charge_atomics = false;
                costs.atomic_ps = 0;
                &["atomic_ps"]
            }
            Term::RunqueueLocks => {
                costs.runqueue_lock_ns = 0;
                &["runqueue_lock_ns"]
            }
            Term::Ipis => {
                (costs.ipi_send_ns, costs.ipi_flight_ns, costs.ipi_handle_ns) = (0, none, 0);
                &["ipi_send_ns", "ipi_flight_ns", "ipi_handle_ns"]
            }
            Term::IdleExit => {
                costs.idle_states = vec![IdleState { after_ns: 0, exit_latency_ns: 0 }];
                &["idle_states"]
            }
            Term::Ticks => {
                costs.tick_ns = 0;
                &["tick_ns"]
            }
            Term::Interrupts => {
                costs.interrupt_ns = 0;
                &["interrupt_ns"]
            }
            Term::Data => {
                costs.charge_data = false;
                &[]
            }
            Term::Loopback => {
                (costs.loopback_ns, costs.loopback_ps_per_byte) = (0, 0);
                &["loopback_ns", "loopback_ps_per_byte"]
            }
            Term::Futexes => {
                costs.futex_ns = 0;
                &["futex_ns"]
            }
            Term::Bandwidth => {
                costs.bandwidth_mb_per_s = Bandwidth::default();
                costs.write_traffic_percent = 100;
                costs.remote_bandwidth_percent = [100; Distance::COUNT];
                &["bandwidth_mb_per_s", "write_traffic_percent", "remote_bandwidth_percent"]
            }
            Term::ForkExit => {
                (costs.fork_ns, costs.exec_ns, costs.exit_ns) = (0, 0, 0);
                &["fork_ns", "exec_ns", "exit_ns"]
            }
        }
    }
}
