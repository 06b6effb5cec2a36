/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * groups_shares.h - groups=shares (2007): a group weighs on each CPU in proportion to its load
 * there.
 *
 * With T(K,i) the load of group K on CPU i, T(K) its sum over the N CPUs and S(K) its shares:
 *	W(K,i) = S(K) * N * T(K,i) / T(K)	at least 1
 * The load of a CPU, which balancing and wake-affine compare, is the sum of the W of its groups and
 * of the weights of tasks outside any group: `total` (group.h).
 *   monitor	The host's timer computes the W of all groups with load, children before their
 *		parents. If any W changed, it does so again shares_min (8 ms) later, else after
 *		twice the last interval, up to shares_max (128 ms). One firing looks at
 *		WL_SHARES_PAIRS records, which takes less than 50 us, and the next one continues
 *		WL_SHARES_GAP_NS later. Between passes weights are stale: a group with nothing on a
 *		CPU weighs 1 there, and so does the first task that arrives
 *   pull	The budget m of a pull is in units of group weight. A task of weight w that is
 *		charged by hweight h uses h of it, so that at most m * w / h = m * T / W (over all
 *		levels) of K's task load may move. If that is less than 20 % of K's mean load per
 *		task (or child) there, nothing of K moves; above it one task may be forced
 *   small	An imbalance of less than a mean task counts in full, as one task, only if the sides
 *		differ by two tasks, or by one where the own tasks are lighter, or if more capacity
 *		is used afterwards (find_busiest_group() of Linux 2.6.24). Else 2/5 of it counts, so
 *		that a task moves only if half of it fits, where otherwise 20 % suffices. Without
 *		this, CPUs with three tasks of equal weight would pass the third around for ever
 *   moved	W follows at once. On the busy CPU it falls in proportion. On the CPU to which the
 *		task moves, what moved replaces W if K had nothing there, else it is added. The same
 *		is done at all levels
 *   S changed	W is S on every CPU until the next pass
 *
 * Example: 2 CPUs; groups A, B and C have 1024 shares; 10 tasks of A are on CPU 0, 5 of B and 5 of
 * C on CPU 1. W(A,0) = 1024 * 2 * 10240 / 10240 = 2048, and so are W(B,1) and W(C,1): the loads are
 * 2048 and 4096, and CPU 0 should pull 1024. A task of B is charged by 2048 / 5 = 409, so 1024 *
 * 1024 / 409 = 2563 of B's load may move: two tasks, and a forced third. When 3 of B's tasks have
 * moved, W(B) is 1228 on CPU 0 and 820 on CPU 1, and the loads are 3276 and 2868. Each group
 * receives a third of all the weight that there is.
 *
 * Cost: per pass, two reads for each loaded group and CPU, on the CPU where the timer fires; a pass
 * over L groups takes 2 * L * N / WL_SHARES_PAIRS firings. Joining a group that has had no load for
 * a while sets its bit. It fails between passes: what arrives on a new CPU weighs next to nothing
 * there until the next pass; and where groups come and go faster than passes, weights are those of
 * the past.
 */
#ifndef WL_GROUPS_SHARES_H
#define WL_GROUPS_SHARES_H

#include "group.h"

/*
 * (group, CPU) pairs per firing. A pair takes 13 ns if its records are in the cache, and twice that
 * if not.
 */
#define WL_SHARES_PAIRS	 1024
#define WL_SHARES_GAP_NS 250000

/* ------------------------------------------------------------------ the monitor */

enum wl_shares_phase {
	WL_SHARES_SUM,	 /* of T over the CPUs */
	WL_SHARES_AGAIN, /* the same, after a sum of 0 took the group's bit out of `loaded` */
	WL_SHARES_WEIGH,
};

/* Limits what a group may weigh. */
WL_INLINE u32 wl_shares_bounded(u64 weight)
{
	weight = weight < WL_GROUP_WEIGHT_MAX ? weight : WL_GROUP_WEIGHT_MAX;
	return weight ? weight : 1;
}

WL_INLINE void wl_shares_set(struct wl_group *g, struct wl_group_cpu *gc, u32 weight)
{
	wl_write_once(gc->weight, weight);
	wl_write_once(gc->generation, wl_get(g->generation));
}

/* Sums up T of the monitor's group over its next `nr` CPUs. */
WL_FN int wl_shares_sum(struct wl_policy *p WL_ARG, u32 cpu, u32 nr, struct wl_reads *reads WL_ARG)
{
	struct wl_monitor *m = &p->monitor;
	u32 slot = m->slot, first = m->cpu, end = first + nr, i;
	u64 sum = m->sum;

	wl_for (i, first, end) {
		struct wl_group_cpu *gc = wl_group_cpu_at(p, slot, i);

		if (!gc)
			break;
		wl_read_group(p, reads, slot, i, wl_distance(p, cpu, i));
		sum += wl_read_once(gc->load);
	}
	m->sum = sum;
	m->cpu = end;
	return 0;
}

