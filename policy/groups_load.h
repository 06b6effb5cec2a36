/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * groups_load.h - groups=load (Linux 2.6.38 and later): a group weighs on each CPU in proportion to
 * its load there, at once.
 *
 * With T(K,i) the load of group K on CPU i, T(K) its sum over all CPUs and S(K) its shares:
 *	W(K,i) = S(K) * T(K,i) / T(K)	at least WL_LOAD_WEIGHT_MIN, at most S(K)
 * So all CPUs together have the group's shares once, where groups=shares has them once per CPU.
 *   when	W(K,i) is computed when a task joins or leaves K on CPU i, and at each tick of a CPU
 *		that runs a task of K or of a group in K: calc_group_shares() in
 *		kernel/sched/fair.c. The other CPUs keep their W until something happens there
 *   balancing	The load of a CPU is the sum of the W of its groups and of the weights of
 *		tasks outside any group; a pull's budget is in that unit, and a task uses its
 *		hweight of it, as with task_h_load()
 *   usual	The tasks of a group share W(K,i) by the group's usual load there, which follows
 *		T(K,i) at ticks, and not by T(K,i) itself. Queues are flat, and a queued task keeps the
 *		hweight of its arrival; with T(K,i), tasks of one group would weigh as differently
 *		as the group had tasks when each arrived. In the kernel they are alike, because
 *		each group is a queue
 *
 * Example: 2 CPUs; groups A and B have 1024 shares; two tasks of A are on CPU 0, one of A and one
 * of B on CPU 1. W(A,0) is 1024 * 2048 / 3072 = 682, W(A,1) = 341 and W(B,1) = 1024: on CPU 1, B
 * receives three quarters. The loads are 682 and 1365: CPU 0 lacks 341, and the mean task of CPU 1
 * is 682, so it may pull that, and pulls A's task, which weighs 341. After that each group has a
 * CPU. With groups=task-weight A weighs 1024 on CPU 1 too, loads are equal, and B receives half a
 * CPU.
 *
 * Cost: a division and an atomic addition to the group's record for each level of each task that
 * joins or leaves, and a division per level at each tick of a group's task. That record is written
 * by all CPUs, and its transfers are not counted: the kernel adds to tg->load_avg only changes of
 * more than 1/64, at most once per ms and CPU. It fails where tasks come and go faster than ticks:
 * W(K,i) goes by present sums, where the kernel has decayed averages over tens of milliseconds; and
 * while K has fewer tasks on a CPU than usual, they receive less than W(K,i) there, beside others.
 */
#ifndef WL_GROUPS_LOAD_H
#define WL_GROUPS_LOAD_H

#include "group.h"

/*
 * Follows the group's load, at a tick. Each change of the usual load makes waiting tasks of the
 * group weigh unlike those that arrive. So it changes only to a load that two ticks in a row have
 * seen; or, if both have seen more than half as much again, or both less than half, to their mean.
 */
WL_INLINE void wl_load_notice(struct wl_group_cpu *gc)
{
	u64 load = wl_read_once(gc->load), last = wl_read_once(gc->last_load);
	u64 usual = wl_read_once(gc->usual_load), least, most;

	load = load < ~0u ? load : ~0u;
	least = load < last ? load : last;
	most = load < last ? last : load;
	wl_write_once(gc->last_load, load);
	if (load == last || 2 * least > 3 * usual || 2 * most < usual)
		wl_write_once(gc->usual_load, (least + most) / 2);
}

/* The CPU's running task is of this group: what its groups weigh there follows the other CPUs. */
WL_FN int wl_load_tick(struct wl_policy *p WL_ARG, u32 slot, u32 cpu)
{
	struct wl_group_cpu *own = wl_group_cpu_at(p, slot, cpu);
	u32 at = slot, i;

	if (own)
		wl_load_notice(own);
	wl_for_depth (i) {
		struct wl_group *g = wl_group_at(p, at);

		if (!at || !g)
			break;
		wl_group_add(p, at, cpu, 0, 0);
		at = wl_get(g->parent);
	}
	return 0;
}

#endif /* WL_GROUPS_LOAD_H */
