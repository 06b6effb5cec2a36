/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * numa.h - balance=5.12 and 6.12: a few tasks may stay together in a node, because they may talk to
 * each other.
 *
 * Between nodes Linux leaves a difference of at most a pair of tasks as it is, while the node has
 * few of them. So does balancing (balance_5_12.h), and so do fork and exec (placement.h).
 *	5.12	Few are less than a quarter of the CPUs: for balancing, of the node that would give;
 *		for a new task, of the whole domain, however large the difference is
 *		(allow_numa_imbalance() of Linux 5.11).
 *	6.12	Few are, with the task that would come, an eighth of the node's CPUs, or as many as
 *		it has LLCs if these are several, but at least one (imb_numa_nr of Linux 5.18). A
 *		domain of more than the nearest nodes may have as many times more as it has CPUs
 *		more. A new task also counts the CPUs of the node that it may run on: few are at
 *		most as many.
 *
 * Example: 2 nodes of 16 CPUs with one LLC each. One task runs in node 0 and forks. In 6.12 node 0
 * may hold 16 / 8 = 2 tasks, and has 15 idle CPUs to node 1's 16, so the new task stays. The next
 * one would be the third, and goes to node 1. In 5.12 it stays, and so do the next ones, until 8
 * tasks run in node 0: a quarter of 32 CPUs.
 *
 * Cost: nothing is read that balancing and placement do not read anyway. It fails where tasks that
 * were forked together need a node's memory or cache each. Tasks that sleep as soon as they are
 * forked do not count, so a node keeps all of them; when they run at once, one node is overloaded
 * until balancing has spread them, which takes seconds.
 */
#ifndef WL_NUMA_H
#define WL_NUMA_H

#include "access.h"

#define WL_NUMA_DIFFERENCE 2 /* NUMA_IMBALANCE_MIN */

/* Does a level join nodes? */
WL_INLINE u32 wl_joins_nodes(struct wl_policy *p, u32 level)
{
	return wl_level_of(p, level)->kind >= WL_DIST_NUMA1;
}

/* The number of CPUs in cpu's domain at a level. */
WL_INLINE u32 wl_span(struct wl_policy *p, u32 level, u32 cpu)
{
	struct wl_level *lv = wl_level_of(p, level);

	return wl_entry(lv->weight, wl_entry(lv->dom_of, cpu));
}

/* 6.12: the number of tasks up to which cpu's group may differ from others at a level of nodes. */
WL_FN int wl_numa_allowed(struct wl_policy *p WL_ARG, u32 level, u32 cpu)
{
	u32 nearest = level, span, llc_span, allowed, i;

	wl_for_levels (p, i, 1) {
		if (wl_joins_nodes(p, i)) {
			nearest = i;
			break;
		}
	}
	span = wl_span(p, nearest - 1, cpu);
	llc_span = wl_span(p, p->topo.llc_level, cpu);
	allowed = span > llc_span ? wl_div(span, llc_span) : span / 8;
	return (allowed ? allowed : 1) * wl_div(wl_span(p, level, cpu), wl_span(p, nearest, cpu));
}

#endif /* WL_NUMA_H */
