/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * params.h - a policy's parameters: its axes with their values, one choice on each, and its
 * tunables.
 */
#ifndef WL_PARAMS_H
#define WL_PARAMS_H

#include "base.h"

/*
 * An axis is an enumeration here, a field of struct wl_params, a file for each of its values, and
 * one switch (core.h, queue.h). Names, words and descriptions elsewhere are generated from here:
 * the comment before an enumeration describes the axis, that of a value the value. It may open with
 * the file that holds the design, and with the value's word where its name does not give it. The
 * first value is what a policy has that says nothing.
 */

/* How an idle CPU is searched for a waking task. */
enum wl_idle_axis {
	/*
	 * idle_scan.h: Scan the LLC: an idle core, then an idle CPU within a limit, then an idle
	 * sibling.
	 */
	WL_IDLE_SCAN,
	/* idle_smt_balance.h: Descend by counters of busy CPUs, one random comparison a level. */
	WL_IDLE_SMT_BALANCE,
	/*
	 * idle_narrow.h: `scan`, form 5.2, whose idle-CPU step leaves out what the idle-core step
	 * found busy.
	 */
	WL_IDLE_NARROW,
	/*
	 * idle_nearest.h: Exact, by words of idle CPUs: an idle core, then an idle CPU, each near
	 * target first; another LLC if the wait is worth it.
	 */
	WL_IDLE_NEAREST,
	/*
	 * idle_two_choices.h: Look at two random CPUs of the LLC, and take the first that is idle.
	 */
	WL_IDLE_TWO_CHOICES,
	WL_NR_IDLE,
};

/* Which kernel's form of `scan`. */
enum wl_scan_form {
	/*
	 * idle_walk.h: No scan: the first idle CPU of the core, then of the LLC, unless tasks wait
	 * on the target already.
	 */
	WL_SCAN_2_6_24,
	/*
	 * idle_walk.h: The first wholly idle group, from the LLC's cores down to the core's
	 * threads, without limits.
	 */
	WL_SCAN_3_10,
	/*
	 * idle_scan.h: No recent CPU; the limit of the idle-CPU step follows average idle and scan
	 * times.
	 */
	WL_SCAN_4_15,
	/*
	 * idle_scan.h: As 4.15, and the CPU that the task used before the previous one is looked at
	 * first.
	 */
	WL_SCAN_5_2,
	/*
	 * idle_merged.h: Linux 5.12: one walk for an idle core and an idle CPU, limited by times.
	 */
	WL_SCAN_MERGED,
	/* idle_merged.h: Linux 6.12: the same walk, limited by the LLC's utilization (SIS_UTIL). */
	WL_SCAN_UTIL,
	WL_NR_SCAN_FORM,
};

/* Where `smt-balance` takes its random numbers from. */
enum wl_rotor {
	/*
	 * idle_smt_balance.h: One counter a CPU, as published; its even stride misses half of an
	 * even number of cores.
	 */
	WL_ROTOR_PUBLISHED,
	/* idle_smt_balance.h: The same counter, mixed. */
	WL_ROTOR_MIXED,
	WL_NR_ROTOR,
};

/* Whether a wakee may be pulled to its waker's CPU. */
enum wl_affine_axis {
	/* Never: the search starts at the previous CPU. */
	WL_AFFINE_OFF,
	/* wake_affine.h: Whenever loads allow it. */
	WL_AFFINE_ALWAYS,
	/* wake_flips.h: As `always`, but not by a waker of many, if the wakee wakes many too. */
	WL_AFFINE_FLIPS,
	/*
	 * wake_wide.h: Today's rules: not if one of the two wakes many; idle CPUs first, then
	 * loads.
	 */
	WL_AFFINE_WIDE,
	WL_NR_AFFINE,
};

/* Which kernel's form of `affine=always`. */
enum wl_affine_form {
	/* wake_affine.h: The load rules. */
	WL_AFFINE_3_10,
	/*
	 * wake_affine.h: The load rules, and pull to an idle CPU or to a sync waker that runs
	 * alone.
	 */
	WL_AFFINE_4_15,
	WL_NR_AFFINE_FORM,
};

/* How many flips are many, with `affine=flips`. */
enum wl_factor {
	/* wake_flips.h: As many as the NUMA node has CPUs. */
	WL_FACTOR_NODE,
	/* wake_flips.h: As many as share the LLC. */
	WL_FACTOR_LLC,
	/* wake_flips.h: As many as the machine has. */
	WL_FACTOR_MACHINE,
	WL_NR_FACTOR,
};