/* Gives the monitor's group its W on its next `nr` CPUs. */
WL_FN int wl_shares_weigh(struct wl_policy *p WL_ARG, u32 cpu, u32 nr,
			  struct wl_reads *reads WL_ARG)
{
	struct wl_monitor *m = &p->monitor;
	struct wl_group *g = wl_group_at(p, m->slot);
	u32 slot = m->slot, first = m->cpu, end = first + nr, i;
	u64 load, sum = m->sum;
	u32 weight;

	if (!g)
		return 0;
	wl_for (i, first, end) {
		struct wl_group_cpu *gc = wl_group_cpu_at(p, slot, i);

		if (!gc)
			break;
		wl_read_group(p, reads, slot, i, wl_distance(p, cpu, i));
		load = wl_read_once(gc->load);
		/*
		 * A record that has nothing, and was not weighed since S was set, gets its 1 below.
		 */
		if (!load && wl_read_once(gc->generation) != g->generation)
			continue;
		weight = wl_shares_bounded(wl_div((u64)g->shares * p->topo.nr_cpus * load, sum));
		if (weight == wl_group_weight(g, gc))
			continue;
		wl_shares_set(g, gc, weight);
		wl_group_add(p, slot, i, 0, 0);
		m->changed = 1;
	}
	m->cpu = end;
	if (end >= p->topo.nr_cpus)
		wl_write_once(g->stale_weight, 1);
	return 0;
}

WL_INLINE void wl_shares_next(struct wl_monitor *m, u32 slot, u32 phase)
{
	m->slot = slot;
	m->phase = phase;
	m->cpu = 0;
}

/*
 * Does one step of a pass, of at most `most` pairs. Returns the number of pairs that it took, at
 * least 1.
 */
WL_FN int wl_shares_step(struct wl_policy *p WL_ARG, u32 cpu, u32 most,
			 struct wl_reads *reads WL_ARG)
{
	struct wl_monitor *m = &p->monitor;
	u32 slot = m->phase == WL_SHARES_SUM && !m->cpu ? wl_next_bit(p->loaded, WL_MAX_GROUPS / 64,
								      m->slot, p->params.nr_groups)
							: m->slot;
	struct wl_group *g = wl_group_at(p, slot);
	u32 nr = p->topo.nr_cpus - m->cpu;

	if (slot >= p->params.nr_groups) {
		m->depth--;
		wl_shares_next(m, 1, WL_SHARES_SUM);
		return 1;
	}
	if (!g || g->depth != m->depth || !g->shares) {
		wl_shares_next(m, slot + 1, WL_SHARES_SUM);
		return 1;
	}
	m->slot = slot;
	nr = nr < most ? nr : most;
	if (!m->cpu && m->phase != WL_SHARES_WEIGH)
		m->sum = 0;
	if (m->phase == WL_SHARES_WEIGH) {
		wl_shares_weigh(p, cpu, nr, reads);
		if (m->cpu >= p->topo.nr_cpus)
			wl_shares_next(m, slot + 1, WL_SHARES_SUM);
		return nr;
	}
	wl_shares_sum(p, cpu, nr, reads);
	if (m->cpu < p->topo.nr_cpus)
		return nr;
	if (m->sum) {
		wl_note_loaded(p, slot);
		wl_shares_next(m, slot, WL_SHARES_WEIGH);
	} else if (m->phase == WL_SHARES_SUM) {
		wl_atomic_and(wl_loaded_word(p, slot), ~(1ULL << (slot & 63)));
		wl_line_written(p, WL_LINE_LOADED + slot % WL_MAX_GROUPS / 512);
		wl_shares_next(m, slot, WL_SHARES_AGAIN);
	} else {
		wl_shares_next(m, slot + 1, WL_SHARES_SUM);
	}
	return nr;
}

