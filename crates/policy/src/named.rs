// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies with a name: what each kernel chose, and how the policy differs from that kernel. Oldest kernel first.

use crate::{
    Affine, AffineForm, AffineLoads, Balance, Capacity, Cluster, Groups, Idle, PolicySpec, Push, Queue,
    ScanForm,
};

/// A policy with a name.
#[derive(Clone, Debug)]
pub struct NamedPolicy {
    /// The first word of a policy.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// Its axes.
    pub spec: PolicySpec,
    /// How it differs from the kernel that it is named after, one sentence for each difference.
    pub approximations: &'static [&'static str],
}

/// The axes of most of them. An axis that a policy does not use has its value here.
const BASE: PolicySpec = PolicySpec {
    form: ScanForm::Linux4_15,
    affine: Affine::Wide,
    affine_form: AffineForm::Linux4_15,
    queue: Queue::Cfs2018,
    balance: Balance::Linux4_15,
    push: Push::On,
    ..PolicySpec::FIRST
};

/// The same for kernels since 2.6.38, in which a group weighs on each CPU in proportion to its load there.
const SINCE_2_6_38: PolicySpec = PolicySpec { groups: Groups::Load, ..BASE };

pub(crate) static NAMED: [NamedPolicy; 7] = [
    NamedPolicy {
        name: "linux-2.6.24",
        description: "Linux 2.6.24 (January 2008): searches only for a near idle CPU, wake-affine, the first CFS",
        spec: PolicySpec {
            form: ScanForm::Linux2_6_24,
            affine: Affine::Always,
            affine_form: AffineForm::Linux3_10,
            queue: Queue::Cfs2007,
            balance: Balance::Load,
            ..BASE
        },
        approximations: &[
            "Loads are the present sum of task weights; the kernel's are averages over ticks.",
            "Wake-affine is 3.10's: 2.6.24 has no rule for a waker without load, and pulls cache-cold tasks on sync wake-ups.",
            "A wakee stays if no wake-affine domain spans the two CPUs; the kernel may balance then (SD_WAKE_BALANCE).",
            "The walk for an idle CPU covers SMT and the LLC; the kernel's flags differed by architecture.",
            "CPU capacity is ignored: all CPUs count alike.",
            "Fork and exec go to the group with most idle CPUs, then least load; 2.6.24 compares loads with a margin.",
            "Balancing is wakelab's, by load, with the intervals of 4.15; a running task is moved only off a shared core. Under sched_ext it is never moved.",
            "A sleeper's debit is bounded by latency, and the floor of a queue's vtime follows the running task as it is picked.",
            "The batch class and compat_yield are absent.",
        ],
    },
    NamedPolicy {
        name: "linux-3.10",
        description: "Linux 3.10 (June 2013): the first wholly idle group of the LLC, wake-affine, CFS with buddies",
        spec: PolicySpec {
            form: ScanForm::Linux3_10,
            affine: Affine::Always,
            affine_form: AffineForm::Linux3_10,
            ..SINCE_2_6_38
        },
        approximations: &[
            "Loads are the present sum of task weights; the kernel's are the least or greatest of averages over ticks.",
            "CPU capacity is ignored: all CPUs count alike.",
            "Fork and exec go to the group with most idle CPUs, then least load; 3.10 compares runnable load with a margin.",
            "Balancing is 4.15's: newly-idle balancing also stops at what it costs, which 3.10 does not know.",
            "Balancing takes the CPUs that are busy now for a group's utilization; the kernel's is an average over tens of milliseconds.",
            "A group that pinned tasks keep unequal is not told apart (group_imbalanced).",
            "The idle CPU that balances for all wakes those that should pull; the kernel's pulls for them. A running task is never moved under sched_ext.",
            "The floor of a queue's vtime follows the running task as it is picked; the kernel also looks at the next one.",
            "The skip buddy and the batch and idle classes are absent.",
            "Tasks are not grouped by session (autogroup).",
            "A new task starts one slice behind the queue's floor; its parent's vtime is ignored.",
        ],
    },
    NamedPolicy {
        name: "linux-4.15",
        description: "Linux 4.15 (January 2018): limited scan of the LLC, wake-affine, CFS, active balancing",
        spec: PolicySpec { affine: Affine::Always, affine_loads: AffineLoads::Runnable, ..SINCE_2_6_38 },
        approximations: &[
            "Balancing compares present sums of task weights; the kernel's loads are decayed averages over tens of milliseconds.",
            "wake_wide is absent: a waker of many tasks is treated like any other.",
            "CPU capacity is ignored: all CPUs count alike.",
            "Fork and exec go to the group with most idle CPUs, then least load; 4.15 compares runnable load with a margin.",
            "A task that execs counts on its CPU, and leaves it for an idle one; the kernel takes the task's utilization off.",
            "Balancing takes the CPUs that are busy now for a group's utilization; the kernel's is an average over tens of milliseconds.",
            "A group that pinned tasks keep unequal is not told apart (group_imbalanced).",
            "The idle CPU that balances for all wakes those that should pull; the kernel's pulls for them. A running task is never moved under sched_ext.",
            "The floor of a queue's vtime follows the running task as it is picked; the kernel also looks at the next one.",
            "The skip buddy and the batch and idle classes are absent.",
            "A new task starts one slice behind the queue's floor; its parent's vtime is ignored.",
        ],
    },
    NamedPolicy {
        name: "linux-5.2",
        description: "Linux 5.2 (July 2019): limited scan with the recent CPU, wake_wide, CFS, active balancing",
        spec: PolicySpec { form: ScanForm::Linux5_2, affine_loads: AffineLoads::Runnable, ..SINCE_2_6_38 },
        approximations: &[
            "Balancing compares present sums of task weights; the kernel's loads are decayed averages over tens of milliseconds.",
            "A wakee stays on an idle previous CPU, as from 5.11 on; 5.2 compares loads then.",
            "The recent CPU is the one before the previous, as from 5.15 on; until then it is where the task last woke another, which is the previous one as a rule.",
            "The LLCs of a node do not spread tasks one by one, as in 4.15; in 5.2 they do (SD_PREFER_SIBLING).",
            "CPU capacity is ignored: all CPUs count alike.",
            "Fork and exec go to the group with most idle CPUs, then least load; 5.2 compares runnable load with a margin.",
            "A task that execs counts on its CPU, and leaves it for an idle one; the kernel takes the task's utilization off.",
            "Balancing takes the CPUs that are busy now for a group's utilization; the kernel's is an average over tens of milliseconds.",
            "A group that pinned tasks keep unequal is not told apart (group_imbalanced).",
            "The idle CPU that balances for all wakes those that should pull; the kernel's pulls for them. A running task is never moved under sched_ext.",
            "The floor of a queue's vtime follows the running task as it is picked; the kernel also looks at the next one.",
            "The skip buddy and the batch and idle classes are absent.",
            "A new task starts one slice behind the queue's floor; its parent's vtime is ignored.",
        ],
    },
    NamedPolicy {
        name: "linux-5.12",
        description: "Linux 5.12 (April 2021): one merged walk of the LLC, wake_wide, CFS, capacities, active balancing",
        spec: PolicySpec {
            form: ScanForm::Merged,
            affine_loads: AffineLoads::Average,
            capacity: Capacity::Aware,
            balance: Balance::Linux5_12,
            ..SINCE_2_6_38
        },
        approximations: &[
            "The recent CPU is the one before the previous, as from 5.15 on; until then it is where the task last woke another, which is the previous one as a rule.",
            "Balancing compares present sums of task weights; the kernel's loads are decayed averages over tens of milliseconds.",
            "Fork and exec go to the group with most idle CPUs, then least load, without utilization, margins or a task's preferred node.",
            "Balancing takes the CPUs that are busy now for a group's utilization, and the number of tasks for its runnable time; the kernel's are averages.",
            "Groups are told apart as spare, full and overloaded; misfit is left to single tasks, and pinned tasks' and asymmetric packing's types are absent.",
            "The idle CPU that balances for all wakes those that should pull; the kernel's pulls for them. A running task is never moved under sched_ext.",
            "The floor of a queue's vtime follows the running task as it is picked; the kernel also looks at the next one.",
            "The skip buddy and the batch and idle classes are absent.",
            "A new task starts one slice behind the queue's floor; its parent's vtime is ignored.",
            "Energy-aware placement is absent; with unequal capacities the kernel uses it where it knows energy costs.",
        ],
    },
    NamedPolicy {
        name: "linux-6.12",
        description: "Linux 6.12 (November 2024): scan limited by utilization, wake_wide, EEVDF, capacities",
        spec: PolicySpec {
            form: ScanForm::Util,
            affine_loads: AffineLoads::Average,
            cluster: Cluster::SpreadAndPack,
            queue: Queue::Fair,
            capacity: Capacity::Aware,
            balance: Balance::Linux6_12,
            ..SINCE_2_6_38
        },
        approximations: &[
            "Balancing compares present sums of task weights; the kernel's loads are decayed averages over tens of milliseconds.",
            "A task that sleeps beyond its share leaves the queue at once; the kernel delays that until it is eligible.",
            "Slices that tasks ask for, and the batch and idle classes, are absent.",
            "A task that is picked again is again protected until its deadline (RUN_TO_PARITY); the kernel protects it once per pick.",
            "The limit of a search is computed at ticks, at intervals of 1 ms per CPU of the LLC; the kernel computes it when it balances.",
            "A CPU's utilization counts all of its busy time; the kernel's counts tasks of the fair class, and goes along with a task that leaves.",
            "Fork and exec go to the group with most idle CPUs, then least load, without margins, utilization, capacity or a task's preferred node.",
            "Balancing takes the CPUs that are busy now for a group's utilization, and the number of tasks for its runnable time; the kernel's are averages.",
            "Groups are told apart as spare, full and overloaded; misfit is left to single tasks, and pinned tasks' and asymmetric packing's types are absent.",
            "The idle CPU that balances for all wakes those that should pull; the kernel's pulls for them. A running task is never moved under sched_ext.",
            "The first idle CPU of a group balances it; the kernel prefers one whose core is idle (6.6).",
            "Energy-aware placement is absent; with unequal capacities the kernel uses it where it knows energy costs.",
        ],
    },
    NamedPolicy {
        name: "wakelab",
        description: "Our best: the exact idle search, wake_wide, EEVDF, exact task groups, clusters, capacities, active balancing",
        spec: PolicySpec {
            idle: Idle::Nearest,
            cluster: Cluster::Spread,
            groups: Groups::Exact,
            queue: Queue::Fair,
            capacity: Capacity::Aware,
            balance: Balance::Load,
            ..BASE
        },
        approximations: &[],
    },
];