/* Whether clusters of cores are a separate level. */
enum wl_cluster_axis {
	/* No: inside an LLC cores are compared directly. */
	WL_CLUSTER_OFF,
	/*
	 * cluster.h: Yes: tasks spread over clusters first, by balancing, fork and exec (Linux
	 * 5.16).
	 */
	WL_CLUSTER_SPREAD,
	/* cluster.h: As spread, and wake-ups look into the target's cluster first (Linux 6.7). */
	WL_CLUSTER_SPREAD_AND_PACK,
	WL_NR_CLUSTER,
};

/* How task groups weigh on CPUs. */
enum wl_groups_axis {
	/*
	 * groups_task_weight.h: Linux 2.6.24: their shares on each CPU; balancing by task weights,
	 * within a limit a group.
	 */
	WL_GROUPS_TASK_WEIGHT,
	/*
	 * groups_shares.h: On each CPU what part of their load is there, computed at intervals;
	 * balancing by group weights.
	 */
	WL_GROUPS_SHARES,
	/*
	 * groups_exact.h: wakelab's: always run the group furthest behind its entitlement.
	 * Overrides the axes `queue` and `push`.
	 */
	WL_GROUPS_EXACT,
	WL_NR_GROUPS,
};

/* Order of a CPU's queue, slices, wake-up preemption and sleeper credit. */
enum wl_queue_axis {
	/*
	 * queue_cfs.h: Linux 2.6.24: sleepers get twice the credit, and waking tasks preempt
	 * seldom.
	 */
	WL_QUEUE_CFS_2007,
	/*
	 * queue_buddies.h: Linux around 3.10: as cfs-2018, and a task whose wake-up preempts runs
	 * next (buddies).
	 */
	WL_QUEUE_CFS_2013,
	/* queue_cfs.h: Linux's fair scheduler around 4.15, with weighted virtual time. */
	WL_QUEUE_CFS_2018,
	/* queue_fair.h: Linux 6.12: eligible tasks by virtual deadline (EEVDF). */
	WL_QUEUE_FAIR,
	WL_NR_QUEUE,
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
	WL_NR_CAPACITY,
};

/* Whether a task that runs may be moved (active balancing). */
enum wl_push_axis {
	/* No: balancing moves queued tasks only. */
	WL_PUSH_OFF,
	/*
	 * push.h: After failed tries: from a core that is shared to an idle one, or to a CPU that
	 * it fits.
	 */
	WL_PUSH_ON,
	WL_NR_PUSH,
};

/*
 * A policy: one choice on each axis, and its tunables. Plain data; the Rust side fills it from
 * names and TOML. An axis that only some values of another look at says so ("with"), and so does
 * one that some values of another override ("not with").
 */
struct wl_params {
	u32 idle;	 /* enum wl_idle_axis */
	u32 scan_form;	 /* "form" with idle=scan: enum wl_scan_form */
	u32 rotor;	 /* with idle=smt-balance: enum wl_rotor */
	u32 affine;	 /* enum wl_affine_axis */
	u32 affine_form; /* with affine=always, flips: enum wl_affine_form */
	u32 factor;	 /* with affine=flips: enum wl_factor */
	u32 cluster;	 /* enum wl_cluster_axis */
	u32 groups;	 /* enum wl_groups_axis */
	u32 queue;	 /* not with groups=exact: enum wl_queue_axis */
	u32 capacity;	 /* enum wl_capacity_axis */
	u32 push;	 /* not with groups=exact: enum wl_push_axis */
	/* tunables: the kernel's sysctls of these names, scaled by 1 + log2(min(CPUs, 8)) */
	u64 latency_ns;		   /* one turn of all runnable tasks of a CPU */
	u64 min_granularity_ns;	   /* the least slice; with queue=fair every slice */
	u64 wakeup_granularity_ns; /* how far behind a waking task must be to preempt */
	u64 migration_cost_ns; /* a CPU whose idle periods are shorter on average does not pull */
	u64 shares_min_ns;     /* groups=shares: from a pass that changed a weight to the next */
	u64 shares_max_ns;     /* and at most, if none changes any */
	u64 tick_ns;	       /* the host's tick; balancing intervals are multiples of it */
	u32 nr_groups; /* slots of the host's group records, the root's included; 0: it has none */
	u32 unused;
};

#endif /* WL_PARAMS_H */
