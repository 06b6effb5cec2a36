// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of places in the policy's state, for reports about logs: `cpu[3].nr_queued`.

use std::mem::offset_of;

use crate::logged::Places;
use crate::{Block, CpuState, Group, GroupCpu, Task};

/// `(offset, name)` of fields, ascending.
macro_rules! fields {
    ($type:ty: $($field:ident)*) => {
        &[$((offset_of!($type, $field), stringify!($field)),)*]
    };
}

const CPU: &[(usize, &str)] = fields!(CpuState: state nr_queued nr_running curr_weight load min_vtime curr_vtime
    curr_start_ns vtime_sum balance_marked curr_renewed idle_since_ns avg_idle_ns avg_scan_ns
    max_idle_balance_cost_ns next_balance_ns balance_failed rotor newly_idle_left curr_deadline next_buddy
    next_vtime last_buddy last_vtime tried_cpu tried_level tried_why taken_turns has_idle_cores nr_idle_scan
    idle_scan_due_ns idle_blocks core_blocks wanted_until_ns nr_blocks util_stamp_ns util push_to push_why push_due_ns total charged first has_first curr_slot
    best has_best pull_from probe idle_pulls walked_ns
    walk_reads probe_far llc_clock llc_waiting others_wait);
const GROUP: &[(usize, &str)] =
    fields!(Group: shares parent depth counts_as stale_weight generation home waking);
const GROUP_CPU: &[(usize, &str)] = fields!(GroupCpu: load nr counted weight generation summed_ns advanced_ns
    others_waiting others_running capped part others mark clock waiting running);
const BLOCK: &[(usize, &str)] = fields!(Block: idle present cores recent before recent_period number);
const TASK: &[(usize, &str)] = fields!(Task: vtime sum_exec_ns run_start_ns slice_ns slice_used_ns deadline lag
    flip_stamp_ns last_wakee wakee_flips weight place cpu recent_cpu nr_allowed id util_stamp_ns util util_slept
    flags group hweight nr_moved allowed);

/// The names and places of a task's fields, ascending.
pub fn task_fields() -> &'static [(usize, &'static str)] {
    TASK
}

/// The field that begins at `offset` or before.
fn field(fields: &[(usize, &'static str)], offset: usize) -> &'static str {
    let next = fields.partition_point(|(at, _)| *at <= offset);
    fields[next.saturating_sub(1)].1
}

/// What is `what` bytes behind the begin of an instance.
pub(crate) fn place_name(places: &Places, what: usize) -> String {
    let element = |begin: usize, size: usize| ((what - begin) / size, (what - begin) % size);
    if what >= places.tasks {
        let (_, offset) = element(places.tasks, places.task_bytes);
        return format!("task.{}", field(TASK, offset));
    }
    if what >= places.group_cpus {
        let (index, offset) = element(places.group_cpus, size_of::<GroupCpu>());
        let (slot, cpu) = (index / places.nr_cpus, index % places.nr_cpus);
        return format!("group[{slot}].cpu[{cpu}].{}", field(GROUP_CPU, offset));
    }
    if what >= places.groups {
        let (slot, offset) = element(places.groups, size_of::<Group>());
        return format!("group[{slot}].{}", field(GROUP, offset));
    }
    // The parts of the policy, the last one first: each reaches to the next.
    let parts = [
        (places.policy_end, "host"),
        (places.blocks, "block"),
        (places.cpus, "cpu"),
        (places.counters, "counter"),
        (places.loaded, "loaded"),
        (places.overloaded, "overloaded"),
        (0, "params"),
    ];
    let (begin, name) = parts.into_iter().find(|(begin, _)| *begin <= what).unwrap_or((0, "params"));
    match name {
        "cpu" => {
            let (cpu, offset) = element(begin, size_of::<CpuState>());
            format!("cpu[{cpu}].{}", field(CPU, offset))
        }
        "block" => {
            let (block, offset) = element(begin, size_of::<Block>());
            format!("block[{block}].{}", field(BLOCK, offset))
        }
        "counter" => format!("counter[{}].busy", element(begin, 64).0),
        "loaded" => format!("loaded[{}]", element(begin, 8).0),
        _ => name.to_owned(),
    }
}
