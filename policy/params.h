/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * params.h - a policy's parameters: its axes with their values, the choice on each axis, and its
 * tunables.
 */
#ifndef WL_PARAMS_H
#define WL_PARAMS_H

#include "base.h"

/*
 * An axis is an enumeration here, a field of struct wl_params, a file for each of its values, and
 * one switch (core.h, queue.h). Names and descriptions elsewhere are generated from here: the
 * comment before an enumeration describes the axis, the comment before a value describes the value.
 * It may begin with the file that holds the design, and with the value's word if that does not
 * follow from its C name. A policy that does not choose has the first value.
 */

/* How an idle CPU is searched for a waking task. */
enum wl_idle_axis {
	/*
	 * idle_scan.h: Scan the LLC: for an idle core, then for an idle CPU within a limit, then
	 * for an idle sibling.
	 */
	WL_IDLE_SCAN,
	/*
	 * idle_smt_balance.h: Descend by counters of busy CPUs, with one random comparison per
	 * level.
	 */
	WL_IDLE_SMT_BALANCE,
	/*
	 * idle_narrow.h: As `scan` in its form 5.2, but the idle-CPU step skips what the idle-core
	 * step found busy.
	 */
	WL_IDLE_NARROW,
	/*
	 * idle_nearest.h: Exact, by bitmaps of idle CPUs: an idle core, then an idle CPU, each near
	 * target first; another LLC if the wait is worth it.
	 */
	WL_IDLE_NEAREST,
	/*
	 * idle_two_choices.h: Look at two random CPUs of the LLC, and take the first that is idle.
	 */
	WL_IDLE_TWO_CHOICES,
	/*
	 * idle_none.h: No search: the task goes to target, or to prev if that alone is idle.
	 */
	WL_IDLE_NONE,
};

/* Which kernel's form of `scan`. */
enum wl_scan_form {
	/*
	 * idle_walk.h: No scan: the first idle CPU of the core, then of the LLC, unless tasks
	 * already wait on the target.
	 */
	WL_SCAN_2_6_24,
	/*
	 * idle_walk.h: The first wholly idle group, from the LLC's cores down to the core's
	 * threads, without limits.
	 */
	WL_SCAN_3_10,
	/*
	 * idle_scan.h: No recent CPU; the limit of the idle-CPU step follows the averages of idle
	 * and scan times.
	 */
	WL_SCAN_4_15,
	/*
	 * idle_scan.h: As 4.15, but it first looks at the CPU that the task used before its
	 * previous one.
	 */
	WL_SCAN_5_2,
	/*
	 * idle_merged.h: Linux 5.12: one walk for an idle core and an idle CPU, limited by idle and
	 * scan times.
	 */
	WL_SCAN_MERGED,
	/*
	 * idle_merged.h: Linux 5.15 to 5.19: the same walk; the idle time of its limit is aged with
	 * every tick and used up by searches.
	 */
	WL_SCAN_AGED,
	/* idle_merged.h: Linux 6.12: the same walk, limited by the LLC's utilization (SIS_UTIL). */
	WL_SCAN_UTIL,
	/*
	 * idle_merged.h: Kernels with `sched_vcpu_pack`: as util, but only if a task already waits
	 * on the target, and without a look at the recent CPU.
	 */
	WL_SCAN_PACKED,
	/* idle_node.h: SIS_NODE of 2023: as util, and then the other LLCs of target's node. */
	WL_SCAN_NODE,
	/* idle_node.h: As node, but at most four other LLCs. */
	WL_SCAN_NODE_4,
};

/* Where `smt-balance` takes its random numbers from. */
enum wl_rotor {
	/*
	 * idle_smt_balance.h: One counter per CPU, as published; its even stride misses half of the
	 * cores if their number is even.
	 */
	WL_ROTOR_PUBLISHED,
	/* idle_smt_balance.h: The same counter, with its bits mixed. */
	WL_ROTOR_MIXED,
};

/* Whether a wakee may be pulled to its waker's CPU. */
enum wl_affine_axis {
	/* Never: the search starts at the previous CPU. */
	WL_AFFINE_OFF,
	/* wake_affine.h: Whenever loads allow it. */
	WL_AFFINE_ALWAYS,
	/*
	 * wake_flips.h: As `always`, except by a waker of many tasks if the wakee wakes many too.
	 */
	WL_AFFINE_FLIPS,
	/*
	 * wake_wide.h: Today's rules: not if waker or wakee wakes many tasks; idle CPUs first, then
	 * loads.
	 */
	WL_AFFINE_WIDE,
};

