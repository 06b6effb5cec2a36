/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * balance_5_12.h - balance=5.12 and 6.12: what a CPU pulls since Linux 5.5, by groups' types.
 *
 * The busiest group has the highest type: overloaded before full before spare. Of overloaded ones
 * it is the one with the highest average load, of full ones the first, of those with spare capacity
 * the one with fewest idle CPUs and then most tasks. A group of a higher type than the busiest
 * pulls nothing.
 *   spread	Where the groups of a domain are inside a node (SD_PREFER_SIBLING), a group with
 *		room pulls from one with two tasks more, whatever else holds.
 *   spare	Otherwise, from a group that is not overloaded only an idle CPU pulls, if its own
 *		group has at least two idle CPUs more (single CPUs: if the other has two tasks).
 *   overloaded	If both are overloaded: if the own average is below the domain's, and
 *		100 * busiest > percent * own.
 *   how much	By a group with room: half of the difference in tasks (spread, and single CPUs) or
 *		in idle CPUs; but from an overloaded group of another LLC as many tasks as CPUs idle.
 *		Between nodes, none if it is at most 2 and the node that would receive (6.12) or give
 *		(5.12) has few tasks (numa.h). By a group without room: load, as in balance_4_15.h.
 * 6.12 differs in when a newly idle CPU looks: not only if its mean idle period is at least
 * migration_cost, but whenever that exceeds what looking costs (newly_idle.h).
 *
 * Example: 2 nodes of one LLC with 4 CPUs. Node 0 runs 3 tasks, node 1 none, and CPU 4 balances the
 * machine: node 0 has two tasks more, so half of 3 may move, 1; but 3 tasks are no less than a
 * quarter of 4 CPUs, so the move is not left out. In 6.12 node 1 may hold max(1, 4 / 8) = 1 task by
 * that rule, and a move of at most 2 is left out: the pair of tasks may talk to each other.
 *
 * Cost: as balance_stats.h. It fails where idle CPUs and tasks change faster than intervals.
 */
#ifndef WL_BALANCE_5_12_H
#define WL_BALANCE_5_12_H

#include "balance_load.h"
#include "numa.h"

/* May the nodes at the level that cpu has summed up differ by a pair of tasks? */
WL_INLINE u32 wl_numa_may_differ(struct wl_policy *p, const struct wl_level_stats *s)
{
	if (!wl_joins_nodes(p, s->level))
		return 0;
	if (wl_axis(p, balance) == WL_BALANCING_5_12)
		return s->busiest.nr < s->busiest.weight / 4;
	return s->own.nr < (u32)wl_numa_allowed(p, s->level, s->to);
}

/* The number of tasks that a group with room should pull. */
WL_INLINE u32 wl_spare_tasks(struct wl_policy *p, const struct wl_level_stats *s)
{
	const struct wl_group_stats *own = &s->own, *busiest = &s->busiest;
	u32 mine, theirs, tasks;

	if (wl_group_is_taken(busiest))
		return busiest->cpu_queued;
	if (busiest->type == WL_GROUP_OVERLOADED && s->level > p->topo.llc_level)
		return own->idle || s->looks == WL_LOOKS_BUSY ? own->idle : 1;
	if (busiest->weight == 1 || s->prefers) {
		mine = own->nr;
		theirs = busiest->nr;
	} else {
		mine = busiest->idle;
		theirs = own->idle;
	}
	tasks = theirs > mine ? (theirs - mine) / 2 : 0;
	return tasks <= WL_NUMA_DIFFERENCE && wl_numa_may_differ(p, s) ? 0 : tasks;
}

/* The load that a group without room should pull. */
WL_INLINE u64 wl_full_load(struct wl_policy *p, const struct wl_level_stats *s)
{
	const struct wl_group_stats *own = &s->own, *busiest = &s->busiest;
	u64 here = wl_mean_1024(own->load, own->capacity);
	u64 there = wl_mean_1024(busiest->load, busiest->capacity);
	u64 mean = wl_domain_mean_1024(s);

	if (here >= there || here >= mean || there <= mean)
		return 0;
	if (wl_group_type_of(p, own, s->percent) == WL_GROUP_OVERLOADED &&
	    100 * there <= s->percent * here)
		return 0;
	return wl_evening_load(s, here, there, mean);
}

/* What s->to should pull at the level that cpu has summed up. */
WL_FN int wl_compare_5_12(struct wl_policy *p WL_ARG, u32 cpu)
{
	struct wl_level_stats *s = wl_level_stats_of(p, cpu);
	struct wl_group_stats *own = &s->own, *busiest = &s->busiest;
	u32 type = wl_group_type_of(p, own, s->percent);

	s->max_tasks = WL_MOVE_TASKS_MAX;
	s->max_load = 0;
	s->may_push = 0;
	if (!busiest->nr || type > busiest->type)
		return 0;
	if (!(s->prefers && type == WL_GROUP_SPARE && busiest->nr > own->nr + 1) &&
	    busiest->type != WL_GROUP_OVERLOADED &&
	    (s->looks == WL_LOOKS_BUSY || (busiest->weight > 1 && own->idle <= busiest->idle + 1) ||
	     busiest->nr == 1))
		return 0;
	if (type != WL_GROUP_SPARE) {
		s->max_load = wl_full_load(p, s);
		return 0;
	}
	s->max_tasks = wl_spare_tasks(p, s);
	s->max_load = s->max_tasks ? WL_ANY_LOAD : 0;
	s->may_push = 1;
	return 0;
}

#endif /* WL_BALANCE_5_12_H */
