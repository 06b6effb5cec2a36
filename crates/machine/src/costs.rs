// SPDX-License-Identifier: GPL-2.0-or-later
//! What things cost on a machine: the one table of all figures. Every figure comes from a machine file, with its
//! source.
//!
//! A new cost is a row of [`COSTS`] and a line in each file of `machines/`. Reading and writing machine files, the rows
//! of `wakelab machines NAME`, ablation, sensitivity and JSON all follow the table.
//!
//! Integer units throughout: nanoseconds (`_ns`), or picoseconds (`_ps`) where a nanosecond is too coarse. Arrays
//! by distance are indexed by [`Distance::index`](crate::Distance::index).

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::{Distance, ExitSpread, Term};

/// Speed of a thread alone on its core, in the unit of [`Costs::smt_speed`].
pub(crate) const FULL_SPEED: u32 = 1024;
/// A second: far more than any of these costs.
pub(crate) const MAX_COST_NS: u64 = 1_000_000_000;
/// The largest `cold_percent` of an idle state.
pub const MAX_COLD_PERCENT: u32 = 10_000;
const MAX_TRANSFER_PS: u64 = 100_000_000;
const MAX_CACHE_BYTES: u64 = 1 << 40;
/// Time of one kernel path.
const TIME: Limits = Limits::Number(0..=MAX_COST_NS);
/// Time of one access or byte.
const ACCESS: Limits = Limits::Number(0..=MAX_TRANSFER_PS);
const CACHE: Limits = Limits::Number(0..=MAX_CACHE_BYTES);
const NOTHING: [u64; Distance::COUNT] = [0; Distance::COUNT];

/// An idle state of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// The CPU is in this state once it has idled for this long.
    pub after_ns: u64,
    /// Time from the interrupt until the CPU executes instructions again.
    pub exit_latency_ns: u64,
    /// How much longer the work that follows takes at first, in percent, because caches, TLB and branch predictors have
    /// lost what they held ([`COLD_WORK_NS`](crate::COLD_WORK_NS)).
    #[serde(default)]
    pub cold_percent: u32,
    /// How single exits differ; by default not at all.
    #[serde(default)]
    pub exit_percent: ExitSpread,
}

/// A row of [`COSTS`].
pub(crate) struct Cost {
    /// Key in machine files and in JSON.
    pub(crate) key: &'static str,
    /// Heading above the figure in listings: `caches`, `scheduler`, ..
    pub(crate) group: &'static str,
    /// `ns`, `ps`, `bytes`, `MB/s`, ..; `1/1024` for speeds.
    pub(crate) unit: &'static str,
    description: &'static str,
    pub(crate) shape: Shape,
    pub(crate) limits: Limits,
    /// The term of the cost model that charges this figure. A machine without the term has the figure of
    /// [`Costs::free`].
    pub(crate) term: Option<Term>,
    pub(crate) get: fn(&Costs) -> Figure,
    /// Sets the figure; does nothing if the shape is not the row's.
    pub(crate) set: fn(&mut Costs, Figure),
}

impl Cost {
    /// What the figure means, in one or a few sentences.
    pub(crate) fn description(&self) -> &'static str {
        self.description.trim_start()
    }

    /// The row with this key.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn of(key: &str) -> &'static Cost {
        COSTS.iter().find(|cost| cost.key == key).expect("a key of the table")
    }
}

/// What values a figure may have. This also decides how it is scaled.
#[derive(Clone, Debug)]
pub(crate) enum Limits {
    /// One number.
    Number(RangeInclusive<u64>),
    /// One percentage from 100 to this. The excess over 100 is the cost.
    Excess(u64),
    /// A table by distance: does not fall with distance, and is at most this.
    Rising(u64),
    /// A table of percentages by distance: 100 inside a node, and does not rise with distance.
    Falling,
    /// A table by number of busy threads: begins at [`FULL_SPEED`] and does not rise.
    Speeds,
    /// Idle states: latencies do not fall with depth.
    IdleStates,
    /// Limits of memory traffic, which do not depend on each other.
    Bandwidth,
}

