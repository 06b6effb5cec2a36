/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * balance_4_15.h - balance=4.15: what a CPU pulls in Linux 4.15 to 5.4.
 *
 * The busiest group is an overloaded one before one that is not, and then the one with the highest
 * average load (find_busiest_group() in kernel/sched/fair.c). Where the groups of a domain are
 * themselves inside a node, a group with two tasks more than the own one counts as overloaded as
 * long as the own one has room (SD_PREFER_SIBLING): tasks spread over the cores of an LLC, and over
 * the nodes, before CPUs share anything.
 *   forced	An idle or newly idle CPU pulls if its group has room and the busiest is overloaded.
 *   otherwise	It pulls only if its group's average is below the busiest's and below the domain's;
 *		and on an idle CPU, if the busiest is overloaded or has at least two idle CPUs
 *		fewer; on another one, if 100 * busiest > percent * own.
 *   how much	The smaller of two amounts: what brings its own group up to the domain's average,
 *		and what brings the busiest down to it; if both are overloaded, no more than the
 *		busiest has above one task per CPU. If that is less than the busiest group's mean
 *		task: one task, if the groups differ by two tasks, or by one and the own tasks are
 *		lighter, or if more capacity is used afterwards; else nothing.
 *
 * Example: one LLC of 2 cores x 2 threads. Core 0 runs a task on each thread, core 1 idles. CPU 1
 * of core 1 balances the LLC: core 0 has 2 tasks more, and counts as overloaded. Averages are 1024,
 * 0 and 512, so 1024 may move: a whole task. None waits, so CPU 1 counts a failed try; after more
 * than patience + 2 of them the task that runs moves (push.h).
 *
 * Cost: as balance_stats.h. It fails where loads say little: short tasks that come in turns look
 * like none or like too many, because the present sums of weights stand for averages over tens of
 * milliseconds.
 */
#ifndef WL_BALANCE_4_15_H
#define WL_BALANCE_4_15_H

#include "balance_load.h"

/* Is an imbalance of less than a mean task worth a task? fix_small_imbalance() of Linux. */
WL_INLINE u32 wl_is_worth_a_task(const struct wl_level_stats *s, u64 task)
{
	const struct wl_group_stats *own = &s->own, *busiest = &s->busiest;
	u64 own_task = wl_div(own->load, own->nr);
	u64 here = wl_div(own->load << 10, own->capacity);
	u64 there = wl_div(busiest->load << 10, busiest->capacity);
	u64 share = wl_div(task << 10, busiest->capacity), now, then, arrives;

	if (there + share >= here + share * (own->nr && task > own_task ? 1 : 2))
		return 1;
	now = busiest->capacity * (task < there ? task : there) +
	      own->capacity * (own_task < here ? own_task : here);
	arrives = here + wl_div((task < busiest->load ? task : busiest->load) << 10, own->capacity);
	then = own->capacity * (own_task < arrives ? own_task : arrives);
	if (there > share)
		then += busiest->capacity * (task < there - share ? task : there - share);
	return then > now;
}

/* How much the busiest group has above one task of weight 1024 per CPU, per capacity in 2^-20. */
WL_INLINE u64 wl_above_capacity(const struct wl_group_stats *busiest)
{
	u64 tasks = (u64)busiest->nr << 10;

	return tasks > busiest->capacity
		       ? wl_div((tasks - busiest->capacity) << 20, busiest->capacity)
		       : ~0ULL >> 16;
}

/* What s->to should pull at the level that cpu has summed up. */
WL_FN int wl_compare_4_15(struct wl_policy *p WL_ARG, u32 cpu)
{
	struct wl_level_stats *s = wl_level_stats_of(p, cpu);
	struct wl_group_stats *own = &s->own, *busiest = &s->busiest;
	u64 here = wl_mean_1024(own->load, own->capacity);
	u64 there = wl_mean_1024(busiest->load, busiest->capacity);
	u64 mean = wl_domain_mean_1024(s), most = there, amount;
	u64 task = wl_div(busiest->load, busiest->nr);

	s->max_tasks = WL_MOVE_TASKS_MAX;
	s->max_load = 0;
	s->may_push = 1;
	if (!busiest->nr)
		return 0;
	if (s->looks == WL_LOOKS_BUSY || !wl_group_has_room(own, s->percent) ||
	    busiest->type != WL_GROUP_OVERLOADED) {
		if (here >= there || here >= mean)
			return 0;
		if (s->looks == WL_LOOKS_IDLE
			    ? busiest->type != WL_GROUP_OVERLOADED && own->idle <= busiest->idle + 1
			    : 100 * there <= s->percent * here)
			return 0;
	}
	if (busiest->type == WL_GROUP_OVERLOADED &&
	    wl_group_type_of(p, own, s->percent) == WL_GROUP_OVERLOADED &&
	    mean + wl_above_capacity(busiest) < there)
		most = mean + wl_above_capacity(busiest);
	amount = wl_evening_load(s, here, most, mean);
	if (amount < task && wl_is_worth_a_task(s, task))
		amount = task;
	s->max_load = amount;
	return 0;
}

#endif /* WL_BALANCE_4_15_H */
