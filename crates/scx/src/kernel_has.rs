// SPDX-License-Identifier: GPL-2.0-only
//! What kernels from 6.12 on have of what this scheduler uses: one binary for all of them.
//!
//! Functions are found when the BPF side is loaded (bpf/kernel.bpf.h); flags and hooks are found here, in the kernel's
//! BTF. Only 6.12 was tried; what newer kernels have is from their sources and from scx's headers.

use scx_utils::compat;

/// A flag of `sched_ext_ops`, and what it does here.
struct Flag {
    name: &'static str,
    /// Only of use where memory has several nodes.
    of_nodes: bool,
}

const FLAGS: [Flag; 3] = [
    // From 6.14 on. Without it, the kernel queues a task that cannot migrate itself, and tells nobody.
    Flag { name: "SCX_OPS_ENQ_MIGRATION_DISABLED", of_nodes: false },
    // From 6.15 on: wake-ups go to a CPU of another cache by a list, and not by the lock of its run queue, as in
    // Linux's own scheduler; and a task that is still being switched out is not asked about, but queued where it was.
    Flag { name: "SCX_OPS_ALLOW_QUEUED_WAKEUP", of_nodes: false },
    // From 6.15 on: the mask of idle CPUs, which each claim writes, is one for each node and not one for the machine.
    Flag { name: "SCX_OPS_BUILTIN_IDLE_PER_NODE", of_nodes: true },
];

/// Returns the flags that this kernel has, on a machine of N nodes; `value` is the kernel's value of a flag.
fn flags_of(nodes: usize, value: impl Fn(&str) -> Option<u64>) -> u64 {
    let wanted = FLAGS.iter().filter(|flag| nodes > 1 || !flag.of_nodes);
    wanted.filter_map(|flag| value(flag.name)).fold(0, |all, flag| all | flag)
}

/// Returns the flags of `sched_ext_ops` that this kernel has and that are of use on a machine of N nodes.
pub(crate) fn flags(nodes: usize) -> u64 {
    flags_of(nodes, |name| compat::read_enum("scx_ops_flags", name).ok())
}

/// Has this kernel a hook? If that cannot be read, the load will say so. `cpu_release` is deprecated since 6.19; where
/// it has gone, a task that a real-time task displaces waits until the timer of taken.bpf.h, a tick later at most.
pub(crate) fn has_hook(name: &str) -> bool {
    compat::struct_has_field("sched_ext_ops", name).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The kernel's functions that the BPF side calls, by their newest names, and the first version that has each under
    /// that name; 6.12 has all of them, under this name or an older one.
    const FUNCTIONS: [(&str, (u32, u32)); 18] = [
        ("scx_bpf_cpu_curr", (6, 18)),
        ("scx_bpf_cpu_rq", (6, 12)),
        ("scx_bpf_cpuperf_cur", (6, 12)),
        ("scx_bpf_cpuperf_set", (6, 12)),
        ("scx_bpf_create_dsq", (6, 12)),
        ("scx_bpf_dsq_insert", (6, 13)),
        ("scx_bpf_dsq_insert_vtime", (6, 13)),
        ("scx_bpf_dsq_move", (6, 13)),
        ("scx_bpf_dsq_move_set_slice", (6, 13)),
        ("scx_bpf_dsq_move_set_vtime", (6, 13)),
        ("scx_bpf_dsq_move_to_local", (6, 13)),
        ("scx_bpf_dsq_move_vtime", (6, 13)),
        ("scx_bpf_dsq_nr_queued", (6, 12)),
        ("scx_bpf_kick_cpu", (6, 12)),
        ("scx_bpf_reenqueue_local", (6, 12)),
        ("scx_bpf_select_cpu_dfl", (6, 12)),
        ("scx_bpf_task_cpu", (6, 12)),
        ("scx_bpf_test_and_clear_cpu_idle", (6, 12)),
    ];

    /// Macros of scx's headers with names like those of functions.
    const MACROS: [&str; 3] = ["scx_bpf_dump", "scx_bpf_error", "scx_bpf_task_set_slice"];

    #[test]
    fn every_function_that_is_called_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf");
        let mut called = BTreeSet::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let code = text.split("*/").filter_map(|part| part.split("/*").next());
            for part in code.flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')) {
                let name = part.split("___").next().unwrap();
                if name.starts_with("scx_bpf_") && !MACROS.contains(&name) {
                    called.insert(name.to_owned());
                }
            }
        }
        let listed: BTreeSet<String> = FUNCTIONS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(called, listed);
    }

    #[test]
    fn flags_are_those_that_the_kernel_has() {
        let value = |name: &str| FLAGS.iter().position(|flag| flag.name == name).map(|at| 1 << at);
        let of = |known: usize| {
            let has = |name: &str| FLAGS[..known].iter().any(|flag| flag.name == name);
            [1, 2].map(|nodes| flags_of(nodes, |name| value(name).filter(|_| has(name))))
        };
        assert_eq!([of(0), of(1), of(3)], [[0, 0], [1, 1], [3, 7]]);
    }
}
