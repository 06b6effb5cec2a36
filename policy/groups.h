/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * groups.h - the axis `groups`: how task groups share CPUs. It hands each event and question to the
 * chosen value.
 *
 * groups=exact also brings its own queue (queue.h) and pulls (pull.h). group.h has what a group
 * weighs.
 */
#ifndef WL_GROUPS_H
#define WL_GROUPS_H

#include "groups_exact_sums.h"
#include "groups_load.h"
#include "groups_shares.h"
#include "groups_task_weight.h"

/*
 * Does the value itself decide what runs on a CPU? Then the axes `queue` and `push` have no effect.
 * Where there is nothing to divide, because the host has no groups, it does not.
 */
WL_INLINE u32 wl_groups_decide(const struct wl_policy *p)
{
	return wl_axis(p, groups) == WL_GROUPS_EXACT && wl_axis(p, nr_groups);
}

/* Start values of what belongs to cpu. */
WL_INLINE void wl_groups_init(struct wl_policy *p, u32 cpu)
{
	if (wl_groups_decide(p))
		wl_exact_init(p, cpu);
}

/* A tick on cpu, which runs a task of this group. */
WL_INLINE void wl_groups_tick(struct wl_policy *p, u32 slot, u32 cpu)
{
	if (wl_weighs_by_load(p) && slot)
		wl_load_tick(p, slot, cpu);
}

/* Does a task of a group weigh in balancing what it has of its CPU? Else it weighs its weight. */
WL_INLINE u32 wl_groups_scale(const struct wl_policy *p, const struct wl_task *t)
{
	return t->group && (wl_axis(p, groups) == WL_GROUPS_SHARES || wl_weighs_by_load(p));
}

/* The host's timer fired on cpu. */
WL_INLINE void wl_groups_timer(struct wl_policy *p, u32 cpu, u64 now_ns, struct wl_timer_out *out)
{
	if (wl_axis(p, groups) == WL_GROUPS_SHARES && p->params.nr_groups)
		wl_shares_timer(p, cpu, now_ns, out);
}

/* ------------------------------------------------------------------ balancing */

/*
 * How much to pull on cpu if `amount`, which would balance it, is less than `task`, the mean task
 * of the busiest group. own_mean: the load of the own group per capacity, in 2^-20.
 */
WL_INLINE u64 wl_groups_small_pull(struct wl_policy *p, u32 cpu, const struct wl_group_stats *own,
				   u64 own_mean, u64 amount, u64 task)
{
	u64 own_task;

	if (wl_axis(p, groups) != WL_GROUPS_SHARES)
		return task;
	own_task = own->nr ? wl_div(own->load, own->nr) : WL_WEIGHT_NICE_0;
	if (!wl_shares_is_worth_a_task(p, cpu, own_task, own->capacity, own_mean >> 10))
		return wl_shares_small(amount);
	return task;
}

/* How much of a pull's budget t uses: what it weighs where it is. */
WL_INLINE u64 wl_groups_load_of(struct wl_policy *p, const struct wl_task *t, u32 from)
{
	u64 load = t->weight;

	if (wl_groups_scale(p, t))
		load = wl_group_hweight(p, t, from, 0) >> WL_HWEIGHT_SHIFT;
	return load ? load : 1;
}

/* May t go to cpu as part of the pull d, as far as its weight and its group are concerned? */
WL_INLINE u32 wl_groups_may_move(struct wl_policy *p, const struct wl_task *t, u32 cpu,
				 const struct wl_dispatch_out *d)
{
	if (wl_axis(p, groups) == WL_GROUPS_SHARES && t->group)
		return wl_shares_may_move(p, t, d->cpu, d->max_load);
	return wl_groups_load_of(p, t, d->cpu) / 2 <= d->max_load &&
	       (wl_axis(p, groups) != WL_GROUPS_TASK_WEIGHT ||
		wl_task_weight_may_move(p, t, d->cpu, cpu));
}

/* t is about to be pulled from `from` to cpu. */
WL_INLINE void wl_groups_moves(struct wl_policy *p, const struct wl_task *t, u32 from, u32 cpu)
{
	if (wl_axis(p, groups) == WL_GROUPS_SHARES && t->group)
		wl_shares_shift(p, t, from, cpu);
}

#endif /* WL_GROUPS_H */
