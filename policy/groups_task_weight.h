/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * groups_task_weight.h - groups=task-weight: Linux 2.6.24's limit on what a pull takes of a group.
 *
 * Groups weigh their shares wherever they have tasks, and balancing compares sums of task weights
 * as if there were no groups. A pull takes nothing of a group K if this CPU has as much of K as the
 * CPU that it pulls from, else at most half of the difference, with one task still forced. A task
 * of weight w brings the two closer by 2 w, so both rules are the same question, asked again for
 * each task: does the other CPU still have more of K? Tasks outside any group are not limited.
 *
 * Example: CPU 0 has two tasks of A (2048) and two of B (2048), CPU 1 has one of B (1024). A pull
 * to CPU 1 may take one task of A (2048 against 0) and then no second one (1024 against 1024); of B
 * it may take one (2048 against 1024), and then none.
 *
 * Example of its fault: of two CPUs one has 10 tasks of A, the other 5 of B and 5 of C. Loads are
 * equal, so nothing is pulled, and A, B and C receive 50, 25 and 25 % of the machine, whatever
 * their shares are.
 *
 * Cost: two records for each task that is considered. It fails where a group has few tasks on each
 * CPU: the groups then receive what the numbers of their tasks give them. Of nested groups it looks
 * only at the one that the task is in.
 */
#ifndef WL_GROUPS_TASK_WEIGHT_H
#define WL_GROUPS_TASK_WEIGHT_H

#include "group.h"

/* May a pull from `from` to cpu take t? */
WL_FN int wl_task_weight_may_move(struct wl_policy *p WL_ARG, const struct wl_task *t WL_ARG,
				  u32 from, u32 cpu)
{
	struct wl_group_cpu *theirs = wl_group_cpu_at(p, t->group, from);
	struct wl_group_cpu *ours = wl_group_cpu_at(p, t->group, cpu);

	if (!t->group || !theirs || !ours)
		return 1;
	return wl_read_once(ours->load) < wl_read_once(theirs->load);
}

#endif /* WL_GROUPS_TASK_WEIGHT_H */