/* The timer fired on cpu. A pass is in progress while depth is not 0. */
WL_INLINE void wl_shares_timer(struct wl_policy *p, u32 cpu, u64 now_ns, struct wl_timer_out *out)
{
	struct wl_monitor *m = &p->monitor;
	u64 twice = 2 * m->interval_ns;
	u32 i, taken = 0;

	if (!m->due_ns) {
		m->interval_ns = p->params.shares_min_ns;
		m->due_ns = now_ns + m->interval_ns;
	}
	out->next_ns = m->due_ns;
	if (now_ns < m->due_ns)
		return;
	if (!m->depth) {
		m->depth = m->deepest;
		m->changed = 0;
		wl_shares_next(m, 1, WL_SHARES_SUM);
	}
	wl_for (i, 0, WL_SHARES_PAIRS) {
		if (!m->depth || taken >= WL_SHARES_PAIRS)
			break;
		taken += wl_shares_step(p, cpu, WL_SHARES_PAIRS - taken, &out->reads);
	}
	if (m->depth) {
		m->due_ns = now_ns + WL_SHARES_GAP_NS;
	} else {
		twice = twice < p->params.shares_max_ns ? twice : p->params.shares_max_ns;
		m->interval_ns = m->changed ? p->params.shares_min_ns : twice;
		m->due_ns = now_ns + m->interval_ns;
	}
	out->next_ns = m->due_ns;
}

/* ------------------------------------------------------------------ balancing */

/* SCHED_LOAD_SCALE_FUZZ of Linux 2.6.24. */
#define WL_SHARES_FUZZ 1024

WL_INLINE u64 wl_shares_least(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* The part that counts of an imbalance that is not worth a task. */
WL_INLINE u64 wl_shares_small(u64 amount)
{
	return amount * 2 / 5;
}

/*
 * The imbalance is less than the busiest side's mean task: is it worth a task? Only if the sides
 * differ by two tasks, or by one if the own tasks are lighter, or if more of both sides' capacity
 * is used afterwards. `load` is the own side's per capacity of 1024, 0 if nothing runs there, and
 * `own_task` its mean task. A separate function, because it has many paths for BPF's verifier.
 */
WL_FN int wl_shares_is_worth_a_task(struct wl_policy *p WL_ARG, u32 cpu, u64 own_task, u64 capacity,
				    u64 load)
{
	struct wl_group_stats *busiest = &wl_level_stats_of(p, cpu)->busiest;
	u64 task = wl_div(busiest->cpu_load, busiest->cpu_nr);
	u64 busiest_load = wl_div(busiest->load << 10, busiest->capacity);
	u64 there = wl_div(task << 10, busiest->capacity), here = wl_div(task << 10, capacity);
	u32 tasks = load && task > own_task ? 1 : 2;
	u64 now, then;

	if (busiest_load - load + WL_SHARES_FUZZ >= task * tasks)
		return 1;
	now = busiest->capacity * wl_shares_least(task, busiest_load) +
	      capacity * wl_shares_least(own_task, load);
	then = capacity * wl_shares_least(own_task, load + here);
	if (busiest_load > there)
		then += busiest->capacity * wl_shares_least(task, busiest_load - there);
	return then > now;
}

/* May a pull from `from`, with a budget of max_load in group weight, take t? */
WL_FN int wl_shares_may_move(struct wl_policy *p WL_ARG, const struct wl_task *t WL_ARG, u32 from,
			     u64 max_load)
{
	struct wl_group_cpu *gc = wl_group_cpu_at(p, t->group, from);
	u64 hweight, most;

	if (!gc)
		return t->weight / 2 <= max_load;
	hweight = wl_group_hweight(p, t, from, 0);
	most = wl_div((max_load << WL_HWEIGHT_SHIFT) * t->weight, hweight);
	return 100 * most * wl_read_once(gc->nr) >= 20 * wl_read_once(gc->load);
}

/* Moves the W of all of t's groups along with t from `from` to cpu, where t is about to go. */
WL_FN int wl_shares_shift(struct wl_policy *p WL_ARG, const struct wl_task *t WL_ARG, u32 from,
			  u32 cpu)
{
	u64 moved = t->weight, load, arrived;
	u32 at = t->group, weight, i;

	wl_for_depth (i) {
		struct wl_group *g = wl_group_at(p, at);
		struct wl_group_cpu *theirs = wl_group_cpu_at(p, at, from);
		struct wl_group_cpu *ours = wl_group_cpu_at(p, at, cpu);

		if (!at || !g || !theirs || !ours)
			break;
		weight = wl_group_weight(g, theirs);
		load = wl_read_once(theirs->load);
		moved = moved < load ? wl_div(weight * moved, load) : weight;
		arrived = wl_read_once(ours->load) ? wl_group_weight(g, ours) + moved : moved;
		wl_shares_set(g, ours, wl_shares_bounded(arrived));
		wl_shares_set(g, theirs, wl_shares_bounded(weight - moved));
		at = wl_get(g->parent);
	}
	return 0;
}

#endif /* WL_GROUPS_SHARES_H */
