// SPDX-License-Identifier: GPL-2.0-only
//! cgroups: room for the policy's records of them, the hooks that this kernel has for them, and the lines that are
//! printed about both.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags};
use scx_utils::compat;
use wakelab_policy::Groups;

use super::{OpenSkel, Skel, types};
use crate::entitlement::Group;
use crate::kernel_tells_groups;
use crate::limits::{Limit, Limits};

/// Makes room for `groups` cgroups and the root. Returns the number of the policy's slots, including the root's; 0 if
/// cgroups are ignored, because `groups` is 0 or because this kernel does not report them to sched_ext. `awaited`:
/// those that come are counted even if `groups` is 0.
pub(crate) fn reserve(skel: &mut OpenSkel<'_>, groups: u32, awaited: bool, nr_cpus: usize) -> Result<u32> {
    let told = kernel_tells_groups();
    if groups > 0 && !told {
        eprintln!("scx_wakelab: this kernel has no CONFIG_EXT_GROUP_SCHED: all tasks are outside any cgroup");
    }
    if groups == 0 || !told {
        let ops = skel.struct_ops.wakelab_ops_mut();
        if !awaited || !told {
            ops.cgroup_init = std::ptr::null_mut();
            skel.progs.wakelab_cgroup_init.set_autoload(false);
        }
        ops.cgroup_exit = std::ptr::null_mut();
        ops.cgroup_move = std::ptr::null_mut();
        ops.cgroup_set_weight = std::ptr::null_mut();
        skel.progs.wakelab_cgroup_exit.set_autoload(false);
        skel.progs.wakelab_cgroup_move.set_autoload(false);
        skel.progs.wakelab_cgroup_set_weight.set_autoload(false);
        return Ok(0);
    }
    // Newer kernels always do this, and either lack the flag or ignore it.
    skel.struct_ops.wakelab_ops_mut().flags |=
        compat::read_enum("scx_ops_flags", "SCX_OPS_HAS_CGROUP_WEIGHT").unwrap_or(0);
    let slots = groups + 1;
    skel.maps.group_slots.set_max_entries(groups)?;
    skel.maps.wl_groups.set_max_entries(slots)?;
    skel.maps.wl_group_cpus.set_max_entries(slots * nr_cpus as u32)?;
    skel.maps.limits.set_max_entries(slots)?;
    skel.maps.pools.set_max_entries(slots)?;
    Ok(slots)
}

/// One line: `groups: 1000, 1.0 MB`.
pub(crate) fn room(nr_groups: u32, nr_cpus: usize) -> String {
    let slots = nr_groups as usize;
    let bytes = slots * (size_of::<types::wl_group>() + nr_cpus * size_of::<types::wl_group_cpu>());
    format!("groups: {}, {}.{} MB", slots.saturating_sub(1), bytes / 1_000_000, bytes / 100_000 % 10)
}

/// Returns how many cgroups found no slot.
pub(crate) fn without_slot(counts: &types::group_counts) -> u64 {
    // SAFETY: a live reference to memory that the kernel also writes; an aligned word is read at once.
    #[allow(unsafe_code)]
    unsafe {
        std::ptr::read_volatile(&counts.without_slot)
    }
}

/// Reports that there were more cgroups than slots, if that was not `said` before.
pub(crate) fn warn_without_slot(without_slot: u64, groups: u32, said: &mut u64) {
    if without_slot > 0 && *said == 0 {
        eprintln!(
            "scx_wakelab: more than {groups} cgroups: the others count in their parents; --cgroups makes more room"
        );
    }
    *said = without_slot;
}

