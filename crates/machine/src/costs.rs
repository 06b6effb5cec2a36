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
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// Lines that a core can have on their way at once: transfers of many lines overlap, so that n lines from a
    /// distance take `line_transfer_ps` x n / this.
    pub lines_in_flight: u64,
    /// What a core's own caches (L1 and L2) hold.
    pub core_cache_bytes: u64,
    /// What a last-level cache holds.
    pub llc_cache_bytes: u64,
    /// Reading a line out of the core's own last-level cache, of which no other core has a copy: what the core's own
    /// caches lost. A line that another core holds costs `line_transfer_ps`.
    pub llc_hit_ps: u64,
    /// An atomic update of a line that this CPU wrote last; the line's transfer comes on top if another CPU did.
    pub atomic_ps: u64,
    /// How long a CPU's runqueue stays locked by one who queues a task there, takes one, or moves one away.
    pub runqueue_lock_ns: u64,
    /// Protocol work of one message through a loopback socket, done in the sender's context.
    pub loopback_ns: u64,
    /// And for each byte of it.
    pub loopback_ps_per_byte: u64,
    /// The system call round a lock or a barrier that has to sleep or to wake somebody, without the wake-up.
    pub futex_ns: u64,
    /// Work of exec, without the placement.
    pub exec_ns: u64,
    /// Active balancing: work on the CPU whose running task is taken away.
    pub push_ns: u64,
    /// What memory delivers, reads and writes together.
    pub bandwidth_mb_per_s: Bandwidth,
    /// What a byte written counts for, in percent of a byte read: more than 100 where a line is fetched before it is
    /// written.
    pub write_traffic_percent: u64,
    /// The most that a CPU gets from another node's memory, in percent of `core`, by distance; 100 inside a node.
    pub remote_bandwidth_percent: [u64; Distance::COUNT],
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
    /// Reading another CPU's state is a hit, at the price of distance `cpu`, if nobody wrote it since this CPU last
    /// read it. Always so, but for [`crate::Machine::without`]: without it every read is a miss.
    #[serde(default = "yes")]
    pub reads_may_hit: bool,
    /// Reading another CPU's state costs `line_transfer_ps`. A switch, as those below and `reads_may_hit` are: for
    /// [`crate::Machine::without`], where terms share a figure.
    #[serde(default = "yes")]
    pub charge_reads: bool,
    /// Writing what other CPUs have read or written since costs `line_transfer_ps` from the farthest of them.
    #[serde(default = "yes")]
    pub charge_writes: bool,
    /// What a message carries costs [`Costs::transfer_ns`].
    #[serde(default = "yes")]
    pub charge_data: bool,
    /// Atomic updates cost `atomic_ps` and the transfer of the line.
    #[serde(default = "yes")]
    pub charge_atomics: bool,
}

fn yes() -> bool {
    true
}

/// Speed of a thread alone on its core, in the unit of [`Costs::smt_speed`].
pub(crate) const FULL_SPEED: u32 = 1024;

/// The figures that are one number, by their keys.
macro_rules! scalars {
    ($($key:ident),* $(,)?) => {
        impl Costs {
            pub(crate) fn scalars(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($key), self.$key)),*]
            }

            pub(crate) fn scalar_mut(&mut self, key: &str) -> Option<&mut u64> {
                match key {
                    $(stringify!($key) => Some(&mut self.$key),)*
                    _ => None,
                }
            }
        }
    };
}

scalars! {
    wakeup_ns, select_ns, balance_ns, switch_thread_ns, switch_process_ns, ipi_send_ns, ipi_handle_ns, line_bytes,
    lines_in_flight, core_cache_bytes, llc_cache_bytes, llc_hit_ps, atomic_ps, runqueue_lock_ns, loopback_ns,
    loopback_ps_per_byte, futex_ns, exec_ns, push_ns, write_traffic_percent, tick_period_ns, tick_ns, interrupt_ns, fork_ns, exit_ns,
}

/// Limits of memory traffic, each in MB/s (10^6 bytes), which is bytes a microsecond; 0: no limit of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bandwidth {
    /// Of one core, alone on the machine.
    pub core: u64,
    /// Of a cluster's cores together.
    pub cluster: u64,
    /// Of all cores behind a last-level cache together.
    pub llc: u64,
    /// Of a node's memory.
    pub node: u64,
    /// Of all nodes together.
    pub machine: u64,
}

impl Bandwidth {
    /// The limits with their keys, from the inside out.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        let Bandwidth { core, cluster, llc, node, machine } = *self;
        [("core", core), ("cluster", cluster), ("llc", llc), ("node", node), ("machine", machine)]
    }

    pub(crate) fn named_mut(&mut self) -> [(&'static str, &mut u64); 5] {
        let Bandwidth { core, cluster, llc, node, machine } = self;
        [("core", core), ("cluster", cluster), ("llc", llc), ("node", node), ("machine", machine)]
    }
}

impl Costs {
    /// Nothing costs anything, caches are empty, memory knows no limit, `threads` threads of a core do not slow each
    /// other down; the tick is 1 ms.
    pub fn free(threads: usize) -> Costs {
        let none = [0; Distance::COUNT];
        Costs {
            smt_speed: vec![1024; threads],
            line_transfer_ps: none,
            wakeup_ns: 0,
            select_ns: 0,
            balance_ns: 0,
            switch_thread_ns: 0,
            switch_process_ns: 0,
            ipi_send_ns: 0,
            ipi_flight_ns: none,
            ipi_handle_ns: 0,
            idle_states: vec![IdleState { after_ns: 0, exit_latency_ns: 0 }],
            line_bytes: 64,
            lines_in_flight: 1,
            core_cache_bytes: 0,
            llc_cache_bytes: 0,
            llc_hit_ps: 0,
            atomic_ps: 0,
            runqueue_lock_ns: 0,
            loopback_ns: 0,
            loopback_ps_per_byte: 0,
            futex_ns: 0,
            exec_ns: 0,
            push_ns: 0,
            bandwidth_mb_per_s: Bandwidth::default(),
            write_traffic_percent: 100,
            remote_bandwidth_percent: [100; Distance::COUNT],
            tick_period_ns: 1_000_000,
            tick_ns: 0,
            interrupt_ns: 0,
            fork_ns: 0,
            exit_ns: 0,
            reads_may_hit: true,
            charge_reads: true,
            charge_writes: true,
            charge_data: true,
            charge_atomics: true,
        }
    }

    /// How long `bytes` take from the caches of a CPU at that distance, in ns: whole lines, overlapping, rounded up.
    pub fn transfer_ns(&self, bytes: u64, distance: Distance) -> u64 {
        self.fetch_ns(bytes, self.line_transfer_ps[distance.index()])
    }

    /// How long `bytes` take that the core's own caches lost to others who ran there, from its last-level cache; as
    /// [`Costs::transfer_ns`].
    pub fn refetch_ns(&self, bytes: u64) -> u64 {
        self.fetch_ns(bytes, self.llc_hit_ps)
    }

    fn fetch_ns(&self, bytes: u64, line_ps: u64) -> u64 {
        let lines = bytes.div_ceil(self.line_bytes.max(1));
        (lines * line_ps).div_ceil(1000 * self.lines_in_flight.max(1))
    }
}
