// SPDX-License-Identifier: GPL-2.0-or-later
//! Cache refill: the data that a task fetches again because the caches where it runs do not have it.
//!
//! A task's working set is its footprint F. Of this a core's own caches (L1 and L2, of C bytes, shared by its SMT
//! threads) hold min(F, C), and a last-level cache (L bytes) holds min(F, L). A task that is switched in fetches what
//! the caches there do not have:
//!
//! | now | bytes | distance |
//! |---|---|---|
//! | the same core | of min(F, C) what others pushed out since it left ([`wakelab_machine::CoreCache`]) | none: its LLC has it (`llc_hit_ps`) |
//! | another core of the LLC | min(F, C) | to the CPU that it left |
//! | behind another LLC | min(F, L) | to the CPU that it left |
//!
//! It does so before it goes on with its own work, at the price of
//! [`Costs::transfer_ns`](wakelab_machine::Costs::transfer_ns) (in the first row of
//! [`Costs::refetch_ns`](wakelab_machine::Costs::refetch_ns)). So a task fetches nothing if it is interrupted, if it
//! sleeps while no other task runs, or if it runs beside others whose sets fit into the caches together with its own. A
//! task that never ran fetches nothing either, because its first touches are part of its work. After exec the old
//! contents are of no use, and nothing is fetched.
//!
//! Worked example: C = 256 KiB, one thread per core. A (F = 192 KiB) runs, B (128 KiB) runs, then A again. Together
//! they need 320 KiB, so 64 KiB of A's were pushed out, and come from the LLC. When B runs again it fetches 64 KiB. A
//! sleeps and wakes on another core of the LLC: it fetches 192 KiB from the core that it left.
//!
//! The second row is more expensive than the first because the core that the task left still holds its lines, usually
//! as the only copy that may have been written: the LLC has to ask that core.
//!
//! A CPU that has left an idle state is slow for a while, because that state, or what a host ran there, has taken what
//! caches, TLB and branch predictors held: the first [`wakelab_machine::COLD_WORK_NS`] of work take `cold_percent`
//! longer ([`wakelab_machine::IdleState`]). That counts as cache refill, too, and is done before each piece of work.
//!
//! Worked example: 20 % after 1 ms. A task works for 10 us and then for 30: it takes 2 us longer, and 3.
//!
//! Left out: prefetching, and what a core still has of a task that comes back to it from another core.

use wakelab_machine::Distance;

use crate::hardware::Hardware;
use crate::ids::UNITS;

impl Hardware<'_> {
    /// A task with this footprint leaves the CPU. It has used its working set until now; what other tasks use from now
    /// on pushes the set out.
    pub(crate) fn leave_caches(&mut self, cpu: u32, task: u32, footprint_bytes: u64) {
        let core = self.cpus[cpu as usize].core as usize;
        self.cores[core].caches.use_set(task, footprint_bytes, self.costs.core_cache_bytes);
    }

    /// A task with this footprint is switched in on `cpu`; `from` is the distance to the CPU that it left, if it ran
    /// before. Returns the work that it takes to fetch what is missing, in 1/1024 ns.
    pub(crate) fn fill_caches(
        &mut self,
        cpu: u32,
        task: u32,
        footprint_bytes: u64,
        from: Option<Distance>,
    ) -> u64 {
        let in_core_bytes = footprint_bytes.min(self.costs.core_cache_bytes);
        let core = self.cpus[cpu as usize].core as usize;
        let lost_bytes = self.cores[core].caches.use_set(task, footprint_bytes, self.costs.core_cache_bytes);
        let fetch_ns = match from {
            None => 0,
            Some(Distance::Cpu | Distance::Smt) => self.costs.refetch_ns(lost_bytes),
            Some(near @ (Distance::Cluster | Distance::Llc)) => self.costs.transfer_ns(in_core_bytes, near),
            Some(far) => self.costs.transfer_ns(footprint_bytes.min(self.costs.llc_cache_bytes), far),
        };
        fetch_ns * UNITS
    }
}