/* Which kernel's form of `affine=always`. */
enum wl_affine_form {
	/* wake_affine.h: The load rules. */
	WL_AFFINE_3_10,
	/*
	 * wake_affine.h: The load rules, and pulls to an idle CPU or to a sync waker that runs
	 * alone.
	 */
	WL_AFFINE_4_15,
};

/* Which loads wake-affine compares. */
enum wl_affine_loads {
	/* loads.h: The weights of the tasks that are runnable now. */
	WL_LOADS_NOW,
	/* loads.h: Averages of the tasks that are runnable now; Linux from 3.11 until 5.4. */
	WL_LOADS_RUNNABLE,
	/* loads.h: Averages of all tasks that ran there last, asleep or not; Linux since 5.5. */
	WL_LOADS_AVERAGE,
};

/* How many flips count as many, with `affine=flips`. */
enum wl_factor {
	/* wake_flips.h: As many as the NUMA node has CPUs. */
	WL_FACTOR_NODE,
	/* wake_flips.h: As many as the LLC has CPUs. */
	WL_FACTOR_LLC,
	/* wake_flips.h: As many as the machine has CPUs. */
	WL_FACTOR_MACHINE,
};

/* Whether clusters of cores are a separate level. */
enum wl_cluster_axis {
	/* No: inside an LLC, cores are compared directly. */
	WL_CLUSTER_OFF,
	/*
	 * cluster.h: Yes: balancing, fork and exec spread tasks over clusters first (Linux 5.16).
	 */
	WL_CLUSTER_SPREAD,
	/* cluster.h: As spread, and wake-ups look into the target's cluster first (Linux 6.7). */
	WL_CLUSTER_SPREAD_AND_PACK,
};

/* How task groups weigh on CPUs. */
enum wl_groups_axis {
	/*
	 * groups_task_weight.h: Linux 2.6.24: a group weighs its shares on each CPU; balancing goes
	 * by task weights, within a limit per group.
	 */
	WL_GROUPS_TASK_WEIGHT,
	/*
	 * groups_shares.h: A group weighs on each CPU in proportion to its load there, computed at
	 * intervals; balancing goes by group weights.
	 */
	WL_GROUPS_SHARES,
	/*
	 * groups_load.h: Linux 2.6.38 and later: a group weighs on each CPU in proportion to its
	 * load there, at once; balancing goes by group weights.
	 */
	WL_GROUPS_LOAD,
	/*
	 * groups_queues.h: As load, and each group is a queue on each CPU, as in Linux; with
	 * queue=fair-2023 and later.
	 */
	WL_GROUPS_QUEUES,
	/*
	 * groups_exact.h: wakelab's own: always run the group that is furthest behind its
	 * entitlement. Where there are groups, it replaces what `queue` and `push` say.
	 */
	WL_GROUPS_EXACT,
};

/* Order of a CPU's queue, slices, wake-up preemption and sleeper credit. */
enum wl_queue_axis {
	/*
	 * queue_cfs.h: Linux 2.6.24: sleepers get twice the credit, and waking tasks seldom
	 * preempt.
	 */
	WL_QUEUE_CFS_2007,
	/*
	 * queue_cfs.h: Linux's fair scheduler from 2.6.32 to 6.5: weighted virtual time, and a task
	 * whose wake-up preempts runs next (buddies).
	 */
	WL_QUEUE_CFS_2018,
	/* queue_fair.h: What wakelab uses: eligible tasks by virtual deadline (EEVDF). */
	WL_QUEUE_FAIR,
	/* queue_fair.h: Linux 6.6: as fair, but a wakee preempts only if it comes first. */
	WL_QUEUE_FAIR_2023,
	/*
	 * queue_delayed.h: Linux 6.12: as fair-2023, and sleepers beyond their share stay queued.
	 */
	WL_QUEUE_FAIR_2024,
	/*
	 * queue_delayed.h: Linux 6.17: as fair-2024, with shorter slices that end at every event.
	 */
	WL_QUEUE_FAIR_2025,
};

