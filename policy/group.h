/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * group.h - task groups: what they weigh on CPUs, and which part of its CPU a task is entitled to.
 *
 * A group K has shares S(K). On each CPU i it has a load T(K,i): the sum of the weights of its
 * runnable tasks there, and of what its child groups weigh there. It also has a weight W(K,i),
 * which it adds to its parent's load while it has load itself. A CPU divides its time among the
 * root's groups and tasks by these weights, and a group divides its part among its children and
 * tasks in the same way. Queues are flat: a task is charged by its weight's part of the CPU,
 *	hweight = weight * product over its groups of W(g,i) / T(g,i)
 * in 1/1024, at least WL_HWEIGHT_MIN. It is computed when the task is queued, picked or put back,
 * and at ticks; never while the task waits, because a key in a queue must not change. All hweights
 * of a CPU add up to `total`, the load of the root.
 *
 * With groups=queues each group has a queue (groups_queues.h); loads, W and shares are the same.
 *
 * The values of the axis `groups` differ in W. A new group has W = S on every CPU, and so does a
 * group whose S has just changed (with task-weight it stays so; with load it changes at once).
 * When a rule sets another W for a CPU, the group's record there gets the group's generation; all
 * other CPUs have W = stale_weight.
 *
 * When T(K,i) becomes or stops being 0, or W changes, the record's `counted` is exchanged for what
 * K now weighs there, and the difference is added to the parent's load, and so on up to the root.
 * So each child is in its parent's load exactly once, whatever happened before and whichever CPUs
 * do this at the same time. A group that had no load and gets some sets its bit in `loaded` if that
 * is clear; this line is hardly ever written. Rules that look at all groups clear the bits.
 *
 * Example: CPU 0, groups A and B below the root and C below B, all with 1024 shares. A has tasks of
 * weight 1024 and 3072, C has one of 1024, and one task of 1024 is outside any group. T(A,0) is
 * 4096; T(C,0) is 1024; T(B,0) is what C weighs, 1024; total is 1024 + 1024 + 1024. A's tasks are
 * charged by 1024 * 1024 / 4096 = 256 and by 768, C's by 1024 * 1 * 1 = 1024, and the last one by
 * 1024: one third for A, one for B and one for the task outside.
 *
 * Cost: a task outside any group reads no record. For other tasks, joining and leaving a CPU writes
 * one record, and one more at each level above only while a group gains its first load or loses its
 * last. Each hweight takes one division per level. Tasks of groups deeper than WL_GROUP_DEPTH count
 * in the ancestor at that depth. It fails where weights change faster than queued tasks run,
 * because each task keeps the place in the queue that its old hweight earned.
 */
#ifndef WL_GROUP_H
#define WL_GROUP_H

#include "access.h"

/*
 * Where vtimes start: far above 0, so that credit can go below the floor without wrapping around.
 */
#define WL_VTIME_START	 (1ULL << 30)
#define WL_HWEIGHT_SHIFT 10
#define WL_HWEIGHT_MIN	 16 /* 1/64 of a weight: a day of it still fits a vtime */
/* What a group weighs is less than this, so that every hweight fits 32 bits. */
#define WL_GROUP_WEIGHT_MAX ((1u << (32 - WL_HWEIGHT_SHIFT)) - 1)

/*
 * i from a group up to the root. A host for which the verifier's work is small may define it by
 * wl_for_few(), which needs no call.
 */
#ifndef wl_for_depth
#define wl_for_depth(i) wl_for (i, 0, WL_GROUP_DEPTH)
#endif

WL_INLINE void wl_read_group(struct wl_policy *p, struct wl_reads *reads, u32 slot, u32 cpu,
			     u32 dist)
{
	(void)p;
	(void)slot;
	(void)cpu;
	wl_read_at(p, reads, dist);
	wl_line_read(p, wl_group_line(p, slot, cpu), dist);
}

WL_INLINE void wl_wrote_group(struct wl_policy *p, u32 slot, u32 cpu)
{
	(void)p;
	(void)slot;
	(void)cpu;
	wl_line_written(p, wl_group_line(p, slot, cpu));
}

/*
 * Does balancing take a CPU's load to be what its tasks weigh? Else it is what groups weigh there.
 */
WL_INLINE u32 wl_load_is_task_weight(const struct wl_policy *p)
{
	return wl_axis(p, groups) == WL_GROUPS_TASK_WEIGHT || wl_axis(p, groups) == WL_GROUPS_EXACT;
}

/* Does anything depend on what groups weigh on CPUs? With exact: on what they received. */
WL_INLINE u32 wl_groups_weigh(const struct wl_policy *p)
{
	return wl_axis(p, groups) != WL_GROUPS_EXACT;
}

/* Is each group a queue on each CPU? groups_queues.h */
WL_INLINE u32 wl_nests(const struct wl_policy *p)
{
	return wl_axis(p, groups) == WL_GROUPS_QUEUES && wl_axis(p, queue) > WL_QUEUE_FAIR;
}

