// SPDX-License-Identifier: GPL-2.0-or-later
//! The meaning of Linux's priorities and names of kernel threads.

/// Weight of a fair task by nice value, from nice -20 to nice 19: `sched_prio_to_weight` in kernel/sched/core.c. Each
/// step is 1.25 times the next.
const WEIGHT_BY_NICE: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121,
    2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29,
    23, 18, 15,
];

/// The priority of nice -20; lower numbers are real time or deadline.
const FIRST_FAIR_PRIO: i32 = 100;

/// The priority of nice 0.
const PRIO_OF_NICE_0: i32 = 120;

/// Whether this is the priority of a real-time or deadline task.
pub(crate) fn is_realtime(prio: i32) -> bool {
    prio < FIRST_FAIR_PRIO
}

/// Returns the weight of a task of this priority. Real-time tasks get that of nice -20, because the model has only fair
/// tasks.
pub(crate) fn weight(prio: i32) -> u32 {
    let nice_index = usize::try_from(prio.saturating_sub(FIRST_FAIR_PRIO)).unwrap_or(0);
    WEIGHT_BY_NICE[nice_index.min(WEIGHT_BY_NICE.len() - 1)]
}

/// Returns the weight of a nice value, from -20 to 19.
pub(crate) fn weight_of_nice(nice: i32) -> u32 {
    weight(PRIO_OF_NICE_0.saturating_add(nice))
}

/// Returns the priority with the nearest weight; of two that are equally near, the higher priority.
pub(crate) fn prio_of_weight(weight: u32) -> i32 {
    (FIRST_FAIR_PRIO..)
        .zip(WEIGHT_BY_NICE)
        .min_by_key(|(_, of_prio)| of_prio.abs_diff(weight))
        .map_or(PRIO_OF_NICE_0, |(prio, _)| prio)
}

/// Beginnings of kernel threads' names, as `ps` shows them on Linux 4.15 to 6.18. A name with a slash has it.
const KERNEL_THREADS: [&str; 43] = [
    "backlog_napi/",
    "blkcg_punt_bio",
    "cpuhp/",
    "cryptd",
    "devfreq_wq",
    "ecryptfs-",
    "edac-poller",
    "ext4-rsv-",
    "ftrace_",
    "idle_inject/",
    "inet_frag_wq",
    "irq/",
    "irq_work/",
    "jbd2/",
    "kauditd",
    "kblockd",
    "kcompactd",
    "kdevtmpfs",
    "khugepaged",
    "khungtaskd",
    "kintegrityd",
    "ksgxd",
    "ksmd",
    "ksoftirqd/",
    "kswapd",
    "kthreadd",
    "kthrotld",
    "ktimers/",
    "kworker/",
    "md_",
    "migration/",
    "mm_percpu_wq",
    "netns",
    "oom_reaper",
    "rcu_",
    "rcub/",
    "rcuc/",
    "rcuo",
    "scsi_",
    "vmstat",
    "watchdogd",
    "writeback",
    "xfs-",
];

/// Whether a task's name is that of a kernel thread. Recordings of scheduler events do not tell otherwise.
pub fn is_kernel_thread(name: &str) -> bool {
    KERNEL_THREADS.iter().any(|beginning| name.starts_with(beginning))
}

/// Returns the CPU to which a kernel thread is bound, if its name says so: `migration/3` and `kworker/3:1-events` are
/// on CPU 3, but `kworker/u8:1` is unbound.
pub(crate) fn bound_cpu(name: &str) -> Option<u32> {
    const BOUND: [&str; 9] = [
        "migration",
        "ksoftirqd",
        "kworker",
        "cpuhp",
        "rcuc",
        "irq_work",
        "idle_inject",
        "ktimers",
        "backlog_napi",
    ];
    let (kind, place) = name.split_once('/')?;
    if !BOUND.contains(&kind) {
        return None;
    }
    let cpu = if kind == "kworker" { place.split_once(':')?.0 } else { place };
    cpu.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_the_kernel() {
        assert_eq!(weight(120), 1024);
        assert_eq!(weight(100), 88761);
        assert_eq!(weight(139), 15);
        assert_eq!(weight(0), 88761);
        assert_eq!(weight(-1), 88761);
        assert_eq!(weight(i32::MIN), 88761);
        assert_eq!(weight(i32::MAX), 15);
        assert!(is_realtime(99) && !is_realtime(100));
        for prio in 100..140 {
            assert_eq!(prio_of_weight(weight(prio)), prio);
        }
        assert_eq!([-20, 0, 5, 19].map(weight_of_nice), [88761, 1024, 335, 15]);
        assert_eq!((prio_of_weight(1000), prio_of_weight(u32::MAX)), (120, 100));
    }

    #[test]
    fn bound_kernel_threads_are_known_by_name() {
        assert_eq!(bound_cpu("migration/12"), Some(12));
        assert_eq!(bound_cpu("kworker/3:1-events"), Some(3));
        assert_eq!(bound_cpu("kworker/3:1H"), Some(3));
        assert_eq!(bound_cpu("kworker/u8:1"), None);
        assert_eq!(bound_cpu("kworker/R-rcu_g"), None);
        assert_eq!(bound_cpu("cc1/0"), None);
        assert_eq!(bound_cpu("hackbench"), None);
    }
}
