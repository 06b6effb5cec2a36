// SPDX-License-Identifier: GPL-2.0-or-later
//! Cache refill: what a task fetches again because it does not find it where it runs.
//!
//! A task's working set is its footprint F, of which a core's own caches (L1 and L2, of C bytes, shared by its SMT
//! threads) hold min(F, C), and a last-level cache (L bytes) min(F, L). When it is switched in where it ran last, or
//! elsewhere, it fetches
//!
//! | now | bytes | distance |
//! |---|---|---|
//! | the same core | min(F, C, what came into the core's caches since it left) | `llc` |
//! | another core of the LLC | min(F, C) | to the CPU that it left |
//! | behind another LLC | min(F, L) | to the CPU that it left |
//!
//! as [`Costs::transfer_ns`](wakelab_machine::Costs::transfer_ns) has it, before it goes on with its own work. What comes
//! into a core's caches is a sum that only grows: each switch-in of a task that is not the one that its hardware thread
//! ran last adds that task's min(F, C). So a task that is interrupted, or sleeps while nobody else runs, fetches nothing.
//! A task that never ran fetches nothing either: its first touches are part of its work. After exec nothing of the old
//! contents is of use, and nothing is fetched.
//!
//! Worked example, C = 1 MiB, one thread a core: A (F = 256 KiB) runs, B (64 KiB) runs, A again: 64 KiB came in, A
//! fetches 64 KiB from the LLC. B again: A added 256 KiB, B fetches its own 64 KiB. A sleeps and wakes on another core of
//! the LLC: 256 KiB from the core that it left.
//!
//! What this leaves out: a core whose caches hold both working sets keeps them both (the rule is an upper bound there),
//! and prefetching.

use wakelab_machine::Distance;

use crate::cpu::UNITS;
use crate::engine::Engine;
use crate::observer::Observer;

/// A core's own caches.
#[derive(Default)]
pub(crate) struct Caches {
    /// All that was ever brought in, in bytes.
    brought_in_bytes: u64,
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// The task leaves the CPU: what comes into the core's caches from now on pushes its own out. A CPU that is still busy
    /// balancing may leave it when another runs it already: then it left when that one switched to it.
    pub(crate) fn leaves_caches(&mut self, cpu: u32, task: u32) {
        if self.tasks[task as usize].cpu != cpu {
            return;
        }
        let core = self.cpus[cpu as usize].core;
        self.tasks[task as usize].cache_mark_bytes = self.cores[core as usize].caches.brought_in_bytes;
    }

    /// The task is switched in on `cpu`; `from` is the distance to the CPU that it left, if it ever ran. What it has
    /// to fetch is added to what it still had to.
    pub(crate) fn fills_caches(&mut self, cpu: u32, task: u32, from: Option<Distance>) {
        let footprint_bytes = self.workload.tasks[task as usize].footprint_bytes;
        let in_core_bytes = footprint_bytes.min(self.costs.core_cache_bytes);
        let c = &mut self.cpus[cpu as usize];
        let caches = &mut self.cores[c.core as usize].caches;
        let t = &mut self.tasks[task as usize];
        let fetch_ns = match from {
            None => 0,
            Some(Distance::Cpu | Distance::Smt) => {
                let since_bytes = caches.brought_in_bytes - t.cache_mark_bytes;
                self.costs.transfer_ns(in_core_bytes.min(since_bytes), Distance::Llc)
            }
            Some(near @ (Distance::Cluster | Distance::Llc)) => self.costs.transfer_ns(in_core_bytes, near),
            Some(far) => self.costs.transfer_ns(footprint_bytes.min(self.costs.llc_cache_bytes), far),
        };
        // What was not fetched yet when it left is still missing, but nothing is missing twice.
        t.refill = t.refill.max(fetch_ns * UNITS);
        if std::mem::replace(&mut c.cached, task) != task {
            caches.brought_in_bytes += in_core_bytes;
        }
        // Until it leaves, and its CPU notices: a mark of this core's, never of another's.
        t.cache_mark_bytes = caches.brought_in_bytes;
    }
}
