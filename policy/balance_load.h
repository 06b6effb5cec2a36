/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * balance_load.h - balance=load: groups are compared by their load; what wakelab uses.
 *
 * The busiest group is the one with the highest average load among those with something to take: a
 * CPU with two tasks or more, at least one of them queued.
 *   forced	An idle CPU pulls if its group has room (fewer tasks than CPUs) and the busiest
 *		group has none (more tasks than CPUs, or what waits there waits on a taken CPU).
 *   otherwise	It pulls only if its group's average is below the busiest's and below the domain's,
 *		and, on an idle CPU, if its group has at least two idle CPUs more than the busiest;
 *		on a busy CPU, if 100 * busiest > imbalance_pct * own.
 *   how much	The smaller of two amounts: what brings its own group up to the domain's average,
 *		and what brings the busiest down to it; but at least the mean task of the busiest
 *		group's busiest CPU, the CPU from which tasks are taken.
 *   in the LLC	An idle CPU pulls inside its LLC as a search would have placed the task there, which
 *		asks neither how long CPUs idle nor what is left in a task's caches: a CPU that goes
 *		idle looks inside its LLC even if its idle periods are shorter than migration_cost,
 *		as long as they are longer than looking takes; and it takes a task that has slept
 *		since it last ran, however short that was ago. One that was preempted stays while it
 *		is cache-hot.
 * Between clusters an idle CPU compares numbers of tasks instead (cluster.h).
 *   when	Level l is due every 32 ms per CPU of the domain (Linux's busy_factor), on the first
 *		CPU of each group. At a tick, a CPU with something queued probes 4 CPUs per level
 *		for an idle one, at each tick other CPUs. The idle CPU is marked at every level, and
 *		woken.
 *
 * Example: 2 LLCs of 4 CPUs without SMT. CPU 0 goes idle; CPUs 1 to 3 run one task of weight 1024
 * each, and 4 to 7 have two each. LLC level: CPUs 1 to 3 have nothing queued. NUMA level: the
 * average of the own group is 768, that of LLC 1 is 2048, and the domain's is 1408. LLC 1 has 8
 * tasks on 4 CPUs, LLC 0 has three: CPU 0 pulls from CPU 4, the first of equals, a load of
 * min((2048 - 1408) * 4, (1408 - 768) * 4) = 2560.
 *
 * Example: one LLC of 2 CPUs. M runs on CPU 0, and wakes A, which goes to CPU 1 because that is
 * idle, and then B, which ran on CPU 1 a moment ago. No CPU is idle: B waits on CPU 1 behind A.
 * When M sleeps, CPU 0 pulls B at once. Without the rule above B would wait for A, as long as that
 * computes, while CPU 0 idles.
 *
 * Cost: an idle CPU is woken at each tick of a CPU with two tasks. It fails where a kicked CPU
 * takes a task to another node that the own node would have had room for a moment later.
 */
#ifndef WL_BALANCE_LOAD_H
#define WL_BALANCE_LOAD_H

#include "balance_stats.h"
#include "groups.h"

#define WL_MOVE_TASKS_MAX 32	       /* sched_nr_migrate */
#define WL_ANY_LOAD	  (1ULL << 40) /* a pull that only the number of tasks limits */

/* How much load to pull from the busiest group to the own one; 0 if they are balanced. */
WL_INLINE u64 wl_imbalance(struct wl_policy *p, u32 cpu, const struct wl_level_stats *s, u32 idle)
{
	const struct wl_group_stats *own = &s->own, *busiest = &s->busiest;
	u64 own_mean = wl_mean_1024(own->load, own->capacity);
	u64 busiest_mean = wl_mean_1024(busiest->load, busiest->capacity);
	u64 mean = wl_domain_mean_1024(s);
	u64 amount = wl_evening_load(s, own_mean, busiest_mean, mean);
	u64 task = wl_div(busiest->cpu_load, busiest->cpu_nr);
	u32 forced = idle && own->nr < own->weight &&
		     (busiest->nr > busiest->weight || busiest->cpu_capacity == WL_TAKEN_CAPACITY);

	if (busiest->cpu < 0)
		return 0;
	if (!forced) {
		if (own_mean >= busiest_mean || own_mean >= mean)
			return 0;
		if (idle ? own->idle <= busiest->idle + 1
			 : 100 * busiest_mean <= s->percent * own_mean)
			return 0;
	}
	if (amount >= task)
		return amount;
	return wl_groups_small_pull(p, cpu, own, own_mean, amount, task);
}

/* What s->to should pull at the level that cpu has summed up. */
WL_FN int wl_compare_loads(struct wl_policy *p WL_ARG, u32 cpu)
{
	struct wl_level_stats *s = wl_level_stats_of(p, cpu);

	s->max_tasks = WL_MOVE_TASKS_MAX;
	s->max_load = 0;
	s->may_push = 0;
	if (!s->by_tasks) {
		s->max_load = wl_imbalance(p, cpu, s, s->looks != WL_LOOKS_BUSY);
		return 0;
	}
	/* The number of tasks limits the pull, not their load. */
	s->max_tasks = wl_cluster_excess(s->busiest.nr, s->own.nr);
	if (s->busiest.cpu >= 0 && s->max_tasks)
		s->max_load = s->busiest.cpu_load;
	return 0;
}

#endif /* WL_BALANCE_LOAD_H */
