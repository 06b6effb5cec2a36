/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * loads.h - the axis `affine-loads`: which load of a CPU, and of a task, wake-affine compares.
 *
 *	now		the sum of the weights of the tasks that are runnable on the CPU now; a
 *			task's weight. Linux until 3.10.
 *	runnable	averages. A task's is one of its weight while it is runnable, and of 0 while
 *			it sleeps; a CPU's is the sum of those of its runnable tasks. From 3.11 until
 *			5.4.
 *	average		the same, but a task that sleeps counts on the CPU where it ran last, and
 *			leaves it when it wakes up elsewhere. Since 5.5.
 *
 * Averages are exponential, with a half-life of 32 periods of 1.048576 ms (util.h). A new task
 * begins with its whole weight. Where groups weigh on CPUs, a task's weight is its part of what its
 * group weighs there (Linux: task_h_load()): that of a wakee, with `now`, as if it were runnable on
 * the waker's CPU; with averages as it was when the task last was runnable.
 *
 * A CPU's average is not summed over its tasks: it approaches the sum of their weights, and changes
 * at once by a task's average when that comes or goes. Both are the same, because the average of a
 * sum is the sum of the averages. It is kept lazily: a value, when it was right, and what it has
 * approached since.
 *
 * Example, weights 1024: tasks A and B, both new, run on CPU 0: 2048 in all three forms. B sleeps:
 * `now` and `runnable` give 1024, `average` 2048. 33,554,432 ns later B's average is 512: `average`
 * gives 1536. B wakes up on CPU 1: `now` gives 1024 for both CPUs; the averages 1024 for CPU 0 and
 * 512 for CPU 1. 33,554,432 ns later CPU 1's is 768, if B still is runnable.
 *
 * Cost: `now` none. Averages cost each wake-up and each sleep about ten multiplications, and a move
 * a write of the CPU that the task leaves. Two CPUs may write that at the same time, and one of the
 * changes may be lost then; what is wrong decays, as everything does. They fail as averages do:
 * they follow a change tens of milliseconds late, and find CPUs equal of which one has a queue now.
 */
#ifndef WL_LOADS_H
#define WL_LOADS_H

#include "groups.h"
#include "util.h"

/* Averages are compared in this many parts of a weight. */
#define WL_LOADS_SHIFT 10

WL_INLINE u32 wl_averages_loads(struct wl_policy *p)
{
	return wl_axis(p, affine) != WL_AFFINE_OFF && wl_axis(p, affine_loads) != WL_LOADS_NOW;
}

/* An average at now_ns. */
WL_INLINE u64 wl_loads_at(const struct wl_loads *l, u64 now_ns)
{
	return wl_util_step(l->average, now_ns > l->stamp_ns ? now_ns - l->stamp_ns : 0, l->weight);
}

/* ------------------------------------------------------------------ what is compared */

/* The load of a task: of a waker on cpu, or (joins) of a wakee that may go there. */
WL_INLINE u64 wl_load_of_task(struct wl_policy *p, const struct wl_task *t, u32 cpu, u32 joins,
			      u64 now_ns)
{
	if (!wl_averages_loads(p))
		return wl_groups_scale(p, t)
			       ? wl_group_hweight(p, t, cpu, joins) >> WL_HWEIGHT_SHIFT
			       : t->weight;
	return wl_loads_at(&t->loads, now_ns) >> (WL_UTIL_SHIFT - WL_LOADS_SHIFT);
}

/* The load of a CPU. */
WL_INLINE u64 wl_load_of_cpu(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 stamp_ns, average;

	if (!wl_averages_loads(p))
		return wl_read_once(c->load);
	stamp_ns = wl_read_once(c->loads.stamp_ns);
	average = wl_read_once(c->loads.average);
	return wl_util_step(average, now_ns > stamp_ns ? now_ns - stamp_ns : 0,
			    wl_read_once(c->loads.weight)) >>
	       (WL_UTIL_SHIFT - WL_LOADS_SHIFT);
}

/* The load of a CPU without that of t, which sleeps. */
WL_INLINE u64 wl_load_of_others(struct wl_policy *p, u32 cpu, const struct wl_task *t, u64 now_ns)
{
	u64 load = wl_load_of_cpu(p, cpu, now_ns), own;

	if (!wl_averages_loads(p) || t->loads.cpu != cpu + 1)
		return load;
	own = wl_load_of_task(p, t, cpu, 1, now_ns);
	return load > own ? load - own : 0;
}

/* ------------------------------------------------------------------ averages */

/*
 * Brings a CPU's average to now_ns, and adds the average of a task that comes, less one that goes.
 */
WL_FN int wl_loads_of_cpu(struct wl_policy *p WL_ARG, u32 cpu, u64 comes, u64 goes, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	struct wl_loads *l = &c->loads;
	u64 average = wl_loads_at(l, now_ns) + comes;

	wl_write_once(l->average, average > goes ? average - goes : 0);
	wl_write_once(l->stamp_ns, now_ns);
	wl_write_once(l->weight, c->load);
	return 0;
}

/* Does a CPU's average approach its load? */
WL_INLINE u32 wl_is_up_to_date(struct wl_policy *p, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	return c->loads.weight == c->load;
}

/* wl_loads_follow(), if there are averages. */
WL_FN int wl_loads_changed(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns,
			   u32 exits)
{
	u32 runnable = t->place != WL_PLACE_NONE, was = t->loads.cpu, now = 0;
	u64 weight = runnable ? wl_groups_load_of(p, t, t->cpu) : 0;
	u64 average;

	if (!exits && t->cpu >= 0 && (runnable || wl_axis(p, affine_loads) == WL_LOADS_AVERAGE))
		now = t->cpu + 1;
	/* Most events change nothing: the task only begins or ends to run where it is runnable. */
	if (t->loads.began && now == was && weight == t->loads.weight &&
	    (!now || wl_is_up_to_date(p, now - 1)))
		return 0;
	if (t->loads.began || !runnable)
		average = wl_loads_at(&t->loads, now_ns);
	else
		average = weight << WL_UTIL_SHIFT;
	t->loads.began |= runnable;
	t->loads.average = average;
	t->loads.stamp_ns = now_ns;
	t->loads.weight = weight;
	t->loads.cpu = now;
	if (was && was != now)
		wl_loads_of_cpu(p, was - 1, 0, average, now_ns);
	if (now)
		wl_loads_of_cpu(p, now - 1, was != now ? average : 0, 0, now_ns);
	return 0;
}

/* Called after each event that may change where t counts, or with which weight. */
WL_INLINE void wl_loads_follow(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	if (wl_averages_loads(p))
		wl_loads_changed(p, t, now_ns, 0);
}

/* t exits. */
WL_INLINE void wl_loads_exit(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	if (wl_averages_loads(p))
		wl_loads_changed(p, t, now_ns, 1);
}

#endif /* WL_LOADS_H */