/// The value of a figure, taken out of [`Costs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    Number(u64),
    ByDistance([u64; Distance::COUNT]),
    Speeds(Vec<u32>),
    IdleStates(Vec<IdleState>),
    Bandwidth(Bandwidth),
}

/// The kind of a [`Figure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Number,
    ByDistance,
    Speeds,
    IdleStates,
    Bandwidth,
}

macro_rules! type_of {
    (Number) => { u64 };
    (ByDistance) => { [u64; Distance::COUNT] };
    (Speeds) => { Vec<u32> };
    (IdleStates) => { Vec<IdleState> };
    (Bandwidth) => { Bandwidth };
}

/// Defines [`Costs`] and [`COSTS`] from rows: `/// description` and
/// `key: Shape = value in Costs::free, unit, limits, term;`.
macro_rules! costs {
    ($($group:literal { $(
        $(#[doc = $doc:literal])+
        $key:ident: $shape:ident = $free:expr, $unit:literal, $limits:expr, $term:expr;
    )+ })+) => {
        /// The figures, without their sources (see [`crate::Machine::sources`]).
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Costs {
            $($(
                $(#[doc = $doc])+
                pub $key: type_of!($shape),
            )+)+
            /// Reading another CPU's state is a hit, at the price of distance `cpu`, if no CPU wrote it since this CPU
            /// last read it; if false, every read is a miss. This switch and those below exist only for
            /// [`crate::Machine::without`], because their terms share a figure. Machine files have no switches, and all
            /// are true otherwise.
            #[serde(default = "yes")]
            pub reads_may_hit: bool,
            /// Reading another CPU's state costs `line_transfer_ps`.
            #[serde(default = "yes")]
            pub charge_reads: bool,
            /// Writing what other CPUs have read or written since costs `line_transfer_ps` from the farthest of them.
            #[serde(default = "yes")]
            pub charge_writes: bool,
            /// Moving a message's bytes to its reader costs [`Costs::transfer_ns`].
            #[serde(default = "yes")]
            pub charge_data: bool,
            /// Atomic updates cost `atomic_ps` and the transfer of the line.
            #[serde(default = "yes")]
            pub charge_atomics: bool,
        }

        /// All figures, group by group.
        pub(crate) const COSTS: &[Cost] = &[$($(
            Cost {
                key: stringify!($key),
                group: $group,
                unit: $unit,
                description: concat!($($doc),+),
                shape: Shape::$shape,
                limits: $limits,
                term: $term,
                get: |costs| Figure::$shape(costs.$key.clone()),
                set: |costs, figure| {
                    if let Figure::$shape(value) = figure {
                        costs.$key = value;
                    }
                },
            },
        )+)+];

        impl Costs {
            /// Returns costs of 0: caches are empty, memory has no limit, and the `threads` threads of a core do not
            /// slow each other down. The tick is 1 ms.
            pub fn free(threads: usize) -> Costs {
                let mut costs = Costs {
                    $($($key: $free,)+)+
                    reads_may_hit: true,
                    charge_reads: true,
                    charge_writes: true,
                    charge_data: true,
                    charge_atomics: true,
                };
                costs.smt_speed.resize(threads, FULL_SPEED);
                costs
            }
        }
    };
}

costs! {
    "cores" {
        /// Speed of each thread of a core, in 1/1024 of a thread alone, by number of busy threads: index 0 is one busy
        /// thread and is 1024.
        smt_speed: Speeds = Vec::new(), "1/1024", Limits::Speeds, Some(Term::Smt);
    }
    "caches" {
        /// One-way transfer of a cache line that a CPU at that distance wrote: the cost of reading that CPU's state.
        line_transfer_ps: ByDistance = NOTHING, "ps", Limits::Rising(MAX_TRANSFER_PS), None;
        /// Bytes of a cache line.
        line_bytes: Number = 64, "bytes", Limits::Number(16..=1024), None;
        /// Lines that a core can fetch at once. Transfers of many lines overlap, so n lines from a distance take
        /// line_transfer_ps x n / lines_in_flight.
        lines_in_flight: Number = 1, "lines", Limits::Number(1..=1024), None;
        /// Size of a core's own caches (L1 and L2).
        core_cache_bytes: Number = 0, "bytes", CACHE, Some(Term::CacheRefill);
        /// Size of a last-level cache.
        llc_cache_bytes: Number = 0, "bytes", CACHE, Some(Term::CacheRefill);
        /// Reading a line out of the core's own last-level cache when no other core has a copy: the cost of refetching
        /// what the core's own caches lost. A line that another core holds costs line_transfer_ps.
        llc_hit_ps: Number = 0, "ps", ACCESS, Some(Term::CacheRefill);
        /// An atomic update of a line that this CPU wrote last. If another CPU wrote it last, the line's transfer comes
        /// on top.
        atomic_ps: Number = 0, "ps", ACCESS, Some(Term::Atomics);
    }
    "memory" {
        /// Limits of memory traffic, reads and writes together; 0 is no limit.
        bandwidth_mb_per_s: Bandwidth = Bandwidth::default(), "MB/s", Limits::Bandwidth, Some(Term::Bandwidth);
        /// Traffic of a byte written, in percent of a byte read: more than 100 where a line is fetched before it is
        /// written.
        write_traffic_percent: Number = 100, "%", Limits::Excess(400), Some(Term::Bandwidth);
        /// The most that a CPU gets from another node's memory, in percent of its core's limit; 100 inside a node.
        remote_bandwidth_percent: ByDistance = [100; Distance::COUNT], "%", Limits::Falling, Some(Term::Bandwidth);
    }
    "scheduler" {
        /// Work of one wake-up that does not depend on the policy: try_to_wake_up, locking, enqueueing.
        wakeup_ns: Number = 0, "ns", TIME, Some(Term::Wakeups);
        /// The part of `wakeup_ns` that comes after the wakee is queued, and the current task charged; at most all of
        /// it.
        wakeup_exit_ns: Number = 0, "ns", TIME, Some(Term::Wakeups);
        /// Work of one placement decision that does not depend on what it reads.
        select_ns: Number = 0, "ns", TIME, Some(Term::Selects);
        /// Work of one balancing attempt that does not depend on what it reads.
        balance_ns: Number = 0, "ns", TIME, Some(Term::Balancing);
        /// Active balancing: work on the CPU that loses its running task.
        push_ns: Number = 0, "ns", TIME, Some(Term::Balancing);
        /// Time for which a runqueue is locked while a CPU queues a task there, takes one, or moves one away.
        runqueue_lock_ns: Number = 0, "ns", TIME, Some(Term::RunqueueLocks);
        /// A context switch between threads of one process, or from and to idle.
        switch_thread_ns: Number = 0, "ns", TIME, Some(Term::Switches);
        /// A context switch that changes the address space.
        switch_process_ns: Number = 0, "ns", TIME, Some(Term::Switches);
        /// What a task that waits for a message, a signal or a timer pays before schedule(): the call that finds
        /// nothing. While it pays, it looks again, and does not sleep if what it waits for has come.
        sleep_ns: Number = 0, "ns", TIME, Some(Term::Switches);
        /// From the scheduler's last account of a task that goes to sleep to the switch: the way off the queue, and the
        /// look for another task. Under `mainline` it is charged to that one.
        dequeue_ns: Number = 0, "ns", TIME, Some(Term::Switches);
        /// How long a task that wakes another goes on before it gives way to it: the rest of its system call, in a
        /// kernel that cannot be preempted there.
        preempt_delay_ns: Number = 0, "ns", TIME, None;
        /// How long a task that another CPU's interrupt asks to give way goes on: the same, and on a virtual machine
        /// the time until the interrupt is seen. With 0 it also gives way at its next step, before the interrupt comes.
        remote_preempt_delay_ns: Number = 0, "ns", TIME, None;
        // HZ from 10 to 10,000.
        /// Period of the scheduler's tick on a busy CPU (1/HZ).
        tick_period_ns: Number = 1_000_000, "ns", Limits::Number(100_000..=100_000_000), None;
        /// Work of one tick.
        tick_ns: Number = 0, "ns", TIME, Some(Term::Ticks);
    }
    "interrupts and idling" {
        /// Sending an interrupt to another CPU: work on the sender.
        ipi_send_ns: Number = 0, "ns", TIME, Some(Term::Ipis);
        /// Time from sending an interrupt to its arrival.
        ipi_flight_ns: ByDistance = NOTHING, "ns", Limits::Rising(MAX_COST_NS), Some(Term::Ipis);
        /// Handling an interrupt from another CPU: work on the receiver.
        ipi_handle_ns: Number = 0, "ns", TIME, Some(Term::Ipis);
        /// Idle states, shallowest first; the first has after_ns 0.
        idle_states: IdleStates = vec![IdleState::default()], "ns", Limits::IdleStates,
            Some(Term::IdleExit);
        /// Work of the interrupt of a timer or device, without the wake-up that it makes.
        interrupt_ns: Number = 0, "ns", TIME, Some(Term::Interrupts);
        /// How much longer an idle CPU needs after the last wake-up in such an interrupt, until it looks for the next
        /// task: the way out of the interrupt and of the idle loop.
        interrupt_exit_ns: Number = 0, "ns", TIME, Some(Term::Interrupts);
    }
    "system calls" {
        /// The system call of a lock or barrier operation that must sleep or wake a task, without the wake-up.
        futex_ns: Number = 0, "ns", TIME, Some(Term::Futexes);
        /// Protocol work of one message through a loopback socket, done in the sender's context.
        loopback_ns: Number = 0, "ns", TIME, Some(Term::Loopback);
        /// Protocol work of each byte of such a message.
        loopback_ps_per_byte: Number = 0, "ps", ACCESS, Some(Term::Loopback);
        /// Work of fork in the parent, without the placement of the child.
        fork_ns: Number = 0, "ns", TIME, Some(Term::ForkExit);
        /// Work of exec, without the placement.
        exec_ns: Number = 0, "ns", TIME, Some(Term::ForkExit);
        /// Work of exit in the task that ends.
        exit_ns: Number = 0, "ns", TIME, Some(Term::ForkExit);
    }
}

/// Pairs of figures with a gap: the first figure plus the gap is at most the second.
pub(crate) const ORDERED: [(&str, &str, u64); 2] =
    [("tick_ns", "tick_period_ns", 1), ("switch_thread_ns", "switch_process_ns", 0)];

fn yes() -> bool {
    true
}

/// Limits of memory traffic, each in MB/s (10^6 bytes), which is bytes a microsecond; 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bandwidth {
    /// Limit of one core, alone on the machine.
    pub core: u64,
    /// Limit of a cluster's cores together.
    pub cluster: u64,
    /// Limit of all cores behind a last-level cache together.
    pub llc: u64,
    /// Limit of a node's memory.
    pub node: u64,
    /// Limit of all nodes together.
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
    /// Returns the state in which a core is that has idled for `idle_ns`.
    #[inline]
    pub fn idle_state(&self, idle_ns: u64) -> IdleState {
        self.idle_states.iter().rev().find(|state| state.after_ns <= idle_ns).copied().unwrap_or_default()
    }

    /// Returns the figure of that key, which must be one number.
    pub(crate) fn number(&self, key: &str) -> u64 {
        match (Cost::of(key).get)(self) {
            Figure::Number(value) => value,
            _ => unreachable!("`{key}` is one number"),
        }
    }

    /// Returns how long `bytes` take from the caches of a CPU at that distance, in ns: whole lines, overlapping,
    /// rounded up.
    #[inline]
    pub fn transfer_ns(&self, bytes: u64, distance: Distance) -> u64 {
        self.fetch_ns(bytes, self.line_transfer_ps[distance.index()])
    }

    /// Returns how long it takes to refetch `bytes` that the core's own caches lost from its last-level cache, in ns.
    /// Lines overlap as in [`Costs::transfer_ns`].
    #[inline]
    pub fn refetch_ns(&self, bytes: u64) -> u64 {
        self.fetch_ns(bytes, self.llc_hit_ps)
    }

    #[inline]
    fn fetch_ns(&self, bytes: u64, line_ps: u64) -> u64 {
        let lines = bytes.div_ceil(self.line_bytes.max(1));
        (lines * line_ps).div_ceil(1000 * self.lines_in_flight.max(1))
    }
}
