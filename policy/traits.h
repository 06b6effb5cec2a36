/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * traits.h - what a policy is like to its host: a host asks this, and never which design it has.
 *
 * Each function is asked of parameters alone, so that a host in BPF, whose copy of them is
 * read-only data, loses the code of the answers that it does not get. wl_traits() has all answers
 * at once.
 *
 * Example: wakelab (idle=nearest, affine=wide, queue=fair) claims idle CPUs, keeps blocks, is told
 * who wakes, and lets a task that preempts go straight to its CPU if it may run there.
 */
#ifndef WL_TRAITS_H
#define WL_TRAITS_H

#include "params.h"
#include "topology.h"

/* When a task may go to its CPU without wl_dispatch(), if no balancing is marked there. */
enum wl_straight {
	WL_STRAIGHT_NEVER, /* wl_dispatch() compares CPUs at each choice */
	WL_STRAIGHT_FIRST, /* alone in the queue, and either nothing runs or it preempts */
	WL_STRAIGHT_MAY_RUN, /* the same; one that preempts, if wl_may_run() takes it and it is first */
};

struct wl_traits {
	u32 claims;	 /* a search relies on claims: the host must not take an idle CPU twice */
	u32 times_scans; /* wl_select() may ask for the time that it took (scan_timed) */
	u32 keeps_counters;  /* counters of busy CPUs: wl_counter */
	u32 keeps_blocks;    /* words of idle CPUs: wl_block; the topology must fit them */
	u32 reads_waker;     /* wl_select() looks at the waker */
	u32 straight;	     /* enum wl_straight */
	u32 enqueue_stops;   /* wl_enqueue() of a running task does what wl_stopping() does first */
	u32 has_clusters;    /* the topology has the level CLS */
	u32 has_capacities;  /* the topology has the CPUs' capacities; else all are equal */
	u32 load_has_groups; /* a CPU's load is what groups weigh there, else what tasks weigh */
};

/* ------------------------------------------------------------------ idle */

WL_INLINE u32 wl_trait_claims(const struct wl_params *params)
{
	return params->idle == WL_IDLE_NEAREST;
}

/* inner: the kind of the innermost level inside the LLC above single CPUs; WL_DIST_CPU: none. */
WL_INLINE u32 wl_trait_times_scans(const struct wl_params *params, u32 inner)
{
	switch (params->idle) {
	case WL_IDLE_SCAN:
	case WL_IDLE_NARROW:
		return 1;
	case WL_IDLE_SMT_BALANCE:
		/* Without SMT and clusters it is a scan. */
		return inner == WL_DIST_CPU || inner > WL_DIST_CLS;
	default:
		return 0;
	}
}

WL_INLINE u32 wl_trait_keeps_counters(const struct wl_params *params)
{
	return params->idle == WL_IDLE_SMT_BALANCE;
}

WL_INLINE u32 wl_trait_keeps_blocks(const struct wl_params *params)
{
	return params->idle == WL_IDLE_NEAREST;
}

/* ------------------------------------------------------------------ affine */

WL_INLINE u32 wl_trait_reads_waker(const struct wl_params *params)
{
	return params->affine != WL_AFFINE_OFF;
}

/* ------------------------------------------------------------------ queue and groups */

WL_INLINE u32 wl_trait_straight(const struct wl_params *params)
{
	if (params->groups == WL_GROUPS_EXACT)
		return WL_STRAIGHT_NEVER;
	return params->queue == WL_QUEUE_FAIR ? WL_STRAIGHT_MAY_RUN : WL_STRAIGHT_FIRST;
}

WL_INLINE u32 wl_trait_enqueue_stops(const struct wl_params *params)
{
	return params->queue == WL_QUEUE_FAIR && params->groups != WL_GROUPS_EXACT;
}

WL_INLINE u32 wl_trait_load_has_groups(const struct wl_params *params)
{
	return params->groups == WL_GROUPS_SHARES;
}

/* ------------------------------------------------------------------ all */

WL_INLINE struct wl_traits wl_traits(const struct wl_params *params, u32 inner)
{
	return (struct wl_traits){
		.claims = wl_trait_claims(params),
		.times_scans = wl_trait_times_scans(params, inner),
		.keeps_counters = wl_trait_keeps_counters(params),
		.keeps_blocks = wl_trait_keeps_blocks(params),
		.reads_waker = wl_trait_reads_waker(params),
		.straight = wl_trait_straight(params),
		.enqueue_stops = wl_trait_enqueue_stops(params),
		.has_clusters = params->cluster != WL_CLUSTER_OFF,
		.has_capacities = params->capacity != WL_CAPACITY_IGNORED,
		.load_has_groups = wl_trait_load_has_groups(params),
	};
}

#endif /* WL_TRAITS_H */
