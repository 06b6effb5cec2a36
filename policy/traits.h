/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * traits.h - properties of a policy that concern its host. A host asks for these, and never which
 * design it has.
 *
 * Each function takes only parameters. A host in BPF has them as read-only data, so the verifier
 * removes the code for answers that it does not get. wl_traits() returns all answers at once.
 *
 * Example: wakelab without groups (idle=nearest, affine=wide, queue=fair) claims idle CPUs, keeps
 * blocks, must be told which task wakes another, and lets a task that preempts go straight to its
 * CPU if it may run there.
 */
#ifndef WL_TRAITS_H
#define WL_TRAITS_H

#include "params.h"
#include "topology.h"

/*
 * When a task may go to its CPU without wl_dispatch(), provided that no balancing is marked there.
 */
enum wl_straight {
	WL_STRAIGHT_FIRST,   /* if it is alone in the queue, and nothing runs or it preempts */
	WL_STRAIGHT_MAY_RUN, /* the same; or if it preempts, and would run next */
};

struct wl_traits {
	u32 claims;	 /* a search relies on claims: the host must not take an idle CPU twice */
	u32 times_scans; /* wl_select() may ask for the time that it took (scan_timed) */
	u32 keeps_counters;  /* counters of busy CPUs: wl_counter */
	u32 keeps_blocks;    /* bitmaps of idle CPUs: wl_block; the topology must fit them */
	u32 reads_waker;     /* wl_select() looks at the waker */
	u32 straight;	     /* enum wl_straight */
	u32 enqueue_stops;   /* wl_enqueue() of a running task does first what wl_stopping() does */
	u32 delays;	     /* a host whose queues can hold sleeping tasks should ask wl_sleep() */
	u32 own_slices;	     /* a task may ask for a slice: wl_task_slice() */
	u32 has_clusters;    /* the topology has the level CLS */
	u32 has_capacities;  /* the topology has the CPUs' capacities; else all are equal */
	u32 load_has_groups; /* a CPU's load is what groups weigh there, else what tasks weigh */
	u32 lines_of_cpu;    /* what Linux of that time reads to learn whether a CPU is idle */
};

/* ------------------------------------------------------------------ idle */

WL_INLINE u32 wl_trait_claims(const struct wl_params *params)
{
	return params->idle == WL_IDLE_NEAREST;
}

/*
 * inner: the kind of the innermost level inside the LLC, above single CPUs; WL_DIST_CPU: there is
 * none.
 */
WL_INLINE u32 wl_trait_times_scans(const struct wl_params *params, u32 inner)
{
	switch (params->idle) {
	case WL_IDLE_SCAN:
	case WL_IDLE_NARROW:
		return 1;
	case WL_IDLE_SMT_BALANCE:
		/* Without SMT and clusters the search is a scan. */
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

/* Do groups decide what runs on a CPU, and not the axis `queue`? */
WL_INLINE u32 wl_params_groups_decide(const struct wl_params *params)
{
	return params->groups == WL_GROUPS_EXACT && params->nr_groups;
}

WL_INLINE u32 wl_trait_straight(const struct wl_params *params)
{
	if (wl_params_groups_decide(params) || params->groups == WL_GROUPS_QUEUES ||
	    params->queue < WL_QUEUE_FAIR)
		return WL_STRAIGHT_FIRST;
	return WL_STRAIGHT_MAY_RUN;
}

WL_INLINE u32 wl_trait_enqueue_stops(const struct wl_params *params)
{
	return params->queue >= WL_QUEUE_FAIR && !wl_params_groups_decide(params);
}

WL_INLINE u32 wl_trait_delays(const struct wl_params *params)
{
	return params->queue >= WL_QUEUE_FAIR_2024 && !wl_params_groups_decide(params);
}

WL_INLINE u32 wl_trait_own_slices(const struct wl_params *params)
{
	return params->queue >= WL_QUEUE_FAIR && params->queue != WL_QUEUE_FAIR_2023 &&
	       !wl_params_groups_decide(params);
}

WL_INLINE u32 wl_trait_load_has_groups(const struct wl_params *params)
{
	return params->groups == WL_GROUPS_SHARES || params->groups == WL_GROUPS_LOAD ||
	       params->groups == WL_GROUPS_QUEUES;
}

/* ------------------------------------------------------------------ looks */

/*
 * The cache lines of another CPU's runqueue that a look at it fetches in the Linux that a policy is
 * of. idle_cpu() compares rq->curr, and stops there if the CPU is busy: one line. Since 5.4
 * sched_idle_cpu() then compares rq->nr_running, beside the runqueue's lock, with
 * rq->cfs.idle_h_nr_running: two more. Of a CPU that is idle, 4.15 reads two more as well
 * (nr_running, wake_list), and 5.5 one; they count as busy ones here, because a search that finds
 * one is over.
 *
 * The balancing of 5.5 and later tells that time, and the queue of 6.6 and later. wakelab has that
 * queue, so it is compared with linux-6.12 on equal terms.
 */
WL_INLINE u32 wl_trait_lines_of_cpu(const struct wl_params *params)
{
	return params->balance >= WL_BALANCING_5_12 || params->queue >= WL_QUEUE_FAIR ? 3 : 1;
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
		.delays = wl_trait_delays(params),
		.own_slices = wl_trait_own_slices(params),
		.has_clusters = params->cluster != WL_CLUSTER_OFF,
		.has_capacities = params->capacity != WL_CAPACITY_IGNORED,
		.load_has_groups = wl_trait_load_has_groups(params),
		.lines_of_cpu = wl_trait_lines_of_cpu(params),
	};
}

#endif /* WL_TRAITS_H */
