/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * topology.h - domain levels as flat tables, and the distance between two CPUs.
 *
 * A level is a partition of all CPUs into domains. Level 0 is trivial: one domain per CPU. Above it
 * are, smallest first, those of SMT, CLS, LLC, NODE, NUMA1.. that the machine has and the policy
 * uses. A level whose domains have one group each is dropped, and so is the upper of two levels
 * that span the same CPUs. The *groups* of a domain at level l are the domains of level l - 1
 * inside it; domains are numbered so that the groups of one domain are consecutive.
 *
 * Example: 2 sockets x 2 cores x 2 threads, numbered as on x86 (CPU c and c + 4 share a core; CPUs
 * 0, 1, 4, 5 are socket 0), one LLC per socket:
 *	level 0  CPU    domains {0} {4} {1} {5} {2} {6} {3} {7}
 *	level 1  SMT    domains {0,4} {1,5} {2,6} {3,7}
 *	level 2  LLC    domains {0,1,4,5} {2,3,6,7}          <- llc_level
 *	level 3  NUMA1  domain  {0..7}          (NODE spans the same CPUs as LLC and is dropped)
 * cpus[] of level 2 is 0 1 4 5 2 3 6 7: inside a domain CPUs are in numeric order, the order of a
 * scan.
 *
 * If the CPUs' numbers have gaps, because CPUs are offline, a number without a CPU is a separate
 * domain at each level, so that no loop over a domain with CPUs meets it.
 *
 * The tables are computed once for both hosts, in Rust (crates/policy, Tables::build), and
 * installed here.
 */
#ifndef WL_TOPOLOGY_H
#define WL_TOPOLOGY_H

#include "base.h"

#define WL_MAX_LEVELS  8
#define WL_MAX_THREADS 64 /* of a core */

/* The distance between two CPUs: the smallest thing that they share. Also the kind of a level. */
enum wl_dist {
	WL_DIST_CPU,   /* the same CPU */
	WL_DIST_SMT,   /* the same core */
	WL_DIST_CLS,   /* the same cluster of cores */
	WL_DIST_LLC,   /* the same last-level cache */
	WL_DIST_NODE,  /* the same NUMA node, another last-level cache */
	WL_DIST_NUMA1, /* another node, at the smallest distance that the machine has */
	WL_DIST_NUMA2,
	WL_DIST_NUMA3, /* another node, at the third distance or farther */
	WL_NR_DIST,
};

/*
 * ACPI's distance of a node from itself. Other distances are relative to it, as access times are.
 */
#define WL_LOCAL_DISTANCE 10

struct wl_level {
	u32 kind; /* enum wl_dist */
	u32 nr_doms;
	u32 imbalance_pct; /* 110 for SMT, 117 inside an LLC, 125 beyond (Linux's sd_init) */
	u32 has_counters;  /* its domains have a busy counter (levels 1 .. llc_level - 1) */
	u32 counter_base;  /* counter of domain d: counter[counter_base + d] */
	u32 wake_affine;   /* wake-ups, forks, execs may cross it: nodes 30 apart, on EPYC 32 */
	u32 distance; /* ACPI's distance of its farthest nodes; WL_LOCAL_DISTANCE inside one node */
	u16 dom_of[WL_MAX_CPUS];   /* CPU -> domain */
	u16 first[WL_MAX_CPUS];	   /* domain -> index of its first CPU in cpus[] */
	u16 weight[WL_MAX_CPUS];   /* domain -> number of CPUs */
	u16 child[WL_MAX_CPUS];	   /* domain -> its first group, a domain of the level below */
	u16 nr_child[WL_MAX_CPUS]; /* domain -> number of groups */
	u16 cpus[WL_MAX_CPUS];	   /* all CPUs, by domain, then by number */
	u16 pos[WL_MAX_CPUS];	   /* CPU -> its index in cpus[] */
};

struct wl_topo {
	u32 nr_cpus;   /* one more than the highest number */
	u32 nr_levels; /* including level 0 */
	u32 llc_level; /* the highest level whose CPUs share the LLC; 0 if every CPU has its own */
	u32 smt_level; /* 1 if level 1 is SMT, else 0 */
	u32 unequal;   /* 1: capacities differ, and the policy looks at them */
	u32 slots;     /* bits that a core has in the bitmaps of its block: 1, 2, 4 .. 64 */
	u16 cluster_of[WL_MAX_CPUS]; /* even where the policy drops CLS; 0xffff: no cluster */
	/* of the fastest, or if the policy ignores them: 1024; of a number without a CPU: 0 */
	u16 capacity[WL_MAX_CPUS];
	u16 llc_first[WL_MAX_CPUS]; /* CPU -> the first CPU of its LLC */
	u16 block_of[WL_MAX_CPUS];  /* CPU -> its block (idle_nearest.h); of an LLC, consecutive */
	u16 slot_of[WL_MAX_CPUS];   /* CPU -> its bit in the bitmaps of its block */
	struct wl_level level[WL_MAX_LEVELS];
};

#endif /* WL_TOPOLOGY_H */
