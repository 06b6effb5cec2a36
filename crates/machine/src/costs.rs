// SPDX-License-Identifier: GPL-2.0-or-later
//! What things cost on a machine. Every figure comes from a machine file and carries its source there.
//!
//! Integer units throughout: nanoseconds (`_ns`), or picoseconds (`_ps`) where a nanosecond is too coarse. Arrays
//! by distance are indexed by [`Distance::index`](crate::Distance::index).

use serde::{Deserialize, Serialize};

use crate::Distance;

/// A state of the CPU's idle governor: entered after so much idling, left with so much latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// The CPU is in this state once it has idled for this long.
    pub after_ns: u64,
    /// Time from the interrupt until the CPU executes instructions again.
    pub exit_latency_ns: u64,
}

/// The figures, without their sources (see [`crate::Machine::sources`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// Speed of each thread of a core, in 1/1024 of a thread alone, by number of busy threads: index 0 is one busy
    /// thread and is 1024.
    pub smt_speed: Vec<u32>,
    /// One-way transfer of a cache line written by a CPU at that distance: what reading its state costs.
    pub line_transfer_ps: [u64; Distance::COUNT],
    /// Work of one wake-up that does not depend on the policy: try_to_wake_up, locking, enqueueing.
    pub wakeup_ns: u64,
    /// Work of one placement decision that does not depend on what it reads.
    pub select_ns: u64,
    /// Work of one balancing attempt that does not depend on what it reads.
    pub balance_ns: u64,
    /// A context switch between threads of one process, or from and to idle.
    pub switch_thread_ns: u64,
    /// A context switch that changes the address space.
    pub switch_process_ns: u64,
    /// Sending an interrupt to another CPU: work on the sender.
    pub ipi_send_ns: u64,
    /// From sending to arrival, by distance.
    pub ipi_flight_ns: [u64; Distance::COUNT],
    /// Handling it: work on the receiver.
    pub ipi_handle_ns: u64,
    /// Idle states, shallowest first; the first has `after_ns` 0.
    pub idle_states: Vec<IdleState>,
    /// Extra work of a task that was switched in on another CPU than before, to refill caches, by how far it moved.
    pub cache_refill_ns: [u64; Distance::COUNT],
    /// Period of the scheduler's tick on a busy CPU (1/HZ).
    pub tick_period_ns: u64,
    /// Work of one tick.
    pub tick_ns: u64,
    /// Work of a timer's or device's interrupt, without the wake-up that it makes.
    pub interrupt_ns: u64,
    /// Work of fork in the parent, without the placement of the child.
    pub fork_ns: u64,
    /// Work of exit in the task that ends.
    pub exit_ns: u64,
}
