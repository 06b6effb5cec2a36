// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of places in the policy's state, for reports about logs: `cpu[3].nr_queued`.

use std::mem::offset_of;

use crate::fields::name_at;
use crate::logged::Places;
use crate::{Block, CpuState, Group, GroupCpu, Task};

/// `(offset, name)` of fields, ascending.
macro_rules! fields {
    ($type:ty: $($field:ident)*) => {
        &[$((offset_of!($type, $field), stringify!($field)),)*]
    };
}

const TASK: &[(usize, &str)] = fields!(Task: vtime sum_exec_ns run_start_ns slice_ns slice_used_ns deadline lag
    flip_stamp_ns last_wakee wakee_flips weight place cpu recent_cpu nr_allowed id util_stamp_ns util util_slept
    flags group hweight nr_moved allowed);

/// The names and places of a task's fields, ascending.
pub fn task_fields() -> &'static [(usize, &'static str)] {
    TASK
}

/// What is `what` bytes behind the begin of an instance.
pub(crate) fn place_name(places: &Places, what: usize) -> String {
    let element = |begin: usize, size: usize| ((what - begin) / size, (what - begin) % size);
    if what >= places.tasks {
        let (_, offset) = element(places.tasks, places.task_bytes);
        return format!("task.{}", name_at(Task::FIELDS, offset));
    }
    if what >= places.group_cpus {
        let (index, offset) = element(places.group_cpus, size_of::<GroupCpu>());
        let (slot, cpu) = (index / places.nr_cpus, index % places.nr_cpus);
        return format!("group[{slot}].cpu[{cpu}].{}", name_at(GroupCpu::FIELDS, offset));
    }
    if what >= places.groups {
        let (slot, offset) = element(places.groups, size_of::<Group>());
        return format!("group[{slot}].{}", name_at(Group::FIELDS, offset));
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
            format!("cpu[{cpu}].{}", name_at(CpuState::FIELDS, offset))
        }
        "block" => {
            let (block, offset) = element(begin, size_of::<Block>());
            format!("block[{block}].{}", name_at(Block::FIELDS, offset))
        }
        "counter" => format!("counter[{}].busy", element(begin, 64).0),
        "loaded" => format!("loaded[{}]", element(begin, 8).0),
        _ => name.to_owned(),
    }
}