/// Returns a record of an array map.
fn record<T: Copy>(records: &impl MapCore, index: u32) -> Result<T> {
    let bytes = records.lookup(&index.to_ne_bytes(), MapFlags::ANY)?.context("no record of a group")?;
    anyhow::ensure!(bytes.len() == size_of::<T>(), "a record of a group has {} bytes", bytes.len());
    // SAFETY: used for the skeleton's wl_group and wl_group_cpu, of integers only; the map has values of that size.
    #[allow(unsafe_code)]
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Returns the slot of a cgroup; `id` is the key of `group_slots`.
fn slot_of(skel: &Skel<'_>, id: &[u8]) -> Option<u32> {
    let slot = skel.maps.group_slots.lookup(id, MapFlags::ANY).ok()??;
    Some(u32::from_ne_bytes(slot.try_into().ok()?))
}

/// Tells the BPF side which limits have changed, if it is time to look.
pub(crate) fn tell_limits(skel: &Skel<'_>, limits: &mut Limits) -> Result<()> {
    let Some(found) = limits.look() else { return Ok(()) };
    let of = |(id, limit): (u64, Limit)| Some((slot_of(skel, &id.to_ne_bytes())?, limit));
    let by_slot = found.into_iter().filter_map(of).collect();
    for (slot, Limit { quota_ns, period_ns, is_idle }) in limits.changes(by_slot) {
        let words = [quota_ns, period_ns, is_idle.into()].map(u64::to_ne_bytes);
        skel.maps.limits.update(&slot.to_ne_bytes(), words.as_flattened(), MapFlags::ANY)?;
    }
    Ok(())
}

/// Returns the groups with runnable tasks, and the number of runnable tasks outside any. Only records that count
/// tasks are read: with groups=exact those of each LLC's first CPU, otherwise those of slots with load.
pub(crate) fn look(skel: &Skel<'_>, nr_cpus: usize) -> Result<(Vec<Group>, u64)> {
    let bss = skel.maps.bss_data.as_deref().context("the skeleton has no .bss")?;
    let is_exact = bss.policy.params.groups == Groups::Exact as u32;
    let slots = skel
        .maps
        .group_slots
        .keys()
        .filter_map(|key| Some((slot_of(skel, &key)?, u64::from_ne_bytes(key.try_into().ok()?))));
    let counting: Vec<u32> = (0..nr_cpus as u32)
        .filter(|&cpu| !is_exact || u32::from(bss.policy.topo.llc_first[cpu as usize]) == cpu)
        .collect();
    let mut groups: Vec<Group> = Vec::new();
    // By group: how much its children add to what is counted in it.
    let mut counted: BTreeMap<u32, u64> = BTreeMap::new();
    for (slot, id) in slots.collect::<BTreeMap<u32, u64>>() {
        if !is_exact && bss.policy.loaded[slot as usize / 64] >> (slot % 64) & 1 == 0 {
            continue;
        }
        let group: types::wl_group = record(&skel.maps.wl_groups, slot)?;
        let mut tasks = 0;
        for &cpu in &counting {
            let here: types::wl_group_cpu = record(&skel.maps.wl_group_cpus, slot * nr_cpus as u32 + cpu)?;
            let (own, in_parent) = counts(&here, is_exact);
            tasks += own;
            *counted.entry(group.parent).or_default() += in_parent;
        }
        if tasks > 0 {
            groups.push(Group { slot, parent: group.parent, shares: group.shares, tasks, id });
        }
    }
    for group in &mut groups {
        group.tasks = group.tasks.saturating_sub(counted.get(&group.slot).copied().unwrap_or(0));
    }
    let cpus = &bss.policy.cpu[..nr_cpus];
    let all: u64 = cpus.iter().map(|cpu| u64::from(cpu.nr_queued) + u64::from(cpu.nr_running)).sum();
    let grouped: u64 = groups.iter().map(|group| group.tasks).sum();
    Ok((groups, all.saturating_sub(grouped)))
}

/// Returns what a record counts in its group, and what in the group's parent: with groups=exact all tasks in it and
/// below, twice; otherwise its tasks and its children that have load, and itself as one child.
fn counts(here: &types::wl_group_cpu, is_exact: bool) -> (u64, u64) {
    if is_exact {
        let tasks = here.exact.waiting.wrapping_add(here.exact.running) as i32;
        return (tasks.max(0) as u64, tasks.max(0) as u64);
    }
    (here.nr.into(), (here.counted > 0).into())
}

/// Returns what still counts in the slots up to `highest` although every task has left, which is a mistake of ours.
pub(crate) fn leftovers(records: &impl MapCore, highest: u32, nr_cpus: u32) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for index in nr_cpus..(highest + 1) * nr_cpus {
        let record: types::wl_group_cpu = record(records, index)?;
        let counts = [
            record.load as i64,
            record.nr as i32 as i64,
            record.exact.waiting as i32 as i64,
            record.exact.running as i32 as i64,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_tasks_as_its_rule_does() {
        let mut here = types::wl_group_cpu { nr: 3, counted: 1024, ..Default::default() };
        (here.exact.waiting, here.exact.running) = (4, 1);
        assert_eq!(counts(&here, true), (5, 5), "all tasks, also in the parent");
        assert_eq!(counts(&here, false), (3, 1), "tasks and children, and one child of the parent");
    }
}
