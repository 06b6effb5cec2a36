// SPDX-License-Identifier: GPL-2.0-only
//! cgroups: room for the policy's records of them, the hooks that this kernel has for them, and what is told about both.

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags};
use scx_utils::compat;

use super::{OpenSkel, types};

/// Makes room for so many cgroups and the root. Returns how many slots the policy has, the root's included; 0 if cgroups
/// are not looked at, because `groups` is 0 or because this kernel tells its sched_ext schedulers nothing about them.
pub(crate) fn reserve(skel: &mut OpenSkel<'_>, groups: u32, nr_cpus: usize) -> Result<u32> {
    let told = compat::struct_has_field("sched_ext_ops", "cgroup_init").unwrap_or(false);
    if groups > 0 && !told {
        eprintln!("scx_wakelab: this kernel has no CONFIG_EXT_GROUP_SCHED: all tasks are outside any cgroup");
    }
    if groups == 0 || !told {
        let ops = skel.struct_ops.wakelab_ops_mut();
        ops.cgroup_init = std::ptr::null_mut();
        ops.cgroup_exit = std::ptr::null_mut();
        ops.cgroup_move = std::ptr::null_mut();
        ops.cgroup_set_weight = std::ptr::null_mut();
        skel.progs.wakelab_cgroup_init.set_autoload(false);
        skel.progs.wakelab_cgroup_exit.set_autoload(false);
        skel.progs.wakelab_cgroup_move.set_autoload(false);
        skel.progs.wakelab_cgroup_set_weight.set_autoload(false);
        return Ok(0);
    }
    // Newer kernels take it for granted, and have no such flag or do not mind it.
    skel.struct_ops.wakelab_ops_mut().flags |=
        compat::read_enum("scx_ops_flags", "SCX_OPS_HAS_CGROUP_WEIGHT").unwrap_or(0);
    let slots = groups + 1;
    skel.maps.group_slots.set_max_entries(groups)?;
    skel.maps.wl_groups.set_max_entries(slots)?;
    skel.maps.wl_group_cpus.set_max_entries(slots * nr_cpus as u32)?;
    Ok(slots)
}

/// One line: `groups: 1000, 1.0 MB`.
pub(crate) fn room(nr_groups: u32, nr_cpus: usize) -> String {
    let slots = nr_groups as usize;
    let bytes = slots * (size_of::<types::wl_group>() + nr_cpus * size_of::<types::wl_group_cpu>());
    format!("groups: {}, {}.{} MB", slots.saturating_sub(1), bytes / 1_000_000, bytes / 100_000 % 10)
}

/// Says that there were more cgroups than slots, each time that there are more of them than `said`.
pub(crate) fn warn_without_slot(counts: &types::group_counts, groups: u32, said: &mut u64) {
    // SAFETY: a live reference to memory that the kernel also writes; an aligned word is read whole.
    #[allow(unsafe_code)]
    let without_slot = unsafe { std::ptr::read_volatile(&counts.without_slot) };
    if without_slot > 0 && *said == 0 {
        eprintln!(
            "scx_wakelab: more than {groups} cgroups: the others count in their parents; --cgroups makes more room"
        );
    }
    *said = without_slot;
}

/// What still counts in the slots up to `highest` though every task has left: a mistake of ours.
pub(crate) fn leftovers(records: &impl MapCore, highest: u32, nr_cpus: u32) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for index in nr_cpus..(highest + 1) * nr_cpus {
        let bytes = records.lookup(&index.to_ne_bytes(), MapFlags::ANY)?.context("no record of a group")?;
        // SAFETY: a record of that type, of integers only, copied out of a map with values of that size.
        #[allow(unsafe_code)]
        let record = unsafe { bytes.as_ptr().cast::<types::wl_group_cpu>().read_unaligned() };
        let counts = [
            record.load as i64,
            record.nr as i32 as i64,
            record.waiting as i32 as i64,
            record.running as i32 as i64,
        ];
        if counts != [0; 4] {
            let (slot, cpu) = (index / nr_cpus, index % nr_cpus);
            let [load, nr, waiting, running] = counts;
            found.push(format!(
                "group {slot} still counts on CPU {cpu}: load {load}, {nr} tasks, {waiting} waiting, {running} running"
            ));
        }
    }
    Ok(found)
}

/// One line about the policy's timer: `timer: 250 firings, mean 1200 ns, longest 8000 ns`.
pub(crate) fn monitor(stats: &types::timer_stats) -> String {
    let mean_ns = stats.total_ns.checked_div(stats.firings).unwrap_or(0);
    format!("timer: {} firings, mean {mean_ns} ns, longest {} ns", stats.firings, stats.longest_ns)
}