/* Does a group weigh on each CPU in proportion to its load there, at once? groups_load.h */
WL_INLINE u32 wl_weighs_by_load(const struct wl_policy *p)
{
	return wl_axis(p, groups) == WL_GROUPS_LOAD || wl_axis(p, groups) == WL_GROUPS_QUEUES;
}

/* W of a group on a CPU. */
WL_INLINE u32 wl_group_weight(const struct wl_group *g, const struct wl_group_cpu *gc)
{
	return wl_read_once(gc->generation) == wl_get(g->generation) ? wl_read_once(gc->weight)
								     : wl_get(g->stale_weight);
}

#define WL_LOAD_WEIGHT_MIN 2 /* MIN_SHARES of kernel/sched/sched.h */

/* groups=load: W of a group of shares S on a CPU that has `load` of its `sum`. */
WL_INLINE u32 wl_load_weight(const struct wl_group *g, u64 load, u64 sum)
{
	u32 shares = wl_get(g->shares);
	u64 weight = wl_div(shares * load, sum);

	if (weight >= shares)
		return shares;
	return weight > WL_LOAD_WEIGHT_MIN ? weight : WL_LOAD_WEIGHT_MIN;
}

/* groups=load: adds to a group's sum, and computes its W on the CPU of gc. */
WL_INLINE void wl_load_weigh(struct wl_group *g, struct wl_group_cpu *gc, u64 load)
{
	wl_atomic_add(&g->load, load);
	wl_write_once(gc->weight, wl_load_weight(g, wl_read_once(gc->load), wl_read_once(g->load)));
	wl_write_once(gc->generation, wl_get(g->generation));
}

/* The word of `loaded` that holds a group's bit. */
WL_INLINE u64 *wl_loaded_word(struct wl_policy *p, u32 slot)
{
	u32 word = slot / 64;

	wl_hide(word);
	return &p->loaded[word & (WL_MAX_GROUPS / 64 - 1)];
}

WL_INLINE void wl_note_loaded(struct wl_policy *p, u32 slot)
{
	u64 *word = wl_loaded_word(p, slot), bit = 1ULL << (slot & 63);

	if (wl_read_once(*word) & bit)
		return;
	wl_atomic_or(word, bit);
	wl_line_written(p, WL_LINE_LOADED + slot % WL_MAX_GROUPS / 512);
}

/*
 * Adds to a group's T on cpu, and to the number of its tasks and children there (both modulo 2^n),
 * and updates the groups above. With nothing to add it passes on a change of W.
 */
WL_FN int wl_group_add(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u64 load, u32 nr)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 at = slot, was, now, i;

	wl_for_depth (i) {
		struct wl_group *g = wl_group_at(p, at);
		struct wl_group_cpu *gc = wl_group_cpu_at(p, at, cpu);

		if (!at || !g || !gc)
			break;
		wl_atomic_add(&gc->load, load);
		wl_atomic_add(&gc->nr, nr);
		if (wl_weighs_by_load(p))
			wl_load_weigh(g, gc, load);
		now = wl_read_once(gc->load) ? wl_group_weight(g, gc) : 0;
		was = wl_atomic_xchg_u32(&gc->counted, now);
		wl_wrote_group(p, at, cpu);
		if (!was && now)
			wl_note_loaded(p, at);
		load = (u64)now - was;
		nr = !!now - !!was;
		if (!load)
			break;
		at = wl_get(g->parent);
	}
	if (at || !load)
		return 0;
	wl_atomic_add(&c->total, load);
	if (!wl_load_is_task_weight(p))
		wl_atomic_add(&c->load, load);
	wl_wrote_cpu(p, cpu);
	return 0;
}

/* Adds a task's weight to cpu (nr 1), or takes it off (nr -1). */
WL_INLINE void wl_weigh(struct wl_policy *p, u32 slot, u32 weight, u32 cpu, u32 nr)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 load = nr == 1 ? weight : 0 - (u64)weight;

	if (!slot || wl_load_is_task_weight(p))
		wl_atomic_add(&c->load, load);
	if (!wl_groups_weigh(p))
		return;
	if (slot)
		wl_group_add(p, slot, cpu, load, nr);
	else if (p->params.nr_groups)
		wl_atomic_add(&c->total, load);
}

/* The load of the root on a CPU. */
WL_INLINE u64 wl_total(struct wl_policy *p, struct wl_cpu *c)
{
	return p->params.nr_groups ? wl_read_once(c->total) : wl_read_once(c->load);
}

/* An hweight within its limits. */
WL_INLINE u64 wl_hweight_clamped(u64 hweight)
{
	if (hweight < WL_HWEIGHT_MIN)
		return WL_HWEIGHT_MIN;
	return hweight <= ~0u ? hweight : ~0u;
}

