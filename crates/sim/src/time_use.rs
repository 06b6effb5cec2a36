// SPDX-License-Identifier: GPL-2.0-or-later
//! The kinds of CPU time: one table, from which the engine's sums, the outcome's fields, the report's rows and the JSON
//! are made. A new kind is one line here.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident, $field:ident, $name:literal, $label:literal;)+) => {
        /// What CPU time goes to.
        //
        // Four bytes, because segments are copied as soon as they are made: a copy of whole words need not wait until
        // single bytes have left the store buffer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum TimeKind {
            $($(#[doc = $doc])+ $kind,)+
        }

        /// CPU time by what it was spent on, in nanoseconds summed over all CPUs. The fields add up to CPUs x elapsed
        /// time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct TimeUse {
            $($(#[doc = $doc])+ pub $field: u64,)+
        }

        impl TimeKind {
            /// All kinds, in the order of the tables.
            pub const ALL: [TimeKind; TimeKind::COUNT] = [$(TimeKind::$kind,)+];
            /// The number of kinds.
            pub const COUNT: usize = [$($name,)+].len();

            /// The name in JSON: that of the field in [`TimeUse`] without its unit.
            pub fn name(self) -> &'static str {
                match self {
                    $(TimeKind::$kind => $name,)+
                }
            }

            /// The name in tables.
            pub fn label(self) -> &'static str {
                match self {
                    $(TimeKind::$kind => $label,)+
                }
            }
        }

        impl TimeUse {
            /// The time in nanoseconds spent on one kind.
            pub fn ns(&self, kind: TimeKind) -> u64 {
                match kind {
                    $(TimeKind::$kind => self.$field,)+
                }
            }

            /// The field of one kind, in nanoseconds.
            pub fn ns_mut(&mut self, kind: TimeKind) -> &mut u64 {
                match kind {
                    $(TimeKind::$kind => &mut self.$field,)+
                }
            }
        }
    };
}

kinds! {
    /// The workload's own work, as long as it would take with idle SMT siblings and full capacity.
    Work, work_ns, "work", "work";
    /// The extra time that work and overheads took because SMT siblings were busy or the CPU has less capacity.
    Slowdown, slowdown_ns, "slowdown", "slowdown (SMT, capacity)";
    /// Waiting for memory: the time by which streaming exceeded its work.
    Memory, memory_ns, "memory", "waiting for memory";
    /// Refilling caches.
    CacheRefill, cache_refill_ns, "cache_refill", "cache refill";
    /// Fetching messages from the caches of the CPU that wrote them.
    Data, data_ns, "data", "fetching messages";
    /// Protocol work of loopback sockets.
    Protocol, protocol_ns, "protocol", "loopback protocol";
    /// Spinning at locks and barriers.
    Spin, spin_ns, "spin", "spinning";
    /// System calls that sleep or wake at locks and barriers.
    Futex, futex_ns, "futex", "locks and barriers: system calls";
    /// Waiting for runqueue locks that another CPU holds.
    RunqueueLock, runqueue_lock_ns, "runqueue_lock", "waiting for runqueue locks";
    /// Atomic updates of counters that CPUs share.
    Atomic, atomic_ns, "atomic", "atomic updates";
    /// Context switches.
    Switch, switch_ns, "switch", "context switches";
    /// The fixed part of wake-ups.
    Wakeup, wakeup_ns, "wakeup", "wake-ups";
    /// Placement decisions: their fixed part and their reads.
    Select, select_ns, "select", "placement decisions";
    /// Newly-idle and periodic balancing: fixed part and reads.
    Balance, balance_ns, "balance", "balancing";
    /// Sending and handling interrupts between CPUs.
    Ipi, ipi_ns, "ipi", "interrupts between CPUs";
    /// Timer and device interrupts.
    Interrupt, interrupt_ns, "interrupt", "timers and devices";
    /// Scheduler ticks.
    Tick, tick_ns, "tick", "ticks";
    /// fork, exec and exit.
    ForkExit, fork_exit_ns, "fork_exit", "fork, exec and exit";
    /// Leaving idle states.
    IdleExit, idle_exit_ns, "idle_exit", "leaving idle states";
    /// Nothing to do.
    Idle, idle_ns, "idle", "idle";
}

impl TimeUse {
    /// The sum of all kinds in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        TimeKind::ALL.into_iter().map(|kind| self.ns(kind)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_in_the_order_of_the_table() {
        for (number, kind) in TimeKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }

    /// Each kind sets another field, and all of them are in the total.
    #[test]
    fn each_kind_has_a_field_of_its_own() {
        let mut time = TimeUse::default();
        for kind in TimeKind::ALL {
            *time.ns_mut(kind) = 1 << kind as u64;
        }
        assert!(TimeKind::ALL.into_iter().all(|kind| time.ns(kind) == 1 << kind as u64));
        assert_eq!(time.total_ns(), (1 << TimeKind::COUNT) - 1);
    }
}
