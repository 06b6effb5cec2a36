/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * params.h - a policy's parameters: its axes with their values, one choice on each, and its
 * tunables.
 */
#ifndef WL_PARAMS_H
#define WL_PARAMS_H

#include "base.h"

enum wl_idle_axis {
	WL_IDLE_SCAN,	     /* idle_scan.h */
	WL_IDLE_SMT_BALANCE, /* idle_smt_balance.h */
	WL_IDLE_NARROW,	     /* idle_narrow.h */
	WL_IDLE_NEAREST,     /* idle_nearest.h */
	WL_NR_IDLE,
};

enum wl_scan_form {
	WL_SCAN_2_6_24, /* idle_walk.h */
	WL_SCAN_3_10,	/* idle_walk.h */
	WL_SCAN_4_15,	/* no recent CPU */
	WL_SCAN_5_2,	/* and the recent CPU */
	WL_SCAN_MERGED, /* idle_merged.h, limited by times (SIS_PROP) */
	WL_SCAN_UTIL,	/* idle_merged.h, limited by the LLC's utilization (SIS_UTIL) */
	WL_NR_SCAN_FORM,
};

enum wl_rotor {
	WL_ROTOR_PUBLISHED, /* one counter a CPU, incremented at each use */
	WL_ROTOR_MIXED, /* the same counter, mixed: two uses a search no longer make an even stride */
	WL_NR_ROTOR,
};

enum wl_affine_axis {
	WL_AFFINE_OFF,	  /* target = prev, always */
	WL_AFFINE_ALWAYS, /* wake_affine.h */
	WL_AFFINE_FLIPS,  /* wake_flips.h */
	WL_AFFINE_WIDE,	  /* wake_wide.h */
	WL_NR_AFFINE,
};

enum wl_affine_form {
	WL_AFFINE_3_10, /* the load rules */
	WL_AFFINE_4_15, /* and: pull whenever this is idle */
	WL_NR_AFFINE_FORM,
};

enum wl_factor {
	WL_FACTOR_NODE,	   /* CPUs of this's NUMA node */
	WL_FACTOR_LLC,	   /* CPUs of this's LLC */
	WL_FACTOR_MACHINE, /* all CPUs */
	WL_NR_FACTOR,
};

enum wl_cluster_axis {
	WL_CLUSTER_OFF,		    /* no CLS level */
	WL_CLUSTER_SPREAD,	    /* cluster.h: between SMT and LLC */
	WL_CLUSTER_SPREAD_AND_PACK, /* and wake-ups look into target's cluster first */
	WL_NR_CLUSTER,
};

enum wl_groups_axis {
	WL_GROUPS_TASK_WEIGHT, /* groups_task_weight.h */
	WL_GROUPS_SHARES,      /* groups_shares.h */
	WL_GROUPS_EXACT,       /* groups_exact.h */
	WL_NR_GROUPS,
};

enum wl_queue_axis {
	WL_QUEUE_CFS_2007, /* queue_cfs.h */
	WL_QUEUE_CFS_2013, /* queue_cfs.h and queue_buddies.h */
	WL_QUEUE_CFS_2018, /* queue_cfs.h */
	WL_QUEUE_FAIR,	   /* queue_fair.h */
	WL_NR_QUEUE,
};

enum wl_capacity_axis {
	WL_CAPACITY_IGNORED, /* all CPUs count alike */
	WL_CAPACITY_AWARE,   /* capacity.h */
	WL_NR_CAPACITY,
};

enum wl_push_axis {
	WL_PUSH_OFF, /* balancing moves queued tasks only */
	WL_PUSH_ON,  /* push.h */
	WL_NR_PUSH,
};

/*
 * A policy: one choice on each axis, and its tunables. Plain data; the Rust side fills it from
 * names and TOML.
 */
struct wl_params {
	u32 idle;
	u32 scan_form;
	u32 rotor;
	u32 affine;
	u32 affine_form;
	u32 factor;
	u32 cluster;
	u32 groups;
	u32 queue;
	u32 capacity;
	u32 push;
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