/*
 * The hweight of a task in a group, on cpu. joins: it is not counted there yet, but taken as if it
 * were.
 */
WL_FN u64 wl_group_hweight(struct wl_policy *p WL_ARG, const struct wl_task *t WL_ARG, u32 cpu,
			   u32 joins)
{
	u64 hweight = (u64)t->weight << WL_HWEIGHT_SHIFT, load, more = joins ? t->weight : 0;
	u64 sharing;
	u32 at = t->group, weight, i;

	wl_for_depth (i) {
		struct wl_group *g = wl_group_at(p, at);
		struct wl_group_cpu *gc = wl_group_cpu_at(p, at, cpu);

		if (!at || !g || !gc)
			break;
		load = wl_read_once(gc->load) + more;
		/* Tasks share by their group's usual load, groups by what is there. */
		sharing = !i && wl_axis(p, groups) == WL_GROUPS_LOAD ? wl_read_once(gc->usual_load)
								     : 0;
		if (joins && wl_weighs_by_load(p)) {
			/* A task that comes from another CPU is in the sum already. */
			u64 sum = wl_read_once(g->load) + (t->place == WL_PLACE_NONE ? more : 0);

			weight = wl_load_weight(g, load, sum);
			more = (u64)weight - wl_read_once(gc->counted);
		} else {
			weight = wl_group_weight(g, gc);
			more = more && !wl_read_once(gc->counted) ? weight : 0;
		}
		hweight = wl_div(hweight * weight, sharing ? sharing : load);
		at = wl_get(g->parent);
	}
	return wl_hweight_clamped(hweight);
}

WL_INLINE u32 wl_hweight(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	if (!t->group || wl_nests(p))
		return t->weight << WL_HWEIGHT_SHIFT;
	return wl_group_hweight(p, t, cpu, t->place == WL_PLACE_NONE || t->cpu != (s32)cpu);
}

/*
 * Counts what joining cpu reads of a task's groups: a record per level, and `loaded` where a group
 * has no load. cpu: whose records that are.
 */
WL_FN int wl_read_groups(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u32 this_cpu,
			 struct wl_reads *reads WL_ARG)
{
	u32 first = wl_entry(wl_level_of(p, 0)->cpus, 0), dist = wl_distance(p, this_cpu, cpu);
	u32 at = slot, i;

	wl_for_depth (i) {
		struct wl_group *g = wl_group_at(p, at);
		struct wl_group_cpu *gc = wl_group_cpu_at(p, at, cpu);

		if (!at || !g || !gc)
			break;
		wl_read_group(p, reads, at, cpu, dist);
		if (wl_groups_weigh(p) && !wl_read_once(gc->counted)) {
			u32 to = wl_distance(p, this_cpu, first);

			wl_read_at(p, reads, to);
			wl_line_read(p, WL_LINE_LOADED + at % WL_MAX_GROUPS / 512, to);
		}
		at = wl_get(g->parent);
	}
	return 0;
}

/* ------------------------------------------------------------------ events */

WL_FN int wl_group_init(struct wl_policy *p WL_ARG, u32 slot, u32 parent, u32 shares)
{
	struct wl_group *g = wl_group_at(p, slot), *up = wl_group_at(p, parent);
	struct wl_group_cpu *home = wl_group_cpu_at(p, slot, 0);
	u32 depth = 1, counts_as = slot;

	if (!slot || !g || !shares || (g->shares == shares && g->parent == parent))
		return 0;
	if (parent && up) {
		depth = up->depth + 1;
		if (depth > WL_GROUP_DEPTH)
			counts_as = up->counts_as;
	}
	/* The lag of the group that had the slot before does not pass to this one. */
	g->exact.home = 0;
	if (home)
		home->exact.mark = 0;
	g->parent = parent;
	g->depth = depth;
	g->counts_as = counts_as;
	g->shares = shares;
	g->stale_weight = shares;
	g->generation++;
	if (counts_as == slot && depth > p->monitor.deepest)
		p->monitor.deepest = depth;
	return 0;
}

WL_FN int wl_group_exit(struct wl_policy *p WL_ARG, u32 slot)
{
	struct wl_group *g = wl_group_at(p, slot);

	if (slot && g)
		g->shares = 0;
	return 0;
}

WL_FN int wl_group_shares(struct wl_policy *p WL_ARG, u32 slot, u32 shares)
{
	struct wl_group *g = wl_group_at(p, slot);
	u32 nr_cpus = p->topo.nr_cpus, i;

	if (!slot || !g || !shares || g->shares == shares)
		return 0;
	g->shares = shares;
	g->stale_weight = shares;
	g->generation++;
	wl_for (i, 0, nr_cpus) {
		struct wl_group_cpu *gc = wl_group_cpu_at(p, slot, i);

		if (!gc)
			break;
		if (wl_read_once(gc->counted))
			wl_group_add(p, slot, i, 0, 0);
	}
	return 0;
}

#endif /* WL_GROUP_H */