/* Whether a running task keeps its CPU until its slice is over. */
enum wl_parity {
	/* queue_fair.h: Yes, as long as it is eligible (RUN_TO_PARITY). */
	WL_PARITY_ON,
	/* queue_fair.h: No: an eligible task with an earlier deadline preempts it. */
	WL_PARITY_OFF,
};

/* Whether CPUs of unequal speed are told apart. */
enum wl_capacity_axis {
	/* No: all CPUs count alike. */
	WL_CAPACITY_IGNORED,
	/*
	 * capacity.h: Wake-ups look for a CPU that the task fits; balancing compares load per
	 * capacity.
	 */
	WL_CAPACITY_AWARE,
};

/* How CPUs are compared when one looks for work. */
enum wl_balance_axis {
	/* balance_load.h: wakelab's: groups by their load; an idle CPU is asked at each tick. */
	WL_BALANCING_LOAD,
	/*
	 * balance_4_15.h: Linux 4.15 to 5.4: overloaded groups first, then by load; each level at
	 * intervals.
	 */
	WL_BALANCING_4_15,
	/*
	 * balance_5_12.h: Linux 5.5 to 5.15: groups by spare capacity; numbers of tasks while there
	 * is some, loads when there is none; the first new tasks stay in their node; a look at
	 * a CPU reads three of its lines, not one, as with the queues of 6.6 and later.
	 */
	WL_BALANCING_5_12,
	/*
	 * balance_5_12.h: Linux 5.16 and later: the same; a CPU that goes idle looks for work
	 * whenever that costs less than the time it expects to idle.
	 */
	WL_BALANCING_6_12,
};

/* Where a new or exec'ing task goes. */
enum wl_fork_axis {
	/* placement.h: Level by level into the group with most idle CPUs. */
	WL_FORK_IDLEST,
	/*
	 * placement.h: Its parent's CPU if nothing but the parent runs there, else the idlest;
	 * balancing may move it from there.
	 */
	WL_FORK_PARENT,
};

/* Whether a running task may be moved (active balancing). */
enum wl_push_axis {
	/* No: balancing moves queued tasks only. */
	WL_PUSH_OFF,
	/*
	 * push.h: After failed tries: from a shared core to an idle one, or to a CPU that the task
	 * fits.
	 */
	WL_PUSH_ON,
};

/*
 * A policy: one choice on each axis, and its tunables. Plain data; the Rust side fills it from
 * names and TOML. The comment of an axis says "with" if only some values of another axis use it.
 */
struct wl_params {
	u32 idle;	  /* enum wl_idle_axis */
	u32 scan_form;	  /* "form" with idle=scan: enum wl_scan_form */
	u32 rotor;	  /* with idle=smt-balance: enum wl_rotor */
	u32 affine;	  /* enum wl_affine_axis */
	u32 affine_form;  /* with affine=always, flips: enum wl_affine_form */
	u32 factor;	  /* with affine=flips: enum wl_factor */
	u32 affine_loads; /* enum wl_affine_loads */
	u32 cluster;	  /* enum wl_cluster_axis */
	u32 groups;	  /* enum wl_groups_axis */
	u32 queue;	  /* enum wl_queue_axis */
	u32 parity;	  /* with queue=fair, fair-2023, fair-2024, fair-2025: enum wl_parity */
	u32 capacity;	  /* enum wl_capacity_axis */
	u32 balance;	  /* enum wl_balance_axis */
	u32 push;	  /* enum wl_push_axis */
	u32 fork;	  /* enum wl_fork_axis */
	/* tunables: the kernel's sysctls of these names, scaled by 1 + log2(min(CPUs, 8)) */
	u64 latency_ns; /* the time in which each runnable task of a CPU runs once */
	/* the shortest slice; with queue=fair.. every slice; groups=exact: within a group */
	u64 min_granularity_ns;
	u64 wakeup_granularity_ns; /* how far behind a waking task must be to preempt */
	u64 migration_cost_ns;	   /* a CPU whose mean idle period is shorter does not pull */
	u64 shares_min_ns;	   /* groups=shares: the wait after a pass that changed a weight */
	u64 shares_max_ns; /* groups=shares: the longest wait, after passes that changed none */
	u64 wait_max_ns;   /* a task that has waited for longer goes first: wait.h; 0: no bound */
	u64 tick_ns;	   /* the host's tick; balancing intervals are multiples of it */
	u32 nr_groups;	   /* slots of the host's group records, with the root's; 0: no groups */
};

#endif /* WL_PARAMS_H */
