// SPDX-License-Identifier: GPL-2.0-or-later
//! Cache refill: what a task fetches again because it does not find it where it runs.
//!
//! A task's working set is its footprint F, of which a core's own caches (L1 and L2, of C bytes, shared by its SMT
//! threads) hold min(F, C), and a last-level cache (L bytes) min(F, L). When it is switched in where it ran last, or
//! elsewhere, it fetches
//!
//! | now | bytes | distance |
//! |---|---|---|
//! | the same core | of min(F, C) what others pushed out since it left ([`wakelab_machine::CoreCache`]) | none: its LLC has it (`llc_hit_ps`) |
//! | another core of the LLC | min(F, C) | to the CPU that it left |
//! | behind another LLC | min(F, L) | to the CPU that it left |
//!
//! as [`Costs::transfer_ns`](wakelab_machine::Costs::transfer_ns) has it (in the first row
//! [`Costs::refetch_ns`](wakelab_machine::Costs::refetch_ns)), before it goes on with its own work. So a task
//! that is interrupted, or sleeps while nobody else runs, or beside others whose sets fit into the caches with its own,
//! fetches nothing. A task that never ran fetches nothing either: its first touches are part of its work. After exec
//! nothing of the old contents is of use, and nothing is fetched.
//!
//! Worked example, C = 256 KiB, one thread a core: A (F = 192 KiB) runs, B (128 KiB) runs, A again: together they need
//! 320 KiB, so 64 KiB of A's were pushed out, and come from the LLC. B again: 64 KiB. A sleeps and wakes on another
//! core of the LLC: 192 KiB from the core that it left.
//!
//! The last row but one is dearer than the first because the core that the task left still holds its lines, as a rule
//! the only copy that may have been written: the LLC has to ask there.
//!
//! What this leaves out: prefetching, and what a core that a task comes back to still has of it.

use wakelab_machine::Distance;

use crate::cpu::UNITS;
use crate::engine::Engine;
use crate::observer::Observer;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// The task leaves the CPU: it used its working set until now, and what others use from now on pushes it out. A CPU
    /// that is still busy balancing may leave it when another runs it already: then it left when that one switched to
    /// it.
    pub(crate) fn leaves_caches(&mut self, cpu: u32, task: u32) {
        if self.tasks[task as usize].cpu != cpu {
            return;
        }
        let footprint_bytes = self.workload.tasks[task as usize].footprint_bytes;
        let core = self.cpus[cpu as usize].core as usize;
        self.cores[core].caches.use_set(task, footprint_bytes, self.costs.core_cache_bytes);
    }

    /// The task is switched in on `cpu`; `from` is the distance to the CPU that it left, if it ever ran. What it has
    /// to fetch is added to what it still had to.
    pub(crate) fn fills_caches(&mut self, cpu: u32, task: u32, from: Option<Distance>) {
        let footprint_bytes = self.workload.tasks[task as usize].footprint_bytes;
        let in_core_bytes = footprint_bytes.min(self.costs.core_cache_bytes);
        let core = self.cpus[cpu as usize].core as usize;
        let lost_bytes = self.cores[core].caches.use_set(task, footprint_bytes, self.costs.core_cache_bytes);
        let fetch_ns = match from {
            None => 0,
            Some(Distance::Cpu | Distance::Smt) => self.costs.refetch_ns(lost_bytes),
            Some(near @ (Distance::Cluster | Distance::Llc)) => self.costs.transfer_ns(in_core_bytes, near),
            Some(far) => self.costs.transfer_ns(footprint_bytes.min(self.costs.llc_cache_bytes), far),
        };
        // What was not fetched yet when it left is still missing, but nothing is missing twice.
        let t = &mut self.tasks[task as usize];
        t.refill = t.refill.max(fetch_ns * UNITS);
    }
}
